"""Bit patterns: and, or, xor, not, shifts of every integer type, broadcasting in every direction."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array, Case, at_sizes, check_case

NUMPY = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}
NARROW = ["int8", "uint8", "int16", "uint16", "int32"]
WIDE = ["uint32", "int64", "uint64"]

FLOATS = np.concatenate([
    np.array([0, -0.0, 1, -1, 1e-45, -1e-45, 1.1754944e-38, 1.1754942e-38, 3.4028235e38, -3.4028235e38, np.inf, -np.inf,
              np.nan, 0.1, -2.5, 8, 0.99999994, 1.9999999], np.float32),
    np.ldexp(np.random.default_rng(0).standard_normal(200), np.random.default_rng(1).integers(-149, 126, 200))
    .astype(np.float32)])


def bits(dtype: str, *dims: int, seed: int = 0) -> Array:
    """Numbers over the whole range of a type, at most 53 bits of it, with the extremes among them."""
    kind = np.iinfo(dtype)
    low, high = max(int(kind.min), -(2**52)), min(int(kind.max), 2**52)
    numbers = np.random.default_rng(seed).integers(low, high, dims, endpoint=True).astype(dtype)
    numbers.flat[0], numbers.flat[-1] = low, high
    return numbers


def left(x: Array, y: Array, direction: str) -> Array:
    """Shifts by Python's integers, wrapped to the type."""
    width, signed = x.dtype.itemsize * 8, x.dtype.kind == "i"

    def one(number: int, amount: int) -> int:
        amount = amount if 0 <= amount < width else width
        moved = number << amount if direction == "LEFT" else number >> amount
        moved %= 1 << width
        return moved - (1 << width) if signed and moved >> (width - 1) else moved

    pairs = np.broadcast(x, y)
    return np.array([one(int(a), int(b)) for a, b in pairs], dtype=x.dtype).reshape(pairs.shape)


CASES = [
    *[Case(op_type, 18, {"a": bits(dtype, 3, 4, 5), "b": bits(dtype, 3, 4, 5, seed=1)}, note=dtype,
           expected=NUMPY[op_type])
      for op_type in NUMPY for dtype in [*NARROW, *WIDE]],
    *[Case("BitwiseXor", 18, {"a": bits(dtype, *left_dims), "b": bits(dtype, *right_dims, seed=1)}, note=dtype,
           expected=np.bitwise_xor)
      for dtype in ("int32", "int64") for left_dims, right_dims in [
          ((2, 3, 4, 5), (5,)), ((4,), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((3, 1), (1, 4)), ((2, 1, 4), (2, 3, 1)),
          ((), (3, 4)), ((1,), ()), ((2, 3), (2, 1))]],
    *[Case("BitwiseNot", 18, {"x": bits(dtype, 2, 3, 4)}, expected=np.invert, note=dtype)
      for dtype in [*NARROW, "uint32"]],
    Case("BitwiseNot", 18, {"x": np.array([-(2**40), 7, -1, 2**50])}, expected=np.invert),
    *[Case("BitShift", opset, {"x": bits(dtype, 3, 2, 8), "y": np.array([0, 1, 2, 3, 5, 7, 8, 63], dtype)},
           {"direction": direction}, expected=left, note=f"{dtype} {direction}")
      for opset, dtype in [(11, "uint8"), (11, "uint16"), (11, "uint32"), (28, "int8"), (28, "int16"), (28, "int32")]
      for direction in ("LEFT", "RIGHT")],
    *[Case("BitShift", 28, {"x": bits(dtype, *dims), "y": np.array(amount, dtype)}, {"direction": direction},
           expected=left, note=f"{dtype} {direction} by {amount}")
      for dtype in ("int8", "int32") for dims in ((5,), (), (2, 3)) for direction in ("LEFT", "RIGHT")
      for amount in (3, -1, [2])],
    Case("BitShift", 28, {"x": bits("int8", 6), "y": np.array([-1, -128, 8, 127, 7, 0], np.int8)},
         {"direction": "RIGHT"}, expected=left),
    Case("BitShift", 28, {"x": bits("int32", 6), "y": np.array([-1, -5, 32, 127, 31, 0], np.int32)},
         {"direction": "LEFT"}, expected=left),
    Case("BitShift", 11, {"x": np.array([1, 3, 7, 2**40], np.uint64), "y": np.array([[63], [2], [62]], np.uint64)},
         {"direction": "LEFT"}, expected=left),
    Case("BitShift", 11, {"x": np.array(3, np.uint64), "y": np.array(62, np.uint64)}, {"direction": "LEFT"},
         expected=lambda x, y, direction: x << y),
    Case("Identity", 16, {"x": np.array(3 << 62, np.uint64)}, expected=lambda x: x),
    Case("BitShift", 11, {"x": bits("uint64", 3, 4), "y": np.array(3, np.uint64)}, {"direction": "RIGHT"},
         expected=left),
    *[Case("BitCast", 26, {"x": bits(source, 2, 3, 4)}, {"to": number}, note=source,
           expected=lambda x, to, target=target: x.view(target))
      for source, target, number in [("int8", "uint8", 2), ("uint8", "int8", 3), ("uint16", "int16", 5),
                                     ("int32", "uint32", 12), ("uint32", "int32", 6), ("int64", "int64", 7)]],
    *[Case("BitCast", 26, {"x": FLOATS.view(source)}, {"to": number}, note=f"{source} {target}",
           expected=lambda x, to, target=target: x.view(target), tolerance=0)
      for source, target, number in [("float32", "int32", 6), ("float32", "uint32", 12), ("int32", "float32", 1),
                                     ("uint32", "float32", 1)]],
    Case("BitCast", 26, {"x": np.array(-1.75, np.float32)}, {"to": 6}, expected=lambda x, to: x.view("int32")),
    *[Case(op_type, 18, {"a": bits(dtype, 2, 3, 4), "b": bits(dtype, 3, 1, seed=1)}, note=dtype,
           symbols={"a": ["batch", "rows", 4], "b": ["rows", 1]}, expected=NUMPY[op_type],
           sizes=[{"a": bits(dtype, 1, 5, 4), "b": bits(dtype, 5, 1)}])
      for op_type in NUMPY for dtype in ("int16", "int64")],
    *[at_sizes(Case("BitwiseNot", 18, {"x": bits(dtype, 2, 3, 4)}, expected=np.invert, note=dtype),
               {"x": ["batch", "rows", 4]}, {"x": bits(dtype, 1, 5, 4)}) for dtype in ("uint8", "int32")],
    *[at_sizes(Case("BitShift", 11, {"x": bits("uint8", 2, 3, 2, 4), "y": np.arange(3, dtype=np.uint8).reshape(3, 1, 1)},
                    {"direction": direction}, expected=left, note=direction),
               {"x": ["batch", "rows", 2, 4], "y": ["rows", 1, 1]},
               {"x": bits("uint8", 1, 5, 2, 4), "y": np.arange(5, dtype=np.uint8).reshape(5, 1, 1)})
      for direction in ("LEFT", "RIGHT")],
    *[at_sizes(Case("BitCast", 26, {"x": bits(source, 2, 3, 4)}, {"to": number}, note=source,
                    expected=lambda x, to, target=target: x.view(target)),
               {"x": ["batch", 3, "width"]}, {"x": bits(source, 1, 3, 6)})
      for source, target, number in [("int8", "uint8", 2), ("int32", "uint32", 12)]],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_bits_of_computed_numbers() -> None:
    """What is computed has more digits than the type: it is rounded half to even, also next to powers of 2."""
    model = parser.parse_model("""<ir_version: 13, opset_import: ["": 26]>
        g (float[n] x, float[n] d) => (int32[n] y) { q = Div(x, d) y = BitCast<to = 6>(q) }""")
    x = np.concatenate([FLOATS, 2.0 ** np.arange(-149, 128)]).astype(np.float32)
    for divisor in (np.float32(3), np.float32(4)):  # by 4, halves come up among the smallest numbers
        with ScoringFunction(import_model(model)) as function:
            found = function({"x": x, "d": np.full_like(x, divisor)})["y"]
        is_nan = np.isnan(x)
        np.testing.assert_array_equal(found[~is_nan], (x / divisor).view(np.int32)[~is_nan])
