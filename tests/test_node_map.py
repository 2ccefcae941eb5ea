"""``--map``: nodes of the model and lines of the script, for both directions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.importing.origins import placed_statements, read_back
from onnx_systemds.importing.passes.block_cuts import is_never
from tests.golden.models import GOLDENS
from tests.operators.harness import random
from tests.test_cli import invoke
from tests.verifying.test_planted_errors import NODES, network
from tests.verifying.test_verify import make_model


def mapped(path: Path, *options: object) -> tuple[list[dict[str, Any]], list[str]]:
    """The map of a model, and the lines of its script."""
    result = invoke(path, "-o", path.with_name("net.dml"), "--map", path.with_name("map.json"), "-q", *options)
    assert result.exit_code == 0, result.output
    return json.loads(path.with_name("map.json").read_text()), path.with_name("net.dml").read_text().splitlines()


def test_nodes_and_the_lines_of_their_statements(tmp_path: Path) -> None:
    onnx.save(network("batch"), tmp_path / "model.onnx")
    nodes, lines = mapped(tmp_path / "model.onnx")
    assert [node["node"]["node"] for node in nodes] == [node.name for node in NODES if node.op_type != "Flatten"]
    gemm = nodes[4]
    assert gemm["node"] == {"graph": "net", "node": "/head/scores", "op": "Gemm", "domain": "", "version": 17}
    assert (gemm["takes"], gemm["gives"]) == (["even float [batch, 8]", "weight/scaled float [8, 3]"], ["scores"])
    assert [lines[place["line"] - 1].split(" = ")[0] for place in gemm["statements"]] == ["  weight_scaled", "  scores"]
    assert {place["function"] for place in gemm["statements"]} == {"gen_net"}
    assert [place["column"] for place in gemm["statements"]] == [3, 3]


def test_what_is_computed_once_is_of_its_node_in_both_functions(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["X", "W"], ["Y"], "by channel", group=8, pads=[1, 1, 1, 1])]
    infos = [(name, TensorProto.FLOAT, [4, 8, 6, 6]) for name in "XY"]
    onnx.save(make_model(nodes, infos[:1], infos[1:], W=random(8, 1, 3, 3)), tmp_path / "model.onnx")
    (node,), lines = mapped(tmp_path / "model.onnx", "--weights", "files")
    places = {place["function"]: lines[place["line"] - 1].strip() for place in node["statements"]}
    assert places.keys() == {"gen_net_init", "gen_net"}
    assert places["gen_net_init"].startswith("Y_filters = ")
    assert places["gen_net"].startswith("Y = ")


@pytest.mark.parametrize("name", sorted(GOLDENS))
def test_statements_without_a_node_are_of_the_function(name: str) -> None:
    """Cuts, sizes and scalars read from inputs, and checks of these."""
    script = import_model(GOLDENS[name]().model)
    places = [place for place in placed_statements(read_back(script.text, script.functions))
              if place.function == script.function and not is_never(place.statement)]
    assert any(place.origin is not None for place in places)
    without = [print_statement(place.statement) for place in places if place.origin is None and place.is_whole]
    of_sizes = r"\w+ = nrow\(\w+\)$|if \((nrow|ncol)\(\w+\) != "
    expected = re.compile(rf"never = |{of_sizes}|condition_number = as.double", re.MULTILINE)
    assert [text for text in without if not expected.match(text)] == []


def test_lines_of_exported_nodes(tmp_path: Path) -> None:
    text = "f = function(matrix[double] X) return (matrix[double] Y) {\n  A = exp(X)\n  Y = A %*% A\n}\n"
    (tmp_path / "net.dml").write_text(text)
    arguments = ["--function", "f", "--input", "X=double[2,2]", "--map", tmp_path / "map.json"]
    result = invoke(tmp_path / "net.dml", *arguments)
    assert result.exit_code == 0, result.output
    nodes = json.loads((tmp_path / "map.json").read_text())
    assert {node["op"]: node["from"] for node in nodes} == {"Exp": "net.dml:2", "MatMul": "net.dml:3"}


def test_a_map_replaces_no_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(network(2).graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    before = path.read_bytes()
    result = invoke(path, "--map", path)
    assert result.exit_code == 1
    assert "replace a file that is read" in result.output
    assert path.read_bytes() == before
    assert not path.with_suffix(".dml").exists()
