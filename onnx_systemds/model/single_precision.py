"""Numbers in FP64 that pass a comparison with those of single precision once they are rounded to it.

A script computes in FP64, and what people read from a file is not rounded: 0.3 is less than its float32, which is
0.300000012. ONNX compares rounded numbers, to which both are equal.
"""

from __future__ import annotations

import numpy as np

from onnx_systemds.model.ir import Array

_BEYOND = 2.0**128  # takes the place of infinity after the largest number


def largest_rounded(limits: Array, strict: Array | bool = False) -> Array:
    """The largest numbers in FP64 that, rounded to FP32, are at most limits, or where ``strict`` below.

    Infinities and NaN among the limits stay.
    """
    with np.errstate(over="ignore"):
        nearest = limits.astype(np.float32)
        is_beyond = (nearest > limits) | (strict & (nearest == limits))
        allowed = np.where(is_beyond, np.nextafter(nearest, np.float32(-np.inf)), nearest)
        ends = allowed, np.nextafter(allowed, np.float32(np.inf))
    # halfway to the next number the even one of both is taken
    low, high = (np.clip(end.astype(np.float64), -_BEYOND, _BEYOND) for end in ends)
    halfway = (low + high) / 2
    found = np.where(allowed.view(np.int32) & 1, np.nextafter(halfway, -np.inf), halfway)
    return np.where(np.isfinite(limits), found, limits)


def smallest_rounded(limits: Array) -> Array:
    """The smallest numbers in FP64 that, rounded to FP32, are at least limits; infinities and NaN stay."""
    return np.where(np.isfinite(limits), np.nextafter(largest_rounded(limits, True), np.inf), limits)


def has_other_decimals(numbers: Array) -> bool:
    """Whether some of these, in FP32, are not what their shortest decimals are in FP64: 0.3 is one, 0.5 is none."""
    finite = np.asarray(numbers, np.float64)[np.isfinite(numbers)]
    single = finite.astype(np.float32)
    long = single[np.modf(finite * 1024)[0] != 0]  # whole numbers, halves and so on are the same
    return bool(np.array_equal(single, finite) and any(float(str(one)) != float(one) for one in long))
