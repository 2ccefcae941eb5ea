"""Shares of the beta and gamma distributions, and the numbers of shares, whatever the degrees of freedom are.

Continued fractions (DLMF 8.17.22 and 8.9.2) and a series (DLMF 8.7.1) in Loops that end when a step changes nothing;
what is known when the script is exported is calculated at once. Chi-squared, t and F are such distributions. Shares are
right to 1e-9 up to a million degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.exporting.builtins.share_formulas import Calculator, Shares
from onnx_systemds.exporting.builtins.spelled_out import polynomial
from onnx_systemds.exporting.graph.nodes import WIDE, Tensor

_MOST_STEPS = 100_000
_UNCHANGED, _NEAR = 1e-15, 1e-10
_FARTHEST = 700.0
"""Logarithm of the largest number that is looked for."""
_BEYOND = 1e300
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_SHIFT = 8


@dataclass(frozen=True, slots=True)
class Place:
    """The shares below and above a number, and the density by the number's logarithm there."""

    shares: Shares
    density: Tensor


def beta_place(c: Calculator, odds: Tensor, a: Tensor, b: Tensor) -> Place:
    """Return the shares of the beta distribution of `a` and `b` at ``x / (1 - x) = odds``, which are 0 or more."""
    g, one = c.g, c.number(1.0)
    odds = c.within(odds, 0.0, _BEYOND)
    rest = c.div(one, c.add(one, odds))
    part, total = c.mul(odds, rest), c.add(a, b)
    power = c.add(c.mul(a, _log(c, c.div(c.mul(part, total), a))), c.mul(b, _log(c, c.div(c.mul(rest, total), b))))
    bell = c.root(c.div(c.mul(a, b), c.mul(total, c.number(2 * math.pi))))
    density = c.mul(g.unary("Exp", c.sub(power, _stirling_error(c, (a, 1.0), (b, 1.0), (total, -1.0)))), bell)
    # the fraction converges below the mean; beyond it the roles change
    turned = g.binary("Greater", part, c.div(c.add(a, one), c.add(total, c.number(2.0))))
    own, other, x = (g.where(turned, *pair) for pair in ((b, a), (a, b), (rest, part)))
    share = c.div(density, c.mul(own, _beta_fraction(c, own, other, x)))
    left = c.sub(one, share)
    return Place(Shares(g.where(turned, left, share), g.where(turned, share, left)), density)


def gamma_place(c: Calculator, x: Tensor, a: Tensor) -> Place:
    """Return the shares of the gamma distribution of `a` at `x`, which is 0 or more."""
    g, one = c.g, c.number(1.0)
    x, middle = c.within(x, 0.0, _BEYOND), c.add(a, one)
    power = c.sub(c.mul(a, _log(c, c.div(x, a))), c.sub(x, a))
    bell = c.root(c.div(a, c.number(2 * math.pi)))
    density = c.mul(g.unary("Exp", c.sub(power, _stirling_error(c, (a, 1.0)))), bell)
    below = c.mul(c.div(density, a), _gamma_series(c, a, g.binary("Min", x, middle)))
    above = c.mul(density, _gamma_fraction(c, a, g.binary("Max", x, middle)))
    near = g.binary("Less", x, middle)
    return Place(Shares(g.where(near, below, c.sub(one, above)), g.where(near, c.sub(one, below), above)), density)


def number_of(
    c: Calculator, wanted: Shares, start: Tensor, operands: Sequence[Tensor], place: Callable[[Tensor], Place]
) -> Tensor:
    """Return the number below and above which the wanted shares are, by Newton's steps on logarithms from `start` on.

    A step that leaves the range in which the number is halves that instead. operands: what `place` reads.
    """
    g = c.g
    lower = g.binary("Less", wanted.below, wanted.above)
    goal = g.where(lower, wanted.below, wanted.above)

    def step(_: Tensor, log: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
        there = place(g.unary("Exp", log))
        found = g.where(lower, there.shares.below, there.shares.above)
        error = c.div(c.mul(_log(c, c.div(found, goal)), found), there.density)
        error = g.where(lower, error, g.unary("Neg", error))
        short = g.binary("Less", g.where(lower, found, goal), g.where(lower, goal, found))
        low, high = g.where(short, log, low), g.where(short, high, log)
        newton = c.sub(log, error)
        inside = g.binary("And", g.binary("GreaterOrEqual", newton, low), g.binary("LessOrEqual", newton, high))
        after = g.where(inside, newton, c.mul(c.add(low, high), c.number(0.5)))
        moved = g.unary("Abs", c.sub(after, log))
        return [g.binary("Greater", moved, c.mul(c.add(g.unary("Abs", log), c.number(1.0)), c.number(_NEAR))),
                after, low, high]  # fmt: skip

    states = [_log(c, start), c.number(-_FARTHEST), c.number(_FARTHEST)]
    return g.unary("Exp", _until(c, [goal, lower, *operands], states, step)[0])


def _log(c: Calculator, x: Tensor) -> Tensor:
    return c.g.unary("Log", x)


def _stirling_error(c: Calculator, *terms: tuple[Tensor, float]) -> Tensor:
    """Return the sum, with signs, of what the logarithm of gamma of numbers is more than Stirling's formula."""
    g, count = c.g, len(terms)
    z = g.concat([g.reshape(term, (1,)) for term, _ in terms], 0)
    far = c.add(z, c.number(_SHIFT))
    product = z
    for step in range(1, _SHIFT):
        product = c.mul(product, c.add(z, c.number(step)))
    near = c.sub(c.add(_smooth(c, far), _stirling_series(c, far)), c.add(_log(c, product), _smooth(c, z)))
    errors = g.where(g.binary("Less", z, c.number(_SHIFT)), near, _stirling_series(c, z))
    signs = g.constant(np.array([sign for _, sign in terms]), WIDE)
    return g.reshape(g.reduce("ReduceSum", c.mul(errors, signs), [0]), ()) if count > 1 else g.reshape(errors, ())


def _smooth(c: Calculator, z: Tensor) -> Tensor:
    """Return Stirling's formula without the constant."""
    return c.sub(c.mul(c.sub(z, c.number(0.5)), _log(c, z)), z)


def _stirling_series(c: Calculator, z: Tensor) -> Tensor:
    inverse = c.div(c.number(1.0), z)
    return c.mul(inverse, polynomial(c.g, c.mul(inverse, inverse), _STIRLING))


def _beta_fraction(c: Calculator, a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    g, one, two, total = c.g, c.number(1.0), c.number(2.0), c.add(a, b)

    def step(k: Tensor, value: Tensor, top: Tensor, bottom: Tensor) -> list[Tensor]:
        after, last = c.add(k, one), c.add(a, c.mul(k, two))
        middle = c.add(last, one)
        odd = c.div(c.mul(c.mul(c.add(a, k), c.add(total, k)), c.div(x, last)), g.unary("Neg", middle))
        even = c.div(c.mul(c.mul(after, c.sub(b, after)), c.div(x, middle)), c.add(middle, one))
        change = one
        for numerator in (odd, even):
            top = c.add(one, c.div(numerator, top))
            bottom = c.div(one, c.add(one, c.mul(numerator, bottom)))
            change = c.mul(change, c.mul(top, bottom))
        return [_differs(c, change), c.mul(value, change), top, bottom]

    return _until(c, [a, b, x], [one, one, c.number(0.0)], step)[0]


def _gamma_series(c: Calculator, a: Tensor, x: Tensor) -> Tensor:
    g, one = c.g, c.number(1.0)

    def step(k: Tensor, total: Tensor, term: Tensor) -> list[Tensor]:
        term = c.div(c.mul(term, x), c.add(c.add(a, one), k))
        return [g.binary("Greater", term, c.mul(total, c.number(_UNCHANGED / 10))), c.add(total, term), term]

    return _until(c, [a, x], [one, one], step)[0]


def _gamma_fraction(c: Calculator, a: Tensor, x: Tensor) -> Tensor:
    one = c.number(1.0)
    first = c.sub(c.add(x, one), a)
    inverse = c.div(one, first)

    def step(k: Tensor, value: Tensor, top: Tensor, bottom: Tensor) -> list[Tensor]:
        number = c.add(k, one)
        numerator, own = c.mul(number, c.sub(a, number)), c.add(first, c.mul(number, c.number(2.0)))
        top = c.add(own, c.div(numerator, top))
        bottom = c.div(one, c.add(own, c.mul(numerator, bottom)))
        change = c.mul(top, bottom)
        return [_differs(c, change), c.mul(value, change), top, bottom]

    return _until(c, [a, x], [inverse, c.number(_BEYOND), inverse], step)[0]


def _differs(c: Calculator, factor: Tensor) -> Tensor:
    """Return whether a factor is not 1; NaN ends a Loop."""
    return c.g.binary("Greater", c.g.unary("Abs", c.sub(factor, c.number(1.0))), c.number(_UNCHANGED))


def _until(
    c: Calculator, operands: Sequence[Tensor], start: list[Tensor], step: Callable[..., list[Tensor]]
) -> Sequence[Tensor]:
    """Return what steps make of numbers until one says that it was the last.

    step: takes its number from 0 on and the numbers, and gives whether there is another one, and the numbers.
    operands: what a step reads besides.
    """
    g = c.g
    if all(tensor.constant is not None for tensor in (*operands, *start)):
        for number in range(_MOST_STEPS):
            going, *start = step(c.number(number), *start)
            if not going.constant:
                break
        return start
    return g.loop(g.constant(_MOST_STEPS), start, lambda k, _, *states: step(g.cast(k, WIDE), *states))
