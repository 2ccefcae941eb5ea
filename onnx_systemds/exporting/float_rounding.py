"""Rounds numbers to the floats of a model: `rounded`."""

from __future__ import annotations

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
