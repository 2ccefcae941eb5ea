"""Shares of distributions below and above a number, and the numbers of shares: the builtins.

All is calculated in float64, of one number each. Chi-squared, t and F of few known degrees of freedom take finite sums
(`share_formulas`), of many or computed ones continued fractions, as do the numbers of their shares (`share_series`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import Context, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.share_formulas import (
    Shares,
    by_side,
    chi_squared,
    exponential,
    fisher,
    normal,
    student,
    within,
)
from onnx_systemds.exporting.builtins.share_formulas import normal_quantile as quantile_of_normal
from onnx_systemds.exporting.builtins.share_series import beta_place, gamma_place, number_of
from onnx_systemds.exporting.graph.formulas import where
from onnx_systemds.exporting.graph.nodes import WIDE
from onnx_systemds.exporting.values import known_scalar

_ONE, _ZERO = known_scalar(1.0), known_scalar(0.0)
_MOST_SUMMED, _MOST_FREEDOM = 200, 10**6
_FARTHEST_ROOT = 1e150


@builtin("pnorm")
def normal_share(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE, lower_tail: bool = True) -> Value:
    """The share of a normal distribution below a number."""
    if ctx.g.dtype == "float32" and not _is_known(target, mean, sd):
        return _by_erf(ctx, target, mean, sd, lower_tail)
    return _share(ctx, target, lower_tail, lambda x: normal((x - _number(ctx, mean)) / _number(ctx, sd)))


@builtin("pexp")
def exponential_share(ctx: Context, target: Scalar, rate: Value = _ONE, lower_tail: bool = True) -> Value:
    """The share of an exponential distribution below a number."""
    # nothing is below 0
    return _share(ctx, target, lower_tail, lambda x: exponential(x.at_least(0.0) * _number(ctx, rate)))


@builtin("pchisq")
def chi_squared_share(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The share of a chi-squared distribution below a number."""
    freedom = _freedom(ctx, df)
    if isinstance(freedom, int):
        return _share(ctx, target, lower_tail, lambda x: chi_squared(x, freedom))
    return _share(ctx, target, lower_tail, lambda x: gamma_place(x * 0.5, freedom * 0.5).shares)


@builtin("pt")
def student_share(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The share of a t distribution below a number."""
    freedom = _freedom(ctx, df)
    if isinstance(freedom, int):
        return _share(ctx, target, lower_tail, lambda x: student(x, freedom))
    return _share(ctx, target, lower_tail, lambda x: _student(x, freedom))


@builtin("pf")
def fisher_share(ctx: Context, target: Scalar, df1: Value, df2: Value, lower_tail: bool = True) -> Value:
    """The share of an F distribution below a number."""
    first, second = _freedom(ctx, df1), _freedom(ctx, df2)
    return _share(ctx, target, lower_tail, lambda x: _fisher(x, first, second))


@builtin("cdf")
def distribution_share(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE,
    df: Value | None = None, df1: Value | None = None, df2: Value | None = None, lower_tail: bool = True,
) -> Value:
    """The share of a distribution (normal, exp, chisq, t, f) below a number."""
    shares = {"normal": (normal_share, mean, sd), "exp": (exponential_share, rate), "chisq": (chi_squared_share, df),
              "t": (student_share, df), "f": (fisher_share, df1, df2)}
    share, *parameters = _given(dist, shares)
    found: Value = share(ctx, target, *parameters, lower_tail)
    return found


@builtin("qnorm")
def normal_quantile(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE) -> Value:
    """The number below which a share of a normal distribution is."""
    return _value(ctx, quantile_of_normal(_number(ctx, target)) * _number(ctx, sd) + _number(ctx, mean))


@builtin("qexp")
def exponential_quantile(ctx: Context, target: Scalar, rate: Value = _ONE) -> Value:
    """The number below which a share of an exponential distribution is."""
    above = 1.0 - _number(ctx, target)
    return _value(ctx, -above.log() / _number(ctx, rate))


@builtin("qchisq")
def chi_squared_quantile(ctx: Context, target: Scalar, df: Value) -> Value:
    """The number below which a share of a chi-squared distribution is."""
    share = _number(ctx, target)
    half = share.of(_freedom(ctx, df)) * 0.5
    found = number_of(Shares(share, 1.0 - share), half, [half], lambda x: gamma_place(x, half))
    return _value(ctx, _between_ends(share, 0.0, found * 2.0))


@builtin("qt")
def student_quantile(ctx: Context, target: Scalar, df: Value) -> Value:
    """The number below which a share of a t distribution is."""
    share = _number(ctx, target)
    freedom, half = share.of(_freedom(ctx, df)), share.of(0.5)
    off = share - half  # the square is F-distributed
    outside = share.at_most(1.0 - share) * 2.0
    wanted, size = Shares(abs(off) * 2.0, outside), freedom * 0.5
    odds = number_of(wanted, half / size, [size], lambda x: beta_place(x, half, size))
    return _value(ctx, _between_ends(share, -math.inf, off.sign() * (odds * freedom).root()))


@builtin("qf")
def fisher_quantile(ctx: Context, target: Scalar, df1: Value, df2: Value) -> Value:
    """The number below which a share of an F distribution is."""
    share = _number(ctx, target)
    first, second = share.of(_freedom(ctx, df1)), share.of(_freedom(ctx, df2))
    wanted, a, b = Shares(share, 1.0 - share), first * 0.5, second * 0.5
    odds = number_of(wanted, a / b, [a, b], lambda x: beta_place(x, a, b))
    return _value(ctx, _between_ends(share, 0.0, odds * (second / first)))


@builtin("icdf")
def distribution_quantile(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE,
    df: Value | None = None, df1: Value | None = None, df2: Value | None = None,
) -> Value:
    """The number below which a share of a distribution (normal, exp, chisq, t, f) is."""
    quantiles = {"normal": (normal_quantile, mean, sd), "exp": (exponential_quantile, rate),
                 "chisq": (chi_squared_quantile, df), "t": (student_quantile, df),
                 "f": (fisher_quantile, df1, df2)}
    quantile, *parameters = _given(dist, quantiles)
    found: Value = quantile(ctx, target, *parameters)
    return found


def _given(dist: str, known: Mapping[str, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the function of a distribution and its parameters. Raises UnsupportedCase where these are not given."""
    found = known.get(dist, (None,))
    if None in found:
        raise UnsupportedCase(f"the distribution {dist}, or its degrees of freedom are not given",
                              hint="normal, exp, chisq (df), t (df) and f (df1, df2) can be exported")
    return found


def _number(ctx: Context, value: Value) -> Tensor:
    """Return a scalar in float64, whatever the precision of the model is."""
    if not isinstance(value, Scalar):
        raise UnsupportedCase(f"{value} where a scalar is needed")
    if isinstance(value.known, (bool, int, float)):
        return ctx.g.constant(np.float64(value.known), WIDE)
    return ctx.g.cast(ctx.tensor(value), WIDE)


def _value(ctx: Context, number: Tensor) -> Value:
    """Return a number as a scalar in the precision of the model."""
    return ctx.scalar(ctx.g.floating(number))


def _freedom(ctx: Context, value: Value) -> int | Tensor:
    """Return degrees of freedom; of finite sums as an integer, all others NaN where there are less than 1.

    The engine cuts computed ones off after the point. Raises UnsupportedCase where they are known, and no whole number
    from 1 on.
    """
    given = _number(ctx, value)
    if given.constant is None:
        whole = given.apply("Floor")
        return where(given >= 1.0, whole, math.nan)
    known = float(given.constant)
    if not 1 <= known <= _MOST_FREEDOM or known != int(known):
        raise UnsupportedCase(f"{known:g} degrees of freedom", hint=f"whole ones from 1 to {_MOST_FREEDOM} are exact")
    return int(known) if known <= _MOST_SUMMED else given


def _student(x: Tensor, freedom: Tensor) -> Shares:
    """Return the shares of a t distribution by that of its square, which is F-distributed."""
    x = within(x, -_FARTHEST_ROOT, _FARTHEST_ROOT)
    return by_side(x, beta_place(x * x / freedom, x.of(0.5), freedom * 0.5).shares.above * 0.5)


def _fisher(x: Tensor, first: int | Tensor, second: int | Tensor) -> Shares:
    """Return the shares of an F distribution; NaN, as in the engine, where number times first degrees is infinite."""
    if isinstance(first, int) and isinstance(second, int):
        found = fisher(x, first, second)
    else:
        one, other = x.of(first), x.of(second)
        odds = within(x, 0.0, _FARTHEST_ROOT) * (one / other)
        found = beta_place(odds, one * 0.5, other * 0.5).shares
    infinite = (x * first).equals(math.inf)
    return Shares(*(where(infinite, math.nan, share) for share in (found.below, found.above)))


def _between_ends(share: Tensor, first: float, found: Tensor) -> Tensor:
    """Return the number of a share: of none `first`, of all infinite, and NaN of what is no share."""
    found = where(share < 1.0, found, math.inf)
    found = where(share > 0.0, found, first)
    return where(abs(share - 0.5) <= 0.5, found, math.nan)


def _is_known(*values: Value) -> bool:
    return all(isinstance(value, Scalar) and value.known is not None for value in values)


def _share(ctx: Context, target: Scalar, lower_tail: bool, share: Callable[[Tensor], Shares]) -> Value:
    found = share(_number(ctx, target))
    return _value(ctx, found.below if lower_tail else found.above)


def _by_erf(ctx: Context, target: Scalar, mean: Value, sd: Value, lower_tail: bool) -> Value:
    """Return the share of a normal distribution by ONNX's Erf, which runtimes have in float32."""
    width = ctx.floats(sd) * (math.sqrt(2.0) if lower_tail else -math.sqrt(2.0))
    scaled = (ctx.floats(target) - ctx.floats(mean)) / width
    return ctx.scalar((scaled.apply("Erf") + 1.0) * 0.5)
