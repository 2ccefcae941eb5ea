"""Statistics of columns, also with weights: covariance and moments."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.aggregates import weighted_mean
from onnx_systemds.exporting.builtins.api import Context, Matrix, Value, builtin
from onnx_systemds.exporting.builtins.registry import known_content
from onnx_systemds.exporting.values import integer


@builtin("cov")
def covariance(ctx: Context, a: Matrix, b: Matrix, w: Matrix | None = None, /) -> Value:
    """The sample covariance of two columns, optionally weighted; 0 if the weights add up to 1."""
    g, weights = ctx.g, None if w is None else ctx.only_column(w)
    one, other = (x - weighted_mean(ctx, x, weights) for x in (ctx.only_column(a), ctx.only_column(b)))
    both = one * other
    if weights is None:
        total = ctx.floats(integer(a.rows))
    else:
        both = both * weights
        total = g.reduce("ReduceSum", weights, (0,), keepdims=False)
    one_row = total.equals(1.0)
    found = g.reduce("ReduceSum", both, (0,), keepdims=False) / (total - 1.0)
    if one_row.constant is not None:
        return ctx.scalar(g.number(0.0) if one_row.constant else found)
    return ctx.scalar(g.where(one_row, 0.0, found))


@builtin("moment", "centralMoment")
def moment(ctx: Context, x: Matrix, w: Value, k: Value | None = None, /) -> Value:
    """The central moment of a column of order 2 to 4: ``moment(x, k)``, or ``moment(x, w, k)`` with weights."""
    order = known_content(w if k is None else k, int, "k", "moment")
    if order not in (2, 3, 4):
        raise UnsupportedCase(f"a moment of order {order}", hint="2, 3 and 4 can be exported")
    column = ctx.only_column(x)
    weights = None if k is None else ctx.only_column(ctx.as_matrix(w))
    power = (column - weighted_mean(ctx, column, weights)) ** float(order)
    return ctx.scalar(weighted_mean(ctx, power, weights))
