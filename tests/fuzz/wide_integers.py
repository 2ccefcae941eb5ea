"""Random arithmetic of 64-bit integers up to their limits: what scripts give is exact, or is refused (docs/decisions/0020)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto, helper

from tests.fuzz.drawing import Array, Draw
from tests.fuzz.graph_builder import TYPES, Parts
from tests.fuzz.judging import ModelCase

_OPSET = 18
_WIDE = {"int64": np.int64, "uint64": np.uint64}
_NARROW = ("int32", "uint32", "int8", "uint8", "bool", "float", "double")


@dataclass
class _Made(Parts):
    """A graph in the making; values: names with their types, all of the dims of the input, or one more vector's."""

    draw: Draw
    kind: str
    size: int
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)

    def wide(self) -> str:
        return self.draw.one(*(name for name, dtype in self.values if dtype == self.kind))

    def number(self) -> str:
        """A value, or a constant that is small or at a limit."""
        if self.draw.chance(0.6):
            return self.wide()
        return self.constant(_integers(self.draw, self.kind, (self.draw.one(1, self.size),)), _WIDE[self.kind])


def _integers(draw: Draw, kind: str, dims: tuple[int, ...]) -> Array:
    """Small numbers, and those around powers of two and limits."""
    limits = np.iinfo(_WIDE[kind])
    flavour = draw.one("small", "small", "narrow", "edges", "wide")
    if flavour == "small":
        return np.asarray(draw.rng.integers(0 if kind == "uint64" else -9, 10, dims)).astype(_WIDE[kind])
    if flavour == "narrow":
        return np.asarray(draw.rng.integers(0 if kind == "uint64" else -(2**31), 2**32, dims)).astype(_WIDE[kind])
    near = [2**53, 2**52, 2**31, 2**32, 2**62, int(limits.max), int(limits.min), -(2**53), 0, 2**26]
    chosen = [draw.one(*near) + draw.int(-2, 2) if flavour == "edges" else draw.int(int(limits.min) // 2, int(limits.max) // 2)
              for _ in range(int(np.prod(dims)))]
    held = [int(float(number)) for number in chosen]  # what FP64 does not hold is refused at once
    return np.asarray([min(max(number, int(limits.min)), int(limits.max)) for number in held], _WIDE[kind]).reshape(dims)


def _arithmetic(made: _Made) -> None:
    op_type = made.draw.one("Add", "Add", "Sub", "Mul", "Min", "Max")
    pair = [made.wide(), made.number()]
    made.values.append((made.add(op_type, *(pair if made.draw.chance(0.7) else pair[::-1])), made.kind))


def _quotient(made: _Made) -> None:
    divisor = made.constant(made.draw.one(1, 2, 3, 10, 2**20, 2**33 + 1), _WIDE[made.kind])
    op_type = made.draw.one("Div", "Mod", "Mod")
    attributes = {"fmod": made.draw.flag()} if op_type == "Mod" else {}
    made.values.append((made.add(op_type, made.wide(), divisor, **attributes), made.kind))


def _sign(made: _Made) -> None:
    if made.kind == "int64":
        made.values.append((made.add(made.draw.one("Neg", "Abs", "Sign"), made.wide()), made.kind))


def _bits(made: _Made) -> None:
    way = made.draw.one("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")
    if way == "BitwiseNot":
        made.values.append((made.add(way, made.wide()), made.kind))
    elif way != "BitShift":
        made.values.append((made.add(way, made.wide(), made.number()), made.kind))
    elif made.kind == "uint64":
        by = made.constant(made.draw.one(0, 1, 7, 31, 40, 63), np.uint64)
        made.values.append((made.add(way, made.wide(), by, direction=made.draw.one("LEFT", "RIGHT")), made.kind))


def _compared(made: _Made) -> None:
    pair = [made.wide(), made.number()]
    condition = made.add(made.draw.one("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"), *pair)
    if made.draw.chance(0.6):
        made.values.append((made.add("Where", condition, made.wide(), made.number()), made.kind))
    else:
        made.values.append((condition, "bool"))


def _reduced(made: _Made) -> None:
    op_type = made.draw.one("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1")
    axes = made.constant([made.draw.int(0, 1)], np.int64)
    made.values.append((made.add(op_type, made.wide(), axes, keepdims=1), made.kind))


def _along(made: _Made) -> None:
    axis = made.draw.int(0, 1)
    way = made.draw.one("CumSum", "ArgMax", "Gather", "Concat", "Transpose", "TopK", "MatMul")
    if way == "CumSum":
        made.values.append((made.add(way, made.wide(), made.constant(axis, np.int64), reverse=made.draw.flag()), made.kind))
    elif way == "ArgMax" and made.kind == "int64":
        made.values.append((made.add(way, made.wide(), axis=axis, keepdims=1), "int64"))
    elif way == "Concat":
        made.values.append((made.add("ReduceMax", made.add(way, made.wide(), made.wide(), axis=axis), keepdims=1), made.kind))
    elif way == "Gather":
        made.values.append((made.add(way, made.wide(), made.constant([-1], np.int64), axis=axis), made.kind))
    elif way == "MatMul":
        turned = made.add("Transpose", made.wide())
        made.values.append((made.add("ReduceMin", made.add(way, made.wide(), turned), keepdims=1), made.kind))


def _cast(made: _Made) -> None:
    """To another type and back."""
    narrow = made.draw.one(*_NARROW, "uint64" if made.kind == "int64" else "int64")
    if narrow in ("float", "double") and made.draw.chance(0.6):
        return
    there = made.add("Cast", made.wide(), to=TYPES.get(narrow, TensorProto.UINT64))
    if narrow in ("int32", "bool", "float") or made.draw.chance(0.3):
        made.values.append((there, narrow))
    else:
        made.values.append((made.add("Cast", there, to=TensorProto.INT64 if made.kind == "int64" else TensorProto.UINT64), made.kind))


def case(seed: int) -> ModelCase:
    """The model of a seed."""
    draw = Draw(seed)
    kind = draw.one("int64", "int64", "uint64")
    made = _Made(draw, kind, draw.int(1, 4))
    rows: int | str = draw.one("N", "N", 2)
    names = ["x"] if draw.chance(0.4) else ["x", "y"]
    made.values += [(name, kind) for name in names]
    steps = (_arithmetic, _arithmetic, _quotient, _sign, _bits, _compared, _reduced, _along, _cast)
    for _ in range(draw.int(1, 6)):
        draw.one(*steps)(made)
    results = made.values[len(names):] or [(made.add("Identity", "x"), kind)]
    chosen = dict([results[-1], *(draw.one(*results) for _ in range(draw.int(0, 2)))])
    number = TYPES["int64"] if kind == "int64" else TensorProto.UINT64
    infos = [helper.make_tensor_value_info(name, number, [rows, made.size]) for name in names]
    outputs = [helper.make_tensor_value_info(name, TYPES.get(dtype, number), [None, None]) for name, dtype in chosen.items()]
    graph = helper.make_graph(made.nodes, "wide_integers", infos, outputs, made.constants)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", _OPSET)])
    calls = [{name: _integers(draw, kind, (2 if rows == 2 else draw.int(1, 3), made.size)) for name in names} for _ in range(4)]
    for feeds in calls:
        for name in names:
            feeds[name] = _integers(draw, kind, feeds["x"].shape)
    return ModelCase(seed, model, tuple(calls), is_exact=True)
