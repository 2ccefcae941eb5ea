"""Groups of equal elements: aggregates of groups, distinct elements and their number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Scalar, Tensor, Value, builtin, refuse
from onnx_systemds.exporting.builtins.contingency import certainly_within, places_of, table_size
from onnx_systemds.exporting.builtins.products import SCATTER_SINCE, added_up
from onnx_systemds.exporting.builtins.ranks import ascending
from onnx_systemds.exporting.graph.positions import read_positions
from onnx_systemds.exporting.values import INTEGER
from onnx_systemds.inference.dims import RUN_SIZE_PREFIX, Dim

_EXTREMES_SINCE = 18
"""The opset from which on ScatterND keeps the smallest or largest of what it scatters."""


@builtin("aggregate", "groupedAggregate")
def aggregate(
    ctx: Context, target: Matrix, groups: Matrix, weights: Value | None = None, fn: str = "sum",
    ngroups: Value | None = None, order: Value | None = None,
) -> Value:
    """The sum, count, mean, variance, minimum, maximum or central moment of each group of rows."""
    g = ctx.g
    count, places = table_size(ctx, groups, ngroups), places_of(ctx, groups)
    if ngroups is None or certainly_within(places, count):
        places = read_positions(g, places)
        return ctx.matrix(_aggregated(ctx, target, places, count, weights, fn, order))
    # rows of groups after the last one count nowhere: they make a group of their own, which is cut off
    places = places.at_most(g.size_number(count))
    found = _aggregated(ctx, target, places, count + 1, weights, fn, order)
    return ctx.matrix(g.slice(found, 0, 0, count))


def _aggregated(
    ctx: Context, target: Matrix, places: Tensor, count: Dim, weights: Value | None, fn: str, order: Value | None
) -> Tensor:
    """Return the aggregates of `count` groups; `places` (int, from 0 on) says to which each row belongs."""
    g, x = ctx.g, ctx.flat(target)
    ones = g.filled(1.0, (target.rows, 1))
    weighted = isinstance(weights, Matrix)
    share = ctx.viewed(weights, (target.rows, 1)) if isinstance(weights, Matrix) else ones
    sizes = _added(ctx, share, places, count)
    if fn == "count":  # an integer also with weights; the same for each column
        whole = (sizes + 0.5).apply("Floor") if weighted else sizes
        return g.expand(whole, (count, target.cols))
    if fn in ("min", "max"):
        rows = x * share if weighted else x
        return _extremes(ctx, rows, places, _added(ctx, ones, places, count), fn)
    sums = _added(ctx, x * share if weighted else x, places, count)
    if fn == "sum":
        return sums
    means = _divided(ctx, sums, sizes)
    if fn == "mean":
        return means
    centered = x - g.gather(means, places, 0)
    power = "2" if fn == "variance" else str(order.known) if isinstance(order, Scalar) else ""
    if fn in ("variance", "centralmoment") and power in ("2", "3", "4"):
        square = centered * centered
        powers = square if fn == "variance" else centered ** float(power)
        moments = _added(ctx, powers * share if weighted else powers, places, count)
        return _divided(ctx, moments, sizes - 1.0) if fn == "variance" else moments / sizes
    raise UnsupportedCase(f"{fn} is no aggregate of groups that is exported",
                          hint="sum, count, mean, variance, min, max, centralmoment of order 2 to 4 are")


def _added(ctx: Context, rows: Tensor, places: Tensor, count: Dim) -> Tensor:
    """Return the sum of the rows for each place."""
    ctx.check_opset(SCATTER_SINCE, f"sums of groups in opset {ctx.g.opset}")
    return added_up(ctx.g, rows, places, count)


def _extremes(ctx: Context, rows: Tensor, places: Tensor, sizes: Tensor, fn: str) -> Tensor:
    """Return the smallest or largest rows for each place, 0 where there are none."""
    g = ctx.g
    ctx.check_opset(_EXTREMES_SINCE, f"the {fn} of groups in opset {g.opset}")
    found = added_up(g, rows, places, sizes.dims[0], fn, math.inf if fn == "min" else -math.inf)
    return g.where(sizes > 0.0, found, 0.0)


def _divided(ctx: Context, sums: Tensor, sizes: Tensor) -> Tensor:
    """Return a quotient, 0 where the divisor is 0: for groups of too few rows."""
    g = ctx.g
    none = sizes.equals(0.0)
    return g.where(none, 0.0, sums / g.where(none, 1.0, sizes))


@builtin("unique")
def unique(ctx: Context, x: Matrix, dir: str = "rc") -> Value:
    """The distinct elements as a column, in ascending order, NaN last.

    Of matrices below each other, ``unique(rbind(A, B))``, the distinct rows as they come up, as the engine has it.
    By rows (dir "r") or columns ("c") those of each, and zeros after them up to the longest.
    """
    g = ctx.g
    if dir == "r":
        return ctx.matrix(_distinct_in_rows(ctx, ctx.flat(x)))
    if dir == "c":
        return ctx.matrix(g.transpose(_distinct_in_rows(ctx, g.transpose(ctx.flat(x), (1, 0))), (1, 0)))
    if dir != "rc":
        raise UnsupportedCase(f"the distinct elements in the direction {dir}",
                              hint="it is r (rows), c (columns) or rc (both)")
    if x.is_stacked:
        return ctx.matrix(_distinct_rows(ctx, ctx.flat(x)))
    numbers, undefined = _distinct(ctx, ctx.column(x))
    ending = g.node("Compress", [g.constant([math.nan], FLOAT), undefined], (g.size_symbol("nan"),), axis=0)
    g.bind_dims(ending)
    whole = g.concat([numbers, ending], 0)
    return ctx.matrix(g.reshape(whole, (*whole.dims, 1)))


def _distinct_rows(ctx: Context, x: Tensor) -> Tensor:
    """Return the rows that differ from all before them; NaN is equal to NaN."""
    g, count = ctx.g, ctx.g.size_symbol("distinct")
    undefined = x.apply("IsNaN")
    keys = g.concat([g.where(undefined, 0.0, x), g.floating(undefined)], 1)
    _, places = g.nodes("Unique", [keys], [(FLOAT, (count, keys.dims[1])), (INT, (count,))], axis=0, sorted=0)
    g.bind_dims(places)
    return g.gather(x, places, 0)


def _distinct_in_rows(ctx: Context, x: Tensor) -> Tensor:
    """Return the distinct elements of each row in the order of `unique`, then zeros."""
    g, size = ctx.g, x.dims[1]
    row = _sorted_along(ctx, x, 1)
    first = g.slice(row.ordered, 1, 0, 1)
    again = g.concat([first.apply("IsNaN"), row.repeats], 1)  # the first one, which is no NaN, repeats nothing
    numbers, _ = ascending(ctx, g.where(again, math.inf, row.ordered), 1)
    count = row.any_number * _added_up(ctx, ~again, 1)
    columns = g.floating(g.reshape(g.count(0, size), (1, size)))
    undefined = g.truth(row.any_undefined) & columns.equals(count)
    ending = g.where(undefined, g.number(math.nan), g.number(0.0))
    found = g.where(columns < count, numbers, ending)
    longest = g.reduce("ReduceMax", count + row.any_undefined, (0, 1), keepdims=False)
    width = g.integer_symbol(g.cast(longest, INT), "distinct", RUN_SIZE_PREFIX)
    return g.slice(found, 1, 0, width, size=width)


@builtin("countDistinct")
def count_distinct(ctx: Context, x: Matrix, dir: str = "rc") -> Value:
    """The number of distinct elements of a matrix, or of each row or column; all NaN count as one."""
    if dir in ("r", "c"):
        return ctx.matrix(_distinct_along(ctx, ctx.flat(x), 1 if dir == "r" else 0))
    numbers, undefined = _distinct(ctx, ctx.column(x))
    extra = ctx.g.integer_symbol(ctx.g.cast(undefined, INT))
    return Scalar(INTEGER, numbers.dims[0] + extra)


def _distinct(ctx: Context, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct numbers in ascending order, and whether there is a NaN (bool, rank 1)."""
    g = ctx.g
    undefined = x.apply("IsNaN")
    numbers = g.node("Compress", [x, ~undefined], (g.size_symbol("numbers"),), axis=0)
    found = g.node("Unique", [numbers], (g.size_symbol("distinct"),), sorted=1)
    g.bind_dims(found)
    return found, g.truth(g.reduce("ReduceMax", g.cast(undefined, INT), (0,)))


@builtin("rowCountDistinct")
def row_distinct(ctx: Context, x: Matrix) -> Value:
    """The number of distinct elements of each row."""
    return ctx.matrix(_distinct_along(ctx, ctx.flat(x), 1))


@builtin("colCountDistinct")
def column_distinct(ctx: Context, x: Matrix) -> Value:
    """The number of distinct elements of each column."""
    return ctx.matrix(_distinct_along(ctx, ctx.flat(x), 0))


@dataclass(frozen=True)
class _Sorted:
    """Rows or columns in ascending order, their NaN as the smallest number there; `repeats` compares neighbours.

    any_number, any_undefined: 1 where there is a number, or a NaN.
    """

    ordered: Tensor
    repeats: Tensor
    any_number: Tensor
    any_undefined: Tensor


def _sorted_along(ctx: Context, x: Tensor, axis: int) -> _Sorted:
    g, size = ctx.g, x.dims[axis]
    undefined = x.apply("IsNaN")
    smallest = g.reduce("ReduceMin", g.where(undefined, math.inf, x), (axis,))
    ordered, _ = ascending(ctx, g.where(undefined, smallest, x), axis)
    before, after = g.slice(ordered, axis, 0, size - 1), g.slice(ordered, axis, 1, size)
    known = g.floating(~undefined)
    any_undefined = 1.0 - g.reduce("ReduceMin", known, (axis,))
    return _Sorted(ordered, before.equals(after), g.reduce("ReduceMax", known, (axis,)), any_undefined)


def _added_up(ctx: Context, truths: Tensor, axis: int) -> Tensor:
    return ctx.g.reduce("ReduceSum", ctx.g.floating(truths), (axis,))


def _distinct_along(ctx: Context, x: Tensor, axis: int) -> Tensor:
    """Return how often the sorted elements change; a NaN is counted by itself."""
    found = _sorted_along(ctx, x, axis)
    return _added_up(ctx, ~found.repeats, axis) + (found.any_number + found.any_undefined)


refuse("countDistinctApprox", "rowCountDistinctApprox", "colCountDistinctApprox", reason="it estimates by hashes",
       hint="countDistinct and its like count")
