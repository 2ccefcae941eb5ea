"""Scripts and their functions on both sides: on the engine, and as models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from onnx_systemds.engine.frame_files import write_frame
from onnx_systemds.engine.matrix_files import Weight, write_list
from tests.invoking import invoke

SCRIPT = """\
source("nn/layers/affine.dml") as affine
source("own.dml") as own

forward = function(matrix[double] X, matrix[double] W, double k = 2, int n = 1, boolean flip = FALSE)
    return (matrix[double] Y, double s) {
  Y = own::soft(affine::forward(X, W, colSums(W))) * k + n
  if (flip) { Y = -Y }
  s = sum(Y) * ifelse($up, 1, -1)
}

lists = function(matrix[double] X, list[unknown] model, frame[string] F, string way = "up")
    return (list[unknown] L, frame[string] G, string t, boolean b) {
  Y = X %*% as.matrix(model["W"])
  L = list(Y=Y, parts=list(colSums(Y), nrow(X)))
  G = cbind(F, F[, 1])
  t = way + nrow(X)
  b = nrow(X) > 3
}
"""
OWN = "soft = function(matrix[double] X) return (matrix[double] Y) { Y = sigmoid(X) }\n"  # the engine would not inline it
WHOLE = """\
source("files.dml") as files

people = read("people.csv", data_type="frame", format="csv", header=TRUE, naStrings=["a", "b"], default=-1)
model = read($model, data_type="list")
eps = read($folder + "/eps", data_type="scalar", value_type="double")
X = files::table()
Y = X %*% as.matrix(model["W"]) + eps
write(Y, "/out/../Y.csv", format="csv")
both = list(Y=Y, count=nrow(Y))
write(both, "both")
scored = cbind(people[, 1], as.frame(rowSums(Y)))
write(scored, "../scored.csv", format="csv")
files::save(colSums(Y))
print("sum of all: " + sum(Y))
for (i in 1:nrow(people)) {
  if (sum(Y) > 1e9)
    print(i)
}
said = "rows: " + nrow(X)
write(said, "said/rows")
plans = read("plans.csv", data_type="frame", format="csv", header=TRUE)
codes = read("codes", data_type="frame")
coded = transformapply(target=plans, spec="{recode: [plan], dummycode: [plan]}", meta=codes)
write(coded, "coded")
"""
FILES = """\
table = function() return (matrix[double] X) {
  X = read("table.mtx", rows=4, cols=3, format="mm")
}
save = function(matrix[double] sums) { write(sums, "sums") }
"""
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
    return invoke(*command, *arguments)


@pytest.mark.engine
def test_agrees_on_random_numbers(script: Path) -> None:
    result = verify(script, "--dim", "N=5", "--input", "n=int", "--weight", "k=3.5", "--weight", "flip=1")
    assert result.exit_code == 0, result.output
    assert "judge: SystemDS, for the model on onnxruntime" in result.output
    assert "  X: float32 [5, 3]\n  n: int64 []\n" in result.output
    assert "passed: 2 of 2 outputs agree" in result.output


@pytest.mark.engine
def test_given_inputs_and_one_result(script: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.eye(3, dtype=np.float32))
    result = verify(script, "--inputs", tmp_path / "in.npy", "--result", "Y")
    assert result.exit_code == 0, result.output
    assert "inputs: as given\n  X: float32 [3, 3]\noutput" in result.output
    assert "passed: 1 of 1 outputs agree" in result.output


@pytest.mark.engine
def test_numbers_that_part(script: Path) -> None:
    result = verify(script, "--rtol", "0", "--atol", "1e-12", "--dim", "N=50")
    assert result.exit_code == 1 and "FAILED" in result.output


@pytest.mark.engine
def test_lists_frames_and_texts(script: Path, tmp_path: Path) -> None:
    write_list(tmp_path, "model", [Weight("W", WEIGHTS)])
    command = ["verify", script, "--function", "lists", "--input", "X=[N,3]", "--weight", f"model={tmp_path / 'model'}",
               "--input", "F=string[N,2]", "--dim", "N=5", "--arg", "up=TRUE"]
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    for line in ("L_Y float32 [5, 2]", "L_parts_1 float32 [1, 2]", "L_parts_2 int64 []", "G string [5, 3]", "t string []", "b bool []"):
        assert any(each.startswith(line) and each.endswith("pass") for each in lines), (line, lines)
    assert lines[-1] == "passed: 6 of 6 outputs agree"


@pytest.mark.engine
def test_whole_script(tmp_path: Path) -> None:
    (tmp_path / "score.dml").write_text(WHOLE)
    (tmp_path / "files.dml").write_text(FILES)
    write_list(tmp_path, "model", [Weight("W", WEIGHTS)])
    write_frame(tmp_path / "codes", ["a·1", "b·2", "c·3"], ["plan"])
    command = ["verify", tmp_path / "score.dml", "--arg", "model=m/odel", "--arg", "folder=in", "--weight", f"m/odel={tmp_path / 'model'}",
               "--input", "people=string[4,2]", "--dtype", "float64", "--input", "plans=string[4,1]", "--weight", f"codes={tmp_path / 'codes'}"]
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    for line in ("Y float64 [4, 2]", "both_Y float64 [4, 2]", "both_count int64 []", "scored_1 string [4, 1]", "scored_2 float64 [4, 1]",
                 "sums float64 [1, 2]", "rows string []", "coded float64 [4, 3]"):
        assert any(each.startswith(line) and each.endswith("pass") for each in lines), (line, lines)
    assert lines[-1] == "passed: 8 of 8 outputs agree"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes", "codes.mtd", "files.dml", "model", "model.mtd", "score.dml"]


@pytest.mark.engine
@pytest.mark.parametrize(("body", "words"), [
    ("Y = log(2, X)\nwrite(Y, \"Y\")", "Y       float32 [2, 4]"),  # docs/export_differences.md: the engine gives its reciprocal
    ("k = as.integer(as.scalar(X[1, 1]))\nY = 2 * X\nwrite(Y, \"Y\" + k)", "passed: 1 of 1 outputs agree"),
    ('folder = ifdef($folder, "in/")\nname = "x"\nk = 1\nA = read(folder + name, rows=2, cols=2)\n'
     'Y = A * 2\nwrite(Y, (k + 1) + "Y")', "passed: 1 of 1 outputs agree"),
    ("Y = X + 3 * read(\"X\")\nwrite(Y, \"Y\")", "passed: 1 of 1 outputs agree"),
    ("Y = X[1:9, ]\nwrite(Y, \"Y\")", "error: "),  # the model cuts the range off
])
def test_whole_scripts_that_part_or_stop(body: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "s.dml").write_text(f'X = read("X")\n{body}\n')
    result = invoke("verify", tmp_path / "s.dml")
    assert result.exit_code == int("passed" not in words) and words in result.output, result.output


def test_scripts_without_results(script: Path) -> None:
    unnamed = invoke("verify", script)
    assert unnamed.exit_code == 1 and "hint: name a function (forward, lists), or write a result" in unnamed.output


def test_inputs_without_elements_are_refused_in_words(script: Path) -> None:
    assert 'no elements in "X": the engine reads no such file' in verify(script, "--dim", "N=0").output


def test_sizes_that_do_not_fit_are_named(tmp_path: Path) -> None:
    (tmp_path / "net.dml").write_text(
        "f = function(matrix[double] X, matrix[double] W) return (matrix[double] Y) { Y = X %*% W }")
    result = invoke("verify", tmp_path / "net.dml", "--function", "f", "--dim", "X_rows=3")
    assert result.exit_code == 1 and "neither onnxruntime nor" in result.output
    assert "hint: sizes chosen here may not fit each other: X_cols=4, W_rows=3, W_cols=4; give those that do by" in result.output
