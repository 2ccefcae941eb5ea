"""Elementary functions for which onnxruntime has no float64 kernel, composed of operators for which it has one.

Each is correct to a few units in the last place and keeps the sign of zero. For infinities and outside of its domain it
returns what Java's ``Math`` returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from onnx_systemds.exporting.graph.formulas import polynomial, where
from onnx_systemds.exporting.graph.nodes import Tensor

# of the Cephes library: atan(x) = x + x^3 P(x^2) / Q(x^2) for |x| <= 0.66
_ATAN_P = (-8.750608600031904e-1, -1.6157537187333652e1, -7.500855792314705e1, -1.2288666844901361e2,
           -6.485021904942025e1)
_ATAN_Q = (1.0, 2.4858464901423063e1, 1.6502700983169885e2, 4.328810604912903e2, 4.853903996359137e2,
           1.9455065714826138e2)
_ATAN_MIDDLE, _ATAN_FAR = 0.66, 1.0 + math.sqrt(2.0)
_SINH_FACTORS = tuple(1.0 / (2 * k * (2 * k + 1)) for k in range(9, 0, -1))


def sinh(x: Tensor) -> Tensor:
    """``(exp(x) - exp(-x)) / 2``, by its series near 0."""
    squared, series = x * x, x.of(1.0)
    for factor in _SINH_FACTORS:
        series = squared * factor * series + 1.0
    rising, falling = _half_powers(x)
    return where(abs(x) < 1.0, x * series, rising - falling)


def cosh(x: Tensor) -> Tensor:
    """``(exp(x) + exp(-x)) / 2``."""
    rising, falling = _half_powers(x)
    return rising + falling


def _half_powers(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``exp(x) / 2`` and ``exp(-x) / 2`` without an overflow of ``exp``."""
    found = []
    for factor in (0.5, -0.5):
        root = (x * factor).exp()
        found.append(root * 0.5 * root)
    return found[0], found[1]


def tan(x: Tensor) -> Tensor:
    """``sin(x) / cos(x)``."""
    return x.apply("Sin") / x.apply("Cos")


def atan(x: Tensor) -> Tensor:
    """The arc tangent, with the argument reduced to ``|x| <= 0.66``."""
    size = abs(x)
    far, near = size > _ATAN_FAR, size <= _ATAN_MIDDLE
    middle = (size - 1.0) / (size + 1.0)
    reduced = where(far, -1.0 / size, where(near, size, middle))
    offset = where(far, math.pi / 2, where(near, x.of(0.0), math.pi / 4))
    squared = reduced * reduced
    share = polynomial(squared, _ATAN_P) / polynomial(squared, _ATAN_Q)
    angle = offset + (squared * share * reduced + reduced)
    return where(x.equals(0.0), x, x.sign() * angle)


def asin(x: Tensor) -> Tensor:
    """``atan(x / sqrt(1 - x^2))``; NaN outside of -1 to 1."""
    cosine = ((1.0 - x) * (1.0 + x)).root()
    return atan(x / cosine)


def acos(x: Tensor) -> Tensor:
    """``2 atan(sqrt((1 - x) / (1 + x)))``; NaN outside of -1 to 1."""
    return 2.0 * atan(((1.0 - x) / (1.0 + x)).root())


COMPOSED: dict[str, Callable[[Tensor], Tensor]] = {
    "Acos": acos, "Asin": asin, "Atan": atan, "Cosh": cosh, "Sinh": sinh, "Tan": tan,
}
"""By operator of ONNX."""
