"""Biases by distance of onnxruntime: its CPU package has no kernels, numpy judges."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random

TABLE = random(8, 3)


def biased(table: Array, queries: Array, keys: Array, max_distance: int, is_bidirectional: int = 0) -> Array:
    """Position for position, as T5 numbers its buckets."""
    buckets, heads = table.shape
    by_head = table.reshape(heads, buckets)
    half = buckets // 2 if is_bidirectional else buckets
    y = np.zeros((1, heads, int(queries.item()), int(keys.item())), np.float32)
    for query in range(y.shape[2]):
        for key in range(y.shape[3]):
            distance = abs(key - query) if is_bidirectional else max(query - key, 0)
            bucket = distance
            if distance >= half // 2:
                ratio = np.log(np.float32(distance / (half // 2))) / np.log(np.float32(max_distance / (half // 2)))
                bucket = min(half // 2 + int(np.float32(ratio * (half - half // 2))), half - 1)
            if is_bidirectional and key > query:
                bucket += half
            y[0, :, query, key] = by_head[:, bucket]
    return y


def gated(query: Array, query_bias: Array, rel_pos: Array, weight: Array, bias: Array, eco_a: Array, num_heads: int
          ) -> Array:
    batch, length, _ = query.shape
    size, columns = weight.shape
    heads = (query + query_bias).reshape(batch, length, num_heads, size).transpose(0, 2, 1, 3)
    gates = (heads @ weight + bias).reshape(batch, num_heads, length, 2, columns // 2).sum(-1)
    update, reset = np.split(1 / (1 + np.exp(-gates)), 2, -1)
    return np.asarray((update * (reset * eco_a - 1) + 2) * rel_pos, query.dtype)


def lengths(queries: int, keys: int) -> dict[str, Array]:
    return {"queries": np.array([queries]), "keys": np.array([keys])}


GATED = {"query": random(2, 3, 8), "query_bias": random(8, seed=1), "rel_pos": random(1, 2, 3, 3, seed=2),
         "weight": random(4, 8, seed=3), "bias": random(8, seed=4), "eco_a": random(1, 2, 1, 1, seed=5)}
CASES = [
    *[contrib("RelativePositionBias", {"table": TABLE, **lengths(9, keys)}, expected=biased,
              attributes={"max_distance": farthest, "is_bidirectional": both}, constants=constants)
      for keys, farthest, both, constants in ((9, 6, 0, []), (9, 6, 1, ["table"]), (14, 16, 0, ["queries", "keys"]))],
    contrib("GatedRelativePositionBias", GATED, attributes={"num_heads": 2}, expected=gated),
    at_sizes(contrib("RelativePositionBias", {"table": TABLE, **lengths(4, 4)}, expected=biased,
                     attributes={"max_distance": 6}),
             {"table": [8, "heads"]}, {"table": random(8, 5), **lengths(7, 6)}),
    at_sizes(contrib("GatedRelativePositionBias", GATED, attributes={"num_heads": 2}, expected=gated),
             {"query": ["batch", "length", 8], "rel_pos": [1, 2, "length", "length"]},
             {"query": random(1, 5, 8), "rel_pos": random(1, 2, 5, 5, seed=2)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
