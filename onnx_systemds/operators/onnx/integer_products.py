"""Products and convolutions of quantised matrices and images, in integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.assumptions import Relation, certainly_differ
from onnx_systemds.inference.broadcast_dims import broadcast_dims
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.convolution import conv_windows, convolved, shifted_filters, shifted_input
from onnx_systemds.operators.onnx.linear import matmul_dims, wrapped_result
from onnx_systemds.operators.onnx.requantizing import Parameters, requantized
from onnx_systemds.operators.onnx.wrapping import may_wrap
from onnx_systemds.operators.support.batch_rules import (
    mixes_all_but_first,
    mixes_in_product,
    mixes_in_quantized_product,
)
from onnx_systemds.operators.support.broadcasting import expand_text, varies
from onnx_systemds.operators.support.products import batch_product, single_product

batch_rule("QLinearConv")(mixes_all_but_first)

_A_ZERO = 2
"""The position of the zero points of the left matrix, which is the first input."""


@shape_rule("MatMulInteger")
def matmul_integer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of a matrix product, 32-bit integers."""
    _assume_lines(node, (2,), (3,), 1)
    return (node.tensor(matmul_dims(node, {0: node.dims("A"), 1: node.dims("B")}), "int32"),)


@shape_rule("QLinearMatMul")
def qlinear_matmul_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of a matrix product, type of the result's zero point."""
    _assume_lines(node, (1, 2), (4, 5), 3)
    return (node.tensor(matmul_dims(node, {0: node.dims("a"), 3: node.dims("b")}), node.dtype("y_zero_point")),)


def _assume_lines(node: NodeFacts, of_rows: Iterable[int], of_columns: Iterable[int], right: int) -> None:
    """Take parameters of open length to have a number for each row of the left matrix, each column of the right one."""
    a, b = node.dims(0), node.dims(right)
    for position in of_rows:
        _assume_length(node, position, product(a[:-1]), "the number of rows")
    for position in of_columns:
        _assume_length(node, position, b[-1] if len(b) > 1 else 1, "the number of columns")


def _assume_length(node: NodeFacts, position: int, lines: Dim, words: str) -> None:
    length = node.size(position) if node.has(position) else 1
    if length not in (1, lines) and not (isinstance(length, int) and isinstance(lines, int)):
        own_words = f"the length of {quoted(node.name(position))}"
        node.assume_equal(length, lines, own_words, words, Relation.BROADCAST)


@batch_rule("MatMulInteger")
def _mixes_integers(node: NodeFacts, position: int, axis: int) -> bool:
    """As a product; a zero point for each row or column, whose number is open, is of all of them."""
    return mixes_in_product(node, position, axis) or _is_by_line(node, (2,) if position == 0 else (3,))


@batch_rule("QLinearMatMul")
def _mixes_quantized(node: NodeFacts, position: int, axis: int) -> bool:
    """As a product; a scale for each row or column, whose number is open, is of all of them."""
    return mixes_in_quantized_product(node, position, axis) or _is_by_line(node, (1, 2) if position == 0 else (4, 5))


def _is_by_line(node: NodeFacts, positions: Iterable[int]) -> bool:
    return any(node.has(position) and not isinstance(node.size(position), int) for position in positions)


def shifted_product(node: NodeView, right: int, right_zero: int) -> tuple[str, View]:
    """(A - its zero points) %*% (B - its zero points); batches of B are multiplied one by one."""
    a, b = node.dims(0), node.dims(right)
    b = (*b, 1) if len(b) == 1 else b
    a = (1, *a) if len(a) == 1 else a
    inner, cols = a[-1], b[-1]
    if product(b[:-2]) == 1:
        rows = product(a[:-1])
        x = _shifted(node, 0, _A_ZERO, View(rows, inner), rows)
        y = _shifted(node, right, right_zero, View(inner, cols), cols)
        return f"({single_product(node, x, y, (rows, inner, cols))})", View(rows, cols)
    batch = broadcast_dims([a[:-2], b[:-2]])
    count, rows = product(batch), a[-2]
    own = View(product(a[:-1]), inner)
    x = _repeated(node, _shifted(node, 0, _A_ZERO, own, own.rows), own, a, (*batch, *a[-2:]))
    own = View(product(b[:-1]), cols)
    y = _repeated(node, _shifted(node, right, right_zero, own, cols), own, b, (*batch, *b[-2:]))
    return batch_product(node, x, y, count, (rows, inner, cols)), View(count * rows, cols)


def _repeated(node: NodeView, text: str, form: View, dims: Dims, wanted: Dims) -> str:
    """The matrices of integers of a batch, repeated where ``wanted`` has further batches."""
    pattern = varies(dims, wanted)
    if all(pattern):
        return text
    view = View(product(wanted[:-1]), wanted[-1])
    return expand_text(node, text, form, pattern, wanted, view, finite=True)


def _shifted(node: NodeView, position: int, zero: int, view: View, lines: Dim) -> str:
    """An operand less its zero points: one, one for each row of A, or one for each column of B."""
    if not node.has(zero):
        return node.view(position, view)
    known, known_zero = node.constant(position), node.constant(zero)
    if known is not None and known_zero is not None and known_zero.size == 1 and all_known(view):
        shifted = known.astype(np.float64) - float(known_zero.ravel()[0])
        return node.constant_matrix(shifted.reshape(view.known), "shifted")
    matrix = node.view(position, view)
    return f"({matrix} - {_per_line(node, zero, lines, is_left=zero == _A_ZERO)})"


def _per_line(node: NodeView, position: int, lines: Dim, *, is_left: bool) -> str:
    """A parameter: one number, or one for each row of A or column of B."""
    if node.size(position) == 1:
        return node.scalar(position)
    if certainly_differ(node.size(position), lines):
        raise UnsupportedCase(f"input {position} has other dims than one number for each row or column")
    return node.view(position, View(lines, 1) if is_left else View(1, lines))


@generator("MatMulInteger", since=10)
def matmul_integer(node: NodeView) -> Fragment:
    """A product of shifted 8-bit integers."""
    text, view = shifted_product(node, 1, 3)
    return node.result(wrapped_result(node, text) if may_wrap(node.dims("A")[-1]) else text, view)


@generator("QLinearMatMul", since=(10, 21))
def qlinear_matmul(node: NodeView) -> Fragment:
    """A product of shifted 8-bit integers, requantised by the three scales; opset 21 adds types of the scales.

    The scale of A may be one for each row, that of B one for each column.
    """
    if any(node.size(position) != 1 for position in (6, 7)):
        raise UnsupportedCase("QLinearMatMul with more than one scale for the result",
                              hint="one of open length is fixed to 1 by --dim")
    text, view = shifted_product(node, 3, 5)
    if node.size("a_scale") == 1:
        scaled = f"{text} * {_steps(node, View(1, view.cols))}"
    else:
        # the rows of a product of batches are those of all batches, its columns those of each
        rows = _per_line(node, 1, view.rows, is_left=True)
        cols = _per_line(node, 4, view.cols, is_left=False)
        # the engine refuses to compile three factors in a row where one of them has a single element
        scaled = f"{text} * {rows} / {node.scalar('y_scale')} * {cols}"
    return node.result(requantized(node, scaled, Parameters(node).number(7), node.dtype("y_zero_point")), view)


def _steps(node: NodeView, view: View) -> str:
    """(scale of A) * (scales of B) / (scale of the result) as FP32 gives them: a scalar, or a vector in a view."""
    scales = [node.constant(position) for position in (1, 4, 6)]
    known = [scale for scale in scales if scale is not None]
    if len(known) == len(scales):
        left, right, whole = (scale.ravel() for scale in known)
        with np.errstate(all="ignore"):
            steps = np.asarray(left * right / whole)
        if not np.isfinite(steps).all():
            raise UnsupportedCase("the scales give a step that is no finite number")
        if steps.size == 1:
            return literal(steps[0])
        return node.constant_matrix(steps.reshape(-1, 1) if view.cols == 1 else steps.reshape(1, -1), "steps")
    if node.size(4) == 1:
        product_ = node.call("single_precision", f"as.matrix({node.scalar(1)} * {node.scalar(4)})")
        return f"as.scalar({node.call('single_precision', f'{product_} / {node.scalar(6)}')})"
    if certainly_differ(node.size(4), view.rows * view.cols):
        raise UnsupportedCase("input 4 has other dims than one number for each row or column")
    product_ = node.call("single_precision", f"{node.view(4, view)} * {node.scalar(1)}")
    return node.call("single_precision", f"{product_} / {node.scalar('y_scale')}")


# --- QLinearConv -------------------------------------------------------------------------------------------------


class _IntegerConv(NodeView):
    """A QLinearConv seen with the inputs of ConvInteger: x, w and their zero points."""

    def __init__(self, node: NodeView) -> None:
        self.__dict__.update(node.__dict__)
        self.node = replace(node.node, inputs=tuple(node.node.inputs[position] for position in (0, 3, 2, 5)))


@shape_rule("QLinearConv")
def qlinear_conv_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch, filters, number of windows; type of the result's zero point."""
    filters = node.dims("w")[0]
    return (node.tensor((node.dims("x")[0], filters, *conv_windows(node, 3).outputs), node.dtype("y_zero_point")),)


@generator("QLinearConv", since=10)
def qlinear_conv(node: NodeView) -> Fragment:
    """A convolution of shifted integers plus 32-bit bias, requantised; weights may have a scale for each filter."""
    inner = _IntegerConv(node)
    x, filters = shifted_input(inner), shifted_filters(inner)
    count = node.dims("w")[0]
    bias = node.view("B", View(count, 1)) if node.has("B") else None
    text, view = convolved(inner, x, filters, bias)
    # the product of a single image has a row per filter, else there is an image per row
    has_filter_rows = view.rows == count and node.dims("x")[0] == 1
    total, steps = node.named("sums", text), _steps(node, View(count, 1))
    is_vector = node.size("w_scale") != 1 and not has_filter_rows
    scaled = node.call("scaled_channels", total, steps) if is_vector else f"{total} * {steps}"
    return node.result(requantized(node, scaled, Parameters(node).number(7), node.dtype("y_zero_point")), view)
