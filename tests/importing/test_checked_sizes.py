"""Inputs of other rows or columns than the model's are refused: by the engine, or by a check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_systemds import import_model
from onnx_systemds.importing.script import Script
from tests.command_line import run_dml


def script_of(inputs: str, nodes: str, **constants: np.ndarray) -> Script:
    header = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>'
    model = onnx.parser.parse_model(f"{header} g ({inputs}) => (float[N,M] Y) {{ {nodes} }}")
    model.graph.initializer.extend(numpy_helper.from_array(content, name) for name, content in constants.items())
    return import_model(model)


def checks_in(script: Script, what: str = "columns") -> list[str]:
    return [line.strip() for line in script.text.splitlines() if f"{what}, not" in line]


FIRST_TWO = {"start": np.array([0]), "end": np.array([2]), "axis": np.array([1])}
CHECK = 'if (ncol({0}) != {1}) {{ stop("{0} has " + ncol({0}) + " columns, not {1}") }}'


@pytest.mark.parametrize("inputs, nodes, checked", [
    ("float[N,3] X", "Y = Slice(X, start, end, axis)", [("X", 3)]),
    ("float[N,4] X", "a = Abs(X) Y = ReduceSum(a, axis)", [("X", 4)]),
    ("float[N,4] X", "a = Tanh(X) Y = Softmax(a)", []),
    ("float[N,3] X, float[N,3] Z", "a = Abs(X) Y = Sub(a, Z)", [("Z", 3)]),
    ("float[N,3] X, float[N,2] Z", "a = Abs(X) b = Tanh(Z) Y = Concat<axis = 1>(a, b)", [("X", 3), ("Z", 2)]),
    ("float[N,3] X", "Y = Gemm(X, W)", [("X", 3)]),  # which the engine does not refuse where X is all zeros
    ("float[N,1,2,2] X", "a = Conv(X, V) Y = Flatten(a)", [("X", 4)]),
    ("float[N,3,2] X", "a = Abs(X) b = Reshape(a, shape) Y = MatMul(b, U)", []),
    ("float[N,3] X, float[N,3] Z", "s = Shape(Z) a = Abs(X) b = Expand(a, s) Y = Neg(b)", [("Z", 3)]),
    ("string[N,3] X", "t = Slice(X, start, end, axis) Y = Cast<to = 1>(t)", [("X", 3)]),
    ("float[N,6] X, bool c", "Y = If(c) <then_branch = a () => (float[N,2] t) { t = Slice(X, start, end, axis) }, "
     "else_branch = b () => (float[N,2] e) { z = Slice(X, start, end, axis) e = Neg(z) }>", [("X", 6)]),
])
def test_checks_stand_where_nothing_else_refuses(inputs: str, nodes: str, checked: list[tuple[str, int]]) -> None:
    held = {"W": np.ones((3, 2), np.float32), "V": np.ones((1, 1, 2, 2), np.float32), "U": np.ones((2, 3), np.float32)}
    constants = {name: content for name, content in (FIRST_TWO | held | {"shape": np.array([-1, 2])}).items() if name in nodes}
    assert checks_in(script_of(inputs, nodes, **constants)) == [CHECK.format(*given) for given in checked]


@pytest.mark.parametrize("inputs, nodes, checked", [
    ("float[N,S,4] X", "Y = ReduceMax<keepdims = 0>(X, axis)", [4]),  # over the last two axes, which are the columns
    ("float[N,2,S,3] X", "a = Abs(X) Y = ReduceMax<keepdims = 0>(a, axis)", [6]),
    ("float[N,S] X", "Y = ReduceMax(X, axis)", []),
    ("float[N,S,4] X", "a = Abs(X) Y = Flatten(a)", []),
    ("float[N,S,4] X", "a = Softmax(X) Y = Flatten(a)", []),
    ("float[N,S] Z, float[N,S,4] X", "a = ReduceMax<keepdims = 0>(X, axis) b = ReduceMax<keepdims = 0>(Z, axis) Y = Add(a, b)", []),
])
def test_columns_are_a_multiple_of_the_axes_that_are_known(inputs: str, nodes: str, checked: list[int]) -> None:
    axes = np.arange(1, inputs.rpartition("[")[2].count(",") + 1) if " Z" not in inputs else np.array([-1])
    constants = {"axis": axes} if "axis" in nodes else {}
    lines = [line.strip() for line in script_of(inputs, nodes, **constants).text.splitlines() if "multiple" in line]
    assert lines == [f'if (ncol(X) %% {size} != 0) {{ stop("X has " + ncol(X) + " columns, no multiple of {size}") }}'
                     for size in checked]


BOTH = 'if (nrow({0}) != {1} | ncol({0}) != {2}) {{ stop("{0} is " + nrow({0}) + " x " + ncol({0}) + ", not {1} x {2}") }}'
ROW_CHECK = 'if (nrow({0}) != {1}) {{ stop("{0} has " + nrow({0}) + " rows, not {1}") }}'


@pytest.mark.parametrize("inputs, nodes, checked", [  # the rows, or the rows and columns
    ("float[4,3] X", "Y = Slice(X, start, end)", [("X", 4)]),
    ("float[3,M] X", "Y = Slice(X, start, end)", [("X", 3)]),
    ("float[4,3] X", "Y = Gemm(X, W)", []),  # right for any number of rows
    ("float[4,3] X", "Y = ReduceMax(X)", [("X", 4, 3)]),
    ("float[2,3] X", "Y = MatMul(V, X)", [("X", 2)]),  # which the engine does not refuse where X is all zeros
    ("float[2,3,2] X", "a = Abs(X) Y = Reshape(a, shape)", []),
    ("float[2,3] X, float[2,3] Z", "a = Abs(X) Y = Sub(a, Z)", [("Z", 2, 3)]),
    ("float[3] X", "Y = Slice(X, start, end)", [("X", 3)]),
    ("float[2,3] X, float[2,3] Z", "s = Shape(Z) a = Abs(X) b = Expand(a, s) Y = Neg(b)", [("Z", 2, 3)]),
])
def test_checks_of_rows_stand_where_neither_refusals_nor_results_show_them(
    inputs: str, nodes: str, checked: list[tuple[str | int, ...]]
) -> None:
    constants = FIRST_TWO | dict.fromkeys("WV", np.ones((3, 2), np.float32)) | {"shape": np.array([4, 3])}
    script = script_of(inputs, nodes, **{name: content for name, content in constants.items() if name in nodes})
    lines = [line.strip() for line in script.text.splitlines() if "if (" in line and "nrow(" in line]
    assert lines == [(ROW_CHECK if len(given) == 2 else BOTH).format(*given) for given in checked]


def test_rows_and_columns_of_one_input_are_one_check() -> None:
    script = script_of("float[4,3] X, float[5,2] Z", "a = ReduceMax(X) b = ReduceMax(Z) Y = Add(a, b)")
    lines = [line.strip() for line in script.text.splitlines() if "nrow" in line]
    assert lines == ["if ((nrow(X) != 4 | ncol(X) != 3) | (nrow(Z) != 5 | ncol(Z) != 2)) {",
                     BOTH.format("X", 4, 3), BOTH.format("Z", 5, 2)]


@pytest.mark.parametrize("inputs, nodes, checked", [
    ("float[N,3] X", "Y = Gemm(X, W, B)", ["X"]),
    ("float[N,3] X, float[N,3] Z", "a = Abs(Z) Y = Sub(X, a)", []),
    ("float[N,3] X", "a = Abs(X) Y = MatMul(a, W)", []),
    ("float[N,3] X, float[K,2] Z", "a = MatMul(X, W) b = Add(a, B) Y = Concat<axis = 0>(b, Z)", ["X"]),
    ("float[N,3] X", "Y = Softmax(X)", []),
    ("float[N,4,2] X", "s = Sub(X, B) Y = Flatten(s)", ["X"]),
    ("float[2,3] X", "Y = Gemm(X, W, B)", []),
    ("float[N,3] X", "a = Abs(X) Y = Slice(a, start, end, axis)", ["X"]),
    ("float[N,1,4,4] X", "a = Conv(X, K) Y = Flatten(a)", ["X"]),
    ("float[N,3] X, float[2,3] Z", "Y = Concat<axis = 0>(Z, X)", []),
    ("float[N,2,3] X", "a = Transpose<perm = [1, 0, 2]>(X) Y = Flatten<axis = 0>(a)", ["X"]),
    ("float[N,3] X", 'l, Y = ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], '
     'nodes_featureids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], '
     "nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], class_treeids = [0, 0], class_nodeids = [1, 2], "
     "class_ids = [0, 1], class_weights = [1.0, 2.0], classlabels_int64s = [0, 1]>(X)", ["X"]),
])
def test_a_table_without_rows_is_refused_where_the_engine_would_not_do(inputs: str, nodes: str, checked: list[str]) -> None:
    held = {"W": np.ones((3, 2), np.float32), "B": np.array([1, 2], np.float32), "K": np.ones((1, 1, 2, 2), np.float32)}
    held |= FIRST_TWO
    constants = {name: content for name, content in held.items() if name in nodes}
    lines = [line.strip() for line in script_of(inputs, nodes, **constants).text.splitlines() if "has no rows" in line]
    assert [line.rpartition("{")[2] for line in lines] == [f' stop("{name} has no rows") }}' for name in checked]


@pytest.mark.engine
def test_a_batch_with_a_row_more_is_refused(tmp_path: Path) -> None:
    ends = {name: FIRST_TWO[name] for name in ("start", "end")}
    script_of("float[3,2] X", "Y = Slice(X, start, end)", **ends).save(tmp_path / "m.dml")
    with pytest.raises(AssertionError, match="X has 4 rows, not 3"):
        run_dml('source("m.dml") as m\nprint(sum(m::gen_g(matrix(1, rows=4, cols=2))))\n', tmp_path)


@pytest.mark.engine
@pytest.mark.parametrize("rows, columns", [(4, 2), (3, 1), (4, 1)])
def test_another_shape_is_told_whole(rows: int, columns: int, tmp_path: Path) -> None:
    script_of("float[3,2] X", "Y = ReduceMax(X)").save(tmp_path / "m.dml")
    program = 'source("m.dml") as m\nprint(sum(m::gen_g(matrix(1, rows={}, cols={}))))\n'
    assert "1.0" in run_dml(program.format(3, 2), tmp_path)
    with pytest.raises(AssertionError, match=f"X is {rows} x {columns}, not 3 x 2"):
        run_dml(program.format(rows, columns), tmp_path)


@pytest.mark.engine
def test_a_table_with_a_column_more_is_refused(tmp_path: Path) -> None:
    script_of("float[N,3] X", "Y = Slice(X, start, end, axis)", **FIRST_TWO).save(tmp_path / "m.dml")
    program = 'source("m.dml") as m\nprint(sum(m::gen_g(matrix(1, rows=2, cols={}))))\n'
    assert "4.0" in run_dml(program.format(3), tmp_path)
    with pytest.raises(AssertionError, match="X has 4 columns, not 3"):
        run_dml(program.format(4), tmp_path)
