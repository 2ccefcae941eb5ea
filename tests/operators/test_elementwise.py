"""Elementwise operators in every version and broadcast form."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Case, check_case, random

X = random(2, 3, 4, 5)
BROADCASTS = [(2, 3, 4, 5), (5,), (4, 5), (3, 1, 1), (1, 3, 1, 1), (2, 1, 1, 1), (2, 3, 1, 1), (1, 1, 4, 1), (2, 1, 4, 5),
              (1,), (), (2, 1, 1, 5), (1, 3, 1, 5)]  # fmt: skip

CASES = [
    *[Case(op, 14, {"a": X, "b": random(*dims, seed=1)}) for op in ("Add", "Sub", "Div") for dims in BROADCASTS],
    *[Case(op, 14, {"a": random(*dims, seed=1), "b": X}) for op in ("Mul", "Sub", "Div") for dims in BROADCASTS],
    Case("Sub", 14, {"a": random(4, 1), "b": random(5)}, note="column and row"),
    *[
        Case("Add", 6, {"a": X, "b": random(*dims, seed=1)}, {"broadcast": 1, "axis": axis},
             expected=lambda a, b, broadcast, axis: a + b.reshape((*b.shape, *[1] * (4 - axis - b.ndim))))
        for dims, axis in [((3,), 1), ((3, 4), 1), ((2,), 0), ((4, 5), 2)]
    ],
    Case("Greater", 9, {"a": X, "b": random(5, seed=2)}),
    Case("Less", 9, {"a": random(5, seed=2), "b": X}),
    Case("Max", 13, {"a": X, "b": random(5, seed=2), "c": random(3, 1, 1, seed=3)}),
    Case("Div", 14, {"a": random(3, 4, dtype="int32"), "b": np.array([3, -2, 5, -7], np.int32)},
         expected=lambda a, b: np.trunc(a / b).astype(np.int32)),
    Case("Where", 16, {"c": random(3, 4, dtype="bool"), "a": random(3, 1), "b": random(4)}),
    Case("Clip", 13, {"x": X, "low": np.array(-0.5, np.float32), "high": np.array(0.5, np.float32)}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
