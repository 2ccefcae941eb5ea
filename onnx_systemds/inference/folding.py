"""What rules of constant folding are made of (`registry.fold`): results as ONNX's reference computes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx.reference import ReferenceEvaluator

from onnx_systemds.inference.dims import product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.values import Value
from onnx_systemds.model import protos
from onnx_systemds.model.ir import Array, TensorType

MOST_ELEMENTS = 65_536  # elements; larger results are left to the engine


def by_reference(facts: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None] | None:
    """Contents as ONNX's reference computes them, where they are small and it does.

    For deterministic operators, from the version on in which it agrees with onnxruntime.
    """
    constants = [facts.constant(position) for position in range(facts.input_count)]
    if any(output.dims is not None and not is_small(output) for output in outputs):
        return None
    if any(constant is not None and constant.size > MOST_ELEMENTS for constant in constants):
        return None
    return _evaluate(facts, constants)


def is_small(output: Value) -> bool:
    """Whether a result is certainly small enough to be computed at conversion."""
    size = product(output.dims or ())
    return isinstance(size, int) and size <= MOST_ELEMENTS


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
