"""MurmurHash3: onnxruntime judges, of small and large numbers, of both signs, of texts, with seeds and both types of results."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import UnsupportedCase
from tests.operators.harness import Case, at_sizes, case_model, check_case, contrib

WORDS = np.array([[0, 1, -1, 3], [2**31 - 1, -(2**31), 123456789, -987654321]], np.int32)
WIDE = np.array([0, 1, -1, 5, 2**32, 2**32 - 1, -(2**32), 2**53 - 1, 1 - 2**53, 1234567890123456, -4294967297], np.int64)
TEXTS = np.array([["", "a", "ab", "Über"], ["abcde", "a", "日本語", "a b c d e f"]], object)
CASES = [
    contrib("MurmurHash3", {"X": WORDS}, output_dtypes=["uint32"], note="int32"),
    contrib("MurmurHash3", {"X": WORDS}, attributes={"positive": 0, "seed": 42}, output_dtypes=["int32"], note="int32 to int32, with a seed"),
    contrib("MurmurHash3", {"X": WORDS.view(np.uint32)}, attributes={"seed": -7}, output_dtypes=["uint32"], note="uint32, a negative seed"),
    contrib("MurmurHash3", {"X": WIDE}, output_dtypes=["uint32"], note="int64"),
    contrib("MurmurHash3", {"X": WIDE}, attributes={"positive": 0, "seed": 2**31 - 1}, output_dtypes=["int32"], note="int64 to int32"),
    contrib("MurmurHash3", {"X": np.abs(WIDE).astype(np.uint64)}, output_dtypes=["uint32"], note="uint64"),
    contrib("MurmurHash3", {"X": TEXTS}, output_dtypes=["uint32"], note="string"),
    contrib("MurmurHash3", {"X": TEXTS}, attributes={"positive": 0, "seed": -7}, output_dtypes=["int32"], note="string to int32"),
    at_sizes(contrib("MurmurHash3", {"X": WORDS}, output_dtypes=["uint32"]), {"X": ["n", 4]}, {"X": WORDS[:1]}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("x", [np.ones(2, np.float32), np.ones(2)], ids=["float", "double"])
def test_what_has_no_bytes(x: np.ndarray) -> None:
    with pytest.raises(UnsupportedCase, match="only integers and texts can be hashed"):
        import_model(case_model(contrib("MurmurHash3", {"X": x}, output_dtypes=["uint32"])))
