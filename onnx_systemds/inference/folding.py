"""Constant folding: nodes whose inputs are all known are computed while the graph is inferred.

The rules of the operators stand beside their generators, registered by `registry.fold`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx.reference import ReferenceEvaluator

from onnx_systemds.inference.dims import product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.registry import find, folds
from onnx_systemds.inference.values import Value
from onnx_systemds.model import protos
from onnx_systemds.model.ir import Array, TensorType

LARGEST = 65_536  # elements; larger results are left to the engine


def folded(facts: NodeFacts, outputs: tuple[Value, ...]) -> Sequence[Array | None] | None:
    """The contents of all outputs, None where the node cannot or should not be computed now."""
    rule = find(folds, facts.node.identity, facts.version)
    if rule is None or not facts.node.inputs:
        return None
    if any(facts.has(position) and facts.constant(position) is None for position in range(facts.input_count)):
        return None
    return rule(facts, outputs)


def by_reference(facts: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None] | None:
    """Contents as ONNX's reference computes them, where they are small and it does.

    For deterministic operators, from the version on in which it agrees with onnxruntime.
    """
    constants = [facts.constant(position) for position in range(facts.input_count)]
    if any(output.dims is not None and not _is_small(output) for output in outputs):
        return None
    if any(constant is not None and constant.size > LARGEST for constant in constants):
        return None
    return _evaluate(facts, constants)


def _is_small(output: Value) -> bool:
    size = product(output.dims or ())
    return isinstance(size, int) and size <= LARGEST


def _evaluate(facts: NodeFacts, constants: list[Array | None]) -> tuple[Array | None, ...] | None:
    node = facts.node
    types = {
        name: TensorType(facts.dtype(position), tuple(constant.shape))
        for position, (name, constant) in enumerate(zip(node.inputs, constants))
        if constant is not None
    }
    names = [name for name in node.outputs if name]
    model = protos.single_node_model(node, types, names)
    feeds = {name: constant for name, constant in zip(node.inputs, constants) if constant is not None}
    try:
        with np.errstate(all="ignore"):
            computed = dict(zip(names, ReferenceEvaluator(model).run(None, feeds)))
    except Exception:  # the reference raises whatever numpy and its own lookups do
        return None  # the engine will say what is wrong, if anything is
    return tuple(np.asarray(computed[name]) if name in computed else None for name in node.outputs)
