"""Interpolation along one axis as numbers: which elements, or which weights of them, give each new element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_systemds.model.ir import Array


@dataclass(frozen=True)
class Resampling:
    """How Resize samples; the names are those of ONNX's attributes."""

    mode: str
    coordinates: str
    nearest_mode: str = "floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


def positions(how: Resampling, size: int, count: int, scale: float, roi: tuple[float, float]) -> Array:
    """For each of ``count`` new elements where it lies among the ``size`` old ones, in FP32 as runtimes calculate."""
    one = np.float32
    place = np.arange(count, dtype=np.float32)
    factor, half = one(scale), one(0.5)
    if how.coordinates == "asymmetric":
        return place / factor
    if how.coordinates == "align_corners":
        # ONNX's reference and test data take the length before it is rounded down; onnxruntime the one after
        length = one(scale * size) if abs(scale * size - count) < 1 else one(count)
        return place * one(size - 1) / (length - one(1)) if count > 1 else place * one(0)
    if how.coordinates == "tf_crop_and_resize":
        start, end = one(roi[0]), one(roi[1])
        if count == 1:
            return np.array([half * (start + end) * one(size - 1)], dtype=np.float32)
        return start * one(size - 1) + place * (end - start) * one(size - 1) / one(count - 1)
    if how.coordinates == "tf_half_pixel_for_nn":
        return (place + half) / factor
    if how.coordinates == "pytorch_half_pixel" and count == 1:
        return place
    centred = (place + half) / factor - half
    if how.coordinates == "half_pixel_symmetric":
        adjustment = count / (scale * size)
        return centred + one(size / 2 * (1 - adjustment))
    return centred


def nearest(how: Resampling, at: Array, size: int, scale: float) -> list[int]:
    """The nearest old element of each position."""
    if how.nearest_mode == "simple":  # opset 10: as runtimes do it, ONNX does not say
        chosen = np.ceil(at) if scale < 1 else np.floor(at)
    elif how.nearest_mode == "round_prefer_floor":
        chosen = np.ceil(at - np.float32(0.5))
    elif how.nearest_mode == "round_prefer_ceil":
        chosen = np.floor(at + np.float32(0.5))
    else:
        chosen = np.ceil(at) if how.nearest_mode == "ceil" else np.floor(at)
    return [int(index) for index in np.clip(chosen, 0, size - 1)]


def weights(how: Resampling, at: Array, size: int, scale: float) -> Array:
    """The matrix ``size x count`` of the weights of linear and cubic interpolation; edges are repeated."""
    result = np.zeros((size, len(at)))
    squeeze = min(scale, 1.0) if how.antialias else 1.0
    reach = 1 if how.mode == "linear" else 2
    first = int(np.floor(-reach / squeeze)) + 1
    offsets = np.arange(first, reach + 1 - first if how.antialias else reach + 1)
    kernel = _triangle if how.mode == "linear" else lambda distance: _cubic(distance, how.cubic_coeff_a)
    for column, position in enumerate(at.astype(np.float64)):
        base = np.floor(position)
        taps = (base + offsets).astype(int)
        parts = kernel(np.abs(offsets - (position - base)) * squeeze)
        if how.exclude_outside:
            parts = np.where((taps >= 0) & (taps < size), parts, 0.0)
        if (how.exclude_outside or how.antialias) and (total := parts.sum()):  # 0 where all is outside
            parts = parts / total
        np.add.at(result[:, column], np.clip(taps, 0, size - 1), parts)
    return result


def _triangle(distance: Array) -> Array:
    weights: Array = np.clip(1 - distance, 0, 1)
    return weights


def _cubic(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    weights: Array = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    return weights
