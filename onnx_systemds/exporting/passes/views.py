"""Tensors that only a Reshape gives other dims: offsets of products, elementwise operators between Reshapes, means."""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.correspondence import ELEMENTWISE
from onnx_systemds.exporting.graph.nodes import FLOAT, Node, Tensor, made_by, pairs
from onnx_systemds.exporting.passes.fusing import Fusing, number_of, reduced_axes
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.known_dims import as_ints

_MORE = ("Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Tanh")
_DEEPEST = 20
_MOST_OFFSETS = 1 << 16


def offset_of_view(fusing: Fusing, node: Node) -> bool:
    """Known offsets added to a product that is seen with other dims behind the rows."""
    result = node.outputs[0]
    for viewed, other in pairs(node):
        product, known = fusing.single(viewed, "Reshape", "MatMul"), other.constant
        if product is None or known is None or viewed.dims != result.dims or product.outputs[0].rank != 2:
            continue
        rows, count = product.outputs[0].dims
        own = as_ints(result.dims[1:])
        if own is None or math.prod(own) != count or math.prod(own) > _MOST_OFFSETS or result.dims[:1] != (rows,):
            continue
        if product.operand().rank != 2 or (known.ndim == result.rank and known.shape[0] != 1):
            continue
        offsets = np.broadcast_to(known, (1, *own)).reshape(1, -1)
        bias = fusing.builder.constant(offsets, FLOAT, other.hint)
        whole = Tensor(FLOAT, product.outputs[0].dims)
        return fusing.become_reshaped(node, "Gemm", [*product.inputs, bias], whole)
    return False


def unviewed(fusing: Fusing, node: Node) -> bool:
    """What is calculated with other dims, for whose sake tensors are reshaped before and after it."""
    dims, made = node.outputs[0].dims, node.operand().node
    if made is None or not _is_saved(fusing, node.operand(), dims):
        return False
    return fusing.become(node, made.op, _with_dims(fusing, made, dims, node), **made.attributes)


def _is_saved(fusing: Fusing, tensor: Tensor, dims: Dims, depth: int = 0) -> bool:
    """Whether an elementwise operator of its own makes a tensor of what had these dims before a Reshape."""
    op = "" if tensor.node is None else tensor.node.op
    made = fusing.single(tensor, op) if op in _MORE or (op in ELEMENTWISE and op != "Identity") else None
    if made is None or depth > _DEEPEST or len(made.outputs) > 1 or None in made.inputs:
        return False
    operands = made.given()
    is_computed = any(operand.constant is None for operand in operands)
    return is_computed and all(_is_free(fusing, operand, tensor, dims, depth + 1) for operand in operands)


def _is_free(fusing: Fusing, operand: Tensor, result: Tensor, dims: Dims, depth: int) -> bool:
    """Whether what a result is made of is known, had these dims before Reshapes, or may be made with them."""
    if operand.constant is not None:
        return operand.is_single or (operand.dims == result.dims and as_ints(dims) is not None)
    if operand.dims == dims:
        return True
    if operand.dims != result.dims and not result.is_single:
        return False
    before = made_by(operand, "Reshape")
    if before is None:
        return _is_saved(fusing, operand, dims, depth)
    if before.operand().dims == dims:
        return True
    return fusing.single(operand, "Reshape") is before and _is_saved(fusing, before.operand(), dims, depth)


def _with_dims(fusing: Fusing, made: Node, dims: Dims, place: Node) -> list[Tensor]:
    """Return the inputs of a node, for which `_is_saved` holds, with other dims, made before another node."""
    found: list[Tensor] = []
    for operand in made.given():
        if operand.constant is not None:
            content = operand.constant.reshape(() if operand.is_single else as_ints(dims) or ())
            found.append(fusing.builder.constant(content, operand.kind, operand.hint))
            continue
        before = None if operand.dims == dims else made_by(operand, "Reshape")
        source = operand if before is None else before.operand()
        if source.dims != dims:
            assert source.node is not None
            inputs = _with_dims(fusing, source.node, dims, place)
            whole = Tensor(source.kind, dims, source.hint)
            fusing.uses[whole] = 1
            source = fusing.inserted(place, source.node.op, inputs, whole, source.node.attributes)
        found.append(source)
    return found


def mean(fusing: Fusing, node: Node) -> bool:
    """A sum along axes, divided by the number of what is added."""
    summed = fusing.single(node.inputs[0], "ReduceSum")
    axes, number = reduced_axes(summed), number_of(node.inputs[1])
    if summed is None or axes is None or number is None or node.outputs[0].dims != summed.outputs[0].dims:
        return False
    x = summed.operand()
    sizes = as_ints(tuple(x.dims[axis] for axis in axes))
    if sizes is None or math.prod(sizes) != number or not number or x.kind != FLOAT:
        return False
    inputs, attributes = fusing.builder.along("ReduceMean", axes)
    return fusing.become(node, "ReduceMean", [x, *inputs], **attributes, keepdims=summed.integer("keepdims"))
