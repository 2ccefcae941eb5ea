"""The softmax family along every axis, in its old and its new meaning."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Case, check_case, random

X = random(2, 3, 4, 5) * np.float32(2)
OPERATORS = ["Softmax", "LogSoftmax", "Hardmax"]
MASKED = np.array([[1, -np.inf, 2], [1e4, 1e4, -1e4]], np.float32)

CASES = [
    *[Case(op, 13, {"x": X}, {"axis": axis}, note=f"axis {axis}") for op in OPERATORS for axis in (0, 1, 2, 3, -1, -3)],
    *[Case(op, opset, {"x": X}, {"axis": axis}, note=f"axis {axis}")
      for op in OPERATORS for opset in (1, 11) for axis in (0, 1, 2, 3)],
    *[Case(op, 11, {"x": X}) for op in OPERATORS], *[Case(op, 13, {"x": X}) for op in OPERATORS],
    *[Case(op, 13, {"x": random(1, 3, 4, 4)}, {"axis": 1}) for op in OPERATORS],
    *[Case(op, 13, {"x": random(5)}) for op in OPERATORS],
    Case("Softmax", 13, {"x": MASKED}), Case("LogSoftmax", 13, {"x": MASKED}),
    *[Case("Hardmax", 13, {"x": np.array([[1, 3, 3], [2, 2, 1]], np.float32)}, {"axis": axis}, note=f"ties {axis}")
      for axis in (0, 1)],
    *[Case(op, opset, {"x": random(2, 3, 4)}, {"axis": axis}, note=f"axis {axis}", symbols={"x": ["batch", "seq", 4]},
           sizes=[{"x": random(1, 5, 4)}]) for op in OPERATORS for opset in (11, 13) for axis in (0, 1, 2)],
    *[Case(op, 13, {"x": X}, {"axis": 1}, symbols={"x": ["n", 3, "h", "w"]}, sizes=[{"x": random(1, 3, 2, 6)}])
      for op in OPERATORS],
]


DERIVATIVES = [
    *[Derivative(op, {"x": near(2, 3, 4)}, {"axis": axis}, opset) for op in ("Softmax", "LogSoftmax") for opset, axis in
      [(13, 1), (13, -1), (11, 2)]],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
