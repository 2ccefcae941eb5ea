"""Elementwise functions of one input in every version: rank 0, 3 and 4, no elements, special values, symbolic dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, random

SPECIAL = np.array([0, 0.5, 1, -1, 2.5, -2.5, 1.5, -0.5, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)


def _reciprocal(x: Array) -> Array:
    return (1 / x).astype(x.dtype)


def _infinite(x: Array, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    return (np.isposinf(x) & bool(detect_positive)) | (np.isneginf(x) & bool(detect_negative))


FUNCTIONS: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "Abs": ((1, 6, 13), np.abs),
    "Acos": ((7, 22), np.arccos),
    "Asin": ((7, 22), np.arcsin),
    "Atan": ((7, 22), np.arctan),
    "Ceil": ((1, 6, 13), np.ceil),
    "Cos": ((7, 22), np.cos),
    "Cosh": ((9, 22), np.cosh),
    "Exp": ((1, 6, 13), np.exp),
    "Floor": ((1, 6, 13), np.floor),
    "IsInf": ((10, 20), _infinite),
    "IsNaN": ((9, 13, 20), np.isnan),
    "Log": ((1, 6, 13), np.log),
    "Neg": ((1, 6, 13), np.negative),
    "Reciprocal": ((1, 6, 13), _reciprocal),
    "Round": ((11, 22), np.rint),
    "Sign": ((9, 13), np.sign),
    "Sin": ((7, 22), np.sin),
    "Sinh": ((9, 22), np.sinh),
    "Sqrt": ((1, 6, 13), np.sqrt),
    "Tan": ((7, 22), np.tan),
    "Tanh": ((1, 6, 13), np.tanh),
}


def judged(op: str, opset: int, x: Array, **attributes: Any) -> Case:
    """A case that numpy judges."""
    return Case(op, opset, {"x": x}, attributes, expected=FUNCTIONS[op][1])


CASES = [
    *[judged(op, opset, np.abs(random(2, 3, 4)) if op in ("Log", "Sqrt") else random(2, 3, 4) / np.float32(4))
      for op, (opsets, _) in FUNCTIONS.items() for opset in opsets],
    *[judged(op, opsets[-1], SPECIAL) for op, (opsets, _) in FUNCTIONS.items()],
    *[judged(op, opsets[-1], np.array(0.75, np.float32)) for op, (opsets, _) in FUNCTIONS.items()],
    *[judged(op, opsets[-1], np.zeros((2, 0, 3), np.float32)) for op, (opsets, _) in FUNCTIONS.items()],
    *[at_sizes(judged(op, opsets[-1], np.abs(random(2, 3, 4, 5)) / np.float32(9)), {"x": ["batch", 3, "height", "width"]},
               {"x": np.abs(random(1, 3, 6, 2)) / np.float32(9)}) for op, (opsets, _) in FUNCTIONS.items()],
    *[judged("IsInf", 10, SPECIAL, detect_negative=negative, detect_positive=positive)
      for negative, positive in ((0, 1), (1, 0), (0, 0))],
    *[judged(op, 13, np.array([[0, -128, 127, -5]], np.int8)) for op in ("Neg", "Abs", "Sign")],
    *[judged(op, 13, random(3, 4, dtype="int64")) for op in ("Neg", "Abs", "Sign")],
    judged("Sign", 13, random(3, 4, dtype="uint8")), judged("Abs", 13, random(3, 4, dtype="uint8")),
    *[Case("Not", 1, {"x": x}, expected=np.logical_not)
      for x in (random(2, 3, 4, dtype="bool"), np.array(True), np.zeros((0, 2), bool))],
    at_sizes(Case("Not", 1, {"x": random(2, 3, 4, 5, dtype="bool")}), {"x": ["batch", 3, "height", "width"]},
             {"x": random(1, 3, 6, 2, dtype="bool")}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    with np.errstate(all="ignore"):
        check_case(case)
