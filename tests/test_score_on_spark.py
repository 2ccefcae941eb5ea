"""``onnx-systemds score --engine spark`` with a spark-submit that notes its words and does what it is told to."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.test_score_command import MLP, SUMS, TREES, ZIPMAP, four, four_columns, judged, saved, score, scored, table

pytestmark = pytest.mark.engine
LABELS = """labels (float[n, 4] X) => (string[n] c) {
  best = ArgMax<axis=1, keepdims=0>(X)
  c = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1, 2], values_strings=["a", "b", "c"]>(best)
}"""
TWO = "two (float[n, 1] a, float[n, 1] b) => (float[n, 1] c) { c = Add(a, b) }"
SUBMIT = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
pathlib.Path({noted!r}).write_text(json.dumps(words))
given = dict(word.split("=", 1) for word in words[words.index("-nvargs") + 1:])
rows = pathlib.Path(given["X"]).read_text().splitlines()
{action}
"""
WRITES = """
pathlib.Path(given["Y"]).write_text("".join(f"{number}.0,0.25,NaN\\n" for number, row in enumerate(rows)))
print(f"scored {len(rows)} rows in 0.1 s")
"""


@pytest.fixture(name="submit")
def fake_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a SPARK_HOME whose spark-submit does something; gives the words that it was called with."""
    home, noted = tmp_path / "spark", tmp_path / "noted.json"
    (home / "bin").mkdir(parents=True)

    def make(action: str) -> Path:
        program = home / "bin" / "spark-submit"
        program.write_text(SUBMIT.format(python=sys.executable, noted=str(noted), action=action))
        program.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(home))
        return noted

    return make


def test_rows_go_to_the_program_and_come_back(tmp_path: Path, submit: Callable[[str], Path]) -> None:
    noted = submit(WRITES)
    source = four_columns(tmp_path / "x.csv", four(5))
    result = score(saved(tmp_path, MLP), "--input", source, "--output", tmp_path / "y.csv", "--engine", "spark", "--chunk-rows", "2",
                    "--master", "local[3]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=3g")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "y.csv").read_text().splitlines() == ["Y_0,Y_1,Y_2", *(f"{number}.0,0.25,nan" for number in range(5))]
    words = json.loads(noted.read_text())
    assert words[:2] == ["--master", "local[3]"] and words.count("--conf") == 4
    assert {"spark.ui.enabled=false", "spark.driver.memory=3g"} < {*words}
    assert words[words.index("-exec") + 1] == "hybrid" and {"place=spark", "rows=2"} < {*words}
    assert words[words.index("-f") - 1].endswith("SystemDS.jar")


@pytest.mark.parametrize(("action", "told"), [
    ("print('ERROR: something broke')", "spark-submit ended before all rows were scored:\n  ERROR: something broke"),
    ("print('java.lang.OutOfMemoryError: heap')\nsys.exit(3)", "ended with exit code 3:\n  java.lang.OutOfMemoryError: heap"),
    (WRITES.replace("len(rows)}", "len(rows) - 1}"), "spark-submit scored 4 rows, there are 5"),
    (WRITES.replace("enumerate(rows)", "enumerate(rows[1:])"), "spark-submit wrote fewer rows than it scored"),
    (WRITES.replace("enumerate(rows)", "enumerate(rows + rows)"), "spark-submit wrote more than 5 rows"),
    (WRITES.replace("0.25", "a"), "spark-submit wrote lines that are no rows of numbers"),
    (WRITES.replace(",NaN", ""), "spark-submit wrote rows of another number of columns"),
    (WRITES + "import os\nos.kill(os.getpid(), 9)", "spark-submit was ended by signal 9"),
    ("print('scored 5 rows in 0.1 s')", "spark-submit wrote no result"),
])
def test_what_fails_is_told_and_leaves_nothing(tmp_path: Path, submit: Callable[[str], Path], action: str, told: str) -> None:
    submit(action)
    source, target = four_columns(tmp_path / "x.csv", four(5)), tmp_path / "y.csv"
    target.write_text("of before")
    result = score(saved(tmp_path, MLP), "--input", source, "--output", target, "--engine", "spark")
    assert result.exit_code == 1 and told in result.output, result.output
    assert target.read_text() == "of before"


def test_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = four_columns(tmp_path / "x.csv", four(5))
    command = [saved(tmp_path, MLP), "--input", source, "--output", tmp_path / "y.csv", "--engine", "spark"]
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    result = score(*command)
    assert result.exit_code == 1 and "has no bin/spark-submit" in result.output
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = score(*command)
    assert result.exit_code == 1 and "`pyspark` is not installed" in result.output and "[spark]" in result.output


@pytest.mark.parametrize(("model", "options", "told"), [
    (SUMS, ["--engine", "spark"], "one call has all rows"),
    (LABELS, ["--engine", "spark"], "rows go to Spark as numbers from here, and the model has texts"),
    (MLP, ["--master", "local[2]"], "--master and --conf are for --engine spark"),
    (MLP, ["--engine", "spark", "--conf", "master=x"], "not a setting such as spark.executor.memory=4g"),
    (MLP, ["--engine", "spark", "--master", "-x"], "not a URL"),
])
def test_refused(tmp_path: Path, submit: Callable[[str], Path], model: str, options: list[str], told: str) -> None:
    noted = submit(WRITES)
    source = four_columns(tmp_path / "x.csv", four(5))
    result = score(saved(tmp_path, model), "--input", source, "--output", tmp_path / "y.csv", *options)
    assert result.exit_code == 1 and told in result.output, result.output
    assert not noted.exists() and not (tmp_path / "y.csv").exists()


def test_arrays(tmp_path: Path, submit: Callable[[str], Path]) -> None:
    submit(WRITES)
    np.savez(tmp_path / "x.npz", X=four(5))
    command = [saved(tmp_path, MLP), "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--engine", "spark"]
    result = score(*command)
    assert result.exit_code == 0, result.output
    found = np.load(tmp_path / "y.npz")["Y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[number, 0.25, np.nan] for number in range(5)])
    np.savez(tmp_path / "x.npz", X=four(5)[:, :3])
    result = score(*command)
    assert isinstance(result.exception, SystemExit) and result.exit_code == 1 and "X" in result.output


@pytest.mark.spark
def test_spark_itself(tmp_path: Path) -> None:
    """Arrays, NaN and infinities, several inputs, maps: as onnxruntime, and as the embedded engine."""
    on_spark = ("--engine", "spark", "--master", "local[2]", "--chunk-rows", 7)
    model, x = saved(tmp_path, MLP), four(20)
    source = four_columns(tmp_path / "x.csv", x)
    scored(model, source, tmp_path / "local.csv")
    assert "20 rows" in scored(model, source, tmp_path / "spark.csv", *on_spark)
    assert (tmp_path / "spark.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()
    found = np.loadtxt(tmp_path / "spark.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(found, judged(model, {"X": x})[0], rtol=1e-4, atol=1e-6)

    model = saved(tmp_path, TREES)
    x[:3, 2] = np.nan, np.inf, -np.inf
    np.savez(tmp_path / "x.npz", X=x)
    scored(model, tmp_path / "x.npz", tmp_path / "y.npz", *on_spark)
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], judged(model, {"X": x})[0], rtol=1e-4, atol=1e-6)

    model = saved(tmp_path, TWO)
    source = table(tmp_path / "two.csv", {"b": [1, 2, 3], "a": [0.5, 0.25, 8]})
    scored(model, source, tmp_path / "c.csv", *on_spark)
    assert (tmp_path / "c.csv").read_text().split() == ["c", "1.5", "2.25", "11.0"]

    model = saved(tmp_path, ZIPMAP)
    for suffix in ("csv", "npz"):
        scored(model, four_columns(tmp_path / "x.csv", four(9)), tmp_path / f"local.{suffix}")
        scored(model, tmp_path / "x.csv", tmp_path / f"spark.{suffix}", *on_spark)
    assert (tmp_path / "spark.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()
    mine, theirs = np.load(tmp_path / "spark.npz"), np.load(tmp_path / "local.npz")
    assert {*mine} == {*theirs} and all(np.array_equal(mine[name], theirs[name]) for name in mine)
    assert all(mine[name].dtype == theirs[name].dtype for name in mine)
