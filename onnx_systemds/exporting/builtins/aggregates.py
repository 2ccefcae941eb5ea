"""Sums, means, extremes, variances of all elements, of rows and of columns; cumulative sums; row-index maxima."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Tensor, Value, builtin
from onnx_systemds.exporting.graph.images import planes
from onnx_systemds.exporting.graph.patches import patches_of
from onnx_systemds.exporting.values import ListValue
from onnx_systemds.inference.dims import Dim

_REDUCTIONS = {
    "Sums": ("ReduceSum", "sum"), "Means": ("ReduceMean", "mean"), "Maxs": ("ReduceMax", "largest element"),
    "Mins": ("ReduceMin", "smallest element"), "Prods": ("ReduceProd", "product"),
}


_PARTS = (("col", "column"), ("row", "row"))
"""By their axis."""


_POOLS = {"ReduceMax": ("MaxPool", -math.inf), "ReduceMean": ("AveragePool", 0.0)}


def reduced(ctx: Context, target: Matrix, op: str, axis: int) -> Matrix:
    """Return the aggregate of each row (axis 1) or column (0); a tensor of more axes keeps them, with a size of 1."""
    found = reduced_along_axes(ctx, target, op) if axis == 1 else _pooled(ctx, op, target)
    return found or ctx.matrix(ctx.g.reduce(op, ctx.flat(target), (axis,)))


def reduced_along_axes(ctx: Context, target: Matrix, op: str) -> Matrix | None:
    """Return the aggregate of each row of a matrix that is an image or a tensor of more axes; None for any other."""
    tensor, axes = planes(target.tensor, target.rows, target.cols), range(2, 4)
    if tensor is None or not ctx.g.visible(tensor):
        tensor, axes = target.tensor, range(1, target.tensor.rank)
        if tensor.rank <= 2 or tensor.dims[0] != target.rows:
            return None
    return Matrix(ctx.g.reduce(op, ctx.g.floating(tensor), axes), target.rows, 1)


def _pooled(ctx: Context, op: str, target: Matrix) -> Matrix | None:
    """Return the aggregate of each window of an image as pooling, None for other columns."""
    pool, outside = _POOLS.get(op, ("", 0.0))
    found = patches_of(ctx.flat(target)) if pool else None
    if found is None or found.shape[0] != 1 or found.padding not in (None, outside):
        return None
    if pool == "AveragePool" and (ctx.g.dtype == "float64" or found.dilations != (1, 1)):
        return None  # onnxruntime has it in float32 alone, and dilations only in newer opsets
    attributes = found.attributes()
    if pool == "AveragePool" and found.padding is not None:
        attributes["count_include_pad"] = 1
    image = ctx.g.reshape(found.image, (1, *found.shape))
    pooled = ctx.g.node(pool, [image], (1, 1, *found.extents), **attributes)
    return Matrix(pooled, 1, target.cols)


@builtin("sum")
def total(ctx: Context, target: Value) -> Value:
    """The sum of all elements of a matrix."""
    return _of_all(ctx, "ReduceSum", target)


@builtin("mean", "avg")
def mean(ctx: Context, target: Value, w: Matrix | None = None, /) -> Value:
    """The mean of all elements of a matrix, optionally weighted."""
    if w is None:
        return _of_all(ctx, "ReduceMean", target)
    x, weights = ctx.only_column(ctx.as_matrix(target)), ctx.only_column(w)
    return ctx.scalar(weighted_mean(ctx, x, weights))


def weighted_mean(ctx: Context, x: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean along the first axis as a tensor of one element and rank 1."""
    g = ctx.g
    if weights is None:
        return g.reduce("ReduceMean", x, (0,))
    total = g.reduce("ReduceSum", x * weights, (0,))
    return total / g.reduce("ReduceSum", weights, (0,))


@builtin("prod")
def product(ctx: Context, target: Value) -> Value:
    """The product of all elements of a matrix."""
    return _of_all(ctx, "ReduceProd", target)


def _of_all(ctx: Context, op: str, target: Value) -> Value:
    if isinstance(target, ListValue):
        target = ctx.matrix(ctx.g.concat([ctx.flat(ctx.as_matrix(item)) for item in target.items], 0))
    if not isinstance(target, Matrix):
        raise UnsupportedCase(f"an aggregate of {target}")
    x = ctx.g.floating(target.tensor)
    return ctx.scalar(ctx.g.reduce(op, x, range(x.rank), keepdims=False))


@builtin("var")
def variance(ctx: Context, target: Matrix) -> Value:
    """The sample variance of all elements."""
    return ctx.scalar(_variance(ctx, ctx.viewed(target, (target.rows * target.cols, 1)), 0))


@builtin("sd")
def deviation(ctx: Context, target: Matrix) -> Value:
    """The sample standard deviation of all elements."""
    return ctx.scalar(_variance(ctx, ctx.viewed(target, (target.rows * target.cols, 1)), 0).root())


def _variances(ctx: Context, target: Matrix, axis: int) -> Matrix:
    return ctx.matrix(_variance(ctx, ctx.flat(target), axis))


def _deviations(ctx: Context, target: Matrix, axis: int) -> Matrix:
    return ctx.matrix(_variance(ctx, ctx.flat(target), axis).root())


def _variance(ctx: Context, x: Tensor, axis: int) -> Tensor:
    """Return the sample variance along an axis; that of a single element is 0, that of none NaN."""
    g = ctx.g
    if x.dims[axis] == 1:  # 0 also where the element is infinite
        return g.filled(0.0, x.dims)
    centered = x - g.reduce("ReduceMean", x, (axis,))
    squares = g.reduce("ReduceSum", centered * centered, (axis,))
    size: Dim = x.dims[axis]
    if isinstance(size, int):
        return squares / float(max(size - 1, 1) if size else 0)
    less = g.floating(g.size_tensor(size + -1))
    return squares / less.at_least(1.0)


def _last_index(ctx: Context, target: Matrix, largest: bool) -> Matrix:
    """Return the positions; NaN is ignored, and a row of NaN has the position 1: ArgMax leaves both undefined."""
    g, x = ctx.g, ctx.flat(target)
    rows, cols = x.dims
    # positions stand as floats in a table, which is faster than to add 1 and to cast; 16 bits would round them
    table = None
    if isinstance(cols, int) and g.dtype == "float32" and g.narrow is None:
        table = g.floating(g.count(1, cols + 1))
    if target.tensor.kind == FLOAT:
        if not isinstance(cols, int) or table is None:
            return ctx.matrix(_last_index_by_numbers(ctx, x, largest=largest))
        x = _ranked(ctx, x, cols, largest=largest)
    op = "ArgMax" if largest else "ArgMin"
    place = g.node(op, [x], (rows, 1), INT, axis=1, keepdims=1, select_last_index=1)
    if table is not None:
        return ctx.matrix(g.gather(table, place, 0))
    return ctx.matrix(g.floating(place + 1))


def _ranked(ctx: Context, x: Tensor, cols: int, *, largest: bool) -> Tensor:
    """Return floats of float32 without NaN, whose ArgMax is what the engine finds.

    NaN stand after infinities, and the first of a row before the others. Infinities join the float32 next to the two
    last ones.
    """
    g, sign = ctx.g, -1.0 if largest else 1.0
    last = np.finfo(np.float32).max
    bound = float(np.nextafter(last, np.float32(0)))
    gaps = np.full((1, cols), sign * math.inf)
    gaps[0, 0] = sign * float(last)
    limit = g.number(sign * bound)
    held = g.node("Clip", [x, limit] if largest else [x, None, limit], x.dims)
    return g.where(x.apply("IsNaN"), g.constant(gaps), held)


def _last_index_by_numbers(ctx: Context, x: Tensor, *, largest: bool) -> Tensor:
    """Return the same as the greatest number among the positions of what equals the best, for any floats."""
    g = ctx.g
    reduction, worst = ("ReduceMax", -math.inf) if largest else ("ReduceMin", math.inf)
    best = g.reduce(reduction, g.where(x.apply("IsNaN"), worst, x), (1,))
    numbers = g.floating(g.reshape(g.count(1, x.dims[1] + 1), (1, x.dims[1])))
    return g.reduce("ReduceMax", g.where(x.equals(best), numbers, 1.0), (1,))


def cumulated(ctx: Context, target: Matrix, axis: int) -> Matrix:
    """The running sums along an axis."""
    x = ctx.flat(target)
    return ctx.matrix(ctx.g.node("CumSum", [x, ctx.g.constant(axis)], x.dims))


def _register(name: str, meaning: str, aggregate: Callable[[Context, Matrix], Matrix]) -> None:
    @builtin(name, meaning=meaning)
    def function(ctx: Context, target: Matrix) -> Value:
        return aggregate(ctx, target)


for _axis, (_prefix, _part) in enumerate(_PARTS):
    for _suffix, (_op, _what) in _REDUCTIONS.items():
        _register(f"{_prefix}{_suffix}", f"The {_what} of each {_part}.", partial(reduced, op=_op, axis=_axis))
    _register(f"{_prefix}Vars", f"The sample variance of each {_part}.", partial(_variances, axis=_axis))
    _register(f"{_prefix}Sds", f"The sample standard deviation of each {_part}.", partial(_deviations, axis=_axis))
for _name, _what, _largest in (("rowIndexMax", "largest", True), ("rowIndexMin", "smallest", False)):
    _register(_name, f"The index (from 1) of the {_what} element of each row; the last of equal ones.",
              partial(_last_index, largest=_largest))
_register("cumsum", "The running sum of each column.", partial(cumulated, axis=0))
_register("rowcumsum", "The running sum of each row.", partial(cumulated, axis=1))
