"""Integer tensors that carry sizes, followed as arrays of dims while the graph is inferred.

``Shape``, ``Gather``, ``Concat`` and arithmetic on them usually vanish from the script: what remains
are the dims that their consumers ask for. The arrays have dtype object and hold dims. The rules of the operators stand
beside their generators, registered by `registry.size_rule`.
"""

from __future__ import annotations

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.registry import find, size_rules
from onnx_systemds.inference.values import INTEGER_DTYPES, Elements

MOST_ELEMENTS = 4096  # elements of the tensors that are followed


def evaluate(facts: NodeFacts) -> Elements | None:
    """The content of a node's first output as dims, None where it is not known."""
    rule = find(size_rules, facts.node.identity, facts.version)
    if rule is None:
        return None
    if rule.of_dims:
        return rule.compute(facts, ())
    inputs: list[Elements] = []
    for position in range(facts.input_count):
        if not facts.has(position):
            return None
        value = facts.value(position)
        if value.elements is not None:
            inputs.append(value.elements)
        elif value.constant is not None and value.constant.size <= MOST_ELEMENTS and _holds_sizes(value.dtype):
            inputs.append(value.constant.astype(object))
        else:
            return None
    result = rule.compute(facts, inputs)
    return result if result is not None and result.size <= MOST_ELEMENTS else None


def _holds_sizes(dtype: str) -> bool:
    return dtype in INTEGER_DTYPES or dtype == "bool"
