"""Integrated gradients by the engine, against derivatives in numpy."""

from __future__ import annotations

import re
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

RNG = np.random.default_rng(5)
IN, OUT = RNG.normal(size=(4, 6)).astype(np.float32), RNG.normal(size=(6, 3)).astype(np.float32)
X = RNG.normal(size=(7, 4)).astype(np.float32)
Z = RNG.normal(size=(3, 4)).astype(np.float32)


def network(inputs: str = "float[n,4] X", joined: str = "U = MatMul (X, IN)") -> onnx.ModelProto:
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        network ({inputs}) => (int64[n] label, float[n,3] Y) {{
            {joined} V = Tanh (U) Y = MatMul (V, OUT) label = ArgMax <axis = 1, keepdims = 0> (Y) }}""")
    model.graph.initializer.extend([onnx.numpy_helper.from_array(IN, "IN"), onnx.numpy_helper.from_array(OUT, "OUT")])
    return model


def answers(x: Array) -> Array:
    return np.asarray(np.tanh(x @ IN.astype(float)) @ OUT.astype(float))


def slopes(x: Array, column: int) -> Array:
    """Of one answer, by the four features."""
    return np.asarray(((1 - np.tanh(x @ IN.astype(float)) ** 2) * OUT[:, column]) @ IN.T.astype(float))


def integrated(x: Array, background: Array, column: int, steps: int) -> Array:
    """The mean slope at the middles of steps, each on the way from the next row of the background."""
    shares = (np.arange(steps) + 0.5) / steps
    return np.asarray(np.mean([(x - z) * slopes(z + share * (x - z), column)
                               for share, z in zip(shares, np.resize(background, (steps, 4)))], axis=0))


@pytest.mark.engine
@pytest.mark.parametrize("column", [0, 2])
def test_from_one_row(column: int) -> None:
    found = explain_model(network(), {"X": X}, result="Y", column=column, background={"X": Z[:1]}, method="gradients", steps=9)
    for row, x in enumerate(X.astype(float)):
        place = column - 1 if column else int(answers(x).argmax())
        expected = integrated(x, Z[:1].astype(float), place, 9)
        np.testing.assert_allclose(found.contributions[row], expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(found.base[row], answers(Z[0])[place], rtol=1e-6)
        np.testing.assert_allclose(found.errors[row], abs(answers(x)[place] - answers(Z[0])[place] - expected.sum()), atol=1e-6)


@pytest.mark.engine
def test_from_all_rows_of_the_background() -> None:
    """Many steps are the integral from each of its rows: values and base add up to the answers."""
    found = explain_model(network(), {"X": X}, result="Y", column=1, background={"X": Z}, method="gradients", steps=600)
    expected = [np.mean([integrated(x, z[None], 0, 200) for z in Z.astype(float)], axis=0) for x in X.astype(float)]
    np.testing.assert_allclose(found.contributions, expected, atol=2e-3)
    np.testing.assert_allclose(found.base, np.full(7, answers(Z)[:, 0].mean()), rtol=1e-6)
    np.testing.assert_allclose(found.contributions.sum(1) + found.base, answers(X)[:, 0], atol=5e-3)
    assert found.errors.max() < 5e-3


@pytest.mark.engine
def test_groups_of_two_inputs() -> None:
    """Columns of one number count together; a row that is the background itself has no contributions."""
    model = network("float[n,3] A, float[n,1] B", "C = Concat <axis = 1> (B, A) U = MatMul (C, IN)")
    rows = {"A": np.vstack([X[:2, 1:], Z[:1, 1:]]), "B": np.vstack([X[:2, :1], Z[:1, :1]])}
    found = explain_model(model, rows, result="Y", column=3, background={"A": Z[:1, 1:], "B": Z[:1, :1]}, groups=[1, 2, 1, 2],
                          method="gradients", steps=5)
    for row, x in enumerate(X[:2].astype(float)):
        by_column = integrated(x, Z[:1].astype(float), 2, 5)[[1, 2, 3, 0]]
        expected = [by_column[0] + by_column[2], by_column[1] + by_column[3]]
        np.testing.assert_allclose(found.contributions[row], expected, rtol=1e-6, atol=1e-7)
    assert not found.contributions[2].any()


@pytest.mark.engine
def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution of 2 x 5 x 5 pixels, from black: the program on files, and the command."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        images (float[n,2,5,5] X) => (float[n,3] Y) <int64[2] flat = {0, -1}> {
            C = Conv <pads = [1, 1, 1, 1]> (X, F) R = Relu (C) V = Reshape (R, flat) Y = MatMul (V, W) }""")
    filters, weights = RNG.normal(size=(4, 2, 3, 3)).astype(np.float32), RNG.normal(size=(100, 3)).astype(np.float32)
    model.graph.initializer.extend([onnx.numpy_helper.from_array(filters, "F"), onnx.numpy_helper.from_array(weights, "W")])
    pixels = RNG.random((40, 50)).astype(np.float32)
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "m.onnx")
    np.savetxt("X.csv", pixels, delimiter=",")
    np.savetxt("black.csv", np.zeros((1, 50)), delimiter=",")
    words = ("--input", "X.csv", "--no-header", "--background", "black.csv", "--output", "values.csv", "--column", 2)
    done = invoke("explain", "m.onnx", *words, "--method", "gradients", "--steps", 1)
    assert done.exit_code == 0 and "values.csv: contributions of 50 columns to the answers for 40 rows" in done.output
    found = np.loadtxt("values.csv", delimiter=",", skiprows=1)
    # without constants, and from zeros, all slopes on the way are those at its middle
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": pixels.reshape(40, 2, 5, 5)})
    np.testing.assert_allclose(found.sum(1), expected[:, 1], rtol=1e-4, atol=1e-5)
    assert abs(found[:, :50]).min(0).any() and not found[:, 50].any()
    assert invoke("m.onnx", "--explain", "--method", "gradients").exit_code == 0
    arguments = {"X": "X.csv", "background": "black.csv", "contributions": "out.csv", "column": "2", "errors": "errors.csv"}
    output = run_dml(Path("m_explain.dml").read_text(encoding="utf-8"), tmp_path, arguments=arguments)
    assert re.search(r"explained 40 rows in \S+ s, with errors of about \S+\n", output)
    np.testing.assert_allclose(np.loadtxt("out.csv", delimiter=","), found, rtol=1e-6, atol=1e-8)
    assert np.loadtxt("errors.csv").max() < 1e-5


@pytest.mark.engine
def test_steps_in_parts() -> None:
    """More than one call takes, of one row."""
    background = np.repeat(Z, 25_000, axis=0)
    found = explain_model(network(), {"X": X[:1]}, result="Y", column=1, background={"X": background}, method="gradients",
                          steps=75_000)
    expected = np.mean([integrated(X[0].astype(float), z[None], 0, 200) for z in Z.astype(float)], axis=0)
    np.testing.assert_allclose(found.contributions, [expected], atol=5e-3)
    np.testing.assert_allclose(found.base, [answers(Z)[:, 0].mean()], rtol=1e-5)


@pytest.mark.parametrize(("text", "words"), [
    ("(float[n,3] A, int64[n,1] B) => (float[n,4] Y) { D = Cast <to = 1> (B) Y = Concat <axis = 1> (A, D) }",
     '"B" is not of floating-point numbers'),
    ("(float[n,3] A) => (float[n,3] Y) { B = Dropout (A, half, yes) Y = Exp (B) }", "the model drops numbers"),
    ("(float[n,3] A) => (int64[n,3] Y) { Y = Cast <to = 7> (A) }", "no output of floating-point numbers"),
    ("(float[n,3] A) => (float[n,4] Y) { Y = ai.onnx.ml.Normalizer (A) }", "the derivative of a Normalizer"),
])
def test_models_without_derivatives(text: str, words: str) -> None:
    constants = "<float half = {0.5}, bool yes = {1}>" if "half" in text else ""
    head, body = text.split("{", 1)
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g {head} {constants} {{{body}')
    with pytest.raises(TranspileError, match=words):
        explain_model(model, {}, result="Y", method="gradients")


@pytest.mark.parametrize(("wrong", "words"), [
    ({"method": "gradients", "permutations": 3}, "permutations are of the method 'shapley'"),
    ({"steps": 3}, "steps are of the method 'gradients'"),
    ({"method": "gradients", "steps": 0}, "steps is a whole number from 1"),
    ({"method": "lime"}, "method is one of shapley, gradients, not 'lime'"),
])
def test_methods_that_there_are_not(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        explain_model(network(), {"X": X}, result="Y", **wrong)


@pytest.mark.parametrize(("words", "told"), [
    ("m.onnx --method gradients", "--method is of the program that --explain writes"),
    ("m.onnx --explain --method gradients --gradient weights", "by all inputs alone: convert once more for others"),
    ("m.onnx --explain --method gradients --train Y=l2_loss", "by all inputs alone: convert once more for others"),
    ("explain m.onnx --input a.csv --output b.csv --method gradients --permutations 3", "--permutations is of --method shapley"),
    ("explain m.onnx --input a.csv --output b.csv --steps 3", "--steps is of --method gradients"),
])
def test_refused_words(words: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "m.onnx")
    refused = invoke(*words.split())
    assert refused.exit_code in (1, 2) and told in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
