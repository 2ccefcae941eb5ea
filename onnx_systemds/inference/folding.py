"""Constant folding: nodes whose inputs are all known are computed while the graph is inferred."""

from __future__ import annotations

import numpy as np
from onnx.reference import ReferenceEvaluator

from onnx_systemds.inference.dims import product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.values import INTEGER_DTYPES, Value
from onnx_systemds.model import protos
from onnx_systemds.model.ir import Array, TensorType

LARGEST = 65_536  # elements; larger results are left to the engine, unless they are views of what is there

# deterministic operators for which ONNX's reference agrees with onnxruntime in every version from the given one on
_FOLDABLE = {
    "Abs": 6, "Add": 7, "And": 7, "Cast": 9, "Ceil": 6, "Concat": 4, "ConstantOfShape": 9, "Cos": 7, "Div": 7,
    "Equal": 7, "Exp": 6, "Expand": 8, "EyeLike": 9, "Flatten": 1, "Floor": 6, "Gather": 1, "GatherElements": 11,
    "GatherND": 11, "Greater": 7, "GreaterOrEqual": 12, "Identity": 1, "Less": 7, "LessOrEqual": 12, "Log": 6,
    "Max": 8, "Min": 8, "Mod": 10, "Mul": 7, "Neg": 6, "Not": 1, "Or": 7, "Pow": 7, "Range": 11,
    "Reciprocal": 6, "ReduceMax": 1, "ReduceMin": 1, "ReduceProd": 1, "ReduceSum": 1, "Reshape": 5,
    "ScatterND": 16, "Sign": 9, "Sin": 7, "Size": 1, "Slice": 1, "Split": 2, "Sqrt": 6, "Squeeze": 1, "Sub": 7,
    "Tile": 6, "Transpose": 1, "Trilu": 14, "Unsqueeze": 1, "Where": 9,
}  # fmt: skip


def fold(facts: NodeFacts, outputs: tuple[Value, ...]) -> tuple[Array | None, ...] | None:
    """The contents of all outputs, None where the node cannot or should not be computed now."""
    node = facts.node
    if node.domain or not node.inputs or node.version < _FOLDABLE.get(node.op_type, 1 << 30):
        return None
    constants = [facts.constant(position) for position in range(facts.input_count)]
    if any(constant is None and facts.has(position) for position, constant in enumerate(constants)):
        return None
    view = _view(facts, outputs)
    if view is not None:
        return (view,)
    if any(output.dims is not None and not _is_small(output) for output in outputs):
        return None
    if any(constant is not None and constant.size > LARGEST for constant in constants):
        return None
    if node.op_type == "Cast" and "string" in (facts.dtype(0), outputs[0].dtype):
        return None  # the reference takes every string that is not empty for true
    if node.op_type == "Div" and facts.dtype(0) in INTEGER_DTYPES and not _all_positive(constants):
        return None  # ONNX truncates, the reference floors
    return _evaluate(facts, constants)


def _is_small(output: Value) -> bool:
    size = product(output.dims or ())
    return isinstance(size, int) and size <= LARGEST


def _all_positive(constants: list[Array | None]) -> bool:
    return all(constant is not None and bool(np.all(constant >= 0)) for constant in constants)


def _view(facts: NodeFacts, outputs: tuple[Value, ...]) -> Array | None:
    """Data movements that numpy does without a copy, whatever the size."""
    content, dims = facts.constant(0), outputs[0].dims
    if content is None or dims is None or not all(isinstance(dim, int) for dim in dims):
        return None
    if facts.node.op_type == "Transpose":
        return np.transpose(content, facts.attribute("perm"))
    if facts.node.op_type in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
        return content.reshape([dim for dim in dims if isinstance(dim, int)])
    return content if facts.node.op_type == "Identity" else None


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
