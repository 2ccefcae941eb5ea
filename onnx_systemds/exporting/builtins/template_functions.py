"""Functions of ``templates/library`` as the operators that they stand for, so that a model comes back as it was.

Those with a fitted polynomial serve in float32, to whose precision it is fitted.
"""

from __future__ import annotations

from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.values import Matrix, Value

_GELU_SINCE = 20


def _register_fitted() -> None:
    """Register the functions of one matrix that are one operator in float32."""
    for name, op, since in (("gelu", "Gelu", _GELU_SINCE), ("erf", "Erf", 0), ("softplus", "Softplus", 0)):

        @template_function(name)
        def function(ctx: Context, X: Matrix, op: str = op, since: int = since) -> Value | None:
            if ctx.g.dtype == "float64" or ctx.g.opset < since:
                return None
            return Matrix(ctx.g.unary(op, ctx.g.floating(X.tensor)), X.rows, X.cols)


_register_fitted()


@template_function("round_half_even")
def rounded(ctx: Context, X: Matrix) -> Value:
    """The nearest integers, of halves the even one."""
    return Matrix(ctx.g.unary("Round", ctx.g.floating(X.tensor)), X.rows, X.cols)


@template_function("row_sums")
def row_sums(ctx: Context, X: Matrix) -> Value:
    """The sums of the rows."""
    return ctx.matrix(ctx.g.reduce("ReduceSum", ctx.flat(X), (1,)))


@template_function("row_means")
def row_means(ctx: Context, X: Matrix) -> Value:
    """The means of the rows."""
    return ctx.matrix(ctx.g.reduce("ReduceMean", ctx.flat(X), (1,)))


@template_function("scaled_rows")
def scaled_rows(ctx: Context, V: Matrix, w: Matrix) -> Value:
    """Each row times a number; 0 times NaN or an infinity is NaN, as a Mul has it."""
    return ctx.matrix(ctx.g.binary("Mul", ctx.flat(V), ctx.flat(w)))
