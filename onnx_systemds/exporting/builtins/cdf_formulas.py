"""CDFs by finite sums and rational functions.

The normal distribution by the rational functions of Hart (as G. West has them, 2005) and, backwards, of Wichura
(AS 241); chi-squared, t and F of known whole degrees of freedom by finite sums (Abramowitz and Stegun 26.4, 26.6 and
26.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from onnx_systemds.exporting.builtins.composed_functions import atan
from onnx_systemds.exporting.graph.formulas import polynomial, where
from onnx_systemds.exporting.graph.nodes import Tensor

_HART_FAR = 7.07106781186547
_HART_TOP = (3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871,
             221.213596169931, 220.206867912376)
_HART_BOTTOM = (8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674,
                637.333633378831, 793.826512519948, 440.413735824752)
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
)


@dataclass(frozen=True, slots=True)
class Tails:
    """The probabilities of a distribution below (`lower`) and above (`upper`) a number."""

    lower: Tensor
    upper: Tensor


def from_upper(upper: Tensor) -> Tails:
    """Return both tails for a known upper one."""
    return Tails(1.0 - upper, upper)


def within(x: Tensor, low: float, high: float) -> Tensor:
    """Return a number clipped to a range outside of which the CDF does not change."""
    return x.at_least(low).at_most(high)


def _series(x: Tensor, first: float, factors: list[float]) -> Tensor:
    """Return a power series; each coefficient is the one before times a factor.

    The factors are the constants of the model: onnxruntime 1.31 takes coefficients that are 0 in float32 for equal.
    """
    found = x.of(1.0)
    for factor in reversed(factors):
        found = x * factor * found + 1.0
    return found * first if first != 1.0 else found


def _bell(x: Tensor) -> Tensor:
    """Return ``exp(-x^2 / 2)``."""
    return (x * x * -0.5).exp()


def normal(x: Tensor) -> Tails:
    """Return the tails of the normal distribution."""
    size = abs(x)
    near = polynomial(size, _HART_TOP) / polynomial(size, _HART_BOTTOM)
    far = size + 0.65
    for numerator in (4.0, 3.0, 2.0, 1.0):
        far = size + numerator / far
    far = 1.0 / math.sqrt(2 * math.pi) / far
    return symmetric_tails(x, _bell(size) * where(size < _HART_FAR, near, far))


def symmetric_tails(x: Tensor, tail: Tensor) -> Tails:
    """Return the tails of a symmetric distribution. tail: the upper one at ``abs(x)``."""
    rest, positive = 1.0 - tail, x > 0.0
    return Tails(where(positive, rest, tail), where(positive, tail, rest))


def exponential(x: Tensor) -> Tails:
    """Return the tails of the exponential distribution."""
    return from_upper((-x).exp())


def chi_squared(x: Tensor, freedom: int) -> Tails:
    """Return the tails of a chi-squared distribution."""
    x = within(x, 0.0, 4000.0)
    if freedom % 2 == 0:
        half = x * 0.5
        total = _series(half, 1.0, [1.0 / r for r in range(1, freedom // 2)])
        return from_upper((-half).exp() * total)
    root = x.root()
    upper = 2.0 * normal(root).upper
    if freedom > 1:
        total = _series(x, math.sqrt(2.0 / math.pi), [1.0 / (2 * r + 1) for r in range(1, (freedom - 1) // 2)])
        upper = upper + _bell(root) * root * total
    return from_upper(upper)


def student(x: Tensor, freedom: int) -> Tails:
    """Return the tails of a t distribution."""
    part = _middle(within(x * (1.0 / math.sqrt(freedom)), -1e10, 1e10), freedom) * 0.5
    return Tails(0.5 + part, 0.5 - part)


def _middle(tangent: Tensor, freedom: int) -> Tensor:
    """Return the probability between -x and x of a t distribution; tangent: x by the root of its degrees of freedom."""
    squared = 1.0 / (1.0 + tangent * tangent)  # of the cosine
    sine = tangent * squared.root()
    if freedom % 2 == 0:
        return sine * _series(squared, 1.0, [(2 * k - 1) / (2 * k) for k in range(1, freedom // 2)])
    found = atan(tangent)
    if freedom > 1:
        total = _series(squared, 1.0, [2 * k / (2 * k + 1) for k in range(1, (freedom - 1) // 2)])
        found = found + sine * squared.root() * total
    return found * (2.0 / math.pi)


def fisher(x: Tensor, first: int, second: int) -> Tails:
    """Return the tails of an F distribution."""
    ratio = within(x, 0.0, 1e15) * (first / second)
    rest = 1.0 / (1.0 + ratio)
    part = ratio * rest
    if first % 2 == 0:
        total = _series(part, 1.0, [(second / 2 + k) / (k + 1) for k in range(first // 2 - 1)])
        return from_upper(rest ** (second / 2) * total)
    if second % 2 == 0:
        total = _series(rest, 1.0, [(first / 2 + k) / (k + 1) for k in range(second // 2 - 1)])
        lower = part ** (first / 2) * total
        return Tails(lower, 1.0 - lower)
    lower = _middle(ratio.root(), second)
    if first > 1:
        scale = 2 / math.sqrt(math.pi) * math.exp(math.lgamma((second + 1) / 2) - math.lgamma(second / 2))
        factors = [(second + 2 * k - 1) / (2 * k + 1) for k in range(1, (first - 1) // 2)]
        corner = part.root() * rest ** (second / 2)
        lower = lower - corner * _series(part, scale, factors)
    return Tails(lower, 1.0 - lower)


def normal_quantile(probability: Tensor) -> Tensor:
    """Return the quantile of the standard normal distribution."""
    centered = probability - 0.5
    squared = 0.180625 - centered * centered
    smaller = probability.at_most(1.0 - probability)
    depth = (-smaller.log()).root()
    places = (squared, depth - 1.6, depth - 5.0)
    near, aside, far = (polynomial(point, top) / polynomial(point, bottom)
                        for point, (top, bottom) in zip(places, _WICHURA))
    outside = where(depth <= 5.0, aside, far)
    outside = centered.sign() * outside
    infinite = centered * math.inf
    outside = where(smaller.equals(0.0), infinite, outside)
    return where(abs(centered) <= 0.425, centered * near, outside)
