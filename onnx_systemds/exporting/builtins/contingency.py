"""Contingency tables: how often pairs of indices occur, or the sums of their weights."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import INT, Context, Matrix, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.products import SCATTER_SINCE, scattered
from onnx_systemds.exporting.graph.nodes import Entries
from onnx_systemds.exporting.graph.positions import read_positions
from onnx_systemds.exporting.values import BOOLEAN
from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.inference.known_dims import differ

_DENSE = 1 << 12
"""Elements of a sparse matrix that is as well multiplied as it is."""


@builtin("table", "ctable")
def table(
    ctx: Context, a: Matrix, b: Value, w: Value | None = None, rows: Value | None = None, cols: Value | None = None,
    empty: Value | None = None, /
) -> Value:
    """The contingency table: how often each pair of indices (from 1) occurs; by default as large as the largest ones.

    A pair with NaN, or with the weight NaN, counts nowhere, as in the engine.
    A boolean at the end (`empty`, or in its position the one of `cols`) chooses how the engine stores the zeros.
    """
    if isinstance(cols, Scalar) and cols.type == BOOLEAN:
        cols = None
    if isinstance(w, Scalar) and rows is not None and cols is None:
        w, rows, cols = None, w, rows
    if not isinstance(b, Matrix):
        b = ctx.matrix(ctx.g.expand(ctx.floats(b), a.dims))
    if isinstance(w, Scalar) and w.known != 1:
        w = ctx.matrix(ctx.g.expand(_without_nan(ctx, ctx.floats(w)), a.dims))
    if a.cols == 1 != b.cols and isinstance(b.cols, int) and b.rows == a.rows:
        b = ctx.matrix(ctx.g.slice(ctx.flat(b), 1, 0, 1))  # the engine goes by the first indices' columns
    for other in (b, w):
        if isinstance(other, Matrix):
            _check_sizes(a, other)
    kept = _defined(ctx, a, b, w) if rows is None or cols is None else None
    found = _table(ctx, a, b, w, (table_size(ctx, a, rows, kept), table_size(ctx, b, cols, kept)))
    for axis, (indices, given) in enumerate(((a, rows), (b, cols))):
        if kept is not None and isinstance(w, Matrix) and given is None and _counts(indices):
            found = ctx.g.slice(found, axis, 0, _largest(ctx, indices, kept))
    return ctx.matrix(found)


def _check_sizes(a: Matrix, other: Matrix) -> None:
    """Raise UnsupportedCase where pairs lack a part."""
    if differ(product(a.dims), product(other.dims)):
        raise UnsupportedCase(f"the table of {a} and {other}: their sizes differ")


def _table(ctx: Context, a: Matrix, b: Matrix, w: Value | None, sizes: tuple[Dim, Dim]) -> Tensor:
    """Return a table of these sizes; `w` is a matrix or None."""
    height, width = sizes
    weights = _without_nan(ctx, ctx.column(w)) if isinstance(w, Matrix) else None
    chosen = places_of(ctx, _as_column(ctx, b) if a.cols == 1 else b)
    counts, in_turn = _counts(a) and height == product(a.dims), _counts(b) and width == product(b.dims)
    if counts:
        found = _weighted(ctx, chosen, width, weights)
        if weights is None and _within(chosen, width):
            found.row_choice = read_positions(ctx.g, chosen)
        elif _is_large(found):
            found.entries = Entries(None, None if in_turn else chosen, weights)
        return found
    places = places_of(ctx, a)
    if in_turn:
        found = ctx.g.transpose(_weighted(ctx, places, height, weights), (1, 0))
        if weights is None and places.constant is not None and _within(places, height):
            found.column_choice = places
    else:
        found = _added_up(ctx, places, height, _weighted(ctx, chosen, width, weights), _is_finite(weights))
    if _is_large(found):
        found.entries = Entries(places, None if in_turn else chosen, weights)
    return found


def _weighted(ctx: Context, indices: Tensor, width: Dim, weights: Tensor | None) -> Tensor:
    """Return a row per index with its weight, also an infinite one, or 1 at its place, and zeros beside."""
    hits = _hits(ctx, indices, width)
    if weights is None:
        return ctx.g.floating(hits)
    return ctx.g.where(hits, ctx.g.reshape(weights, (*weights.dims, 1)), 0.0)


def _added_up(ctx: Context, places: Tensor, height: Dim, rows: Tensor, is_finite: bool) -> Tensor:
    """Return the sums of the rows for each place: by a product where their numbers are finite, as it spreads others."""
    if is_finite or ctx.g.opset < SCATTER_SINCE:
        return ctx.g.matmul(ctx.g.transpose(one_hot(ctx, places, height), (1, 0)), rows)
    return scattered(ctx.g, height, Entries(places, None, None), rows)


def _is_finite(weights: Tensor | None) -> bool:
    """Whether weights are known to be finite."""
    return weights is None or (weights.constant is not None and bool(np.isfinite(weights.constant).all()))


def _without_nan(ctx: Context, weights: Tensor) -> Tensor:
    """Return weights with 0 for NaN."""
    if not _may_be_nan(weights):
        return weights
    return ctx.g.where(weights.apply("IsNaN"), 0.0, weights)


def _may_be_nan(x: Tensor) -> bool:
    return x.constant is None or bool(np.isnan(x.constant).any())


def _defined(ctx: Context, *given: Value | None) -> Tensor | None:
    """Return which pairs of a table have no NaN (bool, rank 1); None: all. The others have no part in its size."""
    columns = [ctx.column(x) for x in given if isinstance(x, Matrix) and not _counts(x)]
    undefined = [column.apply("IsNaN") for column in columns if _may_be_nan(column)]
    return ~reduce(operator.or_, undefined) if undefined else None


def _as_column(ctx: Context, x: Matrix) -> Matrix:
    """Return a matrix that must have one column; where that is not known, the model stops if it has more."""
    if isinstance(x.cols, int) or x.rows == 1:
        return x
    return Matrix(ctx.g.node("Squeeze", [ctx.flat(x), ctx.g.constant([1])], (x.rows,)), x.rows, 1)


def _is_large(x: Tensor) -> bool:
    """Whether a computed matrix is better held as its entries, as far as its size is known."""
    size = product(x.dims)
    return x.constant is None and not (isinstance(size, int) and size <= _DENSE)


def table_size(ctx: Context, indices: Matrix, given: Value | None, kept: Tensor | None = None) -> Dim:
    """Return a given size, or the largest index; where `kept` (bool, rank 1) is given, of those that it says."""
    if isinstance(given, Scalar) and given.dim is not None:
        return given.dim
    if given is not None:
        return ctx.integer(given)
    if _counts(indices):
        return product(indices.dims)
    if kept is None and indices.constant is not None:
        return int(indices.constant.max())
    return _largest(ctx, indices, kept)


def _largest(ctx: Context, indices: Matrix, kept: Tensor | None) -> Dim:
    """Return the largest index; where `kept` (bool, rank 1) is given, of those that it says."""
    column = ctx.column(indices)
    if kept is not None:
        column = ctx.g.where(kept, column, 0.0)
    return ctx.integer(ctx.scalar(ctx.g.reduce("ReduceMax", column, (0,), keepdims=False)))


def _counts(indices: Matrix) -> bool:
    content = indices.constant
    if content is not None:
        return bool(np.array_equal(content.ravel(), np.arange(1, content.size + 1)))
    return indices.tensor.counts


def places_of(ctx: Context, column: Matrix) -> Tensor:
    """Return the indices of a column, from 0 on, as ints of rank 1."""
    return ctx.g.cast(ctx.column(column), INT) - 1


def certainly_within(indices: Tensor, width: Dim) -> bool:
    """Whether indices are known, and all inside."""
    return indices.constant is not None and isinstance(width, int) and _within(indices, width)


def _within(indices: Tensor, width: Dim) -> bool:
    """Whether known indices are all inside; of computed ones it is taken for granted."""
    content = indices.constant
    return content is None or not isinstance(width, int) or bool(((content >= 0) & (content < width)).all())


def one_hot(ctx: Context, indices: Tensor, width: Dim) -> Tensor:
    """Return a row per index with a 1 at its place."""
    return ctx.g.floating(_hits(ctx, indices, width))


def _hits(ctx: Context, indices: Tensor, width: Dim) -> Tensor:
    """Return a row per index (from 0 on) which is true at its place."""
    g = ctx.g
    places = g.reshape(indices, (*indices.dims, 1))
    if isinstance(width, int):
        g.reserve(width)
        columns = g.constant(np.arange(width).reshape(1, -1))
    else:
        columns = g.reshape(g.count(0, width), (1, width))
    return places.equals(columns)
