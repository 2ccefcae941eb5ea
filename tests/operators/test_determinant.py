"""Det of one matrix and of batches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Case, at_sizes, check_case, random


def det(*dims: int, opset: int = 11) -> Case:
    return Case("Det", opset, {"x": random(*dims)}, expected=lambda x: np.asarray(np.linalg.det(x)).astype(x.dtype))


CASES = [det(3, 3), det(0, 0), det(2, 0, 0), det(0, 2, 2), det(1, 1), det(4, 3, 3, opset=22), det(2, 3, 2, 2), det(3, 1, 1),
         at_sizes(det(2, 3, 3), {"x": ["batch", 3, 3]}, {"x": random(4, 3, 3)}),
         at_sizes(det(2, 3, 3), {"x": ["batch", "size", "size"]}, {"x": random(4, 2, 2)}, {"x": random(3, 1, 1)})]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
