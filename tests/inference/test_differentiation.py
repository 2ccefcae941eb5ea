"""Gradient: networks, derivatives of derivatives, refusals; the rules themselves in tests/operators/test_derivatives.py."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import differences, gradient, info, model_of, near
from tests.operators.harness import Array

PERCEPTRON = [
    helper.make_node("Gemm", ["x", "w1", "b1"], ["h1"]), helper.make_node("Tanh", ["h1"], ["h2"]),
    helper.make_node("MatMul", ["h2", "w2"], ["scores"]), helper.make_node("LogSoftmax", ["scores"], ["logs"]),
    helper.make_node("Mul", ["logs", "target"], ["picked"]), helper.make_node("ReduceSum", ["picked"], ["y"], keepdims=0),
]


def perceptron(batch: int) -> dict[str, Array]:
    return {"x": near(batch, 3), "w1": near(3, 4), "b1": near(4), "w2": near(4, 2), "target": near(batch, 2, seed=3)}


def test_symbolic_batch() -> None:
    """A network with two layers, one script for two batch sizes; inputs other than xs and zs are constants."""
    xs = ["w1", "b1", "w2"]
    nodes = [*PERCEPTRON, gradient([*xs, "x", "target"], ["d_w1", "", "d_w2"], "y", xs, ["x", "target"])]
    dims = {"x": ["batch", 3], "target": ["batch", 2]}
    feeds = perceptron(2)
    forward = model_of(PERCEPTRON, feeds, ["y"], 18)
    with ScoringFunction(import_model(model_of(nodes, feeds, ["d_w1", "d_w2"], 18, dims=dims))) as function:
        for feeds in (perceptron(2), perceptron(5)):
            for name, found in function(feeds).items():
                np.testing.assert_allclose(found, differences(forward, feeds, name[2:]), rtol=1e-4, atol=1e-7)


def test_groups_of_a_transposed_convolution() -> None:
    """ONNX's reference does not know groups, so they are taken apart for it."""
    feeds = {"x": near(2, 4, 3, 2), "w": near(4, 2, 2, 2, seed=1), "g": near(2, 4, 6, 3, seed=2)}
    end = [helper.make_node("Mul", ["h", "g"], ["p"]), helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0)]
    parts = [
        helper.make_node("Split", ["x"], ["x0", "x1"], axis=1, num_outputs=2),
        helper.make_node("Split", ["w"], ["w0", "w1"], axis=0, num_outputs=2),
        *[helper.make_node("ConvTranspose", [f"x{i}", f"w{i}"], [f"h{i}"], strides=[2, 1]) for i in (0, 1)],
        helper.make_node("Concat", ["h0", "h1"], ["h"], axis=1),
    ]
    whole = helper.make_node("ConvTranspose", ["x", "w"], ["h"], strides=[2, 1], group=2)
    node = gradient(["x", "w", "g"], ["d_x", "d_w"], "y", ["x", "w"], ["g"])
    forward = model_of([*parts, *end], feeds, ["y"], 18)
    with ScoringFunction(import_model(model_of([whole, *end, node], feeds, ["d_x", "d_w"], 18))) as function:
        for name, found in function(feeds).items():
            np.testing.assert_allclose(found, differences(forward, feeds, name[2:]), rtol=1e-4, atol=1e-7)


WITH_WHAT_GOES_AWAY = {
    "a weight that a scale would go into": (
        [
            helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Mul", ["c", "s"], ["p"]),
            helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0),
        ], {"x": near(2, 1, 4, 4), "w": near(1, 1, 2, 2), "s": near(1)}, "w"),
    "between Transposes that would vanish": (
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("Cast", ["t"], ["w"], to=11),
            helper.make_node("Sin", ["w"], ["r"]), helper.make_node("Transpose", ["r"], ["u"], perm=[0, 2, 1]),
            helper.make_node("ReduceSum", ["u"], ["y"], keepdims=0),
        ], {"x": near(2, 3, 4)}, "w"),
}


@pytest.mark.parametrize(("nodes", "feeds", "by"), WITH_WHAT_GOES_AWAY.values(), ids=WITH_WHAT_GOES_AWAY)
@pytest.mark.parametrize("is_constant", [True, False], ids=["constants", "inputs"])
def test_a_model_is_not_simplified(
    nodes: list[onnx.NodeProto], feeds: dict[str, Array], by: str, is_constant: bool
) -> None:
    model = model_of([*nodes, gradient([by], ["d"], "y", [by], [])], feeds, ["d"], 18)
    if is_constant:
        constants = [given for given in model.graph.input if given.name != "x"]
        model.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[given.name], given.name) for given in constants)
        for given in constants:
            model.graph.input.remove(given)
    with ScoringFunction(import_model(model)) as function:
        found = function({name: feeds[name] for name in (given.name for given in model.graph.input)})["d"]
    expected = differences(model_of(nodes, feeds, ["y"], 18), feeds, by) if by in feeds else np.cos(feeds["x"]).swapaxes(1, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_derivative_of_a_derivative() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]), helper.make_node("Sin", ["square"], ["sine"]),
        helper.make_node("Relu", ["sine"], ["above"]), helper.make_node("ReduceSum", ["above"], ["y"], keepdims=0),
        gradient(["x"], ["first"], "y", ["x"]), gradient(["x"], ["second"], "first", ["x"]),
    ]
    x = near(4)
    with ScoringFunction(import_model(model_of(nodes, {"x": x}, ["first", "second"], 18))) as function:
        found = function({"x": x})
    is_above = np.sin(x * x) > 0
    np.testing.assert_allclose(found["first"], is_above * np.cos(x * x) * 2 * x)
    np.testing.assert_allclose(found["second"], is_above * (2 * np.cos(x * x) - 4 * x * x * np.sin(x * x)))


def test_a_derivative_of_zeros_by_their_norm_is_finite() -> None:
    """They stay zeros, and have none; an infinite one would be the end of a training."""
    feeds = {"x": np.array([[0.0, 0], [3, 4]]), "w": near(2, 2)}
    nodes = [helper.make_node("LpNormalization", ["x"], ["n"]), helper.make_node("Mul", ["n", "w"], ["p"]),
             helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0), gradient(["x"], ["d"], "y", ["x"])]
    with ScoringFunction(import_model(model_of(nodes, feeds, ["d"], 18))) as function:
        found = function(feeds)["d"]
    normal = np.array([0.6, 0.8])
    np.testing.assert_allclose(found, [feeds["w"][0], (feeds["w"][1] - normal * (normal @ feeds["w"][1])) / 5])


def test_derivative_of_a_derivative_by_filters() -> None:
    """Against differences of the first one, which the engine computes."""
    first = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 1], pads=[1, 0, 0, 1]),
        helper.make_node("Sin", ["c"], ["s"]), helper.make_node("ReduceSum", ["s"], ["y"], keepdims=0),
        gradient(["w"], ["d_w"], "y", ["w"]), helper.make_node("Mul", ["d_w", "g"], ["p"]),
        helper.make_node("ReduceSum", ["p"], ["z"], keepdims=0),
    ]
    feeds = {"x": near(2, 2, 6, 4), "w": near(3, 2, 2, 3, seed=1), "g": near(3, 2, 2, 3, seed=2)}
    second = [*first, gradient(["x", "w"], ["d_x", "d2_w"], "z", ["x", "w"])]
    with ScoringFunction(import_model(model_of(first, feeds, ["z"], 18))) as function:
        slopes = {name: [(function({**feeds, name: feeds[name] + step})["z"] - function({**feeds, name: feeds[name] - step})["z"])
                         / 2e-5 for step in (np.eye(feeds[name].size)[place].reshape(feeds[name].shape) * 1e-5
                                             for place in (0, 11, 17))] for name in ("x", "w")}
    with ScoringFunction(import_model(model_of(second, feeds, ["d_x", "d2_w"], 18))) as function:
        found = function(feeds)
    for name, result in (("x", "d_x"), ("w", "d2_w")):
        np.testing.assert_allclose(found[result].ravel()[[0, 11, 17]], slopes[name], rtol=1e-5, atol=1e-8)


def test_other_values_than_those_named() -> None:
    """The derivative by an intermediate value, at a value given to the node."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "h"], ["y"]),
             gradient(["other"], ["slope"], "y", ["h"])]
    feeds = {"x": near(3), "w": near(3, seed=1), "other": near(3, seed=2)}
    with ScoringFunction(import_model(model_of(nodes, feeds, ["y", "slope"], 18))) as function:
        found = function(feeds)
    np.testing.assert_allclose(found["slope"], 2 * feeds["other"])
    np.testing.assert_allclose(found["y"], (feeds["x"] * feeds["w"]) ** 2)


def test_intermediate_values_and_independent_ones() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["h"]), helper.make_node("Mul", ["h", "h"], ["y"]),
             gradient(["h", "free"], ["d_h", "d_free"], "y", ["h", "free"]), gradient(["h"], ["one"], "h", ["h"])]
    feeds = {"x": near(3), "free": near(2)}
    with ScoringFunction(import_model(model_of(nodes, feeds, ["d_h", "d_free", "one"], 18))) as function:
        found = function(feeds)
    np.testing.assert_allclose(found["d_h"], 2 * np.exp(feeds["x"]))
    np.testing.assert_array_equal(found["d_free"], np.zeros(2))
    np.testing.assert_array_equal(found["one"], np.ones(3))


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (gradient(["x"], ["d"], "n", ["x"]), "derivative of Det"),
        (gradient(["x"], ["d"], "nothing", ["x"]), "no value known"),
        (gradient(["x", "x"], ["d"], "n", ["x"]), "1 tensors are named"),
        (gradient(["x"], ["d"], "x2", ["x"]), "not computed"),
    ],
)
def test_refusals(node: onnx.NodeProto, reason: str) -> None:
    nodes = [helper.make_node("Det", ["x"], ["n"]), node]
    feeds = {"x": near(2, 2), "x2": near(2)}
    with pytest.raises(TranspileError, match=reason) as caught:
        import_model(model_of(nodes, feeds, ["d"], 18))
    assert "Gradient" in str(caught.value)


@pytest.mark.parametrize("taken", [True, False])
def test_captured_values_are_not_taken_for_constants(taken: bool) -> None:
    """A branch reads x from the graph around it."""
    branches = {
        name: helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [info(name, near(3))])
        for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    nodes = [helper.make_node("If", ["c"], ["h"], **branches), helper.make_node("Mul", ["h", "x"], ["p"]),
             helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0)]
    feeds = {"x": near(3), "c": np.array(taken)}
    forward, both = (model_of([*nodes, *more], feeds, outputs, 18) for more, outputs in (
        ([], ["y"]), ([gradient(["x", "c"], ["d"], "y", ["x"], ["c"])], ["d"])))
    with ScoringFunction(import_model(both)) as function:
        np.testing.assert_allclose(function(feeds)["d"], differences(forward, feeds, "x"), rtol=1e-4, atol=1e-7)


def test_further_outputs_are_not_forgotten() -> None:
    """The running mean of a BatchNormalization depends on x, too."""
    norm = helper.make_node("BatchNormalization", ["x", "s", "s", "s", "s"], ["n", "m", "v"], training_mode=1)
    nodes = [norm, helper.make_node("ReduceSum", ["n"], ["a"], keepdims=0), helper.make_node("ReduceSum", ["m"], ["b"], keepdims=0),
             helper.make_node("Add", ["a", "b"], ["y"]), gradient(["x", "s"], ["d"], "y", ["x"], ["s"])]
    with pytest.raises(TranspileError, match="output of BatchNormalization other than the first"):
        import_model(model_of(nodes, {"x": near(4, 3), "s": near(3)}, ["d"], 18))


def test_float_values_of_an_old_opset() -> None:
    """FP32, opset 9, a weight that is an initializer and an unused derivative."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("ReduceMean", ["r"], ["y"], axes=[0, 1], keepdims=0), gradient(["w", "x"], ["d"], "y", ["w", "x"])]
    x, w = near(5, 3).astype(np.float32), near(3, 2).astype(np.float32)
    model = model_of(nodes, {"x": x}, ["d"], 9, {"w": w})
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    with ScoringFunction(import_model(model)) as function:
        found = function({"x": x})["d"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, x.T @ (x @ w > 0) / 10, rtol=1e-5)
