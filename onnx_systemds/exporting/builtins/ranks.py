"""Elements by their rank or place: quantiles, medians, triangles."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin
from onnx_systemds.exporting.graph.nodes import FLOAT, INT, WIDE, Tensor
from onnx_systemds.exporting.values import DOUBLE, Matrix, Scalar, Value

_ROUNDING = 1e-7
"""By how much a share in float32 may be too large."""


def _sorted(ctx: Context, key: Tensor) -> Tensor:
    """Return the elements of a tensor of rank 1 in order."""
    if key.constant is not None:
        return ctx.g.constant(np.sort(key.constant), FLOAT)
    return ascending(ctx, key, 0)[0]


def ascending(ctx: Context, x: Tensor, axis: int, *, turned: bool = False) -> tuple[Tensor, ...]:
    """Return the elements along an axis in order, or (turned) the largest first, and their places."""
    g = ctx.g
    outputs = [(FLOAT, x.dims), (INT, x.dims)]
    return g.nodes("TopK", [x, g.size_tensor(x.dims[axis])], outputs, axis=axis, largest=int(turned), sorted=1)


@builtin("quantile")
def quantile(ctx: Context, x: Matrix, p: Value, q: Value | None = None, /) -> Value:
    """The element at a share of a sorted column, for one share the middle of two; with weights `q` is the share."""
    weights, shares = (None, p) if q is None else (ctx.as_matrix(p), q)
    if isinstance(shares, Matrix):
        if weights is None and isinstance(x.rows, int) and shares.constant is not None:
            picked = [_picked(ctx, x, float(share), middle=False) for share in shares.constant.ravel()]
            return ctx.matrix(ctx.g.concat([ctx.g.reshape(t, (1, 1)) for t in picked], 0))
        return ctx.matrix(_computed(ctx, x, weights, ctx.viewed(shares, (shares.rows, 1)), middle=False))
    return ctx.scalar(_share(ctx, x, weights, shares))


@builtin("median")
def median(ctx: Context, x: Matrix, w: Matrix | None = None, /) -> Value:
    """The middle element of a column, or the middle of the two there; also with weights, which are whole numbers."""
    return ctx.scalar(_share(ctx, x, w, Scalar(DOUBLE, 0.5)))


def _share(ctx: Context, x: Matrix, weights: Matrix | None, share: Value) -> Tensor:
    """Return the element at one share."""
    known = share.known if isinstance(share, Scalar) else None
    if weights is None and isinstance(x.rows, int) and isinstance(known, (bool, int, float)):
        return _picked(ctx, x, float(known), middle=True)
    return _computed(ctx, x, weights, ctx.g.reshape(ctx.floats(share), (1, 1)), middle=True)


@builtin("interQuartileMean")
def interquartile_mean(ctx: Context, x: Matrix, w: Matrix | None = None, /) -> Value:
    """The mean of the middle half of a column, also with weights; the elements at its ends count in part."""
    if w is not None or not isinstance(x.rows, int):
        return ctx.scalar(_computed_middle(ctx, x, w))
    size = x.rows
    first, last = math.ceil(0.25 * size), math.ceil(0.75 * size)
    shares = np.zeros(size)
    shares[first:last] = 1
    shares[first - 1] += first - 0.25 * size
    shares[last - 1] -= last - 0.75 * size
    g = ctx.g
    weighted = g.binary("Mul", _sorted(ctx, ctx.only_column(x)), g.constant(shares / (0.5 * size), FLOAT))
    return ctx.scalar(g.reduce("ReduceSum", weighted, (0,), keepdims=False))


def _picked(ctx: Context, x: Matrix, share: float, middle: bool) -> Tensor:
    """Return the element at a known share, with the next one if `middle` and the known number of elements is even."""
    g, size = ctx.g, x.rows
    assert isinstance(size, int)
    place = math.ceil(share * size)
    ordered = _sorted(ctx, ctx.only_column(x))
    found = g.slice(ordered, 0, max(place, 1) - 1, max(place, 1))
    if not middle or size % 2 or not 1 <= place < size:
        return found
    both = g.binary("Mul", g.binary("Add", found, g.slice(ordered, 0, place, place + 1)), g.number(0.5))
    # the engine sorts all zeros into one row, and takes the middle only before the last row
    filled = g.reduce("ReduceSum", g.cast(g.truth(ordered), INT), (0,))
    return g.where(g.binary("Greater", filled, g.constant([place])), both, found)


@dataclass(frozen=True)
class _Heights:
    """A sorted column: its `values`, the weights up to each of them (`upper`), and those of all, in float64."""

    values: Tensor
    weights: Tensor
    upper: Tensor
    total: Tensor


def _heights(ctx: Context, x: Matrix, weights: Matrix | None) -> _Heights:
    g, key = ctx.g, ctx.only_column(x)
    size = key.dims[0]
    values, places = ascending(ctx, key, 0)
    if weights is None:
        upper = g.cast(g.count(1, size + 1), WIDE)
        return _Heights(values, g.constant(np.float64(1), WIDE), upper, g.cast(g.size_tensor(size), WIDE))
    sorted_weights = g.gather(g.cast(ctx.only_column(weights), WIDE), places, 0)
    upper = g.node("CumSum", [sorted_weights, g.constant(np.int64(0))], (size,), WIDE)
    return _Heights(values, sorted_weights, upper, g.reduce("ReduceSum", sorted_weights, (0,)))


def _computed(ctx: Context, x: Matrix, weights: Matrix | None, shares: Tensor, middle: bool) -> Tensor:
    """Return the elements at a column of shares, where these, the number of elements or weights are computed."""
    g, column = ctx.g, _heights(ctx, x, weights)
    exact = g.cast(shares, WIDE)
    if shares.constant is None and g.dtype == "float32":  # 0.3 of 10 is a little more than 3
        exact = g.binary("Mul", exact, g.constant(np.float64(1 - _ROUNDING), WIDE))
    place = g.unary("Ceil", g.binary("Mul", exact, column.total))
    one = g.constant(np.float64(1), WIDE)

    def at(place: Tensor) -> Tensor:
        below = g.cast(g.binary("Less", g.reshape(column.upper, (1, x.rows)), place), INT)
        index = g.reduce("ReduceSum", below, (1,))
        last = g.binary("Sub", g.size_tensor(x.rows), g.constant([1]))
        return g.gather(column.values, g.reshape(g.binary("Min", index, last), (shares.dims[0],)), 0)

    found = at(g.binary("Max", place, one))
    if not middle:
        return g.reshape(found, (shares.dims[0], 1))
    both = g.binary("Mul", g.binary("Add", found, at(g.binary("Add", place, one))), g.number(0.5))
    half = g.binary("Mul", column.total, g.constant(np.float64(0.5), WIDE))
    even = g.binary("Equal", g.unary("Floor", half), half)
    # as in `_picked`; with weights the engine compares their sum with the rows, too
    filled = g.reduce("ReduceSum", g.cast(g.truth(column.values), INT), (0,))
    place = g.reshape(place, (1,))
    inside = g.binary("And", g.binary("Greater", g.cast(filled, WIDE), place), g.binary("GreaterOrEqual", place, one))
    return g.where(g.binary("And", even, inside), both, found)


def _computed_middle(ctx: Context, x: Matrix, weights: Matrix | None) -> Tensor:
    """Return the mean of the middle half: each element by the part of its weight that lies there."""
    g, column = ctx.g, _heights(ctx, x, weights)
    low, high = (g.binary("Mul", column.total, g.constant(np.float64(share), WIDE)) for share in (0.25, 0.75))
    top = g.binary("Min", column.upper, high)
    bottom = g.binary("Max", g.binary("Sub", column.upper, column.weights), low)
    part = g.binary("Max", g.binary("Sub", top, bottom), g.constant(np.float64(0), WIDE))
    share = g.binary("Div", part, g.binary("Sub", high, low))
    return g.reduce("ReduceSum", g.binary("Mul", column.values, g.floating(share)), (0,), keepdims=False)


def _register_triangle(name: str, upper: int, side: str) -> None:
    @builtin(name, meaning=f"The elements {side} the diagonal, or 1 for each of them.")
    def function(ctx: Context, target: Matrix, diag: bool = False, values: bool = False) -> Value:
        g = ctx.g
        x = ctx.flat(target) if values else g.filled(1.0, target.dims)
        beside = 0 if diag else 1 if upper else -1
        return ctx.matrix(g.node("Trilu", [x, g.constant(np.int64(beside))], x.dims, upper=upper))


_register_triangle("lower.tri", 0, "below")
_register_triangle("upper.tri", 1, "above")
