"""CropAndResize and Inverse of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random

BOXES = np.array([[0, 0, 1, 1], [0.1, 0.3, 0.7, 0.6], [-0.2, 0.5, 0.8, 1.3]], dtype=np.float32)


def crops(height: int, width: int, **others: Any) -> Case:
    inputs = {"x": random(2, 3, 6, 7), "boxes": BOXES, "which": np.array([0, 1, 1], np.int32),
              "size": np.array([height, width], np.int32)}
    return contrib("CropAndResize", inputs, constants=["size"], tolerance=2e-5, **others)


def regular(*dims: int) -> Array:
    return random(*dims) + 3 * np.eye(dims[-1], dtype=np.float32)


def square(*dims: int) -> Case:
    return contrib("Inverse", {"x": regular(*dims)})


CASES = [
    crops(4, 5),
    crops(1, 3, attributes={"extrapolation_value": -2.0}),
    crops(4, 5, attributes={"mode": "nearest", "extrapolation_value": 3.0}),
    crops(1, 3, attributes={"mode": "nearest"}),
    square(3, 3),
    square(2, 3, 3),
    square(2, 2, 4, 4),
    square(3, 1, 1),
    at_sizes(crops(4, 5), {"x": ["n", 3, "h", "w"], "boxes": ["boxes", 4], "which": ["boxes"]},
             {"x": random(1, 3, 5, 4), "boxes": BOXES[1:], "which": np.array([0, 0], np.int32)}),
    at_sizes(crops(4, 5, attributes={"mode": "nearest"}), {"x": ["n", 3, "h", "w"], "boxes": ["boxes", 4], "which": ["boxes"]},
             {"x": random(1, 3, 5, 4), "boxes": BOXES[1:], "which": np.array([0, 0], np.int32)}),
    at_sizes(square(2, 3, 3), {"x": ["n", 3, 3]}, {"x": regular(5, 3, 3)}, {"x": regular(1, 3, 3)}),
    at_sizes(square(2, 3, 3), {"x": ["n", "m", "m"]}, {"x": regular(4, 1, 1)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
