"""Programs that score files do so at the federated sites that have the rows, and say where they can't."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_systemds import import_model
from onnx_systemds.engine.faults import FEDERATED, Fault
from onnx_systemds.importing.coded_texts import with_coded_texts
from onnx_systemds.importing.score_program import file_arguments, score_text
from onnx_systemds.importing.script import Script
from tests.command_line import run_dml
from tests.scale.sites import ROWS_TOLD, Array, at_sites, times_fetched, two_workers

Ports = tuple[int, int]
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with two_workers(tmp_path_factory.mktemp("workers")) as found:
        yield found


@pytest.mark.parametrize("fault", FEDERATED, ids=lambda fault: fault.identifier)
def test_fault_is_still_there(fault: Fault, ports: Ports, tmp_path: Path) -> None:
    rows = np.array(fault.inputs)
    script = f'X = read("X")\n{fault.script}\nwrite(result, "result.csv", format="csv")\n'
    program = at_sites(script, rows.astype(object) if rows.dtype.kind == "U" else rows, 1, ports, tmp_path)
    if not fault.raises:
        run_dml(program, tmp_path)
        assert not np.array_equal(np.loadtxt(tmp_path / "result.csv", delimiter=",", ndmin=2), np.array(fault.right))
        return
    with pytest.raises(AssertionError, match=re.escape(fault.raises)):
        run_dml(program, tmp_path)


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
    assert times_fetched(output) == ROWS_TOLD
    assert np.array_equal(np.loadtxt(tmp_path / "C.csv", delimiter=","), [-4, -1, 8])


def test_texts_of_the_model_and_others(ports: Ports, tmp_path: Path) -> None:
    """They go to the sites as a frame, and come back by their numbers."""
    given, made = (helper.make_tensor_value_info(name, 8, ["n", 2]) for name in ("X", "Y"))
    node = helper.make_node("LabelEncoder", ["X"], ["Y"], domain="ai.onnx.ml", default_string="?",
                            keys_strings=["Köln", "\\'b", "", "->"], values_strings=["K", "q'", "none", "arrow"])
    script = with_coded_texts(_imported(helper.make_graph([node], "texts", [given], [made])))
    rows = np.array([["Köln", "Graz"], ["\\'b", ""], ["->", "Köln"]], dtype=object)
    output = _scored(script, rows, ports, tmp_path, first=2)
    assert times_fetched(output) == ROWS_TOLD
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


@pytest.mark.parametrize(("joint", "cell"), [(False, 2.5), (False, 1.0), (True, 0.5), (True, 3.0)])
def test_numbers_that_the_element_type_does_not_have_are_told(joint: bool, cell: float, ports: Ports, tmp_path: Path) -> None:
    given = [helper.make_tensor_value_info("X", 7, ["n", 2]), *([helper.make_tensor_value_info("F", 1, ["n", 1])] if joint else [])]
    nodes = [helper.make_node("Cast", ["X"], ["Z" if joint else "Y"], to=1), *([helper.make_node("Add", ["Z", "F"], ["Y"])] if joint else [])]
    script = _imported(helper.make_graph(nodes, "whole", given, [helper.make_tensor_value_info("Y", 1, ["n", 2])]))
    table = {"table": "features"} if joint else {}
    rows = np.array([[0.0, 1, 0.5], [1, 1, 0.25], [0, cell, 3]])[:, : 3 if joint else 2]
    if cell == round(cell):
        _scored(script, rows, ports, tmp_path, first=2, **table)
        assert np.array_equal(np.loadtxt(tmp_path / "Y.csv", delimiter=","), rows[:, :2] + (rows[:, 2:] if joint else 0))
    else:
        with pytest.raises(AssertionError, match="results of 2 rows have come from the sites, not of 3"):
            _scored(script, rows, ports, tmp_path, first=2, **table)


def test_rows_that_ranges_leave_out_are_told(ports: Ports, tmp_path: Path) -> None:
    rows = np.array([[np.nan, 2], [3, np.inf], [0, 0]])
    with pytest.raises(AssertionError, match="model_score.dml: the files at the sites have 5 rows, their ranges say 3"):
        _scored(_negation(), rows, ports, tmp_path, first=1, more=2)
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


def test_columns_of_several_sites_are_fetched(ports: Ports, tmp_path: Path) -> None:
    """The engine's own federated form of a reshape leaves numbers of columns out: federated-columns-in-another-shape."""
    three_axes = helper.make_tensor_value_info("X", 1, ["n", 2, 2])
    sums = helper.make_node("ReduceSum", ["X", "axis"], ["Y"], keepdims=0)
    made = helper.make_tensor_value_info("Y", 1, ["n", 2])
    script = _imported(helper.make_graph([sums], "sums", [three_axes], [made], [helper.make_tensor("axis", 7, [1], [2])]))
    script.save(tmp_path / "model.dml")
    rows = np.arange(1.0, 13).reshape(3, 4)
    # rows of the sites, which become columns
    program = at_sites(score_text(script, "model"), rows.T, 1, ports, tmp_path).replace("n = nrow(X)", "X = t(X)\nn = nrow(X)", 1)
    for place in ("whole", "local"):
        run_dml(program, tmp_path, arguments={"Y": f"{place}.csv", "format": "federated", "pull": "TRUE", "place": place})
        assert np.array_equal(np.loadtxt(tmp_path / f"{place}.csv", delimiter=","), rows.reshape(3, 2, 2).sum(axis=2)), place


def _scored(
    script: Script, array: Array, ports: Ports, folder: Path, first: int, more: int = 0, **arguments: str
) -> str:
    """Score rows, the first ones at another site than the rest; what the engine prints."""
    script.save(folder / "model.dml")
    text = score_text(script, "model")
    program = at_sites(text, array, first, ports, folder, more=more)
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
