"""What onnxruntime does with the scores of tokens, and with words by their letters."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Case, at_sizes, check_case, contrib, random

IDS = np.array([[1, 2, 3, 1, 2, 4, 1, 2], [5, 5, 5, 0, 3, 1, 0, 3]], np.int64)
SCORES = random(2, 6)
WORDS = np.array([[3, 1, 0, 0, 0, 0], [2, 4, 4, 1, 5, 3], [1, 0, 0, 0, 0, 0], [5, 5, 2, 3, 0, 0]], np.int32)
LETTERS = {"w": random(5, 1, 3, 4, seed=1), "b": random(5, seed=2), "c": random(6, 4, seed=3)}
CASES = [
    *(contrib("NGramRepeatBlock", {"ids": IDS, "scores": SCORES}, attributes={"ngram_size": size}, output_dtypes=["float"]) for size in (1, 2, 3)),
    at_sizes(contrib("NGramRepeatBlock", {"ids": IDS, "scores": SCORES}, attributes={"ngram_size": 2}, output_dtypes=["float"]),
             {"ids": ["n", "length"], "scores": ["n", 6]}, {"ids": IDS[1:, 2:], "scores": SCORES[1:]}),
    at_sizes(contrib("WordConvEmbedding", {"x": WORDS, **LETTERS}, output_dtypes=["float"]), {"x": ["n", "length"]}, {"x": WORDS[2:]},
             {"x": WORDS[3:, :4]}),
    contrib("WordConvEmbedding", {"x": WORDS, **LETTERS}, attributes={"embedding_size": 5}, output_dtypes=["float"], constants=["w", "b", "c"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
