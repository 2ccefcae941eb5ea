"""Steps of random graphs on elements, shapes and reductions."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import INTEGERS, UNSIGNED, Array, Draw
from tests.fuzz.graph_builder import TYPES, Builder, Known, broadcast, step


@step(6)
def unary(b: Builder) -> Known | None:
    x = b.real()
    if x is None:
        return None
    op_type = b.draw.one("Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Softplus", "Erf", "Sin", "Cos", "LeakyRelu", "Elu",
                         "HardSigmoid", "Identity", "Softsign", "Sign")
    if x.dtype == "double" and op_type in ("HardSigmoid", "Elu", "LeakyRelu", "Softsign", "Softplus", "Erf"):
        op_type = "Tanh"
    return b.add(op_type, [x.name], x.dtype, x.dims)


@step(7)
def binary(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype != "bool")
    if x is None:
        return None
    op_type = b.draw.one("Add", "Sub", "Mul", "Max", "Min", *(["Div"] if x.dtype in ("float", "double") else []))
    other = b.pick(lambda known: known.dtype == x.dtype and broadcast(x.dims, known.dims) is not None)
    if other is None or b.draw.chance(0.25):
        fixed = [size if isinstance(size, int) and b.draw.chance(0.6) else 1 for size in x.dims]
        values = b.draw.rng.integers(0 if x.dtype in UNSIGNED else -3, 4, fixed[b.draw.int(0, len(fixed)) :])
        other = Known(b.constant(values, numpy_dtype(x.dtype)), x.dtype, tuple(values.shape))
    dims = broadcast(x.dims, other.dims)
    assert dims is not None
    if op_type == "Div":
        one = b.constant(1.5, np.float64 if x.dtype == "double" else np.float32)
        square = b.add("Mul", [other.name, other.name], x.dtype, other.dims)
        other = b.add("Add", [square.name, one], x.dtype, other.dims)
    pair = [x.name, other.name] if b.draw.chance(0.6) else [other.name, x.name]
    if op_type == "Div":
        pair = [x.name, other.name]
    return b.add(op_type, pair, x.dtype, dims)


@step(2)
def compare(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype != "bool")
    if x is None:
        return None
    other = b.constant(0.3 if x.dtype in ("float", "double") else b.draw.one(0, 1), numpy_dtype(x.dtype))
    found = b.add(b.draw.one("Less", "Greater"), [x.name, other], "bool", x.dims)
    return b.add("Not", [found.name], "bool", x.dims) if b.draw.chance(0.3) else found


@step(3)
def where(b: Builder) -> Known | None:
    condition = b.pick(lambda known: known.dtype == "bool")
    x = b.real()
    if condition is None or x is None or broadcast(condition.dims, x.dims) is None:
        return None
    other = b.pick(lambda known: known.dtype == x.dtype and known.dims == x.dims)
    dims = broadcast(condition.dims, x.dims)
    assert dims is not None and other is not None
    return b.add("Where", [condition.name, x.name, other.name], x.dtype, dims)


@step(2)
def cast(b: Builder) -> Known | None:
    x = b.pick(lambda known: True)
    if x is None:
        return None
    target = b.draw.one(*[name for name in ("float", "float", "double", "int64", "int32", "bool", "uint8", "int8", "uint32")
                          if name != x.dtype])
    if x.dtype in ("float", "double") and target in INTEGERS:
        scale = b.constant(3.0, np.float32 if x.dtype == "float" else np.float64)
        bounded = b.add("Tanh", [x.name], x.dtype, x.dims)
        if target in UNSIGNED:
            bounded = b.add("Abs", [bounded.name], x.dtype, x.dims)
        x = b.add("Mul", [bounded.name, scale], x.dtype, x.dims)
        nothing = b.add("IsNaN", [x.name], "bool", x.dims)  # of which the specification does not say what integer it is
        zero = b.constant(0.0, np.float32 if x.dtype == "float" else np.float64)
        x = b.add("Where", [nothing.name, zero, x.name], x.dtype, x.dims)
    return b.add("Cast", [x.name], target, x.dims, to=TYPES[target])


@step(4)
def reduce(b: Builder) -> Known | None:
    x = b.real(1) if b.draw.chance(0.8) else b.pick(lambda known: known.dtype in ("int32", "int64") and known.rank > 0)
    if x is None:
        return None
    op_type = b.draw.one("ReduceSum", "ReduceMax", "ReduceMin", *(
        ["ReduceMean", "ReduceL2", "ReduceLogSumExp"] if x.dtype in ("float", "double") else []))
    axes = sorted({axis % x.rank for axis in b.draw.axes(x.rank, 1)})
    keep = b.draw.flag()
    dims = [1 if axis in axes else size for axis, size in enumerate(x.dims) if keep or axis not in axes]
    return b.add(op_type, [x.name, b.constant(axes)], x.dtype, dims, keepdims=keep)


@step(2)
def along(b: Builder) -> Known | None:
    x = b.real(1)
    if x is None:
        return None
    op_type, axis = b.draw.one("Softmax", "LogSoftmax", "CumSum", "ArgMax", "LayerNormalization"), b.draw.axis(x.rank)
    if op_type == "CumSum":
        return b.add("CumSum", [x.name, b.constant(axis)], x.dtype, x.dims, reverse=b.draw.flag())
    if op_type == "ArgMax":
        dims = [size for place, size in enumerate(x.dims) if place != axis % x.rank]
        return b.add("ArgMax", [x.name], "int64", dims, axis=axis, keepdims=0)
    if op_type == "LayerNormalization":
        if not isinstance(x.dims[-1], int) or x.dims[-1] < 2:
            return None
        return b.add(op_type, [x.name, b.weights(x.dims[-1], dtype=x.dtype)], x.dtype, x.dims, axis=-1)
    return b.add(op_type, [x.name], x.dtype, x.dims, axis=axis)


@step(4)
def product(b: Builder) -> Known | None:
    x = b.real(2, 4)
    if x is None:
        return None
    if isinstance(x.dims[-1], int) and b.draw.chance(0.7):
        width = b.draw.int(1, 6)
        found = b.add("MatMul", [x.name, b.weights(x.dims[-1], width, dtype=x.dtype)], x.dtype, [*x.dims[:-1], width])
        return found if b.draw.chance(0.5) else b.add("Tanh", [found.name], x.dtype, found.dims)
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = b.add("Transpose", [x.name], x.dtype, [x.dims[axis] for axis in perm], perm=perm)
    found = b.add("MatMul", [x.name, turned.name], x.dtype, [*x.dims[:-1], x.dims[-2]])
    return b.add("Tanh", [found.name], x.dtype, found.dims)


@step(1)
def convolve(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype == "float" and known.rank in (3, 4) and isinstance(known.dims[1], int))
    if x is None:
        return None
    outside, inside = b.draw.int(1, 4), x.dims[1]
    assert isinstance(inside, int)
    kernel = [3] * (x.rank - 2)
    found = b.add("Conv", [x.name, b.weights(outside, inside, *kernel), b.weights(outside)], "float",
                  [x.dims[0], outside, *x.dims[2:]], pads=[1] * 2 * len(kernel))
    return b.add("Relu", [found.name], "float", found.dims)


@step(3)
def transpose(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.rank >= 2)
    if x is None:
        return None
    perm = [int(axis) for axis in b.draw.rng.permutation(x.rank)]
    return b.add("Transpose", [x.name], x.dtype, [x.dims[axis] for axis in perm], perm=perm)


@step(2)
def squeeze(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.rank <= 4)
    if x is None:
        return None
    ones = [axis for axis, size in enumerate(x.dims) if size == 1]
    if ones and b.draw.chance(0.6):
        axis = b.draw.one(*ones)
        return b.add("Squeeze", [x.name, b.constant([axis])], x.dtype, x.dims[:axis] + x.dims[axis + 1 :])
    axis = b.draw.int(0, x.rank)
    return b.add("Unsqueeze", [x.name, b.constant([axis])], x.dtype, (*x.dims[:axis], 1, *x.dims[axis:]))


@step(2)
def reshape(b: Builder) -> Known | None:
    """Two fixed dims become one or one becomes two; open ones stay by 0, -1 or by Shape."""
    x = b.pick(lambda known: known.rank >= 1 and sum(isinstance(size, str) for size in known.dims) <= 2)
    if x is None:
        return None
    dims = list(x.dims)
    pairs = [place for place in range(len(dims) - 1) if isinstance(dims[place], int) and isinstance(dims[place + 1], int)]
    splittable = [place for place, size in enumerate(dims) if isinstance(size, int) and size in (4, 6, 8, 12)]
    if pairs and b.draw.chance(0.5):
        place = b.draw.one(*pairs)
        dims[place : place + 2] = [dims[place] * dims[place + 1]]  # type: ignore[operator]
    elif splittable:
        place = b.draw.one(*splittable)
        dims[place : place + 1] = [2, int(dims[place]) // 2]
    parts = []
    shape = b.add("Shape", [x.name], "int64", (x.rank,))
    for size in dims:
        if isinstance(size, str):
            parts.append(b.add("Gather", [shape.name, b.constant([x.dims.index(size)])], "int64", (1,)).name)
        else:
            parts.append(b.constant([size]))
    target = b.add("Concat", parts, "int64", (len(dims),), axis=0)
    symbols = [place for place, size in enumerate(dims) if isinstance(size, str)]
    if len(symbols) == 1 and b.draw.chance(0.6):
        target = Known(b.constant([-1 if isinstance(size, str) else size for size in dims]), "int64", (len(dims),))
    return b.add("Reshape", [x.name, target.name], x.dtype, dims)


@step(2)
def concat(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.rank >= 1)
    if x is None:
        return None
    fixed = [axis for axis, size in enumerate(x.dims) if isinstance(size, int)]
    if not fixed:
        return None
    axis = b.draw.one(*fixed)

    def fits(known: Known) -> bool:
        return (known.dtype == x.dtype and known.rank == x.rank and isinstance(known.dims[axis], int)
                and all(place == axis or size == x.dims[place] for place, size in enumerate(known.dims)))

    others = [b.pick(fits) or x for _ in range(b.draw.int(1, 2))]
    total = sum(int(known.dims[axis]) for known in [x, *others])
    dims = [total if place == axis else size for place, size in enumerate(x.dims)]
    return b.add("Concat", [known.name for known in [x, *others]], x.dtype, dims, axis=axis)


@step(2)
def split(b: Builder) -> list[Known] | None:
    x = b.pick(lambda known: any(isinstance(size, int) and size >= 2 for size in known.dims))
    if x is None:
        return None
    axis = b.draw.one(*[place for place, size in enumerate(x.dims) if isinstance(size, int) and size >= 2])
    cut = b.draw.int(1, int(x.dims[axis]) - 1)
    parts = [Known(b.name("v"), x.dtype, (*x.dims[:axis], size, *x.dims[axis + 1 :]))
             for size in (cut, int(x.dims[axis]) - cut)]
    b.nodes.append(helper.make_node("Split", [x.name, b.constant([cut, int(x.dims[axis]) - cut])],
                                    [part.name for part in parts], axis=axis))
    return parts


@step(3)
def take(b: Builder) -> Known | None:
    """Slice or Gather: a part of a fixed axis, or an axis of any size backwards."""
    x = b.pick(lambda known: known.rank >= 1)
    if x is None:
        return None
    axis = b.draw.int(0, x.rank - 1)
    size = x.dims[axis]
    if isinstance(size, str) or b.draw.chance(0.2):
        ends = [b.constant([value]) for value in (-1, b.draw.one(-(2**31), -(2**63) + 1), axis, -1)]
        return b.add("Slice", [x.name, *ends], x.dtype, x.dims)
    if b.draw.chance(0.5):
        start = b.draw.int(0, max(0, size - 1))
        stop = b.draw.int(start + 1, max(size, start + 1))
        bounds = [b.constant([value]) for value in (start, stop, axis - x.rank * b.draw.flag())]
        return b.add("Slice", [x.name, *bounds], x.dtype, [*x.dims[:axis], stop - start, *x.dims[axis + 1 :]])
    indices = b.draw.indices(b.draw.shape(0, 1, 1), size)
    return b.add("Gather", [x.name, b.constant(indices)], x.dtype, [*x.dims[:axis], *indices.shape, *x.dims[axis + 1 :]],
                 axis=axis)


@step(2)
def expand(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.rank >= 1)
    other = b.pick(lambda known: x is not None and broadcast(x.dims, known.dims) == known.dims)
    if x is None or other is None:
        return None
    shape = b.add("Shape", [other.name], "int64", (other.rank,))
    if b.draw.chance(0.5):
        return b.add("Expand", [x.name, shape.name], x.dtype, other.dims)
    value = numpy_helper.from_array(np.array([b.draw.real(-1, 1)], np.float32))
    return b.add("ConstantOfShape", [shape.name], "float", other.dims, value=value)


@step(1)
def positions(b: Builder) -> Known | None:
    """Numbers from 0 to a size of the run."""
    x = b.pick(lambda known: known.rank >= 1)
    if x is None:
        return None
    axis = b.draw.int(0, x.rank - 1)
    shape = b.add("Shape", [x.name], "int64", (x.rank,))
    size = b.add("Gather", [shape.name, b.constant(axis)], "int64", ())
    return b.add("Range", [b.constant(0), size.name, b.constant(1)], "int64", (x.dims[axis],))


@step(1)
def pad(b: Builder) -> Known | None:
    x = b.real(1, 4)
    if x is None:
        return None
    pads = [[b.draw.int(0, 2) if isinstance(size, int) else 0 for size in x.dims] for _ in range(2)]
    dims = [size if isinstance(size, str) else size + before + after for size, before, after in zip(x.dims, *pads)]
    return b.add("Pad", [x.name, b.constant(pads[0] + pads[1])], x.dtype, dims)


@step(1)
def top_k(b: Builder) -> Known | None:
    x = b.pick(lambda known: known.dtype == "float" and known.rank >= 1 and isinstance(known.dims[-1], int))
    if x is None:
        return None
    k = b.draw.int(1, int(x.dims[-1]))
    values = Known(b.name("v"), x.dtype, (*x.dims[:-1], k))
    b.nodes.append(helper.make_node("TopK", [x.name, b.constant([k])], [values.name, b.name("v")], axis=-1))
    return values


def scalar_of(b: Builder) -> Known | None:
    """A bool of the run: whether the sum of something is above something."""
    x = b.real()
    if x is None:
        return None
    total = b.add("ReduceSum", [x.name], x.dtype, (), keepdims=0)
    kind = np.float64 if x.dtype == "double" else np.float32
    return b.add("Greater", [total.name, b.constant(b.draw.real(-2, 2), kind)], "bool", ())


def array_of(known: Known, sizes: dict[str, int], draw: Draw) -> Array:
    """Numbers for an input."""
    dims = [sizes[size] if isinstance(size, str) else size for size in known.dims]
    return draw.array(known.dtype, dims)
