"""Functions of scripts on both sides: on the engine, and as models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from onnx_systemds.cli.commands import main
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.verifying.scripts import verify_script

SCRIPT = """\
source("nn/layers/affine.dml") as affine
source("own.dml") as own

forward = function(matrix[double] X, matrix[double] W, double k = 2, int n = 1, boolean flip = FALSE)
    return (matrix[double] Y, double s) {
  Y = own::twice(affine::forward(X, W, colSums(W))) * k + n
  if (flip) { Y = -Y }
  s = sum(Y) * ifelse($up, 1, -1)
}

texts = function(matrix[double] X) return (matrix[double] Y, string t) {
  Y = X
  t = "done"
}
"""
OWN = "twice = function(matrix[double] X) return (matrix[double] Y) { Y = 2 * X }\n"
WEIGHTS = np.sin(np.arange(6.0)).reshape(3, 2)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "net.dml").write_text(SCRIPT)
    (tmp_path / "own.dml").write_text(OWN)
    np.save(tmp_path / "W.npy", WEIGHTS)
    return tmp_path / "net.dml"


def verify(path: Path, *arguments: object) -> Result:
    weight = f"W={path.parent / 'W.npy'}"
    command = ["verify", path, "--function", "forward", "--input", "X=[N,3]", "--weight", weight, "--arg", "up=TRUE"]
    return CliRunner().invoke(main, [str(argument) for argument in (*command, *arguments)])


@pytest.mark.engine
def test_agrees_on_random_numbers(script: Path) -> None:
    result = verify(script, "--dim", "N=5", "--input", "n=int", "--weight", "k=3.5", "--weight", "flip=1")
    assert result.exit_code == 0, result.output
    assert "judge: SystemDS, for the model on onnxruntime" in result.output
    assert "  X: float32 [5, 3]\n  n: int64 []\n" in result.output
    assert "passed: 2 of 2 outputs agree" in result.output


@pytest.mark.engine
def test_given_inputs_and_one_result(script: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", X=np.eye(3, dtype=np.float32))
    result = verify(script, "--inputs", tmp_path / "in.npz", "--result", "Y")
    assert result.exit_code == 0, result.output
    assert "inputs: as given\n  X: float32 [3, 3]\noutput" in result.output
    assert "passed: 1 of 1 outputs agree" in result.output


@pytest.mark.engine
def test_numbers_that_part(script: Path) -> None:
    result = verify(script, "--rtol", "0", "--atol", "1e-12", "--dim", "N=50")
    assert result.exit_code == 1 and "FAILED" in result.output


def test_what_cannot_be_verified(script: Path) -> None:
    unnamed = CliRunner().invoke(main, ["verify", str(script), "--input", "X=[N,3]"])
    assert unnamed.exit_code == 2 and '--function says which; the script has "forward", "texts"' in unnamed.output
    with pytest.raises(UnsupportedCase, match="the result t is a string"):
        verify_script(script, "texts", specs={"X": "[N,2]"})


def test_sizes_that_do_not_fit_are_named(tmp_path: Path) -> None:
    (tmp_path / "net.dml").write_text(
        "f = function(matrix[double] X, matrix[double] W) return (matrix[double] Y) { Y = X %*% W }")
    result = CliRunner().invoke(main, ["verify", str(tmp_path / "net.dml"), "--function", "f", "--dim", "X_rows=3"])
    assert result.exit_code == 1 and "neither onnxruntime nor" in result.output
    assert "hint: sizes chosen here may not fit each other: X_cols=4, W_rows=2, W_cols=4; give those that do by" in result.output
