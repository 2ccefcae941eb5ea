"""Steps of random graphs that are layers of networks, patterns that passes look for, and values that others choose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.graph_builder import Builder, Dims, Known, broadcast, step

_REALS = ("float", "double")


def _number(b: Builder, value: Any, x: Known) -> str:
    return b.constant(value, numpy_dtype(x.dtype))


def _fixed(b: Builder, values: Any, dtype: Any = np.float32) -> str:
    """A constant that is no weight: other layers have the same."""
    name = b.name("c")
    b.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(values, dtype))))
    return name


def _is_fixed(x: Known, axis: int, least: int = 1) -> bool:
    size = x.dims[axis]
    return isinstance(size, int) and size >= least


def _image(b: Builder) -> Known | None:
    """A value of floats with known channels and one or two axes after them."""
    return b.pick(lambda known: known.dtype == "float" and known.rank in (3, 4) and _is_fixed(known, 1))


# --- layers ----------------------------------------------------------------------------------------------------------


@step(2)
def gemm(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype in _REALS and known.rank == 2 and _is_fixed(known, 1))
    if x is None:
        return None
    width, inside, turned = b.draw.int(1, 6), x.dims[1], b.draw.flag()
    assert isinstance(inside, int)
    weight = b.weights(*((width, inside) if turned else (inside, width)), dtype=x.dtype)
    bias = [b.weights(*b.draw.one((width,), (1, width), ()), dtype=x.dtype)] if b.draw.chance(0.7) else []
    scales = {"alpha": b.draw.real(-1, 1), "beta": b.draw.one(0.0, 0.5, 1.0)} if b.draw.chance(0.3) else {}
    return b.add("Gemm", [x.name, weight, *bias], x.dtype, (x.dims[0], width), transB=turned, **scales)


@step(2)
def normalization(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype == "float" and known.rank >= 2 and _is_fixed(known, 1))
    if x is None:
        return None
    channels = x.dims[1]
    assert isinstance(channels, int)
    scale, shift = b.weights(channels), b.weights(channels)
    if x.rank >= 3 and math.prod(size for size in x.dims[2:] if isinstance(size, int)) > 1 and b.draw.chance(0.4):
        return b.add("InstanceNormalization", [x.name, scale, shift], "float", x.dims, epsilon=0.1)
    mean, variance = b.weights(channels), _fixed(b, b.draw.positive(channels))
    return b.add("BatchNormalization", [x.name, scale, shift, mean, variance], "float", x.dims)


@step(2)
def pool(b: Builder) -> Known | None:
    """A window that keeps sizes, or one over known sizes, or one over the whole image."""
    x = _image(b)
    if x is None:
        return None
    op_type, spatial = b.draw.one("MaxPool", "AveragePool"), x.rank - 2
    if b.draw.chance(0.25):
        return b.add("GlobalAveragePool", [x.name], "float", (*x.dims[:2], *[1] * spatial))
    if not all(_is_fixed(x, axis, 2) for axis in range(2, x.rank)) or b.draw.chance(0.5):
        return b.add(op_type, [x.name], "float", x.dims, kernel_shape=[3] * spatial, pads=[1] * 2 * spatial)
    sizes = [(int(size) - 2) // 2 + 1 for size in x.dims[2:]]
    return b.add(op_type, [x.name], "float", (*x.dims[:2], *sizes), kernel_shape=[2] * spatial, strides=[2] * spatial)


@step(2)
def convolution(b: Builder) -> Known | None:
    """By groups, by steps, or transposed."""
    x = _image(b)
    if x is None:
        return None
    channels, spatial = x.dims[1], x.rank - 2
    assert isinstance(channels, int)
    way = b.draw.one("depthwise", "strided", "transposed", "single")
    fixed = all(_is_fixed(x, axis) for axis in range(2, x.rank))
    if way == "depthwise":
        return b.add("Conv", [x.name, b.weights(channels, 1, *[3] * spatial)], "float", x.dims, group=channels,
                     pads=[1] * 2 * spatial)
    outside = b.draw.int(1, 4)
    if way == "single" or not fixed:
        weight = b.weights(outside, channels, *[1] * spatial)
        return b.add("Conv", [x.name, weight, b.weights(outside)], "float", (x.dims[0], outside, *x.dims[2:]))
    if way == "strided":
        sizes = [(int(size) - 1) // 2 + 1 for size in x.dims[2:]]
        return b.add("Conv", [x.name, b.weights(outside, channels, *[3] * spatial)], "float", (x.dims[0], outside, *sizes),
                     pads=[1] * 2 * spatial, strides=[2] * spatial)
    sizes = [2 * int(size) for size in x.dims[2:]]
    return b.add("ConvTranspose", [x.name, b.weights(channels, outside, *[2] * spatial)], "float",
                 (x.dims[0], outside, *sizes), strides=[2] * spatial)


@step(1)
def recurrent(b: Builder) -> Known | None:
    """All states of a layer, or its last one."""
    x = b.pick(lambda known: known.dtype == "float" and known.rank == 3 and _is_fixed(known, 2))
    if x is None:
        return None
    op_type, hidden, inside = b.draw.one("RNN", "GRU", "LSTM"), b.draw.int(1, 3), x.dims[2]
    assert isinstance(inside, int)
    direction = b.draw.one("forward", "reverse", "bidirectional")
    count, gates = 2 if direction == "bidirectional" else 1, {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    bounded = b.add("Tanh", [x.name], "float", x.dims)
    weights = [b.weights(count, gates * hidden, inside), b.weights(count, gates * hidden, hidden)]
    every = Known(b.name("v"), "float", (x.dims[0], count, x.dims[1], hidden))
    last = Known(b.name("v"), "float", (count, x.dims[1], hidden))
    b.nodes.append(helper.make_node(op_type, [bounded.name, *weights], [every.name, last.name], hidden_size=hidden,
                                    direction=direction))
    return b.draw.one(every, last)


@step(2)
def attention(b: Builder) -> Known | None:
    """Weights of positions by a softmax, some of them masked, times a value."""
    x = b.pick(lambda known: known.dtype == "float" and known.rank in (3, 4) and _is_fixed(known, -1))
    if x is None:
        return None
    square = (*x.dims[:-1], x.dims[-2])
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = b.add("Transpose", [x.name], "float", [x.dims[axis] for axis in perm], perm=perm)
    scores = b.add("MatMul", [x.name, turned.name], "float", square)
    scaled = b.add(b.draw.one("Mul", "Div"), [scores.name, _number(b, b.draw.one(0.5, 2.0, 3.0), x)], "float", square)
    if b.draw.chance(0.5):
        kept = b.add("Trilu", [scaled.name], "float", square, upper=0)
        lower = b.add("Equal", [kept.name, scaled.name], "bool", square)
        scaled = b.add("Where", [lower.name, scaled.name, _number(b, -1e4, x)], "float", square)
    shares = b.add("Softmax", [scaled.name], "float", square, axis=-1)
    return b.add("MatMul", [shares.name, x.name], "float", x.dims)


# --- patterns ---------------------------------------------------------------------------------------------------------


@step(2)
def written_out(b: Builder) -> Known | None:
    """What exporters write out in nodes: Gelu, HardSwish, Silu, normal rows."""
    x = b.real(1)
    if x is None:
        return None
    way = b.draw.one("gelu", "hard swish", "silu", "normal")
    if way == "silu":
        return b.add("Mul", [x.name, b.add("Sigmoid", [x.name], x.dtype, x.dims).name], x.dtype, x.dims)
    if way == "hard swish":
        more = b.add("Add", [x.name, _number(b, 3, x)], x.dtype, x.dims)
        cut = b.add("Clip", [more.name, _number(b, 0, x), _number(b, 6, x)], x.dtype, x.dims)
        product = b.add("Mul", [x.name, cut.name], x.dtype, x.dims)
        if x.rank < 5 and b.draw.chance(0.2):  # of a rank that the result gets
            return b.add("Div", [product.name, _number(b, np.full([1] * (x.rank + 1), 6), x)], x.dtype, (1, *x.dims))
        return b.add("Div", [product.name, _number(b, 6, x)], x.dtype, x.dims)
    if way == "gelu" and x.dtype == "float":
        part = b.add("Div", [x.name, _number(b, math.sqrt(2), x)], x.dtype, x.dims)
        more = b.add("Add", [b.add("Erf", [part.name], x.dtype, x.dims).name, _number(b, 1, x)], x.dtype, x.dims)
        return b.add("Mul", [b.add("Mul", [x.name, more.name], x.dtype, x.dims).name, _number(b, 0.5, x)], x.dtype, x.dims)
    one = (*x.dims[:-1], 1)
    axes = b.constant([b.draw.one(-1, x.rank - 1)])
    mean = b.add("ReduceMean", [x.name, axes], x.dtype, one)
    centred = b.add("Sub", [x.name, mean.name], x.dtype, x.dims)
    square = b.add("Pow", [centred.name, _number(b, 2, x)], x.dtype, x.dims)
    variance = b.add("ReduceMean", [square.name, axes], x.dtype, one)
    root = b.add("Sqrt", [b.add("Add", [variance.name, _number(b, 0.1, x)], x.dtype, one).name], x.dtype, one)
    return b.add("Div", [centred.name, root.name], x.dtype, x.dims)


@step(2)
def bounded(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype == "float")
    if x is None:
        return None
    op_type = b.draw.one("Clip", "HardSwish", "Selu", "Celu", "ThresholdedRelu", "Mish", "PRelu", "Pow",
                         "Exp", "Sqrt", "Log", "Reciprocal")
    if op_type == "Clip":
        limits = [_number(b, -1, x) if b.draw.chance(0.7) else "", _number(b, b.draw.one(0.5, 3), x)]
        return b.add(op_type, [x.name, *limits], "float", x.dims)
    if op_type == "PRelu":
        fixed = [size if isinstance(size, int) and b.draw.chance(0.6) else 1 for size in x.dims]
        return b.add(op_type, [x.name, b.weights(*fixed[b.draw.int(0, len(fixed)) :])], "float", x.dims)
    if op_type == "Pow":
        return b.add(op_type, [x.name, _number(b, b.draw.one(2, 3, 0, 1), x)], "float", x.dims)
    if op_type in ("Exp", "Sqrt", "Log", "Reciprocal"):  # of what they have numbers of
        inner = b.add("Tanh" if op_type == "Exp" else "Sigmoid", [x.name], "float", x.dims)
        x = inner if op_type == "Exp" else b.add("Add", [inner.name, _number(b, 0.5, x)], "float", x.dims)
    return b.add(op_type, [x.name], "float", x.dims)


@step(2)
def integers(b: Builder) -> Known | None:
    """Arithmetic of integers with a constant, or of flags."""
    x = b.pick(lambda known: known.dtype not in _REALS)
    if x is None:
        return None
    if x.dtype == "bool":
        other = b.pick(lambda known: known.dtype == "bool" and broadcast(x.dims, known.dims) is not None)
        dims = None if other is None else broadcast(x.dims, other.dims)
        if other is None or dims is None:
            return None
        return b.add(b.draw.one("And", "Or", "Xor", "Equal"), [x.name, other.name], "bool", dims)
    op_type = b.draw.one("Div", "Mod", "Mod", "Abs", "Sign", "Equal", "Mul")
    if op_type in ("Abs", "Sign"):
        return b.add(op_type, [x.name], x.dtype, x.dims)
    other_name = b.constant(b.draw.one(2, 3, 5), numpy_dtype(x.dtype))
    return b.add(op_type, [x.name, other_name], "bool" if op_type == "Equal" else x.dtype, x.dims)


# --- values that others choose ----------------------------------------------------------------------------------------


def _places(b: Builder, size: int) -> Known | None:
    """Numbers below a size that the run decides."""
    x = b.pick(lambda known: known.dtype == "float" and 1 <= known.rank <= 3 and _is_fixed(known, -1)
               and int(known.dims[-1]) <= size)
    return None if x is None else b.add("ArgMax", [x.name], "int64", x.dims[:-1], axis=-1, keepdims=0)


@step(2)
def chosen(b: Builder) -> Known | None:
    """Rows by numbers of the run, or vectors of zeros with a one there."""
    x = b.pick(lambda known: 1 <= known.rank <= 3 and any(isinstance(size, int) for size in known.dims))
    if x is None:
        return None
    axis = b.draw.one(*[place for place, size in enumerate(x.dims) if isinstance(size, int)])
    size = x.dims[axis]
    assert isinstance(size, int)
    places = _places(b, size)
    if places is None:
        return None
    if places.rank and b.draw.chance(0.3):
        values = b.constant([0, b.draw.one(1, 2)], np.float32)
        return b.add("OneHot", [places.name, b.constant(size), values], "float", (*places.dims, size))
    dims: Dims = (*x.dims[:axis], *places.dims, *x.dims[axis + 1 :])
    return b.add("Gather", [x.name, places.name], x.dtype, dims, axis=axis) if len(dims) <= 5 else None


@step(2)
def largest(b: Builder) -> list[Known] | None:
    """The largest of the last axis; what else lies at their places, or other numbers put there."""
    x = b.pick(lambda known: known.dtype == "float" and known.rank >= 1 and _is_fixed(known, -1))
    if x is None:
        return None
    k = b.draw.int(1, int(x.dims[-1]))
    values, places = (Known(b.name("v"), dtype, (*x.dims[:-1], k)) for dtype in ("float", "int64"))
    b.nodes.append(helper.make_node("TopK", [x.name, b.constant([k])], [values.name, places.name],
                                    largest=b.draw.flag()))
    other = b.pick(lambda known: known.dims == x.dims and known.dtype == "float") or x
    if b.draw.chance(0.5):
        return [b.add("GatherElements", [other.name, places.name], "float", values.dims, axis=-1)]
    return [values, b.add("ScatterElements", [other.name, places.name, values.name], "float", x.dims, axis=-1,
                          reduction=b.draw.one("none", "add", "max"))]


@step(2)
def kept_rows(b: Builder) -> Known | None:
    """Rows that the run chooses, added up, so that their dims are known."""
    x = b.pick(lambda known: known.dtype == "float" and known.rank >= 1)
    if x is None:
        return None
    sums = x
    if x.rank > 1:
        sums = b.add("ReduceSum", [x.name, b.constant(list(range(1, x.rank)))], "float", x.dims[:1], keepdims=0)
    wanted = b.add("Greater", [sums.name, _number(b, b.draw.one(0, 0.3, -1e30), x)], "bool", x.dims[:1])
    if b.draw.chance(0.5):
        rows = b.add("Compress", [x.name, wanted.name], "float", x.dims, axis=0).name
    else:
        places = b.add("Squeeze", [b.add("NonZero", [wanted.name], "int64", (1, 1)).name, b.constant([0])], "int64", (1,))
        rows = b.add("Gather", [x.name, places.name], "float", x.dims).name
    return b.add("ReduceSum", [rows, b.constant([0])], "float", x.dims[1:], keepdims=0)


@step(2)
def parts(b: Builder) -> Known | None:
    """A sequence of parts of a known axis: one of them, all of them joined, or their number."""
    x = b.pick(lambda known: known.dtype in (*_REALS, "int32", "int64") and any(
        isinstance(size, int) and size > 1 for size in known.dims))
    if x is None:
        return None
    axis = b.draw.one(*[place for place, size in enumerate(x.dims) if isinstance(size, int) and size > 1])
    size = x.dims[axis]
    assert isinstance(size, int)
    first = b.draw.int(1, size - 1)
    sizes = [first, size - first]
    items = b.name("q")
    b.nodes.append(helper.make_node("SplitToSequence", [x.name, b.constant(sizes)], [items], axis=axis))
    if b.draw.chance(0.5):
        place = b.draw.flag()
        dims = (*x.dims[:axis], sizes[place], *x.dims[axis + 1 :])
        return b.add("SequenceAt", [items, b.constant(b.draw.one(place, place - 2))], x.dtype, dims)
    if b.draw.chance(0.3):
        return b.add("SequenceLength", [items], "int64", ())
    if b.draw.chance(0.5):
        more = b.name("q")
        b.nodes.append(helper.make_node("SequenceInsert", [items, x.name, *([b.constant(0)] if b.draw.flag() else [])], [more]))
        return b.add("ConcatFromSequence", [more], x.dtype, (*x.dims[:axis], 2 * size, *x.dims[axis + 1 :]), axis=axis)
    return b.add("ConcatFromSequence", [items], x.dtype, x.dims, axis=axis - x.rank * b.draw.flag())


@step(1)
def tiled(b: Builder) -> Known | None:
    x = b.pick(lambda known: 1 <= known.rank <= 4)
    if x is None:
        return None
    counts = [b.draw.int(1, 2) if isinstance(size, int) else 1 for size in x.dims]
    dims = [size * count if isinstance(size, int) else size for size, count in zip(x.dims, counts)]
    return b.add("Tile", [x.name, b.constant(counts)], x.dtype, dims)


@step(1)
def resized(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype == "float" and known.rank == 4 and _is_fixed(known, 2) and _is_fixed(known, 3))
    if x is None:
        return None
    scales = _fixed(b, [1, 1, 2, 2])
    return b.add("Resize", [x.name, "", scales], "float", (*x.dims[:2], *(2 * int(size) for size in x.dims[2:])),
                 mode=b.draw.one("nearest", "linear"))


@step(1)
def by_size(b: Builder) -> Known | None:
    """A value times its size, or the size of an axis."""
    x = b.pick(lambda known: known.dtype == "float" and known.rank >= 1)
    if x is None:
        return None
    size = b.add("Size", [x.name], "int64", ())
    if b.draw.chance(0.5):
        shape = b.add("Shape", [x.name], "int64", (x.rank,))
        size = b.add("Gather", [shape.name, b.constant(b.draw.axis(x.rank))], "int64", ())
    number = b.add("Cast", [size.name], "float", (), to=1)
    return b.add(b.draw.one("Mul", "Div"), [x.name, number.name], "float", x.dims)


@step(1)
def sums_of_products(b: Builder) -> Known | None:
    """Einsum of a value with itself, or with weights."""
    x = b.pick(lambda known: known.dtype == "float" and 2 <= known.rank <= 4)
    if x is None:
        return None
    letters = "abcd"[: x.rank]
    other = letters[:-2] + "z" + letters[-1]
    found = b.add("Einsum", [x.name, x.name], "float", (*x.dims[:-1], x.dims[-2]), equation=f"{letters},{other}->{letters[:-1]}z")
    return b.add("Tanh", [found.name], "float", found.dims)


@step(1)
def filled_like(b: Builder) -> Known | None:
    """ConstantOfShape by a part of a shape, beside other sizes."""
    x = b.pick(lambda known: known.rank >= 1)
    if x is None:
        return None
    shape = b.add("Shape", [x.name], "int64", (1,), start=0, end=1)
    size = b.draw.int(1, 3)
    both = b.add("Concat", [shape.name, b.constant([size])], "int64", (2,), axis=0)
    value = numpy_helper.from_array(np.array([b.draw.int(-2, 2)], np.int64))
    return b.add("ConstantOfShape", [both.name], "int64", (x.dims[0], size), value=value)
