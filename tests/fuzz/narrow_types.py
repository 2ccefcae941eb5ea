"""Random chains over narrow types: casts, quantising and back, with what moves, chooses and compares elements between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnx_systemds.model.protos import element_type, numpy_dtype
from tests.fuzz.drawing import Draw
from tests.fuzz.judging import ModelCase

_EIGHT = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
_FEW_BITS = ("int4", "uint4", "int2", "uint2", "float4e2m1")
_FLOATS = ("float", "float16", "bfloat16", "double")
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint32")
_QUANTIZED = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2", *_EIGHT, "float4e2m1")
_NUMBERS = (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, 5.0, -6.0, 7.0, 7.5, 100.0, -100.0, 127.5, -128.5, 240.0, 248.0,
            256.0, 448.0, 464.0, 480.0, 0.001, 2e-5, -0.06, 0.1, -0.7, 1.0625, 6.3, -17.0)
_EXTREME = (np.nan, np.inf, -np.inf, 57344.0, 61440.0, -65504.0, 70000.0, 3.4e38, -3.4e38, 1e-6, 1e-30, -1e-45, 65519.0)


@dataclass(frozen=True)
class _Value:
    name: str
    dtype: str
    dims: tuple[int, ...]


@dataclass
class _Chain:
    draw: Draw
    opset: int
    has_integers: bool
    values: list[_Value] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)

    def name(self, stem: str) -> str:
        return f"{stem}{len(self.nodes)}_{len(self.initializers)}_{len(self.values)}"

    def add(self, op_type: str, inputs: Sequence[str], dtype: str, dims: Sequence[int], **attributes: Any) -> _Value:
        value = _Value(self.name("v"), dtype, tuple(dims))
        self.nodes.append(helper.make_node(op_type, list(inputs), [value.name], **attributes))
        self.values.append(value)
        return value

    def constant(self, array: Any, dtype: str) -> str:
        name = self.name("c")
        with np.errstate(all="ignore"):
            self.initializers.append(numpy_helper.from_array(np.asarray(array).astype(numpy_dtype(dtype)), name))
        return name

    def longs(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64), "int64")

    def cast(self, x: _Value, dtype: str) -> _Value:
        if self.draw.chance(0.2):
            like = self.constant([1], dtype)
            return self.add("CastLike", [x.name, like], dtype, x.dims, **self._saturate(dtype))
        more = {"round_mode": self.draw.one("up", "down", "nearest")} if dtype == "float8e8m0" else {}
        return self.add("Cast", [x.name], dtype, x.dims, to=element_type(dtype), **more, **self._saturate(dtype))

    def _saturate(self, dtype: str) -> dict[str, int]:
        return {"saturate": self.draw.flag()} if "float8" in dtype and not self.has_integers and self.draw.chance(0.6) else {}

    def plain(self, x: _Value) -> _Value:
        """As a type that arithmetic and onnxruntime know."""
        if not self.has_integers:
            return x if x.dtype in ("float", "bool", "double") else self.cast(x, "float")
        return x if x.dtype in ("float", "int32", "int64", "bool", "double") else self.cast(
            x, "float" if "float" in x.dtype else self.draw.one("float", "int32", "int64"))


def _numbers(draw: Draw, dims: Sequence[int], dtype: str, *, extreme: bool = False) -> Any:
    if dtype in _INTEGERS:
        low = 0 if dtype[0] == "u" else -9
        return np.asarray(draw.rng.integers(low, 300 if draw.chance(0.2) else 10, dims)).astype(numpy_dtype(dtype))
    among = _NUMBERS + (_EXTREME if extreme and draw.chance(0.5) else ())
    with np.errstate(all="ignore"):
        return np.asarray(draw.rng.choice(among, dims)).astype(numpy_dtype(dtype))


# --- steps -----------------------------------------------------------------------------------------------------------


def _casting(c: _Chain, x: _Value) -> None:
    if not c.has_integers:
        c.cast(x, c.draw.one(*_FLOATS, *_EIGHT, "float4e2m1", *(("float8e8m0",) if c.opset >= 24 and x.dtype == "float" else ()), "bool"))
        return
    if x.dtype in _FEW_BITS or x.dtype in _EIGHT or x.dtype == "float8e8m0":
        c.cast(x, c.draw.one("float", "float", "float16", "bfloat16", *(() if "float" in x.dtype else ("int32", "int8"))))
        return
    if x.dtype in _INTEGERS:
        c.cast(x, c.draw.one(*_FLOATS, "int4", "uint4", "int8", "uint8", "int32", "bool", "int2", "uint2"))
        return
    c.cast(x, c.draw.one(*_FLOATS, *_EIGHT, *_EIGHT, *_FEW_BITS, "int8", "uint8", "int32", "bool"))


def _scales(c: _Chain, x: _Value, dtype: str, zero_dtype: str | None) -> tuple[list[str], dict[str, int]]:
    """Scale and zero point of one of three kinds, as inputs, and the attributes that say which."""
    draw, attributes, dims = c.draw, {}, ()
    way = draw.one("one", "axis", "block") if x.dims else "one"
    axis = draw.int(0, len(x.dims) - 1) if x.dims else 0
    if way != "one":
        attributes["axis"] = axis - len(x.dims) * draw.flag()
        dims = (x.dims[axis],)
    if way == "block":
        size = attributes["block_size"] = draw.int(1, 3)
        dims = (*x.dims[:axis], -(-x.dims[axis] // size), *x.dims[axis + 1 :])
    # of types with 16 bits such as leave nothing to round
    scale = draw.rng.choice([0.5, 1.0, 2.0, 0.25, *([3.0, 0.1, 0.01] if dtype == "float" else [4.0])], dims)
    inputs = [c.constant(scale, dtype)]
    if zero_dtype is not None:
        low, high = (0, 1) if "float" in zero_dtype else (-2, 2) if zero_dtype == "int2" else (0, 4)
        if zero_dtype[0] == "i" and zero_dtype != "int2":
            low = -3
        zero = np.zeros(dims) if "float" in zero_dtype else draw.rng.integers(low, high, dims)
        inputs.append(c.constant(zero, zero_dtype))
    return inputs, attributes


def _quantize(c: _Chain, x: _Value) -> None:
    if x.dtype not in ("float", "float16", "bfloat16"):
        return
    dtype = c.draw.one(*(_QUANTIZED if c.has_integers else (*_EIGHT, "float4e2m1")))
    with_zero = c.draw.chance(0.6)
    scales, attributes = _scales(c, x, x.dtype, dtype if with_zero else None)
    if not with_zero:
        attributes["output_dtype"] = element_type(dtype)
    if "float8" in dtype and not c.has_integers and c.draw.chance(0.5):
        attributes["saturate"] = c.draw.flag()
    c.add("QuantizeLinear", [x.name, *scales], dtype, x.dims, **attributes)


def _dequantize(c: _Chain, x: _Value) -> None:
    if x.dtype not in (*_QUANTIZED, "int32"):
        return
    dtype = c.draw.one("float", "float", "float16", "bfloat16")
    zero = x.dtype if c.draw.chance(0.6) and x.dtype != "int32" else None
    scales, attributes = _scales(c, x, dtype, zero)
    if c.opset >= 23 and scales and dtype != "float" and c.draw.chance(0.3):
        dtype = c.draw.one("float", "float16")
        attributes["output_dtype"] = element_type(dtype)
    c.add("DequantizeLinear", [x.name, *scales], dtype, x.dims, **attributes)


def _move(c: _Chain, x: _Value) -> None:
    draw, rank = c.draw, len(x.dims)
    way = draw.one("Transpose", "Reshape", "Concat", "Slice", "Gather", "Unsqueeze", "Expand", "Tile", "Flatten", "Identity",
                   "Pad", "Squeeze", "Split", "GatherElements")
    if rank == 0 and way not in ("Unsqueeze", "Identity", "Reshape"):
        return
    axis = draw.int(0, rank - 1) if rank else 0
    if way == "Transpose":
        perm = [int(place) for place in draw.rng.permutation(rank)]
        c.add(way, [x.name], x.dtype, [x.dims[place] for place in perm], perm=perm)
    elif way == "Reshape":
        c.add(way, [x.name, c.longs(-1)], x.dtype, [int(np.prod(x.dims))])
    elif way in ("Concat",):
        others = [each for each in c.values if each.dtype == x.dtype and len(each.dims) == rank
                  and each.dims[:axis] + each.dims[axis + 1 :] == x.dims[:axis] + x.dims[axis + 1 :]]
        other = draw.one(*others)
        c.add(way, [x.name, other.name], x.dtype, [*x.dims[:axis], x.dims[axis] + other.dims[axis], *x.dims[axis + 1 :]], axis=axis)
    elif way == "Slice":
        c.add(way, [x.name, c.longs(-1), c.longs(-99), c.longs(axis), c.longs(-1)], x.dtype, x.dims)
    elif way == "Gather":
        found = draw.rng.integers(-x.dims[axis], x.dims[axis], 2)
        c.add(way, [x.name, c.longs(*found)], x.dtype, [*x.dims[:axis], 2, *x.dims[axis + 1 :]], axis=axis)
    elif way == "GatherElements":
        found = draw.rng.integers(0, x.dims[axis], x.dims)
        c.add(way, [x.name, c.constant(found, "int64")], x.dtype, x.dims, axis=axis)
    elif way == "Unsqueeze":
        c.add(way, [x.name, c.longs(0)], x.dtype, [1, *x.dims])
    elif way == "Squeeze" and x.dims[0] == 1:
        c.add(way, [x.name, c.longs(0)], x.dtype, x.dims[1:])
    elif way == "Expand":
        c.add(way, [x.name, c.longs(2, *x.dims)], x.dtype, [2, *x.dims])
    elif way == "Tile":
        c.add(way, [x.name, c.longs(*[1 + (place == axis) for place in range(rank)])], x.dtype,
              [size * (1 + (place == axis)) for place, size in enumerate(x.dims)])
    elif way == "Flatten":
        c.add(way, [x.name], x.dtype, [int(np.prod(x.dims[:axis])), int(np.prod(x.dims[axis:]))], axis=axis)
    elif way == "Identity":
        c.add(way, [x.name], x.dtype, x.dims)
    elif way == "Pad":
        pads = c.longs(*[draw.int(0, 1) for _ in range(2 * rank)])
        counts = numpy_helper.to_array(c.initializers[-1])
        value = [c.constant(1, x.dtype)] if draw.chance(0.5) else []
        c.add(way, [x.name, pads, *value], x.dtype,
              [size + int(counts[place] + counts[place + rank]) for place, size in enumerate(x.dims)])


def _choose(c: _Chain, x: _Value) -> None:
    draw = c.draw
    same = [each for each in c.values if (each.dtype, each.dims) == (x.dtype, x.dims)]
    other = draw.one(*same).name if draw.chance(0.6) or x.dtype == "bool" else c.constant(_numbers(draw, [1] if x.dims else [], "float"), x.dtype)
    way = draw.one("Where", "Equal", "Less", "GreaterOrEqual", "Max", "Where")
    if way == "Where":
        flags = [each for each in c.values if each.dtype == "bool" and each.dims == x.dims]
        condition = draw.one(*flags).name if flags else c.constant(draw.rng.random(x.dims) < 0.5, "bool")
        c.add(way, [condition, x.name, other], x.dtype, x.dims)
    elif x.dtype in ("float", "float16", "bfloat16", "double", "int32", "int64", "int8", "uint8"):
        c.add(way, [x.name, other], x.dtype if way == "Max" else "bool", x.dims)


def _calculate(c: _Chain, x: _Value) -> None:
    draw = c.draw
    if x.dtype in ("int8", "uint8") and len(x.dims) == 2 and draw.chance(0.6):
        low = 0 if draw.chance(0.5) else -4
        kind = "int8" if low else "uint8"
        size = draw.int(1, 3)
        w = c.constant(draw.rng.integers(low, 5, [x.dims[1], size]), kind)
        zeros = [c.constant(draw.int(0, 3), x.dtype), c.constant(draw.int(0, 2), kind)][: draw.int(0, 2)]
        c.add("MatMulInteger", [x.name, w, *zeros], "int32", [x.dims[0], size])
    elif x.dtype in _FLOATS:
        other = c.constant(_numbers(draw, [1] if x.dims else [], "float"), x.dtype)
        op_type = draw.one("Add", "Mul", "Sub", "Neg", "Abs", "Relu", "ReduceMax")
        if op_type in ("Add", "Mul", "Sub"):
            c.add(op_type, [x.name, other] if draw.flag() else [other, x.name], x.dtype, x.dims)
        elif op_type.startswith("Reduce"):
            c.add(op_type, [x.name], x.dtype, [1] * len(x.dims))
        else:
            c.add(op_type, [x.name], x.dtype, x.dims)
    elif x.dtype in _INTEGERS and x.dtype[0] == "i":
        c.add(draw.one("Neg", "Abs", "Sign"), [x.name], x.dtype, x.dims)
    elif x.dtype == "bool":
        c.add("Not", [x.name], x.dtype, x.dims)


# --- cases -----------------------------------------------------------------------------------------------------------


def case(seed: int) -> ModelCase:
    """The chain of a seed, and its calls."""
    draw = Draw(seed)
    opset = draw.one(21, 21, 23, 25)
    whole = draw.chance(0.6)  # what integers become of NaN and infinities is not said
    c = _Chain(draw, opset, whole)
    dims = tuple(draw.int(1, 4) for _ in range(draw.int(0, 3)))
    given = [_Value(f"x{place}", draw.one("float", "float", "float", "float16", "bfloat16", *(("int8", "uint8", "int32") if whole else ())), dims)
             for place in range(draw.int(1, 2))]
    c.values += given
    steps = (_casting, _casting, _quantize, _quantize, _dequantize, _dequantize, _move, _move, _move, _choose, _choose,
             _calculate)
    for _ in range(draw.int(2, 7)):
        x = c.values[-1] if draw.chance(0.75) else draw.one(*c.values)
        if x.dtype in (*_FEW_BITS, *_EIGHT) and draw.chance(0.2):
            _dequantize(c, x)
        else:
            draw.one(*steps)(c, x)
    own = c.values[len(given) :] or [c.add("Identity", [given[0].name], given[0].dtype, dims)]
    chosen = {value.name: value for value in (own[-1], draw.one(*own))}
    outputs = list({value.name: value for value in
                    map(c.plain, chosen.values())}.values())
    infos = [helper.make_tensor_value_info(value.name, element_type(value.dtype),
                                           ["N", *dims[1:]] if dims and draw.chance(0.1) else dims) for value in given]
    outs = [helper.make_tensor_value_info(value.name, element_type(value.dtype), [None] * len(value.dims)) for value in outputs]
    graph = helper.make_graph(c.nodes, "narrow", infos, outs, c.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset < 23 else 11 if
                              opset < 25 else 13)
    calls = [{value.name: _numbers(draw, dims, value.dtype, extreme=not whole) for value in given} for _ in range(2)]
    return ModelCase(seed, model, (calls[0], calls[1], calls[0]), draw.one(1, 20), True)
