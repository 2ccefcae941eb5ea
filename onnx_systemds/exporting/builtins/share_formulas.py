"""Arithmetic of shares in float64: `Calculator`, with sums and rational functions of the distributions.

The normal distribution by the rational functions of Hart (as G. West has them, 2005) and, backwards, of Wichura
(AS 241); chi-squared, t and F of known whole degrees of freedom by finite sums (Abramowitz and Stegun 26.4, 26.6 and
26.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.spelled_out import atan, polynomial
from onnx_systemds.exporting.graph.nodes import WIDE, Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.values import Scalar, Value

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


@dataclass(frozen=True, slots=True)
class Shares:
    """Of a distribution below and above a number."""

    below: Tensor
    above: Tensor


class Calculator:
    """Arithmetic of numbers in float64."""

    def __init__(self, g: Operators) -> None:
        self.g = g

    def number(self, value: float) -> Tensor:
        """Return a constant."""
        return self.g.constant(np.float64(value), WIDE)

    def of(self, ctx: Context, value: Value) -> Tensor:
        """Return a scalar."""
        if not isinstance(value, Scalar):
            raise UnsupportedCase(f"{value} where a scalar is needed")
        if isinstance(value.known, (bool, int, float)):
            return self.number(float(value.known))
        return self.g.cast(ctx.tensor(value), WIDE)

    def result(self, ctx: Context, tensor: Tensor) -> Value:
        """Return a number as a value, in the precision of the model."""
        return ctx.scalar(self.g.floating(tensor))

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a + b``."""
        return self.g.binary("Add", a, b)

    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a - b``."""
        return self.g.binary("Sub", a, b)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a * b``."""
        return self.g.binary("Mul", a, b)

    def div(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a / b``."""
        return self.g.binary("Div", a, b)

    def power(self, a: Tensor, exponent: float) -> Tensor:
        """Return ``a`` to a known power."""
        return self.g.binary("Pow", a, self.number(exponent))

    def root(self, a: Tensor) -> Tensor:
        """Return the square root."""
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

    def from_above(self, above: Tensor) -> Shares:
        """Return the shares of which one is known."""
        return Shares(self.sub(self.number(1.0), above), above)

    def normal(self, x: Tensor) -> Shares:
        """Return the shares of the normal distribution."""
        g, size = self.g, self.g.unary("Abs", x)
        near = self.div(polynomial(g, size, _HART_TOP), polynomial(g, size, _HART_BOTTOM))
        far = self.add(size, self.number(0.65))
        for numerator in (4.0, 3.0, 2.0, 1.0):
            far = self.add(size, self.div(self.number(numerator), far))
        far = self.div(self.number(1.0 / math.sqrt(2 * math.pi)), far)
        tail = self.mul(self.bell(size), g.where(g.binary("Less", size, self.number(_HART_FAR)), near, far))
        rest = self.sub(self.number(1.0), tail)
        positive = g.binary("Greater", x, self.number(0.0))
        return Shares(g.where(positive, rest, tail), g.where(positive, tail, rest))

    def exponential(self, x: Tensor) -> Shares:
        """Return the shares of the exponential distribution."""
        return self.from_above(self.g.unary("Exp", self.g.unary("Neg", x)))

    def chi_squared(self, x: Tensor, freedom: int) -> Shares:
        """Return the shares of a chi-squared distribution."""
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

    def student(self, x: Tensor, freedom: int) -> Shares:
        """Return the shares of a t distribution."""
        middle = self.middle(self.within(self.mul(x, self.number(1.0 / math.sqrt(freedom))), -1e10, 1e10), freedom)
        half, part = self.number(0.5), self.mul(middle, self.number(0.5))
        return Shares(self.add(half, part), self.sub(half, part))

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

    def fisher(self, x: Tensor, first: int, second: int) -> Shares:
        """Return the shares of an F distribution."""
        ratio = self.mul(self.within(x, 0.0, 1e15), self.number(first / second))
        rest = self.div(self.number(1.0), self.add(self.number(1.0), ratio))
        part = self.mul(ratio, rest)
        if first % 2 == 0:
            total = self.series(part, 1.0, [(second / 2 + k) / (k + 1) for k in range(first // 2 - 1)])
            return self.from_above(self.mul(self.power(rest, second / 2), total))
        if second % 2 == 0:
            total = self.series(rest, 1.0, [(first / 2 + k) / (k + 1) for k in range(second // 2 - 1)])
            below = self.mul(self.power(part, first / 2), total)
            return Shares(below, self.sub(self.number(1.0), below))
        below = self.middle(self.root(ratio), second)
        if first > 1:
            scale = 2 / math.sqrt(math.pi) * math.exp(math.lgamma((second + 1) / 2) - math.lgamma(second / 2))
            factors = [(second + 2 * k - 1) / (2 * k + 1) for k in range(1, (first - 1) // 2)]
            corner = self.mul(self.root(part), self.power(rest, second / 2))
            below = self.sub(below, self.mul(corner, self.series(part, scale, factors)))
        return Shares(below, self.sub(self.number(1.0), below))

    def normal_quantile(self, share: Tensor) -> Tensor:
        """Return the number below which a share of the normal distribution is."""
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
