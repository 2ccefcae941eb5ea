"""Distances as SystemDS's scripts calculate them."""

from __future__ import annotations

from onnx_systemds.exporting.builtins.api import Context, Matrix, Value
from onnx_systemds.exporting.builtins.library import library_function
from onnx_systemds.exporting.builtins.linear import diagonal


@library_function("builtin/dist.dml", "m_dist")
def distances(ctx: Context, X: Matrix) -> Value:
    """The pairwise Euclidean distances of rows; exactly 0 on the diagonal."""
    g, x = ctx.g, ctx.flat(X)
    products = g.matmul(x, g.transpose(x, (1, 0)))
    squares = ctx.flat(diagonal(ctx, ctx.matrix(products)))
    found = (products * -2.0 + squares + g.transpose(squares, (1, 0))).root()
    return ctx.matrix(g.where(found.apply("IsNaN"), 0.0, found))
