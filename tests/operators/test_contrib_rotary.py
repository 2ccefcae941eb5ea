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
    extra: dict[str, Array | None] | None = None, outputs: int = 3, note: str = "", bits: int = 0, **attributes: Any,
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
    if bits:
        caches = {name: integers(bits, batch, 2, past, size * bits // 8, seed=seed) for seed, name in enumerate(caches)}
    counts = {"lengths": np.array(lengths, np.int32), "total": np.array(total, np.int32)}
    turning = {"cos": WIDE_COS, "sin": WIDE_SIN} if attributes.get("do_rotary") else {}
    if extra and not turning:
        turning = {"cos": None, "sin": None}  # type: ignore[dict-item]
    return contrib("GroupQueryAttention", {**new, **caches, **counts, **turning, **(extra or {})},
                   attributes={"num_heads": 4, "kv_num_heads": 2, **attributes}, outputs=outputs, note=note,
                   output_dtypes=["float", *[{0: "float", 4: "uint8", 8: "int8"}[bits]] * 2][:outputs] if bits else ())


def integers(bits: int, *dims: int, seed: int) -> Array:
    """A cache of integers: of 8 bits, or two of 4 in a byte."""
    return np.random.default_rng(seed).integers(0, 256, dims).astype(np.uint8).view(np.int8 if bits == 8 else np.uint8)


def quantized(bits: int, *, each: bool, past: int = 4, length: int = 1, total: int = 5, **others: Any) -> Case:
    """A row whose keys and values are kept as integers, with a scale for all or for each channel."""
    size = 16 if "do_rotary" in others else 8
    scale = np.linspace(0.01, 0.03, 2 * size if each else 1, dtype=np.float32) * (16 if bits == 4 else 1)
    scale = scale.reshape(1, 2, 1, size) if each else scale
    kind = "PER_CHANNEL" if each else "PER_TENSOR"
    extra = {**dict.fromkeys(("positions", "bias", "sink")), "key_scale": scale, "value_scale": scale * np.float32(1.5)}
    return grouped(length, total, [total - 1], past, batch=1, extra=extra, bits=bits, kv_cache_bit_width=bits,
                   k_quant_type=kind, v_quant_type=kind, note=f"{bits} bits", **others)


def windowed(length: int, total: int, lengths: list[int], past: int, **others: Any) -> Case:
    """A row whose cache holds the last tokens alone, of which it has no room for all."""
    return grouped(length, total, lengths, past, batch=len(lengths), sliding_window_cache=1, local_window_size=4, **others)


def windowed_generation() -> Case:
    """One model of a cache of a window serves prompts of any length, and the tokens after them."""
    symbols = {"q": ["batch", "seq", 64], "k": ["batch", "seq", 32], "v": ["batch", "seq", 32], "lengths": ["batch"],
               "past_key": ["batch", 2, "places", 16], "past_value": ["batch", 2, "places", 16]}
    others = [windowed(9, 9, [8], 6, do_rotary=1), windowed(5, 9, [8], 6, do_rotary=1)]
    sizes = [{name: array for name, array in other.inputs.items() if array is not None} for other in others]
    return at_sizes(windowed(1, 9, [8, 5], 6, do_rotary=1), symbols, *sizes)


def generation() -> Case:
    """One model serves the prompt, whose cache is new, and the tokens after it, also in a buffer."""
    symbols = {"q": ["batch", "seq", 64], "k": ["batch", "seq", 32], "v": ["batch", "seq", 32], "lengths": ["batch"],
               "past_key": ["batch", 2, "past", 16], "past_value": ["batch", 2, "past", 16]}
    others = [grouped(1, 7, [6, 5, 2], past=6, batch=3, do_rotary=1), grouped(1, 5, [4, 3], past=9, do_rotary=1),
              grouped(4, 4, [3, 3], past=8, do_rotary=1)]
    sizes = [{name: array for name, array in other.inputs.items() if array is not None} for other in [*others, started()]]
    return at_sizes(grouped(1, 5, [4, 3], past=4, do_rotary=1), symbols, *sizes)


def started(**others: Any) -> Case:
    """A prompt with a cache that holds nothing yet."""
    case = grouped(4, 4, [3, 3], past=8, do_rotary=1, **others)
    empty = {name: array[:, :, :0] for name in ("past_key", "past_value") if (array := case.inputs[name]) is not None}
    return replace(case, inputs={**case.inputs, **empty})


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
    windowed_generation(),
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
    started(note="prompt with an empty cache"),
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
    grouped(1, 5, [4, 3], past=8, note="bias of a buffer", extra={"positions": None, "bias": random(2, 1, 1, 5, seed=7)}),
    grouped(3, 9, [8, 4], past=9, note="chunk", extra={**dict.fromkeys(("positions", "bias", "sink", "ks", "vs", "qn", "kn")),
                                                       "chunk": np.array([3, 3], np.int32)}, outputs=3),
    windowed(1, 9, [8], past=4, note="full window"),
    windowed(1, 9, [8], past=6, note="window with room"),
    windowed(1, 9, [8, 5], past=6, note="ragged window"),
    windowed(3, 9, [8], past=6, note="window of further prompt", do_rotary=1),
    windowed(9, 9, [8], past=6, note="window of long prompt", do_rotary=1),
    windowed(3, 9, [8], past=6, note="window with bias", extra={"positions": None, "bias": random(1, 4, 3, 9, seed=7)}),
    windowed(1, 9, [8, 5], past=6, note="window with biases",
             extra={"positions": None, "bias": random(2, 1, 1, 9, seed=7)}),
    quantized(8, each=False),
    quantized(8, each=True, past=6, length=3, total=9, sliding_window_cache=1, local_window_size=4, do_rotary=1),
    quantized(4, each=True, past=8),
    quantized(4, each=False, length=3, total=7),
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


@pytest.mark.parametrize(("case", "why"), [
    (grouped(4, 4, [3, 3], k_quant_type="PER_TENSOR"), "needs past_key, k_scale and k_quant_type"),
    (replace(quantized(8, each=False), attributes={**quantized(8, each=False).attributes, "kv_cache_bit_width": 4}),
     "a cache of int8"),
    (windowed(1, 5, [4], past=3), "local_window_size is 4, axis 2 of .past_key. is 3"),
    (grouped(4, 4, [3, 3], sliding_window_cache=1, local_window_size=4), "needs local_window_size and a cache"),
    (windowed(1, 5, [4], past=4, outputs=4, qk_output=1), "beside a cache of a sliding window"),
    (grouped(4, 4, [3, 3], outputs=4), "neither before nor after"),
], ids=lambda given: given if isinstance(given, str) else "")
def test_refused(case: Case, why: str) -> None:
    with pytest.raises(TranspileError, match=why):
        check_case(case)
