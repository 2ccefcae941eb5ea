"""Rows and columns that are kept, sorted or looked for: removeEmpty, order, contains, quantiles, triangles."""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.dims import Dim
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin
from onnx_systemds.exporting.graph import FLOAT, INT, Tensor
from onnx_systemds.exporting.values import Matrix, Scalar, Value


@builtin("removeEmpty")
def remove_empty(
    ctx: Context, target: Matrix, margin: str, select: Value | None = None, empty_return: bool = True
) -> Value:
    """The rows or columns that hold an element other than 0, or that are selected; a row of 0 if there are none."""
    if margin not in ("rows", "cols"):
        raise UnsupportedCase(f"removeEmpty along {margin!r}", hint="margin is rows or cols")
    axis = int(margin == "cols")
    x = ctx.flat(target)
    kept = _kept(ctx, x, axis, select)
    if kept.constant is not None:
        return _known_rest(ctx, x, axis, np.flatnonzero(kept.constant), empty_return)
    return _computed_rest(ctx, x, axis, kept, empty_return)


def _kept(ctx: Context, x: Tensor, axis: int, select: Value | None) -> Tensor:
    """Return which rows or columns stay, as bool of rank 1."""
    g = ctx.g
    if select is not None:
        chosen = ctx.as_matrix(select)
        return g.reshape(g.truth(chosen.tensor), (x.dims[axis],))
    full = g.cast(g.truth(x), INT)
    return g.truth(g.reduce("ReduceMax", full, (1 - axis,), keep=False))


def _known_rest(ctx: Context, x: Tensor, axis: int, places: np.ndarray, empty_return: bool) -> Value:
    if places.size == x.dims[axis]:
        return ctx.matrix(x)
    if not places.size:
        dims = tuple(int(empty_return) if i == axis else dim for i, dim in enumerate(x.dims))
        return ctx.matrix(ctx.g.filled(0.0, dims))
    return ctx.matrix(ctx.g.gather(x, ctx.g.constant(places, INT), axis))


def _computed_rest(ctx: Context, x: Tensor, axis: int, kept: Tensor, empty_return: bool) -> Value:
    """Return what only the run can choose; a row of 0 at the end is kept if it would be alone."""
    g = ctx.g
    if empty_return:
        some = g.reduce("ReduceMax", g.cast(kept, INT), (0,))
        none = g.unary("Not", g.truth(some))
        kept = g.concat([kept, none], 0)
        x = g.concat([x, g.filled(0.0, tuple(1 if i == axis else dim for i, dim in enumerate(x.dims)))], axis)
    size = g.size_symbol("cols" if axis else "rows")
    dims = tuple(size if i == axis else dim for i, dim in enumerate(x.dims))
    rest = g.node("Compress", [x, kept], dims, axis=axis)
    g.bind_dims(rest)
    return ctx.matrix(rest)


@builtin("contains")
def contains(ctx: Context, target: Matrix, pattern: float) -> Value:
    """Whether an element is `pattern`, which may be NaN."""
    g, x = ctx.g, ctx.column(target)
    found = g.unary("IsNaN", x) if math.isnan(pattern) else g.binary("Equal", x, g.number(pattern))
    return ctx.scalar(g.truth(g.reduce("ReduceMax", g.cast(found, INT), (0,), keep=False)))


@builtin("order")
def order(
    ctx: Context, target: Matrix, by: Value | None = None, decreasing: bool = False, index_return: bool = False
) -> Value:
    """The rows sorted by one or more columns, or where they were before; equal ones keep their order."""
    g, x = ctx.g, ctx.flat(target)
    places: Tensor | None = None
    for column in reversed(_columns(by)):
        key = g.reshape(g.slice(x, 1, column - 1, column), (x.dims[0],))
        found = _sorted(ctx, key if places is None else g.gather(key, places, 0), decreasing)[1]
        places = found if places is None else g.gather(places, found, 0)
    assert places is not None
    if not index_return:
        return ctx.matrix(g.gather(x, places, 0))
    return ctx.matrix(g.reshape(g.floating(g.binary("Add", places, g.constant(1))), (x.dims[0], 1)))


def _columns(by: Value | None) -> list[int]:
    """Return the columns to sort by, the most important one first."""
    if by is None:
        return [1]
    if isinstance(by, Scalar) and isinstance(by.dim, int):
        return [by.dim]
    if isinstance(by, Matrix) and by.constant is not None:
        return [int(column) for column in by.constant.ravel()]
    raise UnsupportedCase("the columns to sort by must be known when the script is exported")


def _sorted(ctx: Context, key: Tensor, decreasing: bool) -> tuple[Tensor, Tensor]:
    """Return the elements of a tensor of rank 1 in order, and their places from 0 on."""
    g, size = ctx.g, key.dims[0]
    if key.constant is not None:
        known = np.argsort(-key.constant if decreasing else key.constant, kind="stable")
        return g.constant(key.constant[known], FLOAT), g.constant(known, INT)
    outputs: list[tuple[str, tuple[Dim, ...]]] = [(FLOAT, (size,)), (INT, (size,))]
    values, places = g.nodes("TopK", [key, g.size_tensor(size)], outputs, axis=0, largest=int(decreasing), sorted=1)
    return values, places


@builtin("quantile")
def quantile(ctx: Context, x: Matrix, p: Value, q: Value | None = None) -> Value:
    """The element of a column at a share of its sorted elements; for one share of an even number the middle of two."""
    if q is not None:
        raise UnsupportedCase("a quantile with weights", hint="repeat the elements instead")
    if isinstance(p, Matrix) and p.constant is not None:
        picked = [_picked(ctx, x, float(share), middle=False) for share in p.constant.ravel()]
        return ctx.matrix(ctx.g.concat([ctx.g.reshape(t, (1, 1)) for t in picked], 0))
    if not isinstance(p, Scalar) or not isinstance(p.known, (bool, int, float)):
        raise UnsupportedCase("the share of a quantile must be known when the script is exported")
    return ctx.scalar(_picked(ctx, x, float(p.known), middle=True))


@builtin("median")
def median(ctx: Context, x: Matrix, w: Value | None = None) -> Value:
    """The middle element of a column, or the middle of the two there."""
    if w is not None:
        raise UnsupportedCase("a median with weights", hint="repeat the elements instead")
    return ctx.scalar(_picked(ctx, x, 0.5, middle=True))


def _picked(ctx: Context, x: Matrix, share: float, middle: bool) -> Tensor:
    """Return the element at a share, with the next one if `middle` and the number of elements is even."""
    g, size = ctx.g, x.rows
    if not isinstance(size, int):
        hint = "give the input a number of rows"
        raise UnsupportedCase(f"a quantile of {size} elements: their number must be known", hint=hint)
    place = math.ceil(share * size)
    ordered = _sorted(ctx, ctx.column(x), decreasing=False)[0]
    found = g.slice(ordered, 0, max(place, 1) - 1, max(place, 1))
    if middle and size % 2 == 0 and 1 <= place < size:
        both = g.binary("Add", found, g.slice(ordered, 0, place, place + 1))
        return g.binary("Mul", both, g.number(0.5))
    return found


@builtin("lower.tri")
def lower_triangle(ctx: Context, target: Matrix, diag: bool = False, values: bool = False) -> Value:
    """The elements below the diagonal, or 1 for each of them."""
    return _triangle(ctx, target, 0, diag, values)


@builtin("upper.tri")
def upper_triangle(ctx: Context, target: Matrix, diag: bool = False, values: bool = False) -> Value:
    """The elements above the diagonal, or 1 for each of them."""
    return _triangle(ctx, target, 1, diag, values)


def _triangle(ctx: Context, target: Matrix, upper: int, diag: bool, values: bool) -> Value:
    g = ctx.g
    x = ctx.flat(target) if values else g.filled(1.0, target.dims)
    beside = 0 if diag else 1 if upper else -1
    found = g.node("Trilu", [x, g.constant(np.int64(beside))], x.dims, upper=upper)
    return ctx.matrix(found)
