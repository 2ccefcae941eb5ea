"""Shares of distributions below and above a number, and the numbers of shares, where arithmetic gives them exactly.

All is calculated in float64, of one number each. The normal distribution by the rational functions of Hart (as G. West
has them, 2005) and, backwards, of Wichura (AS 241); chi-squared, t and F of whole degrees of freedom by finite sums
(Abramowitz and Stegun 26.4, 26.6, 26.7). Other degrees of freedom have none, and are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin, known_content, refuse
from onnx_systemds.exporting.builtins.spelled_out import atan, polynomial
from onnx_systemds.exporting.graph.nodes import FLOAT, WIDE, Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.values import Scalar, Value, known_scalar

_ONE, _ZERO = known_scalar(1.0), known_scalar(0.0)
_MOST_FREEDOM = 200
_HART_FAR = 7.07106781186547
_HART_TOP = (3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871,
             221.213596169931, 220.206867912376)  # fmt: skip
_HART_BOTTOM = (8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674,
                637.333633378831, 793.826512519948, 440.413735824752)  # fmt: skip
# numerators and denominators near the middle, on the sides, and far out
_WICHURA = (
    ((2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457, 13731.693765509461125,
      1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
     (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867, 5394.1960214247511077,
      687.1870074920579083, 42.313330701600911252, 1.0)),
    ((7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
      3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
     (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
      0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0)),
    ((2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
      0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
     (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
      0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0)),
)  # fmt: skip


@builtin("pnorm")
def normal_share(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE, lower_tail: bool = True) -> Value:
    """The share of a normal distribution below a number."""
    if ctx.g.dtype == "float32" and not _is_known(target, mean, sd):
        return _by_erf(ctx, target, mean, sd, lower_tail)
    return _share(ctx, target, lower_tail, lambda c, x: c.normal(c.div(c.sub(x, c.of(ctx, mean)), c.of(ctx, sd))))


@builtin("pexp")
def exponential_share(ctx: Context, target: Scalar, rate: Value = _ONE, lower_tail: bool = True) -> Value:
    """The share of an exponential distribution below a number."""
    return _share(ctx, target, lower_tail, lambda c, x: c.exponential(c.mul(x, c.of(ctx, rate))))


@builtin("pchisq")
def chi_squared_share(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The share of a chi-squared distribution of whole degrees of freedom below a number."""
    freedom = _freedom(df, "df", "pchisq")
    return _share(ctx, target, lower_tail, lambda c, x: c.chi_squared(x, freedom))


@builtin("pt")
def student_share(ctx: Context, target: Scalar, df: Value, lower_tail: bool = True) -> Value:
    """The share of a t distribution of whole degrees of freedom below a number."""
    freedom = _freedom(df, "df", "pt")
    return _share(ctx, target, lower_tail, lambda c, x: c.student(x, freedom))


@builtin("pf")
def fisher_share(ctx: Context, target: Scalar, df1: Value, df2: Value, lower_tail: bool = True) -> Value:
    """The share of an F distribution of whole degrees of freedom below a number."""
    first, second = _freedom(df1, "df1", "pf"), _freedom(df2, "df2", "pf")
    return _share(ctx, target, lower_tail, lambda c, x: c.fisher(x, first, second))


@builtin("cdf")
def distribution_share(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE,
    df: Value | None = None, df1: Value | None = None, df2: Value | None = None, lower_tail: bool = True,
) -> Value:  # fmt: skip
    """The share of a distribution (normal, exp, chisq, t, f) below a number."""
    found: Value
    if dist == "normal":
        found = normal_share(ctx, target, mean, sd, lower_tail)
    elif dist == "exp":
        found = exponential_share(ctx, target, rate, lower_tail)
    elif dist in ("chisq", "t") and df is not None:
        found = (chi_squared_share if dist == "chisq" else student_share)(ctx, target, df, lower_tail)
    elif dist == "f" and df1 is not None and df2 is not None:
        found = fisher_share(ctx, target, df1, df2, lower_tail)
    else:
        raise UnsupportedCase(f"the distribution {dist}, or its degrees of freedom are not given",
                              hint="normal, exp, chisq (df), t (df) and f (df1, df2) can be exported")  # fmt: skip
    return found


@builtin("qnorm")
def normal_quantile(ctx: Context, target: Scalar, mean: Value = _ZERO, sd: Value = _ONE) -> Value:
    """The number below which a share of a normal distribution is."""
    c = _Calculator(ctx.g)
    return c.result(ctx, c.add(c.mul(c.normal_quantile(c.of(ctx, target)), c.of(ctx, sd)), c.of(ctx, mean)))


@builtin("qexp")
def exponential_quantile(ctx: Context, target: Scalar, rate: Value = _ONE) -> Value:
    """The number below which a share of an exponential distribution is."""
    c = _Calculator(ctx.g)
    above = c.sub(c.number(1.0), c.of(ctx, target))
    return c.result(ctx, c.div(ctx.g.unary("Neg", ctx.g.unary("Log", above)), c.of(ctx, rate)))


@builtin("icdf")
def distribution_quantile(
    ctx: Context, target: Scalar, dist: str, mean: Value = _ZERO, sd: Value = _ONE, rate: Value = _ONE
) -> Value:
    """The number below which a share of a distribution (normal, exp) is."""
    if dist not in ("normal", "exp"):
        raise UnsupportedCase(f"the distribution {dist}: {_NO_FORMULA}", hint="normal and exp can be exported")
    normal = dist == "normal"
    found: Value = normal_quantile(ctx, target, mean, sd) if normal else exponential_quantile(ctx, target, rate)
    return found


_NO_FORMULA = "no formula gives the number of a share"
refuse("invcdf", "qt", "qf", "qchisq", reason=_NO_FORMULA, hint="bind the limit as a number")


def _freedom(value: Value, name: str, function: str) -> int:
    """Return degrees of freedom. Raises UnsupportedCase where they are no known whole number, or too many."""
    known = known_content(value, float, name, function)
    if known != int(known) or not 1 <= known <= _MOST_FREEDOM:
        raise UnsupportedCase(f"{known:g} degrees of freedom", hint=f"whole ones from 1 to {_MOST_FREEDOM} are exact")
    return int(known)


def _is_known(*values: Value) -> bool:
    return all(isinstance(value, Scalar) and value.known is not None for value in values)


def _share(ctx: Context, target: Scalar, lower_tail: bool, share: Callable[[_Calculator, Tensor], _Shares]) -> Value:
    c = _Calculator(ctx.g)
    found = share(c, c.of(ctx, target))
    return c.result(ctx, found.below if lower_tail else found.above)


def _by_erf(ctx: Context, target: Scalar, mean: Value, sd: Value, lower_tail: bool) -> Value:
    """Return the share of a normal distribution by ONNX's Erf, which runtimes have in float32."""
    g = ctx.g
    width = g.binary("Mul", ctx.floats(sd), g.number(math.sqrt(2.0) if lower_tail else -math.sqrt(2.0)))
    scaled = g.binary("Div", g.binary("Sub", ctx.floats(target), ctx.floats(mean)), width)
    doubled = g.binary("Add", g.node("Erf", [scaled], scaled.dims, FLOAT), g.number(1.0))
    return ctx.scalar(g.binary("Mul", doubled, g.number(0.5)))


@dataclass(frozen=True, slots=True)
class _Shares:
    """Of a distribution below and above a number."""

    below: Tensor
    above: Tensor


class _Calculator:
    """Arithmetic of numbers in float64."""

    def __init__(self, g: Operators) -> None:
        self.g = g

    def number(self, value: float) -> Tensor:
        return self.g.constant(np.float64(value), WIDE)

    def of(self, ctx: Context, value: Value) -> Tensor:
        """Return a scalar."""
        if not isinstance(value, Scalar):
            raise UnsupportedCase(f"{value} where a scalar is needed")
        if isinstance(value.known, (bool, int, float)):
            return self.number(float(value.known))
        return self.g.cast(ctx.tensor(value), WIDE)

    def result(self, ctx: Context, tensor: Tensor) -> Value:
        return ctx.scalar(self.g.floating(tensor))

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self.g.binary("Add", a, b)

    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        return self.g.binary("Sub", a, b)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.g.binary("Mul", a, b)

    def div(self, a: Tensor, b: Tensor) -> Tensor:
        return self.g.binary("Div", a, b)

    def power(self, a: Tensor, exponent: float) -> Tensor:
        return self.g.binary("Pow", a, self.number(exponent))

    def root(self, a: Tensor) -> Tensor:
        return self.g.unary("Sqrt", a)

    def within(self, x: Tensor, low: float, high: float) -> Tensor:
        """Return a number cut off at both ends, beyond which a share does not change."""
        return self.g.binary("Min", self.g.binary("Max", x, self.number(low)), self.number(high))

    def series(self, x: Tensor, first: float, factors: list[float]) -> Tensor:
        """Return a sum of powers from 0 on; the coefficient of each is that of the one before times a factor.

        The factors are the constants, as onnxruntime 1.31 takes coefficients that are 0 in float32 for equal ones.
        """
        found = self.number(1.0)
        for factor in reversed(factors):
            found = self.add(self.mul(self.mul(x, self.number(factor)), found), self.number(1.0))
        return self.mul(found, self.number(first)) if first != 1.0 else found

    def bell(self, x: Tensor) -> Tensor:
        """Return ``exp(-x^2 / 2)``."""
        return self.g.unary("Exp", self.mul(self.mul(x, x), self.number(-0.5)))

    def from_above(self, above: Tensor) -> _Shares:
        return _Shares(self.sub(self.number(1.0), above), above)

    def normal(self, x: Tensor) -> _Shares:
        g, size = self.g, self.g.unary("Abs", x)
        near = self.div(polynomial(g, size, _HART_TOP), polynomial(g, size, _HART_BOTTOM))
        far = self.add(size, self.number(0.65))
        for numerator in (4.0, 3.0, 2.0, 1.0):
            far = self.add(size, self.div(self.number(numerator), far))
        far = self.div(self.number(1.0 / math.sqrt(2 * math.pi)), far)
        tail = self.mul(self.bell(size), g.where(g.binary("Less", size, self.number(_HART_FAR)), near, far))
        rest = self.sub(self.number(1.0), tail)
        positive = g.binary("Greater", x, self.number(0.0))
        return _Shares(g.where(positive, rest, tail), g.where(positive, tail, rest))

    def exponential(self, x: Tensor) -> _Shares:
        return self.from_above(self.g.unary("Exp", self.g.unary("Neg", x)))

    def chi_squared(self, x: Tensor, freedom: int) -> _Shares:
        x = self.within(x, 0.0, 4000.0)
        if freedom % 2 == 0:
            half = self.mul(x, self.number(0.5))
            total = self.series(half, 1.0, [1.0 / r for r in range(1, freedom // 2)])
            return self.from_above(self.mul(self.g.unary("Exp", self.g.unary("Neg", half)), total))
        root = self.root(x)
        above = self.mul(self.number(2.0), self.normal(root).above)
        if freedom > 1:
            total = self.series(x, math.sqrt(2.0 / math.pi), [1.0 / (2 * r + 1) for r in range(1, (freedom - 1) // 2)])
            above = self.add(above, self.mul(self.mul(self.bell(root), root), total))
        return self.from_above(above)

    def student(self, x: Tensor, freedom: int) -> _Shares:
        middle = self.middle(self.within(self.mul(x, self.number(1.0 / math.sqrt(freedom))), -1e10, 1e10), freedom)
        half, part = self.number(0.5), self.mul(middle, self.number(0.5))
        return _Shares(self.add(half, part), self.sub(half, part))

    def middle(self, tangent: Tensor, freedom: int) -> Tensor:
        """Return the share of a t distribution between a number and its negative, by the tangent of its angle."""
        squared = self.div(self.number(1.0), self.add(self.number(1.0), self.mul(tangent, tangent)))  # of the cosine
        sine = self.mul(tangent, self.root(squared))
        if freedom % 2 == 0:
            return self.mul(sine, self.series(squared, 1.0, [(2 * k - 1) / (2 * k) for k in range(1, freedom // 2)]))
        found = atan(self.g, tangent)
        if freedom > 1:
            total = self.series(squared, 1.0, [2 * k / (2 * k + 1) for k in range(1, (freedom - 1) // 2)])
            found = self.add(found, self.mul(self.mul(sine, self.root(squared)), total))
        return self.mul(found, self.number(2.0 / math.pi))

    def fisher(self, x: Tensor, first: int, second: int) -> _Shares:
        ratio = self.mul(self.within(x, 0.0, 1e15), self.number(first / second))
        rest = self.div(self.number(1.0), self.add(self.number(1.0), ratio))
        part = self.mul(ratio, rest)
        if first % 2 == 0:
            total = self.series(part, 1.0, [(second / 2 + k) / (k + 1) for k in range(first // 2 - 1)])
            return self.from_above(self.mul(self.power(rest, second / 2), total))
        if second % 2 == 0:
            total = self.series(rest, 1.0, [(first / 2 + k) / (k + 1) for k in range(second // 2 - 1)])
            below = self.mul(self.power(part, first / 2), total)
            return _Shares(below, self.sub(self.number(1.0), below))
        below = self.middle(self.root(ratio), second)
        if first > 1:
            scale = 2 / math.sqrt(math.pi) * math.exp(math.lgamma((second + 1) / 2) - math.lgamma(second / 2))
            factors = [(second + 2 * k - 1) / (2 * k + 1) for k in range(1, (first - 1) // 2)]
            corner = self.mul(self.root(part), self.power(rest, second / 2))
            below = self.sub(below, self.mul(corner, self.series(part, scale, factors)))
        return _Shares(below, self.sub(self.number(1.0), below))

    def normal_quantile(self, share: Tensor) -> Tensor:
        g = self.g
        centered = self.sub(share, self.number(0.5))
        squared = self.sub(self.number(0.180625), self.mul(centered, centered))
        smaller = g.binary("Min", share, self.sub(self.number(1.0), share))
        depth = self.root(g.unary("Neg", g.unary("Log", smaller)))
        places = (squared, self.sub(depth, self.number(1.6)), self.sub(depth, self.number(5.0)))
        near, aside, far = (self.div(polynomial(g, place, top), polynomial(g, place, bottom))
                            for place, (top, bottom) in zip(places, _WICHURA))  # fmt: skip
        outside = g.where(g.binary("LessOrEqual", depth, self.number(5.0)), aside, far)
        outside = self.mul(g.unary("Sign", centered), outside)
        infinite = self.mul(centered, self.number(math.inf))
        outside = g.where(g.binary("Equal", smaller, self.number(0.0)), infinite, outside)
        inside = g.binary("LessOrEqual", g.unary("Abs", centered), self.number(0.425))
        return g.where(inside, self.mul(centered, near), outside)
