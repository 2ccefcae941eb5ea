"""Programs that train do so with samples at federated sites, in the same steps as with all samples in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.exporting.trained_model import trained_model
from onnx_systemds.importing.optimizers import OPTIMIZERS
from onnx_systemds.importing.script import Script
from onnx_systemds.importing.train_program import train_text, training_of
from tests.command_line import run_dml
from tests.importing import test_batch_statistics as norms
from tests.scale.sites import at_sites, two_workers
from tests.trained_files import Array, after_steps, trained_weights

Ports = tuple[int, int]
ROWS, FIRST, RATE, EPOCHS = 12, 4, 0.05, 3
RNG = np.random.default_rng(3)
X, TARGET = RNG.normal(size=(ROWS, 5)), RNG.integers(0, 3, (ROWS, 1))
WEIGHTS = {"A": RNG.normal(size=(3, 3)), "B": RNG.normal(size=(2, 3)), "C": RNG.normal(size=(1, 3))}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with two_workers(tmp_path_factory.mktemp("workers")) as found:
        yield found


def two_inputs() -> onnx.ModelProto:
    """scores = P A + Q B + C"""
    nodes = [helper.make_node("MatMul", ["P", "A"], ["left"]), helper.make_node("Gemm", ["Q", "B", "C"], ["right"]),
             helper.make_node("Add", ["left", "right"], ["scores"])]
    infos = [helper.make_tensor_value_info(name, 1, dims) for name, dims in (
        ("P", ["n", 3]), ("Q", ["n", 2]), ("scores", ["n", 3]))]
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in WEIGHTS.items()]
    graph = helper.make_graph(nodes, "two", infos[:2], infos[2:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def one_input() -> onnx.ModelProto:
    """scores = X A + C"""
    node = helper.make_node("Gemm", ["X", "A", "C"], ["scores"])
    infos = [helper.make_tensor_value_info(name, 1, dims) for name, dims in (("X", ["n", 5]), ("scores", ["n", 3]))]
    weights = [numpy_helper.from_array(array, name) for name, array in (
        ("A", np.vstack([WEIGHTS["A"], WEIGHTS["B"]]).astype(np.float32)), ("C", WEIGHTS["C"].astype(np.float32)))]
    graph = helper.make_graph([node], "one", infos[:1], infos[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def softmax_gradient(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray((powers / powers.sum(1, keepdims=True) - np.eye(3)[TARGET[:, 0]]) / ROWS)


@pytest.mark.parametrize("trained", ["all", "one", "all, at lower rates"])
def test_a_step_is_that_of_all_samples_together(trained: str, ports: Ports, tmp_path: Path) -> None:
    """Sites of different numbers of rows; weights that are not trained go to them, too."""
    script = import_model(two_inputs(), gradients=["B"] if trained == "one" else ["weights"], weights="files")
    is_lower = trained.endswith("rates")
    output = _trained(script, ports, tmp_path, table="yes", **({"schedule": "linear"} if is_lower else {}))
    start = {name: array.astype(np.float32).astype(float) for name, array in WEIGHTS.items()}

    def gradients(weights: Mapping[str, Array]) -> dict[str, Array]:
        scores = softmax_gradient(X[:, :3] @ weights["A"] + X[:, 3:] @ weights["B"] + weights["C"])
        every = {"A": X[:, :3].T @ scores, "B": X[:, 3:].T @ scores, "C": scores.sum(0, keepdims=True)}
        return {name: gradient for name, gradient in every.items() if trained != "one" or name == "B"}

    rates = RATE * (1 - np.arange(EPOCHS) / EPOCHS) if is_lower else RATE
    expected = after_steps("adam", start, gradients, rates, EPOCHS)
    found = trained_weights(tmp_path / "model_trained.weights", ["A", "B", "C"])
    assert output.count("epoch ") == EPOCHS
    for name in WEIGHTS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "adam"])
def test_steps_of_other_optimizers(optimizer: str, ports: Ports, tmp_path: Path) -> None:
    """Their functions are short, and the engine puts them into the one that calls them (engine fault scalar-of-item)."""
    script = import_model(one_input(), gradients=["weights"])
    _trained(script, ports, tmp_path, optimizer=optimizer, schedule="linear")
    a = np.vstack([WEIGHTS["A"], WEIGHTS["B"]]).astype(np.float32).astype(float)

    def gradients(weights: Mapping[str, Array]) -> dict[str, Array]:
        scores = softmax_gradient(X @ weights["A"] + weights["C"])
        return {"A": X.T @ scores, "C": scores.sum(0, keepdims=True)}

    rates, start = RATE * (1 - np.arange(EPOCHS) / EPOCHS), {"A": a, "C": WEIGHTS["C"].astype(np.float32)}
    expected = after_steps(optimizer, start, gradients, rates, EPOCHS)
    found = trained_weights(tmp_path / "model_trained.weights", ["A", "C"])
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8, err_msg=name)


def test_a_target_that_is_no_class_is_told_before_sites_train(ports: Ports, tmp_path: Path) -> None:
    script = import_model(one_input(), gradients=["weights"])
    with pytest.raises(AssertionError, match="target is class numbers from 0 to 2, or has 3 columns"):
        _trained(script, ports, tmp_path, target=TARGET + 1)
    with pytest.raises(AssertionError, match="X has 4 columns, not 5"):
        _trained(script, ports, tmp_path, samples=X[:, 1:])
    with pytest.raises(AssertionError, match="the files of target at the sites have 14 rows, their ranges say 12"):
        _trained(script, ports, tmp_path, more=2)
    assert not (tmp_path / "model_trained.weights").exists()
    _trained(script, ports, tmp_path)


def test_sites_that_fail_are_told(ports: Ports, tmp_path: Path) -> None:
    """All of them: with some of them the engine waits for the others for ever."""
    script = import_model(two_inputs(), gradients=["weights"])
    text = train_text(script, "model", training_of(["softmax_cross_entropy_loss"], "adam"))
    failing = text.replace("  P = features[, 1:3]", '  if (nrow(features) > 0) { stop("no") }\n  P = features[, 1:3]')
    assert failing != text
    with pytest.raises(AssertionError, match="the sites have trained on 0.0 of 12 samples"):
        _run(script, failing, ports, tmp_path, X, TARGET, table="yes")
    assert not (tmp_path / "model_trained.weights").exists()


def two_results(sizes: str = "3") -> onnx.ModelProto:
    """scores = X A + C, other = -scores; or results of open sizes."""
    model = one_input()
    model.graph.node.append(helper.make_node("Neg", ["scores"], ["other"]))
    model.graph.output.append(helper.make_tensor_value_info("other", 1, None))
    if sizes == "open":
        del model.graph.node[0], model.graph.initializer[0], model.graph.output[0], model.graph.input[0]
        model.graph.node.insert(0, helper.make_node("Add", ["X", "C"], ["scores"]))
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((1, 1), np.float32), "C"))
        model.graph.input.append(helper.make_tensor_value_info("X", 1, ["n", "s"]))
        model.graph.output.append(helper.make_tensor_value_info("scores", 1, None))
    return model


def test_targets_are_side_by_side(ports: Ports, tmp_path: Path) -> None:
    """Class numbers are one column of them."""
    script, others = import_model(two_results(), gradients=["weights"]), RNG.normal(size=(ROWS, 3))
    text = train_text(script, "model", training_of(["other=l2_loss", "scores=softmax_cross_entropy_loss"], "adam"))
    first, last = text.split("\n  targets = read(")
    targets = np.hstack([others, TARGET])
    text = at_sites(first, X, FIRST, ports, tmp_path, start="X_of_two") + at_sites(
        f"\n  targets = read({last}", targets, FIRST, ports, tmp_path, start="targets")
    script.save(tmp_path / "model.dml")
    arguments = {"format": "federated", "targets": "yes", "batch": str(ROWS), "epochs": str(EPOCHS), "rate": str(RATE)}
    run_dml(text, tmp_path, arguments=arguments)
    a = np.vstack([WEIGHTS["A"], WEIGHTS["B"]]).astype(np.float32).astype(float)
    start = {"A": a, "C": WEIGHTS["C"].astype(np.float32).astype(float)}

    def gradients(weights: Mapping[str, Array]) -> dict[str, Array]:
        scores = X @ weights["A"] + weights["C"]
        both = softmax_gradient(scores) + (scores + others) / ROWS
        return {"A": X.T @ both, "C": both.sum(0, keepdims=True)}

    expected = after_steps("adam", start, gradients, RATE, EPOCHS)
    found = trained_weights(tmp_path / "model_trained.weights", ["A", "C"])
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8, err_msg=name)


def test_sites_move_statistics_by_their_own_samples(ports: Ports, tmp_path: Path) -> None:
    """Each normalizes by these; what they move is put together in the share of their samples."""
    script = import_model(norms.network(), gradients=["weights"])
    start = {name: array.astype(float) for name, array in norms.WEIGHTS.items()}
    statistics = {name: start.pop(name) for name in norms.STATISTICS}
    rows = [slice(FIRST), slice(FIRST, None)]
    shares = [len(norms.X[at]) / norms.ROWS for at in rows]

    def gradients(weights: Mapping[str, Array]) -> dict[str, Array]:
        own = {**weights, **statistics}
        found = [norms.gradients(own, norms.X[at], norms.TARGET[at]) for at in rows]
        moved = [norms.results(own, norms.X[at], trains=True)[1] for at in rows]
        statistics.update(_mean(moved, shares))
        return _mean(found, shares)

    expected = {**after_steps("adam", start, gradients, RATE, EPOCHS), **statistics}
    text = train_text(script, "model", training_of(["l2_loss"], "adam"))
    _run(script, text, ports, tmp_path, norms.X.reshape(norms.ROWS, -1), norms.TARGET, "")
    model = trained_model(norms.network(), script, tmp_path / "model_trained.weights")
    found = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6, err_msg=name)


def test_a_batch_of_one_sample_at_a_site_is_told(ports: Ports, tmp_path: Path) -> None:
    """A batch normalization makes 0 of it."""
    script = import_model(norms.network(), gradients=["weights"])
    text = train_text(script, "model", training_of(["l2_loss"], "adam"))
    samples = norms.X.reshape(norms.ROWS, -1)
    with pytest.raises(AssertionError, match="epoch 1 is no number; .* at a site a batch has more than one sample"):
        _run(script, text, ports, tmp_path, samples, norms.TARGET, "", first=1)


def _mean(parts: Sequence[Mapping[str, Array]], shares: Sequence[float]) -> dict[str, Array]:
    """Of arrays by name, some of which count more."""
    return {name: np.asarray(sum(part[name] * share for part, share in zip(parts, shares))) for name in parts[0]}


def test_samples_that_cannot_stay_at_their_sites(ports: Ports, tmp_path: Path) -> None:
    script = import_model(two_results("open"), gradients=["weights", "C"])
    text = train_text(script, "model", training_of(["scores=l2_loss", "other=l2_loss"], "adam"))
    script.save(tmp_path / "model.dml")
    for name in ("X", "scores_target", "other_target"):
        text = at_sites(text, X, FIRST, ports, tmp_path, start=name)
    told = "samples would leave their sites: the columns of all targets side by side do not tell those of"
    with pytest.raises(AssertionError, match=f'{told} "scores_target", "other_target"'):
        run_dml(text, tmp_path, arguments={"format": "federated"})


def _trained(
    script: Script, ports: Ports, folder: Path, samples: Array = X, target: Array = TARGET, table: str = "",
    optimizer: str = "adam", more: int = 0, **arguments: str,
) -> str:
    """Train with some rows at one site and more at another one; what the engine prints."""
    text = train_text(script, "model", training_of(["softmax_cross_entropy_loss"], optimizer))
    return _run(script, text, ports, folder, samples, target, table, more, **arguments)


def _run(
    script: Script, text: str, ports: Ports, folder: Path, samples: Array, target: Array, table: str,
    left_out: int = 0, first: int = FIRST, **more: str,
) -> str:
    script.save(folder / "model.dml")
    inputs, targets = text.split("target = read(", 1)
    inputs = at_sites(inputs, samples, first, ports, folder, start=f"X{len(samples[0])}_{first}_")
    start = f"target{target.sum()}_{left_out}_{first}_"
    targets = at_sites(f"target = read({targets}", target.astype(float), first, ports, folder, start, left_out)
    arguments = {"format": "federated", "batch": str(ROWS), "epochs": str(EPOCHS), "rate": str(RATE), **more}
    return run_dml(inputs + targets, folder, arguments=arguments | ({"table": table} if table else {}))
