"""Shares of distributions below and above a number, and the numbers of shares: the builtins.

All is calculated in float64, of one number each. Chi-squared, t and F of few known degrees of freedom take finite sums
(`share_formulas`), of many or computed ones continued fractions, as do the numbers of their shares (`share_series`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin
from onnx_systemds.exporting.builtins.share_formulas import Calculator, Shares
from onnx_systemds.exporting.builtins.share_series import beta_place, gamma_place, number_of
from onnx_systemds.exporting.graph.nodes import FLOAT, Tensor
from onnx_systemds.exporting.values import Scalar, Value, known_scalar

_ONE, _ZERO = known_scalar(1.0), known_scalar(0.0)
_MOST_SUMMED, _MOST_FREEDOM = 200, 10**6
_FARTHEST_ROOT = 1e150


@builtin("pnorm")
def normal_share(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE, lower_tail: bool = True) -> Value:
    """The share of a normal distribution below a number."""
    if ctx.g.dtype == "float32" and not _is_known(target, mean, sd):
        return _by_erf(ctx, target, mean, sd, lower_tail)
    return _share(ctx, target, lower_tail, lambda c, x: c.normal(c.div(c.sub(x, c.of(ctx, mean)), c.of(ctx, sd))))


@builtin("pexp")
def exponential_share(ctx: Context, target: Scalar, rate: Value = _ONE, lower_tail: bool = True) -> Value:
    """The share of an exponential distribution below a number."""

    def share(c: Calculator, x: Tensor) -> Shares:
        positive = ctx.g.binary("Max", x, c.number(0.0))  # nothing is below 0
        return c.exponential(c.mul(positive, c.of(ctx, rate)))

    return _share(ctx, target, lower_tail, share)


@builtin("pchisq")
def chi_squared_share(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The share of a chi-squared distribution below a number."""
    freedom = _freedom(ctx, df)
    if isinstance(freedom, int):
        return _share(ctx, target, lower_tail, lambda c, x: c.chi_squared(x, freedom))
    return _share(ctx, target, lower_tail, lambda c, x: gamma_place(c, _half(c, x), _half(c, freedom)).shares)


@builtin("pt")
def student_share(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The share of a t distribution below a number."""
    freedom = _freedom(ctx, df)
    if isinstance(freedom, int):
        return _share(ctx, target, lower_tail, lambda c, x: c.student(x, freedom))
    return _share(ctx, target, lower_tail, lambda c, x: _student(c, x, freedom))


@builtin("pf")
def fisher_share(ctx: Context, target: Scalar, df1: Value, df2: Value, lower_tail: bool = True) -> Value:
    """The share of an F distribution below a number."""
    first, second = _freedom(ctx, df1), _freedom(ctx, df2)
    return _share(ctx, target, lower_tail, lambda c, x: _fisher(c, x, first, second))


@builtin("cdf")
def distribution_share(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE,
    df: Value | None = None, df1: Value | None = None, df2: Value | None = None, lower_tail: bool = True,
) -> Value:  # fmt: skip
    """The share of a distribution (normal, exp, chisq, t, f) below a number."""
    shares = {"normal": (normal_share, mean, sd), "exp": (exponential_share, rate), "chisq": (chi_squared_share, df),
              "t": (student_share, df), "f": (fisher_share, df1, df2)}  # fmt: skip
    share, *parameters = _given(dist, shares)
    found: Value = share(ctx, target, *parameters, lower_tail)
    return found


@builtin("qnorm")
def normal_quantile(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE) -> Value:
    """The number below which a share of a normal distribution is."""
    c = Calculator(ctx.g)
    return c.result(ctx, c.add(c.mul(c.normal_quantile(c.of(ctx, target)), c.of(ctx, sd)), c.of(ctx, mean)))


@builtin("qexp")
def exponential_quantile(ctx: Context, target: Scalar, rate: Value = _ONE) -> Value:
    """The number below which a share of an exponential distribution is."""
    c = Calculator(ctx.g)
    above = c.sub(c.number(1.0), c.of(ctx, target))
    return c.result(ctx, c.div(ctx.g.unary("Neg", ctx.g.unary("Log", above)), c.of(ctx, rate)))


@builtin("qchisq")
def chi_squared_quantile(ctx: Context, target: Scalar, df: Value) -> Value:
    """The number below which a share of a chi-squared distribution is."""
    c = Calculator(ctx.g)
    share, half = c.of(ctx, target), _half(c, _tensor(c, _freedom(ctx, df)))
    wanted = Shares(share, c.sub(c.number(1.0), share))
    found = number_of(c, wanted, half, [half], lambda x: gamma_place(c, x, half))
    return c.result(ctx, _between_ends(c, share, c.number(0.0), c.mul(found, c.number(2.0))))


@builtin("qt")
def student_quantile(ctx: Context, target: Scalar, df: Value) -> Value:
    """The number below which a share of a t distribution is."""
    c = Calculator(ctx.g)
    g, half, one = ctx.g, c.number(0.5), c.number(1.0)
    share, freedom = c.of(ctx, target), _tensor(c, _freedom(ctx, df))
    off = c.sub(share, half)  # the square is F-distributed
    outside = c.mul(g.binary("Min", share, c.sub(one, share)), c.number(2.0))
    wanted = Shares(c.mul(g.unary("Abs", off), c.number(2.0)), outside)
    size = _half(c, freedom)
    odds = number_of(c, wanted, c.div(half, size), [size], lambda x: beta_place(c, x, half, size))
    found = c.mul(g.unary("Sign", off), c.root(c.mul(odds, freedom)))
    return c.result(ctx, _between_ends(c, share, c.number(-math.inf), found))


@builtin("qf")
def fisher_quantile(ctx: Context, target: Scalar, df1: Value, df2: Value) -> Value:
    """The number below which a share of an F distribution is."""
    c = Calculator(ctx.g)
    share, first, second = c.of(ctx, target), _tensor(c, _freedom(ctx, df1)), _tensor(c, _freedom(ctx, df2))
    wanted, a, b = Shares(share, c.sub(c.number(1.0), share)), _half(c, first), _half(c, second)
    odds = number_of(c, wanted, c.div(a, b), [a, b], lambda x: beta_place(c, x, a, b))
    return c.result(ctx, _between_ends(c, share, c.number(0.0), c.mul(odds, c.div(second, first))))


@builtin("icdf")
def distribution_quantile(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE,
    df: Value | None = None, df1: Value | None = None, df2: Value | None = None,
) -> Value:  # fmt: skip
    """The number below which a share of a distribution (normal, exp, chisq, t, f) is."""
    quantiles = {"normal": (normal_quantile, mean, sd), "exp": (exponential_quantile, rate),
                 "chisq": (chi_squared_quantile, df), "t": (student_quantile, df),
                 "f": (fisher_quantile, df1, df2)}  # fmt: skip
    quantile, *parameters = _given(dist, quantiles)
    found: Value = quantile(ctx, target, *parameters)
    return found


def _given(dist: str, known: Mapping[str, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the function of a distribution and its parameters. Raises UnsupportedCase where these are not given."""
    found = known.get(dist, (None,))
    if None in found:
        raise UnsupportedCase(f"the distribution {dist}, or its degrees of freedom are not given",
                              hint="normal, exp, chisq (df), t (df) and f (df1, df2) can be exported")  # fmt: skip
    return found


def _freedom(ctx: Context, value: Value) -> int | Tensor:
    """Return degrees of freedom; of finite sums as a number, all others as a tensor, NaN where there are less than 1.

    The engine cuts computed ones off after the point. Raises UnsupportedCase where they are known, and no whole number
    from 1 on.
    """
    c = Calculator(ctx.g)
    given = c.of(ctx, value)
    if given.constant is None:
        whole = ctx.g.unary("Floor", given)
        return ctx.g.where(ctx.g.binary("GreaterOrEqual", given, c.number(1.0)), whole, c.number(math.nan))
    known = float(given.constant)
    if not 1 <= known <= _MOST_FREEDOM or known != int(known):
        raise UnsupportedCase(f"{known:g} degrees of freedom", hint=f"whole ones from 1 to {_MOST_FREEDOM} are exact")
    return int(known) if known <= _MOST_SUMMED else given


def _tensor(c: Calculator, freedom: int | Tensor) -> Tensor:
    return c.number(freedom) if isinstance(freedom, int) else freedom


def _half(c: Calculator, x: Tensor) -> Tensor:
    return c.mul(x, c.number(0.5))


def _student(c: Calculator, x: Tensor, freedom: Tensor) -> Shares:
    """Return the shares of a t distribution by that of its square, which is F-distributed."""
    x, half = c.within(x, -_FARTHEST_ROOT, _FARTHEST_ROOT), c.number(0.5)
    tail = _half(c, beta_place(c, c.div(c.mul(x, x), freedom), half, _half(c, freedom)).shares.above)
    rest, positive = c.sub(c.number(1.0), tail), c.g.binary("Greater", x, c.number(0.0))
    return Shares(c.g.where(positive, rest, tail), c.g.where(positive, tail, rest))


def _fisher(c: Calculator, x: Tensor, first: int | Tensor, second: int | Tensor) -> Shares:
    """Return the shares of an F distribution; NaN, as in the engine, where number times first degrees is infinite."""
    if isinstance(first, int) and isinstance(second, int):
        found = c.fisher(x, first, second)
    else:
        one, other = _tensor(c, first), _tensor(c, second)
        odds = c.mul(c.within(x, 0.0, _FARTHEST_ROOT), c.div(one, other))
        found = beta_place(c, odds, _half(c, one), _half(c, other)).shares
    infinite = c.g.binary("Equal", c.mul(x, _tensor(c, first)), c.number(math.inf))
    return Shares(*(c.g.where(infinite, c.number(math.nan), share) for share in (found.below, found.above)))


def _between_ends(c: Calculator, share: Tensor, first: Tensor, found: Tensor) -> Tensor:
    """Return the number of a share: of none `first`, of all infinite, and NaN of what is no share."""
    g = c.g
    found = g.where(g.binary("Less", share, c.number(1.0)), found, c.number(math.inf))
    found = g.where(g.binary("Greater", share, c.number(0.0)), found, first)
    legal = g.binary("LessOrEqual", g.unary("Abs", c.sub(share, c.number(0.5))), c.number(0.5))
    return g.where(legal, found, c.number(math.nan))


def _is_known(*values: Value) -> bool:
    return all(isinstance(value, Scalar) and value.known is not None for value in values)


def _share(ctx: Context, target: Scalar, lower_tail: bool, share: Callable[[Calculator, Tensor], Shares]) -> Value:
    c = Calculator(ctx.g)
    found = share(c, c.of(ctx, target))
    return c.result(ctx, found.below if lower_tail else found.above)


def _by_erf(ctx: Context, target: Scalar, mean: Value, sd: Value, lower_tail: bool) -> Value:
    """Return the share of a normal distribution by ONNX's Erf, which runtimes have in float32."""
    g = ctx.g
    width = g.binary("Mul", ctx.floats(sd), g.number(math.sqrt(2.0) if lower_tail else -math.sqrt(2.0)))
    scaled = g.binary("Div", g.binary("Sub", ctx.floats(target), ctx.floats(mean)), width)
    doubled = g.binary("Add", g.node("Erf", [scaled], scaled.dims, FLOAT), g.number(1.0))
    return ctx.scalar(g.binary("Mul", doubled, g.number(0.5)))
