"""Models that are trained on arrays and on the rows of files; onnxruntime judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import train_model
from onnx_systemds.engine.errors import EngineError
from onnx_systemds.errors import TranspileError
from tests.invoking import invoke
from tests.trained_files import Array, after_steps

RNG = np.random.default_rng(5)
W, B = RNG.normal(size=(3, 2)).astype(np.float32), np.zeros((1, 2), np.float32)
X, Y = RNG.normal(size=(10, 3)).astype(np.float32), RNG.normal(size=(10, 2)).astype(np.float32)
RATE, EPOCHS = 0.1, 4


def linear(inputs: tuple[str, ...] = ("X",), width: int = 3) -> onnx.ModelProto:
    """Y = X W + B, of an input or of several columns."""
    nodes = [] if inputs == ("X",) else [helper.make_node("Concat", [*inputs], ["X"], axis=1)]
    nodes.append(helper.make_node("Gemm", ["X", "W", "B"], ["Y"]))
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in inputs]
    made = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["n", 2])]
    weights = [numpy_helper.from_array(W, "W"), numpy_helper.from_array(B, "B")]
    graph = helper.make_graph(nodes, "linear", given, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def expected(names: tuple[str, ...] = ("W", "B")) -> dict[str, Array]:
    """The weights after as many steps, each of all rows."""
    def gradients(weights: Any) -> dict[str, Array]:
        rest = (X @ weights["W"] + weights["B"] - Y) / len(X)
        return {name: {"W": X.T @ rest, "B": rest.sum(0, keepdims=True)}[name] for name in names}

    return after_steps("sgd", {"W": W, "B": B}, gradients, RATE, EPOCHS)


def assert_trained(model: onnx.ModelProto, names: tuple[str, ...] = ("W", "B")) -> None:
    onnx.checker.check_model(model)
    onnxruntime.InferenceSession(model.SerializeToString())
    found = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for name, array in expected(names).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.engine
def test_arrays(tmp_path: Path) -> None:
    """A batch of more rows than there are has them all."""
    printed: list[str] = []
    model = linear()
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    for source in (model, path, path.read_bytes()):
        trained = train_model(source, {"X": X}, Y, loss="l2_loss", optimizer="sgd", rate=RATE, epochs=EPOCHS, printed=printed.append)
        assert_trained(trained)
        assert len(printed) == EPOCHS and printed[-1].startswith(f"epoch {EPOCHS}: loss ")
        printed.clear()
    assert model == linear() and [each.name for each in tmp_path.iterdir()] == ["m.onnx"]
    only = train_model(model, {"X": X}, {"Y": Y}, loss="Y=l2_loss", weights=["B"], optimizer="sgd", rate=RATE, epochs=EPOCHS)
    assert_trained(only, ("B",))


@pytest.mark.parametrize(("wrong", "error", "words"), [
    ({"epochs": 0}, ValueError, "epochs is a whole number from 1 on, not 0"),
    ({"batch": 2.5}, ValueError, "batch is a whole number from 1 on, not 2.5"),
    ({"seed": -1}, ValueError, "seed is a whole number from 0 on"),
    ({"rate": -1}, ValueError, "rate is a number above 0"),
    ({"rate": float("nan")}, ValueError, "rate is a number above 0"),
    ({"holdout": -0.5}, ValueError, "holdout is a part, from 0 to below 1"),
    ({"patience": 3}, ValueError, "patience is for samples that are held out"),
    ({"patience": 1.5, "holdout": 0.1}, ValueError, "patience is a whole number from 0 on"),
    ({"schedule": "step"}, ValueError, 'schedule is one of "constant", "linear"'),
    ({"clip": float("inf")}, ValueError, "clip is a number from 0 on"),
    ({"weight_decay": -0.1}, ValueError, "weight_decay is a number from 0 on"),
    ({"optimizer": "SGD"}, TranspileError, '"SGD" is no optimizer'),
    ({"loss": []}, TranspileError, "there is no loss"),
    ({"fixed": ["V"]}, TranspileError, '"V" is no weight of floating-point numbers'),
    ({"fixed": ["W", "B"]}, TranspileError, "the model has no weights of floating-point numbers"),
    ({"inputs": X}, TranspileError, "inputs are given by their names, {NAME: array}, not as ndarray"),
    ({"targets": Y.astype(str)}, TranspileError, "is of <U32, no numbers"),
    ({"targets": Y * np.nan}, TranspileError, 'in the target of "Y" numbers are missing'),
])
def test_what_cannot_be_trained_with(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    given: dict[str, Any] = {"inputs": {"X": X}, "targets": Y, "loss": "l2_loss", **wrong}
    with pytest.raises(error, match=words):
        train_model(linear(), **given)


@pytest.mark.engine
def test_missing_numbers_are_told() -> None:
    holes = X.copy()
    holes[2, 1] = np.nan
    with pytest.raises(EngineError, match='hint: in "X" numbers are missing'):
        train_model(linear(), {"X": holes}, Y, loss="l2_loss", epochs=1)


@pytest.mark.engine
def test_samples_that_are_held_out() -> None:
    """Those that are trained on, and the others, are all: their losses together are that of all before a step."""
    printed: list[str] = []
    train_model(linear(), {"X": X}, Y, loss="l2_loss", optimizer="sgd", rate=1e-9, epochs=2, holdout=0.3, printed=printed.append)
    loss, held = (float(text.split()[-1]) for text in printed[0].split(": ")[1].split(",")[:2])
    assert "held out" in printed[1] and loss != held
    assert (7 * loss + 3 * held) / 10 == pytest.approx(((X @ W - Y) ** 2).sum() / 2 / 10, rel=1e-6)
    with pytest.raises(EngineError, match="holdout is a part of 10 samples, not 0.05"):
        train_model(linear(), {"X": X}, Y, loss="l2_loss", holdout=0.05)


@pytest.mark.parametrize(("inputs", "targets", "words"), [
    ({"X": X}, Y[:4], r'the target of "Y" has the dims \[4, 2\], there are 10 samples'),
    ({"X": X}, {"Z": Y}, 'there is no target of "Y"'),
    ({"X": X[:0]}, Y[:0], r"the inputs have \[0\] samples"),
    ({"Z": X}, Y, '"X"'),
], ids=["rows", "names", "nothing", "inputs"])
def test_arrays_that_do_not_fit(inputs: dict[str, Array], targets: Any, words: str) -> None:
    with pytest.raises(TranspileError, match=words):
        train_model(linear(), inputs, targets, loss="l2_loss")


def test_a_loss_that_comes_after_what_it_does_itself() -> None:
    model = linear()
    model.graph.node[0].output[0] = "scores"
    model.graph.node.append(helper.make_node("Softmax", ["scores"], ["Y"]))
    with pytest.raises(TranspileError, match="comes after a Softmax, softmax_cross_entropy_loss takes scores"):
        train_model(model, {"X": X}, np.zeros(10), loss="softmax_cross_entropy_loss")


@pytest.mark.engine
def test_what_the_program_refuses() -> None:
    with pytest.raises(EngineError, match="target has 1 columns, not 2"):
        train_model(linear(), {"X": X}, Y[:, :1], loss="l2_loss")


def csv(path: Path, names: list[str], *columns: Array, header: bool = True) -> None:
    lines = [",".join(names)] * header + [",".join(map(repr, map(float, row))) for row in np.hstack(columns)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


OPTIONS = ("--loss", "l2_loss", "--optimizer", "sgd", "--rate", RATE, "--epochs", EPOCHS)


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["other columns", "named columns", "no header", "npz"])
def test_files(kind: str, tmp_path: Path) -> None:
    names = ("a", "b", "c")
    onnx.save(linear(names, 1) if kind == "named columns" else linear(), tmp_path / "m.onnx")
    source, words = tmp_path / ("rows.npz" if kind == "npz" else "rows.csv"), ["--target", "u,v"]
    if kind == "npz":
        np.savez(source, X=X, Y_of_rows=Y)
        words = ["--target", "Y_of_rows"]
    elif kind == "named columns":
        csv(source, ["u", "c", "other", "b", "a", "v"], Y[:, :1], X[:, 2:], X[:, :1], X[:, 1:2], X[:, :1], Y[:, 1:])
    elif kind == "no header":
        csv(source, [], Y[:, :1], X, Y[:, 1:], header=False)
        words = ["--target", "1,5", "--no-header"]
    else:
        csv(source, ["u", "p", "q", "r", "v"], Y[:, :1], X, Y[:, 1:])
    done = invoke("train", tmp_path / "m.onnx", "--input", source, *words, *OPTIONS, "-o", tmp_path / "new.onnx")
    assert done.exit_code == 0, done.output
    assert done.output.count("epoch ") == EPOCHS and "trained on 10 rows of" in done.output
    assert_trained(onnx.load(tmp_path / "new.onnx"))


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_files_with_several_targets(kind: str, tmp_path: Path) -> None:
    """Two results of the same weights: the gradient is that of both losses. A result's name may have an "="."""
    model, sums = linear(), "Y=Z"
    model.graph.node.append(helper.make_node("ReduceSum", ["Y", "axis"], [sums]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axis"))
    model.graph.output.append(helper.make_tensor_value_info(sums, TensorProto.FLOAT, ["n", 1]))
    onnx.save(model, tmp_path / "m.onnx")
    total = RNG.normal(size=(10, 1)).astype(np.float32)
    source, words = tmp_path / f"rows.{kind}", ["--target", "Y=Z=t", "--target", "Y=u,v"]
    if kind == "npz":
        np.savez(source, X=X, pairs=Y, t=total)
        words[-1] = "Y=pairs"
    else:
        csv(source, ["u", "p", "q", "t", "r", "v"], Y[:, :1], X[:, :2], total, X[:, 2:], Y[:, 1:])
    done = invoke("train", tmp_path / "m.onnx", "--input", source, *words, "--loss", "Y=l2_loss", "--loss", f"{sums}=l2_loss",
                  *OPTIONS[2:], "-o", tmp_path / "new.onnx")
    assert done.exit_code == 0, done.output

    def gradients(weights: Any) -> dict[str, Array]:
        result = X @ weights["W"] + weights["B"]
        rest = (result - Y + result.sum(1, keepdims=True) - total) / len(X)
        return {"W": X.T @ rest, "B": rest.sum(0, keepdims=True)}

    found = {each.name: numpy_helper.to_array(each) for each in onnx.load(tmp_path / "new.onnx").graph.initializer}
    for name, array in after_steps("sgd", {"W": W, "B": B}, gradients, RATE, EPOCHS).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("words", "told"), [
    (["--target", "u,v", "--target", "p"], "there are two targets"),
    (["--target", "Y=u,v", "--loss", "Y=l2_loss", "--target", "u,v"], 'there are two targets of "Y"'),
    (["--target", "u,v", "--loss", "Y=l2_loss", "--loss", "Z=l2_loss"], '--target is "u,v", of none of the results "Y", "Z"'),
    (["--target", "Y=u,v", "--loss", "Y=l2_loss", "--loss", "Z=l2_loss"], 'there is no target of "Z"'),
    (["--target", "Y=u,v", "--loss", "l2_loss", "--loss", "l2_loss"], "there are two losses of one result"),
])
def test_targets_that_do_not_fit(words: list[str], told: str, tmp_path: Path) -> None:
    model = linear()
    model.graph.node.append(helper.make_node("Neg", ["Y"], ["Z"]))
    model.graph.output.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, ["n", 2]))
    onnx.save(model, tmp_path / "m.onnx")
    csv(tmp_path / "rows.csv", ["u", "p", "q", "r", "v"], Y[:, :1], X, Y[:, 1:])
    losses = [] if "--loss" in words else ["--loss", "Y=l2_loss"]
    refused = invoke("train", tmp_path / "m.onnx", "--input", tmp_path / "rows.csv", *words, *losses, "-o", tmp_path / "new.onnx")
    assert refused.exit_code == 1 and told in refused.output, refused.output
    assert not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize(("words", "told"), [
    (["--target", "w"], 'there is no column "w"; its columns: "u", "p", "q", "r", "v"'),
    (["--target", "u,v", "--loss", "softmax"], '"softmax" is no loss'),
    (["--target", "u,v", "--columns", "p,q"], "take 3 columns, here are 2"),
    (["--target", "u,v", "--input", "rows.npy"], "the file must be named *.csv, *.parquet or *.npz"),
    (["--target", "u,v", "-o", "m.onnx"], "m.onnx"),
])
def test_files_that_do_not_fit(words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(linear(), "m.onnx")
    csv(tmp_path / "rows.csv", ["u", "p", "q", "r", "v"], Y[:, :1], X, Y[:, 1:])
    given = {"--input": "rows.csv", "--loss": "l2_loss", "-o": "new.onnx"} | dict(zip(words[::2], words[1::2]))
    refused = invoke("train", "m.onnx", *(word for pair in given.items() for word in pair))
    assert refused.exit_code == 1 and told in refused.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "rows.csv"]


@pytest.mark.engine
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that run in a JVM of their own keep its files out of the working directory: this one, and verified ones."""
    monkeypatch.chdir(tmp_path)
    onnx.save(linear(), "m.onnx")
    csv(tmp_path / "rows.csv", ["u", "p", "q", "r", "v"], Y[:, :1], X, Y[:, 1:])
    Path("s.dml").write_text('X = read("X")\nY = X * 2\nwrite(Y, "Y")\n', encoding="utf-8")
    assert invoke("train", "m.onnx", "--input", "rows.csv", "--target", "u,v", *OPTIONS, "-o", "new.onnx", "-q").exit_code == 0
    assert invoke("verify", "s.dml", "--input", "X=double[3,2]").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "new.onnx", "rows.csv", "s.dml"]
