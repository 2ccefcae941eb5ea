"""Matrix products, convolutions and means of quantised numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.registry import expander, generator, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Expansion, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.linear import added_operand, assume_added
from onnx_systemds.operators.onnx.requantizing import Number, Parameters, requantized, unshifted
from onnx_systemds.operators.support.products import single_product


@expander("QLinearReduceMean", domain=CONTRIB)
def qlinear_reduce_mean(node: Expansion) -> None:
    """The mean of dequantised numbers, quantised."""
    x = node.emit("DequantizeLinear", node.input("data"), node.input("data_scale"), node.input("data_zero_point"))
    axes = node.attribute("axes")
    keepdims = int(node.attribute("keepdims"))
    mean = node.emit("ReduceMean", x, node.known(axes) if axes else "", keepdims=keepdims)
    zero = node.input("reduced_zero_point") or node.known(0, node.dtype("data"))
    node.emit("QuantizeLinear", mean, node.input("reduced_scale"), zero, to=node.output())


@expander("QLinearConv", domain=CONTRIB)
def qlinear_conv(node: Expansion) -> None:
    """ONNX's QLinearConv; image and result may have their channels last, the filters are as there."""
    attributes: dict[str, Any] = {name: item for name, item in node.node.attributes.items() if name != "channels_last"}
    image, *others = node.first_inputs(9)
    if not node.attribute("channels_last"):
        node.emit("QLinearConv", image, *others, to=node.output(), **attributes)
        return
    rank = node.rank("x")
    result = node.emit("QLinearConv", node.channels_first(image, rank), *others, **attributes)
    node.channels_last(result, rank, to=node.output())


@expander("MatMulInteger16", domain=CONTRIB)
def matmul_integer16(node: Expansion) -> None:
    """A product of 16-bit integers in 32 bits."""
    wide = "uint32" if node.dtype("A") == node.dtype("B") == "uint16" else "int32"
    node.emit("MatMul", node.cast(node.input("A"), wide), node.cast(node.input("B"), wide), to=node.output())


# --- products that give floats -----------------------------------------------------------------------------------


@expander("DynamicQuantizeMatMul", domain=CONTRIB)
def dynamic_quantize_matmul(node: Expansion) -> None:
    """A is quantised by its range, then multiplied."""
    numbers, scale, zero = (node.fresh(hint) for hint in ("numbers", "scale", "zero"))
    node.emit_several("DynamicQuantizeLinear", [numbers, scale, zero], node.input("A"))
    _float_product(node, numbers, scale, zero, positions=(1, 2, 3, 4))


@expander("MatMulIntegerToFloat", domain=CONTRIB)
def matmul_integer_to_float(node: Expansion) -> None:
    """A product of integers in floats, plus a bias."""
    _float_product(node, node.input("A"), node.input("a_scale"), node.input("a_zero_point"), positions=(1, 3, 5, 6))


def _float_product(node: Expansion, a: str, scale: str, zero: str, *, positions: tuple[int, int, int, int]) -> None:
    """``positions``: of B, its scales, its zero points, the bias."""
    b, b_scale, b_zero, bias = (node.input(position) for position in positions)
    dtype = "uint8" if node.dtype("A") not in ("uint8", "int8") else node.dtype("A")
    if b_zero and not zero:
        zero = node.known(0, dtype)
    sums = node.emit("MatMulInteger", a, b, zero, b_zero)
    factors = node.emit("CastLike", sums, scale), node.emit("Mul", scale, b_scale)
    scaled = node.emit("Mul", *factors, to="" if bias else node.output())
    if bias:
        node.emit("Add", scaled, bias, to=node.output())


# --- QGemm -------------------------------------------------------------------------------------------------------

_A, _A_SCALE, _A_ZERO, _B, _B_SCALE, _B_ZERO, _C, _Y_SCALE, _Y_ZERO = range(9)


@shape_rule("QGemm", domain=CONTRIB)
def qgemm_rule(node: NodeFacts) -> tuple[Value, ...]:
    """M x N; floats where the result has no zero point."""
    rows = node.dims(_A)[1 if node.attribute("transA") else 0]
    cols = node.dims(_B)[0 if node.attribute("transB") else 1]
    if node.has(_C):
        assume_added(node, (rows, cols), _C)
    return (node.tensor((rows, cols), node.dtype(_Y_ZERO) if node.has(_Y_ZERO) else "float"),)


@generator("QGemm", since=1, domain=CONTRIB)
def qgemm(node: NodeView) -> Fragment:
    """alpha * (A - zero point) %*% (B - zero points) plus a 32-bit C, in all scales."""
    steps = Parameters(node)
    rows, cols = node.output_dims()
    inner = node.dims(_A)[0 if node.attribute("transA") else 1]
    total = f"({single_product(node, _left(node, steps), _right(node, steps, cols), (rows, inner, cols))})"
    if node.has(_C):
        total = f"({total} + {added_operand(node, rows, cols)})"
    text = f"{total} * {_factor(node, steps, cols)}"
    if node.has(_Y_ZERO):
        text = requantized(node, text, steps.number(_Y_ZERO), node.output_dtype())
    return node.result(text, View(rows, cols))


def _left(node: NodeView, steps: Parameters) -> str:
    zero = steps.number(_A_ZERO)
    a = unshifted(node.matrix(_A, 1), zero)
    return f"t({a})" if node.attribute("transA") else a


def _right(node: NodeView, steps: Parameters, cols: Dim) -> str:
    """B less its zero points, a column for each column of the result; known weights are stored like that."""
    flipped = bool(node.attribute("transB"))
    weight, zero = node.constant(_B), node.constant(_B_ZERO)
    if weight is not None and zero is not None:
        whole = weight.astype(np.float64)
        return node.constant_matrix((whole.T if flipped else whole) - zero.astype(np.float64), "weight")
    b = f"t({node.matrix(_B, 1)})" if flipped else node.matrix(_B, 1)
    offset = steps.number(_B_ZERO).text if node.size(_B_ZERO) == 1 else node.view(_B_ZERO, View(1, cols))
    return f"({b} - {offset})"


def _factor(node: NodeView, steps: Parameters, cols: Dim) -> str:
    """What a sum of products is multiplied by: one number, or one for each column."""
    scale = steps.combined(Number.of(float(node.attribute("alpha"))), "*", steps.number(_A_SCALE))
    goal = steps.number(_Y_SCALE, 1.0)
    if node.size(_B_SCALE) == 1:
        return steps.combined(steps.combined(scale, "*", steps.number(_B_SCALE)), "/", goal).text
    if node.size(_B_SCALE) != cols:
        raise UnsupportedCase("QGemm needs one scale of B, or one for each column")
    known = node.constant(_B_SCALE)
    if known is not None and scale.known is not None and goal.known is not None:
        row = np.float32(scale.known) * known.astype(np.float32) / np.float32(goal.known)
        return node.constant_matrix(row.reshape(1, -1), "steps")
    row_text = node.call("single_precision", f"{node.view(_B_SCALE, View(1, cols))} * {scale.text}")
    return node.call("single_precision", f"{row_text} / {goal.text}")


# --- plain integers ----------------------------------------------------------------------------------------------


@expander("MulInteger", domain=CONTRIB)
def mul_integer(node: Expansion) -> None:
    """The product of two quantised tensors without their zero points, as int32."""
    factors = []
    for position in (0, 2):
        factor = node.cast(node.input(position), "int32")
        if node.has(position + 1):
            factor = node.emit("Sub", factor, node.cast(node.input(position + 1), "int32"))
        factors.append(factor)
    node.emit("Mul", *factors, to=node.output())


@expander("ReduceSumInteger", domain=CONTRIB)
def reduce_sum_integer(node: Expansion) -> None:
    """A sum as an integer of 32 bits, with a sign where the elements have one."""
    wide = node.cast(node.input("data"), "uint32" if node.dtype("data").startswith("u") else "int32")
    axes = node.known([int(axis) for axis in node.attribute("axes")])
    node.emit("ReduceSum", wide, axes, to=node.output(), keepdims=int(node.attribute("keepdims")))
