"""Integer tensors that carry sizes, followed as arrays of dims while the graph is inferred.

``Shape``, ``Gather``, ``Concat`` and arithmetic on them usually vanish from the script: what remains
are the dims that their consumers ask for. The arrays have dtype object and hold dims. The rules of the operators stand
beside their generators, registered by `registry.size_rule`.
"""

from __future__ import annotations

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.registry import find, size_rules
from onnx_systemds.inference.values import INTEGER_DTYPES, Elements
from onnx_systemds.limits import TooLong

MOST_ELEMENTS = 4096  # elements of the tensors that are followed


def evaluate(facts: NodeFacts) -> tuple[Elements, ...]:
    """The contents of a node's outputs as dims; none where they are not known, or its rule tells fewer."""
    rule = find(size_rules, facts.node.identity, facts.version)
    if rule is None:
        return ()
    if rule.of_dims:
        return _several(rule.compute(facts, ()))
    inputs: list[Elements] = []
    for position in range(facts.input_count):
        if not facts.has(position):
            return ()
        value = facts.value(position)
        if value.elements is not None:
            inputs.append(value.elements)
        elif value.constant is not None and value.constant.size <= MOST_ELEMENTS and _holds_sizes(value.dtype):
            inputs.append(value.constant.astype(object))
        else:
            return ()
    try:
        results = _several(rule.compute(facts, inputs))
    except TooLong:  # the run computes what is too long to be followed
        return ()
    return results if all(result.size <= MOST_ELEMENTS for result in results) else ()


def _several(found: Elements | tuple[Elements, ...] | None) -> tuple[Elements, ...]:
    return () if found is None else found if isinstance(found, tuple) else (found,)


def _holds_sizes(dtype: str) -> bool:
    return dtype in INTEGER_DTYPES or dtype == "bool"
