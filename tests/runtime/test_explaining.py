"""Shapley values by the engine, against those over all permutations in numpy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from onnx_systemds import explain_model
from onnx_systemds.errors import TranspileError
from tests.command_line import run_dml
from tests.invoking import invoke

Array = np.ndarray[Any, np.dtype[Any]]

RNG = np.random.default_rng(3)
X = RNG.normal(size=(12, 4)).astype(np.float32)
Z = RNG.normal(size=(1, 4)).astype(np.float32)
PAIRS = RNG.normal(size=(4, 2)).astype(np.float32)


def quadratic() -> onnx.ModelProto:
    """Two sums of products of two features, for which a permutation and its reverse are as good as all."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        quadratic (float[n,4] X) => (int64[n] label, float[n,2] Y) <int64[2] sizes = {1, 3}> {
            A, B = Split <axis = 1> (X, sizes) P = Mul (A, B) Q = Concat <axis = 1> (A, P) Y = MatMul (Q, W)
            label = ArgMax <axis = 1, keepdims = 0> (Y) }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(PAIRS, "W"))
    return model


def answers(x: Array) -> Array:
    return np.asarray(np.hstack([x[:, :1], x[:, :1] * x[:, 1:]]) @ PAIRS, float)


def shapley(answer: Callable[[Array], Array], x: Array, z: Array, groups: Sequence[int]) -> Array:
    """Of groups of features, by all their permutations."""
    found = np.zeros(max(groups))
    orders = [*permutations(range(1, max(groups) + 1))]
    for order in orders:
        mixed = z.copy()
        for group in order:
            before = answer(mixed[None])[0]
            mixed = np.where(np.asarray(groups) == group, x, mixed)
            found[group - 1] += answer(mixed[None])[0] - before
    return found / len(orders)


@pytest.mark.engine
@pytest.mark.parametrize(("column", "groups"), [(0, None), (2, None), (1, [2, 1, 1, 2]), (2, [1, 1, 1, 1])])
def test_shapley_values(column: int, groups: list[int] | None) -> None:
    found = explain_model(quadratic(), {"X": X}, column=column, groups=groups, background={"X": Z}, permutations=1)
    for row, x in enumerate(X):
        place = column - 1 if column else int(answers(x[None])[0].argmax())
        expected = shapley(lambda mixed, place=place: answers(mixed)[:, place], x, Z[0], groups or [1, 2, 3, 4])
        np.testing.assert_allclose(found.contributions[row], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.base[row], answers(Z)[0, place], rtol=1e-5, atol=1e-6)
    assert np.isnan(found.errors).all(), "a single permutation does not tell them"


@pytest.mark.engine
def test_rows_are_seen_against_each_other() -> None:
    """As many permutations as rows take each of them; fewer with another seed take others."""
    found, other = (explain_model(quadratic(), {"X": X}, column=1, permutations=count, seed=seed)
                    for count, seed in ((24, 1), (2, 2)))
    expected = [np.mean([shapley(lambda mixed: answers(mixed)[:, 0], x, z, [1, 2, 3, 4]) for z in X], axis=0) for x in X]
    np.testing.assert_allclose(found.contributions, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.base, np.full(12, answers(X)[:, 0].mean()), rtol=1e-5)
    np.testing.assert_allclose(other.contributions.sum(1) + other.base, answers(X)[:, 0], rtol=1e-5, atol=1e-5)
    away = other.contributions - expected
    assert found.errors.max() < 1e-6 and 0.3 < np.sqrt((other.errors ** 2).mean() / (away ** 2).mean()) < 3


@pytest.mark.engine
def test_all_sets_of_few_features() -> None:
    """What three of them do together is exact, where a permutation and its reverse are not."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
        cubic (float[n,5] X) => (float[n] Y) <int64[2] sizes = {3, 2}, int64[1] last = {1}> {
            A, B = Split <axis = 1> (X, sizes) P = ReduceProd <axes = [1], keepdims = 0> (A)
            Q = Exp (B) R = ReduceSum <keepdims = 0> (Q, last) Y = Mul (P, R) }""")
    rows = RNG.normal(size=(30, 5)).astype(np.float32)
    others, groups = RNG.normal(size=(7, 5)).astype(np.float32), [1, 2, 5, 3, 3]

    def answer(x: Array) -> Array:
        return np.asarray(x[:, :3].prod(1) * np.exp(x[:, 3:]).sum(1), float)

    found = explain_model(model, {"X": rows}, background={"X": others}, groups=groups, permutations=24)
    for row in (0, 11, 29):
        expected = np.mean([shapley(answer, rows[row], z, groups) for z in others], axis=0)
        np.testing.assert_allclose(found.contributions[row], expected, rtol=1e-4, atol=1e-5)
    assert np.abs(found.contributions[:, 3]).max() < 1e-12 and not found.errors.any(), "a group without columns"
    np.testing.assert_allclose(found.base, np.full(30, answer(others).mean()), rtol=1e-5)
    np.testing.assert_allclose(found.contributions.sum(1) + found.base, answer(rows), rtol=1e-4, atol=1e-4)


@pytest.mark.engine
def test_permutations_in_parts() -> None:
    """More than one call takes, of a row that is one infinite answer beside others; unless it is asked for."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        logarithms (float[n,3] X) => (float[n,6] Y) { A = Log (X) B = Exp (X) Y = Concat <axis = 1> (A, B) }""")
    x, z = np.array([[0, 1, 1]], np.float32), np.array([[1, 2, 3], [2, 0, 1]] * 25_001, np.float32)
    lines: list[str] = []
    found = explain_model(model, {"X": x}, column=4, background={"X": z}, permutations=50_002, printed=lines.append)
    np.testing.assert_allclose(found.contributions, [[1 - np.exp(z[:, 0]).mean(), 0, 0]], rtol=1e-5)
    np.testing.assert_allclose(found.base, [np.exp(z[:, 0]).mean()], rtol=1e-5)
    assert lines and all(line.startswith("rows 1 to 1 of 1, part ") for line in lines)
    with pytest.raises(Exception, match="the answer for some rows is no number"):
        explain_model(model, {"X": x}, column=1, background={"X": z})


@pytest.mark.engine
def test_rows_in_blocks() -> None:
    rows = RNG.normal(size=(25_001, 4)).astype(np.float32)
    found = explain_model(quadratic(), {"X": rows}, column=1, background={"X": Z}, permutations=1)
    for row in (0, 24_999, 25_000):
        expected = shapley(lambda mixed: answers(mixed)[:, 0], rows[row], Z[0], [1, 2, 3, 4])
        np.testing.assert_allclose(found.contributions[row], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.contributions.sum(1) + found.base, answers(rows)[:, 0], rtol=1e-4, atol=1e-4)


TABLE = """<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]>
    table (float[n,1] age, string[n,1] town) => (float[n,1] Y) <float[1,1] zero = {0}> {
        code = ai.onnx.ml.LabelEncoder <keys_strings: strings = ["Graz", "a, b"], values_floats: floats = [3, 5],
                                        default_float: float = 1> (town)
        missing = IsNaN (age) known = Where (missing, zero, age) Y = Mul (known, code) }"""
AGES, TOWNS = np.array([[2], [np.nan], [4]], np.float32), np.array([["Graz"], ["a, b"], ["Wien"]], object)


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["arrays", "command", "program"])
def test_tables_of_texts_and_missing_numbers(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two features a permutation and its reverse are all: against an age of 1 in an unknown town."""
    model = onnx.parser.parse_model(TABLE)
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "m.onnx")
    Path("rows.csv").write_text('age,town\n2,Graz\n,"a, b"\n4,Wien\n', encoding="utf-8")
    Path("other.csv").write_text("age,town\n1,?\n", encoding="utf-8")
    if kind == "arrays":
        background = {"age": np.ones((1, 1), np.float32), "town": np.array([["?"]], object)}
        found = explain_model(model, {"age": AGES, "town": TOWNS}, background=background, permutations=2)
        contributions = np.hstack([found.contributions, found.base[:, None]])
    elif kind == "command":
        words = ("--input", "rows.csv", "--background", "other.csv", "--output", "out.csv", "--permutations", 2)
        done = invoke("explain", "m.onnx", *words)
        assert done.exit_code == 0 and "contributions of 2 columns to the answers for 3 rows of rows.csv" in done.output
        assert "rows.csv, with errors of about 0\nlargest on average: \"age\" (2.7), \"town\" (1.7)\n" in done.output
        assert Path("out.csv").read_text(encoding="utf-8").startswith("age,town,base\n")
        contributions = np.loadtxt("out.csv", delimiter=",", skiprows=1)
    else:
        assert invoke("m.onnx", "--explain").exit_code == 0
        arguments = {"table": "rows.csv", "background": "other.csv", "contributions": "out.csv", "header": "TRUE",
                     "errors": "errors.csv"}
        output = run_dml(Path("m_explain.dml").read_text(encoding="utf-8"), tmp_path, arguments=arguments)
        assert re.search(r"explained 3 rows in \S+ s, exactly\n", output)
        np.testing.assert_allclose(np.loadtxt("errors.csv"), [0, 0, 0], atol=1e-12)
        contributions = np.loadtxt("out.csv", delimiter=",")
    # (2 - 1) (1 + 3) / 2, (3 - 1) (1 + 2) / 2, and so on
    np.testing.assert_allclose(contributions, [[2, 3, 1], [-3, 2, 1], [3, 0, 1]], rtol=1e-6)


@pytest.mark.engine
def test_groups_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(quadratic(), "m.onnx")
    np.savetxt("rows.csv", X, delimiter=",", header="p,q,r,s", comments="")
    np.savetxt("other.csv", Z, delimiter=",", header="p,q,r,s", comments="")
    files = ("--input", "rows.csv", "--background", "other.csv", "--output", "out.csv")
    done = invoke("explain", "m.onnx", *files, "--group", "both=s,q", "--group", "r=r", "--column", 1, "--permutations", 1)
    assert done.exit_code == 0 and "contributions of 3 columns" in done.output
    assert Path("out.csv").read_text(encoding="utf-8").startswith("p,both,r,base\n")
    expected = [shapley(lambda mixed: answers(mixed)[:, 0], x, Z[0], [1, 2, 3, 2]) for x in X]
    np.testing.assert_allclose(np.loadtxt("out.csv", delimiter=",", skiprows=1)[:, :3], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("groups", "told"), [
    (["both"], '--group is "both", not NAME=COLUMN,COLUMN'), (["=p,q"], "not NAME=COLUMN"), (["both="], "not NAME=COLUMN"),
    (["both=p,t"], 'there is no column "t"; columns: "p", "q", "r", "s"'), (["both=p,q,p"], '"p" is in two groups, or twice in one'),
    (["one=p,q", "two=q,r"], '"q" is in two groups'), (["r=p,q"], '"r" is a name already'), (["a=p", "a=q"], '"a" is a name already'),
])
def test_groups_that_there_are_not(groups: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(quadratic(), "m.onnx")
    Path("rows.csv").write_text("p,q,r,s\n1,2,3,4\n", encoding="utf-8")
    words = (word for group in groups for word in ("--group", group))
    refused = invoke("explain", "m.onnx", "--input", "rows.csv", "--output", "out.csv", *words)
    assert refused.exit_code == 1 and told in refused.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "rows.csv"]


@pytest.mark.engine
def test_several_inputs_of_several_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        two (float[n,2] A, float[n,2,2] B) => (float[n] Y) <int64[2] flat = {0, -1}> {
            C = Reshape (B, flat) D = Concat <axis = 1> (A, C) Y = ReduceSum <keepdims = 0> (D, last) }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "last"))
    x = {"A": X[:, :2], "B": RNG.normal(size=(12, 2, 2)).astype(np.float32)}
    background = {"A": Z[:, :2], "B": np.ones((1, 2, 2), np.float32)}
    found = explain_model(model, x, background=background)
    expected = np.hstack([x["A"] - Z[:, :2], x["B"].reshape(12, 4) - 1])
    np.testing.assert_allclose(found.contributions, expected, rtol=1e-5, atol=1e-6)
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "two.onnx")
    assert invoke("two.onnx", "--explain").exit_code == 0
    np.savetxt("A.csv", x["A"], delimiter=",")
    np.savetxt("B.csv", x["B"].reshape(12, 4), delimiter=",")
    arguments = {"A": "A.csv", "B": "B.csv", "background_A": "A.csv", "contributions": "out.csv"}
    with pytest.raises(AssertionError, match="background is of all inputs: give background_A, background_B"):
        run_dml(Path("two_explain.dml").read_text(encoding="utf-8"), tmp_path, arguments=arguments)


@pytest.mark.engine
def test_a_single_feature() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        one (float[n,1] X) => (float[n,1] Y) { Y = Exp (X) }""")
    found = explain_model(model, {"X": X[:3, :1]}, background={"X": Z[:, :1]})
    np.testing.assert_allclose(found.contributions, np.exp(X[:3, :1]) - np.exp(Z[:, :1]), rtol=1e-5)


@pytest.mark.engine
@pytest.mark.parametrize(("wrong", "words"), [
    ({"column": 3}, "column is 0, or one of the 2 of the result, from 1 on, not 3"),
    ({"groups": [1, 2]}, "groups is a row of whole numbers from 1 to 4, one for each of so many columns"),
    ({"groups": [0, 1, 2, 3]}, "groups is a row of whole numbers from 1 to 4"),
    ({"groups": [1, 2, 3, 10**9]}, "groups is a row of whole numbers from 1 to 4"),
    ({"permutations": 2**31}, "permutations is a whole number from 1 to 2500000, not 2147483648"),
    ({"inputs": {"X": X[:1]}, "background": None}, "a single row is seen against others, its background: give background"),
    ({"inputs": {"X": np.full((1, 4), np.inf, np.float32)}}, "the answer for some rows is no number"),
])
def test_what_the_program_refuses(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words):
        explain_model(quadratic(), **{"inputs": {"X": X}, "background": {"X": Z}, **wrong})


@pytest.mark.parametrize(("text", "result", "words"), [
    ("(float[n,2] X) => (float[n,2] Y, float[n,2] Z) { Y = Exp (X) Z = Abs (X) }", "", "several results to explain: \"Y\", \"Z\""),
    ("(float[n,2] X) => (float[n,2] Y, int64[n] Z) { Y = Exp (X) Z = ArgMax <axis = 1, keepdims = 0> (X) }", "Z", "is no floating-point"),
    ("(float[n,2] X) => (float[n,2] Y) { Y = Exp (X) }", "Z", "no result \"Z\""),
    ("(float[n,2] X) => (int64[n] Z) { Z = ArgMax <axis = 1, keepdims = 0> (X) }", "", "no result is floating-point"),
    ("(float[n,2] X) => (float[n,2] Y) { Y = Softmax <axis = 0> (X) }", "", "may depend on each other"),
    ("(float[2,n] X) => (float[2,n] Y) { Y = Exp (X) }", "", "takes rows"),
    ("(float[n,a] X, float[n,b] Z) => (float[n] Y) { A = ReduceMax <axes = [1], keepdims = 0> (X) "
     "B = ReduceMax <axes = [1], keepdims = 0> (Z) Y = Add (A, B) }", "", "do not tell"),
])
def test_models_that_cannot_be_explained(text: str, result: str, words: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 13]> g {text}')
    onnxruntime.InferenceSession(model.SerializeToString())
    with pytest.raises(TranspileError, match=words):
        explain_model(model, {"X": X[:, :2]}, result=result)


@pytest.mark.parametrize("wrong", [{"column": -1}, {"permutations": 0}, {"seed": 1.5}])
def test_numbers_that_there_are_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is a whole number from"):
        explain_model(quadratic(), {"X": X}, **wrong)


@pytest.mark.parametrize(("words", "told"), [
    (["--input", "rows.npz"], "must be named"),
    (["--output", "out.npy"], "must be named"),
    (["--result", "label"], "is no floating-point numbers of rows"),
    (["--columns", "p,q"], "take 4 columns, here are 2"),
    (["--output", "rows.csv"], "rows.csv"),
])
def test_files_that_do_not_fit(words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(quadratic(), "m.onnx")
    Path("rows.csv").write_text("p,q,r,s\n1,2,3,4\n", encoding="utf-8")
    given = {"--input": "rows.csv", "--output": "out.csv"} | dict(zip(words[::2], words[1::2]))
    refused = invoke("explain", "m.onnx", *(word for pair in given.items() for word in pair))
    assert refused.exit_code == 1 and told in refused.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "rows.csv"]


def test_a_program_that_somebody_wrote_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(quadratic(), "m.onnx")
    Path("m_explain.dml").write_text("# mine\n", encoding="utf-8")
    refused = invoke("m.onnx", "--explain")
    assert refused.exit_code == 1 and "--explain did not write it" in refused.output
    refused = invoke("m.onnx", "--result", "Y")
    assert refused.exit_code == 1 and "--result is of the program that --explain writes" in refused.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m_explain.dml"]
