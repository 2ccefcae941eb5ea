"""Inputs for ONNX's operators of quantised numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import Array, Draw, Node
from tests.fuzz.operators_core import makes
from tests.fuzz.operators_layers import windows


@makes("QuantizeLinear", "DequantizeLinear")
def quantize(draw: Draw) -> Node:
    dims = draw.shape(1, 4)
    axis = draw.axis(len(dims))
    count = () if draw.opset < 13 or draw.chance(0.5) else (dims[axis],)
    kinds = ("uint8", "int8", *(("uint16", "int16") if draw.opset >= 21 else ()))
    kind = draw.one(*kinds) if draw.op_type == "QuantizeLinear" or draw.chance(0.85) else "int32"
    scale = draw.positive(*count)
    if draw.chance(0.3):  # quotients in the middle between two integers
        scale = np.full_like(scale, draw.one(0.5, 1.0, 2.0))
    zero = np.asarray(draw.rng.integers(0, 100, count), numpy_dtype(kind))
    zero = np.zeros_like(zero) if kind == "int32" else zero
    attributes: dict[str, Any] = {"axis": axis} if draw.opset >= 13 and count else {}
    if draw.opset >= 21 and draw.chance(0.25) and dims[axis] > 1:
        block = draw.int(1, dims[axis])
        blocked = list(dims)
        blocked[axis] = -(-dims[axis] // block)
        attributes = {"axis": axis, "block_size": block}
        scale, zero = draw.positive(*blocked), np.asarray(draw.rng.integers(0, 9, blocked), numpy_dtype(kind))
    x = draw.array("float" if draw.op_type == "QuantizeLinear" else kind, dims)
    if draw.op_type == "QuantizeLinear":
        x = np.asarray(np.where(np.isnan(x), 0, x), np.float32)  # NaN has no integer
        if draw.chance(0.3):
            x = np.asarray(np.round(np.nan_to_num(x, posinf=90, neginf=-90) * 4) / 4, np.float32)
        if draw.opset >= 19 and draw.chance(0.2):
            x, scale = x.astype(np.float16), scale.astype(np.float16)
    without = draw.op_type == "QuantizeLinear" and kind != "uint8"
    return Node({"x": x, "s": scale, "z": zero if without or draw.chance(0.8) else None}, attributes)


@makes("DynamicQuantizeLinear")
def dynamic_quantize(draw: Draw) -> Node:
    draw.is_plain = True
    return Node({"x": draw.array("float", draw.shape(1, 4, 1))}, {}, 3)


def zero_point(draw: Draw, dtype: str, *dims: int) -> Array:
    """Zero points somewhere in the middle."""
    return np.asarray(draw.rng.integers(0, 60, dims), numpy_dtype(dtype))


@makes("MatMulInteger")
def matmul_integer(draw: Draw) -> Node:
    m, k, n = draw.int(1, 5), draw.int(1, 6), draw.int(1, 5)
    one, other = draw.one("uint8", "int8"), draw.one("uint8", "int8")
    batch = draw.shape(0, 1, 1)
    inputs: dict[str, Any] = {"A": draw.array(one, (*draw.broadcast(batch), m, k)),
                              "B": draw.array(other, (*(draw.broadcast(batch) if draw.chance(0.4) else ()), k, n))}
    if draw.chance(0.7):
        inputs["az"] = zero_point(draw, one, *(() if draw.chance(0.8) else (m,)))
        inputs["bz"] = zero_point(draw, other, *(() if draw.chance(0.6) else (n,))) if draw.chance(0.6) else None
    return Node(inputs)


@makes("QLinearMatMul")
def qlinear_matmul(draw: Draw) -> Node:
    m, k, n = draw.int(1, 5), draw.int(1, 6), draw.int(1, 5)
    one, other = draw.one(("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8"))
    columns = () if draw.chance(0.6) else (n,)
    batch = draw.shape(0, 1, 1)
    return Node({
        "a": draw.array(one, (*batch, m, k)), "as": draw.positive(), "az": zero_point(draw, one),
        "b": draw.array(other, (*(batch if draw.chance(0.2) and not columns else ()), k, n)),
        "bs": draw.positive(*columns), "bz": zero_point(draw, other, *columns),
        "ys": draw.positive(low=5, high=50), "yz": zero_point(draw, one),
    })


@makes("QLinearConv")
def qlinear_conv(draw: Draw) -> Node:
    attributes, kernel, sizes = windows(draw, draw.one(1, 2, 2, 2, 3))
    one, other = draw.one(("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8"))
    inside, outside, group = draw.int(1, 3), draw.int(1, 3), draw.one(1, 1, 2)
    attributes["group"] = group
    channels = outside * group
    count = () if draw.chance(0.5) else (channels,)
    zero = np.zeros(count, numpy_dtype(other)) if count or other == "int8" else zero_point(draw, other)
    return Node({
        "x": draw.array(one, (draw.int(1, 2), inside * group, *sizes)), "xs": draw.positive(),
        "xz": zero_point(draw, one), "w": draw.array(other, (channels, inside, *kernel)),
        "ws": draw.positive(*count), "wz": zero, "ys": draw.positive(low=5, high=50), "yz": zero_point(draw, one),
        "B": np.asarray(draw.rng.integers(-99, 99, channels), np.int32) if draw.chance(0.5) else None,
    }, attributes, kept=frozenset({"w", "ws", "wz", "B"}))
