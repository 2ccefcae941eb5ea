"""Packed sequences of onnxruntime: its CPU package has no kernels, numpy judges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random

COUNTS = (1, 4, 2)
LENGTH, HEADS, SIZE = 4, 2, 3
WIDTH = HEADS * SIZE


def offsets(counts: Sequence[int], length: int) -> Array:
    """Where the tokens of samples of these lengths stand, then where padding does."""
    inside = np.arange(length) < np.array(counts)[:, None]
    places = [np.flatnonzero(mask) for mask in (inside.ravel(), ~inside.ravel())]
    return np.concatenate(places).reshape(inside.shape).astype(np.int32)


def ends(counts: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def removed(x: Array, counts: Array) -> list[Array]:
    inside = np.arange(x.shape[1]) < counts[:, None]
    return [x[inside], offsets(counts, x.shape[1]), ends(counts), np.array([counts.max()], np.int32)]


def restored(x: Array, places: Array) -> Array:
    y = np.zeros((places.size, x.shape[1]), x.dtype)
    y[places.ravel()[: len(x)]] = x
    return y.reshape(*places.shape, -1)


def attended(query: Array, key: Array, value: Array, stops: Array, bias: Array | None = None, scale: float | None = None
             ) -> Array:
    """Sample for sample and head for head."""
    y = np.zeros_like(value)
    for sample, (start, stop) in enumerate(pairwise(stops)):
        for head in range(HEADS):
            columns = slice(head * query.shape[1] // HEADS, (head + 1) * query.shape[1] // HEADS)
            scores = query[start:stop, columns] @ key[start:stop, columns].T * (scale or 1 / np.sqrt(SIZE))
            if bias is not None:
                size = stop - start
                scores = scores + bias[sample % len(bias), head % bias.shape[1], :size, :size]
            powers = np.exp(scores - scores.max(1, keepdims=True))
            columns = slice(head * value.shape[1] // HEADS, (head + 1) * value.shape[1] // HEADS)
            y[start:stop, columns] = powers / powers.sum(1, keepdims=True) @ value[start:stop, columns]
    return y


def attended_heads(query: Array, key: Array | None, value: Array | None, bias: Array | None, places: Array,
                   stops: Array, attention_bias: Array | None = None, scale: float | None = None, **_: Any
                   ) -> Array:
    if key is None or value is None:
        query, key, value = (query[:, :, which].reshape(len(query), -1) for which in range(3))
    parts = [query, key, value]
    if bias is not None:
        widths = np.cumsum([part.shape[1] for part in parts])[:-1]
        parts = [part + own for part, own in zip(parts, np.split(bias, widths))]
    return attended(*parts, stops, attention_bias, scale)  # type: ignore[arg-type]


def attended_projections(x: Array, weight: Array, bias: Array, places: Array, stops: Array,
                         attention_bias: Array | None = None, qkv_hidden_sizes: Sequence[int] = (WIDTH,) * 3,
                         scale: float | None = None, **_: Any) -> Array:
    query, key, value = np.split(x @ weight + bias, np.cumsum(qkv_hidden_sizes)[:-1], 1)
    return attended(query, key, value, stops, attention_bias, scale)


def packed(counts: Sequence[int] = COUNTS, length: int = LENGTH) -> dict[str, Array]:
    return {"places": offsets(counts, length), "ends": ends(counts)}


def heads(counts: Sequence[int] = COUNTS, length: int = LENGTH, **extra: Array | None) -> dict[str, Array | None]:
    """Inputs of PackedMultiHeadAttention."""
    total = sum(counts)
    alone = {name: random(total, WIDTH, seed=seed) for seed, name in enumerate(("query", "key", "value"))}
    given = {**alone, "bias": None, **packed(counts, length)}
    return {**given, **extra}


def projections(counts: Sequence[int] = COUNTS, length: int = LENGTH, value_size: int = SIZE) -> dict[str, Array]:
    """Inputs of PackedAttention."""
    width = 2 * WIDTH + HEADS * value_size
    return {"x": random(sum(counts), 5), "weight": random(5, width, seed=1), "bias": random(width, seed=2),
            **packed(counts, length)}


def remove(counts: Sequence[int] = COUNTS, length: int = LENGTH) -> dict[str, Array]:
    return {"x": random(len(counts), length, 5), "counts": np.array(counts, np.int32)}


OTHER = ((3, 1), 5)
REMOVED = {"outputs": 4, "expected": removed, "output_dtypes": ["float", "int32", "int32", "int32"]}
RESTORED = {"x": random(sum(COUNTS), 5), "places": packed()["places"]}
BIAS = random(3 * WIDTH, seed=5)
MANY = {"attributes": {"num_heads": HEADS}, "expected": attended_heads}
ONE = {"attributes": {"num_heads": HEADS}, "expected": attended_projections}
CASES = [
    contrib("RemovePadding", remove(), **REMOVED),
    contrib("RemovePadding", remove((2, 2), 2), **REMOVED),
    contrib("RestorePadding", RESTORED, expected=restored),
    contrib("PackedMultiHeadAttention", heads(), **MANY),
    contrib("PackedMultiHeadAttention", heads(bias=BIAS), attributes={"num_heads": HEADS, "scale": 0.3},
            expected=attended_heads),
    contrib("PackedMultiHeadAttention", heads(query=random(sum(COUNTS), HEADS, 3, SIZE), key=None, value=None), **MANY),
    contrib("PackedMultiHeadAttention", heads(bias=None, attention_bias=random(1, HEADS, LENGTH, LENGTH)), **MANY),
    contrib("PackedAttention", projections(), **ONE),
    contrib("PackedAttention", projections(value_size=4), expected=attended_projections,
            attributes={"num_heads": HEADS, "qkv_hidden_sizes": [WIDTH, WIDTH, HEADS * 4], "scale": 0.3}),
    at_sizes(contrib("RemovePadding", remove(), **REMOVED), {"x": ["batch", "seq", 5], "counts": ["batch"]},
             remove(*OTHER)),
    at_sizes(contrib("RestorePadding", RESTORED, expected=restored), {"x": ["tokens", 5], "places": ["batch", "seq"]},
             {"x": random(4, 5), "places": packed(*OTHER)["places"]}),
    at_sizes(contrib("PackedMultiHeadAttention", heads(bias=BIAS), constants=["bias"], **MANY),
             {**{name: ["tokens", WIDTH] for name in ("query", "key", "value")}, "places": ["batch", "seq"],
              "ends": ["batch_ends"]},
             {name: array for name, array in heads(*OTHER).items() if array is not None}),
    at_sizes(contrib("PackedAttention", projections(), constants=["weight", "bias"], **ONE),
             {"x": ["tokens", 5], "places": ["batch", "seq"], "ends": ["batch_ends"]}, projections(*OTHER)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
