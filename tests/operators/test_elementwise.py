"""Elementwise operators in every version and broadcast form."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from onnx_systemds import import_model
from onnx_systemds.scoring import ScoringFunction
from tests.operators.harness import Array, Case, check_case, random

X = random(2, 3, 4, 5)
BROADCASTS = [(2, 3, 4, 5), (5,), (4, 5), (3, 1, 1), (1, 3, 1, 1), (2, 1, 1, 1), (2, 3, 1, 1), (1, 1, 4, 1), (2, 1, 4, 5),
              (1,), (), (2, 1, 1, 5), (1, 3, 1, 5)]  # fmt: skip

FLOATS = np.array([5.3, -5.3, 0, np.inf, -np.inf, np.nan, 7, -7], np.float32)


def whole(dtype: str, *dims: int, seed: int = 0) -> Array:
    """Integers over the whole range of a type, at most 51 bits of it, with the extremes among them."""
    limits = np.iinfo(dtype)
    low, high = max(int(limits.min), -(2**50)), min(int(limits.max), 2**50)
    numbers = np.random.default_rng(seed).integers(low, high, dims, dtype, endpoint=True)
    numbers = np.array(numbers, dtype)
    numbers.flat[0], numbers.flat[-1] = low, high
    return numbers


def divided(a: Array, b: Array) -> Array:
    """The quotient of integers without its fraction."""
    left, right = a.astype(object), b.astype(object)
    return (np.sign(left) * np.sign(right) * (abs(left) // abs(right))).astype(a.dtype)


CASES = [
    *[Case(op, 14, {"a": X, "b": random(*dims, seed=1)}) for op in ("Add", "Sub", "Div") for dims in BROADCASTS],
    *[Case(op, 14, {"a": random(*dims, seed=1), "b": X}) for op in ("Mul", "Sub", "Div") for dims in BROADCASTS],
    Case("Sub", 14, {"a": random(4, 1), "b": random(5)}, note="column and row"),
    *[
        Case("Add", 6, {"a": X, "b": random(*dims, seed=1)}, {"broadcast": 1, "axis": axis},
             expected=lambda a, b, broadcast, axis: a + b.reshape((*b.shape, *[1] * (4 - axis - b.ndim))))
        for dims, axis in [((3,), 1), ((3, 4), 1), ((2,), 0), ((4, 5), 2)]
    ],
    Case("Greater", 9, {"a": X, "b": random(5, seed=2)}),
    Case("Less", 9, {"a": random(5, seed=2), "b": X}),
    Case("Max", 13, {"a": X, "b": random(5, seed=2), "c": random(3, 1, 1, seed=3)}),
    Case("Div", 14, {"a": random(3, 4, dtype="int32"), "b": np.array([3, -2, 5, -7], np.int32)},
         expected=lambda a, b: np.trunc(a / b).astype(np.int32)),
    *[Case(op, 14, {"a": whole(dtype, 4, 9), "b": whole(dtype, *dims, seed=1)}, expected=f, note=f"wraps {dtype}")
      for op, f in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply))
      for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32") for dims in ((4, 9), (9,), (4, 1), ())],
    *[Case("Mul", 14, {"a": whole(dtype, *dims), "b": np.array(factor, dtype)}, constants=["b"], note=f"{dtype} {factor}",
           expected=np.multiply)
      for dtype in ("int32", "uint32") for dims in ((3, 4), ()) for factor in (1000, 2**31 - 1)],
    Case("Sum", 13, {"a": random(2, 3), "b": random(3), "c": random(2, 1)}),
    *[Case("Div", 14, {"a": whole(dtype, 40), "b": whole(dtype, 40, seed=3) // 9 * 2 + 1}, expected=divided, note=dtype)
      for dtype in ("int8", "uint16", "int32", "uint32", "int64", "uint64")],
    *[Case("Mod", 13, {"a": whole(dtype, 40), "b": whole(dtype, 40, seed=3) // 9 * 2 + 1}, {"fmod": fmod}, note=dtype,
           expected=lambda a, b, fmod: np.fmod(a, b) if fmod else np.mod(a, b))
      for dtype in ("int8", "uint16", "int32", "uint32") for fmod in (0, 1)],
    Case("Mod", 13, {"a": FLOATS, "b": np.array([[3], [-3], [2.5], [np.inf], [-np.inf]], np.float32)}, {"fmod": 1},
         expected=lambda a, b, fmod: np.fmod(a, b)),
    *[Case(op, 13, {"x": whole(dtype, 8)}, expected=f, note=dtype)
      for op, f in (("Neg", np.negative), ("Abs", np.abs), ("Sign", np.sign)) for dtype in ("int8", "int16", "int32")],
    Case("Where", 16, {"c": random(3, 4, dtype="bool"), "a": random(3, 1), "b": random(4)}),
    *[Case("Where", 16, {"c": np.array(chosen), "a": random(3, 4), "b": random(3, 4, seed=1)}, note=f"all {chosen}")
      for chosen in (True, False)],
    Case("Where", 16, {"c": np.array(False), "a": np.array(2, np.float32), "b": random(3, 4)}, note="scalar or matrix"),
    Case("Clip", 13, {"x": X, "low": np.array(-0.5, np.float32), "high": np.array(0.5, np.float32)}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round", "Cast"])
def test_jumps_of_computed_floats(op: str) -> None:
    """0.3 / 0.1 is 3 in FP32 though not in FP64: what jumps there sees the FP32 number; infinities stay."""
    attributes = {"to": onnx.TensorProto.INT32} if op == "Cast" else {}
    nodes = [helper.make_node("Div", ["x", "step"], ["q"]), helper.make_node(op, ["q"], ["y"], **attributes)]
    given = [helper.make_tensor_value_info(name, 1, dims) for name, dims in (("x", [None]), ("step", []))]
    kind = 6 if op == "Cast" else 1
    graph = helper.make_graph(nodes, "jumps", given, [helper.make_tensor_value_info("y", kind, [None])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    step = np.float32(0.1)
    x = (np.arange(-2000, 2000, dtype=np.float32) / 2 * step).astype(np.float32)
    if op != "Cast":
        x = np.append(x, np.float32([np.inf, -np.inf]))
    feeds = {"x": x, "step": np.array(step)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    with ScoringFunction(import_model(model)) as function:
        np.testing.assert_array_equal(function(feeds)["y"], expected)
