"""Operators without a generator of their own: ONNX's definition of them, judged by its reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, by_reference, check_case, ints, random


def attention(opset: int, heads: int = 3, shared: int = 3, query: int = 4, past: int = 0, mask: Array | None = None,
              outputs: Any = 1, lengths: Array | None = None, **attributes: Any) -> Case:
    """Attention over four axes, with ``shared`` heads of keys and values."""
    inputs: dict[str, Array | None] = {
        "q": random(2, heads, query, 8), "k": random(2, shared, 6, 8, seed=1), "v": random(2, shared, 6, 5, seed=2),
        "mask": mask, "past_k": random(2, shared, past, 8, seed=3) if past else None,
        "past_v": random(2, shared, past, 5, seed=4) if past else None}
    if opset > 23:
        inputs["lengths"] = lengths
    return by_reference(Case("Attention", opset, inputs, attributes, outputs=outputs, note=f"{attributes} {past}"))


def flat_attention(opset: int = 23, **attributes: Any) -> Case:
    """Attention over three axes: the heads lie side by side."""
    inputs = {"q": random(2, 4, 24), "k": random(2, 6, 24, seed=1), "v": random(2, 6, 15, seed=2)}
    return by_reference(Case("Attention", opset, inputs, {"q_num_heads": 3, "kv_num_heads": 3, **attributes}))


def rotary(dims: tuple[int, ...], half: int, positions: bool, **attributes: int) -> Case:
    """Angles by position ids, or one for each step."""
    batch, steps = dims[0], dims[2] if len(dims) == 4 else dims[1]
    angles = random(50, half, seed=3) if positions else random(batch, steps, half, seed=3)
    ids = np.arange(batch * steps).reshape(batch, steps) % 50 if positions else None
    inputs = {"x": random(*dims), "cos": np.cos(angles), "sin": np.sin(angles), "ids": ids}
    return by_reference(Case("RotaryEmbedding", 23, inputs, attributes, note=f"{positions} {attributes}"))


def loss(op_type: str, opset: int, dims: tuple[int, ...], weighted: bool, outputs: int = 1, **attributes: Any) -> Case:
    """A loss of classes in axis 1."""
    labels = np.asarray(random(dims[0], *dims[2:], dtype="int64", seed=1) % dims[1])
    inputs = {"x": -np.abs(random(*dims)), "labels": labels,
              "weights": np.abs(random(dims[1], seed=2)) if weighted else None}
    return by_reference(Case(op_type, opset, inputs, attributes, outputs=outputs, note=f"{weighted} {attributes}"))


def recurrent_attention(rule: str, queries: int = 2, past: bool = False, steps: int = 4, wide: bool = False) -> Case:
    """LinearAttention with two heads of keys and values."""
    inputs = {
        "q": random(2, steps, queries * 3), "k": random(2, steps, 6, seed=1) / np.float32(2),
        "v": random(2, steps, 8, seed=2), "past": random(2, 2, 3, 4, seed=3) if past else None,
        "decay": -np.abs(random(2, steps, 6 if wide else 2, seed=4)) if "gated" in rule else None,
        "beta": np.abs(random(2, steps, 2, seed=5)) if "delta" in rule else None}
    attributes = {"update_rule": rule, "q_num_heads": queries, "kv_num_heads": 2}
    return by_reference(Case("LinearAttention", 27, inputs, attributes, outputs=2, note=f"{rule} {queries} {past} {wide}"))


def causal(given: str, length: int = 5, channels: int = 3, width: int = 4, **attributes: Any) -> Case:
    """CausalConvWithState; ``given`` names the optional inputs: b, p."""
    inputs = {"x": random(2, channels, length), "w": random(channels, 1, width, seed=1),
              "b": random(channels, seed=2) if "b" in given else None,
              "past": random(2, channels, width - 1, seed=3) if "p" in given else None}
    return by_reference(Case("CausalConvWithState", 27, inputs, attributes, outputs=2, note=f"{given} {attributes}"))


MASK = np.array(np.arange(24).reshape(4, 6) % 5 > 0)
LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")

CASES = [
    *[attention(opset) for opset in (23, 24, 25)],
    *[attention(23, scale=0.3, softcap=2.0), attention(23, is_causal=1), attention(23, 6, 3), attention(23, 6, 1)],
    attention(23, mask=MASK), attention(23, mask=random(2, 3, 4, 6)), attention(23, mask=random(2, 1, 4, 6), is_causal=1),
    *[attention(opset, past=2, outputs=3) for opset in (23, 24)],
    attention(23, outputs=["y", "", "", "scores"], qk_matmul_output_mode=1),
    attention(24, lengths=np.array([3, 6])), flat_attention(), flat_attention(24, is_causal=1),
    at_sizes(attention(23), {"q": ["b", 3, "t", 8], "k": ["b", 3, "s", 8], "v": ["b", 3, "s", 5]},
             {"q": random(1, 3, 2, 8), "k": random(1, 3, 7, 8), "v": random(1, 3, 7, 5)}),
    at_sizes(attention(23, is_causal=1), {"q": ["b", 3, "t", 8], "k": ["b", 3, "s", 8], "v": ["b", 3, "s", 5]},
             {"q": random(1, 3, 2, 8), "k": random(1, 3, 7, 8), "v": random(1, 3, 7, 5)}),
    at_sizes(flat_attention(), {"q": ["b", "t", 24], "k": ["b", "s", 24], "v": ["b", "s", 15]},
             {"q": random(1, 2, 24), "k": random(1, 7, 24), "v": random(1, 7, 15)}),
    rotary((2, 3, 4, 8), 4, True), rotary((2, 3, 4, 8), 4, False, interleaved=1),
    rotary((2, 4, 24), 4, True, num_heads=3), rotary((2, 3, 4, 8), 2, True, rotary_embedding_dim=4),
    at_sizes(rotary((2, 3, 4, 8), 4, True), {"x": ["b", 3, "t", 8], "ids": ["b", "t"]},
             {"x": random(1, 3, 6, 8), "ids": np.array([[4, 9, 1, 0, 30, 2]])}),
    *[loss(op, opset, dims, weighted, reduction=reduction) for op in LOSSES
      for opset, dims, weighted, reduction in [
          (12, (3, 5), False, "mean"), (13, (3, 5), True, "mean"), (13, (2, 5, 4), True, "sum"),
          (13, (2, 5, 2, 3), True, "none"), (22, (2, 5, 2, 3), False, "none")] if (op, opset) != (LOSSES[1], 22)],
    *[loss(op, 13, (3, 5, 2), True, ignore_index=2) for op in LOSSES],
    loss("SoftmaxCrossEntropyLoss", 13, (2, 5, 4), False, outputs=2),
    *[at_sizes(loss(op, 13, (3, 5), weighted), {"x": ["n", 5], "labels": ["n"]},
               {"x": -np.abs(random(6, 5)), "labels": np.array([0, 4, 2, 2, 1, 3])}) for op in LOSSES for weighted in (False, True)],
    at_sizes(by_reference(Case("FlexAttention", 1, {"q": random(2, 2, 3, 4), "k": random(2, 2, 5, 4, seed=1), "v": random(2, 2, 5, 4, seed=2)},
                               domain="ai.onnx.preview")),
             {"q": ["b", 2, "t", 4], "k": ["b", 2, "s", 4], "v": ["b", 2, "s", 4]},
             {"q": random(1, 2, 1, 4), "k": random(1, 2, 7, 4), "v": random(1, 2, 7, 4)}),
    recurrent_attention("linear"), recurrent_attention("gated", past=True), recurrent_attention("gated", wide=True),
    recurrent_attention("delta", 4), recurrent_attention("gated_delta", 4, past=True), recurrent_attention("linear", steps=1),
    *[causal(given) for given in ("", "b", "p", "bp")], causal("b", activation="silu"), causal("p", length=1),
    causal("", width=1), causal("", length=2),
    *[by_reference(Case("SwiGLU", 28, {"a": random(*dims), "b": random(*dims, seed=1)}, attributes))
      for dims, attributes in [((2, 3, 4), {}), ((2, 3, 4, 5), {"alpha": 1.5}), ((), {})]],
    at_sizes(by_reference(Case("SwiGLU", 28, {"a": random(2, 3, 4), "b": random(2, 3, 4, seed=1)})),
             {"a": ["batch", "seq", 4], "b": ["batch", "seq", 4]}, {"a": random(1, 5, 4), "b": random(1, 5, 4)}),
]


DERIVATIVES = [
    Derivative("SoftmaxCrossEntropyLoss", {"x": near(3, 4), "t": ints(1, 0, 3)}, fixed=["t"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
