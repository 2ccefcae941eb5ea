"""Inputs for onnxruntime's own operators that have kernels for accelerators only; `contrib_reference` judges."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import Array, Draw, Node
from tests.fuzz.operators_contrib import makes
from tests.fuzz.operators_core import longs
from tests.fuzz.operators_layers import windows
from tests.operators.test_contrib_packing import ends, offsets

_FLOATS = ("float", "float", "float", "float16")

# --- elements, products, movement --------------------------------------------------------------------------------


@makes("BiasAdd", "BiasSplitGelu")
def after_bias(draw: Draw) -> Node:
    """[batch, places, channels], of which BiasSplitGelu takes halves."""
    dtype, batch, places = draw.one(*_FLOATS), draw.size(1), draw.size(1)
    channels = draw.int(1, 4) * (2 if draw.op_type == "BiasSplitGelu" else 1)
    inputs: dict[str, Any] = {"x": draw.array(dtype, (batch, places, channels)), "b": draw.array(dtype, (channels,))}
    if draw.op_type == "BiasAdd":
        inputs["skip"] = draw.array(dtype, (batch, places, channels))
    return Node(inputs, kept=frozenset({"b"}))


@makes("BiasDropout")
def bias_dropout(draw: Draw) -> Node:
    """Outside of training, so that nothing is dropped."""
    dims, dtype = draw.shape(1, 4, 1), draw.one(*_FLOATS, "double")
    inputs: dict[str, Any] = {
        "x": draw.array(dtype, dims), "b": draw.array(dtype, dims if draw.chance(0.3) else dims[-1:]),
        "skip": draw.array(dtype, dims) if draw.chance(0.6) else None,
        "ratio": np.asarray(draw.real(0, 0.9), np.float32) if draw.chance(0.5) else None,
        "training": np.asarray(False) if draw.chance(0.3) else None,
    }
    return Node(inputs, {"seed": 3} if draw.chance(0.2) else {}, draw.int(1, 2), constants=frozenset({"training"}))


@makes("BiasSoftmax")
def bias_softmax(draw: Draw) -> Node:
    """The bias is repeated along the first axes, or along some between the first ones and those of the softmax."""
    dims, dtype = draw.shape(2, 4, 1), draw.one(*_FLOATS, "double")
    axis = draw.int(1, len(dims) - 1)
    inner = draw.flag()
    between = draw.int(0, axis)
    own = (*dims[:between], *[1] * (axis - between), *dims[axis:]) if inner else (*[1] * between, *dims[between:])
    if not inner and draw.chance(0.5):
        own = own[between:]
    attributes = {"axis": axis - len(dims) * draw.flag(), "is_inner_broadcast": inner}
    return Node({"x": draw.array(dtype, dims), "b": draw.array(dtype, own)}, attributes)


@makes("ComplexMul", "ComplexMulConj")
def complex_product(draw: Draw) -> Node:
    dims, dtype = draw.shape(0, 4), draw.one(*_FLOATS, "double")
    one, other = (draw.array(dtype, (*draw.broadcast(dims), 2)) for _ in range(2))
    return Node({"A": one, "B": other})


@makes("Rfft", "Irfft")
def real_fourier(draw: Draw) -> Node:
    """One to three axes; of the way back the last one has an even number of points."""
    count = draw.one(1, 1, 2, 3)
    dims = [*draw.shape(0, 2, 1), *(draw.int(1, 6) for _ in range(count))]
    if draw.op_type == "Irfft":
        dims = [*dims[:-1], draw.int(2, 5), 2]
    needed = draw.op_type == "Irfft" or count > 1
    attributes: dict[str, Any] = {"signal_ndim": count} if needed or draw.chance(0.5) else {}
    if draw.chance(0.3):
        attributes |= {"onesided": 1, "normalized": 0}
    dtype = draw.one("float", "float", "double")
    return Node({"x": draw.parameters(*dims, dtype=dtype)}, attributes, kept=frozenset({"x"}) if count > 1 else frozenset())


@makes("FusedMatMulActivation")
def fused_matmul_activation(draw: Draw) -> Node:
    m, k, n = draw.size(1), draw.size(1), draw.size(1)
    batch = draw.shape(0, 2, 1)
    flags = {name: draw.flag() for name in ("transA", "transB") if draw.chance(0.7)}
    left = [*batch, *((k, m) if flags.get("transA") else (m, k))]
    right = [*(draw.broadcast(batch) if draw.chance(0.3) else batch), *((n, k) if flags.get("transB") else (k, n))]
    for side, dims in (("A", left), ("B", right)):
        if len(dims) > 2 and draw.chance(0.3):  # the first axis of the batch lies after the others
            dims.insert(0, dims.pop(-2))
            flags[f"transBatch{side}"] = 1
    attributes: dict[str, Any] = {**flags, "activation": draw.one("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Softmax")}
    if attributes["activation"] == "LeakyRelu":
        attributes["activation_alpha"] = draw.real(0.01, 1)
    if attributes["activation"] == "Softmax":
        attributes["activation_axis"] = -1
    if draw.chance(0.5):
        attributes["alpha"] = draw.real(-2, 2)
    return Node({"A": draw.parameters(*left), "B": draw.parameters(*right)}, attributes)


@makes("GemmFastGelu")
def gemm_fast_gelu(draw: Draw) -> Node:
    k, n = draw.int(1, 5), draw.int(1, 5)
    x = draw.array("float", (*draw.shape(1, 3, 1), k))
    bias = draw.parameters(n) if draw.chance(0.6) else None
    return Node({"X": x, "W": draw.parameters(k, n), "b": bias}, kept=frozenset({"W", "b"}))


@makes("IsAllFinite")
def is_all_finite(draw: Draw) -> Node:
    dtype = draw.one(*_FLOATS, "double")
    inputs = {f"x{place}": draw.array(dtype, draw.shape(0, 4)) for place in range(draw.int(1, 3))}
    return Node(inputs, draw.one({}, {}, {"isinf_only": 1}, {"isnan_only": 1}))


@makes("TorchEmbedding")
def torch_embedding(draw: Draw) -> Node:
    rows, width = draw.size(1), draw.size(1)
    table = draw.array(draw.one("float", "double", "float16", "int32", "int64", "uint8"), (rows, width))
    inputs: dict[str, Any] = {"w": table, "i": draw.indices(draw.shape(0, 3), rows, negative=False)}
    if draw.chance(0.3):
        inputs["padding"] = longs(draw.int(0, rows - 1))
        inputs["scaled"] = np.asarray(False) if draw.chance(0.5) else None
    return Node(inputs, is_exact=True, kept=frozenset({"w"}))


# --- images ------------------------------------------------------------------------------------------------------


@makes("NhwcConv", "NhwcFusedConv")
def channels_last_conv(draw: Draw) -> Node:
    attributes, kernel, sizes = windows(draw, draw.one(1, 2, 2, 3))
    group, inside, outside = draw.one(1, 1, 2), draw.int(1, 3), draw.int(1, 3)
    if group > 1:
        attributes["group"] = group
    x = draw.array("float", (draw.int(1, 2), *sizes, inside * group))
    weight = draw.parameters(outside * group, *kernel, inside)
    bias = draw.parameters(outside * group) if draw.chance(0.5) else None
    if draw.op_type == "NhwcFusedConv":
        attributes["activation"] = "Relu"
    return Node({"X": x, "W": weight, "B": bias}, attributes, kept=frozenset({"W", "B"}))


@makes("SparseAttention")
def sparse_attention(draw: Draw) -> Node:
    """Two blocks of 16 tokens."""
    batch, shared, size, new = draw.int(1, 2), draw.int(1, 2), draw.one(4, 8), draw.one(1, 1, 5)
    heads = shared * draw.one(1, 2)
    whole = draw.int(new, 32)
    q, k, v = (draw.array("float", (batch, new, count * size)) for count in (heads, shared, shared))
    caches = {name: draw.array("float", (batch, shared, 32, size)) for name in ("past_key", "past_value")}
    tables = {"starts": np.array([[0, 1, 3]], np.int32), "columns": np.array([[0, 0, 1]], np.int32)}
    lengths = {"total": np.array([whole], np.int32), "lengths": np.full(batch, whole, np.int32)}
    attributes = {"num_heads": heads, "kv_num_heads": shared, "sparse_block_size": 16, "scale": draw.real(0.1, 1)}
    inputs = {"q": q, "k": k, "v": v, **caches, **tables, **lengths}
    return Node(inputs, attributes, 3, frozenset(tables), frozenset(inputs))


@makes("SwiGLU")
def swiglu(draw: Draw) -> Node:
    dims, is_split = draw.shape(1, 4, 1), draw.chance(0.6)
    attributes = {name: draw.real(0.2, 2) for name in ("activation_alpha", "activation_beta", "limit") if draw.chance(0.5)}
    gate = draw.array("float", dims if is_split else (*dims[:-1], 2 * dims[-1]))
    return Node({"gate": gate, "up": draw.array("float", dims) if is_split else None}, attributes)


@makes("GroupNorm", "SkipGroupNorm")
def group_norm(draw: Draw) -> Node:
    """In either layout; what is skipped has the dims of the images, or a number for each channel."""
    groups, n, h, w = draw.int(1, 3), draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    channels, last = groups * draw.int(1, 3), draw.flag()
    dims = (n, h, w, channels) if last else (n, channels, h, w)
    inputs: dict[str, Any] = {"X": draw.array(draw.one(*_FLOATS), dims), "gamma": draw.parameters(channels),
                              "beta": draw.parameters(channels)}
    if draw.op_type == "SkipGroupNorm":
        flat = draw.one((n, channels), (n, 1, 1, channels)) if last else (n, channels)
        kind = "float" if inputs["X"].dtype == np.float32 else "float16"
        inputs["skip"] = draw.array(kind, dims if draw.chance(0.5) else flat)
        inputs["bias"] = draw.array(kind, (channels,)) if draw.chance(0.5) else None
    attributes: dict[str, Any] = {"groups": groups, "activation": draw.flag()}
    if not last or draw.chance(0.3):
        attributes["channels_last"] = last
    if draw.chance(0.4):
        attributes["epsilon"] = draw.one(1e-3, 0.5)
    outputs = draw.int(1, 2) if draw.op_type == "SkipGroupNorm" else 1
    return Node(inputs, attributes, outputs, kept=frozenset({"gamma", "beta", "bias"}))


# --- quantised numbers -------------------------------------------------------------------------------------------


@makes("MulInteger")
def mul_integer(draw: Draw) -> Node:
    dims, dtype = draw.shape(0, 4), draw.one("uint8", "int8")
    zeros = [np.asarray(draw.rng.integers(0, 100), numpy_dtype(dtype)) if draw.chance(0.6) else None for _ in range(2)]
    one, other = (draw.array(dtype, draw.broadcast(dims)) for _ in range(2))
    return Node({"A": one, "az": zeros[0], "B": other, "bz": zeros[1]})


@makes("ReduceSumInteger")
def reduce_sum_integer(draw: Draw) -> Node:
    dims = draw.shape(1, 4)
    return Node({"x": draw.array(draw.one("uint8", "int8"), dims)},
                {"axes": draw.axes(len(dims), 1), "keepdims": draw.flag()})


@makes("QLinearReduceMean")
def qlinear_reduce_mean(draw: Draw) -> Node:
    dims, dtype = draw.shape(1, 4, 1), draw.one("uint8", "int8")
    zeros = [np.asarray(draw.rng.integers(0, 60), numpy_dtype(dtype)) for _ in range(2)]
    inputs: dict[str, Any] = {"x": draw.array(dtype, dims), "xs": draw.positive(low=0.05), "xz": zeros[0],
                              "ys": draw.positive(low=0.05), "yz": zeros[1]}
    for name in ("xz", "yz"):
        inputs[name] = inputs[name] if draw.chance(0.8) else None
    return Node(inputs, {"axes": draw.axes(len(dims), 1), "keepdims": draw.flag()})


# --- attention ---------------------------------------------------------------------------------------------------


@makes("RelativePositionBias")
def relative_position_bias(draw: Draw) -> Node:
    both_ways = draw.flag()
    buckets = draw.int(1, 4) * (4 if both_ways else 2)
    exact = buckets // (4 if both_ways else 2)
    attributes = {"max_distance": exact + draw.int(1, 20)}
    if both_ways or draw.chance(0.5):
        attributes["is_bidirectional"] = both_ways
    length = longs([draw.int(1, 12)])
    other = length if draw.chance(0.6) else longs([draw.int(1, 12)])
    return Node({"table": draw.parameters(buckets, draw.int(1, 4)), "q": length, "k": other}, attributes,
                kept=frozenset({"table", "q", "k"}))


@makes("GatedRelativePositionBias")
def gated_relative_position_bias(draw: Draw) -> Node:
    batch, length, heads, size = draw.int(1, 3), draw.int(1, 4), draw.int(1, 3), draw.int(1, 4)
    columns = 2 * draw.int(1, 4)
    inputs = {
        "query": draw.parameters(batch, length, heads * size), "query_bias": draw.parameters(heads * size),
        "rel_pos": draw.array("float", (1, heads, length, length)), "weight": draw.parameters(size, columns),
        "bias": draw.parameters(columns), "eco_a": draw.parameters(1, heads, 1, 1),
    }
    return Node(inputs, {"num_heads": heads}, kept=frozenset(inputs))


@makes("GemmaRotaryEmbedding")
def gemma_rotary_embedding(draw: Draw) -> Node:
    batch, heads, length, size = draw.int(1, 3), draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    dtype = draw.one("float", "float16")
    inputs = {name: draw.parameters(batch, heads, length, size, dtype=dtype) for name in ("q", "q_rot", "k", "k_rot")}
    return Node({"emb": draw.parameters(batch, length, size) * 3, **inputs}, {}, 2, kept=frozenset(inputs))


def _lengths(draw: Draw, least: int = 1) -> tuple[list[int], int]:
    """Lengths of one to four samples, and that of the padded ones."""
    counts = [draw.int(least, 5) for _ in range(draw.int(1, 4))]
    return counts, max(*counts, 1) + draw.one(0, 0, 1)


@makes("RemovePadding")
def remove_padding(draw: Draw) -> Node:
    counts, length = _lengths(draw)
    x = draw.array("float", (len(counts), length, draw.int(1, 4)))
    return Node({"x": x, "n": np.array(counts, np.int32)}, {}, 4, kept=frozenset({"x", "n"}))


@makes("RestorePadding")
def restore_padding(draw: Draw) -> Node:
    counts, length = _lengths(draw)
    x = draw.array("float", (sum(counts), draw.int(1, 4)))
    return Node({"x": x, "places": offsets(counts, length)}, kept=frozenset({"x", "places"}), is_exact=True)


def _packed(draw: Draw, counts: list[int], length: int, heads: int) -> dict[str, Array | None]:
    """What says where the tokens stand, and a bias of the scores."""
    dims = (draw.one(1, len(counts)), heads if draw.chance(0.7) else 1, length, length)
    return {"places": offsets(counts, length), "ends": ends(counts),
            "scores": draw.parameters(*dims) if draw.chance(0.4) else None}


@makes("PackedAttention")
def packed_attention(draw: Draw) -> Node:
    (counts, length), heads, size, v_size = _lengths(draw), draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    width, v_width, inside = heads * size, heads * v_size, draw.int(1, 4)
    attributes: dict[str, Any] = {"num_heads": heads}
    if v_size != size or draw.chance(0.3):
        attributes["qkv_hidden_sizes"] = [width, width, v_width]
    if draw.chance(0.3):
        attributes["scale"] = draw.real(0.1, 2)
    inputs = {"x": draw.parameters(sum(counts), inside), "w": draw.parameters(inside, 2 * width + v_width),
              "b": draw.parameters(2 * width + v_width), **_packed(draw, counts, length, heads)}
    return Node(inputs, attributes, kept=frozenset(inputs))


@makes("PackedMultiHeadAttention")
def packed_multi_head_attention(draw: Draw) -> Node:
    """Queries, keys and values each alone, or all in one."""
    (counts, length), heads, size, v_size = _lengths(draw), draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    tokens = sum(counts)
    inputs: dict[str, Any] = {"q": draw.parameters(tokens, heads * size), "k": draw.parameters(tokens, heads * size),
                              "v": draw.parameters(tokens, heads * v_size)}
    if draw.chance(0.3):
        inputs, v_size = {"q": draw.parameters(tokens, heads, 3, size), "k": None, "v": None}, size
    inputs["b"] = draw.parameters(heads * (2 * size + v_size)) if draw.chance(0.5) else None
    attributes: dict[str, Any] = {"num_heads": heads}
    if draw.chance(0.3):
        attributes["scale"] = draw.real(0.1, 2)
    inputs |= _packed(draw, counts, length, heads)
    return Node(inputs, attributes, kept=frozenset(inputs))
