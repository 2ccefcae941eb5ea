"""The judgement of two tensors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import parser

from onnx_systemds.inference.context import Context
from onnx_systemds.inference.infer import infer
from onnx_systemds.model.load import load_model
from onnx_systemds.verifying.comparing import compare_tensors
from onnx_systemds.verifying.narrowest import are_types_mixed, narrowest_types

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "passed"),
    [
        ([NAN, INF, -INF], [NAN, INF, -INF], True),
        ([NAN, 1.0], [0.0, 1.0], False),
        ([INF, 1.0], [-INF, 1.0], False),
        ([INF, 1.0], [3.0e38, 1.0], False),
        ([1.0, 1e-6], [1.0, 0.0], True),  # small beside the spread
        ([1e-6, 1e-6], [0.0, 0.0], False),
        ([1.0005, 0.0], [1.0, 0.0], True),
        ([1.01, 0.0], [1.0, 0.0], False),
        ([], [], True),
    ],
)
def test_floats(actual: list[float], expected: list[float], passed: bool) -> None:
    found = compare_tensors("Y", np.array(actual, np.float32), np.array(expected, np.float32))
    assert found.passed == passed, str(found)


def test_the_worst_element_is_named() -> None:
    expected = np.ones((2, 3))
    actual = expected.copy()
    actual[1, 2], actual[0, 1] = 1.5, 1.25
    found = compare_tensors("Y", actual, expected)
    assert (found.where, found.actual, found.expected, found.failed) == ((1, 2), 1.5, 1.0, 2)
    assert (found.absolute, found.relative) == (0.5, 0.5)
    assert "Y[1, 2] is 1.5, expected 1.0: 2 elements of [2, 3]" in str(found)


def test_integers_are_equal_unless_a_tolerance_is_given() -> None:
    step = np.array([3, 4], np.uint8), np.array([3, 5], np.uint8)
    assert not compare_tensors("Y", *step).passed
    assert compare_tensors("Y", *step, atol=1).passed
    beyond = np.array([2**62 + 1]), np.array([2**62])
    assert not compare_tensors("Y", *beyond).passed
    assert not compare_tensors("Y", np.array([True]), np.array([False])).passed


def test_small_types() -> None:
    wide = np.array([1.0, 2.0, -3.0])
    half = wide.astype(ml_dtypes.bfloat16)
    assert compare_tensors("Y", (wide * 1.01).astype(ml_dtypes.bfloat16), half).passed
    assert not compare_tensors("Y", (wide * 1.2).astype(ml_dtypes.bfloat16), half).passed
    nibbles = np.array([1, 2], ml_dtypes.int4), np.array([1, 3], ml_dtypes.int4)
    assert not compare_tensors("Y", *nibbles).passed
    assert compare_tensors("Y", nibbles[0], nibbles[0]).passed


def test_what_was_rounded_more_coarsely_on_the_way() -> None:
    expected = np.array([1.0, 2.0, -3.0], np.float32)
    actual = expected * np.float32(1.003)
    assert not compare_tensors("Y", actual, expected).passed
    found = compare_tensors("Y", actual, expected, rounded="float16")
    assert found.passed and found.through == "float16"
    assert not compare_tensors("Y", actual.astype(float), expected.astype(float), rounded="float").passed
    assert compare_tensors("Y", expected, expected, rounded="float").through == ""


def test_the_narrowest_type_on_the_way_to_a_value() -> None:
    model = load_model(parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 3] x, float16[3, 3] w, bool b) => (float[n, 3] y, float[n, 3] z) {
            h = Cast<to = 10>(x) same = Cast<to = 1>(h) p = MatMul(h, w) y = Cast<to = 1>(p) z = Exp(x)
            i = Cast<to = 7>(y) far = Cast<to = 1>(i) joined = Add(y, z) wide = Cast<to = 11>(joined)
            sub = If(b) <then_branch = t () => (float[n, 3] a) { q = Exp(h) a = Cast<to = 1>(q) },
                         else_branch = e () => (float[n, 3] c) { c = Identity(x) }>
        }"""))
    assert are_types_mixed(model.graph, {})
    found = narrowest_types(infer(model.graph, Context(simplify=False)))
    assert {name: found[name] for name in ("h", "same", "p", "y", "z", "far", "joined", "wide", "sub")} == {
        "h": "", "same": "", "p": "float16", "y": "float16", "z": "float", "far": "", "joined": "float16",
        "wide": "float16", "sub": "float16"}


def test_texts() -> None:
    assert compare_tensors("Y", np.array(["a", "b"], object), np.array(["a", "b"])).passed
    found = compare_tensors("Y", np.array(["a", "c"], object), np.array(["a", "b"], object))
    assert not found.passed and found.where == (1,)


def test_types_and_dims_that_differ() -> None:
    found = compare_tensors("Y", np.zeros((2, 1)), np.zeros(2))
    assert not found.passed and str(found) == "Y: it is float64 [2, 1], expected float64 [2]"
    assert not compare_tensors("Y", np.zeros(2), np.zeros(2, np.float32)).passed
    assert compare_tensors("Y", np.zeros((0, 3)), np.zeros((0, 3))).passed
    assert compare_tensors("Y", np.array(2.0), np.array(2.0)).passed


@pytest.mark.parametrize(
    ("dtype", "expected", "steps"),
    [(np.float32, 1.0, 3), (np.float32, 1e30, 1), (np.float32, 0.0, 2), (np.float64, -7.5, 4), (np.float16, 100.0, 2),
     (ml_dtypes.bfloat16, 3.0, 1)],
)
def test_units_in_the_last_place(dtype: Any, expected: float, steps: int) -> None:
    right = np.array([expected, 1.5], dtype)
    found = right.copy()
    for _ in range(steps):
        found[0] = np.nextafter(found[0], dtype(np.inf)) if expected >= 0 else np.nextafter(found[0], dtype(-np.inf))
    assert compare_tensors("Y", found, right).ulps == steps


def test_units_in_the_last_place_are_of_floats() -> None:
    assert compare_tensors("Y", np.array([1, 2]), np.array([1, 3])).ulps is None
    assert compare_tensors("Y", np.array(["a"], object), np.array(["b"], object)).ulps is None
    assert compare_tensors("Y", np.array([np.nan]), np.array([1.0])).ulps == np.inf
    assert compare_tensors("Y", np.array([1.0]), np.array([1.0])).ulps == 0
