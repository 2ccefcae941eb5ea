"""Rows and columns by content: removeEmpty, order, contains."""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import BOOL, INT, Context, Matrix, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.elementwise import equal_or_nan
from onnx_systemds.exporting.builtins.frames import blank, joined
from onnx_systemds.exporting.builtins.ranks import ascending
from onnx_systemds.exporting.graph.nodes import TEXT
from onnx_systemds.exporting.values import FrameValue, unwrapped
from onnx_systemds.inference.dims import Dim, may_be_zero


@builtin("removeEmpty")
def remove_empty(
    ctx: Context, target: Value, margin: str, select: Matrix | None = None, empty_return: bool = True
) -> Value:
    """The rows or columns of a matrix or frame that are selected, or not empty; if there are none, an empty one."""
    if margin not in ("rows", "cols"):
        raise UnsupportedCase(f"the margin of removeEmpty is {margin}, not rows or cols")
    if isinstance(target, FrameValue):
        cells = joined(ctx, target)
        if margin == "cols" and cells.kind not in (TEXT, BOOL):  # the column that stands for none has no numbers
            return FrameValue((_kept(ctx, ctx.g.floating(cells), margin, select, empty_return, math.nan),))
        return FrameValue((_kept(ctx, cells, margin, select, empty_return),))
    if not isinstance(target, Matrix):
        raise UnsupportedCase(f"the argument target of removeEmpty is {target}, not a matrix")
    return ctx.matrix(_kept(ctx, ctx.flat(target), margin, select, empty_return))


def _kept(
    ctx: Context, x: Tensor, margin: str, select: Matrix | None, empty_return: bool, number: float = 0.0
) -> Tensor:
    """Return what removeEmpty leaves of numbers or texts. number: of which a row or column is that stands for none."""
    g, axis = ctx.g, 0 if margin == "rows" else 1
    if isinstance(select, Matrix):
        chosen = g.truth(g.reshape(select.tensor, (x.dims[axis],)))
    elif x.kind == TEXT:
        raise UnsupportedCase("which texts of a frame are missing, and not of no length, is not known",
                              hint="say by select what stays")
    else:
        filled = g.cast(g.truth(x), INT)
        chosen = g.truth(g.reduce("ReduceMax", filled, (1 - axis,), keepdims=False))
    if empty_return:
        none = g.reduce("ReduceMax", g.cast(chosen, INT), (0,)).equals(0)
        dims = x.dims_with(axis, 1)
        empty = blank(ctx, x.kind, dims) if number == 0 else ctx.g.filled(number, dims)
        x, chosen = g.concat([x, empty], axis), g.concat([chosen, none], 0)
    if x.constant is not None and chosen.constant is not None:
        return g.constant(np.compress(chosen.constant, x.constant, axis), x.kind)
    size = g.size_symbol(margin)
    dims = x.dims_with(axis, size)
    found = g.node("Compress", [x, chosen], dims, x.kind, axis=axis)
    if may_be_zero(found.dims[axis]):
        g.bind_dims(found)
    return found


@builtin("order")
def order(
    ctx: Context, target: Matrix, by: Value | None = None, decreasing: Value | None = None,
    index_return: Value | None = None,
) -> Value:
    """The rows sorted by columns, or their former positions; the sort is stable."""
    g, x = ctx.g, ctx.flat(target)
    down = g.constant(False) if decreasing is None else g.reshape(ctx.truth(decreasing), ())
    if down.constant is None:
        places = g.where(down, *(_order(ctx, target, _columns(ctx, by), decreasing=each) for each in (True, False)))
    else:
        places = _order(ctx, target, _columns(ctx, by), decreasing=bool(down.constant))
    numbered = g.constant(False) if index_return is None else g.reshape(ctx.truth(index_return), ())
    if numbered.constant is not None:
        return ctx.matrix(_numbered(ctx, places) if numbered.constant else g.gather(x, places, 0))
    dims = (target.rows, target.cols if target.cols == 1 else g.size_symbol("cols"))
    return ctx.matrix(g.choice(numbered, lambda: _numbered(ctx, places), lambda: g.gather(x, places, 0), dims))


def _numbered(ctx: Context, places: Tensor) -> Tensor:
    """Return positions as a column of numbers, counted from 1."""
    g = ctx.g
    return g.reshape(g.floating(places + 1), (places.dims[0], 1))


def _order(ctx: Context, target: Matrix, columns: list[Dim], *, decreasing: bool) -> Tensor:
    """Return from which rows, counted from 0, the sorted ones come."""
    g, x = ctx.g, ctx.flat(target)
    places: Tensor | None = None
    for column in reversed(columns):
        beyond = column - target.cols
        if (isinstance(column, int) and column < 1) or (isinstance(beyond, int) and beyond > 0):
            raise UnsupportedCase(f"order by column {column} of {target}")
        keys = g.reshape(g.slice(x, 1, column - 1, column), (target.rows,))
        moved = keys if places is None else g.gather(keys, places, 0)
        _, found = ascending(ctx, moved, 0, turned=decreasing)
        places = found if places is None else g.gather(places, found, 0)
    assert places is not None
    return places


def _columns(ctx: Context, by: Value | None) -> list[Dim]:
    """Return the columns to sort by, the most important first."""
    if by is None:
        return [1]
    by = unwrapped(by)
    if isinstance(by, Matrix) and by.constant is not None:
        return [int(column) for column in by.constant.ravel()]
    if isinstance(by, Matrix) and by.dims != (1, 1):
        raise UnsupportedCase("the columns that order sorts by must be known, or be one")
    return [ctx.integer(by)]


@builtin("contains")
def contains(ctx: Context, target: Matrix, pattern: Value) -> Value:
    """Whether an element equals the pattern (NaN equals NaN)."""
    g, x = ctx.g, ctx.g.floating(target.tensor)
    wanted = ctx.floats(pattern)
    same = equal_or_nan(x, wanted)
    count = g.reduce("ReduceMax", g.cast(same, INT), range(x.rank), keepdims=False)
    return ctx.scalar(g.cast(count, BOOL))
