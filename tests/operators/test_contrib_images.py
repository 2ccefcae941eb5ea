"""CropAndResize and Inverse of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.contrib_cases import contrib
from tests.operators.harness import Case, check_case, random

BOXES = np.array([[0, 0, 1, 1], [0.1, 0.3, 0.7, 0.6], [-0.2, 0.5, 0.8, 1.3]], dtype=np.float32)


def crops(height: int, width: int, **others: Any) -> Case:
    inputs = {"x": random(2, 3, 6, 7), "boxes": BOXES, "which": np.array([0, 1, 1], np.int32),
              "size": np.array([height, width], np.int32)}  # fmt: skip
    return contrib("CropAndResize", inputs, constants=["size"], tolerance=2e-5, **others)


def square(*dims: int) -> Case:
    return contrib("Inverse", {"x": random(*dims) + 3 * np.eye(dims[-1], dtype=np.float32)})


CASES = [
    crops(4, 5),
    crops(1, 3, attributes={"extrapolation_value": -2.0}),
    square(3, 3),
    square(2, 3, 3),
    square(2, 2, 4, 4),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_images(case: Case) -> None:
    check_case(case)


def test_symbolic_sizes() -> None:
    case = crops(4, 5, symbols={"x": ["n", 3, "h", "w"], "boxes": ["boxes", 4], "which": ["boxes"]})
    fewer = {"x": random(1, 3, 5, 4), "boxes": BOXES[1:], "which": np.array([0, 0], np.int32)}
    check_case(case, sizes=[{**case.inputs, **fewer}])
