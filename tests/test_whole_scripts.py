"""How results of SystemDS's own scripts are judged, what of them was read, and what their Java tests are read for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.whole_scripts.__main__ import counts, share
from benchmarks.whole_scripts.attempts import attempts
from benchmarks.whole_scripts.java import JavaTests
from benchmarks.whole_scripts.models import Found
from benchmarks.whole_scripts.outputs import Parting, partings
from benchmarks.whole_scripts.texts import without_dml_comments
from benchmarks.whole_scripts.trials import scripts_of
from benchmarks.whole_scripts.verdicts import (
    AGREE,
    DOCUMENTED,
    DOUBTFUL,
    KINDS,
    NOT_READ,
    RIGHTLY,
    ROUNDING,
    WRONG,
    Deviation,
    Readings,
    Refusal,
    readings,
    verdict,
)

READ = Readings(
    (Refusal(RIGHTLY, "a model knows no clock", "time has no counterpart"),
     Refusal(DOUBTFUL, "could be done", "replace in a frame", ("frames/*",))),
    (Deviation(ROUNDING, "sums", ("solve*",), {"B": 1e-6, "n": [0.5, 2]}),
     Deviation(DOCUMENTED, "vectors have any sign", ("pca",), {"V": {"signs": 1e-6}, "out": "not written by the engine"})),
    {}, {"guessed": "no test runs it"},
)
JAVA = """
public class ScoreTest {
    @Parameterized.Parameters
    public static Collection<Object[]> data() { return Arrays.asList(new Object[][] {{12, "max"}, {7, "min"}}); }
    private final static int cols = 2 * 3; // "score"
    public ScoreTest(int rows, String way) { this.rows = rows; this.way = way; }
    private void run(boolean sparse) {
        programArgs = new String[] {"-nvargs", "X=" + input("X"), "way=" + way, "eps=" + String.valueOf(0.5),
            "Y=" + output("Y")};
        double[][] A = getRandomMatrix(rows, cols, -1, 1, 0.7, 7);
        writeInputMatrixWithMTD("X", A, true);
        runTest("functions/score");
    }
}
"""
DML = 'X = read($X) # "$Z"\nY = X * $eps\nwrite(Y, $Y)\n'


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        pytest.param(Found("exported"), AGREE, id="agree"),
        pytest.param(Found("exported", "", [Parting("B", 1e-7)], "solve2"), ROUNDING, id="as-far"),
        pytest.param(Found("exported", "", [Parting("B", 1e-5)], "solve2"), WRONG, id="farther"),
        pytest.param(Found("exported", "", [Parting("B", 1e-7), Parting("C", 1e-7)], "solve2"), WRONG, id="another"),
        pytest.param(Found("exported", "", [Parting("n", 0.1, 2)], "solve"), ROUNDING, id="not-finite"),
        pytest.param(Found("exported", "", [Parting("B", 1e-7, 1)], "solve"), WRONG, id="not-finite-either"),
        pytest.param(Found("exported", "", [Parting("B", 1e-7)], "other"), WRONG, id="another-script"),
        pytest.param(Found("exported", "", [Parting("V", 2.0, 0, 0.0, 1.0)], "pca"), DOCUMENTED, id="signs"),
        pytest.param(Found("exported", "", [Parting("V", 2.0, 0, 0.1, 0.0)], "pca"), WRONG, id="not-signs"),
        pytest.param(Found("exported", "", [Parting("out", problem="not written by the engine")], "pca"), DOCUMENTED,
                     id="no-file"),
        pytest.param(Found("exported", "", [Parting("out", problem="no output of the model")], "pca"), WRONG,
                     id="no-output"),
        pytest.param(Found("refused", "error: time has no counterpart"), RIGHTLY, id="refused"),
        pytest.param(Found("refused", "replace in a frame", script="frames/a"), DOUBTFUL, id="doubtful"),
        pytest.param(Found("refused", "replace in a frame, time has no counterpart", script="frames/a"), RIGHTLY,
                     id="one-reason-is-enough"),
        pytest.param(Found("refused", "replace in a frame", script="a"), NOT_READ, id="not-read"),
        pytest.param(Found("hang"), "hang", id="hang"),
        pytest.param(Found("not judged", "federated sites"), "not judged: federated sites", id="not-judged"),
        pytest.param(Found("exported", "", [Parting("B", 1e-7)], "guessed"), "not judged: inputs are guessed wrongly",
                     id="guessed"),
    ],
)
def test_results_are_judged_by_what_was_read(found: Found, kind: str) -> None:
    assert verdict(found, READ).kind == kind


def test_what_agrees_or_is_rightly_refused_is_counted() -> None:
    found = [Found("exported", script="a"), Found("hang", script="b"), Found("not judged", "no inputs", script="c"),
             Found("refused", "time has no counterpart", script="d")]
    kinds = counts({each.script: (each, verdict(each, READ)) for each in found})
    assert share(kinds) == (2, 3)


def test_what_was_read_is_well_formed() -> None:
    read = readings()
    rows = (*read.refusals, *read.deviations)
    assert all(row.kind in KINDS and row.reason and row.scripts for row in rows)
    assert all(row.outputs for row in read.deviations)
    assert all(each.message for each in read.refusals)
    refusals = [(each.message, each.scripts) for each in read.refusals]
    assert len(set(refusals)) == len(refusals)
    assert all(set(each) <= {"arguments", "inputs"} for each in read.given.values())


@pytest.mark.parametrize(
    ("given", "written", "found"),
    [
        pytest.param({"Y": np.ones((2, 1))}, {"out/Y.csv": np.ones((2, 1))}, [], id="agree"),
        pytest.param({"s": np.float64(2.0)}, {"out/s": 2}, [], id="scalar"),
        pytest.param({"n": np.array(["a"], object)}, {"out/n": "b"}, [Parting("n", unequal=1)], id="texts"),
        pytest.param({"L_W": np.ones((1, 1)), "L_b": np.zeros((1, 1))}, {"out/L": {"W": np.ones((1, 1)), "b": 0.0}}, [],
                     id="list"),
        pytest.param({"F_1": np.array([["a"]], object), "F_2": np.array([[1.0, 0.0]])},
                     {"out/F": np.array([["a", "TRUE", "false"]], object)}, [], id="frame"),
        pytest.param({"F_1": np.array([["a"]], object), "F_2": np.array([[1.0, 0.0]])},
                     {"out/F": np.array([["a", "TRUE", "TRUE"]], object)}, [Parting("F_2", 1.0, 0, 1.0, 1.0)],
                     id="part-of-a-frame"),
        pytest.param({"Y": np.array([[1.0, -2.0]])}, {"Y": np.array([[-1.0, 2.0]])}, [Parting("Y", 4 / 3, 0, 0.0, 1 / 3)], id="signs"),
        pytest.param({"Y": np.array([[1.0, 2.0]])}, {"Y": np.array([[2.0, 1.0]])}, [Parting("Y", 0.5, 0, 0.5, 0.0)], id="order"),
        pytest.param({"Y": np.array([[1.0, np.nan]])}, {"Y": np.array([[1.0, 2.0]])}, [Parting("Y", 0.0, 1)], id="nan"),
        pytest.param({"Y": np.array([[1.0]])}, {}, [Parting("Y", problem="not written by the engine")], id="no-file"),
        pytest.param({}, {"Y": np.array([[1.0]])}, [Parting("Y", problem="no output of the model")], id="no-output"),
    ],
)
def test_outputs_are_compared_with_files(
    given: dict[str, object], written: dict[str, object], found: list[Parting]
) -> None:
    assert partings(given, written) == found


def test_arguments_and_inputs_come_from_java(tmp_path: Path) -> None:
    tests = tmp_path / "src" / "test" / "java"
    tests.mkdir(parents=True)
    tests.joinpath("ScoreTest.java").write_text(JAVA)
    first = next(attempts(JavaTests(tmp_path), "functions/score", without_dml_comments(DML), {}))
    assert first.arguments == {"X": "IN/X", "way": "max", "eps": "0.5", "Y": "OUT/Y"}
    assert first.inputs["IN/X"].spec == "double[12,6]"


def test_halves_are_the_same_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "test" / "scripts" / "functions"
    folder.mkdir(parents=True)
    for name in "abcd":
        folder.joinpath(f"{name}.dml").touch()
    halves = [scripts_of(tmp_path, half) for half in ("1", "2")]
    assert halves == [scripts_of(tmp_path, half) for half in ("1", "2")]
    assert sorted(halves[0] + halves[1]) == [f"functions/{name}" for name in "abcd"]
