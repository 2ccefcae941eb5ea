"""Products that gather or repeat are calls of functions, and give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.importing.passes.named_products import with_named_products_in
from tests.operators.harness import random
from tests.plain_engine import calls_plainly

PLACES = [place * 5 % 13 for place in range(20)]
HEAD = "f = function(matrix[double] X, matrix[double] I, integer h) return (matrix[double] Y) {\n"


@pytest.mark.parametrize(
    "value, expected, function",
    [
        ("table(seq(1, h), I, h, 40) %*% X", "gathered_rows(X, I, h, 40)", "gathered_rows"),
        (
            "table(seq(1, 2*h), I, 2*h, 2*h + 32) %*% rbind(X + 1, matrix(0, rows=32, cols=3))",
            "gathered_few_rows(X + 1, I, 2 * h, 2 * h)",
            "gathered_few_rows",
        ),
        (
            "table(seq(1, 9), I, 9, 32) %*% rbind(X, matrix(0, rows=30, cols=3))",
            "gathered_rows(rbind(X, matrix(0, rows=30, cols=3)), I, 9, 32)",
            "gathered_rows",
        ),
        ("t(abs(matrix(1, rows=h, cols=1)) %*% X)", "t(repeated_row(X, h))", "repeated_row"),
        ("X %*% abs(matrix(1, rows=1, cols=h + 1))", "repeated_column(X, h + 1)", "repeated_column"),
    ],
    ids=["many rows", "any number of rows", "two rows", "a row", "a column"],
)
def test_named(value: str, expected: str, function: str) -> None:
    (given,) = parse_script(f"{HEAD}Y = {value}\n}}\n").functions.values()
    named: set[str] = set()
    assert print_block(with_named_products_in(given, named).body) == f"Y = {expected}\n"
    assert named == {function}
    assert all(is_straight(it.body) for it in library_functions(named)), "the engine inlines it"


def test_columns_gathered_in_two_statements() -> None:
    body = "P = X %*% table(I + 1, seq(1, h), 40, h + 32)\nQ = P[, 1:h]\nY = Q + 1"
    (given,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    named: set[str] = set()
    expected = "Q = gathered_columns(X, I + 1, h, 40)\nY = Q + 1\n"
    assert print_block(with_named_products_in(given, named).body) == expected
    assert named == {"gathered_columns"}
    assert all(is_straight(it.body) for it in library_functions(named)), "the engine inlines it"


@pytest.mark.parametrize(
    "body",
    [
        "P = X %*% table(I, seq(1, h), 40, h + 32)\nY = P[, 1:h] + P",
        "P = X %*% table(I, seq(1, h), 40, h + 32)\nQ = P[, 1:h]\nY = P + Q",
        "P = X %*% table(I, seq(1, h), 40, h + 32)\nY = P[, 2:h]",
        "P = X %*% table(I, seq(1, h), 40, h + 32)\nY = P[1:h, ]",
        "Y = X %*% table(I, seq(1, h), 40, h + 32)",
        "Y = table(seq(1, h), I, h + 1, 40) %*% X",
        "Y = table(seq(0, h), I, h, 40) %*% X",
        "Y = table(seq(1, h), I, h, 40) * X",
        "Y = matrix(1, rows=h, cols=1) %*% X",
        "Y = abs(matrix(1, rows=h, cols=2)) %*% X",
        "Y = X\nif (sum(table(seq(1, h), I, h, 40) %*% X) > 0) {\n  Y = X + 1\n}",
        "Y = X\nY[1, ] = table(seq(1, 1), I, 1, 40) %*% X",
    ],
    ids=["more columns", "used again", "other columns", "rows", "all columns", "more rows", "from 0", "no product", "seen ones", "two columns", "in a condition", "of a part"],
)
def test_not_named(body: str) -> None:
    (given,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    named: set[str] = set()
    assert with_named_products_in(given, named) is given and not named


def heads_and_mask() -> Any:
    """Heads that change places with steps, rows of a table, a row that is repeated, and columns, some twice."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Gather", ["table", "i"], ["y"], axis=0),
        helper.make_node("Expand", ["row", "shape"], ["z"]),
        helper.make_node("Gather", ["columns", "places"], ["taken"], axis=1),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", 6, 3]),
        helper.make_tensor_value_info("i", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("row", TensorProto.FLOAT, [1, "w"]),
        helper.make_tensor_value_info("columns", TensorProto.FLOAT, ["r", 13]),
    ]
    outputs = [
        helper.make_tensor_value_info("turned", TensorProto.FLOAT, ["b", 6, "s", 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, [20, "w"]),
        helper.make_tensor_value_info("taken", TensorProto.FLOAT, ["r", len(PLACES)]),
    ]
    constants = [
        helper.make_tensor("table", TensorProto.FLOAT, [5, 4], random(5, 4).ravel()),
        helper.make_tensor("shape", TensorProto.INT64, [2], [20, 1]),
        helper.make_tensor("places", TensorProto.INT64, [len(PLACES)], PLACES),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
def test_the_same_numbers(open_sizes: bool) -> None:
    script = import_model(heads_and_mask())
    assert script.general is not None and "gathered" not in print_block(script.general.main.body)
    body = print_block(script.main.body)
    assert all(f"{name}(" in body for name in ("gathered_few_rows", "gathered_rows", "repeated_row", "gathered_columns")), body
    x = random(2, 3, 6, 3)
    x[0, 1, 0, 2], x[1, 0, 1, 0] = np.nan, np.inf
    calls = [
        {"x": x, "i": np.array([4, -1, 0]), "row": random(1, 3), "columns": random(4, 13)},
        {"x": random(1, 7, 6, 3), "i": np.array([2]), "row": random(1, 5), "columns": random(1, 13)},
    ]
    for given, found in zip(calls, calls_plainly(script, calls, open_sizes=open_sizes)):
        assert np.array_equal(found["turned"], given["x"].transpose(0, 2, 1, 3), equal_nan=True)
        assert np.array_equal(found["y"], random(5, 4)[given["i"]])
        assert np.array_equal(found["taken"], given["columns"][:, PLACES])
        assert np.array_equal(found["z"], np.broadcast_to(given["row"], (20, given["row"].size)))


def test_what_constants_call_too_is_defined_once() -> None:
    """Places that are computed at the start, of indices that are a weight, and a row that is repeated at each call."""
    places = np.stack([np.arange(900) % 50, np.arange(900) % 40], axis=1)
    nodes = [helper.make_node("ReduceMax", ["x"], ["r"], axes=[0]), helper.make_node("Expand", ["r", "shape"], ["y"]),
             helper.make_node("GatherND", ["x", "places"], ["z"])]
    constants = {"shape": np.array([30, 40]), "places": places}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [50, 40])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
        [numpy_helper.from_array(content, name) for name, content in constants.items()],
    )
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert script.constants is not None and "repeated_row(" in script.text
    assert script.text.count("\nrepeated_row = function(") == 1
