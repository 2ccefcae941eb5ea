"""The command line: output files, exit codes, messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.shell_completion import BashComplete
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.cli.commands import main
from onnx_systemds.stages import Stages
from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models


def save_model(path: Path, nodes: list[onnx.NodeProto], width: object = 3, **constants: np.ndarray) -> Path:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in "XY"]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "tiny", infos[:1], infos[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    return save_model(tmp_path / "relu.onnx", [helper.make_node("Relu", ["X"], ["Y"])])


def test_help_tells_a_stranger() -> None:
    text = invoke("--help").output
    assert "MODEL.onnx [-o SCRIPT.dml]" in text
    for word in ("run", "verify", "inspect", "operators", "Exit codes"):
        assert word in text
    assert "..." not in text.partition("Commands:")[2]


def test_converts_beside_the_model(relu: Path) -> None:
    result = invoke(relu)
    assert result.exit_code == 0, result.output
    assert "gen_tiny = function(matrix[double] X)" in relu.with_suffix(".dml").read_text()


def test_success_says_what_was_written_and_how_it_is_called(relu: Path) -> None:
    result = invoke(relu)
    target = relu.with_suffix(".dml")
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{relu} -> {target}: gen_tiny(X [batch, 3]) -> Y [batch, 3]",
        f'  source("{target}") as relu',
        "  Y = relu::gen_tiny(X)",
    ]
    result = invoke(target, "--function", "gen_tiny", "--input", "X=double[n,3]", "-o", relu.with_name("back.onnx"))
    assert result.stderr == f"{target} -> {relu.with_name('back.onnx')}: X float[n, 3] -> Y float[n, 3], 1 operator of opset 21\n"


def test_a_random_name_of_a_graph_is_told(relu: Path) -> None:
    """A program that calls the function is wrong after the next training."""
    model = onnx.load(relu)
    model.graph.name = "6625f2bda3d944daa35260a3cde92489"
    onnx.save(model, relu)
    lines = invoke(relu).stderr.splitlines()
    assert lines[3:] == [
        "  the exporter drew the graph's name at random, and draws another one next time: --function-name gives one that stays"]
    assert len(invoke(relu, "--function-name", "relu_of").stderr.splitlines()) == 3


def test_paths_of_several_lines_are_printed_on_one(relu: Path) -> None:
    model = relu.rename(relu.with_name("a\nb.onnx"))
    target = model.with_suffix(".dml")
    assert "a\\nb.onnx -> " in invoke(model).stderr.splitlines()[0]
    for words in (["--function", "gen_tiny", "--input", "X=double[n,3]"], ["--function", "nosuch"]):
        assert "a\\nb.dml" in invoke(target, *words).stderr.splitlines()[0]


def test_quiet_success_says_nothing(relu: Path) -> None:
    assert invoke(relu, "-q").output == ""
    assert invoke(relu.with_suffix(".dml"), "-q", "--function", "gen_tiny", "--input", "X=double[n,3]").output == ""


def test_minus_is_the_standard_output(relu: Path) -> None:
    command = [sys.executable, "-m", "onnx_systemds", relu, "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "gen_tiny = function(matrix[double] X)" in done.stdout
    assert not relu.with_name("-").exists() and not relu.with_suffix(".dml").exists()


def test_nearly_a_command_is_told() -> None:
    result = invoke("inspct", "model.onnx")
    assert result.exit_code == 2 and "there is no command inspct; did you mean inspect?" in result.output


def test_output_and_function_name(relu: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "named.dml"
    target.parent.mkdir()
    assert invoke(relu, "-o", target, "--function-name", "score").exit_code == 0
    assert "score = function(" in target.read_text()


def test_fixed_dim(relu: Path, tmp_path: Path) -> None:
    assert invoke(relu, "--dim", "batch=4").exit_code == 0
    result = invoke(relu, "--dim", "bach=4")
    assert result.exit_code == 1
    assert '"bach"' in result.output and '"batch"' in result.output


@pytest.mark.parametrize("dim", ["batch", "batch=", "batch=x", "=3", "batch=-1"])
def test_wrong_dim_is_wrong_usage(relu: Path, dim: str) -> None:
    assert invoke(relu, "--dim", dim).exit_code == 2


@pytest.mark.parametrize("name", ["sum", "a b", "1st", "if", "", "gathered_rows"])
def test_wrong_function_name_is_wrong_usage(relu: Path, name: str) -> None:
    assert invoke(relu, "--function-name", name).exit_code == 2


def test_verbose_says_what_passes_did(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["X", "W"], ["c"], "conv"), helper.make_node("Mul", ["c", "s"], ["Y"], "scale")]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1, 2, 2]) for name in "XY"]
    weights = [numpy_helper.from_array(np.full(dims, 2, np.float32), name) for name, dims in (("W", (1, 1, 1, 1)), ("s", ()))]
    for outputs, expected in (infos[1:], "that fired"), ([*infos[1:], onnx.ValueInfoProto(name="c")], "that did not"):
        graph = helper.make_graph(nodes, "tiny", infos[:1], outputs, weights)
        path = tmp_path / "conv.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        text = invoke(path, "--verbose").output
        assert f"passes {expected}" in text and 'convolution-folding: Mul "scale": ' in text
        assert invoke(path, "-q").output == ""


def test_weights_go_to_files(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["X", "W"], ["Y"])]
    model = save_model(tmp_path / "m.onnx", nodes, W=np.random.rand(3, 3).astype(np.float32))
    assert invoke(model, "--weights", "inline").exit_code == 0
    assert not (tmp_path / "m.weights").exists()
    assert invoke(model, "--weights", "files").exit_code == 0
    assert (tmp_path / "m.weights" / "weights.mtd").exists()
    assert "gen_tiny_init" in (tmp_path / "m.dml").read_text()


def test_all_unsupported_operators_at_once_and_no_file(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NoSuch", ["X"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Other", ["b"], ["Y"], name="second", domain="my.domain"),
    ]
    graph_path = tmp_path / "bad.onnx"
    save_model(graph_path, nodes)
    model = onnx.load(graph_path)
    model.opset_import.append(helper.make_opsetid("my.domain", 1))
    onnx.save(model, graph_path)
    result = invoke(graph_path)
    assert result.exit_code == 1
    assert '"first"' in result.output and '"second"' in result.output and "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.onnx"]


def test_missing_file(tmp_path: Path) -> None:
    result = invoke(tmp_path / "none.onnx")
    assert result.exit_code == 1
    assert "error:" in result.output


def test_traceback_shows_the_exception(tmp_path: Path) -> None:
    result = invoke(tmp_path / "none.onnx", "--traceback")
    assert result.exception is not None and not isinstance(result.exception, SystemExit)


def test_dml_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.dml").write_text("x = 1")
    assert invoke(tmp_path / "a.dml").exit_code == 1
    for words in (("run", "--outputs", tmp_path / "a.npz"), ("inspect",)):
        result = invoke(*words, tmp_path / "a.dml")
        assert result.exit_code == 1 and "a.dml: this is a script" in result.output and "export" in result.output


def test_only_opening_a_file_tells_whether_it_may_be_read(relu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that may not ends like a missing one, not as wrong usage."""
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.R_OK)
    assert invoke("inspect", relu).exit_code == 0


PLUGIN = '''
from onnx_systemds.operators import generator, shape_rule

@shape_rule("Twice", domain="my.domain")
def twice_dims(node):
    return (node.tensor(node.dims(0)),)

@generator("Twice", since=1, domain="my.domain")
def twice(node):
    """Two times the input."""
    return node.matrix_result(f"2 * {node.matrix(0, 1)}", 1)
'''


@pytest.mark.usefixtures("registries_restored")
def test_plugin(tmp_path: Path) -> None:
    path = save_model(tmp_path / "own.onnx", [helper.make_node("Twice", ["X"], ["Y"], domain="my.domain")])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("my.domain", 1))
    onnx.save(model, path)
    assert invoke(path).exit_code == 1
    (tmp_path / "plugin.py").write_text(PLUGIN)
    assert invoke(path, "--plugin", tmp_path / "plugin.py").exit_code == 0
    assert "Y = 2 * X" in (tmp_path / "own.dml").read_text()
    (tmp_path / "broken.py").write_text("1 / 0")
    assert "ZeroDivisionError" in invoke(path, "--plugin", tmp_path / "broken.py").output


@pytest.mark.engine
def test_run(relu: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", X=np.array([[-1, 0, 2]], np.float32))
    result = invoke("run", relu, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["Y"], np.array([[0, 0, 2]], np.float32))
    np.save(tmp_path / "in.npy", np.array([[-3, 1, 2]], np.float32))
    assert invoke("run", relu, "--inputs", tmp_path / "in.npy", "--outputs", tmp_path / "out.npz").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["Y"], np.array([[0, 1, 2]], np.float32))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [({}, "missing"), ({"X": np.zeros((1, 4), np.float32)}, "[batch, 3]"), ({"X": np.zeros(3, np.float32)}, "hint: numpy.reshape(.., (-1, 3)) gives")],
)
@pytest.mark.engine
def test_run_with_wrong_inputs(relu: Path, tmp_path: Path, inputs: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "in.npz", **inputs)
    result = invoke("run", relu, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "out.npz").exists()


def test_run_with_a_damaged_npz(relu: Path, tmp_path: Path) -> None:
    (tmp_path / "in.npz").write_bytes(b"PK\x03\x04 no")
    result = invoke("run", relu, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert result.exit_code == 1


def test_operators() -> None:
    result = invoke("operators")
    assert result.exit_code == 0
    assert "| Add | yes |" in result.output


def test_builtins() -> None:
    result = invoke("builtins")
    assert result.exit_code == 0
    assert "| `rowSums(target)` |" in result.output


REJECTED = {
    "missing_external_data__layernorm": ["external"],
    "unknown_domain__noisy_relu": ["MyNoisyReluDomain"],
    "unknown_domain__qonnx_fp8": ["onnx.brevitas"],
}


@needs_models
@pytest.mark.parametrize("name", REJECTED)
def test_reject(name: str, tmp_path: Path) -> None:
    assert MODELS is not None
    result = invoke(MODELS / "reject" / f"{name}.onnx", "-o", tmp_path / "out.dml")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_verbose_lists_stages_in_both_directions(relu: Path, tmp_path: Path) -> None:
    stages = re.findall(r"^  (\w[\w ]*?) +\d+\.\d{3} s", invoke(relu, "-v", "-o", tmp_path / "r.dml").output, re.MULTILINE)
    assert stages == ["load", "simplify", "infer types", "write DML", "specialise", "find blocks", "save", "in all"]
    output = invoke(tmp_path / "r.dml", "--function", "gen_tiny", "--input", "X=double[n,3]", "-v").output
    assert re.findall(r"^  (\w[\w ]*?) +\d+\.\d{3} s(.*)", output, re.MULTILINE) == [
        ("parse", "  0 statements, 1 functions"), ("run symbolically", "  1 nodes"), ("join and write", "  1 nodes"), ("in all", ""),
    ]
    assert "stages:" not in invoke(relu, "-o", tmp_path / "r.dml").output


@pytest.mark.engine
def test_verbose_lists_stages_of_what_runs(relu: Path, tmp_path: Path) -> None:
    given, found, script = tmp_path / "in.npz", tmp_path / "out.npz", tmp_path / "r.dml"
    np.savez(given, X=np.ones((5, 3), np.float32))
    assert invoke(relu, "-o", script).exit_code == 0
    conversion = ["load", "simplify", "infer types", "write DML", "specialise", "find blocks"]
    rows = {
        ("run", relu, "--inputs", given, "--outputs", found): [*conversion, "compile", "run"],
        ("score", relu, "--input", given, "--output", found): [*conversion, "score"],
        ("verify", relu, "--per-node"): ["load", "judge", *conversion[1:], "compile and run", "node by node"],
        ("verify", script, "--function", "gen_tiny", "--input", "X=double[n,3]"): ["parse", "run symbolically", "join and write", "judge", "compile and run"],
    }
    for words, stages in rows.items():
        told = invoke(*words, "--verbose")
        assert re.findall(r"^  (\w[\w ]*?) +\d+\.\d{3} s", told.stderr, re.MULTILINE) == [*stages, "in all"], told.output
        assert ("not all sizes of the inputs are known" in told.stderr) is ("specialise" in stages)
        assert "stages:" not in told.stdout + invoke(*words).stderr


def test_time_within_a_stage_counts_once() -> None:
    stages = Stages()
    with stages.stage("outer"):
        with stages.stage("inner"):
            time.sleep(0.2)
        with stages.stage("inner"):
            pass
    assert list(stages.times()) == ["inner", "outer"]
    assert stages.times()["inner"] >= 0.2 > stages.times()["outer"]


@pytest.mark.parametrize(("words", "begun", "completed"), [
    ([], "ver", ["verify", "verify-script"]), (["model.onnx"], "--we", ["--weights"]), (["model.onnx", "--weights"], "", ["auto", "inline", "files"]),
    (["s.dml"], "--op", ["--opset"]), (["verfy"], "--no-s", ["--no-simplify", "--no-specialise"]),
])
def test_completion(words: list[str], begun: str, completed: list[str]) -> None:
    shell = BashComplete(main, {}, "onnx-systemds", "_ONNX_SYSTEMDS_COMPLETE")
    assert [item.value for item in shell.get_completions(words, begun)] == completed
