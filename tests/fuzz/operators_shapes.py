"""Inputs for ONNX's operators that pad, reshape, repeat, choose and fill."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import SparseTensorProto, helper, numpy_helper

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import FLOATS, INTEGERS, Draw, Node
from tests.fuzz.operators_core import CAST_TYPES, by_opset, longs, makes


@makes("Pad")
def pad(draw: Draw) -> Node:
    dims, dtype = draw.shape(1, 4, 0 if draw.chance(0.1) else 1), draw.type("T")
    mode = draw.one("constant", "constant", "reflect", "edge", *(("wrap",) if draw.opset >= 19 else ()))
    chosen = draw.axes(len(dims)) if draw.opset >= 18 and draw.chance(0.4) else list(range(len(dims)))
    most = [dims[axis] - 1 if mode == "reflect" else 3 if mode == "constant" else min(dims[axis], 3) for axis in chosen]
    pads = [draw.int(-1 if draw.chance(0.2) and mode == "constant" and dims[axis % len(dims)] > 2 else 0, max(0, limit))
            for _ in range(2) for axis, limit in zip(chosen, most)]
    inputs, attributes = by_opset(draw, "pads", pads, 11)
    attributes["mode"] = mode
    if draw.opset >= 11:
        inputs["value"] = draw.array(dtype, ()) if draw.chance(0.5) else None
        if len(chosen) < len(dims) or (draw.chance(0.2) and draw.opset >= 18):
            inputs["axes"] = longs(chosen)
    elif draw.chance(0.5):
        attributes["value"] = draw.real(-2, 2)
    return Node({"x": draw.array(dtype, dims), **inputs}, attributes, is_exact=True, kept=frozenset(inputs))


@makes("Reshape")
def reshape(draw: Draw) -> Node:
    dims = draw.shape()
    total = math.prod(dims)
    target = _factors(draw, total) if draw.chance(0.6) else list(dims)
    allow = draw.opset >= 14 and draw.chance(0.3)
    if total and draw.chance(0.5) and target:
        target[draw.int(0, len(target) - 1)] = -1
    if not allow:
        target = [0 if place < len(dims) and size == dims[place] and draw.chance(0.4) else size
                  for place, size in enumerate(target)]
    return Node({"x": draw.array(draw.type("T"), dims), "shape": longs(target)}, {"allowzero": 1} if allow else {},
                is_exact=True, kept=frozenset({"shape"}))


def _factors(draw: Draw, total: int) -> list[int]:
    """Dims with this product."""
    if total == 0:
        return [*draw.shape(0, 3), 0]
    found = []
    while total > 1:
        factor = draw.one(*[f for f in range(1, total + 1) if total % f == 0])
        found.append(factor)
        total //= factor
    return found[:5] if math.prod(found[:5]) == math.prod(found) else [math.prod(found)]


@makes("Expand")
def expand(draw: Draw) -> Node:
    dims = draw.shape()
    source = draw.broadcast(dims)
    target = [1 if draw.chance(0.2) and place >= len(dims) - len(source) else size for place, size in enumerate(dims)]
    return Node({"x": draw.array(draw.type("T"), source), "shape": longs(target)}, is_exact=True,
                kept=frozenset({"shape"}))


@makes("Tile")
def tile(draw: Draw) -> Node:
    dims = draw.shape(1, 4)
    return Node({"x": draw.array(draw.type("T"), dims), "repeats": longs([draw.int(0, 3) for _ in dims])},
                is_exact=True)


@makes("Transpose")
def transpose(draw: Draw) -> Node:
    dims = draw.shape()
    attributes = {"perm": [int(axis) for axis in draw.rng.permutation(len(dims))]} if draw.chance(0.85) and dims else {}
    return Node({"x": draw.array(draw.type("T"), dims)}, attributes, is_exact=True)


@makes("Squeeze", "Unsqueeze")
def squeeze(draw: Draw) -> Node:
    dims = list(draw.shape(0, 4))
    axes: list[int] | None
    if draw.op_type == "Unsqueeze":
        axes = draw.axes(len(dims) + (extra := draw.int(1, 2)))[:extra]
        axes = axes or [0]
    else:
        for place in range(len(dims)):
            dims[place] = 1 if draw.chance(0.4) else dims[place]
        ones = [place for place, size in enumerate(dims) if size == 1 and draw.chance(0.7)]
        axes = [place - len(dims) * draw.flag() for place in ones] or None
    if draw.opset < 11 and axes:
        axes = [axis % (len(dims) + (len(axes) if draw.op_type == "Unsqueeze" else 0)) for axis in axes]
    inputs, attributes = by_opset(draw, "axes", axes, 13)
    return Node({"x": draw.array(draw.type("T"), dims), **inputs}, attributes, is_exact=True, kept=frozenset({"axes"}))


@makes("Shape")
def shape_of(draw: Draw) -> Node:
    attributes = {"start": draw.int(-6, 6), "end": draw.int(-6, 6)} if draw.opset >= 15 and draw.chance(0.6) else {}
    return Node({"x": draw.array(draw.type("T"), draw.shape())}, attributes, is_exact=True)


@makes("Compress")
def compress(draw: Draw) -> Node:
    dims = draw.shape(1)
    axis = draw.axis(len(dims)) if draw.chance(0.7) else None
    length = math.prod(dims) if axis is None else dims[axis]
    condition = np.asarray(draw.rng.random(draw.int(0, length)) < 0.6)
    return Node({"x": draw.array(draw.type("T"), dims), "c": condition}, {} if axis is None else {"axis": axis},
                is_exact=True)


@makes("OneHot")
def one_hot(draw: Draw) -> Node:
    depth, dims = draw.int(1, 6), draw.shape(0, 3)
    values = draw.array(draw.type("T3"), (2,))
    kind = draw.type("T1", ("int64", "int32", "float"))
    indices = np.asarray(draw.rng.integers(-depth - 2, depth + 2, dims), numpy_dtype(kind))
    deep = np.asarray(depth if draw.chance(0.5) else [depth], draw.one(np.int64, np.float32, np.int32))
    return Node({"i": indices, "depth": deep, "values": values}, {"axis": draw.axis(len(dims) + 1)}, is_exact=True)


@makes("Unique")
def unique(draw: Draw) -> Node:
    dims = draw.shape(1, 3)
    attributes: dict[str, Any] = {"sorted": 1} if draw.chance(0.5) else {}
    if draw.chance(0.5):
        attributes["axis"] = draw.axis(len(dims))
    return Node({"x": draw.array(draw.type("T"), dims)}, attributes, 4, is_exact=True)


@makes("Trilu")
def trilu(draw: Draw) -> Node:
    dims = draw.shape(2, 4)
    k = longs(draw.int(-6, 6)) if draw.chance(0.6) else None
    return Node({"x": draw.array(draw.type("T"), dims), "k": k}, {"upper": draw.flag()}, is_exact=True)


@makes("EyeLike")
def eye_like(draw: Draw) -> Node:
    attributes = {"k": draw.int(-4, 4)} if draw.chance(0.6) else {}
    target = draw.type("T2")
    if draw.chance(0.6):
        attributes["dtype"] = CAST_TYPES[target if target != "string" else "float"]
    return Node({"x": draw.array(draw.type("T1"), draw.shape(2, 2))}, attributes, is_exact=True)


@makes("ConstantOfShape")
def constant_of_shape(draw: Draw) -> Node:
    dtype = draw.type("T2", (*FLOATS, *INTEGERS, "bool"))
    value = numpy_helper.from_array(draw.array(dtype, (1,)))
    return Node({"shape": longs(draw.shape())}, {"value": value} if draw.chance(0.7) else {}, is_exact=True)


@makes("Constant")
def constant(draw: Draw) -> Node:
    """A tensor, from opset 11 on also a sparse one, from 12 on also a number or a text, or a list of them."""
    dtype = draw.type("T", (*FLOATS, *INTEGERS, "bool", "string"))
    value = draw.array(dtype, draw.shape())
    numbers, integers = draw.array("float", draw.shape(1, 1, 1)), draw.array("int64", draw.shape(1, 1, 1))
    texts = draw.array("string", draw.shape(1, 1, 1)).tolist()
    forms: list[tuple[int, dict[str, Any]]] = [
        (7, {"value": numpy_helper.from_array(value)}), (7, {"value": numpy_helper.from_array(value)}),
        (11, {"sparse_value": _sparse(draw)}), (12, {"value_floats": numbers.tolist()}), (12, {"value_ints": integers.tolist()}),
        (12, {"value_float": draw.real(-2, 2)}), (12, {"value_int": draw.int(-9, 9)}), (12, {"value_strings": texts}),
        (12, {"value_string": draw.one("", "a", "été")}),
    ]
    return Node({}, draw.one(*[attributes for since, attributes in forms if draw.opset >= since]), is_exact=True)


def _sparse(draw: Draw) -> SparseTensorProto:
    """A sparse tensor, whose places are flat or lists of indices."""
    dims = draw.shape(1, 3, 1)
    count = draw.int(0, math.prod(dims))
    places = np.sort(draw.rng.permutation(math.prod(dims))[:count])
    indices = longs(np.stack(np.unravel_index(places, dims), -1) if draw.chance(0.5) else places)
    values = numpy_helper.from_array(draw.parameters(count, dtype=draw.one("float", "double")), "values")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices, "places"), dims)


@makes("Range")
def range_of(draw: Draw) -> Node:
    dtype = draw.type("T", ("float", "double", "int16", "int32", "int64"))
    start, delta = draw.int(-5, 5), draw.one(1, 2, 3, -1, -2, -3)
    limit = start + delta * draw.int(-1, 6) + draw.int(-1, 1)
    scale = draw.one(0.5, 0.1, 0.3, 1.0) if dtype in FLOATS else 1
    return Node({name: np.asarray(value * scale, numpy_dtype(dtype)) for name, value in
                 (("start", start), ("limit", limit), ("delta", delta))})


@makes("ReverseSequence")
def reverse_sequence(draw: Draw) -> Node:
    dims = draw.shape(2, 4, 1)
    batch = draw.flag()
    lengths = longs([draw.int(1, dims[1 - batch]) for _ in range(dims[batch])])
    return Node({"x": draw.array(draw.type("T"), dims), "n": lengths}, {"batch_axis": batch, "time_axis": 1 - batch},
                is_exact=True)


@makes("CenterCropPad")
def center_crop_pad(draw: Draw) -> Node:
    dims = draw.shape(1, 4, 1)
    chosen = draw.axes(len(dims), 1)
    attributes = {"axes": chosen} if draw.chance(0.6) else {}
    count = len(chosen) if attributes else len(dims)
    return Node({"x": draw.array(draw.type("T"), dims), "shape": longs([draw.int(1, 7) for _ in range(count)])},
                attributes, is_exact=True, kept=frozenset({"shape"}))


@makes("DepthToSpace", "SpaceToDepth")
def depth_to_space(draw: Draw) -> Node:
    block = draw.int(1, 3)
    n, c, h, w = draw.int(1, 2), draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
    dims = (n, c * block**2, h, w) if draw.op_type == "DepthToSpace" else (n, c, h * block, w * block)
    attributes: dict[str, Any] = {"blocksize": block}
    if draw.op_type == "DepthToSpace" and draw.opset >= 11:
        attributes["mode"] = draw.one("DCR", "CRD")
    return Node({"x": draw.array(draw.type("T"), dims)}, attributes, is_exact=True)
