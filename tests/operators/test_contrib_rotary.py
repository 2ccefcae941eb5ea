"""RotaryEmbedding and GroupQueryAttention of onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, contrib, random, run_reference

ANGLES = np.outer(np.arange(12), [1, 0.5, 0.25, 0.125]).astype(np.float32)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
WIDE_COS, WIDE_SIN = (np.hstack([cache, cache[:, ::-1]]) for cache in (COS, SIN))
POSITIONS = np.array([[3, 1, 4, 0], [5, 9, 2, 6]], dtype=np.int64)
FIRST = np.array([2], dtype=np.int64)


def rotary(x: Array, positions: Array = POSITIONS, width: int = 4, **attributes: Any) -> Case:
    inputs = {"x": x, "positions": positions, "cos": COS[:, :width].copy(), "sin": SIN[:, :width].copy()}
    return contrib("RotaryEmbedding", inputs, attributes=attributes)


def grouped(
    length: int, total: int, lengths: list[int], past: int = 0, batch: int = 2, packed: bool = False,
    extra: dict[str, Array | None] | None = None, outputs: int = 3, note: str = "", **attributes: Any,
) -> Case:
    """A row of GroupQueryAttention: four heads of queries, two of keys, all of eight or, to be turned, sixteen."""
    size = 16 if "do_rotary" in attributes else 8
    if packed:
        new: dict[str, Array | None] = {"q": random(batch, length, 8 * size), "k": None, "v": None}
    else:
        new = {"q": random(batch, length, 4 * size), "k": random(batch, length, 2 * size, seed=1),
               "v": random(batch, length, 2 * size, seed=2)}
    caches = {name: random(batch, 2, past, size, seed=3 + seed) if past else None
              for seed, name in enumerate(["past_key", "past_value"])}
    counts = {"lengths": np.array(lengths, np.int32), "total": np.array(total, np.int32)}
    turning = {"cos": WIDE_COS, "sin": WIDE_SIN} if attributes.get("do_rotary") else {}
    if extra and not turning:
        turning = {"cos": None, "sin": None}  # type: ignore[dict-item]
    return contrib("GroupQueryAttention", {**new, **caches, **counts, **turning, **(extra or {})},
                   attributes={"num_heads": 4, "kv_num_heads": 2, **attributes}, outputs=outputs, note=note)


def generation() -> Case:
    """One model serves the prompt, whose cache is new, and the tokens after it, also in a buffer."""
    symbols = {"q": ["batch", "seq", 64], "k": ["batch", "seq", 32], "v": ["batch", "seq", 32], "lengths": ["batch"],
               "past_key": ["batch", 2, "past", 16], "past_value": ["batch", 2, "past", 16]}
    others = [grouped(1, 7, [6, 5, 2], past=6, batch=3, do_rotary=1), grouped(1, 5, [4, 3], past=9, do_rotary=1),
              grouped(4, 4, [3, 3], past=8, do_rotary=1)]
    sizes = [{name: array for name, array in other.inputs.items() if array is not None} for other in others]
    return at_sizes(grouped(1, 5, [4, 3], past=4, do_rotary=1), symbols, *sizes)


def normalized(q: Array, k: Array, v: Array, *others: Any, **_: Any) -> list[Array]:
    """The kernel for CPUs takes no weights: by the one for heads that are normalized before."""
    case = grouped(4, 4, [3, 3])
    parts = (part.reshape(2, 4, -1, 8) for part in (q, k))
    q, k = ((part / np.sqrt((part**2).mean(-1, keepdims=True) + epsilon) * weight).reshape(2, 4, -1)
            for part, epsilon, weight in zip(parts, (0.5, 0.25), others[-2:]))
    feeds = {name: array for name, array in {**case.inputs, "q": q, "k": k}.items() if array is not None}
    return run_reference(case_model(case), feeds)


STREAMS = np.stack([POSITIONS, POSITIONS[::-1], POSITIONS[:, ::-1]])


def multimodal(x: Array, width: int = 4, **attributes: Any) -> Case:
    inputs = {"x": x, "positions": STREAMS, "cos": COS[:, :width].copy(), "sin": SIN[:, :width].copy()}
    return contrib("MRotaryEmbedding", inputs, attributes=attributes)


def gemma(batch: int) -> Case:
    """Its angles may be of another type than the queries; the CPU package has no kernel."""
    heads = {name: random(batch, 3, 4, 8, seed=seed) for seed, name in enumerate(("q", "q_turned", "k", "k_turned"))}
    return contrib("GemmaRotaryEmbedding", {"angles": random(batch, 4, 8, seed=9), **heads}, outputs=2,
                   expected=lambda angles, q, q_turned, k, k_turned:
                   [x * np.cos(angles)[:, None] + turned * np.sin(angles)[:, None]
                    for x, turned in ((q, q_turned), (k, k_turned))])


SIZED = [
    at_sizes(rotary(random(2, 4, 24)), {"x": ["batch", "seq", 24], "positions": ["batch", "seq"]},
             {"x": random(1, 2, 24), "positions": POSITIONS[:1, :2]}),
    generation(),
]
CASES = [
    rotary(random(2, 4, 24)),
    rotary(random(2, 4, 24), FIRST),
    rotary(random(2, 4, 24), interleaved=1),
    rotary(random(2, 3, 4, 8)),
    rotary(random(2, 3, 4, 8), FIRST, interleaved=1),
    rotary(random(2, 4, 24), width=2, num_heads=3, rotary_embedding_dim=4),
    rotary(random(2, 3, 4, 8), width=2, num_heads=3, rotary_embedding_dim=4, interleaved=1),
    grouped(4, 4, [3, 3], note="prompt"),
    grouped(4, 4, [3, 3], note="one output", outputs=1),
    grouped(4, 4, [3, 3], packed=True, note="packed"),
    grouped(4, 4, [3, 3], note="scale", scale=0.7),
    grouped(1, 5, [4, 4], past=4, note="past"),
    grouped(1, 5, [4, 2], past=4, note="ragged past"),
    grouped(1, 5, [4, 3], past=8, note="buffer"),
    grouped(4, 4, [3, 3], past=8, note="prompt in a buffer"),
    grouped(3, 7, [6], past=4, batch=1, note="further prompt"),
    grouped(4, 4, [3, 3], note="turned", do_rotary=1),
    grouped(1, 5, [4, 3], past=6, note="turned past", do_rotary=1, rotary_interleaved=1),
    grouped(4, 4, [3, 3], packed=True, note="turned packed", do_rotary=1),
    grouped(4, 4, [3, 3], note="positions", do_rotary=1, extra={"positions": POSITIONS}),
    grouped(1, 5, [4, 3], past=6, note="positions past", do_rotary=1, extra={"positions": np.array([[7], [2]])}),
    grouped(3, 7, [6], past=4, batch=1, note="further positions", do_rotary=1, extra={"positions": POSITIONS[:1, :3]}),
    grouped(4, 4, [3, 3], note="window", local_window_size=2),
    grouped(1, 7, [6, 5], past=6, note="window past", local_window_size=3),
    grouped(4, 4, [3, 3], note="cap", softcap=0.5),
    grouped(4, 4, [3, 3], note="bias", softcap=0.5, extra={"positions": None, "bias": random(2, 1, 4, 4, seed=7)}),
    grouped(4, 4, [3, 3], note="bias of heads", extra={"positions": None, "bias": random(1, 4, 4, 4, seed=7)}),
    grouped(4, 4, [3, 3], note="smooth", smooth_softmax=1),
    grouped(4, 4, [3, 3], note="sink", extra={"positions": None, "bias": None, "sink": random(4, seed=7)}),
    grouped(4, 4, [3, 2], note="not causal", causal=0),
    grouped(4, 4, [3, 3], note="scores", outputs=4, qk_output=1, softcap=0.5,
            extra={"positions": None, "bias": random(2, 1, 4, 4, seed=7)}),
    grouped(1, 5, [4, 2], past=8, note="probabilities", outputs=4, qk_output=2),
    grouped(1, 5, [4, 2], past=8, note="scores of a buffer", outputs=4, qk_output=1, local_window_size=3),
    grouped(4, 4, [3, 3], note="probabilities beside a sink", outputs=4, qk_output=2,
            extra={"positions": None, "bias": None, "sink": random(4, seed=7)}),
    replace(grouped(4, 4, [3, 3], note="normalized", q_norm_epsilon=0.5, k_norm_epsilon=0.25,
            extra={**dict.fromkeys(("positions", "bias", "sink", "ks", "vs")), "qn": random(8, seed=8), "kn": random(8, seed=9)}), expected=normalized),
    *SIZED,
    gemma(2),
    at_sizes(gemma(2), {name: ["batch", "seq", 8] if name == "angles" else ["batch", 3, "seq", 8] for name in
                        ("angles", "q", "q_turned", "k", "k_turned")},
             {**gemma(1).inputs, **{name: array[:, ..., :2, :] for name, array in gemma(1).inputs.items()}}),
    *[multimodal(random(2, 4, 24), mrope_section=sections, mrope_layout=layout, num_heads=3)
      for sections, layout in (([2, 1, 1], 0), ([2, 1, 1], 1), ([0, 0, 4], 0))],
    multimodal(random(2, 3, 4, 8), mrope_section=[1, 2, 1], interleaved=1),
    multimodal(random(2, 4, 24), width=2, mrope_section=[1, 1, 0], num_heads=3, rotary_embedding_dim=4),
    at_sizes(multimodal(random(2, 4, 24), mrope_section=[2, 1, 1], num_heads=3),
             {"x": ["batch", "seq", 24], "positions": [3, "batch", "seq"]},
             {"x": random(1, 2, 24), "positions": STREAMS[:, :1, :2]}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_a_quantized_cache_is_refused() -> None:
    with pytest.raises(TranspileError, match="quantized"):
        check_case(grouped(4, 4, [3, 3], k_quant_type="PER_TENSOR"))


def test_products_as_an_output_are_those_before_or_after_the_softmax() -> None:
    with pytest.raises(TranspileError, match="neither before nor after"):
        check_case(grouped(4, 4, [3, 3], outputs=4))
