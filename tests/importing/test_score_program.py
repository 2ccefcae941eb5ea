"""The program that scores files, run as people run it, against onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.dml.syntax import NO_COMMENTS
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.importing.block_sizes import rows_of_task
from onnx_systemds.importing.coded_texts import MOST_TEXTS, with_coded_texts
from onnx_systemds.importing.score_program import obstacle_to_spark, places_of, score_text
from onnx_systemds.importing.score_sites import obstacle_to_sites
from onnx_systemds.importing.score_variables import program_of
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.row_blocks import row_blocks
from tests.command_line import run_dml
from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models
from tests.scored_files import Tensors, converted, expected_rows, numbers, stored_rows, targets, written

ROWS = 37
OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]

@needs_models
@pytest.mark.engine
def test_all_rows_in_one_call(tmp_path: Path) -> None:
    assert MODELS is not None
    path = MODELS / "generated" / "xgb_wine.onnx"
    script, feeds = converted(path, tmp_path), stored_rows(path, ROWS)
    arguments = {**written(script, feeds, tmp_path), **targets(script), "place": "whole"}
    run_dml((tmp_path / "model_score.dml").read_text(encoding="utf-8"), tmp_path, arguments=arguments)
    _assert_as_expected(script, path, feeds, tmp_path)


@pytest.mark.engine
def test_scalars_and_inputs_without_samples(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["X", "factor"], ["scaled"]), helper.make_node("MatMul", ["scaled", "W"], ["Y"]),
             helper.make_node("Add", ["factor", "factor"], ["twice"])]
    script = _saved(nodes, [("X", 1, ["n", 2]), ("factor", 1, []), ("W", 1, [2, 2])],
                    [("Y", 1, ["n", 2]), ("twice", 1, [])], tmp_path)
    program = score_text(script, "model")
    assert "parfor" in program
    (tmp_path / "X.csv").write_text("a,b\n1,2\n3,4\n5,6\n7,\n-nan,NaN\nnan,Infinity\n", encoding="utf-8")
    (tmp_path / "W.csv").write_text("c,d\n1,1\n1,-1\n", encoding="utf-8")
    names = {name: f"{name}.csv" for name in ("X", "W", "Y", "twice")}
    run_dml(program, tmp_path, arguments={**names, "factor": "2", "rows": "2", "header": "TRUE"})
    assert np.array_equal(numbers(tmp_path / "Y.csv"), [[6, -2], [14, -2], [22, -2], *[[np.nan] * 2] * 3], equal_nan=True)
    assert float((tmp_path / "twice.csv").read_text(encoding="utf-8")) == 4


@pytest.mark.engine
def test_texts_of_blocks_are_put_together(tmp_path: Path) -> None:
    node = helper.make_node("LabelEncoder", ["K"], ["name"], domain="ai.onnx.ml", keys_int64s=[1, 2, 3],
                            values_strings=["Graz", "Linz", "Wien"], default_string="none")
    script = _saved([node], [("K", 7, ["b", 1])], [("name", 8, ["b", 1])], tmp_path)
    program = score_text(script, "model")
    assert "parfor" in program and 'frame(""' in program
    (tmp_path / "K.csv").write_text("3\n1\n5\n2\n3\n", encoding="utf-8")
    run_dml(program, tmp_path, arguments={"K": "K.csv", "name": "name.csv", "rows": "2"})
    assert (tmp_path / "name.csv").read_text(encoding="utf-8").split() == ["Wien", "Graz", "none", "Linz", "Wien"]


@pytest.mark.engine
def test_names_of_the_model_that_are_made_of_other_ones(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["X"], ["Y"]), helper.make_node("Add", ["Y", "X_part"], ["Y_block"])]
    script = _saved(nodes, [("X", 1, ["b", 1]), ("X_part", 1, ["b", 1])], [("Y", 1, ["b", 1]), ("Y_block", 1, ["b", 1])], tmp_path)
    (tmp_path / "table.csv").write_text("1,5\n2,7\n", encoding="utf-8")
    arguments = {"table": "table.csv", "Y": "Y.csv", "Y_blocks": "sums.csv", "rows": "1"}
    run_dml(score_text(script, "model"), tmp_path, arguments=arguments)
    assert np.array_equal(numbers(tmp_path / "Y.csv"), [[-1], [-2]])
    assert np.array_equal(numbers(tmp_path / "sums.csv"), [[4], [5]])


@pytest.mark.parametrize(("columns", "in_lines"), [(31, True), (32, False)])
def test_tasks_put_blocks_of_few_columns_into_lines(columns: int, in_lines: bool, tmp_path: Path) -> None:
    script = _saved([helper.make_node("Neg", ["X"], ["Y"])], [("X", 1, ["b", columns])], [("Y", 1, ["b", columns])], tmp_path)
    text = score_text(script, "model")
    assert ("Y_lines[i, 1:length(Y_block)]" in text) is in_lines
    assert text.count("Y[first:last, ] = Y_block") == (2 if in_lines else 3)


@pytest.mark.engine
def test_names_of_the_model_that_the_program_has_itself(tmp_path: Path) -> None:
    script = _saved([helper.make_node("Sub", ["rows", "n"], ["place"])], [("rows", 1, ["b", 2]), ("n", 1, ["b", 2])],
                    [("place", 1, ["b", 2])], tmp_path)
    (tmp_path / "a.csv").write_text("5,6\n7,8\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("1,1\n2,2\n", encoding="utf-8")
    arguments = {"rows_2": "a.csv", "n_2": "b.csv", "place_2": "out.csv"}
    run_dml(score_text(script, "model"), tmp_path, arguments=arguments)
    assert np.array_equal(numbers(tmp_path / "out.csv"), [[4, 5], [5, 6]])


@pytest.mark.engine
def test_inputs_of_different_lengths_are_told(tmp_path: Path) -> None:
    script = _saved([helper.make_node("Add", ["A", "B"], ["C"])], [("A", 1, ["b", 2]), ("B", 1, ["b", 2])],
                    [("C", 1, ["b", 2])], tmp_path)
    (tmp_path / "A.csv").write_text("5,6\n7,8\n", encoding="utf-8")
    (tmp_path / "B.csv").write_text("1,1\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="A has 2 rows, B has 1"):
        run_dml(score_text(script, "model"), tmp_path, arguments={"A": "A.csv", "B": "B.csv", "C": "C.csv"})
    assert not (tmp_path / "C.csv").exists()


@pytest.mark.engine
def test_a_file_of_no_rows_is_told(tmp_path: Path) -> None:
    script = _saved([helper.make_node("Neg", ["A"], ["C"])], [("A", 1, ["b", 2])], [("C", 1, ["b", 2])], tmp_path)
    (tmp_path / "A.csv").write_text("p,q\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="there are no rows"):
        run_dml(score_text(script, "model"), tmp_path, arguments={"A": "A.csv", "C": "C.csv", "header": "TRUE"})
    assert not (tmp_path / "C.csv").exists()


@pytest.mark.engine
@pytest.mark.parametrize(("dtype", "cell", "fits"), [
    (TensorProto.INT64, "2.5", False), (TensorProto.INT64, "", False), (TensorProto.INT64, "Infinity", False),
    (TensorProto.INT64, "9007199254740991", True), (TensorProto.INT64, "1e17", False),  # it adds
    (TensorProto.UINT8, "255", True), (TensorProto.UINT8, "256", False), (TensorProto.UINT8, "-1", False),
    (TensorProto.INT32, "-2147483648", True), (TensorProto.INT32, "2147483648", False),
    (TensorProto.BOOL, "1", True), (TensorProto.BOOL, "0.5", False), (TensorProto.BOOL, "2", False),
])
def test_numbers_that_the_element_type_does_not_have_are_told(dtype: int, cell: str, fits: bool, tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["X", "X"] if dtype != TensorProto.BOOL else ["F", "F"], ["Y"])]
    if dtype == TensorProto.BOOL:
        nodes.insert(0, helper.make_node("Cast", ["X"], ["F"], to=TensorProto.FLOAT))
    made = dtype if dtype != TensorProto.BOOL else TensorProto.FLOAT
    script = _saved(nodes, [("X", dtype, ["b", 2])], [("Y", made, ["b", 2])], tmp_path)
    (tmp_path / "X.csv").write_text(f"0,1\n1,{cell}\n", encoding="utf-8")
    arguments = {"X": "X.csv", "Y": "Y.csv"}
    if fits:
        run_dml(score_text(script, "model"), tmp_path, arguments=arguments)
        assert (tmp_path / "Y.csv").exists()
    else:
        dtype_name = TensorProto.DataType.Name(dtype).lower()
        with pytest.raises(AssertionError, match=f"model_score.dml: X has numbers that are no {dtype_name}"):
            run_dml(score_text(script, "model"), tmp_path, arguments=arguments)
        assert not (tmp_path / "Y.csv").exists()


@pytest.mark.engine
@pytest.mark.parametrize(("cell", "fits"), [("9007199254740993", False), ("9007199254740991", True)])
def test_ids_that_the_engine_rounds_as_it_reads_them_are_told(cell: str, fits: bool, tmp_path: Path) -> None:
    """Also of a model that only moves or compares them: nobody can tell which number of the file it was."""
    script = _saved([helper.make_node("Identity", ["X"], ["Y"])], [("X", TensorProto.INT64, ["b", 1])],
                    [("Y", TensorProto.INT64, ["b", 1])], tmp_path)
    (tmp_path / "X.csv").write_text(f"1\n{cell}\n", encoding="utf-8")
    arguments = {"X": "X.csv", "Y": "Y.csv"}
    if fits:
        run_dml(score_text(script, "model"), tmp_path, arguments=arguments)
        assert numbers(tmp_path / "Y.csv")[1] == int(cell)
    else:
        with pytest.raises(AssertionError, match=r"X has numbers that are no int64, or beyond 2\^53"):
            run_dml(score_text(script, "model"), tmp_path, arguments=arguments)


@pytest.mark.engine
@pytest.mark.parametrize(("dtype", "number"), [(TensorProto.INT64, "1.5"), (TensorProto.BOOL, "3"), (TensorProto.INT8, "-129")])
def test_a_number_that_the_element_type_does_not_have_is_told(dtype: int, number: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["k"], ["K"], to=1), helper.make_node("Add", ["X", "K"], ["Y"])]
    script = _saved(nodes, [("X", 1, ["b", 1]), ("k", dtype, [])], [("Y", 1, ["b", 1])], tmp_path)
    (tmp_path / "X.csv").write_text("0.5\n1\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="k has numbers that are no "):
        run_dml(score_text(script, "model"), tmp_path, arguments={"X": "X.csv", "k": number, "Y": "Y.csv"})
    run_dml(score_text(script, "model"), tmp_path, arguments={"X": "X.csv", "k": "1", "Y": "Y.csv"})
    assert np.array_equal(numbers(tmp_path / "Y.csv"), [[1.5], [2]])


@needs_models
@pytest.mark.engine
def test_what_cannot_be_tasks_is_told(tmp_path: Path) -> None:
    assert MODELS is not None
    path = MODELS / "generated" / "txt_tfidf_lr.onnx"
    script = converted(path, tmp_path)
    arguments = {**written(script, stored_rows(path, ROWS), tmp_path), **targets(script), "place": "spark"}
    with pytest.raises(AssertionError, match="one call has all rows"):
        run_dml((tmp_path / "model_score.dml").read_text(encoding="utf-8"), tmp_path, arguments=arguments)


@pytest.mark.engine
def test_an_unknown_place_is_told(tmp_path: Path) -> None:
    script = _saved([helper.make_node("Neg", ["A"], ["C"])], [("A", 1, ["b", 2])], [("C", 1, ["b", 2])], tmp_path)
    (tmp_path / "A.csv").write_text("5,6\n7,8\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="place is local, spark, sites or whole, not cloud"):
        run_dml(score_text(script, "model"), tmp_path, arguments={"A": "A.csv", "C": "C.csv", "place": "cloud"})


def test_models_that_mix_their_rows_have_one_call(tmp_path: Path) -> None:
    script = _saved([helper.make_node("CumSum", ["A", "axis"], ["C"])], [("A", 1, ["b", 2])], [("C", 1, ["b", 2])],
                    tmp_path, axis=np.array(0))
    assert "parfor" not in score_text(script, "model")


def test_several_rows_of_each_sample_have_one_call(tmp_path: Path) -> None:
    script = _saved([helper.make_node("Reshape", ["A", "s"], ["C"])], [("A", 1, ["b", 2])], [("C", 1, ["c", 1])],
                    tmp_path, s=np.array([-1, 1]))
    assert script.batch is not None and script.batch.outputs == (0,)
    assert obstacle_to_spark(script) == "one call has all rows: the program cannot put the results of blocks together"
    assert "parfor" not in score_text(script, "model") and "rows may depend" not in obstacle_to_sites(program_of(script))


REASON = "one call has all rows, which may depend on each other"


@pytest.mark.parametrize(("nodes", "place"), [
    ([("Neg", ["A"], ["a"], "first"), ("CumSum", ["a", "axis"], ["b"], "sums"), ("CumSum", ["b", "axis"], ["C"], "more")],
     ': node "sums" (CumSum)'),
    ([("Neg", ["A"], ["a"], ""), ("CumSum", ["a", "axis"], ["C"], "")], ': node "#1" (CumSum)'),
    ([("CumSum", ["A", "axis"], ["C"], "it\\s ° \"sum\"\n")], ': node "it?s ? ?"sum?"?n" (CumSum)'),
])
def test_the_node_that_mixes_rows_is_named(
    nodes: list[tuple[str, list[str], list[str], str]], place: str, tmp_path: Path
) -> None:
    made = [helper.make_node(kind, given, results, name=name) for kind, given, results, name in nodes]
    script = _saved(made, [("A", 1, ["b", 2])], [("C", 1, ["b", 2])], tmp_path, axis=np.array(0))
    program = score_text(script, "model")
    assert f"place is whole: {REASON}{place}".replace('"', '\\"') + '")' in program
    parse_script(program)


def test_a_result_for_all_rows_names_the_node_that_makes_it(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["A"], ["a"]), helper.make_node("ReduceMax", ["a", "axes"], ["C"], "most")]
    script = _saved(nodes, [("A", 1, ["b", 2])], [("C", 1, [1, 2])], tmp_path, axes=np.array([0]))
    assert obstacle_to_spark(script) == f'{REASON}: node "most" (ReduceMax)'


TOLD_APART = "tasks and sites have numbers for the texts of the model, and one for all others"
_CODES = {"keys_strings": ["a", "b"], "values_int64s": [1, 2], "domain": "ai.onnx.ml"}
_NAMES = {"keys_strings": ["a", "b"], "values_strings": ["x", "y"], "domain": "ai.onnx.ml"}


@pytest.mark.parametrize(("nodes", "given", "made", "node"), [
    ([("Neg", "A", "a", {}), ("Cast", "a", "C", {"to": 8})], 1, 8, "Cast"),
    ([("Identity", "A", "C", {})], 8, 8, "Identity"),
    ([("Cast", "A", "C", {"to": 1})], 8, 1, "Cast"),
    ([("Flatten", "A", "a", {}), ("StringConcat", "a word", "C", {})], 8, 8, "StringConcat"),
    ([("LabelEncoder", "A", "a", _NAMES), ("StringConcat", "a word", "C", {})], 8, 8, "StringConcat"),
    ([("Flatten", "A", "a", {}), ("LabelEncoder", "a", "C", _CODES)], 8, 7, ""),
    ([("LabelEncoder", "A", "C", _NAMES)], 8, 8, ""),
    ([("Equal", "A word", "C", {})], 8, 9, ""),
    ([("Flatten", "A", "a", {}), ("Equal", "A a", "C", {})], 8, 9, "Equal"),
])
def test_what_tells_texts_apart_that_are_none_of_the_model_is_named(
    nodes: list[tuple[str, str, str, dict[str, Any]]], given: int, made: int, node: str, tmp_path: Path
) -> None:
    nodes_made = [helper.make_node(kind, read.split(), [result], kind, **more) for kind, read, result, more in nodes]
    words = [helper.make_tensor("word", 8, [1], [b"a"])]
    script = _saved(nodes_made, [("A", given, ["b", 1])], [("C", made, ["b", 1])], tmp_path, tensors=words)
    reason = f'{TOLD_APART}: node "{node}" ({node})' if node else ""
    places = places_of(script)
    assert (places.no_tasks, places.no_sites, places.one_call) == (reason, reason, "")
    assert obstacle_to_spark(script) == reason


def test_the_functions_for_numbers_are_those_of_texts_in_front_of_the_main_one(tmp_path: Path) -> None:
    node = helper.make_node("LabelEncoder", ["A"], ["C"], **_NAMES)
    script = with_coded_texts(_saved([node], [("A", 8, ["b", 1])], [("C", 8, ["b", 1])], tmp_path))
    assert [function.name for function in script.functions] == ["gen_small_codes", "gen_small_texts", "gen_small_of_codes", "gen_small"]
    assert with_coded_texts(script) == script
    scored = script.functions[2]
    assert "texts" not in print_statement(replace(scored, comments=NO_COMMENTS))
    assert [each.type.kind for each in (*scored.parameters, *scored.results)] == ["matrix", "matrix"]


def test_a_model_of_many_texts_has_no_tasks(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(MOST_TEXTS)]
    node = helper.make_node("LabelEncoder", ["A"], ["C"], domain="ai.onnx.ml", keys_strings=keys, values_int64s=range(MOST_TEXTS))
    script = _saved([node], [("A", 8, ["b", 1])], [("C", 7, ["b", 1])], tmp_path)
    assert places_of(script).no_tasks.endswith(f"{MOST_TEXTS} texts or fewer, and the model has {MOST_TEXTS + 1}")
    assert with_coded_texts(script) is script


def test_widths_side_by_side_are_told_by_the_columns_or_fixed(tmp_path: Path) -> None:
    node, given = helper.make_node("Concat", ["A", "B"], ["C"], axis=1), [("A", 1, ["b", "p"]), ("B", 1, ["b", "q"])]
    script = _saved([node], given, [("C", 1, ["b", None])], tmp_path)
    assert places_of(script).no_sites == "the columns of all inputs side by side do not tell p and q, which --dim fixes"
    program = score_text(_saved([node], given, [("C", 1, ["b", None])], tmp_path, {"p": 3}), "model")
    assert "\n  A = features[, 1:3]\n  B = features[, 4:((ncol(features) - 3) + 3)]\n" in program


class _Rows:
    """A source of rows, of whose inputs the sizes are known."""

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        self.shapes = shapes

    def can_cut(self, batch: object) -> bool:
        return True


@pytest.mark.parametrize(("columns", "rows"), [(4, 50_000), (1 << 10, 1 << 11), (1 << 22, 1)])
def test_blocks_are_those_of_the_command_that_scores(columns: int, rows: int, tmp_path: Path) -> None:
    script = _saved([helper.make_node("Neg", ["A"], ["C"])], [("A", 1, ["b", columns])], [("C", 1, ["b", columns])], tmp_path)
    assert row_blocks(script, _Rows(A=(9, columns))).rows == rows
    assert f"rows = ifdef($rows, {rows})" in score_text(script, "model")


@pytest.mark.parametrize(("block", "task"), [(50_000, 1000), (1000, 1000), (999, 500), (128, 125), (3, 2), (1, 1)])
def test_blocks_of_tasks_divide_those_of_the_engine(block: int, task: int) -> None:
    assert rows_of_task(block) == task


@pytest.mark.engine
@pytest.mark.parametrize("dtype", ["float", "string"])
def test_results_without_elements_are_told(dtype: str, tmp_path: Path) -> None:
    script = import_model(parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        g ({dtype}[1, n] A, bool[n] B) => ({dtype}[1, k] C) {{ C = Compress<axis = 1>(A, B) }}"""))
    script.save(tmp_path / "model.dml")
    (tmp_path / "A.csv").write_text("5,6\n", encoding="utf-8")
    arguments = {"A": "A.csv", "B": "B.csv", "C": "C.csv"}
    (tmp_path / "B.csv").write_text("0\n1\n", encoding="utf-8")
    run_dml(score_text(script, "model"), tmp_path, arguments=arguments)
    assert (tmp_path / "C.csv").read_text(encoding="utf-8").strip() in ("6", "6.0")
    (tmp_path / "B.csv").write_text("0\n0\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="model_score.dml: C has no elements"):
        run_dml(score_text(script, "model"), tmp_path, arguments=arguments)


def test_what_is_known_to_have_no_elements_is_refused() -> None:
    script = import_model(parser.parse_model("""<ir_version: 8, opset_import: ["": 18]> g (float[n, 2] A) => (float[n, 0] C)
        <int64[1] zero = {0}, int64[1] one = {1}> { C = Slice(A, zero, zero, one) }"""))
    with pytest.raises(UnsupportedCase, match='"C" has no elements'):
        score_text(script, "model")


def test_lists_are_refused(tmp_path: Path) -> None:
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["b", 2]))
    graph = helper.make_graph([helper.make_node("SequenceAt", ["S", "at"], ["C"])], "g",
                              [helper.make_value_info("S", sequence), helper.make_tensor_value_info("at", 7, [])],
                              [helper.make_tensor_value_info("C", 1, ["b", 2])])
    with pytest.raises(UnsupportedCase, match='"S" is a sequence'):
        score_text(import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])), "model")


def test_the_command_line_writes_it_and_replaces_only_its_own(tmp_path: Path) -> None:
    graph = helper.make_graph([helper.make_node("Neg", ["A"], ["C"])], "g", [helper.make_tensor_value_info("A", 1, ["b", 2])],
                              [helper.make_tensor_value_info("C", 1, ["b", 2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "neg.onnx").write_bytes(model.SerializeToString())
    program, call = tmp_path / "neg_score.dml", [str(tmp_path / "neg.onnx"), "--score"]
    result = invoke(*call)
    assert result.exit_code == 0 and "\n  neg_score.dml scores files with it" in result.stderr
    first = program.read_text(encoding="utf-8")
    assert 'source("neg.dml")' in first
    assert invoke(*call).exit_code == 0
    program.write_text("# my own\n", encoding="utf-8")
    (tmp_path / "neg.dml").unlink()
    refused = invoke(*call)
    assert refused.exit_code == 1 and "--score did not write it" in refused.output
    assert program.read_text(encoding="utf-8") == "# my own\n" and not (tmp_path / "neg.dml").exists()
    named = invoke(*call, "-o", tmp_path / "two.dml")
    assert named.exit_code == 0 and 'source("two.dml")' in (tmp_path / "two_score.dml").read_text(encoding="utf-8")
    assert program.read_text(encoding="utf-8") == "# my own\n"


def _saved(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], folder: Path, dims: Any = None, tensors: Any = (),
    **constants: Any,
) -> Script:
    given, made = ([helper.make_tensor_value_info(*port) for port in ports] for ports in (inputs, outputs))
    tensors = [*tensors, *(helper.make_tensor(name, 7, array.shape, array.ravel()) for name, array in constants.items())]
    graph = helper.make_graph(nodes, "small", given, made, tensors)
    script = with_coded_texts(import_model(helper.make_model(graph, opset_imports=OPSETS, ir_version=8), dims=dims))
    script.save(folder / "model.dml")
    return script


def _assert_as_expected(script: Script, path: Path, feeds: Tensors, folder: Path) -> None:
    for (name, target), value in zip(targets(script).items(), expected_rows(script, path, feeds)):
        found = numbers(folder / target)
        wanted = np.asarray(value, dtype=np.float64)
        assert np.allclose(found, wanted.reshape(found.shape), rtol=1e-4, atol=1e-5), name
