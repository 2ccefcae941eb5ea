"""Models on both sides: what agrees, what parts and where, which inputs are made up, who judges."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.inference.registry import operator_generators
from onnx_systemds.model.load import load_model
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.verifying.random_inputs import RandomInputs
from onnx_systemds.verifying.verify import verify_model
from tests.invoking import invoke
from tests.operators.harness import random

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
Info = tuple[str, int, Any]


def make_model(
    nodes: list[onnx.NodeProto], inputs: list[Info], outputs: list[Info], opset: int = 17, **constants: np.ndarray
) -> onnx.ModelProto:
    given, results = ([helper.make_tensor_value_info(*info) for info in infos] for infos in (inputs, outputs))
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", given, results, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    nodes = [helper.make_node("MatMul", ["X", "W"], ["product"], name="first"),
             helper.make_node("Tanh", ["product"], ["bent"], name="second"),
             helper.make_node("Exp", ["bent"], ["Y"], name="third")]
    model = make_model(nodes, [("X", FLOAT, ["batch", 3])], [("Y", FLOAT, ["batch", 4])], W=random(3, 4))
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def wrong_tanh() -> Iterator[None]:
    def wrong(node: NodeView) -> Fragment:
        return node.matrix_result(f"tanh({node.matrix(0, 1)}) + 0.01", 1)

    right = operator_generators["", "Tanh"]
    operator_generators["", "Tanh"] = {1: wrong}
    yield
    operator_generators["", "Tanh"] = right


@pytest.mark.engine
def test_agrees_on_random_numbers(network: Path) -> None:
    result = invoke("verify", network)
    assert result.exit_code == 0, result.output
    assert "judge: onnxruntime" in result.output
    assert "inputs: random, seed 0\n  X: float32 [2, 3]\n" in result.output
    assert "sizes chosen here, --dim gives others: batch=2" in result.output
    assert "passed: 1 of 1 outputs agree" in result.output


@pytest.mark.engine
def test_a_model_traced_with_a_batch_of_one(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["X", "shape"], ["row"]), helper.make_node("MatMul", ["row", "W"], ["Y"])]
    model = make_model(nodes, [("X", FLOAT, ["batch", 2, 3])], [("Y", FLOAT, [1, 4])], shape=np.array([1, 6]), W=random(6, 4))
    onnx.save(model, tmp_path / "net.onnx")
    result = invoke("verify", tmp_path / "net.onnx", "--per-node")
    assert result.exit_code == 0, result.output
    assert "sizes chosen here, --dim gives others: batch=1" in result.output
    assert "do not fill the shape" in invoke("verify", tmp_path / "net.onnx", "--dim", "batch=2").output


@pytest.mark.engine
def test_larger_sizes_are_chosen_where_those_chosen_first_are_refused(tmp_path: Path) -> None:
    """By the judge, or by a check of the script alone."""
    wide = make_model([helper.make_node("MatMul", ["X", "W"], ["Y"])], [("X", FLOAT, ["n", "wide"])], [("Y", FLOAT, None)],
                      W=random(512, 3))
    onnx.save(wide, tmp_path / "wide.onnx")
    pooled = [helper.make_node("MaxPool", [f"p{place}"], [f"p{place + 1}"], kernel_shape=[2, 2], strides=[2, 2]) for place in range(6)]
    image = make_model([*pooled, helper.make_node("ReduceSum", ["p6"], ["Y"])], [("p0", FLOAT, ["n", 1, "h", "w"])], [("Y", FLOAT, None)])
    onnx.save(image, tmp_path / "image.onnx")
    for name, sizes in (("wide", "n=2, wide=512"), ("image", "n=2, h=128, w=128")):
        result = invoke("verify", tmp_path / f"{name}.onnx")
        assert result.exit_code == 0, result.output
        assert f"sizes chosen here, --dim gives others: {sizes}" in result.output
    np.save(tmp_path / "small.npy", random(2, 1, 32, 32))
    refused = invoke("verify", tmp_path / "image.onnx", "--inputs", tmp_path / "small.npy")
    assert refused.exit_code == 1
    # the check says itself which node it is of, and no statement of another node is named
    assert re.fullmatch(r'error: node "#5" \(MaxPool\): .*; the script takes it to be larger.*\n', refused.output), refused.output


def test_sizes_chosen_are_named_where_no_judge_runs_the_model(tmp_path: Path) -> None:
    model = make_model([helper.make_node("MatMul", ["X", "W"], ["Y"])], [("X", FLOAT, ["n", "k"])], [("Y", FLOAT, None)], W=random(6, 4))
    onnx.save(model, tmp_path / "net.onnx")
    assert "or sizes by --dim; chosen here: k=4" in invoke("verify", tmp_path / "net.onnx", "--dim", "n=3").output


def test_what_cannot_be_converted_is_told_before_who_cannot_run_it(tmp_path: Path) -> None:
    node = helper.make_node("Frobnicate", ["X"], ["Y"], name="odd", domain="my.own")
    model = make_model([node], [("X", FLOAT, ["n", 3])], [("Y", FLOAT, ["n", 3])])
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    onnx.save(model, tmp_path / "net.onnx")
    result = invoke("verify", tmp_path / "net.onnx")
    assert result.exit_code == 1
    assert 'node "odd" (my.own.Frobnicate, opset 1): the operator\'s domain is unknown' in result.output


def test_a_size_that_is_given_of_rows_is_that_of_all_columns() -> None:
    given = [("A", FLOAT, ["a", 1]), ("B", FLOAT, [None, 1]), ("C", FLOAT, ["c", "wide"])]
    graph = load_model(make_model([helper.make_node("Concat", ["A", "B", "C"], ["Y"], axis=1)], given, [("Y", FLOAT, None)])).graph
    for name in ("a", "B_dim0", "c"):
        contents = RandomInputs(graph, {name: 7}, 0).contents
        assert {each: array.shape for each, array in contents.items()} == {"A": (7, 1), "B": (7, 1), "C": (7, 4)}
    assert {array.shape[0] for array in RandomInputs(graph, {"wide": 5}, 0).contents.values()} == {2}


def dropping(opset: int) -> onnx.ModelProto:
    """A network in training: one that drops by its version, one by its input, one within a branch, and some that do not."""
    branch = helper.make_graph([helper.make_node("RandomNormalLike", ["X"], ["drawn"], name="inside")], "branch", [],
                               [helper.make_tensor_value_info("drawn", FLOAT, None)])
    other = helper.make_graph([helper.make_node("Identity", ["X"], ["same"])], "other", [], [helper.make_tensor_value_info("same", FLOAT, None)])
    if opset < 7:
        return make_model([helper.make_node("Dropout", ["X"], ["kept"], name="tested", is_test=1),
                           helper.make_node("Dropout", ["kept"], ["Y"], name="trained")], [("X", FLOAT, [8, 8])], [("Y", FLOAT, [8, 8])], opset)
    nodes = [helper.make_node("Dropout", ["X", "share", "off"], ["a"], name="off"),
             helper.make_node("Dropout", ["a", "share", "on"], ["b"], name="on"), helper.make_node("Dropout", ["b"], ["c"], name="without"),
             helper.make_node("If", ["mode"], ["d"], name="if", then_branch=branch, else_branch=other),
             helper.make_node("Dropout", ["c", "share", "mode"], ["e"], name="by input"), helper.make_node("Add", ["d", "e"], ["Y"])]
    return make_model(nodes, [("X", FLOAT, [8, 8]), ("mode", TensorProto.BOOL, [])], [("Y", FLOAT, [8, 8])], opset,
                      share=np.array(0.5, np.float32), on=np.array(True), off=np.array(False))


@pytest.mark.parametrize(("opset", "names"), [(6, ["trained"]), (17, ["on", "by input", "inside"])])
def test_nodes_that_draw_random_numbers_are_named(opset: int, names: list[str]) -> None:
    inputs = {"X": random(8, 8)} | ({"mode": np.array(True)} if opset > 6 else {})
    report = verify_model(dropping(opset), inputs, expected={"Y": np.full((8, 8), 100, np.float32)})
    assert list(report.drawing) == names
    assert f'random numbers are drawn by "{names[0]}"' in "\n".join(report.lines())
    assert report.summary()["drawing"] == report.drawing


def test_random_numbers_are_no_matter_where_results_agree() -> None:
    model = make_model([helper.make_node("Dropout", ["X", "none", "on"], ["Y"])], [("X", FLOAT, [2, 3])], [("Y", FLOAT, [2, 3])],
                       none=np.array(0, np.float32), on=np.array(True))
    assert verify_model(model).drawing == ()


@pytest.mark.parametrize(("op_type", "attributes", "shape"), [
    ("Gather", {"axis": 1}, [40]), ("Gather", {"axis": -1}, [40]), ("GatherElements", {"axis": 0}, [7, 2]),
    ("ScatterElements", {"axis": 1}, [7, 2]), ("GatherND", {}, [9, 2]), ("ScatterND", {}, [9, 1]),
])
def test_random_indices_lie_within_what_is_indexed(op_type: str, attributes: dict[str, int], shape: list[int]) -> None:
    updates = ("U", FLOAT, [9, 2] if op_type == "ScatterND" else shape)
    given = [("X", FLOAT, ["n", 2]), ("I", INT64, shape), *([updates] if op_type.startswith("Scatter") else [])]
    node = helper.make_node(op_type, [name for name, _, _ in given], ["Y"], **attributes)
    model = make_model([node], given, [("Y", FLOAT, None)], 18)
    drawn = RandomInputs(load_model(model).graph, {"n": 7}, 0).contents["I"]
    assert 0 < drawn.max() < (7 if op_type == "GatherElements" else 2)


@pytest.mark.engine
def test_edges_are_indices_of_nodes_that_were_computed() -> None:
    """A convolution over a graph, as PyTorch Geometric writes it: what is indexed is no input itself."""
    nodes = [helper.make_node("MatMul", ["X", "W"], ["h"]), helper.make_node("Split", ["edges"], ["a", "b"], axis=0, num_outputs=2),
             helper.make_node("Squeeze", ["a", "first"], ["source"]), helper.make_node("Gather", ["h", "source"], ["sent"]),
             helper.make_node("Squeeze", ["b", "first"], ["target"]), helper.make_node("Gather", ["h", "target"], ["own"]),
             helper.make_node("Sub", ["sent", "own"], ["Y"])]
    model = make_model(nodes, [("X", FLOAT, ["nodes", 3]), ("edges", INT64, [2, "edges"])], [("Y", FLOAT, None)], 18,
                       W=random(3, 4), first=np.array([0]))
    report = verify_model(model)
    assert report.passed and report.sizes == {"nodes": 10, "edges": 10}


@pytest.mark.engine
def test_given_sizes_and_inputs(network: Path, tmp_path: Path) -> None:
    assert "X: float32 [5, 3]\noutput" in invoke("verify", network, "--dim", "batch=5", "--seed", 7).output
    np.savez(tmp_path / "in.npz", X=random(7, 3))
    result = invoke("verify", network, "--inputs", tmp_path / "in.npz", "--per-node")
    assert result.exit_code == 0, result.output
    assert "inputs: as given\n  X: float32 [7, 3]\n" in result.output
    assert "nodes: 3 values compared, 0 differ" in result.output


@pytest.mark.engine
@pytest.mark.usefixtures("wrong_tanh")
def test_says_where_numbers_part(network: Path) -> None:
    result = invoke("verify", network, "--per-node")
    assert result.exit_code == 1
    assert "FAILED: 0 of 1 outputs agree" in result.output and "FAIL (8 elements)" in result.output
    assert 'the first difference is in node "second" (Tanh)' in result.output
    assert invoke("verify", network, "--atol", 0.1).exit_code == 0


@pytest.mark.usefixtures("wrong_tanh")
def test_report_of_the_python_call(network: Path) -> None:
    report = verify_model(network, {"X": random(2, 3)}, per_node=True)
    assert not report.passed
    assert report.first_apart is not None and report.first_apart.node == "second"
    assert [node.node for node in report.nodes] == ["first", "second", "third"]
    assert report.worst_nodes(1)[0].comparison.absolute == pytest.approx(0.01, rel=0.01)
    (output,) = report.outputs
    assert output.absolute == pytest.approx(0.01 * float(output.expected), rel=0.1)  # type: ignore[arg-type]


@pytest.mark.engine
def test_reference_where_onnxruntime_is_missing(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    result = invoke("verify", network)
    assert result.exit_code == 0, result.output
    assert "judge: ONNX's reference implementation" in result.output
    assert "  onnxruntime: ModuleNotFoundError" in result.output


@pytest.mark.engine
def test_inputs_that_no_judge_takes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["W", "index"], ["Y"])]
    model = make_model(nodes, [("index", INT64, ["n"])], [("Y", FLOAT, ["n", 2])], W=random(4, 2))
    onnx.save(model, tmp_path / "gather.onnx")
    assert invoke("verify", tmp_path / "gather.onnx").exit_code == 0  # random indices are in range
    np.savez(tmp_path / "in.npz", index=np.array([9]))
    result = invoke("verify", tmp_path / "gather.onnx", "--inputs", tmp_path / "in.npz")
    assert result.exit_code == 1
    assert "onnxruntime:" in result.output and "hint:" in result.output and "Traceback" not in result.output


def test_inputs_that_decide_the_script() -> None:
    nodes = [helper.make_node("ReduceSum", ["X", "axes"], ["Y"], keepdims=0)]
    model = make_model(nodes, [("X", FLOAT, ["n", 3, 4]), ("axes", INT64, [1])], [("Y", FLOAT, None)])
    report = verify_model(model, {"X": random(2, 3, 4), "axes": np.array([1])}, per_node=True)
    assert report.passed and report.required_constants == ("axes",) and len(report.nodes) == 1
    assert any('their content decides the script: "axes"' in line for line in report.lines())


def test_texts_and_maps() -> None:
    nodes = [helper.make_node("LabelEncoder", ["city"], ["code"], domain="ai.onnx.ml",
                              keys_strings=["Graz", "Wien"], values_floats=[1.0, 2.0]),
             helper.make_node("ZipMap", ["code"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["a"])]
    model = make_model(nodes, [("city", STRING, ["n", 1])], [("code", FLOAT, ["n", 1])])
    maps = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, None))
    model.graph.output.append(helper.make_value_info("maps", helper.make_sequence_type_proto(maps)))
    report = verify_model(model)
    assert report.passed, list(report.lines())
    assert [output.name for output in report.outputs] == ["code", "maps/a"]


def test_lists() -> None:
    nodes = [helper.make_node("SequenceAt", ["items", "position"], ["second"]),
             helper.make_node("SequenceConstruct", ["second", "second"], ["twice"])]
    model = make_model(nodes, [], [("second", FLOAT, [2, 3])], position=np.array(1))
    items = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2, 3]))
    model.graph.input.append(helper.make_value_info("items", items))
    model.graph.output.append(helper.make_value_info("twice", items))
    for inputs in (None, {"items/0": random(2, 3), "items/1": random(2, 3, seed=1)}):
        report = verify_model(model, inputs)
        assert report.passed and [output.name for output in report.outputs] == ["second", "twice/0", "twice/1"]


def test_values_that_nobody_uses_are_not_compared() -> None:
    nodes = [helper.make_node("Dropout", ["X"], ["kept", "mask"]), helper.make_node("Neg", ["kept"], ["Y"])]
    report = verify_model(make_model(nodes, [("X", FLOAT, [2])], [("Y", FLOAT, [2])]), per_node=True)
    assert [node.comparison.name for node in report.nodes] == ["kept", "Y"]


def test_external_data(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["X", "W"], ["Z"]), helper.make_node("Sigmoid", ["Z"], ["Y"])]
    model = make_model(nodes, [("X", FLOAT, [2, 40])], [("Y", FLOAT, [2, 40])], W=random(40, 40))
    onnx.save(model, tmp_path / "wide.onnx", save_as_external_data=True, location="wide.bin", size_threshold=0)
    assert verify_model(tmp_path / "wide.onnx", per_node=True).passed
