"""Attention and MultiHeadAttention of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError, UnsupportedCase
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, contrib, random

X, WEIGHT, BIAS = random(2, 4, 5), random(5, 18, seed=1), random(18, seed=2)
ROWS = np.array([[1, 1, 1, 0], [0, 1, 1, 1]], dtype=np.int32)
MATRICES = (random(2, 4, 4, seed=3) > -0.5).astype(np.int32)
PAST = random(2, 2, 2, 3, 3, seed=4)


def integers(*numbers: int) -> Array:
    return np.array(numbers, dtype=np.int32)


def projected(
    mask: Array | None = None, past: Array | None = None, bias: Array | None = None, outputs: int = 1, **attributes: Any
) -> Case:
    """A row of Attention of two heads of three."""
    inputs = {"x": X, "w": WEIGHT, "b": BIAS, "mask": mask, "past": past, "bias": bias}
    while list(inputs.values())[-1] is None:
        inputs.popitem()
    return contrib("Attention", inputs, attributes={"num_heads": 2, **attributes}, outputs=outputs, constants=["w", "b"])


Q, K, V = random(2, 4, 6), random(2, 5, 6, seed=1), random(2, 5, 8, seed=2)
PAST_KEY, PAST_VALUE = random(2, 2, 3, 3, seed=3), random(2, 2, 3, 4, seed=4)
OWN = {"q": Q, "k": random(2, 4, 6, seed=5), "v": random(2, 4, 6, seed=6)}
OWN_PAST = {"past_key": PAST_KEY, "past_value": random(2, 2, 3, 3, seed=7)}


def heads(inputs: dict[str, Array | None], outputs: Any = 1, note: str = "", **attributes: Any) -> Case:
    """A row of MultiHeadAttention of two heads."""
    return contrib("MultiHeadAttention", inputs, attributes={"num_heads": 2, **attributes}, outputs=outputs, note=note)


def packed(q: Array, k: Array | None = None, v: Array | None = None, bias: Array | None = None, **_: Any) -> Array:
    """The packed forms have no kernel for CPUs: by numpy."""
    query, key, value = np.moveaxis(q, 3, 0) if k is None else (q.reshape(2, 4, 2, 3), *np.moveaxis(k, 3, 0))
    if bias is not None:
        query, key, value = (part + own for part, own in zip((query, key, value), bias.reshape(3, 2, 3)))
    query, key, value = (part.transpose(0, 2, 1, 3) for part in (query, key, value))
    powers = np.exp(query @ key.transpose(0, 1, 3, 2) / np.sqrt(3))
    weighted = (powers / powers.sum(-1, keepdims=True)) @ value
    return weighted.transpose(0, 2, 1, 3).reshape(2, -1, 6).astype(np.float32)


def without_bias(x: Array, w: Array, **_: Any) -> Array:
    """The kernel for CPUs crashes without a bias: by numpy."""
    return packed((x @ w).reshape(2, 4, 3, 2, 3).transpose(0, 1, 3, 2, 4))


SIZED = [
    at_sizes(projected(ROWS, unidirectional=1), {"x": ["batch", "seq", 5], "mask": ["batch", "seq"]},
             {"x": random(3, 6, 5), "mask": (random(3, 6, seed=1) > -1).astype(np.int32)}),
    at_sizes(projected(past=PAST, outputs=2, unidirectional=1), {"x": ["batch", "seq", 5], "past": [2, "batch", 2, "before", 3]},
             {"x": random(3, 1, 5), "past": random(2, 3, 2, 6, 3)}),
    at_sizes(heads({"q": Q, "k": K, "v": V}), {"q": ["batch", "seq", 6], "k": ["batch", "keys", 6], "v": ["batch", "keys", 8]},
             {"q": random(1, 7, 6), "k": random(1, 3, 6), "v": random(1, 3, 8)}),
]
CASES = [
    projected(),
    contrib("Attention", {"x": X, "w": WEIGHT}, attributes={"num_heads": 2}, expected=without_bias),
    projected(scale=0.3),
    projected(ROWS, mask_filter_value=-2.0),
    projected(ROWS),
    projected(ROWS, unidirectional=1, mask_filter_value=-2.0),
    projected(MATRICES, mask_filter_value=-2.0),
    projected(MATRICES, unidirectional=1),
    projected(np.zeros((2, 1), np.int32)),
    projected(integers(3, 2), mask_filter_value=-2.0),
    projected(integers(3, 4, 1, 2)),
    projected(integers(2, 4, 3, 1), mask_filter_value=-2.0),
    projected(unidirectional=1),
    projected(bias=random(2, 2, 4, 4, seed=5)),
    projected(ROWS, bias=random(1, 2, 4, 4, seed=5), unidirectional=1),
    projected(bias=random(2, 1, 4, 4, seed=5)),
    projected(past=PAST, outputs=2),
    projected(past=PAST, outputs=2, unidirectional=1),
    projected(np.hstack([ROWS[:, :3], ROWS]), PAST, outputs=2, unidirectional=1),
    projected(outputs=2),
    contrib("Attention", {"x": X, "w": random(5, 20, seed=1), "b": random(20, seed=2)},
            attributes={"num_heads": 2, "qkv_hidden_sizes": [6, 6, 8]}),
    heads({"q": Q, "k": K, "v": V}),
    heads({"q": Q, "k": K, "v": V, "bias": random(20, seed=3)}, scale=0.2),
    heads({"q": Q, "k": K, "v": V, "bias": None, "mask": np.hstack([ROWS, ROWS[:, :1]])}, mask_filter_value=-2.0),
    heads({"q": Q, "k": K, "v": V, "bias": None, "mask": integers(3, 5)}),
    heads({"q": Q, "k": K, "v": V, "bias": None, "mask": (random(2, 4, 5, seed=8) > 0).astype(np.int32)},
          mask_filter_value=-2.0),
    heads({"q": Q, "k": K, "v": V, "bias": None, "mask": None, "extra": random(1, 2, 4, 5, seed=8)}),
    heads({"q": Q, "k": K, "v": V, "bias": random(20, seed=3), "mask": None, "extra": random(2, 1, 4, 5, seed=8)},
          outputs=["out", "", "", "qk"]),
    heads({"q": Q, "k": random(2, 2, 5, 3, seed=1), "v": random(2, 2, 5, 3, seed=2)}, note="keys by head"),
    heads({**OWN, "bias": None, "mask": None, "extra": None, **OWN_PAST}, outputs=3),
    heads({**OWN, "bias": random(18, seed=8), "mask": np.hstack([ROWS[:, :3], ROWS]), "extra": None, **OWN_PAST},
          outputs=3, unidirectional=1),
    heads(OWN, unidirectional=1, outputs=3),
    contrib("MultiHeadAttention", {"q": random(2, 4, 2, 3, 3)}, attributes={"num_heads": 2}, expected=packed),
    contrib("MultiHeadAttention", {"q": random(2, 4, 2, 3, 3), "k": None, "v": None, "bias": random(18, seed=1)},
            attributes={"num_heads": 2}, expected=packed),
    contrib("MultiHeadAttention", {"q": Q, "k": random(2, 5, 2, 2, 3, seed=1)}, attributes={"num_heads": 2},
            expected=packed),
    *SIZED,
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(("name", "inputs", "attributes", "words"), [
    ("Attention", {"x": Q, "w": random(6, 18)}, {}, "'num_heads' is missing, it must be positive"),
    ("Attention", {"x": Q, "w": random(6, 18)}, {"num_heads": 2, "qkv_hidden_sizes": [6, 6]}, "no three multiples of 2 heads"),
    ("Attention", {"x": Q, "w": random(6, 18)}, {"num_heads": 4, "qkv_hidden_sizes": [6, 6, 6]}, "multiples of 4 heads"),
    ("MultiHeadAttention", {"q": random(2, 6)}, {"num_heads": 2}, "input 0 has rank 2, it has 3 axes at least"),
    ("MultiHeadAttention", {"q": Q, "k": Q, "v": random(6)}, {"num_heads": 2}, "input 2 has rank 1, it has 3 axes at least"),
    ("RotaryEmbedding", {"x": Q, "i": np.zeros((2, 4), np.int64), "c": random(9, 1), "s": random(9, 1)},
     {"rotary_embedding_dim": 2}, "'num_heads' is 0, it must be positive"),
])
def test_invalid_heads(name: str, inputs: dict[str, Any], attributes: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedCase, match=words):
        import_model(case_model(contrib(name, inputs, attributes=attributes)))


def test_what_no_cpu_computes_is_refused() -> None:
    with pytest.raises(TranspileError, match="rotary"):
        check_case(projected(do_rotary=1))
