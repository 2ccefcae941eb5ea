"""Statistics of two columns and of distributions: covariance, moments, the normal and exponential distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.operators import mapped
from onnx_systemds.exporting.builtins.registry import builtin, refuse
from onnx_systemds.exporting.graph.nodes import FLOAT, Tensor
from onnx_systemds.exporting.values import Matrix, Scalar, Value, integer
from onnx_systemds.inference.dims import add


@builtin("cov")
def covariance(ctx: Context, a: Matrix, b: Matrix) -> Value:
    """The sample covariance of two columns."""
    g = ctx.g
    one, other = (g.binary("Sub", x, g.reduce("ReduceMean", x, (0,))) for x in (ctx.column(a), ctx.column(b)))
    total = g.reduce("ReduceSum", g.binary("Mul", one, other), (0,), keepdims=False)
    return ctx.scalar(g.binary("Div", total, ctx.floats(integer(add(a.rows, -1)))))


@builtin("moment", "centralMoment")
def moment(ctx: Context, x: Matrix, k: int) -> Value:
    """The central moment of a column, of order 2 to 4."""
    if k not in (2, 3, 4):
        raise UnsupportedCase(f"a moment of order {k}", hint="2, 3 and 4 can be exported")
    g, column = ctx.g, ctx.column(x)
    power = g.binary("Pow", g.binary("Sub", column, g.reduce("ReduceMean", column, (0,))), g.number(float(k)))
    return ctx.scalar(g.reduce("ReduceMean", power, (0,), keepdims=False))


@builtin("pnorm")
def normal_share(
    ctx: Context, target: Value, mean: float = 0.0, sd: float = 1.0, lower_tail: bool = True
) -> Value:
    """The share of a normal distribution below a number."""
    return _tailed(ctx, target, lower_tail, lambda x: _normal(ctx, x, mean, sd))


@builtin("pexp")
def exponential_share(ctx: Context, target: Value, rate: float = 1.0, lower_tail: bool = True) -> Value:
    """The share of an exponential distribution below a number."""
    return _tailed(ctx, target, lower_tail, lambda x: _exponential(ctx, x, rate))


@builtin("cdf")
def distribution_share(
    ctx: Context, target: Value, dist: str, mean: float = 0.0, sd: float = 1.0, rate: float = 1.0,
    lower_tail: bool = True,
) -> Value:  # fmt: skip
    """The share of a distribution below a number."""
    if dist == "normal":
        return _tailed(ctx, target, lower_tail, lambda x: _normal(ctx, x, mean, sd))
    if dist == "exp":
        return _tailed(ctx, target, lower_tail, lambda x: _exponential(ctx, x, rate))
    raise UnsupportedCase(f"the distribution {dist} has no counterpart in ONNX", hint="normal and exp have one")


def _tailed(ctx: Context, target: Value, lower_tail: bool, share: Callable[[Tensor], Tensor]) -> Value:
    if not isinstance(target, Scalar):
        raise UnsupportedCase(f"the share below {target}, which is no scalar")
    found = mapped(ctx, share, target)
    if lower_tail:
        return found
    return mapped(ctx, lambda x: ctx.g.binary("Sub", ctx.g.number(1.0), x), found)


def _normal(ctx: Context, x: Tensor, mean: float, sd: float) -> Tensor:
    g = ctx.g
    scaled = g.binary("Div", g.binary("Sub", x, g.number(mean)), g.number(sd * math.sqrt(2.0)))
    if scaled.constant is not None:
        return g.number(0.5 * (1.0 + math.erf(float(scaled.constant.item()))))
    return g.binary("Mul", g.binary("Add", g.node("Erf", [scaled], scaled.dims, FLOAT), g.number(1.0)), g.number(0.5))


def _exponential(ctx: Context, x: Tensor, rate: float) -> Tensor:
    g = ctx.g
    return g.binary("Sub", g.number(1.0), g.unary("Exp", g.binary("Mul", x, g.number(-rate))))


_TABLES = "ONNX has no such distribution"
refuse("pchisq", "pf", "pt", reason=_TABLES, hint="compute this share outside of the model")
refuse("icdf", "invcdf", "qnorm", "qt", "qf", "qchisq", "qexp", reason=_TABLES, hint="bind the limit as a number")
