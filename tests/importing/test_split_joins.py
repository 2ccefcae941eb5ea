"""Joins of three matrices and more: on Spark the engine misplaces those that begin where a block does."""

from __future__ import annotations

from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import is_call
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.passes.block_cuts import JOINED_CUT
from onnx_systemds.importing.passes.split_joins import with_split_joins_in


def _body(node: str, inputs: str) -> list[str]:
    """The statements that give the output, and what is in front of them for it."""
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    text = import_model(parser.parse_model(f"{head} g ({inputs}) => (float[p,q] y) {{ {node} }}")).text
    lines = [line.strip() for line in text.splitlines()]
    return [line.split("  #")[0] for line in lines if "bind(" in line or "cuts the block" in line]


CUT = 'if (time() < 0) { print("never") }'


def test_in_front_of_open_rows() -> None:
    found = _body("y = Concat<axis = 0>(a, b, c)", "float[n,4] a, float[m,4] b, float[k,4] c")
    assert found == ["joined = rbind(a, b)", CUT, "y = rbind(joined, c)"]


def test_four_are_joined_in_halves() -> None:
    found = _body("y = Concat<axis = 1>(a, a, a, a)", "float[n,500] a")
    assert found == ["joined = cbind(a, a)", "joined_2 = cbind(a, a)", CUT, "y = cbind(joined, joined_2)"]


def test_those_in_front_never_fill_a_block() -> None:
    assert _body("y = Concat<axis = 1>(a, b, a)", "float[n,501] a, float[n,500] b") == ["y = cbind(a, b, a)"]
    assert _body("y = Concat<axis = 1>(b, b)", "float[n,1000] b") == ["y = cbind(b, b)"]


def test_sizes_that_are_no_multiples() -> None:
    """Of 4 n + 2 rows none are 1000, of 4 n + 4 some are."""
    head = "n = nrow(A)\nB = matrix(0, rows=4 * n, cols=2)\n"
    for rows, splits in ((2, False), (4, True)):
        body = parse_snippet(f"{head}C = matrix(1, rows={rows}, cols=2)\ny = rbind(C, B, A)")
        function = _function(body)
        assert (with_split_joins_in(function, {}, {}) is not function) == splits


def test_a_join_of_a_join_by_name() -> None:
    """The engine joins all three where nothing else reads the first two; else the sum makes it keep them apart."""
    for more, splits in (("", True), ("z = sum(B)\n", False)):
        function = _function(parse_snippet(f"B = rbind(A, A)\n{more}y = rbind(B, A)"))
        found = with_split_joins_in(function, {}, {})
        assert (JOINED_CUT.split("# ")[1] in str([it.comments for it in found.body])) == splits


def test_in_a_loop() -> None:
    function = _function(parse_snippet("for (i in 1:3) {\n  A = t(rbind(A, t(rbind(A, A, A)), A))\n}\ny = A"))
    found = with_split_joins_in(function, {}, {})
    calls = [node for node in tree.walk(*found.body) if is_call(node, "rbind")]
    assert len(calls) == 4 and all(len(node.arguments) == 2 for node in calls)


def _function(body: tuple[tree.Statement, ...]) -> tree.Function:
    matrix = tree.DataType("matrix", "double")
    return tree.Function("f", (tree.Parameter("A", matrix),), (tree.Parameter("y", matrix),), body)
