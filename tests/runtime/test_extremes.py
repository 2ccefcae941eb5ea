"""`max` and `min` of a matrix and a number on one row, in specialised scripts; numpy judges."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_script
from onnx_systemds.dml.syntax import Script
from onnx_systemds.importing.passes.specialisation.extremes import has_elements, is_large, with_flat_extremes
from onnx_systemds.runtime import scoring
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import check_all_forms
from tests.plain_engine import score_plainly
from tests.runtime.recording import recorded

RANDOM = np.random.default_rng(11)


def clip_model(low: float | None, high: float | None, columns: int = 40) -> ModelProto:
    bounds = {"low": low, "high": high}
    weights = [numpy_helper.from_array(np.float32(bound), name) for name, bound in bounds.items() if bound is not None]
    inputs = ["x", *(name if bound is not None else "" for name, bound in bounds.items())]
    nodes = [helper.make_node("Clip", inputs, ["c"]), helper.make_node("Identity", ["c"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", columns])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", columns])
    graph = helper.make_graph(nodes, "clip", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def texts_and_result(model: ModelProto, x: np.ndarray[Any, Any]) -> tuple[list[str], Any]:
    """The texts of the scripts prepared on the way to a third call, and what the last form gives."""
    with ScoringFunction(import_model(model), specialise_after=2, parts=1) as function:
        texts = recorded(function)
        function({"x": x})  # as it is
        function({"x": x})  # compiled for its sizes
        return texts, function({"x": x})["y"]  # with flat extremes


def images(kind: str) -> np.ndarray[Any, Any]:
    """Five rows; the engine holds those that are mostly zeros as sparse matrices."""
    x = RANDOM.normal(size=(5, 40)) * 3
    if kind == "sparse":
        x = x * (RANDOM.random(x.shape) < 0.1)
        x[0], x[4, 39] = 0, -3  # its rows must not be taken for the first one
    elif kind == "zeros":
        x = x * 0
    elif kind == "special":
        x[1, :6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.nan]
    elif kind == "one row":
        x = x[:1]
    return x.astype(np.float32)


@pytest.mark.parametrize("kind", ["dense", "sparse", "zeros", "special", "one row"])
@pytest.mark.parametrize(("low", "high"), [(0, None), (-1, 2), (0.5, 2), (-3, -1), (None, -0.5), (None, 1), (-2, None)])
def test_bounds(kind: str, low: float | None, high: float | None) -> None:
    x = images(kind)
    texts, y = texts_and_result(clip_model(low, high), x)
    body = texts[-1].partition("gen_clip")[2]
    assert ("flat_max(" in body, "flat_min(" in body) == (low is not None, high is not None)
    np.testing.assert_array_equal(y, np.clip(x, low, high))


@pytest.mark.parametrize("kind", ["dense", "sparse", "zeros", "special", "one row"])
def test_hard_swish(kind: str) -> None:
    x = images(kind)
    node = helper.make_node("HardSwish", ["x"], ["y"])
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 40]) for name in "xy"]
    graph = helper.make_graph([node], "hard_swish", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    texts, y = texts_and_result(model, x)
    assert "flat_max(flat_min(" in texts[-1]
    with np.errstate(invalid="ignore"):
        expected = x * np.clip(x.astype(np.float64) + 3, 0, 6) / 6
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-7)


def rewritten_body(body: str, is_wanted: Callable[[int, int], bool] = has_elements) -> list[str]:
    """The statements of a function of X (2 x 4) and a number a; g makes a matrix of unknown size, h a column."""
    script = parse_script(f"f = function(matrix[double] X, double a) return (matrix[double] Y) {{\n{body}\n}}{OTHERS}")
    statements = with_flat_extremes(script.functions["f"].body, script.functions, {"X": (2, 4), "a": math.nan}, is_wanted)
    return print_script(Script(statements)).strip().splitlines()


OTHERS = """
g = function(matrix[double] Z) return (matrix[double] Y) {
  Y = removeEmpty(target=Z, margin="rows")
}
h = function(matrix[double] Z, int n) return (matrix[double] Y) {
  Y = Z %*% matrix(1, rows=n, cols=1)
}
"""


def test_only_matrices_and_numbers() -> None:
    body = "b = max(a, 2)\nc = max(X)\nd = min(c, 3)\ne = exp(X) * a\nY = max(e, b) + min(X, 0) + min(-1, e)"
    assert rewritten_body(body) == [
        *body.splitlines()[:-1], "Y = max(e, b) + flat_min(X, 0, 2, 4) + flat_min(e, -1, 2, 4)"
    ]


@pytest.mark.parametrize(
    ("rows", "cols", "expected"),
    [(1, 16_384, True), (1, 16_383, False), (16, 1_024, True), (255, 65, True), (256, 65, False), (0, 20_000, False)],
)
def test_large_matrices(rows: int, cols: int, expected: bool) -> None:
    assert is_large(rows, cols) == expected


@pytest.mark.parametrize(
    ("op_type", "rows", "expected"),
    [
        ("HardSwish", 410, ["flat_max(", "flat_min("]),  # two kinds of operations share the engine's loop
        ("HardSwish", 255, ["flat_max(", "flat_min("]),
        ("HardSwish", 409, ["max(", "min("]),  # fewer than 16,384 elements
        ("Relu", 410, ["max("]),
        ("Relu", 512, ["max("]),
    ],
)
def test_many_rows(op_type: str, rows: int, expected: Sequence[str]) -> None:
    columns = 65 if rows == 255 else 40
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, columns]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"])], "rows", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    body = import_model(model, dims={}).text.partition("gen_rows = ")[2]
    assert re.findall(r"(?:flat_)?m(?:ax|in)\(", body) == expected


def test_only_matrices_that_are_wanted() -> None:
    assert rewritten_body("Y = max(X, 0) + max(t(X), 0)", lambda rows, _: rows == 2) == [
        "Y = flat_max(X, 0, 2, 4) + max(t(X), 0)"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "b = X\nif (a > 0) {\n  b = t(b)\n}\nY = max(b, 0)",
        "[b, c] = g(X)\nY = max(b, 0)",
        "for (i in 1:2) {\n  b = X\n}\nY = max(b, 0)",
        "b = X[1:a, ]\nY = max(b, 0)",
        "b = X\nb = X[1:a, ]\nY = max(b, 0)",
        "b = cbind(X, g(X))\nY = max(b, 0)",
        "b = matrix(0, rows=a, cols=3)\nY = max(b %*% X, 0)",
        "Y = max(g(X), 0)",
        "Y = max(matrix(0, rows=0, cols=3), 1)",
    ],
)
def test_matrices_of_sizes_that_may_be_unknown(body: str) -> None:
    assert rewritten_body(body) == body.splitlines()


IMAGES = "input_shape=[2, 1, 2, 2]"


@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        ("X[1:2, 2:4]", "2, 3"),
        ("cbind(X, X)", "2, 8"),
        ("h(X, 4)", "2, 1"),
        ("matrix(X, rows=4, cols=2)", "4, 2"),
        (f"conv2d(X, g(X), {IMAGES}, filter_shape=[3, 1, 1, 2], stride=[1, 1], padding=[0, 0])", "2, 6"),
        (f"max_pool(X, {IMAGES}, pool_size=[2, 1], stride=[1, 1], padding=[0, 0])", "2, 2"),
        (f"avg_pool(X, {IMAGES}, pool_size=[2, 2], stride=[1, 1], padding=[1, 1])", "2, 9"),
    ],
)
def test_matrices_of_sizes_that_are_known(value: str, sizes: str) -> None:
    assert rewritten_body(f"b = X\nb = {value}\nY = max(b, 0)")[-1] == f"Y = flat_max(b, 0, {sizes})"


def test_what_is_pooled_next_is_left() -> None:
    body = (
        "a = max(X, 0)\nb = max(X, 0)\nc = max(X * min(X, 6), 0)\n"
        f"P = max_pool(a, {IMAGES}, pool_size=[2, 2], stride=[1, 1], padding=[0, 0])\n"
        f"Q = max_pool(c, {IMAGES}, pool_size=[2, 2], stride=[1, 1], padding=[0, 0])\nY = b"
    )
    changed = rewritten_body(body)
    assert changed[:3] == ["a = max(X, 0)", "b = flat_max(X, 0, 2, 4)", "c = max(X * min(X, 6), 0)"]


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["dense", "sparse", "zeros", "special"])
def test_scripts_of_the_command_line(kind: str) -> None:
    """From some thousands of elements on; run as people run them."""
    x = np.hstack([images(kind)] * 100)
    script = import_model(clip_model(-1, 2, columns=4000), dims={"n": 5})
    assert "flat_min(flat_max(x, -1.0, 5, 4000), 2.0, 5, 4000)" in script.text
    np.testing.assert_array_equal(score_plainly(script, {"x": x})["y"], np.clip(x, -1, 2))


def test_short_calls_keep_their_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "LONG_CALL", 1e3)
    with ScoringFunction(import_model(clip_model(0, None)), specialise_after=2) as function:
        texts = recorded(function)
        for _ in range(3):
            function({"x": images("dense")})
        assert function._specialised is not None and len(function._specialised.tuner.candidates) == 1
    assert len(texts) == 1 and "flat_max" not in texts[0]


@pytest.mark.parametrize("readers", [["AveragePool"], ["MaxPool"], ["AveragePool", "MaxPool"]])
@pytest.mark.parametrize("parts", [1, 2])
def test_poolings_of_extremes(readers: list[str], parts: int) -> None:
    weight = numpy_helper.from_array(RANDOM.normal(size=(3, 2, 4, 4)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        *(helper.make_node(kind, ["b"], [f"p{i}"], kernel_shape=[2, 2]) for i, kind in enumerate(readers)),
        helper.make_node("Sum", [f"p{i}" for i, _ in enumerate(readers)], ["y"]),
    ]
    value = helper.make_tensor_value_info
    x_info, y_info = value("x", TensorProto.FLOAT, ["n", 2, 6, 6]), value("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph(nodes, "pooled", [x_info], [y_info], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = RANDOM.normal(size=(4, 2, 6, 6)).astype(np.float32)
    with ScoringFunction(import_model(model), specialise_after=1, parts=parts) as function:
        check_all_forms(function, model, {"x": x})
