"""Quantising and back: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.dml.literals import is_uniform, literal
from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.dims import Dim, Dims, divide_exactly, product
from onnx_systemds.inference.finite_numbers import holds_finite_numbers
from onnx_systemds.inference.registry import batch_rule, fold, generator, gradient, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model.ir import Array
from onnx_systemds.model.protos import element_name, integer_range
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.alignment import Aligned
from onnx_systemds.operators.onnx.casting import FLOAT_FORMATS, NO_NAN
from onnx_systemds.operators.onnx.combining import as_matrix, finish, increased, infix
from onnx_systemds.operators.onnx.requantizing import applied, saturated
from onnx_systemds.operators.support.broadcasting import COLUMN, FULL, SINGLE, Operand, Operands, operands
from onnx_systemds.operators.support.movement import gathered, input_source
from onnx_systemds.operators.support.selection_products import is_finite


def _dtype_attribute(node: NodeFacts, name: str) -> str | None:
    """An element type given by number; None for 0 and in versions without the attribute."""
    number = node.attribute(name)
    return element_name(int(number)) if number else None


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
    if position != 0 or node.rank(1) > 1:
        return True
    return product(node.dims(1)) != 1 and axis == _scaled_axis(node)


def scaled_operands(node: NodeView, *, shifted: bool) -> Operands:
    """Input, scale and (if ``shifted``) zero point in one view: per tensor, per axis (13) or per block (21)."""
    dims, scale = node.dims("x"), node.dims(1)
    positions = [0, 1, 2] if shifted else [0, 1]
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
        return _partial_blocks(node, positions, axis, block)
    whole = (*dims[:axis], blocks, block, *dims[axis + 1 :])
    part = (*scale[: axis + 1], 1, *scale[axis + 1 :])
    return operands(Aligned(node, {0: whole, **dict.fromkeys(positions[1:], part)}), positions, whole)


def _scaled_axis(node: NodeFacts) -> int:
    """The axis of scales that are several.

    Opset 10 knows no axis; onnxruntime and ONNX's reference take the one that is the default from 13 on.
    """
    return node.axis(default=1)


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


def _partial_blocks(node: NodeView, positions: list[int], axis: int, block: int) -> Operands:
    """As `scaled_operands` where the last block is (or, with dims of the run, may be) not full: scales are gathered."""
    length = node.dims("x")[axis]
    numbers = f"(seq(0, {node.dim(length - 1)}) %/% {block})"
    items, view = [], View(1, 1)
    for position in positions[1:]:
        source = input_source(node, position)
        finite = is_finite(node, position)
        moved = gathered(node, source, node.dims(position), axis, numbers, length, finite=finite)
        items.append(Operand(f"({moved.text})", FULL))
        view = moved.view
    return Operands((Operand(node.view("x", view), FULL), *items), view)


def _in_precision(node: NodeView, quotient: Operand, precision: str) -> Operand:
    """A moderate quotient as a division in ``precision`` gives it: ties depend on it."""
    if precision == "float":
        return applied(node, "single_precision", quotient)
    if precision in ("float16", "bfloat16"):
        return applied(node, "round_to_float", quotient, *FLOAT_FORMATS[precision].rounding())
    return quotient


@generator("QuantizeLinear", since=(10, 13, 19, 21, 23))
def quantize_linear(node: NodeView) -> Fragment:
    """round(x / scale) + zero point within the type's range.

    Opset 13 brought scales per axis, 19 float8, 21 blocks and the output's type, 23 the precision of the division.
    """
    target, zero = node.output_dtype(), _one_zero(node)
    given = scaled_operands(node, shifted=node.has(2) and (zero is None or target not in INTEGER_DTYPES))
    precision = _dtype_attribute(node, "precision") or node.dtype("y_scale")
    quotient = _quotient(node, given, precision)
    if target not in INTEGER_DTYPES:
        return _to_small_float(node, given, quotient, precision, target)
    low, high = integer_range(target)
    # cut off first, infinities among it: what is out of range, or beyond the reach of any zero point
    bounds = (low - high - 1, high - low + 1) if zero is None else (low - zero, high - zero)
    # many zeros would have the engine make a matrix sparse, and dense again where the zero point is added
    lowest = -0.25 if bounds[0] == 0 else bounds[0]
    near = _lowest_for_nan(node, Operand(f"min(max({quotient.text}, {lowest}), {bounds[1]})", quotient.kind), lowest)
    near = _in_precision(node, near, precision)
    function, *shift = ("nearest_integer_plus", literal(zero)) if zero else ("nearest_integer",)
    whole = applied(node, function, near, *shift)
    if zero is not None:
        return finish(node, whole, given)
    whole = infix(node, "+", whole, given.items[2], given.form)
    return finish(node, Operand(saturated(whole.text, target), whole.kind), given)


def _one_zero(node: NodeView) -> float | None:
    """The zero point of all elements (0 where none is given), if there is one and it is known."""
    if not node.has(2):
        return 0
    known = node.constant(2)
    if known is None or not known.size or not is_uniform(known):
        return None
    first = known.ravel()[0]
    return int(first) if node.dtype(2) in INTEGER_DTYPES else float(first)


def _lowest_for_nan(node: NodeView, quotient: Operand, lowest: float) -> Operand:
    """The lowest number for NaN, as onnxruntime has it: of the data, of infinities and of a scale of 0.

    onnxruntime's quantizer gives masks of -Infinity an infinite scale.
    """
    known = node.constant("y_scale")
    if known is not None and known.all() and np.isfinite(known).all() and holds_finite_numbers(node.value(0)):
        return quotient
    if quotient.kind == SINGLE:
        name = node.named("quotient", quotient.text)
        return Operand(f"ifelse({name} != {name}, {lowest}, {name})", SINGLE)
    return Operand(f"replace(target={quotient.text}, pattern=NaN, replacement={lowest})", quotient.kind)


def _quotient(node: NodeView, given: Operands, precision: str) -> Operand:
    """x / scale. Where it is rounded to FP32 after, x * (1 / scale) gives the same, and is several times faster.

    The quotient of two FP32 numbers is by 2^-49 of itself away from the middle between two FP32 numbers at least, what
    the inverse brings is 2^-52.
    """
    x, scale, known = given.items[0], given.items[1], node.constant("y_scale")
    is_single = node.dtype("x") == node.dtype("y_scale") == precision == "float"
    if not is_single or known is None or known.size != 1 or not known.item() or not np.isfinite(known.item()):
        return infix(node, "/", x, scale, given.form)
    return Operand(f"({x.text} * {literal(1 / float(known.item()))})", x.kind)


def _to_small_float(node: NodeView, given: Operands, quotient: Operand, precision: str, target: str) -> Fragment:
    quotient = applied(node, "round_to_float", quotient, *FLOAT_FORMATS[precision].rounding())  # ties depend on it
    if node.has("y_zero_point"):
        quotient = infix(node, "+", quotient, given.items[2], given.form)
    if target in NO_NAN:  # as Cast gives 0 for NaN
        text = node.named("quotient", quotient.text)
        is_nan = node.mask(f"{text} != {text}", given.form)
        quotient = Operand(f"ifelse({is_nan}, {node.filled(0, given.form)}, {text})", quotient.kind)
    rounding = FLOAT_FORMATS[target].rounding(saturates=node.attribute("saturate") != 0)
    return finish(node, applied(node, "round_to_float", quotient, *rounding), given)


@generator("DequantizeLinear", since=(10, 13, 21, 23))
def dequantize_linear(node: NodeView) -> Fragment:
    """(x - zero point) * scale; opset 13 brought scales per axis, 21 blocks, 23 the output's type."""
    zero = _one_zero(node)
    given = scaled_operands(node, shifted=zero is None)
    x = given.items[0]
    x = infix(node, "-", x, given.items[2], given.form) if zero is None else increased(x, -zero)
    scaled = _scaled(node, x, given)
    if _may_overflow(node):
        scaled = applied(node, "round_to_float", scaled, *FLOAT_FORMATS["float"].rounding())
    return finish(node, scaled, given)


@gradient("DequantizeLinear")
def _dequantize_gradient(n: Backward) -> Sequence[str]:
    """By a scale the sum of what it scales."""
    if n.attribute("block_size"):
        raise UnsupportedCase("the derivative of a DequantizeLinear of blocks")
    dtype, is_single = n.values[n.out].dtype, product(n.dims(1)) == 1
    axes = [axis for axis in range(n.rank(0)) if is_single or axis != _scaled_axis(n)]
    scaled = n.retyped(n.x, dtype)
    if n.has(2):
        zero = n.retyped(n.node.inputs[2], dtype)
        aligned = [1 if axis in axes else -1 for axis in range(n.rank(0))]
        scaled = n.emit("Sub", scaled, n.emit("Reshape", zero, n.known(aligned)))
    return ["", n.shaped(n.retyped(n.total(n.times(n.grad, scaled), axes), n.dtype(1)), 1), ""]


@fold("DequantizeLinear", since=10)
def _number_of_code(node: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None] | None:
    """A single number as FP32 has it: 255 * (2 / 255) is 2, to the power of which negative numbers have a result.

    Larger weights stay integers.
    """
    x, size = node.constant("x"), node.constant("x_scale")
    zero = node.constant("x_zero_point") if node.has("x_zero_point") else np.zeros(1)
    is_plain = node.dtype("x") in INTEGER_DTYPES and node.dtype("x_scale") == outputs[0].dtype == "float"
    if not is_plain or x is None or size is None or zero is None or not x.size == size.size == zero.size == 1:
        return None
    whole = (x.astype(np.float64).ravel() - zero.astype(np.float64).ravel()).astype(np.float32)
    with np.errstate(over="ignore"):
        return [(whole * size.ravel()).reshape(x.shape)]


def _may_overflow(node: NodeView) -> bool:
    """Whether integers by a known scale are beyond FP32, where they are infinite; of any other scale nobody asks."""
    known = node.constant("x_scale")
    if known is None or node.output_dtype() != "float" or node.dtype("x") not in INTEGER_DTYPES:
        return False
    low, high = integer_range(node.dtype("x"))
    largest = float(np.abs(known.astype(np.float64)).max(initial=0)) * (high - low)
    return float(np.finfo(np.float32).max) < largest < np.inf


def _scaled(node: NodeView, x: Operand, given: Operands) -> Operand:
    """x * scale; where one of them may be no finite number, and the other 0, by a function that gives NaN then."""
    scale, known, view = given.items[1], node.constant("x_scale"), given.form
    is_whole = node.dtype("x") in INTEGER_DTYPES
    if view is SCALAR or (known is not None and bool(np.isfinite(known).all() and (is_whole or known.all()))):
        return infix(node, "*", x, scale, view)
    if scale.kind == SINGLE:
        scale = Operand(node.full(scale.text, View(view.rows, 1)), COLUMN)
    return Operand(node.call("times_any", as_matrix(node, x, view), scale.text), FULL)


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
    scale, zero = node.temporary("step"), node.temporary("zero")
    node.write(f"[{scale}, {zero}] = {node.call('quantization_step', f'min({x})', f'max({x})')}")
    whole = node.call("nearest_integer", node.call("single_precision", f"{x} / {scale}"))
    fragment = node.result(f"min(max(bias_add({whole}, as.matrix({zero})), 0), 255)", view)
    return fragment + node.result(scale, SCALAR, 1) + node.result(zero, SCALAR, 2)
