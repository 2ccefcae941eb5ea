"""Casts between all numeric element types; the judge is numpy with ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import NEAR, Derivative
from tests.operators.harness import Array, Case, case_model, check_case, dtype_named, random

FLOATS = np.array([0, 0.5, 1.5, 2.5, -3.5, 0.1, 3.3e-7, -6.1e-5, 65519, 65520, 1e-9, 300, -460, 470, 6e4, np.inf,
                   -np.inf, np.nan, 248, 5.1e-8, 1e38, 0.001953125, 0.0009765625], np.float32)
SMALL = ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"]


def to(dtype: str) -> int:
    """The number of an element type."""
    return int(TensorProto.DataType.Value(dtype.upper()))


def run(case: Case) -> Array:
    """The first output of a case, widened."""
    with ScoringFunction(import_model(case_model(case))) as function:
        found: Array = function({"x": case.inputs["x"]})["out0"]
    assert found.dtype == dtype_named(helper.tensor_dtype_to_string(case.attributes["to"]).split(".")[1].lower())
    return found.astype(np.float64)


@pytest.mark.parametrize("target", ["float16", "bfloat16", "double", *SMALL])
def test_floats(target: str) -> None:
    """Rounded half to even; float8 saturates."""
    dtype = dtype_named(target)
    with np.errstate(all="ignore"):
        expected = numpy_helper.saturate_cast(FLOATS, dtype) if target in SMALL else FLOATS.astype(dtype)
    found = run(Case("Cast", 19, {"x": FLOATS}, {"to": to(target)}))
    np.testing.assert_array_equal(found, expected.astype(np.float64))


@pytest.mark.parametrize("target", SMALL)
def test_floats_without_saturation(target: str) -> None:
    """What is too large becomes an infinity or NaN."""
    found = run(Case("Cast", 19, {"x": FLOATS}, {"to": to(target), "saturate": 0}))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, FLOATS.astype(dtype_named(target)).astype(np.float64))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers(mode: str) -> None:
    """float8e8m0 in every rounding mode."""
    x = np.array([1, 1.25, 1.5, 1.75, 0.3, 4, 5, 7, 1000, 2.0**-100, 1.5 * 2.0**-127, 2.0**127], np.float32)
    expected = numpy_helper.to_float8e8m0(x, True, mode).astype(np.float64)
    case = Case("Cast", 24, {"x": x}, {"to": to("float8e8m0"), "round_mode": mode})
    np.testing.assert_array_equal(run(case), expected)


def cast(x: Array, to: int, **_: Any) -> Array:
    """Numpy's cast."""
    with np.errstate(all="ignore"):
        return x.astype(helper.tensor_dtype_to_np_dtype(to))


def nearest(x: Array, to: int, **_: Any) -> Array:
    """As ONNX's pages on integers of 4 and 2 bits say: halves to the even number, of which the lower bits stay."""
    bits = 2 if to in (25, 26) else 4
    whole = np.rint(x).astype(np.int64) % 2**bits
    signed = np.where(whole >= 2 ** (bits - 1), whole - 2**bits, whole)
    return (signed if to in (22, 26) else whole).astype(helper.tensor_dtype_to_np_dtype(to))


WHOLE = np.array([[0, 1, -1, 127], [128, 200, -200, 70000], [-70000, 2**31 - 1, -(2**31), 255]], np.int64)
LONG = np.array([2**24 + 1, 2**24 + 3, 2**31 - 1, 2**25 + 1, 2**25 + 2, 2**25 + 3, 2**30 + 32, 123456789, 0, 70000, 257,
                 65519, 65520, 16777215, 2**31 - 64])
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "float", "int64"]
HALVES = np.array([[0.5, 1.5, 0.51, 2.5, 0.3], [1.49, 2.51, 0, 1, 3]], np.float32)
TRUNCATED = np.array([[1.9, -1.9, 0.5], [-0.5, 100.7, -100.7]], np.float32)

CASES = [
    *[Case("Cast", 13, {"x": WHOLE}, {"to": to(target)}, expected=cast, note=target) for target in INTEGERS],
    *[Case("Cast", opset, {"x": TRUNCATED}, {"to": to(target)}, expected=cast, note=target)
      for opset in (6, 9, 13, 19, 25) for target in ("int32", "int64", "bool", "int8")],
    *[Case("Cast", 13, {"x": np.array(value)}, {"to": to(target)}, expected=cast, note=target)
      for value in (np.float32(-2.5), np.int64(300)) for target in ("int32", "bool", "float16", "uint8")],
    *[Case("Cast", 13, {"x": LONG.astype(source)}, {"to": to(target)}, expected=cast, note=f"{source} {target}", tolerance=0)
      for source in ("int32", "int64", "uint32", "uint64") for target in ("float", "float16", "bfloat16", "double")],
    *[Case("Cast", 13, {"x": np.array(2**24 + value)}, {"to": to("float")}, expected=cast, tolerance=0, note=str(value))
      for value in (1, 3)],
    Case("CastLike", 19, {"x": LONG, "like": np.zeros(1, np.float32)}, expected=lambda x, like: x.astype(like.dtype),
         tolerance=0),
    *[Case("Cast", 25, {"x": x}, {"to": to(target)}, expected=nearest, note=target)
      for x in (HALVES, HALVES[0, 3]) for target in ("int4", "uint4", "int2", "uint2")],
    Case("Cast", 1, {"x": TRUNCATED}, {"to": "INT32"}, expected=lambda x, to: x.astype(np.int32), output_dtypes=["int32"]),
    Case("Cast", 13, {"x": random(2, 3, dtype="bool")}, {"to": to("float")}),
    Case("Cast", 13, {"x": np.array([16777217.0, 1e300, 0.1])}, {"to": to("float")}, expected=cast),
    *[Case("CastLike", opset, {"x": TRUNCATED, "like": np.zeros(1, np.int32)},
           expected=lambda x, like: x.astype(like.dtype)) for opset in (15, 19, 24)],
    Case("Cast", 19, {"x": random(2, 3)}, {"to": to("float16")}, symbols={"x": ["batch", 3]}, expected=cast,
         sizes=[{"x": random(5, 3)}]),
    Case("Cast", 13, {"x": random(2, 3, 4)}, {"to": to("int32")}, symbols={"x": ["batch", "seq", 4]}, expected=cast,
         sizes=[{"x": random(5, 1, 4)}]),
    Case("CastLike", 19, {"x": random(2, 3, 2, 2), "like": np.zeros(1, np.int32)},
         symbols={"x": ["batch", "seq", 2, 2]}, sizes=[{"x": random(1, 5, 2, 2)}],
         expected=lambda x, like: x.astype(like.dtype)),
]


DERIVATIVES = [
    Derivative("Cast", {"x": NEAR}, {"to": 11}),
    Derivative("CastLike", {"x": NEAR, "like": np.zeros(1)}, fixed=["like"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(("on", "rounds"), [(1, False), (2**24, False), (2**24 + 1, True)])
def test_integers_that_are_known_to_be_small_are_not_rounded(on: int, rounds: bool) -> None:
    """Those of OneHot, which are moved on their way."""
    nodes = [helper.make_node("OneHot", ["x", "depth", "values"], ["hot"]), helper.make_node("Transpose", ["hot"], ["moved"]),
             helper.make_node("Cast", ["moved"], ["y"], to=TensorProto.FLOAT)]
    constants = [numpy_helper.from_array(np.array([3]), "depth"), numpy_helper.from_array(np.array([0, on]), "values")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.INT64, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, "n"])], constants)
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert ("single_precision" in script.text) == rounds
    with ScoringFunction(script) as function:
        found = function({"x": np.array([2, 0])})["y"]
    np.testing.assert_array_equal(found, np.array([[0, on], [0, 0], [on, 0]], np.float32))
