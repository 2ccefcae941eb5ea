"""Rounds numbers to the floats of a model: `rounded`, and bounds of float32 numbers: `dividing`, `not_above`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnx_systemds.array_files import Array


def rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers in the type of a model.

    In float32 what is beyond its range is its largest number, and what it would round to 0 its smallest normal one:
    ``-1e300`` hides an element without making NaN of others, ``x + 1e-300`` has a logarithm, as in doubles.
    """
    with np.errstate(over="ignore", under="ignore"):
        found = array.astype(dtype)
    if dtype != np.float32 or array.dtype != np.float64:
        return found
    info = np.finfo(np.float32)
    for lost, bound in ((np.isinf(found) & np.isfinite(array), info.max), ((found == 0) & (array != 0), info.tiny)):
        if lost.any():
            found = np.where(lost, np.copysign(bound, array).astype(np.float32), found)
    return found


_NOISE = 1e-13
"""How far, of its size, a bound lies from the decimal that it would be if FP64 did not round: 0.1 + 0.2 from 0.3."""


def meant(bound: float) -> float:
    """Return the number that counts of those that float32 rounds as a bound: that, or the decimal that it nearly is."""
    near = _rounded(bound)
    if not near or not math.isfinite(near):
        return near
    decimal = float(str(np.float32(bound)))
    return decimal if math.isclose(decimal, bound, rel_tol=_NOISE) else bound


def dividing(bound: float, *, inclusive: bool) -> float:
    """Return the number of float32 that divides rounded numbers as a bound divides those of FP64.

    inclusive: whether the bound itself is on the lower side. Of the numbers that are rounded as the bound is, the
    one that counts is `meant`.
    """
    near, held = _rounded(bound), meant(bound)
    if inclusive and held > bound:
        return _next(near, -math.inf)
    return _next(near, math.inf) if not inclusive and held < bound else near


def not_above(bound: float) -> float:
    """Return the largest number of float32 that is not above a bound."""
    near = _rounded(bound)
    return _next(near, -math.inf) if near > bound else near


def _rounded(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _next(number: float, to: float) -> float:
    return float(np.nextafter(np.float32(number), np.float32(to)))
