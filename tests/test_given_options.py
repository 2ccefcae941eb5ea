"""What the command line is told of a model's inputs: ``--type`` and ``--constant``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds.cli import converting
from onnx_systemds.model.load import load_model
from onnx_systemds.verifying import verify as verifying
from tests.test_cli import invoke

OPEN = TensorProto.FLOAT, None
OPTIONS = "--type", "X=float[batch,3]", "--constant", "axes=[-1]"
X = np.array([[1, 2, 3], [4, 5, 7]], np.float32)


@pytest.fixture
def total(tmp_path: Path) -> Path:
    """A sum over axes that are an input, of an input whose rank is open."""
    inputs = [helper.make_tensor_value_info("X", *OPEN), helper.make_tensor_value_info("axes", TensorProto.INT64, [1])]
    nodes = [helper.make_node("ReduceSum", ["X", "axes"], ["Y"])]
    graph = helper.make_graph(nodes, "tiny", inputs, [helper.make_tensor_value_info("Y", *OPEN)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "total.onnx")
    return tmp_path / "total.onnx"


def test_convert_is_told_type_and_content(total: Path) -> None:
    refused = invoke(total)
    assert refused.exit_code == 1 and not total.with_suffix(".dml").exists()
    assert "--constant NAME=VALUE, or import_model(..., constants={...})" in invoke(total, *OPTIONS[:2]).output
    result = invoke(total, *OPTIONS)
    assert result.exit_code == 0, result.output
    assert "gen_tiny(X [batch, 3]) -> Y [batch, 1]" in result.stderr
    assert "--constant" not in invoke("inspect", total, *OPTIONS).output


def test_an_array_file_is_a_constant(total: Path) -> None:
    path = total.with_name("axes.npy")
    np.save(path, np.array([0], np.int32))
    assert "gen_tiny(X [batch, 3]) -> Y [1, 3]" in invoke(total, *OPTIONS[:2], "--constant", f"axes={path}").stderr
    before = path.read_bytes()
    assert invoke(total, *OPTIONS[:2], "--constant", f"axes={path}", "-o", path).exit_code == 1
    assert path.read_bytes() == before


@pytest.mark.engine
def test_run_score_and_verify_are_told(total: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, found = total.with_name("in.npz"), total.with_name("out.npz")
    np.savez(given, X=X)
    for command in (("run", "--inputs", given, "--outputs", found), ("score", "--input", given, "--output", found)):
        result = invoke(command[0], total, *OPTIONS, *command[1:])
        assert result.exit_code == 0, result.output
        np.testing.assert_array_equal(np.load(found)["Y"], [[6], [16]])
        found.unlink()
    loaded: list[Any] = []
    for module in (converting, verifying):
        monkeypatch.setattr(module, "load_model", lambda source: loaded.append(source) or load_model(source))
    result = invoke("verify", total, *OPTIONS, "--per-node")
    assert result.exit_code == 0, result.output
    assert loaded == [total]
    assert "X: float32 [2, 3]" in result.output and "axes: int64 [1]" in result.output
    assert "passed: 1 of 1 outputs agree" in result.output


@pytest.mark.parametrize("option", [
    ("--type", "X"), ("--type", "X=float"), ("--type", "=float[3]"), ("--type", "X=floaty[3]"), ("--type", "X=float[-1]"),
    ("--type", "X=float[3,]"), ("--type", "X=undefined[3]"), ("--type", "X=float[3]", "--type", "X=float[4]"),
    ("--constant", "axes"), ("--constant", "=1"), ("--constant", "axes=one"), ("--constant", "axes=null"),
    ("--constant", "axes={}"), ("--constant", f"axes={'[' * 100_000}"), ("--constant", "axes=[1]", "--constant", "axes=[1]"),
])
def test_wrong_usage(total: Path, option: tuple[str, ...]) -> None:
    result = invoke(total, *option)
    assert result.exit_code == 2 and option[0] in result.output


@pytest.mark.parametrize(("option", "message"), [
    (("--type", "Z=float[3]"), 'error: "Z" is no input of the graph; its inputs: "X", "axes"'),
    (("--type", "X=int64[3]"), 'error: --type: the input "X" is declared as float, not int64'),
    (("--type", "axes=int64[2]"), 'error: --type: the input "axes" declares 1, not 2'),
    (("--type", "axes=int64[1,1]"), 'error: --type: the input "axes" is declared with 1 axes'),
    (("--constant", "Z=3"), 'error: "Z" is no input of the graph; its inputs: "X", "axes"'),
    (("--constant", "axes=[0,1]"), 'error: --constant: the input "axes" is declared [1], got [2]'),
    (("--constant", "axes=0"), 'error: --constant: the input "axes" is declared [1], got []'),
    (("--constant", "axes=[0.5]"), 'error: input "axes" is declared as int64, got float64'),
    (("--constant", "axes=[[1],[1,2]]"), 'error: input "axes" is no array: '),
    (("--constant", "axes=none.npy"), "error: none.npy: No such file or directory"),
])
def test_what_contradicts_the_model_is_refused(total: Path, option: tuple[str, ...], message: str) -> None:
    for command in ("convert", "inspect", "verify"):
        result = invoke(command, total, *option)
        assert result.exit_code == 1 and result.output.startswith(message)
    assert not total.with_suffix(".dml").exists()


def test_a_dim_may_stay_as_declared(total: Path) -> None:
    result = invoke(total, "--type", "axes=int64[?]", *OPTIONS)
    assert result.exit_code == 0, result.output
