"""Spectra: transforms along any axis, cut and padded lengths, one-sided and inverse ones, windows, mel bands."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, by_reference, check_case, random


def length(size: int) -> Array:
    """A length as an input."""
    return np.array(size, np.int64)


def transform(opset: int, dims: tuple[int, ...], axis: int, points: int | None = None, **attributes: int) -> Case:
    """A DFT of random numbers."""
    inputs: dict[str, Array | None] = {"x": random(*dims), "length": None if points is None else length(points)}
    if opset < 20:
        attributes["axis"] = axis
    else:
        inputs["axis"] = length(axis)
    constants = [name for name in ("length", "axis") if inputs.get(name) is not None]
    return Case("DFT", opset, inputs, attributes, constants, note=f"{axis} {points} {sorted(attributes.items())}")


def framed(dims: tuple[int, ...], step: int, window: Array | None, size: int | None, **attributes: int) -> Case:
    """An STFT of random numbers."""
    inputs = {"x": random(*dims), "step": length(step), "window": window, "size": None if size is None else length(size)}
    constants = [name for name in ("step", "size") if inputs[name] is not None]
    return Case("STFT", 17, inputs, attributes, constants, note=f"{step} {size} {attributes}")


HANN = np.hanning(8).astype(np.float32)

CASES = [
    *[transform(opset, dims, axis, points, **attributes)
      for opset in (17, 20) for dims, axis, points, attributes in [
          ((2, 7, 1), 1, None, {}), ((2, 8, 2), 1, None, {}), ((2, 7, 1), 1, None, {"onesided": 1}),
          ((3, 8, 1), -2, 5, {}), ((3, 8, 2), -2, 11, {}), ((3, 8, 1), 1, 12, {"onesided": 1}),
          ((2, 6, 5, 1), 1, None, {}), ((2, 6, 5, 2), 1, 4, {}), ((2, 6, 5, 2), -2, None, {"inverse": 1}),
          ((6, 5, 2), 0, None, {"inverse": 1}), ((6, 5, 1), 0, 9, {"inverse": 1}), ((2, 3, 4, 5, 1), -4, None, {})]],
    *[transform(20, dims, axis, points, inverse=1, onesided=1) for dims, axis, points in [
        ((2, 5, 2), 1, None), ((2, 5, 2), 1, 9), ((2, 5, 2), 1, 6), ((2, 5, 2), 1, 12), ((5, 3, 2), 0, 7)]],
    framed((2, 32, 1), 4, HANN, None),
    framed((2, 32, 1), 8, HANN, 8, onesided=0),
    framed((2, 33, 1), 5, None, 9),
    framed((2, 32, 2), 4, HANN, 8, onesided=0),
    *[Case(name, 17, {"size": length(size)}, attributes)
      for name in ("HannWindow", "HammingWindow", "BlackmanWindow")
      for size, attributes in [(10, {}), (9, {"periodic": 0}), (8, {"output_datatype": onnx.TensorProto.DOUBLE})]],
    Case("HannWindow", 17, {"size": length(0)}, note="of none"),
    Case("MelWeightMatrix", 17, {"bands": length(8), "length": length(16), "rate": length(8192),
                                 "low": np.array(0, np.float32), "high": np.array(8192 / 2, np.float32)},
         constants=["bands", "length", "rate", "low", "high"]),
    at_sizes(Case("DFT", 17, {"x": random(2, 6, 1)}, {"onesided": 1}), {"x": ["batch", "time", 1]},
             {"x": random(1, 9, 1)}),
    at_sizes(transform(20, (2, 6, 5, 2), -2, inverse=1), {"x": ["batch", "time", "width", 2]},
             {"x": random(1, 4, 3, 2)}),
    at_sizes(Case("STFT", 17, {"x": random(2, 32, 1), "step": length(4), "window": HANN}, constants=["step"]),
             {"x": ["batch", "time", 1]}, {"x": random(1, 21, 1)}),
]

DERIVATIVES = [
    Derivative("DFT", {"x": near(2, 5, 1)}, {"axis": 1}), Derivative("DFT", {"x": near(2, 6, 1)}, {"axis": 1, "onesided": 1}),
    Derivative("DFT", {"x": near(2, 4, 3, 2)}, {"axis": 1}), Derivative("DFT", {"x": near(2, 3, 5, 2)}, {"axis": 2, "inverse": 1}),
    *[Derivative("STFT", {"x": near(*dims), "step": length(step), "window": near(size, seed=1), "size": length(size)}, {"onesided": side},
                 fixed=["step", "size"])
      for dims, step, size, side in [((2, 11, 1), 2, 4, 1), ((1, 9, 2), 3, 5, 0)]],
    Derivative("STFT", {"x": near(2, 8, 1), "step": length(5), "window": near(3, seed=1)}, fixed=["step"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(by_reference(case))
