"""CDFs of the beta and gamma distributions and their inverses, for any degrees of freedom.

Continued fractions (DLMF 8.17.22 and 8.9.2) and a series (DLMF 8.7.1) are Loops that end when they have converged; with
known operands they are computed during the export. The chi-squared, t and F distributions are special cases. Tails are
correct to 1e-9 up to a million degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.exporting.builtins.cdf_formulas import Tails, within
from onnx_systemds.exporting.graph.formulas import polynomial, where
from onnx_systemds.exporting.graph.nodes import WIDE, Tensor
from onnx_systemds.exporting.graph.operators import Operators

_MOST_STEPS = 100_000
_UNCHANGED, _NEAR = 1e-15, 1e-10
_FARTHEST = 700.0
"""Logarithm of the largest number that is looked for."""
_BEYOND = 1e300
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_SHIFT = 8


@dataclass(frozen=True, slots=True)
class CdfPoint:
    """The tails at a number, and the derivative of the CDF by the logarithm of the number."""

    tails: Tails
    density: Tensor


def beta_cdf(odds: Tensor, a: Tensor, b: Tensor) -> CdfPoint:
    """Return the tails of the beta distribution of `a` and `b` at ``x / (1 - x) = odds``, which are 0 or more."""
    odds = within(odds, 0.0, _BEYOND)
    rest = 1.0 / (1.0 + odds)
    part, total = odds * rest, a + b
    power = a * (part * total / a).log() + b * (rest * total / b).log()
    bell = (a * b / (total * (2 * math.pi))).root()
    density = (power - _stirling_error((a, 1.0), (b, 1.0), (total, -1.0))).exp() * bell
    # the fraction converges below the mean; above it the roles are exchanged
    turned = part > (a + 1.0) / (total + 2.0)
    own, other, x = (where(turned, *pair) for pair in ((b, a), (a, b), (rest, part)))
    probability = density / (own * _beta_fraction(own, other, x))
    left = 1.0 - probability
    return CdfPoint(Tails(where(turned, left, probability), where(turned, probability, left)), density)


def gamma_cdf(x: Tensor, a: Tensor) -> CdfPoint:
    """Return the tails of the gamma distribution of `a` at `x`, which is 0 or more."""
    x, middle = within(x, 0.0, _BEYOND), a + 1.0
    power = a * (x / a).log() - (x - a)
    bell = (a / (2 * math.pi)).root()
    density = (power - _stirling_error((a, 1.0))).exp() * bell
    lower = density / a * _gamma_series(a, x.at_most(middle))
    upper = density * _gamma_fraction(a, x.at_least(middle))
    near = x < middle
    return CdfPoint(Tails(where(near, lower, 1.0 - upper), where(near, 1.0 - lower, upper)), density)


def inverse_cdf(
    wanted: Tails, start: Tensor, operands: Sequence[Tensor], point: Callable[[Tensor], CdfPoint]
) -> Tensor:
    """Return the number with the wanted tails, by Newton's method on logarithms.

    A step that leaves the bracket bisects it instead. operands: the tensors that `point` reads.
    """
    lower = wanted.lower < wanted.upper
    goal = where(lower, wanted.lower, wanted.upper)

    def step(_: Tensor, log: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
        there = point(log.exp())
        found = where(lower, there.tails.lower, there.tails.upper)
        error = (found / goal).log() * found / there.density
        error = where(lower, error, -error)
        short = where(lower, found, goal) < where(lower, goal, found)
        low, high = where(short, log, low), where(short, high, log)
        newton = log - error
        inside = (newton >= low) & (newton <= high)
        after = where(inside, newton, (low + high) * 0.5)
        return [abs(after - log) > (abs(log) + 1.0) * _NEAR, after, low, high]

    states = [start.log(), start.of(-_FARTHEST), start.of(_FARTHEST)]
    return _until([goal, lower, *operands], states, step)[0].exp()


def _stirling_error(*terms: tuple[Tensor, float]) -> Tensor:
    """Return the signed sum of the errors of Stirling's formula for the logarithm of the gamma function."""
    g: Operators = terms[0][0].graph
    z = g.concat([g.reshape(term, (1,)) for term, _ in terms], 0)
    far, product = z + _SHIFT, z
    for step in range(1, _SHIFT):
        product = product * (z + step)
    near = _smooth(far) + _stirling_series(far) - (product.log() + _smooth(z))
    errors = where(z < _SHIFT, near, _stirling_series(z))
    if len(terms) > 1:
        signs = g.constant(np.array([sign for _, sign in terms]), WIDE)
        errors = g.reduce("ReduceSum", errors * signs, [0])
    return g.reshape(errors, ())


def _smooth(z: Tensor) -> Tensor:
    """Return Stirling's formula without the constant."""
    return (z - 0.5) * z.log() - z


def _stirling_series(z: Tensor) -> Tensor:
    inverse = 1.0 / z
    return inverse * polynomial(inverse * inverse, _STIRLING)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    one, total = x.of(1.0), a + b

    def step(k: Tensor, value: Tensor, top: Tensor, bottom: Tensor) -> list[Tensor]:
        after, last = k + 1.0, a + k * 2.0
        middle = last + 1.0
        odd = (a + k) * (total + k) * (x / last) / -middle
        even = after * (b - after) * (x / middle) / (middle + 1.0)
        change = one
        for numerator in (odd, even):
            top = 1.0 + numerator / top
            bottom = 1.0 / (1.0 + numerator * bottom)
            change = change * (top * bottom)
        return [_differs(change), value * change, top, bottom]

    return _until([a, b, x], [one, one, x.of(0.0)], step)[0]


def _gamma_series(a: Tensor, x: Tensor) -> Tensor:
    def step(k: Tensor, total: Tensor, term: Tensor) -> list[Tensor]:
        term = term * x / (a + 1.0 + k)
        return [term > total * (_UNCHANGED / 10), total + term, term]

    return _until([a, x], [x.of(1.0), x.of(1.0)], step)[0]


def _gamma_fraction(a: Tensor, x: Tensor) -> Tensor:
    first = x + 1.0 - a
    inverse = 1.0 / first

    def step(k: Tensor, value: Tensor, top: Tensor, bottom: Tensor) -> list[Tensor]:
        number = k + 1.0
        numerator, own = number * (a - number), first + number * 2.0
        top = own + numerator / top
        bottom = 1.0 / (own + numerator * bottom)
        change = top * bottom
        return [_differs(change), value * change, top, bottom]

    return _until([a, x], [inverse, x.of(_BEYOND), inverse], step)[0]


def _differs(factor: Tensor) -> Tensor:
    """Return whether a factor is not 1; NaN ends a Loop."""
    return abs(factor - 1.0) > _UNCHANGED


def _until(operands: Sequence[Tensor], start: list[Tensor], step: Callable[..., list[Tensor]]) -> Sequence[Tensor]:
    """Return the numbers after the last step.

    step: takes its index (from 0) and the numbers; returns whether another step follows, and the new numbers.
    operands: other tensors that a step reads.
    """
    g: Operators = start[0].graph
    if all(number.constant is not None for number in (*operands, *start)):
        for count in range(_MOST_STEPS):
            going, *start = step(start[0].of(count), *start)
            if not going.constant:
                break
        return start

    return g.loop(g.constant(_MOST_STEPS), start, lambda k, _, *states: step(g.cast(k, WIDE), *states))
