"""Contingency tables: what `table` counts, and the choice of rows that it often stands for."""

from __future__ import annotations

import numpy as np

from onnx_systemds.dims import Dim
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin
from onnx_systemds.exporting.graph import INT, Tensor
from onnx_systemds.exporting.values import Matrix, Scalar, Value


@builtin("table", "ctable")
def table(
    ctx: Context, a: Value, b: Value, w: Value | None = None, rows: Value | None = None, cols: Value | None = None
) -> Value:
    """How often each pair of indices (from 1) occurs; what lies outside of a given size is left out.

    A size that is not given is the largest index: known, a size, or computed by the model.
    """
    if isinstance(w, Scalar) and rows is not None and cols is None:
        w, rows, cols = None, w, rows
    first, second = (ctx.as_matrix(v) for v in (a, b))
    height, width = _size(ctx, first, rows), _size(ctx, second, cols)
    count = max((m.rows for m in (first, second) if m.rows != 1), key=lambda n: not isinstance(n, int), default=1)
    chosen = _indices(ctx, second)
    right = _marked(ctx, chosen, width, count)
    weights = w if isinstance(w, Matrix) or (isinstance(w, Scalar) and w.known != 1) else None
    if weights is not None:
        factor = ctx.viewed(weights, (weights.rows, 1)) if isinstance(weights, Matrix) else ctx.floats(weights)
        right = ctx.g.binary("Mul", right, factor)
    if _counts(first) and height == count:
        if weights is None and second.rows == count and _within(chosen, width):
            right.row_choice = chosen
        return ctx.matrix(right)
    left = ctx.g.transpose(_marked(ctx, _indices(ctx, first), height, count), (1, 0))
    return ctx.matrix(ctx.g.matmul(left, right))


def _size(ctx: Context, indices: Matrix, given: Value | None) -> Dim:
    if given is not None:
        return ctx.integer(given, "the size of a table")
    if indices.constant is not None:
        return int(indices.constant.max())
    if indices.tensor.counts:
        return indices.rows
    largest = ctx.g.reduce("ReduceMax", ctx.column(indices), (0,), keep=False)
    return ctx.integer(ctx.scalar(largest), "the largest index of a table")


def _counts(indices: Matrix) -> bool:
    """Whether indices are 1, 2, 3 ..."""
    content = indices.constant
    if content is not None:
        return bool(np.array_equal(content.ravel(), np.arange(1, content.size + 1)))
    return indices.tensor.counts


def _indices(ctx: Context, column: Matrix) -> Tensor:
    """Return the indices of a column, from 0 on, as ints of rank 1; fractions are cut off."""
    return ctx.g.binary("Sub", ctx.g.cast(ctx.column(column), INT), ctx.g.constant(1))


def _within(indices: Tensor, width: Dim) -> bool:
    """Whether indices are certainly inside, so that a table can be a choice of rows.

    Those that the model computes are taken to be: one that is not makes the model fail, not err.
    """
    content = indices.constant
    return content is None or (isinstance(width, int) and bool(((content >= 0) & (content < width)).all()))


def _marked(ctx: Context, indices: Tensor, width: Dim, count: Dim) -> Tensor:
    """Return a row per index with a 1 at its place; a single index serves for all rows."""
    g = ctx.g
    places = g.reshape(indices, (*indices.dims, 1))
    columns = g.reshape(g.constant(np.arange(width)) if isinstance(width, int) else g.count(0, width), (1, width))
    marked = g.floating(g.binary("Equal", places, columns, (indices.dims[0], width)))
    return marked if indices.dims[0] == count or count == 1 else g.expand(marked, (count, width))
