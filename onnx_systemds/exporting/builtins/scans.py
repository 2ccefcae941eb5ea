"""Running products, minima and maxima of columns, and the recurrence of cumsumprod: one Scan over the rows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Tensor, Value, builtin
from onnx_systemds.exporting.graph.nodes import SubGraph


@builtin("cumprod")
def cumulative_product(ctx: Context, target: Matrix) -> Value:
    """The running product of each column."""
    x, g = ctx.flat(target), ctx.g
    if g.knows("CumProd"):
        return ctx.matrix(g.node("CumProd", [x, g.constant(0)], x.dims))
    return ctx.matrix(_scanned(ctx, x, 1.0, operator.mul))


@builtin("cummin")
def cumulative_minimum(ctx: Context, target: Matrix) -> Value:
    """The running minimum of each column."""
    return ctx.matrix(_scanned(ctx, ctx.flat(target), math.inf, Tensor.at_most))


@builtin("cummax")
def cumulative_maximum(ctx: Context, target: Matrix) -> Value:
    """The running maximum of each column."""
    return ctx.matrix(_scanned(ctx, ctx.flat(target), -math.inf, Tensor.at_least))


@builtin("cumsumprod")
def cumulative_sum_product(ctx: Context, target: Matrix) -> Value:
    """The recurrence ``y = X[i,1] + X[i,2] * y`` over the rows, with y = 0 before the first."""
    if target.cols != 2:
        raise UnsupportedCase(f"cumsumprod takes two columns, not {target}")
    g, x = ctx.g, ctx.flat(target)

    def step(before: Tensor, row: Tensor) -> Tensor:
        added, factor = (g.slice(row, 0, place, place + 1) for place in (0, 1))
        return added + factor * before

    return ctx.matrix(_scanned(ctx, x, 0.0, step, width=1))


def _scanned(
    ctx: Context, x: Tensor, start: float, step: Callable[[Tensor, Tensor], Tensor], width: int | None = None
) -> Tensor:
    """Return what `step` makes of each row and of what it made of the row before; a row of `start` is first."""
    g = ctx.g
    dims = x.dims[1:] if width is None else (width,)
    with g.subgraph() as scope:
        before, row = g.state(FLOAT, dims, "before"), g.state(FLOAT, x.dims[1:], "row")
        made = step(before, row)
        outputs = g.own([made, made])
    body = SubGraph(scope, (before, row), tuple(outputs))
    results = g.nodes("Scan", [g.filled(start, dims), x], [(FLOAT, dims), (FLOAT, (x.dims[0], *dims))],
                      body=body, num_scan_inputs=1)
    return results[1]
