"""Elements by their rank or position: quantiles, medians, triangles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.graph.formulas import where
from onnx_systemds.exporting.graph.nodes import WIDE
from onnx_systemds.exporting.values import DOUBLE, known_of
from onnx_systemds.inference.dims import modulo

_ROUNDING = 1e-7
"""By how much a share in float32 may be too large."""


def _sorted(ctx: Context, key: Tensor) -> Tensor:
    """Return the elements of a tensor of rank 1 in order."""
    if key.constant is not None:
        return ctx.g.constant(np.sort(key.constant), FLOAT)
    return ascending(ctx, key, 0)[0]


def ascending(ctx: Context, x: Tensor, axis: int, *, turned: bool = False) -> tuple[Tensor, ...]:
    """Return the elements along an axis in order, or (turned) the largest first, and their positions."""
    g = ctx.g
    outputs = [(FLOAT, x.dims), (INT, x.dims)]
    return g.nodes("TopK", [x, g.size_tensor(x.dims[axis])], outputs, axis=axis, largest=int(turned), sorted=1)


@builtin("quantile")
def quantile(ctx: Context, x: Matrix, p: Value, q: Value | None = None, /) -> Value:
    """The quantiles of a column; a single one may be the mean of two elements. With weights `q` is the probability."""
    weights, shares = (None, p) if q is None else (ctx.as_matrix(p), q)
    if isinstance(shares, Matrix):
        known = None if shares.constant is None else shares.constant.ravel()
        if weights is None and known is not None and ((known >= 0) & (known <= 1)).all():
            values = _sorted(ctx, ctx.only_column(x))
            picked = ctx.g.gather(values, _before(ctx, _reached(ctx, values, known)), 0)
            return ctx.matrix(ctx.g.reshape(picked, (known.size, 1)))
        return ctx.matrix(_computed(ctx, x, weights, ctx.viewed(shares, (shares.rows, 1)), middle=False))
    return ctx.scalar(_quantile(ctx, x, weights, shares))


@builtin("median")
def median(ctx: Context, x: Matrix, w: Matrix | None = None, /) -> Value:
    """The median of a column, optionally with integer weights; the mean of the middle two if the number is even."""
    return ctx.scalar(_quantile(ctx, x, w, Scalar(DOUBLE, 0.5)))


def _quantile(ctx: Context, x: Matrix, weights: Matrix | None, share: Value) -> Tensor:
    """Return the quantile of one probability."""
    known = known_of(share)
    if weights is None and isinstance(known, (bool, int, float)) and 0 <= known <= 1:
        return _picked(ctx, x, float(known))
    return _computed(ctx, x, weights, ctx.g.reshape(ctx.floats(share), (1, 1)), middle=True)


@builtin("interQuartileMean")
def interquartile_mean(ctx: Context, x: Matrix, w: Matrix | None = None, /) -> Value:
    """The interquartile mean of a column, optionally weighted; the elements at the quartiles count in part."""
    if w is not None or not isinstance(x.rows, int):
        return ctx.scalar(_computed_middle(ctx, x, w))
    size = x.rows
    first, last = math.ceil(0.25 * size), math.ceil(0.75 * size)
    shares = np.zeros(size)
    shares[first:last] = 1
    shares[first - 1] += first - 0.25 * size
    shares[last - 1] -= last - 0.75 * size
    g = ctx.g
    weighted = _sorted(ctx, ctx.only_column(x)) * g.constant(shares / (0.5 * size), FLOAT)
    return ctx.scalar(g.reduce("ReduceSum", weighted, (0,), keepdims=False))


def _reached(ctx: Context, values: Tensor, shares: np.ndarray[Any, Any]) -> Tensor:
    """Return how many of the sorted `values`, one at least, make up known shares of them, as ints."""
    g, size = ctx.g, values.dims[0]
    if isinstance(size, int):
        return g.constant(np.maximum(np.ceil(shares * size), 1).astype(np.int64))
    product = g.cast(g.size_tensor(size), WIDE) * g.constant(shares, WIDE)
    found = g.cast(product.apply("Ceil"), INT)
    return found if shares.all() else found.at_least(g.constant([1]))


def _before(ctx: Context, reached: Tensor) -> Tensor:
    """Return the positions, from 0 on, of the last of so many values."""
    return reached - ctx.g.constant([1])


def _picked(ctx: Context, x: Matrix, share: float) -> Tensor:
    """Return a known quantile; of an even number of elements the mean of it and the next one."""
    g, size, values = ctx.g, x.rows, _sorted(ctx, ctx.only_column(x))
    reached = _reached(ctx, values, np.array([share]))
    if isinstance(size, int):
        place = reached.only_element or 1
        found = g.slice(values, 0, place - 1, place)
        if not share or size % 2 or place == size:
            return found
        both = (found + g.slice(values, 0, place, place + 1)) * 0.5
        return g.where(_filled(ctx, values) > reached, both, found)
    first = _before(ctx, reached)
    if not share:
        return g.gather(values, first, 0)
    even = _filled(ctx, values) * (g.constant([1]) - g.size_tensor(modulo(size, 2)))
    second = g.where(even > reached, reached, first)
    both = g.gather(values, g.concat([first, second], 0), 0)
    return g.reduce("ReduceSum", both * 0.5, (0,))


def _filled(ctx: Context, values: Tensor) -> Tensor:
    """Return how many values are not 0: the engine sorts zeros into one row, and takes middles only before the last."""
    return ctx.g.reduce("ReduceSum", ctx.g.cast(ctx.g.truth(values), INT), (0,))


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
        return _Heights(values, upper.of(1), upper, g.cast(g.size_tensor(size), WIDE))
    ordered = g.gather(g.cast(ctx.only_column(weights), WIDE), places, 0)
    upper = g.node("CumSum", [ordered, g.constant(np.int64(0))], (size,), WIDE)
    return _Heights(values, ordered, upper, g.reduce("ReduceSum", ordered, (0,)))


def _computed(ctx: Context, x: Matrix, weights: Matrix | None, shares: Tensor, middle: bool) -> Tensor:
    """Return the elements at a column of shares, where these, the number of elements or weights are computed."""
    g, column = ctx.g, _heights(ctx, x, weights)
    exact = g.cast(shares, WIDE)
    if shares.constant is None and g.dtype == "float32":  # 0.3 of 10 is a little more than 3
        exact = exact * (1 - _ROUNDING)
    place = (exact * column.total).apply("Ceil")

    def at(place: Tensor) -> Tensor:
        below = g.reshape(column.upper, (1, x.rows)) < place
        index = g.reduce("ReduceSum", g.cast(below, INT), (1,))
        last = g.size_tensor(x.rows) - g.constant([1])
        return g.gather(column.values, g.reshape(index.at_most(last), (shares.dims[0],)), 0)

    found = at(place.at_least(1))
    if not middle:
        return g.reshape(found, (shares.dims[0], 1))
    both = (found + at(place + 1)) * 0.5
    half = column.total * 0.5
    even = half.apply("Floor").equals(half)
    filled = _filled(ctx, column.values)  # with weights the engine compares their sum with the rows, too
    place = g.reshape(place, (1,))
    inside = (g.cast(filled, WIDE) > place) & (place >= 1)
    return where(even & inside, both, found)


def _computed_middle(ctx: Context, x: Matrix, weights: Matrix | None) -> Tensor:
    """Return the mean of the middle half: each element by the part of its weight that lies there."""
    g, column = ctx.g, _heights(ctx, x, weights)
    low, high = column.total * 0.25, column.total * 0.75
    top = column.upper.at_most(high)
    bottom = (column.upper - column.weights).at_least(low)
    share = (top - bottom).at_least(0) / (high - low)
    return g.reduce("ReduceSum", column.values * g.floating(share), (0,), keepdims=False)


def _register_triangle(name: str, upper: int, side: str) -> None:
    @builtin(name, meaning=f"The elements {side} the diagonal, or 1 for each of them.")
    def function(ctx: Context, target: Matrix, diag: bool = False, values: bool = False) -> Value:
        g = ctx.g
        x = ctx.flat(target) if values else g.filled(1.0, target.dims)
        beside = 0 if diag else 1 if upper else -1
        if not g.knows("Trilu"):
            rows, columns = g.reshape(g.count(0, target.rows), (target.rows, 1)), g.count(0, target.cols)
            kept = columns >= rows + beside if upper else columns <= rows + beside
            return ctx.matrix(g.where(kept, x, 0.0))
        return ctx.matrix(g.node("Trilu", [x, g.constant(np.int64(beside))], x.dims, upper=upper))


_register_triangle("lower.tri", 0, "below")
_register_triangle("upper.tri", 1, "above")
