"""Functions that are called with several numbers of the run get a call that keeps the engine from mixing them up."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.importing.passes.call_guards import guarding_calls
from onnx_systemds.runtime.scoring import ScoringFunction

COUNT = """# Counts: count(3) is 0, 1, 2.
count = function(integer n) return (matrix[double] C) {
  C = seq(0, n - 1)
}"""
PART = """part = function(matrix[double] X, integer first, integer last,
    list[unknown] items, frame[string] F) return (list[unknown] L, double d) {
  C = count(last)
}"""


def statements_of(*lines: str) -> tree.Block:
    return parse_script("\n".join(lines)).statements


@pytest.mark.parametrize(("statements", "guards"), [
    (["a = count(n)"], []),
    (["a = count(3)", "b = count(4)"], []),
    (["a = count(n)", "b = count(n)"], []),
    (["a = count(n)", "b = count(m)"], ["print(nrow(count(1)))"]),
    (["a = count(n) + count(3)"], ["print(nrow(count(1)))"]),
    (["a = matrix(count(n * (m + 1)), rows=n, cols=1)", "b = X[count(n), ]"], ["print(nrow(count(1)))"]),
    (["# count(m)", 'a = count(n) + " count(m)"'], []),
    (["a = count(-3)", "b = count(4)", "if (c) { d = count(5) }"], []),
    (["a = count(+3)", "b = count(-(-4))", "d = count(Inf)"], []),
    (["a = count(3)", "if (c) { d = count(n) }"], ["print(nrow(count(1)))"]),
    (["a = recount(n)", "b = count(m)"], []),
])
def test_guards_of_calls(statements: list[str], guards: list[str]) -> None:
    assert guarding_calls([function_of(COUNT)], statements_of(*statements)) == guards


def test_other_types_and_calls_in_functions() -> None:
    count, part = map(function_of, (COUNT, PART))
    calls = statements_of("a = part(X, 2, n, list(X, Y), F)", "b = part(Y, 2, m, list(), F)")
    expected = ["[unused1, unused2] = part(matrix(0, rows=1, cols=1), 2, 1, list(), as.frame(0)); print(length(unused1))"]
    assert guarding_calls([count, part], calls) == expected
    assert guarding_calls([count, part], statements_of("a = count(last)")) == ["print(nrow(count(1)))"]


def test_numbers_of_two_calls_are_not_mixed_up_where_sizes_are_known() -> None:
    """Of the index functions' calls, those of one axis were made with the other's size."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Split", ["shape"], ["rows", "cols"]),
        helper.make_node("Squeeze", ["rows"], ["n"]),
        helper.make_node("Squeeze", ["cols"], ["m"]),
        helper.make_node("Range", ["zero", "n", "one"], ["down"]),
        helper.make_node("Range", ["zero", "m", "one"], ["along"]),
        helper.make_node("Unsqueeze", ["down", "last"], ["column"]),
        helper.make_node("Add", ["column", "along"], ["y"]),
    ]
    constants = [helper.make_tensor(name, TensorProto.INT64, dims, [value])
                 for name, dims, value in [("zero", (), 0), ("one", (), 1), ("last", (1,), 1)]]
    graph = helper.make_graph(
        nodes, "counted", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, ["a", "b"])], constants)
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    # each call has a function of its own, which needs no guard
    assert script.text.count("count_up(a)") == script.text.count("count_up_2(b)") == 1
    assert "count_up(1)" not in script.text
    with ScoringFunction(script, specialise_after=1) as function:
        for rows, cols in [(5, 3), (2, 7)]:
            found = function({"x": np.zeros((rows, cols), np.float32)})["y"]
            np.testing.assert_array_equal(found, np.arange(rows)[:, None] + np.arange(cols))
