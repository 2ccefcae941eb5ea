"""The program that trains a model, run as people run it, against the same steps in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import export_script, import_model
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.importing.train_program import train_text, training_of
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.row_blocks import common_rows
from tests.command_line import run_dml
from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models
from tests.trained_files import Array, after_steps, trained_weights

ROWS, COLUMNS, CLASSES = 12, 4, 3
RNG = np.random.default_rng(0)
W, B = RNG.normal(size=(COLUMNS, CLASSES)).astype(np.float32), RNG.normal(size=(1, CLASSES)).astype(np.float32)
X = RNG.normal(size=(ROWS, COLUMNS))
CLASS = RNG.integers(0, CLASSES, (ROWS, 1))
ONE_HOT = np.eye(CLASSES)[CLASS[:, 0]]
NUMBERS = RNG.normal(size=(ROWS, CLASSES))
RATE, EPOCHS = 0.02, 3


def linear(last: str = "", rows: Any = "n") -> onnx.ModelProto:
    """X W + B, and an activation after it."""
    nodes = [helper.make_node("Gemm", ["X", "W", "B"], ["scores" if last else "Y"])]
    nodes += [helper.make_node(last, ["scores"], ["Y"])] if last else []
    graph = helper.make_graph(nodes, "linear", [helper.make_tensor_value_info("X", TensorProto.FLOAT, [rows, COLUMNS])],
                              [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [rows, CLASSES])],
                              [numpy_helper.from_array(W, "W"), numpy_helper.from_array(B, "B")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def sigmoid(scores: Array) -> Array:
    return 1 / (1 + np.exp(-scores))


# loss, activation, optimizer, targets, and the derivative of the loss by the scores times the number of rows
CASES: list[tuple[str, str, str, Array, Callable[[Array], Array]]] = [
    ("l2_loss", "", "sgd", NUMBERS, lambda scores: scores - NUMBERS),
    ("l1_loss", "", "sgd_momentum", NUMBERS, lambda scores: np.sign(scores - NUMBERS)),
    ("cross_entropy_loss", "Softmax", "adam", CLASS, lambda scores: softmax(scores) - ONE_HOT),
    ("softmax_cross_entropy_loss", "", "adamw", ONE_HOT, lambda scores: softmax(scores) - ONE_HOT),
    ("softmax_cross_entropy_loss", "", "sgd_nesterov", CLASS, lambda scores: softmax(scores) - ONE_HOT),
    ("log_loss", "Sigmoid", "rmsprop", ONE_HOT, lambda scores: sigmoid(scores) - ONE_HOT),
    ("sigmoid_cross_entropy_loss", "", "adagrad", ONE_HOT, lambda scores: sigmoid(scores) - ONE_HOT),
]


@pytest.mark.engine
@pytest.mark.parametrize(("loss", "last", "optimizer", "target", "derivative"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_steps_are_those_of_the_optimizer(
    loss: str, last: str, optimizer: str, target: Array, derivative: Callable[[Array], Array], tmp_path: Path
) -> None:
    script = import_model(linear(last), gradients=["weights"])
    script.save(tmp_path / "model.dml")
    np.savetxt(tmp_path / "X.csv", X, delimiter=",")
    np.savetxt(tmp_path / "target.csv", target, delimiter=",")
    output = run_dml(
        train_text(script, "model", training_of([loss], optimizer)), tmp_path,
        arguments={"X": "X.csv", "target": "target.csv", "batch": str(ROWS), "epochs": str(EPOCHS), "rate": str(RATE)},
    )

    def gradients(weights: Mapping[str, Array]) -> dict[str, Array]:
        scores = derivative(X @ weights["W"] + weights["B"]) / ROWS
        return {"W": X.T @ scores, "B": scores.sum(0, keepdims=True)}

    expected = after_steps(optimizer, {"W": W, "B": B}, gradients, RATE, EPOCHS)  # all rows are one batch
    found = trained_weights(tmp_path / "model_trained.weights", ["B", "W"])
    assert output.count("epoch ") == EPOCHS
    for name, before in (("W", W), ("B", B)):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8, err_msg=name)
        assert abs(expected[name] - before).max() > RATE / 10


@pytest.mark.engine
@pytest.mark.parametrize(("optimizer", "given"), [
    ("sgd", {"schedule": "linear"}), ("adam", {"schedule": "cosine", "weight_decay": "0.3"}),
    ("adamw", {"weight_decay": "0.5"}), ("sgd_momentum", {"clip": "0.05"}), ("sgd", {"clip": "1e6", "weight_decay": "0.1"}),
    ("sgd_nesterov", {"clip": "0.05", "weight_decay": "0.2", "schedule": "linear"}),
], ids=lambda given: "-".join(given) if isinstance(given, dict) else given)
def test_schedules_decay_and_clipping(optimizer: str, given: dict[str, str], tmp_path: Path) -> None:
    """As PyTorch's CosineAnnealingLR, LinearLR, clip_grad_norm_ and weight_decay; decay of the gradient comes after its norm."""
    script = import_model(linear(), gradients=["weights"])
    script.save(tmp_path / "model.dml")
    np.savetxt(tmp_path / "X.csv", X, delimiter=",")
    np.savetxt(tmp_path / "target.csv", NUMBERS, delimiter=",")
    run_dml(train_text(script, "model", training_of(["l2_loss"], optimizer)), tmp_path, arguments={
        "X": "X.csv", "target": "target.csv", "batch": str(ROWS), "epochs": str(EPOCHS), "rate": str(RATE), **given})
    clip, decay = float(given.get("clip", 0)), float(given.get("weight_decay", 0))

    def gradients(weights: Mapping[str, Array]) -> dict[str, Array]:
        scores = (X @ weights["W"] + weights["B"] - NUMBERS) / ROWS
        found = {"W": X.T @ scores, "B": scores.sum(0, keepdims=True)}
        norm = np.sqrt(sum((array**2).sum() for array in found.values()))
        share = min(1, clip / (norm + 1e-6)) if clip else 1
        return {name: share * array + (0 if optimizer == "adamw" else decay * weights[name]) for name, array in found.items()}

    done = np.arange(EPOCHS) / EPOCHS
    shares = {"linear": 1 - done, "cosine": (1 + np.cos(np.pi * done)) / 2}.get(given.get("schedule", ""), np.ones(EPOCHS))
    expected = after_steps(optimizer, {"W": W, "B": B}, gradients, RATE * shares, EPOCHS, decay)
    found = trained_weights(tmp_path / "model_trained.weights", ["B", "W"])
    for name, before in (("W", W), ("B", B)):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8, err_msg=name)
        assert abs(expected[name] - before).max() > RATE / 1000


@pytest.mark.engine
def test_patience_keeps_the_best_epoch(tmp_path: Path) -> None:
    """A rate that is too large: the loss of what is held out grows from an epoch on."""
    script = import_model(linear(), gradients=["weights"])
    script.save(tmp_path / "model.dml")
    np.savetxt(tmp_path / "X.csv", X, delimiter=",")
    np.savetxt(tmp_path / "target.csv", NUMBERS, delimiter=",")
    text = train_text(script, "model", training_of(["l2_loss"], "sgd_momentum"))
    text = text.replace('    of_held = ", held', '    print("W " + toString(t(matrix(as.matrix(now["W"]), rows=12, cols=1)), decimal=9))\n    of_held = ", held', 1)
    output = run_dml(text, tmp_path, arguments={
        "X": "X.csv", "target": "target.csv", "batch": "7", "epochs": "50", "rate": "0.4", "holdout": "0.4", "patience": "3"})
    held = [float(line.split("held out ")[1].split(",")[0]) for line in output.splitlines() if ": loss" in line]
    best = int(np.argmin(held))
    assert best > 0 and len(held) == best + 4 < 50
    assert f"epoch {best + 1} is the best, held out {held[best]}" in output
    weights = [np.array(line.split()[1:], dtype=float) for line in output.splitlines() if line.startswith("W ")]
    found = trained_weights(tmp_path / "model_trained.weights", ["B", "W"])["W"]
    np.testing.assert_allclose(found.ravel(), weights[best], atol=1e-8)
    assert abs(weights[-1] - weights[best]).max() > 1e-3
    for wrong, words in (({"patience": "3"}, "patience is a whole number of epochs"), ({"schedule": "step"}, "schedule is constant, linear or cosine")):
        with pytest.raises(AssertionError, match=words):
            run_dml(text, tmp_path, arguments={"X": "X.csv", "target": "target.csv", "batch": "7", **wrong})


@pytest.mark.engine
def test_samples_in_batches_of_another_order_in_each_epoch(tmp_path: Path) -> None:
    """The last batch is filled up; with a gradient that does not depend on weights, the order makes no difference."""
    script = import_model(linear(), gradients=["B"])
    script.save(tmp_path / "model.dml")
    np.savetxt(tmp_path / "X.csv", X, delimiter=",")
    np.savetxt(tmp_path / "target.csv", 1e6 + np.arange(ROWS * CLASSES).reshape(ROWS, CLASSES), delimiter=",")
    text = train_text(script, "model", training_of(["l1_loss"], "sgd"))
    text = text.replace("      t = t + 1\n", "      t = t + 1\n      print(\"of \" + toString(t(target_batch[, 1])))\n")
    output = run_dml(text, tmp_path, arguments={
        "X": "X.csv", "target": "target.csv", "batch": "5", "epochs": "2", "rate": str(RATE), "trained": "other.weights",
    })
    batches = [np.array(line.split()[1:], dtype=float) for line in output.splitlines() if line.startswith("of ")]
    assert [len(batch) for batch in batches] == [5] * 6 and not np.array_equal(batches[0], batches[3])
    assert all(len(set(np.hstack(epoch))) == ROWS for epoch in (batches[:3], batches[3:]))
    found = trained_weights(tmp_path / "other.weights", ["B", "W"])
    np.testing.assert_allclose(found["B"], B + 6 * RATE, rtol=1e-6)
    np.testing.assert_array_equal(found["W"], W)
    assert not (tmp_path / "model_trained.weights").exists()


@pytest.mark.engine
@pytest.mark.parametrize(("target", "batch", "words"), [
    (np.array([[0.0], [3], [1]]), "3", "target is class numbers from 0 to 2, or has 3 columns"),
    (np.array([[0.0], [-1], [1]]), "3", "target is class numbers from 0 to 2, or has 3 columns"),
    (np.array([[0.0], [np.nan], [1]]), "3", "target is class numbers from 0 to 2, or has 3 columns"),
    (np.array([[0.0, 1], [1, 0], [0, 1]]), "3", "target is class numbers from 0 to 2, or has 3 columns"),
    (np.array([[0.0], [1]]), "3", "target has 2 rows, there are 3 samples"),
    (np.array([[0.0], [1], [2]]), "3", "the loss of epoch 1 is no number"),
    (np.array([[0.0], [1], [2]]), "4", "there are 3 samples, fewer than a batch has; batch=3 makes it smaller"),
], ids=["too large", "negative", "nan", "too few columns", "too few rows", "scores for probabilities", "too large a batch"])
def test_what_cannot_be_trained_on_is_told_and_nothing_is_written(
    target: Array, batch: str, words: str, tmp_path: Path
) -> None:
    script = import_model(linear(), gradients=["weights"])
    script.save(tmp_path / "model.dml")
    np.savetxt(tmp_path / "X.csv", 100 * X[:3], delimiter=",")
    (tmp_path / "target.csv").write_text("".join(f"{','.join(map(str, row))}\n" for row in target).replace("nan", "NaN"))
    text = train_text(script, "model", training_of(["cross_entropy_loss"], "adam"))
    with pytest.raises(AssertionError, match=words):
        run_dml(text, tmp_path, arguments={"X": "X.csv", "target": "target.csv", "batch": batch})
    assert not (tmp_path / "model_trained.weights").exists()


def two_results(first: list[Any], second: list[Any]) -> onnx.ModelProto:
    """Two inputs, two results, and a third one that is not derived."""
    nodes = [helper.make_node("Gemm", ["X", "W", "B"], ["P"]), helper.make_node("Mul", ["epochs", "S"], ["Q"]),
             helper.make_node("ArgMax", ["P"], ["K"], axis=1)]
    infos = [helper.make_tensor_value_info(name, dtype, dims) for name, dtype, dims in (
        ("X", 1, first), ("epochs", 1, second), ("P", 1, None), ("Q", 1, None), ("K", 7, None))]
    graph = helper.make_graph(nodes, "two", infos[:2], infos[2:], [
        numpy_helper.from_array(W, "W"), numpy_helper.from_array(B, "B"),
        numpy_helper.from_array(np.float32([[2, 3]]), "S")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


@pytest.mark.engine
def test_several_inputs_and_results(tmp_path: Path) -> None:
    """An input is called as a variable of the program; the result without a loss has no influence."""
    script = import_model(two_results(["n", COLUMNS], ["n", 2]), gradients=["weights"])
    script.save(tmp_path / "model.dml")
    given = {"X": X, "epochs_2": X[:, :2], "target": X[:, :2] * [4, 1]}
    for name, array in given.items():
        np.savetxt(tmp_path / f"{name}.csv", array, delimiter=",")
    text = train_text(script, "model", training_of(["Q=l2_loss"], "sgd"))
    run_dml(text, tmp_path, arguments={**{name: f"{name}.csv" for name in given}, "epochs": "200", "rate": "0.3", "batch": "12"})
    found = trained_weights(tmp_path / "model_trained.weights", ["B", "S", "W"])
    np.testing.assert_allclose(found["S"], [[4, 1]], atol=1e-6)
    np.testing.assert_array_equal(found["W"], W)

    for name, array in (("P_target", CLASS), ("Q_target", given["target"])):
        np.savetxt(tmp_path / f"{name}.csv", array, delimiter=",")
    both = train_text(script, "model", training_of(["Q=l2_loss", "P=softmax_cross_entropy_loss"], "sgd"))
    names = ["X", "epochs_2", "P_target", "Q_target"]
    output = run_dml(both, tmp_path, arguments={**{name: f"{name}.csv" for name in names}, "epochs": "200", "rate": "0.3", "batch": "12"})
    found = trained_weights(tmp_path / "model_trained.weights", ["B", "S", "W"])
    np.testing.assert_allclose(found["S"], [[4, 1]], atol=1e-6)
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in output.splitlines() if line.startswith("epoch ")]
    assert abs(found["W"] - W).max() > 0.1 and losses[-1] < losses[0] / 2


def tagger() -> onnx.ModelProto:
    """Scores of three classes for each of four places."""
    nodes = [helper.make_node("MatMul", ["X", "W"], ["products"]), helper.make_node("Add", ["products", "B"], ["Y"])]
    infos = [helper.make_tensor_value_info(name, 1, ["n", 4, size]) for name, size in (("X", COLUMNS), ("Y", CLASSES))]
    graph = helper.make_graph(nodes, "tags", infos[:1], infos[1:], [numpy_helper.from_array(W, "W"), numpy_helper.from_array(B, "B")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def painter(*, ends_in_softmax: bool) -> onnx.ModelProto:
    """The same, or their probabilities, of four pixels."""
    nodes = [helper.make_node("Conv", ["X", "W", "B"], ["scores"]),
             helper.make_node("Softmax" if ends_in_softmax else "Identity", ["scores"], ["Y"], **({"axis": 1} if ends_in_softmax else {}))]
    infos = [helper.make_tensor_value_info(name, 1, ["n", size, 2, 2]) for name, size in (("X", COLUMNS), ("Y", CLASSES))]
    weights = [numpy_helper.from_array(np.ascontiguousarray(W.T).reshape(CLASSES, COLUMNS, 1, 1), "W"), numpy_helper.from_array(B.ravel(), "B")]
    return helper.make_model(helper.make_graph(nodes, "pixels", infos[:1], infos[1:], weights),
                             opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


NETWORKS = {"words": (tagger(), "softmax_cross_entropy_loss"), "pixels": (painter(ends_in_softmax=False), "softmax_cross_entropy_loss2d"),
            "probabilities of pixels": (painter(ends_in_softmax=True), "cross_entropy_loss2d")}


@pytest.mark.engine
@pytest.mark.parametrize(("network", "loss_name"), NETWORKS.values(), ids=NETWORKS)
def test_classes_of_places_of_which_some_do_not_count(network: onnx.ModelProto, loss_name: str, tmp_path: Path) -> None:
    tags, words = RNG.integers(0, CLASSES, (ROWS, 4)), RNG.normal(size=(ROWS, 4, COLUMNS))
    tags[1:, 2:] = -100
    script = import_model(network, gradients=["weights"])
    script.save(tmp_path / "model.dml")
    of_pixels = loss_name.endswith("2d")
    np.savetxt(tmp_path / "X.csv", (words.transpose(0, 2, 1) if of_pixels else words).reshape(ROWS, -1), delimiter=",")
    np.savetxt(tmp_path / "target.csv", tags, delimiter=",", fmt="%d")
    text = train_text(script, "model", training_of([loss_name], "adam"))
    arguments = {"X": "X.csv", "target": "target.csv", "batch": str(ROWS), "epochs": str(EPOCHS), "rate": str(RATE)}
    output = run_dml(text, tmp_path, arguments=arguments)
    counts = tags.ravel() >= 0

    def gradients(weights: Mapping[str, Array]) -> dict[str, Array]:
        flat = words.reshape(-1, COLUMNS)[counts]
        scores = (softmax(flat @ weights["W"] + weights["B"]) - np.eye(CLASSES)[tags.ravel()[counts]]) / counts.sum()
        return {"W": flat.T @ scores, "B": scores.sum(0, keepdims=True)}

    expected = after_steps("adam", {"W": W, "B": B}, gradients, RATE, EPOCHS)
    found = trained_weights(tmp_path / "model_trained.weights", ["B", "W"])
    if of_pixels:
        found["W"] = found["W"].reshape(CLASSES, COLUMNS).T
    for name in ("W", "B"):
        np.testing.assert_allclose(found[name].ravel(), expected[name].ravel(), rtol=1e-5, atol=1e-7, err_msg=name)
    flat = words.reshape(-1, COLUMNS)[counts] @ W + B
    loss = -np.log(softmax(flat)[np.arange(counts.sum()), tags.ravel()[counts]]).mean()
    assert abs(float(output.split("epoch 1: loss ")[1].split(",")[0]) - loss) < 1e-6

    for wrong in (tags + (tags == 2), np.where(tags == 0, -1, tags)):
        np.savetxt(tmp_path / "target.csv", wrong, delimiter=",", fmt="%d")
        with pytest.raises(AssertionError, match="target is a class number below 3, or -100, for each of 4 places"):
            run_dml(text, tmp_path, arguments=arguments)


@pytest.mark.engine
def test_columns_of_one_table(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["a", "S"], ["c"]), helper.make_node("Add", ["c", "b"], ["Y"])]
    infos = [helper.make_tensor_value_info(name, 1, ["n", 1]) for name in ("a", "b", "Y")]
    graph = helper.make_graph(nodes, "table", infos[:2], infos[2:], [numpy_helper.from_array(np.float32([[1]]), "S")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    script = import_model(model, gradients=["S"])
    script.save(tmp_path / "model.dml")
    (tmp_path / "table.csv").write_text("x,y\n1,10\n2,20\n3,5\n", encoding="utf-8")
    (tmp_path / "target.csv").write_text("z\n15\n30\n20\n", encoding="utf-8")
    text = train_text(script, "model", training_of(["l2_loss"], "sgd"))
    arguments = {"table": "table.csv", "target": "target.csv", "header": "TRUE", "epochs": "100", "rate": "0.2",
                 "batch": "3"}
    run_dml(text, tmp_path, arguments=arguments)
    np.testing.assert_allclose(trained_weights(tmp_path / "model_trained.weights", ["S"])["S"], [[5]], atol=1e-6)


@pytest.mark.parametrize(("model", "losses", "error", "words"), [
    (linear(), ["l3_loss"], InvalidModel, '"l3_loss" is no loss'),
    (linear(), [], InvalidModel, "there is no loss"),
    (linear(), ["Z=l2_loss"], InvalidModel, '"Z" is no result that has derivatives'),
    (linear(), ["Y=l2_loss", "Y=l1_loss"], InvalidModel, '"Y" has two losses'),
    (linear(rows=4), ["l2_loss"], UnsupportedCase, r'reads rows of samples, "X" has the dims \[4, 4\]'),
    (two_results(["n", COLUMNS], ["n", 2]), ["l2_loss"], InvalidModel, "which result has the l2_loss?"),
    (two_results(["n", COLUMNS], ["m", 2]), ["P=l2_loss"], UnsupportedCase, r"they have \[n, 4\], \[m, 2\]"),
    (two_results(["n", COLUMNS], [2]), ["P=l2_loss"], UnsupportedCase, r'rows of samples, "epochs" has the dims \[2\]'),
])
def test_refusals(model: onnx.ModelProto, losses: list[str], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        train_text(import_model(model, gradients=["weights"]), "model", training_of(losses, "adam"))


@pytest.mark.engine
def test_numbers_of_steps_and_targets_that_there_are_not(tmp_path: Path) -> None:
    import_model(linear("Sigmoid"), gradients=["weights"]).save(tmp_path / "model.dml")
    text = train_text(import_model(linear("Sigmoid"), gradients=["weights"]), "model", training_of(["log_loss"], "sgd"))
    assert "# reads target: for the log_loss of Y, 0 or 1\n" in text
    assert text.count("format=format, header=header, default=NaN, ") == 2  # an empty cell is no 0
    np.savetxt(tmp_path / "X.csv", np.ones((6, COLUMNS)), delimiter=",")
    np.savetxt(tmp_path / "target.csv", np.ones((6, CLASSES)), delimiter=",")
    arguments = {"X": "X.csv", "target": "target.csv", "batch": "6"}
    for name, number in (("epochs", "0"), ("epochs", "-2"), ("batch", "0"), ("batch", "2.5")):
        with pytest.raises(AssertionError, match="epochs and batch are whole numbers from 1 on"):
            run_dml(text, tmp_path, arguments=arguments | {name: number})
    with pytest.raises(AssertionError, match="holdout is a part of 6 samples, not -0.5"):
        run_dml(text, tmp_path, arguments=arguments | {"holdout": "-0.5"})
    assert "epoch 1: loss " in run_dml(text, tmp_path, arguments=arguments | {"epochs": "1"})
    for wrong in (2, -1):
        np.savetxt(tmp_path / "target.csv", np.where(np.arange(6) == 3, wrong, 1)[:, None] * np.ones((1, CLASSES)), delimiter=",")
        with pytest.raises(AssertionError, match="target is 0 or 1, or between, for the log_loss"):
            run_dml(text, tmp_path, arguments=arguments)


def test_classes_are_columns_of_a_matrix() -> None:
    weight = numpy_helper.from_array(np.ones((3, 2, 1, 1), np.float32), "W")
    infos = [helper.make_tensor_value_info(name, 1, ["n", count, 5, 1]) for name, count in (("X", 2), ("Y", 3))]
    graph = helper.make_graph([helper.make_node("Conv", ["X", "W"], ["Y"])], "c", infos[:1], infos[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    script = import_model(model, gradients=["weights"])
    with pytest.raises(UnsupportedCase, match=r'last of two or more are classes, "Y" has the dims \[n, 3, 5, 1\]') as caught:
        train_text(script, "model", training_of(["softmax_cross_entropy_loss"], "adam"))
    assert caught.value.hint == "of channels it is softmax_cross_entropy_loss2d"
    with pytest.raises(UnsupportedCase, match=r'second of three or more are classes, "Y" has the dims \[n, 3\]'):
        train_text(import_model(linear(), gradients=["weights"]), "model", training_of(["cross_entropy_loss2d"], "adam"))
    assert "(ncol(target) != 15)" in train_text(script, "model", training_of(["l2_loss"], "adam"))


def test_the_command_writes_the_program_beside_the_script(tmp_path: Path) -> None:
    onnx.save(linear("Softmax"), tmp_path / "m.onnx")
    done = invoke(tmp_path / "m.onnx", "--train", "cross_entropy_loss", "--optimizer", "sgd")
    assert done.exit_code == 0 and "m_train.dml trains it" in done.output
    program = (tmp_path / "m_train.dml").read_text(encoding="utf-8")
    assert "sgd::update(parameters, gradient, rate)" in program and 'source("m.dml") as model' in program
    assert invoke(tmp_path / "m.onnx", "--train", "cross_entropy_loss", "--gradient", "B").exit_code == 0
    assert "a column of weights: B\n" in (tmp_path / "m.dml").read_text(encoding="utf-8")
    both = invoke(tmp_path / "m.onnx", "--train", "cross_entropy_loss", "--score")
    assert both.exit_code == 0 and "m_score.dml scores files with it" in both.output

    onnx.save(two_results(["n", COLUMNS], ["m", 2]), tmp_path / "two.onnx")  # a sample is a row of each, whatever their names
    done = invoke(tmp_path / "two.onnx", "--train", "Q=l2_loss")
    assert done.exit_code == 0 and "_forward" not in done.output

    (tmp_path / "m_train.dml").write_text("print(1)", encoding="utf-8")
    refused = invoke(tmp_path / "m.onnx", "--train", "cross_entropy_loss")
    assert refused.exit_code == 1 and "--train did not write it" in refused.output
    assert (tmp_path / "m_train.dml").read_text(encoding="utf-8") == "print(1)"


@pytest.mark.parametrize(("words", "told"), [
    (["--train", "softmax_cross_entropy_loss"], '"Y" comes after a Softmax, softmax_cross_entropy_loss takes scores'),
    (["--train", "loss"], '"loss" is no loss'),
    (["--train", "Y=l2_loss", "--gradient", "X"], "no weights to train"),
])
def test_the_command_refuses(words: list[str], told: str, tmp_path: Path) -> None:
    onnx.save(linear("Softmax"), tmp_path / "m.onnx")
    refused = invoke(tmp_path / "m.onnx", *words)
    assert refused.exit_code == 1 and told in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@needs_models
def test_the_derivative_is_exported(tmp_path: Path) -> None:
    """onnxruntime's numbers against differences of the loss that it gives."""
    assert MODELS is not None
    model = load_model(MODELS / "generated" / "bert_tiny.dynamo.onnx")
    script = import_model(model, gradients=["weights"], dims={"s12": 8}, types=common_rows(model, {}, is_table=True))
    script.save(tmp_path / "model.dml")
    (tmp_path / "program.dml").write_text(train_text(script, "model", training_of(["pooled=l2_loss"], "adam")))
    assert script.derivatives is not None
    count = sum(weight.array.size for weight in script.weights if weight.name in script.derivatives.weights)
    inputs = {"input_ids": "double[N,8]", "attention_mask": "double[N,8]", "target": "double[N,32]",
              "parameters": f"double[{count},1]"}
    exported = export_script(tmp_path / "program.dml", "derivative", inputs=inputs, dtype="float64")
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    given = {"input_ids": RNG.integers(0, 50, (3, 8)).astype(float), "attention_mask": np.ones((3, 8)),
             "target": RNG.normal(size=(3, 32)), "parameters": 0.1 * RNG.normal(size=(count, 1))}
    direction = RNG.normal(size=(count, 1))
    gradient, _ = session.run(["gradient", "loss"], given)
    up, down = (session.run(["loss"], {**given, "parameters": given["parameters"] + sign * 1e-5 * direction})[0]
                for sign in (1, -1))
    assert (gradient * direction).sum() == pytest.approx((up - down) / 2e-5, rel=1e-4)
