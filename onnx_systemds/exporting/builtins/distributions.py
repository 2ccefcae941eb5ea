"""The builtins for CDFs and quantiles of distributions.

All are computed in float64, for one number each. Chi-squared, t and F with few known degrees of freedom are finite sums
(`cdf_formulas`); with many or computed ones, and for quantiles, they are continued fractions (`cdf_series`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import Context, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.cdf_formulas import (
    Tails,
    chi_squared,
    exponential,
    fisher,
    normal,
    student,
    symmetric_tails,
    within,
)
from onnx_systemds.exporting.builtins.cdf_formulas import normal_quantile as quantile_of_normal
from onnx_systemds.exporting.builtins.cdf_series import beta_cdf, gamma_cdf, inverse_cdf
from onnx_systemds.exporting.graph.formulas import where
from onnx_systemds.exporting.graph.nodes import WIDE
from onnx_systemds.exporting.values import known_scalar

_ONE, _ZERO = known_scalar(1.0), known_scalar(0.0)
_MOST_SUMMED, _MOST_FREEDOM = 200, 10**6
_FARTHEST_ROOT = 1e150


@builtin("pnorm")
def normal_cdf(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE, lower_tail: bool = True) -> Value:
    """The CDF of the normal distribution."""
    if ctx.g.dtype == "float32" and not _is_known(target, mean, sd):
        return _by_erf(ctx, target, mean, sd, lower_tail=lower_tail)
    return _cdf(ctx, target, lambda x: normal((x - _number(ctx, mean)) / _number(ctx, sd)), lower_tail=lower_tail)


@builtin("pexp")
def exponential_cdf(ctx: Context, target: Scalar, rate: Value = _ONE, lower_tail: bool = True) -> Value:
    """The CDF of the exponential distribution."""
    # there is no probability below 0
    return _cdf(ctx, target, lambda x: exponential(x.at_least(0.0) * _number(ctx, rate)), lower_tail=lower_tail)


@builtin("pchisq")
def chi_squared_cdf(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The CDF of the chi-squared distribution."""
    freedom = _freedom(ctx, df)
    return _cdf(ctx, target, lambda x: _chi_squared(x, freedom), lower_tail=lower_tail)


@builtin("pt")
def student_cdf(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The CDF of Student's t distribution."""
    freedom = _freedom(ctx, df)
    return _cdf(ctx, target, lambda x: _student(x, freedom), lower_tail=lower_tail)


@builtin("pf")
def fisher_cdf(ctx: Context, target: Scalar, df1: Value, df2: Value, lower_tail: bool = True) -> Value:
    """The CDF of the F distribution."""
    first, second = _freedom(ctx, df1), _freedom(ctx, df2)
    return _cdf(ctx, target, lambda x: _fisher(x, first, second), lower_tail=lower_tail)


@builtin("cdf")
def distribution_cdf(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE,
    df: Value | None = None, df1: Value | None = None, df2: Value | None = None, lower_tail: bool = True,
) -> Value:
    """The CDF of a distribution: normal, exp, chisq, t or f."""
    functions = {"normal": (normal_cdf, mean, sd), "exp": (exponential_cdf, rate), "chisq": (chi_squared_cdf, df),
                 "t": (student_cdf, df), "f": (fisher_cdf, df1, df2)}
    cdf, *parameters = _given(dist, functions)
    found: Value = cdf(ctx, target, *parameters, lower_tail)
    return found


@builtin("qnorm")
def normal_quantile(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE) -> Value:
    """The quantile of the normal distribution."""
    return _value(ctx, quantile_of_normal(_number(ctx, target)) * _number(ctx, sd) + _number(ctx, mean))


@builtin("qexp")
def exponential_quantile(ctx: Context, target: Scalar, rate: Value = _ONE) -> Value:
    """The quantile of the exponential distribution."""
    upper = 1.0 - _number(ctx, target)
    return _value(ctx, -upper.log() / _number(ctx, rate))


@builtin("qchisq")
def chi_squared_quantile(ctx: Context, target: Scalar, df: Value) -> Value:
    """The quantile of the chi-squared distribution."""
    probability = _number(ctx, target)
    half = probability.of(_freedom(ctx, df)) * 0.5
    found = inverse_cdf(Tails(probability, 1.0 - probability), half, [half], lambda x: gamma_cdf(x, half))
    return _value(ctx, _with_limits(probability, 0.0, found * 2.0))


@builtin("qt")
def student_quantile(ctx: Context, target: Scalar, df: Value) -> Value:
    """The quantile of Student's t distribution."""
    probability = _number(ctx, target)
    freedom, half = probability.of(_freedom(ctx, df)), probability.of(0.5)
    off = probability - half  # the square is F-distributed
    outside = probability.at_most(1.0 - probability) * 2.0
    wanted, size = Tails(abs(off) * 2.0, outside), freedom * 0.5
    odds = inverse_cdf(wanted, half / size, [size], lambda x: beta_cdf(x, half, size))
    return _value(ctx, _with_limits(probability, -math.inf, off.sign() * (odds * freedom).root()))


@builtin("qf")
def fisher_quantile(ctx: Context, target: Scalar, df1: Value, df2: Value) -> Value:
    """The quantile of the F distribution."""
    probability = _number(ctx, target)
    first, second = probability.of(_freedom(ctx, df1)), probability.of(_freedom(ctx, df2))
    wanted, a, b = Tails(probability, 1.0 - probability), first * 0.5, second * 0.5
    odds = inverse_cdf(wanted, a / b, [a, b], lambda x: beta_cdf(x, a, b))
    return _value(ctx, _with_limits(probability, 0.0, odds * (second / first)))


@builtin("icdf")
def distribution_quantile(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE,
    df: Value | None = None, df1: Value | None = None, df2: Value | None = None,
) -> Value:
    """The quantile of a distribution: normal, exp, chisq, t or f."""
    quantiles = {"normal": (normal_quantile, mean, sd), "exp": (exponential_quantile, rate),
                 "chisq": (chi_squared_quantile, df), "t": (student_quantile, df),
                 "f": (fisher_quantile, df1, df2)}
    quantile, *parameters = _given(dist, quantiles)
    found: Value = quantile(ctx, target, *parameters)
    return found


def _given(dist: str, known: Mapping[str, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the function of a distribution and its parameters. Raises UnsupportedCase if one is not given."""
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
    """Return degrees of freedom: an integer for finite sums, otherwise a tensor, NaN for less than 1.

    Computed ones are truncated, as in the engine. Raises UnsupportedCase for known ones that are no integer from 1 on.
    """
    given = _number(ctx, value)
    if given.constant is None:
        whole = given.apply("Floor")
        return where(given >= 1.0, whole, math.nan)
    known = float(given.constant)
    if not 1 <= known <= _MOST_FREEDOM or known != int(known):
        raise UnsupportedCase(f"{known:g} degrees of freedom", hint=f"integers from 1 to {_MOST_FREEDOM} are exact")
    return int(known) if known <= _MOST_SUMMED else given


def _chi_squared(x: Tensor, freedom: int | Tensor) -> Tails:
    """Return the tails of a chi-squared distribution."""
    return chi_squared(x, freedom) if isinstance(freedom, int) else gamma_cdf(x * 0.5, freedom * 0.5).tails


def _student(x: Tensor, freedom: int | Tensor) -> Tails:
    """Return the tails of a t distribution; by those of its square, which is F-distributed."""
    if isinstance(freedom, int):
        return student(x, freedom)
    x = within(x, -_FARTHEST_ROOT, _FARTHEST_ROOT)
    return symmetric_tails(x, beta_cdf(x * x / freedom, x.of(0.5), freedom * 0.5).tails.upper * 0.5)


def _fisher(x: Tensor, first: int | Tensor, second: int | Tensor) -> Tails:
    """Return the tails of an F distribution; NaN, as in the engine, if ``x * first`` is infinite."""
    if isinstance(first, int) and isinstance(second, int):
        found = fisher(x, first, second)
    else:
        one, other = x.of(first), x.of(second)
        odds = within(x, 0.0, _FARTHEST_ROOT) * (one / other)
        found = beta_cdf(odds, one * 0.5, other * 0.5).tails
    infinite = (x * first).equals(math.inf)
    return Tails(*(where(infinite, math.nan, probability) for probability in (found.lower, found.upper)))


def _with_limits(probability: Tensor, first: float, found: Tensor) -> Tensor:
    """Return a quantile: `first` for the probability 0, infinity for 1, NaN outside of 0 to 1."""
    found = where(probability < 1.0, found, math.inf)
    found = where(probability > 0.0, found, first)
    return where(abs(probability - 0.5) <= 0.5, found, math.nan)


def _is_known(*values: Value) -> bool:
    return all(isinstance(value, Scalar) and value.known is not None for value in values)


def _cdf(ctx: Context, target: Scalar, tails: Callable[[Tensor], Tails], *, lower_tail: bool) -> Value:
    found = tails(_number(ctx, target))
    return _value(ctx, found.lower if lower_tail else found.upper)


def _by_erf(ctx: Context, target: Scalar, mean: Value, sd: Value, *, lower_tail: bool) -> Value:
    """Return the CDF of a normal distribution by ONNX's Erf, which runtimes have in float32."""
    width = ctx.floats(sd) * (math.sqrt(2.0) if lower_tail else -math.sqrt(2.0))
    scaled = (ctx.floats(target) - ctx.floats(mean)) / width
    return ctx.scalar((scaled.apply("Erf") + 1.0) * 0.5)
