"""``inspect``: what a model holds, and what stands against its conversion."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import FunctionProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.cli.inspecting import inspect_model
from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models


def inspect(*arguments: object) -> Result:
    return invoke("inspect", *arguments)


def save(path: Path, nodes: list[onnx.NodeProto], domains: list[str], functions: list[FunctionProto] | None = None) -> Path:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "XY"]
    weights = [numpy_helper.from_array(np.eye(3, dtype=np.float32), "W")]
    graph = helper.make_graph(nodes, "tiny", infos[:1], infos[1:], weights)
    imports = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="tests", functions=functions or [])
    onnx.save(model, path)
    return path


def test_the_report_is_complete(tmp_path: Path) -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("own", "Bent", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    scale = numpy_helper.from_array(np.zeros(5, np.int8), "unused")
    nodes = [helper.make_node("MatMul", ["X", "W"], ["a"]), helper.make_node("MatMul", ["a", "W"], ["b"]),
             helper.make_node("Bent", ["b"], ["c"], domain="own"), helper.make_node("Constant", [], ["d"], value=scale),
             helper.make_node("Identity", ["c"], ["Y"])]
    result = inspect(save(tmp_path / "tiny.onnx", nodes, ["own"], [function]))
    assert result.exit_code == 0
    assert result.output == """\
graph: tiny
producer: tests
IR version: 8
opsets: ai.onnx 17, own 1
inputs:
  X: float [batch, 3]
outputs:
  Y: float [batch, 3]
symbols, which --dim fixes: batch
operators: 6 nodes
  Constant  opset 17  1x  supported
  Identity  opset 17  1x  supported
  MatMul    opset 17  2x  supported
  Relu      opset 17  1x  supported
  own.Bent  opset 1   1x  function of the model
functions of the model: own.Bent
weights: 2 tensors, 14 elements: 41 bytes in the model, 112 bytes in the engine (FP64)
memory of a call: depends on batch; --dim gives sizes
can be converted
"""


def test_json(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["X", "W"], ["a"]), helper.make_node("NoSuch", ["a"], ["Y"])]
    found = json.loads(inspect(save(tmp_path / "tiny.onnx", nodes, []), "--json").output)
    assert [(row["operator"], row["count"], row["imported"][:13]) for row in found["operators"]] == [
        ("MatMul", 1, "supported"), ("NoSuch", 1, "not supported")]
    assert found["inputs"] == [{"name": "X", "type": "float [batch, 3]"}] and found["opsets"] == {"": 17}
    assert found["weights"] == {"tensors": 1, "elements": 9, "bytes": 36, "equal_to_others": 0, "read_by_nothing": 0,
                                "engine_bytes": 72}
    assert not found["can_be_converted"] and "NoSuch" in found["reasons"][0] and found["memory"] is None


def test_json_of_sizes_and_of_a_plan(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.onnx", [helper.make_node("MatMul", ["X", "W"], ["Y"])], [])
    found = json.loads(inspect(path, "--json", "--dim", "batch=1000").output)
    assert found["can_be_converted"] and found["memory"]["largest"] == "MatMul of Y"
    plan = json.loads(inspect(path, "--json", "--dim", "batch=1000", "--plan", "spark").output)
    (row,) = plan["operators"]
    assert (plan["place"], plan["rows"], row["operator"], row["where"], row["bytes"]) == ("spark", 1000, "MatMul", "task", 24000)
    assert "0 rows (batch) in 0 blocks" in inspect(path, "--dim", "batch=0", "--plan", "spark").output


def test_what_is_unsupported_and_why(tmp_path: Path) -> None:
    nodes = [helper.make_node("NoSuch", ["X"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Other", ["b"], ["Y"], name="second", domain="my.domain")]
    result = inspect(save(tmp_path / "bad.onnx", nodes, ["my.domain"]))
    assert result.exit_code == 0
    assert "NoSuch           opset 17  1x  NOT SUPPORTED: ONNX has no such operator in this opset version" in result.output
    assert "my.domain.Other  opset 1   1x  NOT SUPPORTED: the operator's domain is unknown" in result.output
    reasons = result.output.partition("cannot be converted:\n")[2]
    assert reasons.count("\n- ") == 1 and '"first"' in reasons and '"second"' in reasons


def test_sizes_and_plugins(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["X"], ["Y"])]
    path = save(tmp_path / "relu.onnx", nodes, [])
    assert "can be converted" in inspect(path, "--dim", "batch=4").output
    assert "cannot be converted:\n" in inspect(path, "--dim", "bach=4").output
    assert inspect(path, "--dim", "batch").exit_code == 2
    (tmp_path / "broken.py").write_text("1 / 0")
    assert inspect(path, "--plugin", tmp_path / "broken.py").exit_code == 1


def test_memory(tmp_path: Path) -> None:
    """X, a and b are there at once, and Y in the place of the latter two; a view is no further matrix."""
    nodes = [helper.make_node("MatMul", ["X", "W"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Identity", ["b"], ["c"]), helper.make_node("Add", ["c", "X"], ["d"]),
             helper.make_node("Exp", ["d"], ["Y"])]
    found = inspect_model(save(tmp_path / "few.onnx", nodes, []), {"batch": 1000}).memory
    assert found is not None and not found.unknown
    matrix = 8 * 1000 * 3
    assert (found.peak.alive, found.peak.node.op_type) == (3 * matrix, "Relu")
    assert (found.largest.own, found.largest.node.op_type) == (3 * matrix, "Add")


def test_memory_of_a_convolution() -> None:
    """Beside image and result, the windows of an image for each processor."""
    infos = [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 2, 8, 8]),
             helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["n", 5, 6, 6])]
    weight = numpy_helper.from_array(np.ones((5, 2, 3, 3), np.float32), "W")
    graph = helper.make_graph([helper.make_node("Conv", ["X", "W"], ["Y"])], "g", infos[:1], infos[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = inspect_model(model, {"n": 7}).memory
    images, windows = 8 * 7 * (2 * 8 * 8 + 5 * 6 * 6), 8 * 2 * 3 * 3 * 6 * 6
    assert found is not None and found.peak.alive == images + (os.cpu_count() or 1) * windows


def test_memory_that_only_the_run_knows(tmp_path: Path) -> None:
    nodes = [helper.make_node("NonZero", ["X"], ["places"]), helper.make_node("Cast", ["places"], ["p"], to=1),
             helper.make_node("ReduceSum", ["p"], ["s"], keepdims=0), helper.make_node("Add", ["X", "s"], ["Y"])]
    lines = inspect(save(tmp_path / "few.onnx", nodes, []), "--dim", "batch=4").output
    assert "memory of a call, besides weights: at least 200 bytes at once, in " in lines
    assert "without 2 values whose sizes only the run knows" in lines


def test_no_model(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    assert inspect(tmp_path / "text.onnx").exit_code == 1
    assert inspect(tmp_path / "none.onnx").exit_code == 1


@needs_models
@pytest.mark.parametrize("name", ["unknown_domain__noisy_relu", "unknown_domain__qonnx_fp8"])
def test_models_that_are_rejected(name: str) -> None:
    assert MODELS is not None
    found = inspect_model(MODELS / "reject" / f"{name}.onnx")
    assert found.reasons
    assert sum(use.count for use in found.operators if not use.how) == len(found.reasons)


def test_equal_weights_are_stored_once_and_told_so(tmp_path: Path) -> None:
    w = np.arange(90_000, dtype=np.float32).reshape(300, 300)
    weights = {"A": w, "B": w.copy(), "C": w + 1, "D": w.astype(np.float64)}
    nodes = [helper.make_node("MatMul", ["X", "A"], ["a"]), helper.make_node("MatMul", ["a", "B"], ["b"]), helper.make_node("MatMul", ["b", "C"], ["Y"])]
    infos = [helper.make_tensor_value_info(name, 1, ["n", 300]) for name in "XY"]
    graph = helper.make_graph(nodes, "twins", infos[:1], infos[1:], [numpy_helper.from_array(array, name) for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "twins.onnx")
    shown = inspect(tmp_path / "twins.onnx").output
    alike = "weights: 4 tensors (1 equal to others, and stored once with them; 1 read by nothing, and not stored), 360,000 elements: "
    assert alike in shown and "1.44 MB in the engine" in shown
    script = import_model(tmp_path / "twins.onnx", weights="files")
    assert len(script.weights) == 2  # nothing reads D
