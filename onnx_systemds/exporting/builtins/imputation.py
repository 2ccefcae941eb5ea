"""Missing values as SystemDS's scripts fill them: by operators over all columns instead of a loop."""

from __future__ import annotations

from onnx_systemds.exporting.builtins.api import INT, Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import library_function
from onnx_systemds.exporting.builtins.products import SCATTER_SINCE


@library_function("builtin/imputeByMode.dml", "m_imputeByMode")
def impute_by_mode(ctx: Context, X: Matrix) -> tuple[Value, ...] | None:
    """Each column with NaN replaced by its most frequent category, and these categories."""
    if ctx.g.opset < SCATTER_SINCE:
        return None
    x = ctx.flat(X)
    modes = _modes(ctx, x)
    return ctx.matrix(ctx.g.where(x.apply("IsNaN"), modes, x)), ctx.matrix(modes)


@library_function("builtin/imputeByMeanApply.dml", "m_imputeByMeanApply")
@library_function("builtin/imputeByMedianApply.dml", "m_imputeByMedianApply")
@library_function("builtin/imputeByModeApply.dml", "m_imputeByModeApply")
def impute_apply(ctx: Context, X: Matrix, imputedVec: Matrix) -> Value | None:
    """Each NaN replaced by the number of its column; an infinite one leaves the other rows as they are."""
    if imputedVec.dims != (1, X.cols):
        return None
    x = ctx.flat(X)
    return ctx.matrix(ctx.g.where(x.apply("IsNaN"), ctx.flat(imputedVec), x))


def _modes(ctx: Context, x: Tensor) -> Tensor:
    """Return the most frequent category from 1 on of each column, the last of equal ones; 0 where there is none.

    The script counts categories up to the number of elements that are at least 1, and finds this one where all are
    above. The engine takes its ``(X < 1) == 0`` for that, though NaN is not below 1 either.
    """
    g = ctx.g
    categories = x >= 1.0
    sizes = g.reduce("ReduceSum", g.floating(categories), (0,))
    counted = categories & (x < sizes + 1.0)
    places = g.cast(g.where(counted, x, 1.0), INT) - 1
    inputs = [g.filled(0.0, x.dims), places, g.floating(counted)]
    counts = g.node("ScatterElements", inputs, x.dims, axis=0, reduction="add")
    last = g.node("ArgMax", [counts], sizes.dims, INT, axis=0, keepdims=1, select_last_index=1)
    return g.where(g.reduce("ReduceMax", counts, (0,)) > 0.0, g.floating(last + 1), sizes)
