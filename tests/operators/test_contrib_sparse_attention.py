"""SparseAttention of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, contrib, random

STARTS = np.array([[0, 1, 3, 5], [0, 1, 2, 4]], np.int32)
COLUMNS = np.array([[0, 0, 1, 1, 2], [0, 1, 0, 2, -1]], np.int32)
SIZE, LONGEST = 8, 48


def sparse(tokens: int, whole: list[int], *, packed: bool = False, layouts: int = 2, batch: int = 2, rotary: bool = False,
           **attributes: Any) -> Case:
    """Of four heads of queries, two of keys, blocks of 16 tokens."""
    size = 16 if rotary else SIZE
    parts: list[Array | None] = [random(batch, tokens, count * size, seed=place) for place, count in enumerate((4, 2, 2))]
    if packed:
        parts = [np.concatenate([part for part in parts if part is not None], 2), None, None]
    angles = np.arange(LONGEST)[:, None] / 10.0 ** np.arange(size // 2)
    inputs = {
        "q": parts[0], "k": parts[1], "v": parts[2], "pk": random(batch, 2, LONGEST, size, seed=4),
        "pv": random(batch, 2, LONGEST, size, seed=5), "starts": STARTS[:layouts], "columns": COLUMNS[:layouts],
        "total": np.array([max(whole)], np.int32), "lengths": np.array(whole, np.int32),
        "cos": np.cos(angles).astype(np.float32) if rotary else None, "sin": np.sin(angles).astype(np.float32) if rotary else None,
    }
    given = {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": 16, "scale": 0.4, "do_rotary": int(rotary), **attributes}
    case = contrib("SparseAttention", inputs, attributes=given, constants=["starts", "columns"], outputs=3,
                   note=f"{tokens}-{whole}-{packed}-{layouts}-{rotary}", output_dtypes=["float"] * 3)
    return replace(case, expected=lambda *arrays, **_: in_place(case, arrays))


def in_place(case: Case, arrays: Sequence[Array | None]) -> list[Array]:
    """By onnxruntime, which has to be given the caches as outputs, too."""
    inputs = {name: array for name, array in zip(case.inputs, arrays) if array is not None}
    if not all(array.size for array in inputs.values()):
        raise ValueError("onnxruntime ends the process where there are no elements")
    model = case_model(replace(case, inputs={name: inputs.get(name) for name in case.inputs}))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array.copy()) for name, array in inputs.items()}
    for name in (port.name for port in session.get_inputs()):
        binding.bind_ortvalue_input(name, values[name])
    binding.bind_output("out0")
    binding.bind_ortvalue_output("out1", values["pk"])
    binding.bind_ortvalue_output("out2", values["pv"])
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def by_definition(
    q: Array, k: Array, v: Array, past_key: Array, past_value: Array, starts: Array, columns: Array, total: Array, lengths: Array,
    cos: None = None, sin: None = None, num_heads: int = 0, kv_num_heads: int = 0, sparse_block_size: int = 0, scale: float = 1, **_: Any,
) -> list[Array]:
    """Without padding and turning; for samples of several lengths onnxruntime gives other numbers at each call."""
    batch, new = q.shape[:2]
    queries, keys, values = (part.reshape(batch, new, count, -1) for part, count in
                             ((q, num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    caches = past_key.copy(), past_value.copy()
    y = np.zeros(queries.shape)
    for sample, head, token in np.ndindex(batch, num_heads, new):
        first = int(lengths[sample]) - new if total.item() != new else 0
        own, layout = head * kv_num_heads // num_heads, head % len(starts)
        for cache, part in zip(caches, (keys, values)):
            cache[sample, :, first : first + new] = part[sample].swapaxes(0, 1)
        row = (first + token) // sparse_block_size
        blocks = columns[layout][starts[layout][row] : starts[layout][row + 1]]
        seen = [place for place in range(first + token + 1) if place // sparse_block_size in blocks]
        scores = caches[0][sample, own, seen] @ queries[sample, token, head] * scale
        weights = np.exp(scores - scores.max())
        y[sample, token, head] = weights / weights.sum() @ caches[1][sample, own, seen]
    return [y.reshape(q.shape).astype(q.dtype), *caches]


CASES = [
    sparse(1, [40, 40]),
    sparse(1, [17, 17], packed=True),
    replace(sparse(1, [35, 17]), expected=by_definition),
    sparse(20, [20, 20], layouts=1),
    sparse(40, [40], batch=1, packed=True),
    sparse(1, [33, 33], rotary=True),
    at_sizes(sparse(1, [40, 40]), {"q": ["n", 1, 32], "k": ["n", 1, 16], "v": ["n", 1, 16], "pk": ["n", 2, LONGEST, SIZE],
                                   "pv": ["n", 2, LONGEST, SIZE], "lengths": ["n"]},
             {name: array for name, array in sparse(1, [40], batch=1).inputs.items() if name in ("q", "k", "v", "pk", "pv", "lengths")}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
