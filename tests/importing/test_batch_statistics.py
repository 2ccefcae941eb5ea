"""BatchNormalizations that train: steps normalize by the batch and move the statistics, by which others infer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.exporting.trained_model import trained_model
from onnx_systemds.importing.train_program import train_text, training_of
from onnx_systemds.importing.trained_results import check_trainable
from onnx_systemds.model.load import load_model
from tests.command_line import run_dml
from tests.invoking import invoke
from tests.trained_files import Array, after_steps

ROWS, EPOCHS, RATE, EPSILON = 8, 4, 0.02, 1e-3
MOMENTA = {"a": 0.75, "b": 0.5, "c": 0.625}
RNG = np.random.default_rng(4)
X, TARGET = RNG.normal(1, 2, size=(ROWS, 2, 3, 3)), RNG.normal(size=(ROWS, 3))
WEIGHTS = {"filters": RNG.normal(size=(3, 2, 2, 2)), "W": RNG.normal(size=(12, 4)), "V": RNG.normal(size=(4, 3))} | {
    f"{norm}_{name}": RNG.uniform(0.5, 1.5, size)
    for norm, size in (("a", 3), ("b", 4), ("c", 4)) for name in ("scale", "shift", "mean", "variance")}
WEIGHTS = {name: array.astype(np.float32) for name, array in WEIGHTS.items()}
STATISTICS = [name for name in WEIGHTS if name.endswith(("_mean", "_variance"))]


def norm(name: str, x: str, y: str, opset: int, **attributes: Any) -> onnx.NodeProto:
    """One that trains, in the form of its opset."""
    mode = {"training_mode": 1} if opset >= 14 else {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
    results = [y, f"{y}_mean", f"{y}_variance", *([] if opset >= 14 else [f"{y}_saved_mean", f"{y}_saved_variance"])]
    given = [x, *(f"{name}_{each}" for each in ("scale", "shift", "mean", "variance"))]
    return helper.make_node("BatchNormalization", given, results, y, epsilon=EPSILON, momentum=MOMENTA[name], **mode | attributes)


def network(opset: int = 17, last: str = "Tanh") -> onnx.ModelProto:
    """Images and rows are normalized, the latter by another momentum; two layers share what they move."""
    nodes = [helper.make_node("Conv", ["X", "filters"], ["images"]), norm("a", "images", "na", opset),
             helper.make_node("Relu", ["na"], ["activated"]), helper.make_node("Flatten", ["activated"], ["rows"]),
             helper.make_node("MatMul", ["rows", "W"], ["h"]), norm("b", "h", "nb", opset), helper.make_node(last, ["nb"], ["t"]),
             norm("c", "t", "nc", opset), helper.make_node("Sigmoid", ["nc"], ["s"]), norm("c", "s", "nd", opset),
             helper.make_node("MatMul", ["nd", "V"], ["Y"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("X", ["n", 2, 3, 3]), ("Y", ["n", 3]))]
    weights = [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()]
    return helper.make_model(helper.make_graph(nodes, "net", infos[:1], infos[1:], weights),
                             opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def results(w: Mapping[str, Array], x: Array, *, trains: bool) -> tuple[Array, dict[str, Array]]:
    """What the network gives, and its statistics after that."""
    moved = {name: w[name] for name in STATISTICS}

    def normalized(name: str, values: Array) -> Array:
        axes = (0, *range(2, values.ndim))
        mean, variance = moved[f"{name}_mean"], moved[f"{name}_variance"]
        if trains:
            share, mean = 1 - MOMENTA[name], values.mean(axes)
            variance = ((values - values.mean(axes, keepdims=True)) ** 2).mean(axes)
            for each, of_batch in ((f"{name}_mean", mean), (f"{name}_variance", variance)):
                moved[each] = MOMENTA[name] * moved[each] + share * of_batch
        scale, shift, mean, variance = (each.reshape(-1, *[1] * (values.ndim - 2))
                                        for each in (w[f"{name}_scale"], w[f"{name}_shift"], mean, variance))
        return np.asarray((values - mean) / np.sqrt(variance + EPSILON) * scale + shift)

    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    images = np.einsum("nchwij,fcij->nfhw", windows, w["filters"])
    activated = normalized("a", images)
    h = np.where(activated.real > 0, activated, 0).reshape(len(x), -1) @ w["W"]
    t = normalized("c", np.tanh(normalized("b", h)))
    return normalized("c", 1 / (1 + np.exp(-t))) @ w["V"], moved


def loss(w: Mapping[str, Array], x: Array, target: Array, *, trains: bool) -> Any:
    return ((results(w, x, trains=trains)[0] - target) ** 2).sum() / 2 / len(x)


def gradients(w: Mapping[str, Array], x: Array, target: Array) -> dict[str, Array]:
    """The derivatives by all weights but the statistics, by steps along the imaginary axis."""
    found = {name: np.zeros_like(array) for name, array in w.items() if name not in STATISTICS}
    for name, derivative in found.items():
        for at in np.ndindex(derivative.shape):
            step = np.zeros(derivative.shape, complex)
            step[at] = 1e-20j
            derivative[at] = loss({**w, name: w[name] + step}, x, target, trains=True).imag / 1e-20
    return found


def after_training(x: Array, target: Array, optimizer: str) -> dict[str, Array]:
    """Weights and statistics after a step in each epoch."""
    statistics = {name: WEIGHTS[name].astype(float) for name in STATISTICS}

    def of_step(weights: Mapping[str, Array]) -> dict[str, Array]:
        own = {**weights, **statistics}
        statistics.update(results(own, x, trains=True)[1])
        return gradients(own, x, target)

    others = {name: array for name, array in WEIGHTS.items() if name not in STATISTICS}
    return {**after_steps(optimizer, others, of_step, RATE, EPOCHS), **statistics}


def trained(model: onnx.ModelProto, optimizer: str, folder: Path, **arguments: str) -> tuple[str, onnx.ModelProto]:
    """What the program printed, and the model that it trained."""
    script = import_model(model, gradients=["weights"])
    script.save(folder / "model.dml")
    np.savetxt(folder / "X.csv", X.reshape(ROWS, -1), delimiter=",")
    np.savetxt(folder / "target.csv", TARGET, delimiter=",")
    text = train_text(script, "model", training_of(["l2_loss"], optimizer))
    text = text.replace("held_total = 0\n", 'held_total = 0\n    print("target " + sum(target_held))\n')
    given = {"X": "X.csv", "target": "target.csv", "batch": str(ROWS), "epochs": str(EPOCHS), "rate": str(RATE)}
    output = run_dml(text, folder, arguments=given | arguments)
    return output, trained_model(model, script, folder / "model_trained.weights")


@pytest.mark.engine
@pytest.mark.parametrize(("opset", "optimizer"), [(17, "sgd"), (17, "adamw"), (9, "sgd"), (6, "sgd")])
def test_steps_normalize_by_the_batch_and_move_the_statistics(opset: int, optimizer: str, tmp_path: Path) -> None:
    """A step that decays weights leaves the statistics alone; the trained model infers by these."""
    output, model = trained(network(opset), optimizer, tmp_path)
    found = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    expected = after_training(X, TARGET, optimizer)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-7, err_msg=name)
        assert abs(array - WEIGHTS[name]).max() > 1e-3
    first = loss({name: array.astype(float) for name, array in WEIGHTS.items()}, X, TARGET, trains=True)
    assert float(output.split("epoch 1: loss ")[1].split(",")[0]) == pytest.approx(first, rel=1e-9)
    if opset > 6:  # the lowest one of onnxruntime is 7
        got, = onnxruntime.InferenceSession(model.SerializeToString()).run(["Y"], {"X": X.astype(np.float32)})
        np.testing.assert_allclose(got, results(expected, X, trains=False)[0], rtol=1e-4, atol=1e-5)
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.engine
def test_samples_that_are_held_out_are_normalized_by_the_statistics(tmp_path: Path) -> None:
    output, model = trained(network(), "adam", tmp_path, batch="7", holdout="0.125")
    weights = {each.name: numpy_helper.to_array(each).astype(float) for each in model.graph.initializer}
    row = int(np.argmin(abs(TARGET.sum(1) - float(re.findall(r"target (\S+)", output)[0]))))
    told = float(re.findall(r"held out (\S+),", output)[-1])
    assert told == pytest.approx(loss(weights, X[row : row + 1], TARGET[row : row + 1], trains=False), rel=1e-4)


@pytest.mark.engine
def test_batches_of_one_row(tmp_path: Path) -> None:
    """Of one image a normalization has several numbers, of one row a single one."""
    with pytest.raises(AssertionError, match="model_train.dml: a batch normalization makes 0 of the numbers of a single sample"):
        trained(network(), "sgd", tmp_path, batch="1")
    model = one()
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 3]))
    for each, compares in ((model, False), (one(), True)):
        script = import_model(each, gradients=["weights"])
        assert script.derivatives is not None and script.derivatives.compares_rows is compares


@pytest.mark.engine
def test_the_commands_tell_what_batches_move(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    np.savez(tmp_path / "rows.npz", X=X.astype(np.float32), target=TARGET)
    told = ', '.join(f'"{name}"' for name in STATISTICS)
    done = invoke("train", tmp_path / "net.onnx", "--input", tmp_path / "rows.npz", "--target", "target", "--loss", "l2_loss",
                  "--epochs", "1", "-o", tmp_path / "new.onnx")
    assert done.exit_code == 0 and f"batches move 6 statistics: {told}\n" in done.output
    moved = {each.name: numpy_helper.to_array(each) for each in onnx.load(tmp_path / "new.onnx").graph.initializer}
    assert all((moved[name] != WEIGHTS[name]).any() for name in STATISTICS)
    assert invoke(tmp_path / "net.onnx", "--train", "l2_loss", "--function-name", "net").exit_code == 0
    done = invoke("trained", tmp_path / "net.onnx", tmp_path / "net.weights", "-o", tmp_path / "same.onnx")
    assert done.exit_code == 0 and "9 weights and 6 statistics of " in done.output


def one(*, norm_inputs: str = "x s b m v", outputs: str = "h", opset: int = 17, others: tuple[onnx.NodeProto, ...] = (),
        given: tuple[str, ...] = (), results: tuple[str, ...] = ("y",), in_function: bool = False, **attributes: Any) -> onnx.ModelProto:
    """A normalization, and weights of the sum that is the result."""
    mode = {"training_mode": 1} if opset >= 14 else {}
    nodes = [helper.make_node("BatchNormalization", norm_inputs.split(), outputs.split(), "norm", **mode | attributes)]
    imports, functions = [helper.make_opsetid("", opset)], []
    if in_function:
        functions = [helper.make_function("own", "Normal", norm_inputs.split(), ["h"], nodes, imports)]
        nodes, imports = [helper.make_node("Normal", norm_inputs.split(), ["h"], domain="own")], [*imports, helper.make_opsetid("own", 1)]
    nodes += [*others, helper.make_node("MatMul", ["h", "w"], ["y"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
             for name, dims in [("x", ["n", 3]), *((name, [3]) for name in given), *((name, None) for name in results)]]
    count = 1 + len(given)
    weights = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in "sbmv" if name not in given]
    weights.append(numpy_helper.from_array(np.ones((3, 2), np.float32), "w"))
    graph = helper.make_graph(nodes, "net", infos[:count], infos[count:], weights)
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)


LEFT = {
    "statistics are results": (one(outputs="h new old", results=("y", "new")), '"new" is read'),
    "statistics are read": (one(outputs="h new old", others=(helper.make_node("Neg", ["new"], ["z"]),), results=("y", "z")), '"new" is read'),
    "statistics are an input": (one(given=("v",)), "they are no initializers"),
    "one that infers has them, too": (one(others=(helper.make_node("BatchNormalization", ["x", *"sbmv"], ["z"]),), results=("y", "z")),
                                      '"m" is read as something else, too'),
    "the bias is the mean": (one(norm_inputs="x s m m v"), '"m" is read as something else, too'),
    "both are one": (one(norm_inputs="x s b m m"), '"m" is read as something else, too'),
    "in a function": (one(in_function=True), "it stands in a sub-graph or function"),
    "of elements": (one(opset=7, outputs="h a c d e", spatial=0), "they are not one number for each channel"),
}


@pytest.mark.parametrize(("model", "reason"), LEFT.values(), ids=LEFT)
def test_statistics_that_nothing_keeps(model: onnx.ModelProto, reason: str) -> None:
    losses = training_of(["l2_loss"], "sgd").losses
    with pytest.raises(UnsupportedCase, match=f'"norm" .BatchNormalization. normalizes by batches, .*: {re.escape(reason)}'):
        check_trainable(losses, load_model(model))
    check_trainable(losses, load_model(one()))
    check_trainable(losses, load_model(one(opset=9)))  # without further outputs it infers


def test_what_infers_and_what_trains() -> None:
    script = import_model(one(), gradients=["weights"])
    assert script.derivatives is not None
    assert [*script.derivatives.statistics.values()] == ["m", "v"] and script.derivatives.moved == ("statistics", "new_statistics")
    assert sorted(script.derivatives.weights.values()) == ["b", "s", "w"]
    main, forward = (script.text.split(f"\n{name} = function", 1)[1].split("\n}", 1)[0] for name in ("gen_net", "gen_net_forward"))
    assert "mean = matrix(1, rows=1, cols=n)" in forward and "mean = matrix(1, rows=1, cols=n)" not in main
    assert "batches move" not in import_model(one(), gradients=["inputs"]).text
    assert "cols=n) %*% x / n" in import_model(one()).text  # without derivatives the script does what the model says
    of_inputs = import_model(one(), gradients=["inputs"])
    assert of_inputs.derivatives is not None and not of_inputs.derivatives.statistics and len(of_inputs.inputs) == 1


@pytest.mark.parametrize("options", [{"gradients": ["m"]}, {"gradients": ["weights"], "fixed": ["v"]}], ids=["trained", "fixed"])
def test_statistics_that_follow_the_batches_are_nothing_else(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidModel, match='"[mv]" follows the batches, as its BatchNormalization trains'):
        import_model(one(), **options)


def test_types_of_their_own_and_names_that_are_taken() -> None:
    """Statistics in double precision of numbers in single precision; values that are called as what is made."""
    model = one(norm_inputs="x s b statistics new_statistics")
    model.graph.initializer.extend([numpy_helper.from_array(np.ones(3), name) for name in ("statistics", "new_statistics")])
    script = import_model(model, gradients=["weights"])
    assert script.derivatives is not None
    assert [*script.derivatives.statistics.values()] == ["statistics", "new_statistics"]
    taken, given = script.derivatives.moved
    assert taken in script.derivatives.forward.parameters and given in script.derivatives.forward.results
