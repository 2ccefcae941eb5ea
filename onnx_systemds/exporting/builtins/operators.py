"""The infix and prefix operators of DML on values of any kind: `binary` and `unary`."""

from __future__ import annotations

from collections.abc import Callable

from onnx_systemds.correspondence import COMPARISONS, INFIX_OPERATORS
from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting import limits
from onnx_systemds.exporting.builtins.api import BOOL, FLOAT, Context, Matrix, Scalar, Tensor, Value
from onnx_systemds.exporting.builtins.frames import compare_frames
from onnx_systemds.exporting.builtins.scalar_operators import LOGICAL, compared_sizes, known_result, size_result
from onnx_systemds.exporting.builtins.texts import compare_printed, compare_texts, join_texts, printed_text
from onnx_systemds.exporting.builtins.truths import compared_truth
from onnx_systemds.exporting.graph.images import planes
from onnx_systemds.exporting.graph.nodes import WIDE, made_by, pairs, source_of
from onnx_systemds.exporting.graph.operators import broadcast
from onnx_systemds.exporting.poison_values import intact
from onnx_systemds.exporting.values import INTEGER, STRING, FrameValue, known_scalar, unwrapped
from onnx_systemds.inference import dims
from onnx_systemds.inference.dims import Dim, Dims

_ARITHMETIC = {dml: onnx for onnx, dml in INFIX_OPERATORS.items()} | {"^": "Pow"}
_COMPARING = {dml: onnx for onnx, dml in COMPARISONS.items()}
_WIDENED = frozenset(("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Abs", "Sign", "Floor", "Ceil", "Log"))
_DEEPEST = 12
_FLOAT32_STEPS = 2**24  # of float32 between a power of 2 and the next


def binary(ctx: Context, operator: str, left: Value, right: Value) -> Value:
    """Return ``left operator right`` for every operator but ``%*%``."""
    left, right = _operand(left), _operand(right)
    if isinstance(left, FrameValue) or isinstance(right, FrameValue):
        return compare_frames(ctx, operator, left, right)
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        found = known_result(operator, left, right) or size_result(operator, left, right)
        if found is not None:
            return _named(ctx, found)
        if STRING in (left.type, right.type):
            if operator == "+":
                return ctx.scalar(join_texts(ctx, printed_text(ctx, left), printed_text(ctx, right)))
            texts = ctx.tensor(left), ctx.tensor(right)
            printed = compare_printed(operator, *texts)
            return ctx.scalar(compare_texts(ctx, operator, *texts) if printed is None else printed)
        if operator in ("%%", "%/%") and left.type == right.type == INTEGER:
            return _of_integers(ctx, operator, left, right)
    return elementwise(ctx, lambda a, b: tensor_operator(ctx, operator, a, b), left, right)


def _of_integers(ctx: Context, operator: str, left: Scalar, right: Scalar) -> Scalar:
    """Return the quotient or remainder of integers that only the run knows, an integer; a remainder by 0 is 0."""
    divisor = ctx.floats(right)
    if operator == "%%" and not right.known:
        divisor = ctx.g.where(divisor.equals(0.0), 1.0, divisor)
    return ctx.scalar(ctx.whole(tensor_operator(ctx, operator, ctx.tensor(left), divisor)))


def _named(ctx: Context, value: Scalar) -> Scalar:
    """Return an integer; one that is a long expression over sizes gets a name, and is calculated by the model."""
    size = value.content
    if not isinstance(size, dims.Expression) or limits.complexity(size) <= limits.LARGEST_SIZE_EXPRESSION:
        return value
    return Scalar(value.type, ctx.g.integer_symbol(ctx.g.size_tensor(size)))


def _operand(value: Value) -> Value:
    return intact(unwrapped(value), "the item of the list")


def tensor_operator(ctx: Context, operator: str, a: Tensor, b: Tensor) -> Tensor:
    """Return an elementwise operator of DML of two tensors that broadcast as in ONNX. Raises UnsupportedCase."""
    g = ctx.g
    if operator in LOGICAL:
        return g.binary(LOGICAL[operator], g.truth(a), g.truth(b))
    a, b = g.floating(a), g.floating(b)
    if operator in ("==", "!=") and g.dtype == "float32" and (_adds(a, b) or _adds(b, a)):
        a, b = _widened(ctx, a, _DEEPEST), _widened(ctx, b, _DEEPEST)
    truth = compared_truth(g, COMPARED[operator], a, b) if operator in COMPARED else None
    if truth is not None:
        return truth
    if operator in _COMPARING:
        return g.binary(_COMPARING[operator], a, b)
    if operator == "!=":
        return ~a.equals(b)
    if operator == "%/%":
        quotient = a / b
        size = abs(quotient).apply("Floor")
        return g.where(quotient < 0.0, 0.0 - size, size)  # never -0, as an integer of the engine
    if operator == "%%":  # NaN by 0, as x/0*0
        return a - _cut_off(a / b) * b
    if operator in ("+", "-") and g.dtype == "float32":
        rounded = _rounding_difference(ctx, a, b) if operator == "-" else _rounding_sum(ctx, a, b)
        if rounded is not None:
            return rounded
    if operator == "*":
        a, b = _finite_beside(ctx, a, b), _finite_beside(ctx, b, a)
    if operator == "/":
        logistic = _logistic(a, b)
        if logistic is not None:
            part = logistic.apply("Sigmoid")
            return a * part if a is logistic else part
    if operator not in _ARITHMETIC:
        raise UnsupportedCase(f"the operator '{operator}' is not exported")
    return g.binary(_ARITHMETIC[operator], a, b)


def _adds(total: Tensor, number: Tensor) -> bool:
    """Whether ``x + c`` is compared with c: they are equal where c takes all bits of x, of doubles that is."""
    made = made_by(total, "Add")
    return made is not None and number.only_element is not None and number in made.inputs


def _finite_beside(ctx: Context, factor: Tensor, other: Tensor) -> Tensor:
    """Return a factor, 0 where it is infinite and the other one is 0, as it says that this one is not small.

    ``((c + x) == c) * x`` and its like choose a formula for small numbers, of which large ones may be infinite.
    """
    small = _small(other)
    if small is None or factor.constant is not None:
        return factor
    return ctx.g.where(factor.apply("IsInf") & ~small, 0.0, factor)


def _small(x: Tensor) -> Tensor | None:
    """Return where a number is not 0 that is ``(c + x) == c``, or a product with it; None for others."""
    product = made_by(x, "Mul")
    for factor in (x, *(product.inputs if product is not None else ())):
        test = source_of(factor, "Cast")
        if any(_adds(total, number) for total, number in pairs(made_by(test, "Equal"))):
            return test
    return None


def _rounding_difference(ctx: Context, a: Tensor, b: Tensor) -> Tensor | None:
    """Return ``(x + b) - b`` or ``a - (a - x)``, which cut bits of doubles off, in float64; None for others."""
    made = made_by(a, "Add")
    if (made is None or b not in made.inputs) and source_of(b, "Sub") is not a:
        return None
    return ctx.g.floating(_widened(ctx, a, _DEEPEST) - _widened(ctx, b, _DEEPEST))


def _rounding_sum(ctx: Context, a: Tensor, b: Tensor) -> Tensor | None:
    """Return ``(x + c) + d`` for a large number c and about its opposite d in float64; None for others."""
    made = made_by(a, "Add")
    known = [] if made is None else [part.only_element for part in (*made.given(), b)]
    numbers = [number for number in known if number is not None]
    if len(numbers) != 2 or b.constant is None or abs(sum(numbers)) > abs(numbers[0]) / _FLOAT32_STEPS:
        return None
    if abs(numbers[0]) < _FLOAT32_STEPS:
        return None
    return ctx.g.floating(_widened(ctx, a, _DEEPEST) + _widened(ctx, b, _DEEPEST))


def _widened(ctx: Context, x: Tensor, depth: int) -> Tensor:
    """Return floats as float64, and what they were calculated by so, too: it may leave the range of float32."""
    node = x.node
    if not depth or node is None or node.op not in _WIDENED or x.kind != FLOAT:
        return ctx.g.cast(x, WIDE)
    parts = [_widened(ctx, part, depth - 1) for part in node.given()]
    return ctx.g.node(node.op, parts, x.dims, WIDE)


def _logistic(a: Tensor, b: Tensor) -> Tensor | None:
    """Return ``z`` where ``a / b`` is ``1 / (1 + exp(-z))``, ``z / (1 + exp(-z))`` or ``exp(z) / (1 + exp(z))``.

    The powers overflow, their quotient does not.
    """
    for one, power in pairs(made_by(b, "Add")):
        raised = made_by(power, "Exp")
        if raised is None or one.only_element != 1 or power.dims != b.dims:
            continue
        exponent = raised.operand()
        if a is power:
            return exponent
        z = source_of(exponent, "Neg")
        if a.only_element == 1:
            return -exponent if z is None else z
        if a is z:
            return z
    return None


def _cut_off(x: Tensor) -> Tensor:
    """Return numbers without their fraction; the engine's integer division rounds to zero."""
    return x.sign() * abs(x).apply("Floor")


def elementwise(ctx: Context, operation: Callable[[Tensor, Tensor], Tensor], left: Value, right: Value) -> Value:
    """Return an operation on each pair of elements; row and column vectors and scalars are repeated.

    Raises UnsupportedCase.
    """
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return ctx.scalar(operation(ctx.tensor(left), ctx.tensor(right)))
    if isinstance(left, Matrix) and isinstance(right, Matrix):
        a, b, rows, cols = aligned(ctx, left, right)
        return Matrix(operation(a, b), rows, cols)
    whole = left if isinstance(left, Matrix) else right
    if not isinstance(whole, Matrix):
        raise UnsupportedCase(f"an operation on {left} and {right}")
    pair = [value.tensor if isinstance(value, Matrix) else _factor(ctx, value) for value in (left, right)]
    return Matrix(operation(*pair), whole.rows, whole.cols)


def _factor(ctx: Context, value: Value) -> Tensor:
    """Return a scalar for use with a matrix: as a float, unless it is a computed boolean."""
    found = ctx.tensor(value)
    return found if found.kind == BOOL and found.constant is None else ctx.floats(value)


def aligned(ctx: Context, left: Matrix, right: Matrix) -> tuple[Tensor, Tensor, Dim, Dim]:
    """Return the tensors of two matrices so that they broadcast, with the rows and columns of the result.

    The dims that one of them has already are kept: images stay N x C x H x W.
    """
    rows, cols = broadcast(left.dims, right.dims)
    model = left if left.tensor.rank >= right.tensor.rank and left.dims == (rows, cols) else right
    model = model if model.dims == (rows, cols) else left
    if model.dims != (rows, cols):
        return ctx.g.reshape(left.tensor, left.dims), ctx.g.reshape(right.tensor, right.dims), rows, cols
    other = right if model is left else left
    image = planes(model.tensor, rows, cols)
    is_flat = image is None or (other.dims == model.dims and planes(other.tensor, rows, cols) is None)
    image = model.tensor if image is None or is_flat or not ctx.g.visible(image) else image
    wanted = _view_of(other, model, image.dims)
    if wanted is None:
        return ctx.g.reshape(left.tensor, left.dims), ctx.g.reshape(right.tensor, right.dims), rows, cols
    moved = ctx.g.reshape(other.tensor, wanted)
    return (image, moved, rows, cols) if model is left else (moved, image, rows, cols)


def _view_of(other: Matrix, model: Matrix, view: Dims) -> Dims | None:
    """Return the dims in which `other` broadcasts to the tensor dims of `model`, None if there are none."""
    if other.dims == model.dims:
        return view
    if not view:
        return None
    first = 0 if view[0] == model.rows else next((axis for axis, dim in enumerate(view) if dim != 1), 0)
    if view[first] != model.rows:
        return None
    if other.rows == 1 and other.cols == model.cols:
        return (*view[:first], 1, *view[first + 1 :])
    if other.cols == 1 and other.rows == model.rows:
        return (*view[: first + 1], *[1] * (len(view) - first - 1))
    return (1,) * len(view) if other.dims == (1, 1) else None


def unary(ctx: Context, operator: str, value: Value) -> Value:
    """Return ``-value``, ``+value`` or ``!value``. Raises UnsupportedCase."""
    value = _operand(value)
    if isinstance(value, Scalar):
        if isinstance(value.known, str):
            raise UnsupportedCase(f"'{operator}' of a string")
        if value.known is not None:
            signed = -value.known if operator == "-" else value.known
            return known_scalar(not value.known if operator == "!" else signed)
        if value.dim is not None and operator == "-":
            return Scalar(value.type, -1 * value.dim)
        zero = compared_sizes("==", value.dim, 0) if value.dim is not None and operator == "!" else None
        if zero is not None:
            return known_scalar(zero)
    if operator == "+":
        return value
    if operator == "-":
        return mapped(ctx, lambda x: -x, value)
    # !NaN is 0
    result = ~ctx.truth(value) if ctx.tensor(value).kind == BOOL else ctx.floats(value).equals(0.0)
    return Matrix(result, value.rows, value.cols) if isinstance(value, Matrix) else ctx.scalar(result)


def mapped(ctx: Context, operation: Callable[[Tensor], Tensor], value: Value) -> Value:
    """Return an operation on each element of a scalar or matrix, taken as floats."""
    if isinstance(value, Matrix):
        return Matrix(operation(ctx.g.floating(value.tensor)), value.rows, value.cols)
    return ctx.scalar(operation(ctx.floats(value)))
