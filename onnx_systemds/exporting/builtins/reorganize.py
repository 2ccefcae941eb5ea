"""Making matrices and moving their elements: matrix, seq, nrow, cbind, rbind, rev, outer, lists."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Scalar, Value, builtin
from onnx_systemds.exporting.builtins.frames import check_fitting, join_frames
from onnx_systemds.exporting.builtins.operators import binary, tensor_operator
from onnx_systemds.exporting.builtins.products import with_places_moved
from onnx_systemds.exporting.builtins.texts import number_in
from onnx_systemds.exporting.values import (
    STRING,
    FrameValue,
    ListValue,
    integer,
    known_scalar,
    unwrapped,
)
from onnx_systemds.inference.dims import Dim, divide_exactly

_NAMED_OPERATORS = {
    "PLUS": "+", "MINUS": "-", "MULT": "*", "DIV": "/", "MODULUS": "%%", "INTDIV": "%/%", "POW": "^", "EQUAL": "==",
    "NOTEQUAL": "!=", "LESS": "<", "LESSEQUAL": "<=", "GREATER": ">", "GREATEREQUAL": ">=", "AND": "&", "OR": "|",
    "&&": "&", "||": "|",
}
"""What the engine calls operators beside their signs, in capitals or not, where a string names one."""


@builtin("matrix")
def matrix(
    ctx: Context, data: Value, rows: Dim | None = None, cols: Dim | None = None, byrow: bool = True,
    dims: Value | None = None,
) -> Value:
    """A matrix filled with a number, with the numbers in a string, or with the elements of another matrix."""
    data = unwrapped(data)
    if dims is not None:
        raise UnsupportedCase("a tensor of more than rows and columns")
    if isinstance(data, Matrix):
        return _reshaped(ctx, data, rows, cols, byrow)
    if isinstance(data, Scalar) and isinstance(data.known, str):
        return _parsed(ctx, data.known, rows, cols, byrow)
    if rows is None or cols is None:
        raise UnsupportedCase("matrix of a number needs rows and cols")
    if any(isinstance(size, int) and size < 0 for size in (rows, cols)):
        raise UnsupportedCase(f"there is no matrix of {rows} x {cols}")
    if isinstance(data, Scalar) and data.known is not None:
        return ctx.matrix(ctx.g.filled(float(data.known), (rows, cols)))
    return ctx.matrix(ctx.g.expand(ctx.floats(data), (rows, cols)))


def _reshaped(ctx: Context, x: Matrix, rows: Dim | None, cols: Dim | None, byrow: bool) -> Matrix:
    total = x.rows * x.cols
    if rows is None and cols is None:
        return x
    if rows is None:
        rows = _other(total, cols)
    if cols is None:
        cols = _other(total, rows)
    if isinstance(total, int) and total != rows * cols and isinstance(rows * cols, int):
        raise UnsupportedCase(f"{x} has not the elements for {rows} x {cols}")
    if byrow:
        return Matrix(with_places_moved(ctx.g, x.tensor, rows, cols), rows, cols)
    turned = ctx.g.transpose(ctx.flat(x), (1, 0))
    return ctx.matrix(ctx.g.transpose(ctx.g.reshape(turned, (cols, rows)), (1, 0)))


def _other(total: Dim, size: Dim | None) -> Dim:
    assert size is not None
    exact = divide_exactly(total, size)
    return total // (size or 1) if exact is None else exact


def _parsed(ctx: Context, text: str, rows: Dim | None, cols: Dim | None, byrow: bool) -> Matrix:
    """Return the matrix of the numbers in a string; those of an empty one are 0."""
    read = [(item, number_in(item)) for item in text.split()]
    if other := [item for item, number in read if number is None]:
        raise UnsupportedCase(f"the string {quoted(text)} holds {quoted(other[0])}, which is no number",
                              hint="numbers with spaces between them make a matrix; there an infinite one is Infinity")
    numbers = [number for _, number in read if number is not None]
    rows = len(numbers) if rows is None and cols is None else rows
    if rows is None and isinstance(cols, int):
        rows = len(numbers) // max(cols, 1)
    if cols is None and isinstance(rows, int):
        cols = len(numbers) // max(rows, 1)
    if not isinstance(rows, int) or not isinstance(cols, int):
        raise UnsupportedCase("the rows and columns of a matrix from a string must be known")
    content = np.zeros(rows * cols) if not numbers else np.array(numbers)
    if content.size != rows * cols:
        raise UnsupportedCase(f"{len(numbers)} numbers are given for {rows} x {cols}")
    return ctx.matrix(ctx.g.constant(content.reshape((rows, cols), order="C" if byrow else "F"), FLOAT))


@builtin("nrow")
def nrow(ctx: Context, target: Value) -> Value:
    """The number of rows."""
    if isinstance(target, (Matrix, FrameValue)):
        return integer(target.rows)
    return integer(len(_items(target)))


@builtin("ncol")
def ncol(ctx: Context, target: Value) -> Value:
    """The number of columns."""
    return integer(target.cols if isinstance(target, (Matrix, FrameValue)) else 1)


@builtin("length")
def length(ctx: Context, target: Value) -> Value:
    """The number of elements of a matrix or frame, or of items of a list."""
    if isinstance(target, (Matrix, FrameValue)):
        return integer(target.rows * target.cols)
    return integer(len(_items(target)))


def _items(target: Value) -> tuple[Value, ...]:
    if not isinstance(target, ListValue):
        raise UnsupportedCase(f"the size of {target}")
    return target.items


@builtin("cbind")
def cbind(ctx: Context, *parts: Value) -> Value:
    """Matrices, or those of a list, joined by columns. A list and further items: see `append`. Strings become lines."""
    return append(ctx, *parts) if _extends_list(parts) else _bound(ctx, parts, 1)


@builtin("rbind")
def rbind(ctx: Context, *parts: Value) -> Value:
    """Matrices, or those of a list, joined by rows. A list and further items: see `append`. Strings become lines."""
    return append(ctx, *parts) if _extends_list(parts) else _bound(ctx, parts, 0)


def _extends_list(parts: tuple[Value, ...]) -> bool:
    return len(parts) > 1 and isinstance(parts[0], ListValue)


def _bound(ctx: Context, parts: tuple[Value, ...], axis: int) -> Value:
    if len(parts) == 1 and isinstance(parts[0], ListValue):
        parts = parts[0].items
    if not parts:
        raise UnsupportedCase("there is nothing to join")
    if any(isinstance(part, FrameValue) for part in parts):
        return join_frames(ctx, parts, axis)
    if all(isinstance(part, Scalar) and part.type == STRING for part in parts):
        return reduce(lambda text, line: binary(ctx, "+", binary(ctx, "+", text, known_scalar("\n")), line), parts)
    matrices = [ctx.as_matrix(part) for part in parts]
    nonempty = [m for m in matrices if m.dims[axis] != 0] or matrices[:1]
    check_fitting(nonempty, axis)
    joined = ctx.matrix(ctx.g.concat([ctx.flat(m) for m in nonempty], axis))
    return replace(joined, is_stacked=axis == 0 and len(nonempty) > 1)


@builtin("append")
def append(ctx: Context, target: Value, /, *parts: Value) -> Value:
    """A list with further items, matrices joined by columns, or strings joined by line ends."""
    if not isinstance(target, ListValue):
        return _bound(ctx, (target, *parts), 1)
    # a list of one item is unwrapped, as in the engine
    items = [unwrapped(part) for part in parts]
    names = [part.names[0] if isinstance(part, ListValue) and len(part.items) == 1 and part.names else ""
             for part in parts]
    own = target.names or ("",) * len(target.items)
    return ListValue((*target.items, *items), (*own, *names) if any(own) or any(names) else ())


@builtin("as.list")
def as_list(ctx: Context, target: ListValue) -> Value:
    """The list that is the only item of a list."""
    item = target.items[0] if len(target.items) == 1 else target
    return item if isinstance(item, ListValue) else target


@builtin("remove")
def remove(ctx: Context, target: ListValue, index: int) -> tuple[Value, ...]:
    """The list without an item, and that item."""
    if not 1 <= index <= len(target.items):
        raise UnsupportedCase(f"the list has {len(target.items)} items, but no item {index}")
    items, names = list(target.items), list(target.names)
    item, name = items.pop(index - 1), names.pop(index - 1) if names else ""
    return ListValue(tuple(items), tuple(names)), ListValue((item,), (name,) if name else ())


@builtin("rev")
def reversed_rows(ctx: Context, target: Matrix) -> Value:
    """The rows in reverse order."""
    x = ctx.flat(target)
    g = ctx.g
    inputs = [x, g.constant([-1]), g.constant([-(2**62)]), g.constant([0]), g.constant([-1])]
    return ctx.matrix(g.node("Slice", inputs, x.dims))


@builtin("roll")
def rolled_rows(ctx: Context, target: Matrix, shift: Dim, /) -> Value:
    """The rows rotated down by a number of positions."""
    g, rows = ctx.g, target.rows
    places = g.count(0, rows) - g.size_tensor(shift)
    return ctx.matrix(g.gather(ctx.flat(target), places % g.size_tensor(rows), 0))


@builtin("outer")
def outer(ctx: Context, x: Matrix, y: Matrix, op: str, /) -> Value:
    """The outer operation of a column and a row: one element for each pair."""
    a, b, g = ctx.flat(x), ctx.flat(y), ctx.g
    name = op.upper()
    if name in ("MIN", "MAX"):
        return ctx.matrix(g.binary(name.capitalize(), a, b))
    if name == "XOR":
        return ctx.matrix(g.binary("Xor", g.truth(a), g.truth(b)))
    return ctx.matrix(tensor_operator(ctx, _NAMED_OPERATORS.get(name, op), a, b))


@builtin("ppred")
def compared(ctx: Context, x: Value, y: Value, op: str, /) -> Value:
    """The elementwise comparison that a string names."""
    if op not in COMPARED:
        raise UnsupportedCase(f"{op} is no comparison")
    return binary(ctx, op, x, y)
