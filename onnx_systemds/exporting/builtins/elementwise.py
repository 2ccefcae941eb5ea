"""Builtins that work on each element: mathematics, rounding, minimum and maximum, choices, tests, casts."""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.correspondence import UNARY_BUILTINS
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.exporting.builtins.api import BOOL, INT, Context, Matrix, Scalar, Tensor, Value, builtin, refuse
from onnx_systemds.exporting.builtins.composed_functions import COMPOSED
from onnx_systemds.exporting.builtins.frames import frame_as_matrix, joined, numbers, replace_text
from onnx_systemds.exporting.builtins.operators import aligned, binary, elementwise, mapped
from onnx_systemds.exporting.builtins.texts import equal_texts, number_in, text
from onnx_systemds.exporting.graph.nodes import TEXT, made_by, source_of
from onnx_systemds.exporting.values import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    FrameValue,
    ListValue,
    known_integer,
    known_scalar,
    unwrapped,
)
from onnx_systemds.inference import dims
from onnx_systemds.inference.dims import Expression
from onnx_systemds.inference.known_dims import differ

_ROUNDING = ("Floor", "Ceil")


def _of_elements(ctx: Context, op: str, x: Tensor) -> Tensor:
    composed = COMPOSED.get(op) if ctx.g.dtype == "float64" and x.constant is None else None
    return ctx.g.unary(op, x) if composed is None else composed(x)


def _register_unary(op: str, *names: str) -> None:
    """Register a builtin of one matrix or scalar that is one operator of ONNX."""

    @builtin(*names, meaning=f"{op} of each element.")
    def function(ctx: Context, target: Value) -> Value:
        if isinstance(target, Scalar) and target.dim is not None and op in _ROUNDING:
            return _double(target.dim)
        quotient = _size_quotient(ctx, op, target) if op in _ROUNDING else None
        if quotient is not None:
            return _double(quotient)
        if isinstance(target, Scalar) and isinstance(target.known, (bool, int)) and op in ("Abs", "Sign"):
            return known_scalar(abs(target.known) if op == "Abs" else float(np.sign(int(target.known))))
        if isinstance(target, Scalar) and target.type == INTEGER and op == "Abs":
            size = ctx.integer(target)
            negated = -1 * size
            return Scalar(INTEGER, size if dims.is_non_negative(size) else dims.maximum(size, negated))
        return mapped(ctx, lambda x: _of_elements(ctx, op, x), target)


def _double(whole: dims.Dim) -> Scalar:
    """Return an integer as a double."""
    return Scalar(DOUBLE, float(whole) if isinstance(whole, int) else whole)


def _size_quotient(ctx: Context, op: str, value: Value) -> dims.Dim | None:
    """Return the quotient of a size by a number, rounded, as a size; None for other values."""
    node = made_by(value.content, "Div") if isinstance(value, Scalar) and isinstance(value.content, Tensor) else None
    if node is None:
        return None
    source, number = node.operand(), node.operand(1).only_element
    while (before := source_of(source, "Cast", "Reshape")) is not None:
        source = before
    size = ctx.g.size_of(source) if source.kind == INT else None
    if size is None or not dims.is_non_negative(size) or number is None or number < 1 or number % 1:
        return None
    return (size + int(number) - 1 if op == "Ceil" else size) // int(number)


for _op, _name in UNARY_BUILTINS.items():
    if _op != "Log":  # which takes a base, too
        _register_unary(_op, _name, *(["ceiling"] if _op == "Ceil" else []))


@builtin("log")
def log(ctx: Context, x: Value, base: Value | None = None, /) -> Value:
    """The natural logarithm, or the logarithm to a base."""
    natural = mapped(ctx, Tensor.log, x)
    return natural if base is None else binary(ctx, "/", natural, mapped(ctx, Tensor.log, base))


@builtin("round")
def rounded(ctx: Context, x: Value) -> Value:
    """The nearest integer; halves are rounded up, as in the engine."""
    if isinstance(x, Scalar) and x.dim is not None:
        return _double(x.dim)
    return mapped(ctx, _halves_up, x)


def _halves_up(x: Tensor) -> Tensor:
    """Return numbers rounded; ``floor(x + 0.5)`` is another one where the sum is, next to 0.5 and from 2^23 on."""
    below = x.apply("Floor")
    return below + (x - below >= 0.5)


@builtin("sigmoid")
def sigmoid(ctx: Context, X: Value) -> Value:
    """``1 / (1 + exp(-X))``."""
    return mapped(ctx, lambda t: t.apply("Sigmoid"), X)


@builtin("max")
def maximum(ctx: Context, *values: Value) -> Value:
    """The maximum of a matrix or of a list of scalars, or the elementwise maximum of several values."""
    return _extreme(ctx, "Max", values)


@builtin("min")
def minimum(ctx: Context, *values: Value) -> Value:
    """The minimum of a matrix, or the elementwise minimum of several values."""
    return _extreme(ctx, "Min", values)


def _extreme(ctx: Context, op: str, values: tuple[Value, ...]) -> Value:
    if not values:
        raise UnsupportedCase(f"{op.lower()} needs an argument")
    if len(values) == 1 and isinstance(values[0], Matrix):
        return ctx.scalar(ctx.g.reduce(f"Reduce{op}", ctx.column(values[0]), (0,), keepdims=False))
    if len(values) == 1 and isinstance(values[0], ListValue):
        values = values[0].items
    found, numbers = values[0], set()
    for value in values[1:]:
        number = value.known if isinstance(value, Scalar) else None
        if not isinstance(found, Matrix) or number is None or number not in numbers:  # one that comes twice
            found = _of_two(ctx, op, found, value)
        numbers.add(number)
    return found


def _of_two(ctx: Context, op: str, a: Value, b: Value) -> Value:
    if isinstance(a, Scalar) and isinstance(b, Scalar) and a.dim is not None and b.dim is not None:
        chosen = (dims.maximum if op == "Max" else dims.minimum)(a.dim, b.dim)
        return Scalar(INTEGER, chosen) if a.type == b.type == INTEGER else _double(chosen)

    def operation(x: Tensor, y: Tensor) -> Tensor:
        x, y = ctx.g.floating(x), ctx.g.floating(y)
        for one, other in ((x, y), (y, x)):
            if op == "Max" and not one.dims and one.only_element == 0:
                return other.apply("Relu")
        return ctx.g.binary(op, x, y)

    return elementwise(ctx, operation, a, b)


@builtin("pmax")
def pmax(ctx: Context, a: Value, b: Value, /) -> Value:
    """The elementwise maximum."""
    return _of_two(ctx, "Max", a, b)


@builtin("pmin")
def pmin(ctx: Context, a: Value, b: Value, /) -> Value:
    """The elementwise minimum."""
    return _of_two(ctx, "Min", a, b)


@builtin("ifelse")
def ifelse(ctx: Context, target: Value, yes: Value, no: Value, /) -> Value:
    """`yes` where the condition is not 0, otherwise `no`."""
    shaped = [value for value in (target, yes, no) if isinstance(value, Matrix)]
    if not shaped:
        return ctx.scalar(ctx.g.where(ctx.truth(target), *_alike(ctx, yes, no)))
    model = max(shaped, key=lambda m: (m.rows != 1 and m.cols != 1, m.rows != 1 or m.cols != 1, m.tensor.rank))
    pairs = [aligned(ctx, model, value) if isinstance(value, Matrix) else None for value in (target, yes, no)]
    parts = [pair[1] if pair is not None else None for pair in pairs]
    if len({pair[0] for pair in pairs if pair is not None}) > 1:  # one has no view beside the model's
        parts = [ctx.g.reshape(value.tensor, value.dims) if isinstance(value, Matrix) else None
                 for value in (target, yes, no)]
    condition = ctx.g.truth(parts[0]) if parts[0] is not None else ctx.truth(target)
    sides = [ctx.g.floating(part) if part is not None else ctx.floats(value)
             for part, value in zip(parts[1:], (yes, no))]
    return Matrix(ctx.g.where(condition, *sides), model.rows, model.cols)


def _alike(ctx: Context, yes: Value, no: Value) -> tuple[Tensor, Tensor]:
    a, b = ctx.tensor(yes), ctx.tensor(no)
    return (a, b) if a.kind == b.kind else (ctx.floats(yes), ctx.floats(no))


@builtin("xor")
def xor(ctx: Context, a: Value, b: Value, /) -> Value:
    """The exclusive or: whether exactly one of two elements is not 0."""
    return elementwise(ctx, lambda x, y: ctx.g.binary("Xor", ctx.g.truth(x), ctx.g.truth(y)), a, b)


@builtin("is.nan", "isNaN", "is.na", "isNA")
def is_nan(ctx: Context, x: Value) -> Value:
    """1 where an element is NaN, otherwise 0."""
    return mapped(ctx, lambda t: t.apply("IsNaN"), x)


@builtin("is.infinite", "isInf")
def is_infinite(ctx: Context, x: Value) -> Value:
    """1 where an element is infinite, otherwise 0."""
    return mapped(ctx, lambda t: t.apply("IsInf"), x)


@builtin("replace")
def replace(ctx: Context, target: Value, pattern: Value, replacement: Value) -> Value:
    """A matrix with each `pattern` replaced (also NaN or an infinity), or a frame with a string replaced."""
    if isinstance(target, FrameValue):
        return replace_text(ctx, target, pattern, replacement)
    if not isinstance(target, Matrix):
        raise UnsupportedCase(f"the argument target of replace is {target}, not a matrix")
    if isinstance(pattern, Matrix):
        raise UnsupportedCase(f"the pattern of replace is {pattern}, not a number")
    x = ctx.g.floating(target.tensor)
    wanted, new = (ctx.floats(_number(value)) for value in (pattern, replacement))
    return Matrix(ctx.g.where(equal_or_nan(x, wanted), new, x), target.rows, target.cols)


def _number(value: Value) -> Value:
    """Return the number that a known text is; other values as they are."""
    number = number_in(value.known) if isinstance(value, Scalar) and isinstance(value.known, str) else None
    return value if number is None else known_scalar(number)


def equal_or_nan(x: Tensor, wanted: Tensor) -> Tensor:
    """Return where elements are equal to a number, NaN to NaN."""
    if wanted.constant is not None:
        return x.apply("IsNaN") if np.isnan(wanted.constant).any() else x.equals(wanted)
    both = x.apply("IsNaN") & wanted.apply("IsNaN")
    return x.equals(wanted) | both


# Casts


@builtin("as.integer")
def as_integer(ctx: Context, x: Value) -> Value:
    """A scalar as an integer, truncated."""
    value = as_scalar(ctx, x)
    if value.dim is not None:
        return Scalar(INTEGER, value.dim)
    if isinstance(value.known, str):
        return known_scalar(_integer_in(value.known))
    if value.known is not None:
        if not math.isfinite(value.known):
            raise UnsupportedCase(f"{value.known} where an integer is needed")
        return known_integer(math.trunc(value.known))
    tensor = ctx.tensor(value)
    return ctx.scalar(ctx.whole(tensor if tensor.kind in (BOOL, INT) else numbers(ctx, tensor)))


def _integer_in(content: str) -> int:
    number = number_in(content)
    if number is None or not math.isfinite(number):
        raise UnsupportedCase(f"the string {quoted(content)} is no integer")
    return int(number)


@builtin("as.double")
def as_double(ctx: Context, x: Value) -> Value:
    """A scalar as a double."""
    value = as_scalar(ctx, x)
    if isinstance(value.content, Expression):
        return _double(value.content)
    if value.known is not None:
        number = number_in(value.known) if isinstance(value.known, str) else float(value.known)
        if number is None:
            raise UnsupportedCase(f"the string {quoted(str(value.known))} is no number")
        return known_scalar(number)
    return ctx.scalar(numbers(ctx, ctx.tensor(value)))


_TRUE = ("TRUE", "true")


@builtin("as.logical", "as.boolean")
def as_logical(ctx: Context, x: Value) -> Value:
    """A scalar as a boolean; of the strings, `TRUE` and `true` are true."""
    value = as_scalar(ctx, x)
    if isinstance(value.known, str):
        return known_scalar(value.known in _TRUE)
    if value.known is not None:
        return known_scalar(bool(value.known))
    content = ctx.tensor(value)
    if content.kind != TEXT:
        return ctx.scalar(ctx.truth(value))
    upper, lower = (equal_texts(ctx, content, text(ctx, word)) for word in _TRUE)
    return ctx.scalar(upper | lower)


@builtin("as.scalar", "castAsScalar")
def as_scalar(ctx: Context, x: Value) -> Scalar:
    """The only element of a matrix, or of a list."""
    x = unwrapped(x)
    if isinstance(x, Scalar):
        return x
    if not isinstance(x, (Matrix, FrameValue)) or any(differ(size, 1) for size in x.dims):
        raise UnsupportedCase(f"{x} is no matrix of 1 x 1")
    if isinstance(x, FrameValue):
        return ctx.scalar(joined(ctx, x))
    tensor = x.tensor if x.tensor.kind == BOOL and x.tensor.constant is None else ctx.g.floating(x.tensor)
    found = ctx.scalar(tensor)
    return Scalar(DOUBLE, found.content) if found.type != BOOLEAN else found


@builtin("as.matrix")
def as_matrix(ctx: Context, x: Value) -> Value:
    """A matrix made of a scalar, a frame, the only item of a list, or a list of scalars."""
    if isinstance(x, FrameValue):
        return frame_as_matrix(ctx, x)
    if isinstance(x, ListValue) and len(x.items) > 1:
        cells = [ctx.flat(ctx.as_matrix(item)) for item in x.items]
        return ctx.matrix(ctx.g.concat(cells, 0))
    return ctx.as_matrix(x)


refuse("map", reason="it runs Java on each element")
