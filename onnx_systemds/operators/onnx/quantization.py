"""Quantised operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.dims import Dim, Dims, divide_exactly, product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES, Value
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import SCALAR, View
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.onnx.alignment import Aligned
from onnx_systemds.operators.onnx.casting import FLOAT_FORMATS, integer_range
from onnx_systemds.operators.onnx.combining import finish, increased, infix
from onnx_systemds.operators.onnx.convolution import conv_windows, convolved, shifted_filters, shifted_input
from onnx_systemds.operators.onnx.linear import wrapped_result
from onnx_systemds.operators.onnx.requantizing import Parameters, applied, requantized
from onnx_systemds.operators.support.batch_rules import (
    mixes_all_but_first,
    mixes_in_product,
    mixes_in_quantized_product,
)
from onnx_systemds.operators.support.broadcasting import (
    FULL,
    Operand,
    Operands,
    broadcast_dims,
    expand_text,
    is_finite,
    operands,
)
from onnx_systemds.operators.support.movement import gathered, input_source
from onnx_systemds.operators.support.products import batch_product

batch_rule("QLinearConv")(mixes_all_but_first)
batch_rule("MatMulInteger")(mixes_in_product)
batch_rule("QLinearMatMul")(mixes_in_quantized_product)

MOST_TERMS = 33_025  # so many products of 8-bit integers less their zero points stay below 2^31


def _dtype_attribute(node: NodeFacts, name: str) -> str | None:
    """An element type given by number; None for 0 and in versions without the attribute."""
    number = node.attribute(name)
    return str(TensorProto.DataType.Name(int(number))).lower() if number else None


def quantized_dtype(node: NodeFacts) -> str:
    """The type of the zero point, else of the attribute (since opset 21), else uint8."""
    return node.dtype("y_zero_point") if node.has("y_zero_point") else _dtype_attribute(node, "output_dtype") or "uint8"


@shape_rule("QuantizeLinear")
def quantize_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The dims stay."""
    _assume_lengths(node)
    return (node.tensor(node.dims("x"), quantized_dtype(node)),)


@shape_rule("DequantizeLinear")
def dequantize_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The dims stay, the type is that of the scale unless (since opset 23) another is asked for."""
    _assume_lengths(node)
    return (node.tensor(node.dims("x"), _dtype_attribute(node, "output_dtype") or node.dtype("x_scale")),)


@batch_rule("QuantizeLinear", "DequantizeLinear")
def _scaling_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Scales for each place along the axis tell how long it is."""
    given = node.attribute("axis")  # none in opset 10, where it is 1: see `scaled_operands`
    if position != 0 or node.rank(1) > 1:
        return True
    single = product(node.dims(1)) == 1
    return not single and axis == node.normalize_axis(1 if given is None else int(given), node.rank("x"))


def scaled_operands(node: NodeView, statements: list[str]) -> Operands:
    """Input, scale and zero point (if any) in one view: per tensor, per axis (13) or per block (21)."""
    dims, scale = node.dims("x"), node.dims(1)
    positions = [0, 1, 2] if node.has(2) else [0, 1]
    if product(scale) == 1:
        return operands(Aligned(node, dict.fromkeys(positions[2:], scale)), positions, dims)
    axis = _scaled_axis(node)
    block = int(node.attribute("block_size") or 0)
    if not block:
        ones = [1] * (len(dims) - axis - 1)
        aligned: dict[int, Dims] = dict.fromkeys(positions[1:], (*scale, *ones))
        return operands(Aligned(node, aligned), positions, dims)
    blocks: Dim | None = divide_exactly(dims[axis], block)
    if blocks is None:
        return _partial_blocks(node, positions, axis, block, statements)
    whole = (*dims[:axis], blocks, block, *dims[axis + 1 :])
    part = (*scale[: axis + 1], 1, *scale[axis + 1 :])
    return operands(Aligned(node, {0: whole, **dict.fromkeys(positions[1:], part)}), positions, whole)


def _scaled_axis(node: NodeFacts) -> int:
    """The axis of scales that are several.

    Opset 10 knows no axis; onnxruntime and ONNX's reference take the one that is the default from 13 on.
    """
    given = node.attribute("axis")
    return node.normalize_axis(1 if given is None else int(given), node.rank("x"))


def _assume_lengths(node: NodeFacts) -> None:
    """Scales and zero points are one for each place of the axis, or for each block, or one for all."""
    if node.has(2) and product(node.dims(1)) == 1:
        node.assume_equal(node.size(2), 1, f"the number of elements of {quoted(node.name(2))}", "that of scales")
    if product(node.dims(1)) == 1:
        return
    if int(node.attribute("block_size") or 0):
        _assume_blocks(node, int(node.attribute("block_size")))
        return
    for position in (1, 2) if node.has(2) else (1,):
        if node.rank(position) != 1:
            shown = ", ".join(map(str, node.dims(position)))
            raise InvalidModel(f"input {position} of dims [{shown}] is no vector of numbers along the axis")
        node.assume_same_size((position, 0), (0, _scaled_axis(node)))


def _assume_blocks(node: NodeFacts, block: int) -> None:
    """Scales and zero points have the dims of the input, with a block for each place of the axis."""
    blocked = _scaled_axis(node)
    for position in (1, 2) if node.has(2) else (1,):
        if node.rank(position) != node.rank("x"):
            raise InvalidModel(f"input {position} of rank {node.rank(position)} for blocks of rank {node.rank('x')}")
        for axis, size in enumerate(node.dims("x")):
            if axis != blocked:
                node.assume_same_size((position, axis), (0, axis))
                continue
            count = (size + (block - 1)) // block
            node.assume_equal(node.dims(position)[axis], count, node.axis_words(position, axis), "the number of blocks")


def _partial_blocks(
    node: NodeView, positions: list[int], axis: int, block: int, statements: list[str]
) -> Operands:
    """As `scaled_operands` where the last block is (or, with dims of the run, may be) not full: scales are gathered."""
    length = node.dims("x")[axis]
    numbers = f"(seq(0, {node.dim(length - 1)}) %/% {block})"
    items, view = [], View(1, 1)
    for position in positions[1:]:
        source = input_source(node, position)
        finite = is_finite(node, position)
        moved = gathered(node, source, node.dims(position), axis, numbers, length, finite=finite)
        statements += moved.before
        items.append(Operand(f"({moved.text})", FULL))
        view = moved.view
    return Operands((Operand(node.view("x", view), FULL), *items), view)


def _in_precision(node: NodeView, quotient: Operand, precision: str) -> Operand:
    """A moderate quotient as a division in ``precision`` gives it: ties depend on it."""
    if precision == "float":
        return applied(node, "single_precision", quotient)
    if precision in ("float16", "bfloat16"):
        goal = FLOAT_FORMATS[precision]
        return applied(
            node, "round_to_float", quotient, goal.bits, goal.smallest, literal(goal.largest), literal(goal.beyond)
        )
    return quotient


@generator("QuantizeLinear", since=10)
@generator("QuantizeLinear", since=13)
@generator("QuantizeLinear", since=19)
@generator("QuantizeLinear", since=21)
@generator("QuantizeLinear", since=23)
def quantize_linear(node: NodeView) -> Fragment:
    """round(x / scale) + zero point within the type's range.

    Opset 13 brought scales per axis, 19 float8, 21 blocks and the output's type, 23 the precision of the division.
    """
    statements: list[str] = []
    given = scaled_operands(node, statements)
    target = node.output_dtype()
    precision = _dtype_attribute(node, "precision") or node.dtype("y_scale")
    quotient = _quotient(node, given, precision)
    if target not in INTEGER_DTYPES:
        return node.fragment(statements) + _to_small_float(node, given, quotient, target)
    low, high = integer_range(target)
    zero = _one_zero(node)
    # cut off first, infinities among it: what is out of range, or beyond the reach of any zero point
    bounds = (low - high - 1, high - low + 1) if zero is None else (low - zero, high - zero)
    # many zeros would have the engine make a matrix sparse, and dense again where the zero point is added
    lowest = -0.25 if bounds[0] == 0 else bounds[0]
    near = Operand(f"min(max({quotient.text}, {lowest}), {bounds[1]})", quotient.kind)
    near = _in_precision(node, near, precision)
    function, *shift = ("nearest_integer_plus", literal(zero)) if zero else ("nearest_integer",)
    whole = applied(node, function, near, *shift)
    if zero is not None:
        return node.fragment(statements) + finish(node, whole, given)
    whole = infix(node, "+", whole, given.items[2], given.form)
    text = f"min(max({whole.text}, {literal(low)}), {literal(high)})"
    return node.fragment(statements) + finish(node, Operand(text, whole.kind), given)


def _one_zero(node: NodeView) -> float | None:
    """The zero point of all elements (0 where none is given), if there is one and it is known."""
    if not node.has(2):
        return 0
    known = node.constant(2)
    if known is None or known.size != 1:
        return None
    return int(known.item()) if node.dtype(2) in INTEGER_DTYPES else float(known.item())


def _quotient(node: NodeView, given: Operands, precision: str) -> Operand:
    """x / scale. Where it is rounded to FP32 after, x * (1 / scale) gives the same, and is several times faster.

    The quotient of two FP32 numbers is by 2^-49 of itself away from the middle between two FP32 numbers at least, what
    the inverse brings is 2^-52.
    """
    x, scale, known = given.items[0], given.items[1], node.constant("y_scale")
    is_single = node.dtype("x") == node.dtype("y_scale") == precision == "float"
    if not is_single or known is None or known.size != 1 or not known.item():
        return infix(node, "/", x, scale, given.form)
    return Operand(f"({x.text} * {literal(1 / float(known.item()))})", x.kind)


def _to_small_float(node: NodeView, given: Operands, quotient: Operand, target: str) -> Fragment:
    goal = FLOAT_FORMATS[target]
    if node.has("y_zero_point"):
        quotient = infix(node, "+", quotient, given.items[2], given.form)
    saturate = node.attribute("saturate") != 0
    beyond = goal.largest if saturate else goal.beyond
    rounding = (goal.bits, goal.smallest, literal(goal.largest), literal(beyond))
    return finish(node, applied(node, "round_to_float", quotient, *rounding), given)


@generator("DequantizeLinear", since=10)
@generator("DequantizeLinear", since=13)
@generator("DequantizeLinear", since=21)
@generator("DequantizeLinear", since=23)
def dequantize_linear(node: NodeView) -> Fragment:
    """(x - zero point) * scale; opset 13 brought scales per axis, 21 blocks, 23 the output's type."""
    statements: list[str] = []
    given = scaled_operands(node, statements)
    x, zero = given.items[0], _one_zero(node)
    if zero is not None:
        x = increased(x, -zero)
    else:
        x = infix(node, "-", x, given.items[2], given.form)
    return node.fragment(statements) + finish(node, infix(node, "*", x, given.items[1], given.form), given)


@shape_rule("MatMulInteger")
def matmul_integer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of a matrix product, 32-bit integers."""
    from onnx_systemds.operators.onnx.linear import matmul_dims

    return (node.tensor(matmul_dims(node, {0: node.dims("A"), 1: node.dims("B")}), "int32"),)


@shape_rule("QLinearMatMul")
def qlinear_matmul_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of a matrix product, type of the result's zero point."""
    from onnx_systemds.operators.onnx.linear import matmul_dims

    return (node.tensor(matmul_dims(node, {0: node.dims("a"), 3: node.dims("b")}), node.dtype("y_zero_point")),)


def shifted_product(node: NodeView, left: int, left_zero: int, right: int, right_zero: int) -> tuple[str, View]:
    """(A - its zero points) %*% (B - its zero points); batches of B are multiplied one by one."""
    a, b = node.dims(left), node.dims(right)
    b = (*b, 1) if len(b) == 1 else b
    a = (1, *a) if len(a) == 1 else a
    inner, cols = a[-1], b[-1]
    if product(b[:-2]) == 1:
        rows = product(a[:-1])
        x = _shifted(node, left, left_zero, View(rows, inner), rows)
        y = _shifted(node, right, right_zero, View(inner, cols), cols)
        return f"({x} %*% {y})", View(rows, cols)
    batch = broadcast_dims([a[:-2], b[:-2]])
    count, rows = product(batch), a[-2]
    own = View(product(a[:-1]), inner)
    x = _repeated(node, _shifted(node, left, left_zero, own, own.rows), own, a, (*batch, *a[-2:]))
    own = View(product(b[:-1]), cols)
    y = _repeated(node, _shifted(node, right, right_zero, own, cols), own, b, (*batch, *b[-2:]))
    return batch_product(node, x, y, count, rows, inner), View(count * rows, cols)


def _repeated(node: NodeView, text: str, form: View, dims: Dims, wanted: Dims) -> str:
    """The matrices of integers of a batch, repeated where ``wanted`` has further batches."""
    lead = (1,) * (len(wanted) - len(dims))
    pattern = [size == goal for size, goal in zip((*lead, *dims), wanted)]
    if all(pattern):
        return text
    view = View(product(wanted[:-1]), wanted[-1])
    return expand_text(node, text, form, pattern, wanted, view, finite=True)


def _shifted(node: NodeView, position: int, zero: int, view: View, lines: Dim) -> str:
    """An operand less its zero points: one, one for each row of A, or one for each column of B."""
    if not node.has(zero):
        return node.view(position, view)
    known, known_zero = node.constant(position), node.constant(zero)
    if known is not None and known_zero is not None and known_zero.size == 1 and _is_plain(view):
        shifted = known.astype(np.float64) - float(known_zero.ravel()[0])
        return node.constant_matrix(shifted.reshape(int(str(view.rows)), int(str(view.cols))), "shifted")
    matrix = node.view(position, view)
    return f"({matrix} - {_per_line(node, zero, view, lines)})"


def _is_plain(view: View) -> bool:
    return isinstance(view.rows, int) and isinstance(view.cols, int)


def _per_line(node: NodeView, position: int, view: View, lines: Dim) -> str:
    if node.size(position) == 1:
        return node.scalar(position)
    if node.size(position) != lines:
        raise UnsupportedCase(f"input {position} has other dims than one number for each row or column")
    is_left = position == 2
    return node.view(position, View(lines, 1) if is_left else View(1, lines))


@generator("MatMulInteger", since=10)
def matmul_integer(node: NodeView) -> Fragment:
    """A product of shifted 8-bit integers."""
    text, view = shifted_product(node, 0, 2, 1, 3)
    before: list[str] = []
    inner = node.dims("A")[-1]
    if not isinstance(inner, int) or inner > MOST_TERMS:
        text = wrapped_result(node, text, before)
    return node.result(text, view, before=before)


@generator("QLinearMatMul", since=10)
@generator("QLinearMatMul", since=21)
def qlinear_matmul(node: NodeView) -> Fragment:
    """A product of shifted 8-bit integers, requantised by the three scales; opset 21 adds types of the scales.

    The scale of A may be one for each row, that of B one for each column.
    """
    if any(node.size(position) != 1 for position in (6, 7)):
        raise UnsupportedCase("QLinearMatMul with more than one scale for the result")
    text, view = shifted_product(node, 0, 2, 3, 5)
    if node.size("a_scale") == 1:
        scaled = f"{text} * {_steps(node, View(1, view.cols))}"
    else:
        # the rows of a product of batches are those of all batches, its columns those of each
        rows = _scale_per_line(node, 1, view.rows, is_left=True)
        cols = _scale_per_line(node, 4, view.cols, is_left=False)
        scaled = f"{text} * {rows} * {cols} / {node.scalar('y_scale')}"
    return node.result(requantized(node, scaled, Parameters(node).number(7), node.dtype("y_zero_point")), view)


def _steps(node: NodeView, view: View) -> str:
    """(scale of A) * (scales of B) / (scale of the result) as FP32 gives them: a scalar, or a vector in a view."""
    scales = [node.constant(position) for position in (1, 4, 6)]
    known = [scale for scale in scales if scale is not None]
    if len(known) == len(scales):
        left, right, whole = (scale.ravel() for scale in known)
        steps = np.asarray(left * right / whole)
        if steps.size == 1:
            return literal(steps[0])
        return node.constant_matrix(steps.reshape(-1, 1) if view.cols == 1 else steps.reshape(1, -1), "steps")
    if node.size(4) == 1:
        product_ = node.call("single_precision", f"as.matrix({node.scalar(1)} * {node.scalar(4)})")
        return f"as.scalar({node.call('single_precision', f'{product_} / {node.scalar(6)}')})"
    if node.size(4) != view.rows * view.cols:
        raise UnsupportedCase("input 4 has other dims than one number for each row or column")
    product_ = node.call("single_precision", f"{node.view(4, view)} * {node.scalar(1)}")
    return node.call("single_precision", f"{product_} / {node.scalar('y_scale')}")


def _scale_per_line(node: NodeView, position: int, lines: Dim, *, is_left: bool) -> str:
    if node.size(position) == 1:
        return node.scalar(position)
    if node.size(position) != lines:
        raise UnsupportedCase(f"input {position} has other dims than one number for each row or column")
    return node.view(position, View(lines, 1) if is_left else View(1, lines))


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
    statements: list[str] = []
    inner = _IntegerConv(node)
    x, filters = shifted_input(inner, statements), shifted_filters(inner, statements)
    count = node.dims("w")[0]
    bias = node.view("B", View(count, 1)) if node.has("B") else None
    before, text, view = convolved(inner, x, filters, bias)
    # the product of a single image has a row per filter, else there is an image per row
    has_filter_rows = view.rows == count and node.dims("x")[0] == 1
    total = node.temporary("sums")
    statements += [*before, f"{total} = {text}"]
    steps = _steps(node, View(count, 1))
    is_vector = node.size("w_scale") != 1 and not has_filter_rows
    scaled = node.call("scaled_channels", total, steps) if is_vector else f"{total} * {steps}"
    text = requantized(node, scaled, Parameters(node).number(7), node.dtype("y_zero_point"))
    return node.result(text, view, before=statements)


@shape_rule("DynamicQuantizeLinear")
def dynamic_quantize_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Result, scale, zero point."""
    return node.tensor(node.dims("x"), "uint8"), node.tensor(()), node.tensor((), "uint8")


@generator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: NodeView) -> Fragment:
    """To uint8 by the range of the data and 0, in steps that are rounded as FP32 rounds them (ties depend on it)."""
    form = node.wanted_form() if node.wants(0) else node.known_form("x")
    view = View(1, 1) if form is SCALAR else form
    x = node.view("x", view)
    low, scale, zero = (node.temporary(hint) for hint in ("low", "step", "zero"))

    def narrowed(text: str) -> str:
        return node.call("single_precision", text)

    spread = narrowed(f"as.matrix(max(max({x}), 0) - {low})")
    before = [
        f"{low} = min(min({x}), 0)",
        f"{scale} = as.scalar({narrowed(f'{spread} / 255')})",
        f"{scale} = ifelse({scale} == 0, 1.0, {scale})",
        f"{zero} = as.scalar({node.call('nearest_integer', narrowed(f'as.matrix(-{low} / {scale})'))})",
    ]
    whole = node.call("nearest_integer", narrowed(f"{x} / {scale}"))
    fragment = node.result(f"min(max(bias_add({whole}, as.matrix({zero})), 0), 255)", view, before=before)
    return fragment + node.result(scale, SCALAR, 1) + node.result(zero, SCALAR, 2)
