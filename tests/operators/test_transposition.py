"""Permutations of axes in every version, by t() and by a gather of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Case, at_sizes, check_case, random

X = random(2, 3, 4, 5)
HOLES = X.copy()
HOLES[0, 1, 2, 3], HOLES[1, 0, 0, 0], HOLES[1, 2, 3, 4] = np.nan, np.inf, -np.inf


def transposed(x: np.ndarray, perm: tuple[int, ...] | None = None) -> np.ndarray:
    return np.transpose(x, perm)


def space_to_depth(x: np.ndarray, blocksize: int, mode: str = "DCR") -> np.ndarray:
    n, c, h, w = x.shape
    cut = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    moved = cut.transpose((0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4))
    return moved.reshape(n, -1, h // blocksize, w // blocksize)


CASES = [
    *[Case("Transpose", 13, {"x": HOLES}, {"perm": perm}, note="".join(map(str, perm)))
      for perm in itertools.permutations(range(4))],
    *[Case("Transpose", 21, {"x": random(2, 3, 1, 6)}, {"perm": perm}, note="".join(map(str, perm)))
      for perm in [(1, 2, 0, 3), (0, 2, 1, 3), (2, 1, 3, 0), (3, 2, 1, 0)]],
    Case("Transpose", 1, {"x": random(2, 3, 40)}, {"perm": (1, 0, 2)}),
    Case("Transpose", 1, {"x": random(2, 3, 4)}, note="reverse"),
    Case("Transpose", 13, {"x": random(7)}, note="rank 1"),
    Case("Transpose", 13, {"x": random()}, note="rank 0"),
    Case("Transpose", 13, {"x": random(40, 2, 3, dtype="int64")}, {"perm": (0, 2, 1)}),
    Case("Transpose", 13, {"x": random(2, 40, 3, 33)}, {"perm": (0, 2, 1, 3)}),
    Case("Transpose", 13, {"x": random(3, 2, 3, 2, 3, 2)}, {"perm": (4, 2, 0, 5, 3, 1)}, expected=transposed),
    Case("Transpose", 13, {"x": random(2, 0, 3)}, {"perm": (2, 0, 1)}, expected=transposed, note="empty"),
    Case("DepthToSpace", 1, {"x": random(2, 8, 2, 3)}, {"blocksize": 2}),
    Case("DepthToSpace", 13, {"x": random(2, 18, 2, 3)}, {"blocksize": 3, "mode": "CRD"}),
    Case("DepthToSpace", 11, {"x": random(1, 8, 2, 3)}, {"blocksize": 2, "mode": "DCR"}),
    Case("SpaceToDepth", 1, {"x": random(2, 3, 4, 6)}, {"blocksize": 2}),
    Case("SpaceToDepth", 13, {"x": random(1, 3, 6, 9)}, {"blocksize": 3}),
    Case("SpaceToDepth", 28, {"x": random(2, 3, 4, 6)}, {"blocksize": 2, "mode": "CRD"}, expected=space_to_depth),
    *[at_sizes(Case("Transpose", 13, {"x": random(2, 5, 3, 4)}, {"perm": perm}, note="".join(map(str, perm))),
               {"x": ["batch", "seq", 3, 4]}, {"x": random(1, 7, 3, 4)}, {"x": random(3, 1, 3, 4)})
      for perm in [(0, 2, 1, 3), (0, 2, 3, 1), (2, 0, 1, 3), (3, 2, 1, 0), (1, 0, 3, 2)]],
    at_sizes(Case("Transpose", 13, {"x": random(2, 5, 6, 4)}, {"perm": (0, 2, 1, 3)}, note="many heads"),
             {"x": ["batch", "seq", 6, 4]}, {"x": random(1, 7, 6, 4)}),
    *[at_sizes(Case("DepthToSpace", 13, {"x": random(2, 8, 2, 3)}, {"blocksize": 2, "mode": mode}),
               {"x": ["n", 8, 2, "w"]}, {"x": random(1, 8, 2, 5)}) for mode in ("DCR", "CRD")],
    at_sizes(Case("SpaceToDepth", 13, {"x": random(2, 3, 4, 6)}, {"blocksize": 2}), {"x": ["n", 3, 4, "w"]},
             {"x": random(1, 3, 4, 2)}),
]


DERIVATIVES = [
    *[Derivative("DepthToSpace", {"x": near(2, 8, 2, 3)}, {"blocksize": 2, "mode": mode}) for mode in ("DCR", "CRD")],
    Derivative("SpaceToDepth", {"x": near(2, 2, 4, 6)}, {"blocksize": 2}),
    Derivative("SpaceToDepth", {"x": near(2, 2, 4, 6)}, {"blocksize": 2, "mode": "CRD"}, 28),
    *[Derivative("Transpose", {"x": near(2, 3, 4)}, attributes) for attributes in ({}, {"perm": [1, 2, 0]})],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
