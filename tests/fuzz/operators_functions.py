"""Inputs for ONNX's operators that are functions of others: attention, positions, losses, states."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.drawing import Array, Draw, Node
from tests.fuzz.operators_core import longs, makes

_REALS = ("float", "double", "float16")


def _heads(draw: Draw) -> tuple[int, int]:
    """Heads of queries, and of keys and values: as many, or fewer that each serve several."""
    shared = draw.int(1, 2)
    return shared * draw.one(1, 1, 2, 3), shared


def _packed(array: Array, is_packed: bool) -> Array:
    """Heads as part of the last axis: [batch, heads, length, size] becomes [batch, length, heads * size]."""
    if not is_packed:
        return array
    batch, heads, length, size = array.shape
    return array.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


@makes("Attention")
def attention(draw: Draw) -> Node:
    """With masks of either type that broadcast, earlier keys or lengths, few heads of keys, and any of the results."""
    batch, (q_heads, kv_heads) = draw.int(1, 3), _heads(draw)
    q_length, kv_length, past = draw.int(1, 4), draw.int(1, 5), draw.one(0, 0, draw.int(1, 3))
    size, v_size = draw.int(1, 4), draw.int(1, 4)
    is_packed, dtype = draw.chance(0.4), draw.type("T1", _REALS)
    inputs: dict[str, Any] = {
        "Q": _packed(draw.parameters(batch, q_heads, q_length, size, dtype=dtype), is_packed),
        "K": _packed(draw.parameters(batch, kv_heads, kv_length, size, dtype=dtype), is_packed),
        "V": _packed(draw.parameters(batch, kv_heads, kv_length, v_size, dtype=dtype), is_packed),
        "mask": None, "past_key": None, "past_value": None, "lengths": None,
    }
    if draw.chance(0.6):
        dims = [draw.one(size, size, 1) for size in (batch, q_heads, q_length)][draw.one(0, 1, 2) :]
        dims.append(past + kv_length)
        inputs["mask"] = draw.parameters(*dims, dtype=dtype)
        if draw.chance(0.5):
            inputs["mask"] = np.asarray(draw.rng.random(dims) < 0.7)
        elif draw.chance(0.3):
            inputs["mask"] = np.where(draw.rng.random(dims) < 0.2, -np.inf, inputs["mask"]).astype(inputs["mask"].dtype)
    if past:
        inputs["past_key"] = draw.parameters(batch, kv_heads, past, size, dtype=dtype)
        inputs["past_value"] = draw.parameters(batch, kv_heads, past, v_size, dtype=dtype)
    elif draw.opset >= 24 and draw.chance(0.4):
        inputs["lengths"] = longs([draw.int(1, kv_length) for _ in range(batch)])
    attributes: dict[str, Any] = {"q_num_heads": q_heads, "kv_num_heads": kv_heads} if is_packed else {}
    if draw.chance(0.4):
        attributes["is_causal"] = draw.flag()
    if draw.chance(0.3):
        attributes["scale"] = draw.real(0.1, 2)
    if draw.chance(0.3):
        attributes["softcap"] = draw.real(0.5, 3)
    if draw.chance(0.4):
        attributes["qk_matmul_output_mode"] = draw.int(0, 3)
    outputs = 1 if inputs["lengths"] is not None else draw.one(1, 3, 4)
    return Node(inputs, attributes, outputs)


@makes("RotaryEmbedding")
def rotary_embedding(draw: Draw) -> Node:
    batch, heads, length, half = draw.int(1, 3), draw.int(1, 3), draw.int(1, 4), draw.int(1, 3)
    rest, is_packed, by_position = draw.one(0, 0, 2), draw.chance(0.5), draw.chance(0.6)
    dtype, most = draw.type("T", _REALS), draw.int(1, 6)
    x = draw.parameters(batch, heads, length, 2 * half + rest, dtype=dtype)
    table = (most, half) if by_position else (batch, length, half)
    inputs: dict[str, Any] = {"X": _packed(x, is_packed), "cos": draw.parameters(*table, dtype=dtype),
                              "sin": draw.parameters(*table, dtype=dtype)}
    inputs["positions"] = draw.indices((batch, length), most, negative=False) if by_position else None
    attributes: dict[str, Any] = {"interleaved": draw.flag()} if draw.chance(0.7) else {}
    if rest:
        attributes["rotary_embedding_dim"] = 2 * half
    if is_packed or draw.chance(0.3):
        attributes["num_heads"] = heads
    return Node(inputs, attributes, kept=frozenset({"cos", "sin", "positions"}))


@makes("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(draw: Draw) -> Node:
    """With weights or without, an index that is passed over, and dims beside those of the samples."""
    batch, classes, further = draw.int(1, 4), draw.int(1, 5), [draw.int(1, 3) for _ in range(draw.one(0, 0, 1, 2))]
    dtype = draw.type("T", _REALS[:2])
    labels = draw.indices((batch, *further), classes, draw.one("int32", "int64"), negative=False)
    attributes: dict[str, Any] = {"reduction": draw.one("none", "sum", "mean")} if draw.chance(0.8) else {}
    if draw.chance(0.4):
        attributes["ignore_index"] = draw.one(0, -1, classes - 1, 255)
        passed = np.asarray(attributes["ignore_index"], labels.dtype)
        labels = np.where(draw.rng.random(labels.shape) < 0.3, passed, labels)
    inputs: dict[str, Any] = {"x": draw.parameters(batch, classes, *further, dtype=dtype), "labels": labels}
    inputs["w"] = draw.positive(classes, dtype=dtype) if draw.chance(0.5) else None
    outputs = draw.one(1, 2) if draw.op_type == "SoftmaxCrossEntropyLoss" else 1
    return Node(inputs, attributes, outputs, kept=frozenset({"w"}))


@makes("SwiGLU")
def swiglu(draw: Draw) -> Node:
    dims, dtype = draw.shape(), draw.type("T", _REALS)
    attributes = {"alpha": draw.real(-2, 2)} if draw.chance(0.6) else {}
    return Node({"A": draw.array(dtype, dims), "B": draw.array(dtype, dims)}, attributes, is_exact=True)


@makes("LinearAttention")
def linear_attention(draw: Draw) -> Node:
    batch, length, size, v_size = draw.int(1, 2), draw.int(1, 4), draw.int(1, 3), draw.int(1, 3)
    q_heads, kv_heads = _heads(draw)
    rule = draw.one("linear", "gated", "delta", "gated_delta")
    inputs: dict[str, Any] = {
        "q": draw.parameters(batch, length, q_heads * size), "k": draw.parameters(batch, length, kv_heads * size),
        "v": draw.parameters(batch, length, kv_heads * v_size),
        "past": draw.parameters(batch, kv_heads, size, v_size) if draw.chance(0.5) else None,
        "decay": -draw.positive(batch, length, kv_heads * draw.one(1, size)) if "gated" in rule else None,
        "beta": draw.positive(batch, length, draw.one(1, kv_heads), high=1.0) if "delta" in rule else None,
    }
    attributes: dict[str, Any] = {"q_num_heads": q_heads, "kv_num_heads": kv_heads, "update_rule": rule}
    if draw.chance(0.4):
        attributes["scale"] = draw.real(0.1, 2)
    return Node(inputs, attributes, 2)


@makes("CausalConvWithState")
def causal_convolution(draw: Draw) -> Node:
    batch, channels, length, kernel = draw.int(1, 3), draw.int(1, 3), draw.int(1, 5), draw.int(1, 4)
    inputs: dict[str, Any] = {
        "x": draw.array("float", (batch, channels, length)), "w": draw.parameters(channels, 1, kernel),
        "b": draw.parameters(channels) if draw.chance(0.5) else None,
        "past": draw.parameters(batch, channels, kernel - 1) if draw.chance(0.5) else None,
    }
    return Node(inputs, {"activation": draw.one("none", "silu", "swish")}, 2, kept=frozenset({"w", "b"}))
