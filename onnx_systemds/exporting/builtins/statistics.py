"""Statistics of two columns and of distributions: covariance, moments, the normal and exponential distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.aggregates import weighted_mean
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.operators import mapped
from onnx_systemds.exporting.builtins.registry import builtin, known_content, refuse
from onnx_systemds.exporting.graph.nodes import FLOAT, Tensor
from onnx_systemds.exporting.values import Matrix, Scalar, Value, integer
from onnx_systemds.inference.dims import add


@builtin("cov")
def covariance(ctx: Context, a: Matrix, b: Matrix, w: Matrix | None = None) -> Value:
    """The sample covariance of two columns, also with a weight for each row."""
    g, weights = ctx.g, None if w is None else ctx.column(w)
    one, other = (g.binary("Sub", x, weighted_mean(ctx, x, weights)) for x in (ctx.column(a), ctx.column(b)))
    both = g.binary("Mul", one, other)
    if weights is None:
        less = ctx.floats(integer(add(a.rows, -1)))
    else:
        both = g.binary("Mul", both, weights)
        less = g.binary("Sub", g.reduce("ReduceSum", weights, (0,), keepdims=False), g.number(1.0))
    return ctx.scalar(g.binary("Div", g.reduce("ReduceSum", both, (0,), keepdims=False), less))


@builtin("moment", "centralMoment")
def moment(ctx: Context, x: Matrix, w: Value, k: Value | None = None) -> Value:
    """The central moment of a column, ``moment(x, k)`` of order 2 to 4, or ``moment(x, w, k)`` with weights."""
    order = known_content(w if k is None else k, int, "k", "moment")
    if order not in (2, 3, 4):
        raise UnsupportedCase(f"a moment of order {order}", hint="2, 3 and 4 can be exported")
    g, column = ctx.g, ctx.column(x)
    weights = None if k is None else ctx.column(ctx.as_matrix(w))
    power = g.binary("Pow", g.binary("Sub", column, weighted_mean(ctx, column, weights)), g.number(float(order)))
    return ctx.scalar(weighted_mean(ctx, power, weights))


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
