"""Attention of quantised inputs and weights: masks, past states, scales by column."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, random

HIDDEN, HEADS, PAST = 16, 2, 3


def numbers(dtype: str, *dims: int, seed: int = 0) -> Array:
    """Over the range of uint8; signed ones within 7 bits (see test_contrib_quantized)."""
    low, high = (0, 256) if dtype == "uint8" else (-60, 61)
    return np.random.default_rng(seed).integers(low, high, dims).astype(dtype)


def attention(dtype: str, per_column: bool, mask: str, unidirectional: bool, past: bool) -> Case:
    count, length = 3 * HIDDEN if per_column else 1, 4
    masks = {"": None, "lengths": np.array([3, 4], np.int32),
             "full": (numbers("uint8", 2, length + PAST * past, seed=5) > 40).astype(np.int32)}
    inputs: dict[str, Array | None] = {
        "x": numbers("uint8", 2, length, HIDDEN), "w": numbers(dtype, HIDDEN, 3 * HIDDEN, seed=1),
        "b": random(3 * HIDDEN), "xs": np.array([0.01], np.float32), "ws": np.full(count, 0.01, np.float32),
        "m": masks[mask], "xz": np.array([128], np.uint8), "wz": np.full(count, 128 if dtype == "uint8" else 0, dtype),
        "p": random(2, 2, HEADS, PAST, HIDDEN // HEADS) if past else None,
    }
    return Case(
        "QAttention", 1, inputs, {"num_heads": HEADS, "unidirectional": int(unidirectional)}, domain="com.microsoft",
        constants=["w", "b", "xs", "ws", "xz", "wz"], outputs=2 if past else 1, output_dtypes=("float", "float"),
        note=f"{dtype} {per_column} {mask} {unidirectional} {past}",
        tolerance=1e-4,  # masked scores are -10000 and more, of which FP32 holds three decimals
    )


CASES = [
    attention(dtype, per_column, mask, unidirectional, past)
    for dtype, per_column in (("uint8", False), ("int8", True)) for mask in ("", "lengths", "full")
    for unidirectional, past in ((False, False), (True, False), (True, True))
] + [
    at_sizes(attention("uint8", False, "full", True, False), {"x": ["batch", "seq", HIDDEN], "m": ["batch", "seq"]},
             {"x": numbers("uint8", 3, 6, HIDDEN, seed=2), "m": (numbers("uint8", 3, 6, seed=6) > 40).astype(np.int32)}),
    at_sizes(attention("int8", True, "", True, True),
             {"x": ["batch", "seq", HIDDEN], "p": [2, "batch", HEADS, "past", HIDDEN // HEADS]},
             {"x": numbers("uint8", 3, 1, HIDDEN, seed=2), "p": random(2, 3, HEADS, 5, HIDDEN // HEADS, seed=3)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
