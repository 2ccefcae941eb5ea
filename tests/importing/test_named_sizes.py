"""Sizes of the run have names, and are the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block, print_expression
from onnx_systemds.importing.passes.named_sizes import factors_of, with_named_sizes_in
from tests.operators.harness import random
from tests.plain_engine import calls_plainly

HEAD = "f = function(matrix[double] X, integer h, integer w) return (matrix[double] Y) {\n"
SIZE = "((h - 1) %/% 2) %/% 2"


def named(body: str) -> str:
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    return print_block(with_named_sizes_in(function, {}).body).rstrip("\n")


@pytest.mark.parametrize(
    "body, expected",
    [
        (
            f"Y = matrix(X, rows={SIZE} + 1, cols=2)\nY = Y + matrix(1, rows={SIZE} + 1, cols=1)",
            "extent = (h - 1) %/% 2 %/% 2 + 1\n"
            "Y = matrix(X, rows=extent, cols=2)\nY = Y + matrix(1, rows=extent, cols=1)",
        ),
        (
            f"if (h > w) {{\n  Y = X[1:{SIZE}, ]\n}} else {{\n  Y = X[{SIZE}, ]\n}}",
            "extent = (h - 1) %/% 2 %/% 2\nif (h > w) {\n  Y = X[1:extent, ]\n} else {\n  Y = X[extent, ]\n}",
        ),
        (
            "if (h %/% w > 2) {\n  Y = X[(h %/% w) * 2, (h %/% w) * 2]\n}\nif ((h %/% w) * 2 > 2) {\n  Y = X[(h %/% w) * 2, ]\n}",
            "if (h %/% w > 2) {\n  Y = X[(h %/% w) * 2, (h %/% w) * 2]\n}\n"
            "cells = (h %/% w) * 2\nif (cells > 2) {\n  Y = X[cells, ]\n}",
        ),
        (
            f"extent = 2\nY = X[{SIZE}, {SIZE}] + extent",
            "extent = 2\nextent_2 = (h - 1) %/% 2 %/% 2\nY = X[extent_2, extent_2] + extent",
        ),
        (
            "n = nrow(X)\nY = X[n * h * w * 8 * 9, n * h * w * 8 * 9]",
            "n = nrow(X)\ncells = n * h * w * 8 * 9\nY = X[cells, cells]",
        ),
        (
            "Y = conv2d(X, X, input_shape=[1, 2, (h - 1) %/% 2 + 1, w %/% 3 + 1], filter_shape=[2, 1, 1, 1])\n"
            "Y = matrix(Y, rows=1, cols=2*((h - 1) %/% 2)*(w %/% 3) + 2*((h - 1) %/% 2) + 2*(w %/% 3) + 2)",
            "height = (h - 1) %/% 2 + 1\nwidth = w %/% 3 + 1\n"
            "Y = conv2d(X, X, input_shape=[1, 2, height, width], filter_shape=[2, 1, 1, 1])\n"
            "Y = matrix(Y, rows=1, cols=2 * height * width)",
        ),
    ],
    ids=["twice", "in branches", "in a condition", "another name", "of a matrix", "images"],
)
def test_named(body: str, expected: str) -> None:
    assert named(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        f"Y = X[{SIZE}, 1]",
        "Y = X[h * w, 1] + X[h * w, 2]",
        f"h = h + 1\nY = X[{SIZE}, {SIZE}]",
        "for (i in 1:h) {\n  n = nrow(X)\n  Y = X[n %/% 2 %/% 3, n %/% 2 %/% 3]\n}",
        "Y = (X - 1) %/% 2 %/% 2 + ((X - 1) %/% 2 %/% 2)",
        f"if (h > w) {{\n  n = 0\n}} else {{\n  [n, m] = other(h)\n}}\nk = n - 1\nY = X[{SIZE.replace('h', 'k')}, 1]\n"
        f"Y = Y + X[{SIZE.replace('h', 'k')}, 2]",
    ],
    ids=["once", "plain", "assigned anew", "of a trip", "matrices", "of a branch with a side of an unknown type"],
)
def test_without_names(body: str) -> None:
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    assert with_named_sizes_in(function, {}) is function


@pytest.mark.parametrize(
    "text, number, sides",
    [
        ("8*a*b + 8*a + 8*b + 8", 8, ["a + 1", "b + 1"]),
        ("a*b + a + b + 1", 1, ["a + 1", "b + 1"]),
        ("8*a + 8", 8, ["a + 1"]),
        ("a + 1", 1, ["a + 1"]),
        *((text, 1, [text]) for text in ("8 * a * b + 8 * a + 8 * b + 7", "8 * a * b + 4 * a + 8 * b + 8",
                                         "a * c + a + b + 1", "a + b + 1", "8 * a * b + 8", "4 * a + 8", "8 * a - 8")),
    ],
)
def test_factors(text: str, number: int, sides: list[str]) -> None:
    (statement,) = parse_script(f"x = {text}\n").statements
    assert isinstance(statement, tree.Assign) and isinstance(statement.value, tree.Binary)
    found, factors = factors_of(statement.value)
    assert (found, [*map(print_expression, factors)]) == (number, sides)


def strided_convolutions() -> Any:
    """Three convolutions of stride 2, each with its mean beside it, of images of any height and width."""
    nodes, inputs = [], [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 2, "h", "w"])]
    weights, given = [], "x"
    for number in range(3):
        weights.append(helper.make_tensor(f"w{number}", TensorProto.FLOAT, [2, 2, 3, 3], random(2, 2, 3, 3).ravel()))
        nodes.append(helper.make_node("Conv", [given, f"w{number}"], [f"c{number}"], strides=[2, 2], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("GlobalAveragePool", [f"c{number}"], [f"m{number}"]))
        nodes.append(helper.make_node("Mul", [f"c{number}", f"m{number}"], [f"y{number}"]))
        given = f"y{number}"
    outputs = [helper.make_tensor_value_info(given, TensorProto.FLOAT, ["b", 2, "p", "q"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_the_same_numbers() -> None:
    script = import_model(strided_convolutions())
    body = print_block(script.main.body)
    assert "height = " in body and "height * width" in body and body.count("%/%") == 2 * 3
    assert script.general is not None and "height" not in print_block(script.general.main.body)
    calls = [{"x": random(2, 2, 9, 14)}, {"x": random(1, 2, 16, 5)}]
    for found, expected in zip(calls_plainly(script, calls), calls_plainly(script.general, calls)):
        assert np.array_equal(found["y2"], expected["y2"]) and np.ptp(found["y2"]) > 0
