"""Inputs for ONNX's operators on elements, shapes, indices and reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import FLOATS, INTEGERS, PLAIN, SIGNED, Array, Draw, Maker, Node, registering

MAKERS: dict[str, Maker] = {}

CAST_TYPES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
               "float16": 10, "double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}


makes = registering(MAKERS)


def longs(values: Any) -> Array:
    """A tensor of int64."""
    return np.asarray(values, np.int64)


def by_opset(draw: Draw, name: str, values: Any, since: int) -> tuple[dict[str, Array | None], dict[str, Any]]:
    """Integers as an input from opset ``since`` on, and as an attribute before; None leaves them out."""
    if values is None:
        return {}, {}
    return ({name: longs(values)}, {}) if draw.opset >= since else ({}, {name: values})


@makes("Add", "Sub", "Mul", "Div", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor",
       "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Pow", "Mod", "BitShift", "PRelu", "StringConcat")
def binary(draw: Draw) -> Node:
    """Two tensors that broadcast, each to the other or one of them to the other."""
    dims = draw.shape()
    dtype = draw.type("T")
    one_way = draw.op_type == "PRelu"
    left, right = dims if one_way else draw.broadcast(dims) if draw.chance(0.4) else dims, draw.broadcast(dims)
    if draw.chance(0.3) and not one_way:
        left, right = right, left
    attributes: dict[str, Any] = {}
    other = draw.type("T1") if draw.op_type == "Pow" and draw.opset >= 12 else dtype
    first, second = draw.array(dtype, left), draw.array(other, right)
    if draw.op_type in ("Div", "Mod") and dtype in INTEGERS:  # onnxruntime ends the process else
        second = np.where(second == 0, 3, second).astype(second.dtype)
        second = np.where((second == -1) if dtype in SIGNED else False, 2, second).astype(second.dtype)
    if draw.op_type == "Mod":
        attributes["fmod"] = 1 if dtype in FLOATS else draw.flag()
    if draw.op_type == "Pow":
        second = np.asarray(draw.rng.integers(0, 4, right), second.dtype) if draw.chance(0.7) else second
    if draw.op_type == "BitShift":
        attributes["direction"] = draw.one("LEFT", "RIGHT")
        second = np.asarray(draw.rng.integers(0, 8 * second.dtype.itemsize, right), second.dtype)
    names = ("X", "Y") if draw.op_type in ("Pow", "BitShift", "StringConcat") else ("A", "B")
    return Node({names[0]: first, names[1]: second}, attributes, is_exact=True)


@makes("Max", "Min", "Mean", "Sum")
def variadic(draw: Draw) -> Node:
    """One to four tensors that broadcast."""
    dims, dtype = draw.shape(), draw.type("T")
    return Node({f"x{i}": draw.array(dtype, draw.broadcast(dims)) for i in range(draw.int(1, 4))}, is_exact=True)


@makes("Where")
def where(draw: Draw) -> Node:
    dims, dtype = draw.shape(), draw.type("T")
    first, second, third = (draw.broadcast(dims) for _ in range(3))
    return Node({"c": draw.array("bool", first), "X": draw.array(dtype, second), "Y": draw.array(dtype, third)},
                is_exact=True)


@makes("Clip")
def clip(draw: Draw) -> Node:
    dtype = draw.type("T")
    x = draw.array(dtype, draw.shape())
    if draw.opset < 11:
        return Node({"x": x}, {"min": draw.real(-2, 0), "max": draw.real(0, 2)}, is_exact=True)
    low = draw.array(dtype, ()) if draw.chance(0.7) else None
    high = draw.array(dtype, ()) if draw.chance(0.7) else None
    return Node({"x": x, "min": low, "max": high}, is_exact=True)


@makes("Cast", "BitCast")
def cast(draw: Draw) -> Node:
    source = draw.type("T1")
    target = draw.type("T2")
    if draw.op_type == "BitCast":
        width = numpy_dtype(source).itemsize
        fitting = [name for name in draw.types.get("T2", ())
                   if name in PLAIN and name not in ("string", "bool") and numpy_dtype(name).itemsize == width]
        source = "float" if source in ("string", "bool") else source
        target = draw.one(*fitting) if fitting and source != "float" else "int32"
    x = draw.array(source, draw.shape())
    if source == "string":
        words = ["1", "-2.5", "3e2", "nan", "inf", "-inf", "0", "7", "NaN", "INF", "+4", "1e-3", ".5", "-0", "1E+2", "-Infinity"]
        if target not in FLOATS:
            words = ["1", "0", *(["12", "007"] if target in INTEGERS else []), *(["-3", "-100"] if target in SIGNED else [])]
        x = np.array(np.array(words, object)[draw.rng.integers(0, len(words), x.shape)], object).reshape(x.shape)
    attributes: dict[str, Any] = {"to": CAST_TYPES[target]}
    if draw.opset >= 19 and draw.op_type == "Cast" and draw.chance(0.3):
        attributes["saturate"] = draw.flag()
    return Node({"x": x}, attributes, is_exact=True)


@makes("CastLike")
def cast_like(draw: Draw) -> Node:
    source, target = draw.type("T1", (*FLOATS, *INTEGERS, "bool")), draw.type("T2", (*FLOATS, *INTEGERS, "bool"))
    return Node({"x": draw.array(source, draw.shape()), "t": draw.array(target, (2,))}, is_exact=True)


@makes("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
       "ReduceSum", "ReduceSumSquare")
def reduction(draw: Draw) -> Node:
    dims = draw.shape()
    axes = draw.axes(len(dims)) if draw.chance(0.8) else None
    if draw.opset < 18 and axes == [] and (draw.op_type != "ReduceSum" or draw.opset < 13):
        axes = None
    inputs, attributes = by_opset(draw, "axes", axes, 13 if draw.op_type == "ReduceSum" else 18)
    if draw.chance(0.5):
        attributes["keepdims"] = draw.flag()
    if draw.chance(0.3) and (draw.opset >= 18 or (draw.op_type == "ReduceSum" and draw.opset >= 13)):
        attributes["noop_with_empty_axes"] = draw.flag()
    return Node({"x": draw.array(draw.type("T"), dims), **inputs}, attributes, kept=frozenset({"axes"}))


@makes("ArgMax", "ArgMin")
def arg_extreme(draw: Draw) -> Node:
    dims = draw.shape(1)
    attributes = {
        name: value for name, value in (("axis", draw.axis(len(dims))), ("keepdims", draw.flag())) if draw.chance(0.8)
    }
    if draw.opset >= 12 and draw.chance(0.5):
        attributes["select_last_index"] = draw.flag()
    return Node({"x": draw.array(draw.type("T"), dims)}, attributes)


@makes("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "Flatten")
def along_axis(draw: Draw) -> Node:
    dims = draw.shape(1)
    attributes: dict[str, Any] = {"axis": draw.axis(len(dims))} if draw.chance(0.8) else {}
    if draw.opset < 11 and attributes:
        attributes["axis"] %= len(dims)
    if draw.op_type == "LpNormalization":
        attributes["p"] = draw.int(1, 2)
    return Node({"x": draw.array(draw.type("T"), dims)}, attributes)


@makes("CumSum", "CumProd")
def cumulative(draw: Draw) -> Node:
    dims = draw.shape(1)
    axis = np.asarray(draw.axis(len(dims)), draw.one(np.int32, np.int64))
    attributes = {"exclusive": draw.flag(), "reverse": draw.flag()} if draw.chance(0.7) else {}
    return Node({"x": draw.array(draw.type("T"), dims), "axis": axis}, attributes)


@makes("TopK")
def top_k(draw: Draw) -> Node:
    dims = draw.shape(1)
    axis = draw.axis(len(dims))
    k = draw.int(0, dims[axis])
    inputs: dict[str, Any] = {"x": draw.array(draw.type("T"), dims)}
    attributes: dict[str, Any] = {"axis": axis}
    if draw.opset >= 10:
        inputs["k"] = longs([k])
    else:
        attributes["k"] = max(k, 1)
    if draw.opset >= 11:
        attributes |= {"largest": draw.flag(), "sorted": 1}
    return Node(inputs, attributes, 2, kept=frozenset({"k"}))


@makes("Gather")
def gather(draw: Draw) -> Node:
    dims = draw.shape(1, 4)
    axis = draw.axis(len(dims))
    indices = draw.indices(draw.shape(0, 3, 0 if dims[axis] else 1), dims[axis], draw.one("int32", "int64"),
                           negative=draw.opset >= 11)
    return Node({"x": draw.array(draw.type("T"), dims), "i": indices}, {"axis": axis}, is_exact=True)


@makes("GatherElements")
def gather_elements(draw: Draw) -> Node:
    dims = draw.shape(1, 4)
    axis = draw.axis(len(dims))
    other = [draw.int(0 if size == 0 else 1, size) for size in dims]
    other[axis] = draw.size()
    return Node({"x": draw.array(draw.type("T"), dims), "i": draw.indices(other, dims[axis])}, {"axis": axis},
                is_exact=True)


@makes("ScatterElements", "Scatter")
def scatter_elements(draw: Draw) -> Node:
    dims = draw.shape(1, 4, 1)
    axis = draw.axis(len(dims))
    other = [draw.int(1, size) for size in dims]
    dtype = draw.type("T")
    attributes: dict[str, Any] = {"axis": axis}
    reduction = draw.one("none", "add", "mul", "max", "min") if draw.opset >= 18 else draw.one("none", "add", "mul")
    if draw.opset >= 16 and draw.op_type == "ScatterElements" and dtype not in ("string", "bool"):
        attributes["reduction"] = reduction
    indices = draw.indices(other, dims[axis], draw.one("int32", "int64"))
    if attributes.get("reduction", "none") == "none":  # which of several updates stays is not said: all differ
        order = np.argsort(draw.rng.random([*other[:axis % len(dims)], dims[axis], *other[axis % len(dims) + 1:]]),
                           axis=axis)
        indices = np.asarray(np.take(order, range(other[axis]), axis=axis), np.int64)
    return Node({"x": draw.array(dtype, dims), "i": indices, "u": draw.array(dtype, other)}, attributes, is_exact=True)


@makes("GatherND")
def gather_nd(draw: Draw) -> Node:
    dims = draw.shape(1, 4, 1)
    batch = draw.int(0, len(dims) - 1) if draw.opset >= 12 and draw.chance(0.4) else 0
    depth = draw.int(1, len(dims) - batch)
    outer = (*dims[:batch], *draw.shape(0, 2, 1))
    columns = [draw.indices(outer, dims[batch + i]) for i in range(depth)]
    indices = np.stack(columns, -1)
    attributes = {"batch_dims": batch} if batch else {}
    return Node({"x": draw.array(draw.type("T"), dims), "i": indices}, attributes, is_exact=True)


@makes("ScatterND")
def scatter_nd(draw: Draw) -> Node:
    dims = draw.shape(1, 4, 1)
    depth, dtype = draw.int(1, len(dims)), draw.type("T")
    attributes: dict[str, Any] = {}
    if draw.opset >= 16 and dtype not in ("string", "bool"):
        attributes["reduction"] = draw.one("none", "add", "mul", *(("max", "min") if draw.opset >= 18 else ()))
    total = math.prod(dims[:depth])
    count = draw.int(0, min(total, 6))
    flat = draw.rng.permutation(total)[:count]
    if attributes.get("reduction", "none") != "none":
        flat = draw.rng.integers(0, total, count)
    indices = longs(np.stack(np.unravel_index(flat, dims[:depth]), -1)).reshape(count, depth)
    if draw.chance(0.4):  # counted from the end
        indices = np.where(draw.rng.random(indices.shape) < 0.5, indices - longs(dims[:depth]), indices)
    outer = draw.one((count,), (count,), (1, count), (count, 1), *([()] if count == 1 else []))
    if count == 4 and draw.chance(0.5):
        outer = (2, 2)
    indices = indices.reshape(*outer, depth)
    updates = draw.array(dtype, (*outer, *dims[depth:]))
    return Node({"x": draw.array(dtype, dims), "i": indices, "u": updates}, attributes, is_exact=True)


@makes("Concat")
def concat(draw: Draw) -> Node:
    dims, dtype = draw.shape(1), draw.type("T")
    axis = draw.axis(len(dims))
    parts = {}
    for i in range(draw.int(1, 4)):
        part = list(dims)
        part[axis] = draw.size()
        parts[f"x{i}"] = draw.array(dtype, part)
    return Node(parts, {"axis": axis if draw.opset >= 11 else axis % len(dims)}, is_exact=True)


@makes("Split")
def split(draw: Draw) -> Node:
    dims = draw.shape(1)
    axis = draw.axis(len(dims))
    count = draw.int(1, 4)
    cuts = sorted(draw.int(0, dims[axis]) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, dims[axis]]).tolist()
    attributes: dict[str, Any] = {"axis": axis if draw.opset >= 11 else axis % len(dims)}
    inputs: dict[str, Any] = {"x": draw.array(draw.type("T"), dims)}
    if draw.opset >= 18 and draw.chance(0.4):
        return Node(inputs, {**attributes, "num_outputs": count}, count, is_exact=True)
    further, more = by_opset(draw, "split", sizes, 13)
    return Node({**inputs, **further}, {**attributes, **more}, count, is_exact=True, kept=frozenset({"split"}))


@makes("Slice")
def slicing(draw: Draw) -> Node:
    dims = draw.shape(1)
    chosen = draw.axes(len(dims))
    starts, ends, steps = [], [], []
    for axis in chosen:
        far = draw.one(0, 0, 0, 3, 2**31 - 1)
        starts.append(draw.int(-dims[axis] - min(far, 9), dims[axis] + min(far, 9)))
        if draw.chance(0.1):
            starts[-1] = draw.one(2**31 - 1, -(2**31))
        ends.append(draw.one(draw.int(-dims[axis] - min(far, 9), dims[axis] + min(far, 9)), far, -far))
        steps.append(draw.one(1, 1, 2, 3, -1, -1, -2, -3))
    x = draw.array(draw.type("T"), dims)
    if draw.opset < 10:
        return Node({"x": x}, {"starts": starts, "ends": ends, "axes": [a % len(dims) for a in chosen]} if chosen else
                    {"starts": [0], "ends": [1]}, is_exact=True)
    kind = draw.one(np.int32, np.int64)
    if kind == np.int64:  # the ends of all axes, as exporters write them
        edges = {2**31 - 1: 2**63 - 1, -(2**31): -(2**63), -(2**31) + 1: -(2**63)}
        starts, ends = (
            [edges.get(place, place) if draw.chance(0.5) else place for place in places] for places in (starts, ends)
        )
    inputs: dict[str, Any] = {"x": x, "starts": np.asarray(starts, kind), "ends": np.asarray(ends, kind)}
    inputs["axes"] = np.asarray(chosen, kind)
    inputs["steps"] = np.asarray(steps, kind) if draw.chance(0.7) else None
    return Node(inputs, is_exact=True, kept=frozenset(inputs) - {"x"})
