"""Functions of numbers for which onnxruntime has no kernel in float64, spelled out by those it has.

Each is right to a few units of the last place, keeps the sign of zero, and gives what Java's ``Math`` gives for
infinities and outside of its range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from onnx_systemds.exporting.graph.nodes import Tensor
from onnx_systemds.exporting.graph.operators import Operators

# of the Cephes library: atan(x) = x + x^3 P(x^2) / Q(x^2) for |x| <= 0.66
_ATAN_P = (-8.750608600031904e-1, -1.6157537187333652e1, -7.500855792314705e1, -1.2288666844901361e2,
           -6.485021904942025e1)  # fmt: skip
_ATAN_Q = (1.0, 2.4858464901423063e1, 1.6502700983169885e2, 4.328810604912903e2, 4.853903996359137e2,
           1.9455065714826138e2)  # fmt: skip
_ATAN_MIDDLE, _ATAN_FAR = 0.66, 1.0 + math.sqrt(2.0)
_SINH_FACTORS = tuple(1.0 / (2 * k * (2 * k + 1)) for k in range(9, 0, -1))


def sinh(g: Operators, x: Tensor) -> Tensor:
    """``(exp(x) - exp(-x)) / 2``, by its series where the two are nearly equal."""
    squared = g.binary("Mul", x, x)
    series = g.number(1.0)
    for factor in _SINH_FACTORS:
        series = g.binary("Add", g.binary("Mul", g.binary("Mul", squared, g.number(factor)), series), g.number(1.0))
    rising, falling = _half_powers(g, x)
    small = g.binary("Less", g.unary("Abs", x), g.number(1.0))
    return g.where(small, g.binary("Mul", x, series), g.binary("Sub", rising, falling))


def cosh(g: Operators, x: Tensor) -> Tensor:
    """``(exp(x) + exp(-x)) / 2``."""
    return g.binary("Add", *_half_powers(g, x))


def _half_powers(g: Operators, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the halves of ``exp(x)`` and ``exp(-x)``, finite also where these are not."""
    found = []
    for factor in (0.5, -0.5):
        root = g.unary("Exp", g.binary("Mul", x, g.number(factor)))
        found.append(g.binary("Mul", g.binary("Mul", root, g.number(0.5)), root))
    return found[0], found[1]


def tan(g: Operators, x: Tensor) -> Tensor:
    """``sin(x) / cos(x)``."""
    return g.binary("Div", g.unary("Sin", x), g.unary("Cos", x))


def atan(g: Operators, x: Tensor) -> Tensor:
    """The arc tangent: of numbers far from 0 that of a smaller one, and a part of pi; of float or wide kind."""

    def number(value: float) -> Tensor:
        return g.constant(np.float64(value), x.kind)

    size, one = g.unary("Abs", x), number(1.0)
    far, near = g.binary("Greater", size, number(_ATAN_FAR)), g.binary("LessOrEqual", size, number(_ATAN_MIDDLE))
    middle = g.binary("Div", g.binary("Sub", size, one), g.binary("Add", size, one))
    reduced = g.where(far, g.binary("Div", number(-1.0), size), g.where(near, size, middle))
    offset = g.where(far, number(math.pi / 2), g.where(near, number(0.0), number(math.pi / 4)))
    squared = g.binary("Mul", reduced, reduced)
    share = g.binary("Div", polynomial(g, squared, _ATAN_P), polynomial(g, squared, _ATAN_Q))
    bent = g.binary("Mul", g.binary("Mul", squared, share), reduced)
    angle = g.binary("Add", offset, g.binary("Add", bent, reduced))
    return g.where(g.binary("Equal", x, number(0.0)), x, g.binary("Mul", g.unary("Sign", x), angle))


def asin(g: Operators, x: Tensor) -> Tensor:
    """``atan(x / sqrt(1 - x^2))``; NaN outside of -1 to 1."""
    one = g.number(1.0)
    cosine = g.unary("Sqrt", g.binary("Mul", g.binary("Sub", one, x), g.binary("Add", one, x)))
    return atan(g, g.binary("Div", x, cosine))


def acos(g: Operators, x: Tensor) -> Tensor:
    """``2 atan(sqrt((1 - x) / (1 + x)))``; NaN outside of -1 to 1."""
    one = g.number(1.0)
    ratio = g.binary("Div", g.binary("Sub", one, x), g.binary("Add", one, x))
    return g.binary("Mul", g.number(2.0), atan(g, g.unary("Sqrt", ratio)))


def polynomial(g: Operators, x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Return a polynomial, its highest coefficient first."""
    found = g.constant(np.float64(coefficients[0]), x.kind)
    for coefficient in coefficients[1:]:
        found = g.binary("Add", g.binary("Mul", found, x), g.constant(np.float64(coefficient), x.kind))
    return found


SPELLED_OUT: dict[str, Callable[[Operators, Tensor], Tensor]] = {
    "Acos": acos, "Asin": asin, "Atan": atan, "Cosh": cosh, "Sinh": sinh, "Tan": tan,
}  # fmt: skip
"""By the operator of ONNX."""
