"""DecoderMaskedMultiHeadAttention of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, contrib, random, run_reference

HEADS, SIZE = 2, 4
WIDTH = HEADS * SIZE
NAMES = ("query", "key", "value", "mask", "attention_bias", "past_key", "past_value", "past_length", "beams", "beam_index",
         "bias")


def decoder(batch: int = 2, past: int = 3, filled: int | None = None, extra: dict[str, Array | None] | None = None,
            outputs: int = 3, **others: Any) -> Case:
    """A new token after ``past`` ones, or in a buffer of that length of which ``filled`` are filled."""
    given: dict[str, Array | None] = dict.fromkeys(NAMES)
    given |= {name: random(batch, 1, WIDTH, seed=seed) for seed, name in enumerate(NAMES[:3])}
    given |= {name: random(batch, HEADS, past, SIZE, seed=seed) for seed, name in ((3, "past_key"), (4, "past_value"))}
    attributes = {"num_heads": HEADS, **others.pop("attributes", {})}
    if filled is not None:
        given["past_length"] = np.array([filled], np.int32)
        attributes["past_present_share_buffer"] = 1
    given |= extra or {}
    while given[list(given)[-1]] is None:
        given.popitem()
    return contrib("DecoderMaskedMultiHeadAttention", given, attributes=attributes, outputs=outputs, **others)


def growing(query: Array, key: Array | None, value: Array | None, *others: Array | None, **attributes: Any) -> Any:
    """By MultiHeadAttention: the CPU kernel knows buffers only."""
    mask, attention_bias, past_key, past_value, _, _, _, bias = [*others, *[None] * (8 - len(others))]
    if key is None:
        query, key, value = np.split(query, 3, 2)
    inputs = {"query": query, "key": key, "value": value, "bias": bias, "mask": mask, "attention_bias": attention_bias,
              "past_key": past_key, "past_value": past_value}
    model = case_model(contrib("MultiHeadAttention", inputs, attributes=attributes, outputs=3))
    return run_reference(model, {name: array for name, array in inputs.items() if array is not None})


MASK = np.array([[1, 1, 1, 1], [0, 1, 1, 1]], np.int32)
BIAS = random(3 * WIDTH, seed=6)
CROSS = {"key": random(2, HEADS, 5, SIZE, seed=7), "value": random(2, HEADS, 5, SIZE, seed=8), "past_key": None,
         "past_value": None}
CACHES = ["batch", HEADS, "past", SIZE]
SYMBOLS = {**{name: ["batch", 1, WIDTH] for name in NAMES[:3]}, "past_key": CACHES, "past_value": CACHES}
CASES = [
    decoder(expected=growing),
    decoder(extra={"mask": MASK, "bias": BIAS}, attributes={"scale": 0.3, "mask_filter_value": -50.0}, expected=growing),
    decoder(extra={"attention_bias": random(2, HEADS, 1, 4, seed=9)}, expected=growing),
    decoder(extra={"query": random(2, 1, 3 * WIDTH), "key": None, "value": None}, expected=growing),
    decoder(extra=CROSS, outputs=1),
    decoder(extra={**CROSS, "mask": np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]], np.int32)}, outputs=1),
    decoder(extra=CROSS, outputs=["out", "", "", "qk"], attributes={"output_qk": 1}),
    decoder(past=6, filled=2),
    decoder(past=6, filled=0, extra={"bias": BIAS}),
    decoder(past=6, filled=3, extra={"mask": MASK}, attributes={"scale": 0.3, "mask_filter_value": -50.0}),
    at_sizes(decoder(expected=growing), SYMBOLS,
             {name: array for name, array in decoder(3, 6).inputs.items() if array is not None}),
    at_sizes(decoder(past=6, filled=2), SYMBOLS,
             {name: array for name, array in decoder(3, 8, 5).inputs.items() if array is not None}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
