"""What onnxruntime does with the scores of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Case, at_sizes, check_case, contrib, random

IDS = np.array([[1, 2, 3, 1, 2, 4, 1, 2], [5, 5, 5, 0, 3, 1, 0, 3]], np.int64)
SCORES = random(2, 6)
CASES = [
    *(contrib("NGramRepeatBlock", {"ids": IDS, "scores": SCORES}, attributes={"ngram_size": size}, output_dtypes=["float"]) for size in (1, 2, 3)),
    at_sizes(contrib("NGramRepeatBlock", {"ids": IDS, "scores": SCORES}, attributes={"ngram_size": 2}, output_dtypes=["float"]),
             {"ids": ["n", "length"], "scores": ["n", 6]}, {"ids": IDS[1:, 2:], "scores": SCORES[1:]}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
