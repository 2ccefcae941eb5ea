"""``onnx-systemds run-script``: programs in DML on the embedded engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invoking import invoke

pytestmark = pytest.mark.engine

DOUBLES = """
X = read($X, format="csv", header=FALSE)
Y = X * 2
print("sum " + sum(X))
if (sum(X) > 100) { stop("too much") }
write(Y, $Y, format="csv")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.dml"
    path.write_text(DOUBLES)
    return path


def test_a_program_finds_its_files_where_the_command_starts(program: Path) -> None:
    (program.parent / "in").mkdir()
    (program.parent / "in" / "rows.csv").write_text("1,2\n3,4\n")
    words = ["run", "--heap", "400m", program.name, "-nvargs", "X=in/rows.csv", "Y=doubled.csv"]
    done = subprocess.run([sys.executable, "-m", "onnx_systemds", *words], cwd=program.parent, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sum 10.0\n", "")
    assert (program.parent / "doubled.csv").read_text() == "2.0,4.0\n6.0,8.0\n"
    left = {path.name for path in program.parent.iterdir() if not path.name.endswith(".crc")}
    assert left == {"program.dml", "in", "doubled.csv", "doubled.csv.mtd"}


def test_a_program_that_stops(program: Path) -> None:
    (program.parent / "rows.csv").write_text("100,2\n")
    result = invoke("run-script", program, "-nvargs", f"X={program.parent / 'rows.csv'}", "Y=nowhere")
    assert result.exit_code == 1
    assert "sum 102.0\n" in result.output and result.output.endswith("error: too much\n")


def test_all_faults_that_the_compiler_finds_are_told(program: Path) -> None:
    result = invoke("run-script", program)
    assert result.exit_code == 1
    first, *faults = result.output.splitlines()
    assert first == "error: SystemDS refuses the program:"
    assert [fault.split(" line ")[1].split(" ", 1)[0] for fault in faults] == ["2:9", "6:9"]
    assert all(f"The parameter ${name} either needs to be passed" in fault for name, fault in zip("XY", faults))


def test_statistics_are_shown_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "program.dml"
    path.write_text("print(1)\n")
    assert invoke("run-script", path).output == "1\n"
    assert "Total execution time" in invoke("run-script", path, "-stats").output


def test_there_is_no_spark_in_the_python_package(program: Path) -> None:
    (program.parent / "rows.csv").write_text("1,2\n")
    words = [f"X={program.parent / 'rows.csv'}", f"Y={program.parent / 'doubled.csv'}"]
    result = invoke("run-script", program, "-exec", "spark", "-nvargs", *words)
    assert result.exit_code == 1 and "has no Spark" in result.output


def test_words_after_the_program_are_the_engines(tmp_path: Path) -> None:
    """Also those that are spelt as options of the command."""
    path = tmp_path / "program.dml"
    path.write_text("print($1)\n")
    assert invoke("run-script", path, "-args", "--heap").output == "--heap\n"


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no device that is full")
    path = tmp_path / "program.dml"
    path.write_text("for (i in 1:100) { print(i) }\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "onnx_systemds", "run-script", path], stdout=full, text=True,
                              stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()}, check=False)
    assert (done.returncode, done.stderr) == (1, "error: standard output: No space left on device\n")


@pytest.mark.parametrize(("words", "said"), [
    (["--native-blas", "openblas", "p.dml", "-config", "settings.xml"], "say it in the file of -config"),
    (["model.onnx"], "use: onnx-systemds run MODEL.onnx"), (["--heap", "4x", "p.dml"], "not a size"),
])
def test_refusals(words: list[str], said: str) -> None:
    result = invoke("run-script", *words)
    assert result.exit_code in (1, 2) and said in result.output


@pytest.mark.parametrize(("line", "said"), [
    ("  y = x +", ["error: SystemDS refuses the program:", "mismatched input '}'"]),
    ("  y = nothing + x", ["library.dml, line 2:6: Undefined Variable (nothing)", "    y = nothing + x\n        ^"]),
])
def test_a_fault_of_a_sourced_file_is_told_as_its_own(line: str, said: list[str], tmp_path: Path) -> None:
    library, program = tmp_path / "library.dml", tmp_path / "program.dml"
    library.write_text(f"f = function(double x) return (double y) {{\n{line}\n}}\n")
    program.write_text(f'source("{library}") as l\nx = l::f(1)\nprint(x)\n')
    result = invoke("run-script", program)
    assert result.exit_code == 1 and [each for each in said if each not in result.output] == []
