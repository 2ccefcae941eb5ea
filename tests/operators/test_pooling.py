"""Pooling in every version, padding, rounding and number of axes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Case, check_case, random

X1, X2, X3 = random(2, 3, 9), random(2, 3, 7, 8), random(2, 3, 5, 6, 7)
K2 = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}
K3 = {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 0]}
LARGE = np.array([[[[np.inf, 1, 2], [-np.inf, -np.inf, 4], [5, -1, 7]]]], np.float32)
HOLES = np.where(random(2, 3, 7, 8, seed=1) > 0.8, np.float32(np.nan), X2)

HOLED = np.where(np.random.default_rng(3).random((2, 3, 6, 4)) < 0.2, random(2, 3, 6, 4), -np.inf).astype(np.float64)
CASES = [
    *[Case("MaxPool", opset, {"x": X2}, K2) for opset in (1, 8, 10, 11, 12, 22)],
    *[Case("MaxPool", 12, {"x": X2}, {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": mode})
      for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")],
    Case("MaxPool", 12, {"x": X1}, {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}),
    Case("MaxPool", 12, {"x": X2}, {**K2, "ceil_mode": 1, "dilations": [2, 2]}),
    *[Case(op, 19, {"x": random(2, 3, 2)}, {"kernel_shape": [4], "strides": [3], "ceil_mode": 1, **counted}, note="a part")
      for op, counted in [("MaxPool", {}), ("AveragePool", {"count_include_pad": 1})]],
    Case("MaxPool", 12, {"x": X2}, {"kernel_shape": [3, 3], "dilations": [1, 2]}),
    *[Case("MaxPool", 12, {"x": HOLED}, attributes, outputs=outputs, note=f"-inf {attributes} {outputs}")
      for outputs in (1, 2) for attributes in [
          {"kernel_shape": [4, 1], "strides": [3, 2], "pads": [2, 0, 0, 0]}, {"kernel_shape": [2, 2], "strides": [2, 2]},
          {"kernel_shape": [2, 3], "pads": [1, 2, 0, 1]}, {"kernel_shape": [2, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}]],
    Case("MaxPool", 12, {"x": random(2, 3, 120)}, {"kernel_shape": [40], "dilations": [2]}, note="many taps"),
    Case("MaxPool", 12, {"x": X3}, K3),
    Case("MaxPool", 12, {"x": X3}, {**K3, "dilations": [2, 1, 1], "ceil_mode": 1}),
    Case("MaxPool", 12, {"x": LARGE}, {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}),
    *[Case("MaxPool", 12, {"x": x}, attributes, outputs=2) for x, attributes in [
        (X1, {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}), (X2, K2), (X2, {**K2, "dilations": [2, 1]}),
        (X2, {**K2, "storage_order": 1}), (X3, K3), (np.ones((1, 2, 4, 4), np.float32), K2), (HOLES, K2),
        (HOLES, {"kernel_shape": [2, 2]})]],
    *[Case("MaxPool", 12, {"x": random(1, 2, 5, 5, dtype=dtype)}, {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1]})
      for dtype in ("int8", "uint8")],
    *[Case(op, 19, {"x": random(1, 2, 2, 3)}, {"kernel_shape": [2 + stride, 2], "strides": [stride, 1]}, symbols=symbols,
           outputs=outputs, note=f"no window {symbols} {outputs}", sizes=[{"x": random(3, 2, 2, 3)}] if symbols else ())
      for op, outputs in (("MaxPool", 1), ("MaxPool", 2), ("AveragePool", 1), ("LpPool", 1)) for stride in (1, 2)
      for symbols in ({}, {"x": ["n", 2, 2, 3]})],
    *[Case(op, 19, {"x": random(1, 2, 2, 3)}, {"kernel_shape": [size, 2], "strides": [stride, 1], "pads": pads, "ceil_mode": 1},
           outputs=outputs, note="no window")
      for op, outputs in (("MaxPool", 1), ("MaxPool", 2), ("AveragePool", 1), ("LpPool", 1))
      for size, stride, pads in ((3, 1, [0] * 4), (5, 2, [0] * 4), (9, 3, [1, 0, 1, 0]))],
    *[Case("AveragePool", opset, {"x": X2}, K2) for opset in (7, 10, 11, 19, 22)],
    Case("AveragePool", 1, {"x": X2}, {"kernel_shape": [2, 2]}, expected=lambda x, kernel_shape: (
        sum(x[:, :, i : i + 6, j : j + 7] for i in (0, 1) for j in (0, 1)) / 4).astype(np.float32)),
    *[Case("AveragePool", 19, {"x": X2}, {**K2, "count_include_pad": include, "ceil_mode": ceil})
      for include in (0, 1) for ceil in (0, 1)],
    *[Case("AveragePool", 11, {"x": X2}, {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": mode})
      for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")],
    Case("AveragePool", 19, {"x": X2}, {**K2, "dilations": [2, 2], "count_include_pad": 1}),
    Case("AveragePool", 19, {"x": X1}, {"kernel_shape": [3], "pads": [0, 2]}),
    Case("AveragePool", 19, {"x": X3}, {**K3, "dilations": [1, 2, 1]}),
    *[Case("LpPool", opset, {"x": X2}, {**K2, "p": p}) for opset in (2, 11, 18, 22) for p in (1, 3)],
    Case("LpPool", 18, {"x": X2}, {"kernel_shape": [2, 2], "dilations": [2, 1]}),
    *[Case(op, 19, {"x": random(1, 2, 3, 4, 2, 5)}, {"kernel_shape": [2, 1, 2, 3]}, expected=lambda x, kernel_shape, reduce=reduce: reduce(
        np.lib.stride_tricks.sliding_window_view(x, kernel_shape, (2, 3, 4, 5)), axis=(6, 7, 8, 9)))
      for op, reduce in (("MaxPool", np.max), ("AveragePool", np.mean))],
    Case("LpPool", 1, {"x": X2}, {"kernel_shape": [2, 2], "p": 2.0}, expected=lambda x, kernel_shape, p: np.sqrt(
        sum(x[:, :, i : i + 6, j : j + 7] ** 2 for i in (0, 1) for j in (0, 1)))),
    *[Case(op, opset, {"x": x}) for op in ("GlobalAveragePool", "GlobalMaxPool") for opset in (1, 22)
      for x in (X1, X2, X3)],
    Case("GlobalLpPool", 2, {"x": X2}, {"p": 3}),
    Case("GlobalLpPool", 22, {"x": X2}, {"p": 1}, expected=lambda x, p: np.abs(x).sum(axis=(2, 3), keepdims=True)),
    Case("GlobalLpPool", 1, {"x": X2}, {"p": 2.0},
         expected=lambda x, p: np.sqrt((x**2).sum(axis=(2, 3), keepdims=True))),
    *[Case(op, 11 if op == "MaxPool" else 19, {"x": X2}, attributes, symbols={"x": ["batch", 3, "height", "width"]},
           outputs=outputs, sizes=[{"x": random(1, 3, 6, 9)}, {"x": random(3, 3, 8, 5)}])
      for op, attributes, outputs in [
          ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}, 1),
          ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}, 1),
          ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}, 1),
          ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, 2),
          ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1], "strides": [2, 1]}, 1),
          ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1], "strides": [2, 2], "ceil_mode": 1,
                           "count_include_pad": 1}, 1),
          ("LpPool", {"kernel_shape": [3, 2], "strides": [2, 1], "p": 3}, 1),
          ("GlobalAveragePool", {}, 1), ("GlobalMaxPool", {}, 1), ("GlobalLpPool", {"p": 3}, 1)]],
    *[Case(op, 22, {"x": X1}, {"kernel_shape": [3], "strides": [2]}, symbols={"x": ["batch", 3, "width"]},
           sizes=[{"x": random(1, 3, 6)}]) for op in ("MaxPool", "AveragePool", "LpPool")],
]


DERIVATIVES = [
    Derivative("GlobalAveragePool", {"x": near(2, 3, 2, 2)}),
    *[Derivative(op, {"x": near(1, 2, 5, 6)}, {"kernel_shape": [2, 3], "strides": strides, **more})
      for op in ("MaxPool", "AveragePool") for strides in ([1, 1], [2, 3])
      for more in ({}, {"pads": [1, 1, 1, 1]})],
    Derivative("AveragePool", {"x": near(1, 2, 5, 6)}, {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    *[Derivative("AveragePool", {"x": near(1, 2, 6, 5)},
                 {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 1, 0], "count_include_pad": count})
      for count in (0, 1)],
    Derivative("GlobalMaxPool", {"x": near(2, 3, 2, 2)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
