"""Quantised operators: granularities, types, rounding and saturation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Array, Case, check_case, random

X = random(2, 3, 4, 5) * np.float32(3)
TIES = np.array([0.25, 0.35, 0.45, -0.25, 12.75, 1e9, -1e9, np.inf, -np.inf], np.float32)
SCALES = np.array([0.1, 0.02, 1.5], np.float32)


def scale(value: float) -> Array:
    """A rank 0 scale."""
    return np.array(value, np.float32)


def quantized(dtype: str) -> Array:
    """Some integers of a type."""
    return random(2, 3, 4, dtype=dtype)


A, B = random(2, 4, dtype="uint8"), random(4, 3, dtype="uint8", seed=1)

CASES = [
    *[Case("QuantizeLinear", opset, {"x": X, "scale": scale(0.05), "zero": np.array(zero, dtype)}, note=str(dtype))
      for opset in (10, 13, 19, 21) for zero, dtype in ((128, np.uint8), (-5, np.int8))],
    *[Case("QuantizeLinear", 21, {"x": X, "scale": scale(0.001), "zero": np.array(5, dtype)}, note=str(dtype))
      for dtype in (np.uint16, np.int16)],
    Case("QuantizeLinear", 13, {"x": TIES, "scale": scale(0.1), "zero": np.array(3, np.uint8)}, note="ties"),
    Case("QuantizeLinear", 13, {"x": X, "scale": scale(0.1), "zero": None}),
    *[Case("QuantizeLinear", opset, {"x": X, "scale": SCALES, "zero": np.array([0, 10, 255], np.uint8)}, {"axis": axis})
      for opset in (13, 19, 21) for axis in (1, -3)],
    Case("QuantizeLinear", 21, {"x": random(3, 4), "scale": np.abs(random(3, 2)) + np.float32(0.05),
                                "zero": random(3, 2, dtype="uint8")}, {"axis": 1, "block_size": 2}),
    *[Case("DequantizeLinear", opset, {"x": quantized(dtype), "scale": scale(0.1), "zero": np.array(3, dtype)},
           note=dtype)
      for opset in (10, 13, 19, 21) for dtype in ("uint8", "int8")],
    Case("DequantizeLinear", 13, {"x": quantized("int32"), "scale": scale(0.1)}),
    *[Case("DequantizeLinear", 21, {"x": quantized("int8"), "scale": SCALES, "zero": random(3, dtype="int8")},
           {"axis": axis}) for axis in (1, -2)],
    Case("DequantizeLinear", 21, {"x": quantized("int8"), "scale": random(2, 3, 2),
                                  "zero": random(2, 3, 2, dtype="int8")},
         {"axis": -1, "block_size": 2}),
    *[Case("DynamicQuantizeLinear", 11, {"x": x}, outputs=3) for x in (X, np.abs(X), -np.abs(X), random(3, 4))],
    Case("MatMulInteger", 10, {"a": A, "b": B}),
    Case("MatMulInteger", 10, {"a": A, "b": B, "az": np.array(7, np.uint8), "bz": np.array(9, np.uint8)}),
    Case("MatMulInteger", 10, {"a": random(2, 3, 4, dtype="uint8"), "b": random(2, 4, 5, dtype="uint8"),
                               "az": np.array(7, np.uint8), "bz": np.array(9, np.uint8)}),
    Case("QLinearMatMul", 10, {"a": A, "as": scale(0.1), "az": np.array(5, np.uint8), "b": B, "bs": scale(0.2),
                               "bz": np.array(3, np.uint8), "ys": scale(0.05), "yz": np.array(100, np.uint8)}),
    Case("QLinearMatMul", 10, {"a": random(2, 3, 4, dtype="int8"), "as": scale(0.1), "az": np.array(5, np.int8),
                               "b": random(2, 4, 2, dtype="int8"), "bs": scale(0.2), "bz": np.array(3, np.int8),
                               "ys": scale(0.05), "yz": np.array(-10, np.int8)}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_symbolic_dims() -> None:
    inputs = {"x": X, "scale": SCALES, "zero": np.array([0, 10, 255], np.uint8)}
    case = Case("QuantizeLinear", 13, inputs, symbols={"x": ["batch", 3, "height", 5]})
    check_case(case, sizes=[{**inputs, "x": random(1, 3, 2, 5)}])
