"""Weights in a file beside the model: where they are, what is read of them and when, and that nothing is half written."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import external_data_helper

from onnx_systemds import export_file, export_script
from onnx_systemds.engine.matrix_files import Weight, write_list, write_matrix
from onnx_systemds.errors import InternalError, TranspileError
from onnx_systemds.exporting import model_files, model_writer, weight_files
from onnx_systemds.exporting.stored_matrices import StoredMatrix
from onnx_systemds.exporting.weight_files import open_values
from tests.invoking import invoke

SCRIPT = """X = read("X")
W = read("W")
b = read("b")
Y = X %*% W + b
write(Y, "Y")
"""
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(7, 5))
WEIGHT[2:4, :4] = 0
BIAS = RANDOM.normal(size=(1, 5))
X = RANDOM.normal(size=(2, 7))


def run_file(path: Path, **inputs: np.ndarray) -> np.ndarray:
    """What onnxruntime gives for the first output."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {name: array.astype(np.float32) for name, array in inputs.items()})[0]
    return found


def places(model: onnx.ModelProto) -> dict[str, tuple[str, int, int]]:
    """File, offset and length of the weights that lie outside of a model."""
    infos = {tensor.name: external_data_helper.ExternalDataInfo(tensor) for tensor in model.graph.initializer
             if external_data_helper.uses_external_data(tensor)}
    return {name: (info.location, info.offset, info.length) for name, info in infos.items()}


def npy(path: Path, array: np.ndarray) -> Path:
    np.save(path.with_suffix(".npy"), array)
    return path.with_suffix(".npy")


def blocks(path: Path, array: np.ndarray) -> Path:
    write_matrix(path, array, block_size=3)
    return path


FORMS: dict[str, Callable[[Path, np.ndarray], Path]] = {
    "doubles": npy,
    "floats": lambda path, array: npy(path, array.astype(np.float32)),
    "columns together": lambda path, array: npy(path, np.asfortranarray(array)),
    "cube": lambda path, array: npy(path, array.reshape(7, 5, 1)),
    "blocks of the engine": blocks,
}


@pytest.fixture
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each matrix of 30 numbers or more stays in its file."""
    monkeypatch.setattr("onnx_systemds.cli.export_command.MOST_LOADED", 1)
    monkeypatch.setattr(weight_files, "SMALLEST_STORED", 30)
    monkeypatch.setattr("onnx_systemds.exporting.stored_matrices._PIECE", 4)


def weights(folder: Path, form: str = "doubles") -> list[object]:
    """Options that bind both matrices."""
    return ["--weight", f"W={FORMS[form](folder / 'w', WEIGHT)}", "--weight", f"b={npy(folder / 'b', BIAS)}"]


def script(folder: Path) -> Path:
    path = folder / "score.dml"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loaded", [True, False])
def test_weights_beside_the_model(form: str, loaded: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not loaded:
        request.getfixturevalue("nothing_loaded")
    result = invoke(script(tmp_path), "--input", "X=double[N,7]", *weights(tmp_path, form), "--external-data", 100)
    assert result.exit_code == 0, result.output
    model = onnx.load(tmp_path / "score.onnx", load_external_data=False)
    onnx.checker.check_model(tmp_path / "score.onnx", full_check=True)
    assert places(model) == {"W": ("score.onnx.data", 0, 140)}
    assert (tmp_path / "score.onnx.data").read_bytes() == WEIGHT.astype("<f4").tobytes()
    np.testing.assert_allclose(run_file(tmp_path / "score.onnx", X=X), X @ WEIGHT + BIAS, rtol=1e-5)


def test_each_weight_begins_a_page(tmp_path: Path) -> None:
    result = invoke(script(tmp_path), "--input", "X=double[N,7]", *weights(tmp_path), "--external-data", 0)
    assert result.exit_code == 0, result.output
    model = onnx.load(tmp_path / "score.onnx", load_external_data=False)
    assert places(model) == {"W": ("score.onnx.data", 0, 140), "b": ("score.onnx.data", 4096, 20)}
    np.testing.assert_allclose(run_file(tmp_path / "score.onnx", X=X), X @ WEIGHT + BIAS, rtol=1e-5)


def test_sizes_and_axes_stay_in_the_model(tmp_path: Path) -> None:
    path = script(tmp_path)
    path.write_text(SCRIPT.replace("+ b", "+ b\nY = matrix(Y * rowSums(X), rows=5, cols=2)"))
    result = invoke(path, "--input", "X=double[2,7]", *weights(tmp_path), "--external-data", 0)
    assert result.exit_code == 0, result.output
    assert set(places(onnx.load(tmp_path / "score.onnx", load_external_data=False))) == {"W", "b"}
    expected = (X @ WEIGHT + BIAS) * X.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(run_file(tmp_path / "score.onnx", X=X), expected.reshape(5, 2), rtol=1e-4)


@pytest.mark.usefixtures("nothing_loaded")
def test_stored_weights_inside_a_model(tmp_path: Path) -> None:
    result = invoke(script(tmp_path), "--input", "X=double[N,7]", *weights(tmp_path, "blocks of the engine"))
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "score.onnx.data").exists()
    np.testing.assert_allclose(run_file(tmp_path / "score.onnx", X=X), X @ WEIGHT + BIAS, rtol=1e-5)


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize("functions", ["inline", "keep"])
def test_a_weight_of_two_shapes_is_written_once(functions: str, tmp_path: Path) -> None:
    path = tmp_path / "score.dml"
    path.write_text("""f = function(matrix[double] X) return (matrix[double] Y) {
  W = read("W")
  Y = X %*% W + sum(matrix(W, rows=5, cols=7) %*% t(X))
}
X = read("X")
Y = f(X)
write(Y, "Y")
""")
    result = invoke(path, "--input", "X=double[N,7]", *weights(tmp_path)[:2], "--external-data", 100, "--functions", functions)
    assert result.exit_code == 0, result.output
    found = places(onnx.load(tmp_path / "score.onnx", load_external_data=False))
    assert found == {"W": ("score.onnx.data", 0, 140), "W_2": ("score.onnx.data", 0, 140)}
    expected = X @ WEIGHT + (WEIGHT.reshape(5, 7) @ X.T).sum()
    np.testing.assert_allclose(run_file(tmp_path / "score.onnx", X=X), expected, rtol=1e-4)


def test_large_matrices_of_many_stay_in_their_files(tmp_path: Path) -> None:
    write_list(tmp_path, "L", [Weight("big", np.ones((300, 300))), Weight("small", BIAS)])
    paths = {"L": tmp_path / "L", "W": npy(tmp_path / "w", WEIGHT), "B": npy(tmp_path / "big", np.ones((256, 256)))}
    found = open_values(paths, most_loaded=100_000)
    assert found["L"]["big"] == StoredMatrix(tmp_path / "L" / "0_big", 300, 300, is_npy=False)
    assert found["B"] == StoredMatrix(tmp_path / "big.npy", 256, 256, is_npy=True)
    np.testing.assert_array_equal(found["L"]["small"], BIAS)
    np.testing.assert_array_equal(found["W"], WEIGHT)
    np.testing.assert_array_equal(open_values(paths)["L"]["big"], np.ones((300, 300)))


def limit_inside(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(model_writer, "_LARGEST_WEIGHTS", limit)


def test_too_large_for_one_file_makes_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_inside(monkeypatch, 2000)
    weight = RANDOM.normal(size=(30, 20))
    model = export_file(SCRIPT, tmp_path / "m.onnx", inputs={"X": "[N,30]"}, bindings={"W": weight, "b": np.ones((1, 20))})
    assert places(model) == {"W": ("m.onnx.data", 0, 2400)}
    np.testing.assert_allclose(run_file(tmp_path / "m.onnx", X=weight.T), weight.T @ weight + 1, rtol=1e-4)


@pytest.mark.parametrize("external_data", [None, 3000])
def test_too_large_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external_data: int | None) -> None:
    limit_inside(monkeypatch, 2000)
    bindings = {"W": np.ones((30, 20)), "b": np.ones((1, 20))}
    with pytest.raises(TranspileError) as error:
        if external_data is None:
            export_script(SCRIPT, inputs={"X": "[N,30]"}, bindings=bindings)
        else:
            export_file(SCRIPT, tmp_path / "m.onnx", inputs={"X": "[N,30]"}, bindings=bindings, external_data=external_data)
    assert str(error.value) == (
        "weights of 2480 bytes, and one file can hold 2000\n  hint: have a file with those from 1024 bytes on beside the "
        "model: export_file, or on the command line --external-data 1024"
    )
    assert not list(tmp_path.iterdir())


def test_no_place_beside_a_pipe(tmp_path: Path) -> None:
    result = invoke(script(tmp_path), "--input", "X=double[N,7]", *weights(tmp_path), "--external-data", 0, "-o", "-")
    assert result.exit_code == 1
    assert result.output == ("error: /dev/stdout: weights cannot be written beside a stream\n"
                             "  hint: give the model a file: -o FILE\n")


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def fault(*_: object) -> None:
    raise InternalError("the exported model is not valid")


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize("what", ["interrupt", "invalid", "damaged weight", "no place"])
def test_older_files_stay_when_the_export_fails(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = weights(tmp_path, "blocks of the engine")
    (tmp_path / "score.onnx").write_bytes(b"older model")
    if what == "no place":
        (tmp_path / "score.onnx.data").mkdir()
    else:
        (tmp_path / "score.onnx.data").write_bytes(b"older weights")
    if what == "damaged weight":
        (tmp_path / "w").write_bytes((tmp_path / "w").read_bytes()[:-8])
    if what in ("interrupt", "invalid"):
        monkeypatch.setattr(model_files, "check", stop if what == "interrupt" else fault)
    script(tmp_path)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    result = invoke(tmp_path / "score.dml", "--input", "X=double[N,7]", *options, "--external-data", 0)
    assert result.exit_code == (130 if what == "interrupt" else 1), result.output
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_weight_is_not_replaced(tmp_path: Path) -> None:
    weight = blocks(tmp_path / "score.onnx.data", WEIGHT)
    result = invoke(script(tmp_path), "--input", "X=double[N,7]", "--weight", f"W={weight}", "--external-data", 0)
    assert result.exit_code == 1
    assert result.output == (f"error: {weight}: the output would replace a file that is read\n"
                             "  hint: give it another name\n")


@pytest.mark.big
def test_memory_of_a_model_of_five_gigabytes(tmp_path: Path) -> None:
    """A weight of 5 GB in float32, 10 GB as the engine writes it: peak memory of the command is below 1 GB."""
    rows, cols = 50_000, 25_000
    write_matrix(tmp_path / "w", np.broadcast_to(np.linspace(-1, 1, cols), (rows, cols)))
    path = tmp_path / "big.dml"
    path.write_text('X = read("X")\nW = read("W")\nY = X %*% W\nwrite(Y, "Y")\n')
    command = [sys.executable, "-m", "onnx_systemds", str(path), "--input", f"X=double[N,{rows}]", "--weight", f"W={tmp_path / 'w'}"]
    subprocess.run(command, check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert (tmp_path / "big.onnx.data").stat().st_size == 4 * rows * cols
    onnx.checker.check_model(tmp_path / "big.onnx", full_check=True)
    last = np.fromfile(tmp_path / "big.onnx.data", np.float32, cols, offset=4 * (rows - 1) * cols)
    shutil.rmtree(tmp_path)  # 15 GB that nobody looks at
    np.testing.assert_array_equal(last, np.linspace(-1, 1, cols).astype(np.float32))
    assert peak < 1e9
