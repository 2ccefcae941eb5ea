"""Elementwise operators of two and more inputs in every version and broadcast form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, parser

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import NARROW, NEAR, PAIRS, POSITIVE, Derivative, near
from tests.operators.harness import Array, Case, at_sizes, check_case, random

X = random(2, 3, 4, 5)
BROADCASTS = [(2, 3, 4, 5), (5,), (4, 5), (3, 1, 1), (1, 3, 1, 1), (2, 1, 1, 1), (2, 3, 1, 1), (1, 1, 4, 1), (2, 1, 4, 5),
              (1,), (), (2, 1, 1, 5), (1, 3, 1, 5)]

FLOATS = np.array([5.3, -5.3, 0, np.inf, -np.inf, np.nan, 7, -7], np.float32)


def whole_range(dtype: str, *dims: int, seed: int = 0) -> Array:
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


def legacy(function: Any) -> Any:
    """Broadcasting before opset 7: only if asked for, from an axis of the first input on."""

    def expected(a: Array, b: Array, broadcast: int = 0, axis: int | None = None, **_: Any) -> Array:
        start = a.ndim - b.ndim if axis is None else axis % a.ndim
        aligned = b.reshape((*b.shape, *[1] * (a.ndim - start - b.ndim)))
        found: Array = function(a, aligned if broadcast else b)
        return found

    return expected


def fold(function: Any) -> Any:
    """A function of two arrays over any number of them."""

    def expected(*arrays: Array, **_: Any) -> Array:
        result = arrays[0]
        for array in arrays[1:]:
            result = function(result, array)
        return result

    return expected


def whole(*dims: int) -> Array:
    """Whole numbers, so that equal ones occur."""
    return np.asarray(np.round(random(*dims, seed=1)))


def powers(a: Array, b: Array) -> Array:
    """In the type of the base."""
    return np.power(a.astype(np.float64), b).astype(a.dtype)


ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
COMPARED = {"Equal": np.equal, "Greater": np.greater, "Less": np.less}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
VARIADIC = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}
WHOLE = np.round(X)
FORMS: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((2, 3, 4, 5), {}), ((3,), {"broadcast": 1, "axis": 1}), ((4, 5), {"broadcast": 1}),
    ((3, 4), {"broadcast": 1, "axis": -3}), ((1,), {"broadcast": 1})]

CASES = [
    *[Case(op, 14, {"a": X, "b": random(*dims, seed=1)}) for op in ("Add", "Sub", "Div") for dims in BROADCASTS],
    *[Case(op, 14, {"a": random(*dims, seed=1), "b": X}) for op in ("Mul", "Sub", "Div") for dims in BROADCASTS],
    Case("Sub", 14, {"a": random(4, 1), "b": random(5)}, note="column and row"),
    *[
        Case("Add", 6, {"a": X, "b": random(*dims, seed=1)}, {"broadcast": 1, "axis": axis},
             expected=lambda a, b, broadcast, axis: a + b.reshape((*b.shape, *[1] * (4 - axis - b.ndim))))
        for dims, axis in [((3, 4), 1), ((2,), 0), ((4, 5), 2)]
    ],
    *[Case(op, 14, {"a": X, "b": np.ones(dims, np.float32)}, constants=["b"], note=f"by ones {dims}")
      for op in ("Mul", "Div") for dims in ((), (5,), (2, 3, 4, 5), (2, 1, 1, 1, 1))],
    *[Case(op, 14, {"a": X, "b": np.zeros(dims, np.float32)}, constants=["b"], note=f"zeros {dims}")
      for op in ("Add", "Sub") for dims in ((), (5,), (2, 1, 1, 1, 1))],
    Case("Add", 14, {"a": np.zeros(4, np.float32), "b": FLOATS.reshape(2, 4)}, constants=["a"], note="zeros first"),
    Case("Add", 14, {"a": np.zeros((3, 1), np.int64), "b": np.arange(4)}, constants=["a"], note="zeros above"),
    Case("Sub", 14, {"a": np.zeros(5, np.float32), "b": X}, constants=["a"], note="of zeros"),
    *[Case("Mul", 14, {"a": FLOATS.reshape(2, 4), "b": np.zeros(dims, np.float32)}, constants=["b"], note=f"by zeros {dims}")
      for dims in ((), (4,), (2, 4))],
    Case("Mul", 14, {"a": np.zeros((), np.float32), "b": FLOATS}, constants=["a"], note="zero first"),
    Case("Mul", 14, {"a": X, "b": np.zeros((), np.float32)}, constants=["b"], note="finite by zero"),
    Case("Mul", 14, {"a": np.arange(12).reshape(3, 4), "b": np.array(0)}, constants=["b"], note="integers by zero"),
    Case("Mul", 14, {"a": np.ones((3, 1), np.float32), "b": random(3, 4)}, constants=["a"], note="ones first"),
    Case("Div", 14, {"a": np.ones(4, np.float32), "b": random(3, 4)}, constants=["a"], note="ones above"),
    Case("Mul", 6, {"a": X, "b": np.ones(3, np.float32)}, {"broadcast": 1, "axis": 1}, constants=["b"], note="by ones",
         expected=lambda a, b, broadcast, axis: a),
    Case("Greater", 9, {"a": X, "b": random(5, seed=2)}),
    Case("Less", 9, {"a": random(5, seed=2), "b": X}),
    Case("Max", 13, {"a": X, "b": random(5, seed=2), "c": random(3, 1, 1, seed=3)}),
    Case("Div", 14, {"a": random(3, 4, dtype="int32"), "b": np.array([3, -2, 5, -7], np.int32)},
         expected=lambda a, b: np.trunc(a / b).astype(np.int32)),
    *[Case(op, 14, {"a": whole_range(dtype, 4, 9), "b": whole_range(dtype, *dims, seed=1)}, expected=f, note=f"wraps {dtype}")
      for op, f in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply))
      for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32") for dims in ((4, 9), (9,), (4, 1), ())],
    *[Case("Mul", 14, {"a": whole_range(dtype, *dims), "b": np.array(factor, dtype)}, constants=["b"], note=f"{dtype} {factor}",
           expected=np.multiply)
      for dtype in ("int32", "uint32") for dims in ((3, 4), ()) for factor in (1000, 2**31 - 1)],
    Case("Sum", 13, {"a": random(2, 3), "b": random(3), "c": random(2, 1)}),
    *[Case("Div", 14, {"a": whole_range(dtype, 40), "b": whole_range(dtype, 40, seed=3) // 9 * 2 + 1}, expected=divided, note=dtype)
      for dtype in ("int8", "uint16", "int32", "uint32", "int64", "uint64")],
    *[Case("Mod", 13, {"a": whole_range(dtype, 40), "b": whole_range(dtype, 40, seed=3) // 9 * 2 + 1}, {"fmod": fmod}, note=dtype,
           expected=lambda a, b, fmod: np.fmod(a, b) if fmod else np.mod(a, b))
      for dtype in ("int8", "uint16", "int32", "uint32") for fmod in (0, 1)],
    # quotients of doubles that FP64 rounds to the next whole number, and those that it has no room for
    at_sizes(Case("Mod", 13, {"a": np.array([[1, -1, 0.7, 1e300, np.nan, np.inf], [1e15, 5e-324, 0, 7, 1.7e308, 3]]),
                              "b": np.array([0.1, 1e-3, 0.1, 5e-324, 2, 3])}, {"fmod": 1}, note="double"),
             {"a": ["n", 6]}, {"a": np.array([[2.1, 2.1, 2.1, 2.1, -2.1, -1e200]])}),
    *[at_sizes(Case("Mod", 13, {"a": np.array([[1e20, 3e38, -1e20, 0, 0, 0], [1.5, -2, 1e10, 0, 0, 0]], np.float32),
                                "b": np.array(divisor, np.float32)}, {"fmod": 1}, constants={"b"}, note=f"quotients by {divisor}"),
               {"a": ["n", 6]}, {"a": np.array([[0, 0, 0, 1e30, 0, 0]], np.float32)}) for divisor in (3.0, 1e-3, 0.0)],
    *[Case("Mod", 13, {"a": FLOATS, "b": np.array([[3], [-3], [2.5], [np.inf], [-np.inf], [0], [np.nan]], np.float32)}, {"fmod": fmod},
           note=f"of floats {fmod}", expected=lambda a, b, fmod: np.fmod(a, b) if fmod else np.mod(a, b)) for fmod in (0, 1)],
    *[Case(op, 13, {"x": whole_range(dtype, 8)}, expected=f, note=dtype)
      for op, f in (("Neg", np.negative), ("Abs", np.abs), ("Sign", np.sign)) for dtype in ("int8", "int16", "int32")],
    Case("Where", 16, {"c": random(3, 4, dtype="bool"), "a": random(3, 1), "b": random(4)}),
    *[Case("Where", 16, {"c": np.array(chosen), "a": random(3, 4), "b": random(3, 4, seed=1)}, note=f"all {chosen}")
      for chosen in (True, False)],
    Case("Where", 16, {"c": np.array(False), "a": np.array(2, np.float32), "b": random(3, 4)}, note="scalar or matrix"),
    *[Case("Where", 16, {"c": np.full((2, 1), chosen), "a": random(2, 3), "b": random(3)}, constants=["c"], note=f"known to be {chosen}")
      for chosen in (True, False)],
    Case("Clip", 13, {"x": X, "low": np.array(-0.5, np.float32), "high": np.array(0.5, np.float32)}),
    *[Case(op, opset, {"a": X, "b": random(*dims, seed=1)}, {**attributes, **({"consumed_inputs": [0, 0]} if opset == 1 else {})},
           expected=legacy(function), note=str(attributes))
      for op, function in ARITHMETIC.items() for opset in (1, 6) for dims, attributes in FORMS],
    *[Case(op, 1, {"a": WHOLE, "b": whole(*dims)}, attributes, expected=legacy(function),
           note=str(attributes)) for op, function in COMPARED.items() if op != "Equal" for dims, attributes in FORMS],
    *[Case("Equal", 1, {"a": WHOLE.astype(np.int32), "b": whole(*dims).astype(np.int32)}, attributes,
           expected=legacy(np.equal), note=str(attributes)) for dims, attributes in FORMS],
    *[Case(op, 1, {"a": random(2, 3, 4, 5, dtype="bool"), "b": random(*dims, seed=1, dtype="bool")}, attributes,
           expected=legacy(function), note=str(attributes)) for op, function in LOGIC.items() for dims, attributes in FORMS],
    *[Case("Pow", 1, {"a": np.abs(X), "b": random(*dims, seed=1)}, attributes, expected=legacy(np.power),
           note=str(attributes)) for dims, attributes in FORMS],
    *[Case(op, 9 if op != "Equal" else 13, {"a": WHOLE, "b": whole(*dims)})
      for op in COMPARED for dims in [(5,), (3, 1, 1), (2, 1, 4, 1), ()]],
    *[Case(op, opset, {"a": WHOLE, "b": whole(*dims)}, expected=function)
      for op, function in [("GreaterOrEqual", np.greater_equal), ("LessOrEqual", np.less_equal)]
      for opset in (12, 16) for dims in [(5,), (3, 1, 1), (2, 1, 4, 1), ()]],
    *[Case(op, opset, {"a": np.array([[1, np.nan, np.inf], [-np.inf, 2, np.nan]], np.float32),
                       "b": np.array([1, np.nan, np.inf], np.float32)}, note="not finite")
      for op, opset in [("Equal", 13), ("Greater", 13), ("Less", 13), ("GreaterOrEqual", 16), ("LessOrEqual", 16)]],
    Case("Equal", 13, {"a": random(3, 4, dtype="bool"), "b": random(4, dtype="bool", seed=1)}),
    *[Case(op, 7, {"a": random(2, 3, 4, dtype="bool"), "b": random(*dims, seed=1, dtype="bool")})
      for op in LOGIC for dims in [(4,), (2, 3, 4), (3, 1), (2, 1, 1), ()]],
    *[Case(op, 7, {"a": np.array(True), "b": np.array(False)}, note="rank 0") for op in LOGIC],
    *[Case("Pow", opset, {"a": np.abs(X), "b": random(*dims, seed=1)}) for opset in (7, 13, 15)
      for dims in [(5,), (3, 1, 1), (), (2, 3, 4, 5)]],
    Case("Pow", 15, {"a": np.array([0, 1, -1, 2, -2, np.inf, 0.5], np.float32),
                     "b": np.array([[0], [-0.5], [-2], [-np.inf], [np.inf], [np.nan], [3]], np.float32)}, note="special numbers"),
    Case("Pow", 15, {"a": random(3, 4), "b": np.array([0, 2, 3, -1], np.int64)}, expected=powers),
    Case("Pow", 13, {"a": random(3, 4, dtype="int32"), "b": np.array([0, 1, 2, 3], np.int32)}),
    *[Case("Mod", opset, {"a": random(2, 3, 4, dtype="int64"), "b": np.array([3, -2, 5, -7])}, {"fmod": fmod})
      for opset in (10, 13) for fmod in (0, 1)],
    Case("Mod", 13, {"a": X, "b": np.array([0.3, -0.7, 2, -1.1, 5], np.float32)}, {"fmod": 1}),
    Case("Mod", 13, {"a": random(3, 4, dtype="uint8"), "b": np.array(3, np.uint8)}),
    *[Case(op, opset, {name: random(2, 3, 4, 5, seed=seed) for seed, name in enumerate("abc"[:count])},
           {"consumed_inputs": [0] * count} if opset == 1 else {}, expected=fold(function), note=f"{count} inputs")
      for op, function in VARIADIC.items() for opset in (1, 6) for count in (1, 2, 3)],
    *[Case("Mean", opset, {name: random(2, 3, 4, seed=seed) for seed, name in enumerate("abc"[:count])},
           {"consumed_inputs": [0] * count} if opset == 1 else {}, note=f"{count} inputs",
           expected=lambda *arrays, **_: (sum(arrays) / len(arrays)).astype(np.float32))
      for opset in (1, 6) for count in (1, 2, 3)],
    *[Case(op, opset, {"a": X, "b": random(5, seed=2), "c": random(3, 1, 1, seed=3), "d": np.array(0.1, np.float32)})
      for op in ("Max", "Min", "Sum", "Mean") for opset in (8, 13)],
    *[Case(op, 13, {"a": np.array([[1, np.nan, np.inf], [-np.inf, 0, -2]], np.float32), "b": np.float32(number)},
           constants=("b",), note="one that changes nothing") for op, number in (("Max", -np.inf), ("Min", np.inf), ("Sum", 0))],
    *[Case(op, 13, {"a": X}, note="one input") for op in ("Max", "Min", "Sum", "Mean")],
    *[Case(op, 13, {f"x{number}": random(2, 3, seed=number) for number in range(120)}, note="many inputs")
      for op in ("Max", "Min", "Sum", "Mean")],
    *[Case(op, 13, {"a": random(4), "b": random(3, 1)}, note="column and row") for op in ("Max", "Min", "Sum", "Mean")],
    *[Case(op, 13, {"a": random(3, 4, dtype="int32"), "b": random(4, dtype="int32", seed=1)}) for op in ("Max", "Min")],
    Case("Clip", 1, {"x": X}, {"min": -0.5, "consumed_inputs": [0]},
         expected=lambda x, min, consumed_inputs: np.maximum(x, np.float32(min))),
    Case("Clip", 1, {"x": X}, {"max": 0.25}, expected=lambda x, max: np.minimum(x, np.float32(max))),
    Case("Clip", 6, {"x": X}, {"min": -0.5, "max": 0.5}), Case("Clip", 6, {"x": X}), Case("Clip", 6, {"x": X}, {"max": 0.5}),
    Case("Clip", 11, {"x": X, "low": None, "high": np.array(0.5, np.float32)}),
    Case("Clip", 12, {"x": random(3, 4, dtype="int8"), "low": np.array(-3, np.int8)}, constants=["low"]),
    Case("Clip", 13, {"x": np.array(3, np.float32), "low": None, "high": np.array(0.5, np.float32)}, note="rank 0"),
    Case("Clip", 13, {"x": X, "low": np.array(1, np.float32), "high": np.array(-1, np.float32)}, note="crossed"),
    *[Case(op, 14, {"a": np.zeros((2, 0, 3), np.float32), "b": random(3)}, expected=function, note="empty")
      for op, function in ARITHMETIC.items()],
    *[Case(op, 14, {"a": np.array(3, np.float32), "b": np.array(-2, np.float32)}, note="rank 0") for op in ARITHMETIC],
    *[Case(op, 14, {"a": random(3, 4, dtype=dtype), "b": np.array([3, 2, 5, 7], dtype)}, expected=function, note=dtype)
      for op, function in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.floor_divide)]
      for dtype in ("uint8",)],
    Case("Where", 9, {"c": np.array([True, False]), "a": random(3, 1), "b": np.array(7, np.float32)}),
    *[Case("Where", 16, {"c": np.array(c), "a": a, "b": b}, note=f"by {c}") for c in (True, False)
      for a, b in [(random(2, 3, 4), random(4, seed=1)), (random(2, 3), np.array(0, np.float32)),
                   (np.array(7, np.float32), random(2, 3))]],
    *[Case("Where", 16, {"c": np.array(c), "a": random(2, 3, 4), "b": b}, note=str(c)) for c in (True, False)
      for b in (random(2, 3, 4, seed=1), np.array(7, np.float32))],
    Case("Where", 16, {"c": random(2, 1, 4, dtype="bool"), "a": random(3, 1, dtype="int64"), "b": random(2, 3, 4, dtype="int64")}),
]

SIDES = {"a": ["batch", "seq", 4], "b": ["seq", 1]}
BOOLS = {"a": random(2, 3, 4, dtype="bool"), "b": random(3, 1, dtype="bool", seed=1)}
MORE_BOOLS = {"a": random(1, 5, 4, dtype="bool"), "b": random(5, 1, dtype="bool", seed=1)}
PAIR = {"a": np.abs(random(2, 3, 4)), "b": np.round(random(3, 1, seed=1)) + np.float32(0.5)}
MORE = {"a": np.abs(random(1, 5, 4)), "b": np.round(random(5, 1, seed=1)) + np.float32(0.5)}
IMAGES = {"a": ["n", 3, "h", "w"], "b": [3, 1, 1], "c": ["h", "w"]}
CASES += [
    *[at_sizes(Case(op, 18, PAIR), SIDES, MORE) for op in [*ARITHMETIC, *COMPARED, *VARIADIC, "Pow", "Mean",
                                                           "GreaterOrEqual", "LessOrEqual"]],
    *[at_sizes(Case(op, 14, {"a": PAIR["b"], "b": PAIR["a"]}), {"a": SIDES["b"], "b": SIDES["a"]},
               {"a": MORE["b"], "b": MORE["a"]}) for op in ("Sub", "Div", "Add")],
    *[at_sizes(Case(op, 6, {"a": X, "b": random(3, 4)}, {"broadcast": 1, "axis": 1}, expected=legacy(function)),
               {"a": ["n", "c", "h", 5], "b": ["c", "h"]}, {"a": random(1, 2, 6, 5), "b": random(2, 6)})
      for op, function in ARITHMETIC.items()],
    at_sizes(Case("Mod", 13, PAIR, {"fmod": 1}), SIDES, MORE),
    *[at_sizes(Case(op, 7, BOOLS), SIDES, MORE_BOOLS) for op in LOGIC],
    *[at_sizes(Case(op, 13, {"a": X, "b": random(3, 1, 1), "c": random(4, 5)}), IMAGES,
               {"a": random(1, 3, 6, 2), "c": random(6, 2)}) for op in ("Max", "Sum", "Mean")],
    at_sizes(Case("Where", 16, {"c": random(2, 3, 1, dtype="bool"), "a": random(3, 4), "b": np.array(-9, np.float32)}),
             {"c": ["batch", "seq", 1], "a": ["seq", 4]}, {"c": random(1, 5, 1, dtype="bool"), "a": random(5, 4)}),
    *[at_sizes(Case("Where", 16, {"c": np.array(c), "a": random(3, 4), "b": random(2, 3, 4)}, note=str(c)),
               {"a": ["seq", 4], "b": ["batch", "seq", 4]}, {"a": random(5, 4), "b": random(1, 5, 4)}) for c in (True, False)],
    at_sizes(Case("Where", 16, {"c": random(2, 1, 3, 3, dtype="bool"), "a": random(2, 4, 3, 3), "b": random(1)}),
             {"c": ["batch", 1, "seq", "seq"], "a": ["batch", 4, "seq", "seq"]},
             {"c": random(1, 1, 5, 5, dtype="bool"), "a": random(1, 4, 5, 5)}),
    *[at_sizes(Case("Where", 16, {"c": random(1, 3, dtype="bool"), "a": np.array(a, np.float32), "b": np.array(b, np.float32)}, constants=["a", "b"],
                    note=f"{a} or {b}"), {"c": [1, "n"]}, {"c": random(1, 5, dtype="bool")})
      for a, b in ((0, -3.4028234663852886e38), (0, 7), (7, 0), (-7, 0), (0, 0), (0, float("-inf")))],
    *[at_sizes(Case("Clip", 13, {"x": X, "low": low, "high": np.array(0.5, np.float32)}), {"x": ["n", 3, "h", "w"]},
               {"x": random(1, 3, 6, 2)}) for low in (None, np.array(-0.5, np.float32))],
]


DERIVATIVES = [
    *[Derivative("Mod", {"a": near(*a, low=-7, high=6), "b": near(*b, seed=1, low=0.6, high=2)}, {"fmod": 1}) for a, b in (((2, 3), (2, 3)), ((4, 1, 3), (2, 1)))],
    *[Derivative(op, {"x": NEAR}) for op in ("Exp", "Tanh", "Abs", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Atan", "Neg",
                                             "Floor", "Ceil", "Round", "Sign")],
    *[Derivative(op, {"x": POSITIVE}) for op in ("Log", "Sqrt", "Reciprocal")],
    *[Derivative(op, {"x": NARROW}) for op in ("Asin", "Acos")],
    Derivative("Exp", {"x": near()}),
    *[Derivative("Clip", {"x": NEAR, "low": np.array(low), "high": np.array(high)}) for low, high in ((-0.5, 1.0), (1.5, -1.0))],
    *[Derivative(op, {"a": near(*left), "b": near(*right, seed=1)}) for op, forms in (("Sub", PAIRS), ("Div", PAIRS), ("Mul", PAIRS[2:4]), ("Add", PAIRS[:2]),
                        ("Max", PAIRS[3:5]), ("Min", PAIRS[1:3]), ("Sum", PAIRS[2:4]))
      for left, right in forms],
    *[Derivative("Mean", {"a": near(*left), "b": near(*right, seed=1)}) for left, right in PAIRS[:2]],
    Derivative("Max", {"a": near(2, 3), "b": near(3, seed=1), "c": near(2, 1, seed=2)}),
    *[Derivative("Pow", {"a": near(*left, low=0.5, high=2), "b": near(*right, seed=1)}) for left, right in PAIRS[1:4]],
    *[Derivative("Pow", {"a": NEAR, "b": np.array(exponent)}, fixed=["b"]) for exponent in (2.0, 3, 0.0)],
    *[Derivative("Where", {"c": near(*left) > 0, "a": near(2, 3), "b": near(3, seed=1)}, fixed=["c"]) for left in ((2, 3), (2, 1))],
]


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


def test_a_choice_that_is_known_is_none() -> None:
    """Attention as ONNX defines it: whether a row is masked whole is known where there is no mask."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[2,3] a, float[3] b) => (float[2,3] y) <bool[1] c = {0}, bool[1] d = {1}> {
          e = Exp (b) f = Abs (a) chosen = Where (c, e, f) y = Where (d, chosen, e)
        }""")
    text = import_model(model).text
    assert [line for line in text.splitlines() if " = " in line and not line.startswith(("#", "gen"))] == ["  y = abs(a)"]


@pytest.mark.parametrize("chosen", [True, False])
def test_choice_by_a_filled_condition(chosen: bool) -> None:
    """The engine takes a matrix filled with a scalar of the run for one without zeros."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[2,3] a, float[2,3] b, bool c, float f) => (float[2,3] y, float[2,3] z) <int64[2] dims = {2, 3}> {
          filled = Expand (c, dims) y = Where (filled, a, b)
          numbers = Expand (f, dims) truth = Cast <to = 9> (numbers) z = Where (truth, a, b)
        }""")
    a, b = random(2, 3), random(2, 3, seed=1)
    with ScoringFunction(import_model(model)) as function:
        found = function({"a": a, "b": b, "c": np.array(chosen), "f": np.array(chosen, np.float32)})
    np.testing.assert_array_equal(found["y"], a if chosen else b)
    np.testing.assert_array_equal(found["z"], a if chosen else b)


@pytest.mark.parametrize("place", ["int64 place = {0}", "int64[1] place = {0}"])
def test_each_step_to_a_size_is_rounded(place: str) -> None:
    """As detection models scale images: 1134 * (800 / 1134) is 800 in FP64, and less in FP32."""
    dims = "[1]" if "[1]" in place else ""
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[h, w] x) => (float{dims} y, int64{dims} k) <{place}, float most = {{800}}, float limit = {{9}}> {{
          shape = Shape(x) height = Gather(shape, place) h = Cast<to = 1>(height) one = Reciprocal(h) scale = Mul(one, most)
          factor = Min(scale, limit) size = Mul(h, factor) y = Floor(size)
          other = Div(most, h) again = Mul(other, h) k = Cast<to = 7>(again) }}""")
    with ScoringFunction(import_model(model)) as score:
        for height in (1134, 1000, 1187, 1244):
            h = np.float32(height)
            found = score({"x": np.zeros((height, 1), np.float32)})
            assert found["y"].item() == np.floor(h * (np.float32(800) * (1 / h)))
            assert found["k"].item() == int(h * (np.float32(800) / h))
