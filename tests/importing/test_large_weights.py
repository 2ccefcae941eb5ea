"""Weights of any size are loaded by the plain engine from the folder beside the script."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.plain_engine import score_plainly

COLS = 4000


def write_model(path: Path, rows: int) -> None:
    """Write y = x W[i] + x W, its float32 weight of rows x COLS beside it: x is [1, rows], i one row."""
    weight = np.memmap(path.with_suffix(".data"), np.float32, "w+", shape=(rows, COLS))
    for start in range(0, rows, 1000):
        weight[start : start + 1000] = values(np.arange(start, min(start + 1000, rows)))
    weight.flush()
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, COLS])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=path.with_suffix(".data").name)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Gather", ["w", "i"], ["g"]),
        helper.make_node("Add", ["p", "g"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows]),
              helper.make_tensor_value_info("i", TensorProto.INT64, [1])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, COLS])]
    graph = helper.make_graph(nodes, "large", inputs, outputs, [tensor])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def values(rows: np.ndarray) -> np.ndarray:
    """Rows of the weight: multiples of 1/64 that repeat in neither direction with the engine's blocks."""
    return ((rows[:, None] * 7 + np.arange(COLS) * 3) % 251 - 125) / 64


@pytest.mark.parametrize(
    ("megabytes", "heap", "mode"),
    [
        (60, "1g", "singlenode"),  # 120 MB of doubles, 64 MiB is where the engine itself would divide the file
        (60, "1g", "hybrid"),
        pytest.param(1000, "4g", "singlenode", marks=pytest.mark.big),
        pytest.param(2500, "8g", "singlenode", marks=pytest.mark.big),  # the serial collector keeps a third for the young
    ],
)
def test_large_weight_on_the_plain_command_line(megabytes: int, heap: str, mode: str, tmp_path: Path) -> None:
    rows = megabytes * 1_000_000 // (4 * COLS)
    write_model(tmp_path / "large.onnx", rows)
    x = np.arange(rows) % 5 - 2.0
    place = rows - 3
    folder = tmp_path / "run"
    folder.mkdir()
    given = {"x": x[None].astype(np.float32), "i": np.array([place])}
    actual = score_plainly(import_model(tmp_path / "large.onnx"), given, mode=mode, heap=heap, folder=folder)["y"]
    expected = values(np.array([place]))[0]
    for start in range(0, rows, 1000):
        part = np.arange(start, min(start + 1000, rows))
        expected = expected + x[part] @ values(part)
    np.testing.assert_array_equal(actual[0], expected.astype(np.float32))


@pytest.mark.engine
@pytest.mark.parametrize("name", ["while", "TRUE", "source", "max"])
def test_names_that_are_words_of_the_language(name: str) -> None:
    """TensorFlow's loops have names that end so, and lists are given with the names of their items."""
    x, weight = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[n, 3] x) => (float[n, 2] y) { y = MatMul(x, w) }')
    model.graph.node[0].input[1] = name
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    script = import_model(model, weights="files")
    with ScoringFunction(script) as score:
        np.testing.assert_array_equal(score({"x": x})["y"], x @ weight)
    np.testing.assert_array_equal(score_plainly(script, {"x": x})["y"], x @ weight)
