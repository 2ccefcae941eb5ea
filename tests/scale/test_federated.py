"""Programs that score files do so at the federated sites that have the rows, and say where they can't."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_systemds import import_model
from onnx_systemds.importing.coded_texts import with_coded_texts
from onnx_systemds.importing.score_program import file_arguments, score_text
from onnx_systemds.importing.script import Script
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.row_blocks import common_rows
from onnx_systemds.verifying.comparing import compare_tensors
from tests.command_line import run_dml
from tests.model_zoo import MODELS, needs_models
from tests.scale.sites import Array, at_sites, times_fetched, two_workers
from tests.scored_files import expected_rows, stored_rows

ROWS, FIRST = 150, 40
FAMILIES = {
    "mlp with Gelu": "mlp_tabular.ts",
    "boosted trees": "xgb_wine",
    "LightGBM": "lgb_dia",
    "random forest": "skl_bc_rf",
    "convolutions": "resnet_tiny.ts",
    "recurrent": "lstm_gru_tagger.ts",
    "transformer": "bert_tiny.ts",
    "texts and numbers": "skl_mixed_cols",
}
Ports = tuple[int, int]
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with two_workers(tmp_path_factory.mktemp("workers")) as found:
        yield found


@needs_models
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_scored_where_they_are(family: str, ports: Ports, tmp_path: Path) -> None:
    assert MODELS is not None
    path = MODELS / "generated" / f"{FAMILIES[family]}.onnx"
    script = with_coded_texts(import_model(path, types=common_rows(load_model(path))))
    feeds = stored_rows(path, ROWS)
    array = np.hstack([feeds[port.name].reshape(ROWS, -1).astype(object) for port in script.inputs])
    if all(port.dtype != "string" for port in script.inputs):
        array = array.astype(np.float64)
    output = _scored(script, array, ports, tmp_path, rows="16", table="at sites")
    assert f"scored {ROWS} rows in" in output
    assert times_fetched(output) == 0
    expected = expected_rows(script, path, feeds)
    for result, value in zip(script.main.results, expected):
        found = np.loadtxt(tmp_path / f"{result.name}.csv", delimiter=",", ndmin=2)
        comparison = compare_tensors(result.name, found.reshape(value.shape).astype(value.dtype), value)
        assert comparison.passed, comparison


def test_a_model_without_weights(ports: Ports, tmp_path: Path) -> None:
    rows = np.array([[1.5, np.nan], [-2, np.inf], [3, 4]])
    _scored(_negation(), rows, ports, tmp_path, first=2)
    assert np.array_equal(np.loadtxt(tmp_path / "Y.csv", delimiter=","), -rows, equal_nan=True)


def test_columns_of_a_table(ports: Ports, tmp_path: Path) -> None:
    columns = [helper.make_tensor_value_info(name, 1, ["n", 1]) for name in ("A", "B", "C")]
    graph = helper.make_graph([helper.make_node("Sub", ["A", "B"], ["C"])], "table", columns[:2], columns[2:])
    script = _imported(graph)
    rows = np.array([[1.0, 5], [2, 3], [7, -1]])
    output = _scored(script, rows, ports, tmp_path, first=1)
    assert times_fetched(output) == 0
    assert np.array_equal(np.loadtxt(tmp_path / "C.csv", delimiter=","), [-4, -1, 8])


def test_texts_of_the_model_and_others(ports: Ports, tmp_path: Path) -> None:
    """They go to the sites as a frame, and come back by their numbers."""
    given, made = (helper.make_tensor_value_info(name, 8, ["n", 2]) for name in ("X", "Y"))
    node = helper.make_node("LabelEncoder", ["X"], ["Y"], domain="ai.onnx.ml", default_string="?",
                            keys_strings=["Köln", "\\'b", "", "->"], values_strings=["K", "q'", "none", "arrow"])  # fmt: skip
    script = with_coded_texts(_imported(helper.make_graph([node], "texts", [given], [made])))
    rows = np.array([["Köln", "Graz"], ["\\'b", ""], ["->", "Köln"]], dtype=object)
    output = _scored(script, rows, ports, tmp_path, first=2)
    assert times_fetched(output) == 0
    assert (tmp_path / "Y.csv").read_text(encoding="utf-8").splitlines() == ["K,?", "q',none", "arrow,K"]


def test_sites_without_federated_rows(tmp_path: Path) -> None:
    script = _negation()
    script.save(tmp_path / "model.dml")
    (tmp_path / "X.csv").write_text("5,6\n7,8\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="place=sites needs format=federated"):
        run_dml(score_text(script, "model"), tmp_path, arguments={"X": "X.csv", "Y": "Y.csv", "place": "sites"})


def test_rows_that_a_site_fails_to_score_are_told(ports: Ports, tmp_path: Path) -> None:
    table = helper.make_tensor("T", 1, [2, 1], [10, 20])
    script = _small([helper.make_node("Gather", ["T", "X"], ["Y"])], 7, [table])
    rows = np.array([[0.0, 1], [1, 1], [0, 5]])
    with pytest.raises(AssertionError, match="results of 2 rows have come from the sites, not of 3"):
        _scored(script, rows, ports, tmp_path, first=2)
    assert not (tmp_path / "Y.csv").exists()


def test_rows_leave_their_sites_only_where_that_is_asked_for(ports: Ports, tmp_path: Path) -> None:
    script, rows = _negation(), np.array([[1.0, 2], [3, 4]])
    with pytest.raises(AssertionError, match="rows would leave their sites: only place=sites does without"):
        _scored(script, rows, ports, tmp_path, first=1, place="whole")
    _scored(script, rows, ports, tmp_path, first=1, place="whole", pull="TRUE")
    assert np.array_equal(np.loadtxt(tmp_path / "Y.csv", delimiter=","), -rows)


def test_a_model_whose_rows_depend_on_each_other_is_refused(ports: Ports, tmp_path: Path) -> None:
    axis = helper.make_tensor("axis", 7, [], [0])
    script = _small([helper.make_node("CumSum", ["X", "axis"], ["Y"], "sums")], 1, [axis])
    rows = np.array([[1.0, 2], [3, 4]])
    with pytest.raises(AssertionError, match='rows of several sites: node "sums" \\(CumSum\\); pull'):
        _scored(script, rows, ports, tmp_path, first=1)
    _scored(script, rows, ports, tmp_path, first=1, pull="TRUE")
    assert np.array_equal(np.loadtxt(tmp_path / "Y.csv", delimiter=","), [[1, 2], [4, 6]])


@needs_models
@pytest.mark.parametrize(
    ("model", "reason"),
    [("txt_tfidf_lr", 'results may depend on rows of several sites: node \\"Tokenizer\\" (Tokenizer)')],
)  # fmt: skip
def test_what_is_not_scored_at_sites(model: str, reason: str) -> None:
    assert MODELS is not None
    path = MODELS / "generated" / f"{model}.onnx"
    program = score_text(import_model(path, types=common_rows(load_model(path))), "model")
    assert f"rows would leave their sites: {reason}; pull=TRUE allows it" in program
    assert "paramserv" not in program


def _scored(
    script: Script, array: Array, ports: Ports, folder: Path, first: int = FIRST, **arguments: str
) -> str:
    """Score rows, the first ones at another site than the rest; what the engine prints."""
    script.save(folder / "model.dml")
    text = score_text(script, "model")
    name = next(each for each in ("table", "features", script.main.parameters[0].name) if f"{each} = read(" in text)
    program = at_sites(text, name, array, first, ports, folder)
    results = {name: f"{result.name}.csv" for name, result in zip(file_arguments(script)[1], script.main.results)}
    return run_dml(program, folder, arguments={**results, "format": "federated", **arguments}, options=["-stats"])


def _negation() -> Script:
    return _small([helper.make_node("Neg", ["X"], ["Y"])], 1, [])


def _small(nodes: list[onnx.NodeProto], dtype: int, tensors: list[onnx.TensorProto]) -> Script:
    given = helper.make_tensor_value_info("X", dtype, ["n", 2])
    made = helper.make_tensor_value_info("Y", 1, None)
    graph = helper.make_graph(nodes, "small", [given], [made], tensors)
    return _imported(graph)


def _imported(graph: onnx.GraphProto) -> Script:
    return import_model(helper.make_model(graph, opset_imports=OPSETS, ir_version=8))
