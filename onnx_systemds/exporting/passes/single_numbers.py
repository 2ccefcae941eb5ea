"""Single numbers: those that only a Reshape gives other axes, and those that two Slices read of a matrix."""

from __future__ import annotations

import numpy as np

from onnx_systemds.correspondence import ELEMENTWISE
from onnx_systemds.exporting.graph.nodes import Node, Tensor, cut_of, made_by
from onnx_systemds.exporting.passes.fusing import Fusing
from onnx_systemds.inference.dims import Dims

_DEEPEST = 20
"""So many operators, one after the other, are made with other dims."""


def reshaped_before(fusing: Fusing, node: Node) -> bool:
    """What is calculated of single numbers with other axes, for whose sake they are reshaped before and after it."""
    result, source = node.outputs[0], node.operand()
    if not result.is_single or not _saves(fusing, source, result.dims):
        return False
    made = source.node
    assert made is not None
    inputs = [_with_dims(fusing, tensor, result.dims, node) for tensor in made.given()]
    return fusing.become(node, made.op, inputs, **made.attributes)


def _saves(fusing: Fusing, tensor: Tensor, dims: Dims, depth: int = 0) -> bool:
    """Whether a number that an operator makes of numbers, and only one node uses, may have these dims at no cost."""
    op = "" if tensor.node is None else tensor.node.op
    made = fusing.single(tensor, op) if op in ELEMENTWISE and op != "Identity" and tensor.is_single else None
    operands = [] if made is None else made.given()
    return (made is not None and depth < _DEEPEST and len(operands) == len(made.inputs)
            and all(_is_free(fusing, operand, dims, depth + 1) for operand in operands))


def _is_free(fusing: Fusing, tensor: Tensor, dims: Dims, depth: int) -> bool:
    """Whether a number is known, has these dims, had them before a Reshape, or may be made with them."""
    if tensor.constant is not None:
        return tensor.constant.size == 1
    before = made_by(tensor, "Reshape")
    return (tensor.dims == dims or (before is not None and before.operand().dims == dims)
            or _saves(fusing, tensor, dims, depth))


def _with_dims(fusing: Fusing, tensor: Tensor, dims: Dims, place: Node) -> Tensor:
    """Return a number for which `_is_free` holds with other dims, made before a node."""
    if tensor.constant is not None:
        return fusing.builder.constant(tensor.constant.reshape([1] * len(dims)), tensor.kind)
    before, made = made_by(tensor, "Reshape"), tensor.node
    if tensor.dims == dims:
        return tensor
    if before is not None and before.operand().dims == dims:
        return before.operand()
    assert made is not None
    inputs = [_with_dims(fusing, operand, dims, place) for operand in made.given()]
    return fusing.inserted(place, made.op, inputs, Tensor(tensor.kind, dims, tensor.hint), made.attributes)


def inverse(fusing: Fusing, node: Node) -> bool:
    """A matrix of 1 divided by what has fewer axes: onnxruntime loses axes of the 1 where a product follows."""
    one, divisor = node.operand(0), node.operand(1)
    known = one.constant
    if known is None or known.size != 1 or known.item() != 1 or one.rank <= divisor.rank:
        return False
    viewed = fusing.viewed(divisor, node.outputs[0].dims, node)
    return viewed is not None and fusing.become(node, "Div", [fusing.builder.constant(np.ones(()), one.kind), viewed])


def cell(fusing: Fusing, node: Node) -> bool:
    """A Slice along one axis of a Slice along another one, at known positions."""
    before = fusing.single(node.inputs[0], "Slice")
    cuts = None if before is None else (cut_of(before), cut_of(node))
    if before is None or cuts is None or cuts[0] is None or cuts[1] is None or cuts[0][2] == cuts[1][2]:
        return False
    bounds = [fusing.builder.constant(list(pair)) for pair in zip(cuts[0], cuts[1])]
    return fusing.become(node, "Slice", [before.operand(), *bounds])
