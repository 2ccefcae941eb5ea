"""Gradient: every rule against differences of ONNX's reference in FP64, derivatives of derivatives, refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.inference.gradient_tape import flat
from onnx_systemds.inference.registry import gradients
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array

TRAINING = "ai.onnx.preview.training"


def near(*dims: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    """Numbers in a range, no two of them alike."""
    generator = np.random.default_rng(seed)
    numbers = generator.permutation(np.linspace(low, high, max(int(np.prod(dims)), 1))) + 0.0123
    return numbers.reshape(dims)


@dataclass(frozen=True)
class Rule:
    """An operator between the inputs and the weighted sum that is differentiated; fixed: inputs not in xs."""

    op_type: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 18
    fixed: Sequence[str] = ()
    outputs: int = 1
    step: float = 1e-5  # ONNX's reference computes Erf in FP32

    def __str__(self) -> str:
        shapes = ",".join("x".join(map(str, array.shape)) or "scalar" for array in self.inputs.values())
        return f"{self.op_type}-{self.opset}-{shapes}-{self.attributes or ''}"


def info(name: str, array: Array, dims: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape if dims is None else dims
    )


def model_of(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], outputs: Sequence[str], opset: int,
    constants: Mapping[str, Array] | None = None, dims: Mapping[str, Sequence[Any]] | None = None,
) -> onnx.ModelProto:  # fmt: skip
    given = [info(name, array, (dims or {}).get(name)) for name, array in inputs.items()]
    known = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, None) for name in outputs]
    graph = helper.make_graph(nodes, "gradients", given, results, known)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def gradient(inputs: Sequence[str], outputs: Sequence[str], y: str, xs: Sequence[str], zs: Sequence[str] = ()) -> Any:
    more = {"zs": list(zs)} if zs else {}
    return helper.make_node("Gradient", list(inputs), list(outputs), domain=TRAINING, xs=list(xs), y=y, **more)


def differences(model: onnx.ModelProto, feeds: dict[str, Array], name: str, step: float = 1e-5) -> Array:
    """Central differences of the first output by an input."""
    evaluator = ReferenceEvaluator(model)
    x = feeds[name]
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            sides.append(float(np.sum(evaluator.run(None, {**feeds, name: moved})[0])))
        found[at] = (sides[0] - sides[1]) / (2 * step)
    return found


def weighted(rule: Rule) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """The operator, and the sum of its first float outputs with different weights."""
    names = [f"out{i}" for i in range(rule.outputs)]
    node = helper.make_node(rule.op_type, list(rule.inputs), names, **rule.attributes)
    values = ReferenceEvaluator(model_of([node], rule.inputs, names, rule.opset)).run(None, dict(rule.inputs))
    nodes, constants, terms = [node], {}, []
    for i, value in enumerate(values):
        constants[f"w{i}"] = near(*np.shape(value), seed=7 + i)
        nodes += [helper.make_node("Mul", [names[i], f"w{i}"], [f"p{i}"]),
                  helper.make_node("ReduceSum", [f"p{i}"], [f"s{i}"], keepdims=0)]  # fmt: skip
        terms.append(f"s{i}")
    return [*nodes, helper.make_node("Sum", terms, ["y"])], constants


def check(rule: Rule) -> None:
    nodes, constants = weighted(rule)
    xs = [name for name in rule.inputs if name not in rule.fixed]
    wanted = [f"d_{name}" for name in xs]
    node = gradient([*xs, *rule.fixed], wanted, "y", xs, rule.fixed)
    known = {name: array for name, array in rule.inputs.items() if array.dtype != np.float64}
    feeds = {name: array for name, array in rule.inputs.items() if name not in known}
    forward = model_of(nodes, feeds, ["y"], rule.opset, {**constants, **known})
    with ScoringFunction(import_model(model_of([*nodes, node], feeds, ["y", *wanted], rule.opset,
                                               {**constants, **known}))) as function:  # fmt: skip
        found = function(feeds)
    for name in xs:
        expected = differences(forward, feeds, name, rule.step)
        assert found[f"d_{name}"].shape == expected.shape
        np.testing.assert_allclose(found[f"d_{name}"], expected, rtol=2e-4, atol=0.2 * rule.step, err_msg=f"{rule} by {name}")


X, POSITIVE, UNIT = near(2, 3), near(2, 3, low=0.5, high=2), near(2, 3, low=-0.8, high=0.8)
BROADCASTS = [((2, 3), (2, 3)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 3)), ((1, 3), (2, 3)), ((2,), ())]
AXES = np.array([1], np.int64)


def index(*numbers: Any) -> Array:
    return np.array(numbers, np.int64)


RULES_TESTED = [
    *[Rule(op, {"x": X}) for op in ("Exp", "Tanh", "Sigmoid", "Softplus", "Softsign", "Abs", "Sin", "Cos", "Tan", "Sinh",
                                    "Cosh", "Atan", "Asinh", "Identity", "Neg", "Relu", "LeakyRelu", "Elu", "Dropout",
                                    "Floor", "Ceil", "Round", "Sign")],
    *[Rule(op, {"x": POSITIVE}) for op in ("Log", "Sqrt", "Reciprocal")],
    *[Rule(op, {"x": UNIT}) for op in ("Asin", "Acos", "Atanh")],
    Rule("Acosh", {"x": POSITIVE + 1}),
    Rule("Exp", {"x": near()}),
    Rule("Cast", {"x": X}, {"to": 11}),
    Rule("CastLike", {"x": X, "like": np.zeros(1)}, fixed=["like"]),
    Rule("Clip", {"x": X, "low": np.array(-0.5), "high": np.array(1.0)}, fixed=["low", "high"]),
    Rule("LeakyRelu", {"x": X}, {"alpha": 0.3}),
    Rule("Elu", {"x": X}, {"alpha": 0.7}),
    *[Rule(op, {"a": near(*left), "b": near(*right, seed=1)}) for op, forms in (("Sub", BROADCASTS), ("Div", BROADCASTS), ("Mul", BROADCASTS[2:4]), ("Add", BROADCASTS[:2]),
                        ("Max", BROADCASTS[3:5]), ("Min", BROADCASTS[1:3]), ("Sum", BROADCASTS[2:4]))
      for left, right in forms],
    *[Rule("Mean", {"a": near(*left), "b": near(*right, seed=1)}) for left, right in BROADCASTS[:2]],
    Rule("Max", {"a": near(2, 3), "b": near(3, seed=1), "c": near(2, 1, seed=2)}),
    *[Rule("Pow", {"a": near(*left, low=0.5, high=2), "b": near(*right, seed=1)}) for left, right in BROADCASTS[1:4]],
    *[Rule("Pow", {"a": X, "b": np.array(exponent)}, fixed=["b"]) for exponent in (2.0, 3, 0.0)],
    *[Rule("Where", {"c": near(*left) > 0, "a": near(2, 3), "b": near(3, seed=1)}, fixed=["c"]) for left in ((2, 3), (2, 1))],
    *[Rule("MatMul", {"a": near(*left), "b": near(*right, seed=1)}) for left, right in [
        ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 2, 3), (2, 3, 4)), ((2, 3), (2, 3, 4)), ((3,), (3, 4)), ((2, 3), (3,)),
        ((3,), (3,)), ((2, 1, 2, 3), (3, 3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2))]],
    *[Rule("Gemm", {"a": near(*((3, 2) if ta else (2, 3))), "b": near(*((4, 3) if tb else (3, 4)), seed=1), "c": near(*bias)},
           {"transA": ta, "transB": tb, "alpha": 0.5, "beta": 2.0})
      for ta, tb, bias in ((0, 0, (4,)), (0, 1, (2, 1)), (1, 0, (4,)), (1, 1, (2, 4)))],
    Rule("Gemm", {"a": near(2, 3), "b": near(3, 4)}),
    Rule("Reshape", {"x": near(2, 6), "s": index(3, -1)}, fixed=["s"]),
    Rule("Flatten", {"x": near(2, 3, 2)}),
    Rule("Squeeze", {"x": near(2, 1, 3), "a": AXES}, fixed=["a"]),
    Rule("Unsqueeze", {"x": near(2, 3), "a": AXES}, fixed=["a"]),
    *[Rule("Transpose", {"x": near(2, 3, 4)}, attributes) for attributes in ({}, {"perm": [1, 2, 0]})],
    Rule("Expand", {"x": near(3, 1), "s": index(2, 1, 4)}, fixed=["s"]),
    *[Rule("Concat", {"a": near(2, 3), "b": near(2, 3, seed=1)}, {"axis": axis}) for axis in (0, -1)],
    Rule("Concat", {"a": near(2, 3)}, {"axis": 0}),
    Rule("Split", {"x": near(2, 5), "s": index(2, 3)}, {"axis": 1}, fixed=["s"], outputs=2),
    *[Rule("Slice", {"x": near(4, 5), "s": index(*s), "e": index(*e), "a": index(*a), "t": index(*t)}, fixed=["s", "e", "a", "t"])
      for s, e, a, t in [([1], [-1], [0], [1]), ([0, 1], [9, 5], [0, 1], [2, 3]), ([-1], [-99], [1], [-2]), ([3], [0], [0], [-1])]],
    *[Rule("Gather", {"x": near(4, 3, 2), "i": i}, {"axis": axis}, fixed=["i"])
      for axis in (0, 1, -1) for i in (index(1, 0, 1), index([0, 1], [-1, 0]), np.array(1))],
    Rule("GatherElements", {"x": near(3, 4), "i": index([0, 0, 2, 1])}, {"axis": 0}, fixed=["i"]),
    *[Rule(op, {"x": near(2, 3, 4), "a": axes}, {"keepdims": keepdims}, fixed=["a"])
      for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp")
      for axes, keepdims in [(AXES, 1), (AXES, 0), (index(0, -1), 0)]],
    Rule("ReduceLogSum", {"x": POSITIVE, "a": AXES}, fixed=["a"]),
    *[Rule(op, {"x": near(2, 3, 4)}, {"axis": axis}, opset) for op in ("Softmax", "LogSoftmax") for opset, axis in
      [(13, 1), (13, -1), (11, 2)]],
    Rule("GlobalAveragePool", {"x": near(2, 3, 2, 2)}),
    *[Rule("CumSum", {"x": near(2, 3), "a": np.array(1)}, {"reverse": reverse, "exclusive": exclusive}, fixed=["a"])
      for reverse, exclusive in ((0, 0), (1, 0), (0, 1), (1, 1))],
    Rule("Trilu", {"x": near(3, 4), "k": np.array(1)}, {"upper": 0}, fixed=["k"]),
    Rule("GatherND", {"x": near(3, 4, 2), "i": index([0, 1], [2, 3], [0, 1])}, fixed=["i"]),
    Rule("Pad", {"x": near(2, 3), "p": index(1, 0, 0, 2)}, fixed=["p"]),
    Rule("Pad", {"x": near(2, 3), "p": index(1, 2), "v": np.array(1.5), "a": AXES}, fixed=["p", "v", "a"]),
    *[Rule("Einsum", {"a": near(2, 3, 4), "b": near(*right, seed=1)}, {"equation": equation})
      for right, equation in [((4, 2), "abc,cd->abd"), ((2, 4), "abc,ac->ab"), ((3, 4), "abc,bc->a")]],
    *[Rule("Conv", {"x": near(*x), "w": near(*w, seed=1), "b": near(w[0], seed=2)}, attributes)
      for x, w, attributes in [
          ((2, 2, 5, 4), (3, 2, 3, 2), {}), ((2, 2, 6, 5), (3, 2, 3, 3), {"strides": [2, 3], "pads": [1, 0, 1, 2]}),
          ((1, 2, 7, 6), (2, 2, 2, 3), {"dilations": [2, 1], "strides": [3, 2]}),
          ((2, 4, 5, 5), (4, 2, 2, 2), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
          ((2, 3, 5, 5), (3, 1, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}), ((2, 2, 7), (3, 2, 3), {"strides": [2]})]],
    *[Rule("ConvTranspose", {"x": near(*x), "w": near(*w, seed=1), "b": near(2, seed=2)}, attributes)
      for x, w, attributes in [((2, 3, 3, 4), (3, 2, 2, 3), {}),
                               ((1, 3, 3, 2), (3, 2, 3, 3), {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]})]],
    *[Rule(op, {"x": near(1, 2, 5, 6)}, {"kernel_shape": [2, 3], "strides": strides, **more})
      for op in ("MaxPool", "AveragePool") for strides in ([1, 1], [2, 3])
      for more in ({}, {"pads": [1, 1, 1, 1]})],
    Rule("AveragePool", {"x": near(1, 2, 5, 6)}, {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    Rule("GlobalMaxPool", {"x": near(2, 3, 2, 2)}),
    Rule("BatchNormalization", {"x": near(2, 3, 2), "s": near(3), "b": near(3), "m": near(3, seed=1), "v": np.abs(near(3)) + 0.1}),
    Rule("BatchNormalization", {"x": near(4, 3, 2), "s": near(3), "b": near(3), "m": near(3, seed=1), "v": np.abs(near(3)) + 0.1},
         {"training_mode": 1}, fixed=["m", "v"]),
    # by definition
    Rule("HardSwish", {"x": near(2, 3, low=-4, high=4)}),
    Rule("LayerNormalization", {"x": near(2, 5), "s": near(5), "b": near(5, seed=1)}),
    Rule("Gelu", {"x": X}, opset=20, step=2e-3),
    Rule("Gelu", {"x": X}, {"approximate": "tanh"}, opset=20),
    Rule("Erf", {"x": X}, step=2e-3),
    Rule("Selu", {"x": X}),
    Rule("SoftmaxCrossEntropyLoss", {"x": near(3, 4), "t": index(1, 0, 3)}, fixed=["t"]),
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES_TESTED, ids=str)
def test_rule(rule: Rule) -> None:
    check(rule)


def test_every_rule_is_tested() -> None:
    registered = {name for (_, name), versions in gradients.items() if flat not in versions.values()}
    assert registered <= {rule.op_type for rule in RULES_TESTED}


PERCEPTRON = [
    helper.make_node("Gemm", ["x", "w1", "b1"], ["h1"]), helper.make_node("Tanh", ["h1"], ["h2"]),
    helper.make_node("MatMul", ["h2", "w2"], ["scores"]), helper.make_node("LogSoftmax", ["scores"], ["logs"]),
    helper.make_node("Mul", ["logs", "target"], ["picked"]), helper.make_node("ReduceSum", ["picked"], ["y"], keepdims=0),
]  # fmt: skip


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


def test_derivative_of_a_derivative() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]), helper.make_node("Sin", ["square"], ["sine"]),
        helper.make_node("ReduceSum", ["sine"], ["y"], keepdims=0), gradient(["x"], ["first"], "y", ["x"]),
        gradient(["x"], ["second"], "first", ["x"]),
    ]  # fmt: skip
    x = near(4)
    with ScoringFunction(import_model(model_of(nodes, {"x": x}, ["first", "second"], 18))) as function:
        found = function({"x": x})
    np.testing.assert_allclose(found["first"], np.cos(x * x) * 2 * x)
    np.testing.assert_allclose(found["second"], 2 * np.cos(x * x) - 4 * x * x * np.sin(x * x))


def test_other_values_than_those_named() -> None:
    """The derivative by an intermediate value, at a value given to the node."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "h"], ["y"]),
             gradient(["other"], ["slope"], "y", ["h"])]  # fmt: skip
    feeds = {"x": near(3), "w": near(3, seed=1), "other": near(3, seed=2)}
    with ScoringFunction(import_model(model_of(nodes, feeds, ["y", "slope"], 18))) as function:
        found = function(feeds)
    np.testing.assert_allclose(found["slope"], 2 * feeds["other"])
    np.testing.assert_allclose(found["y"], (feeds["x"] * feeds["w"]) ** 2)


def test_intermediate_values_and_independent_ones() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["h"]), helper.make_node("Mul", ["h", "h"], ["y"]),
             gradient(["h", "free"], ["d_h", "d_free"], "y", ["h", "free"]), gradient(["h"], ["one"], "h", ["h"])]  # fmt: skip
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


def test_captured_values_are_not_taken_for_constants() -> None:
    """A branch reads x from the graph around it: refused, as there is no rule for If."""
    branches = {
        name: helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [info(name, near(3))])
        for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    nodes = [helper.make_node("If", ["c"], ["h"], **branches), helper.make_node("Mul", ["h", "x"], ["y"]),
             gradient(["x"], ["d"], "y", ["x"])]  # fmt: skip
    with pytest.raises(TranspileError, match="derivative of If"):
        import_model(model_of(nodes, {"x": near(3), "c": np.array(True)}, ["d"], 18))


def test_further_outputs_are_not_forgotten() -> None:
    """The running mean of a BatchNormalization depends on x, too."""
    norm = helper.make_node("BatchNormalization", ["x", "s", "s", "s", "s"], ["n", "m", "v"], training_mode=1)
    nodes = [norm, helper.make_node("ReduceSum", ["n"], ["a"], keepdims=0), helper.make_node("ReduceSum", ["m"], ["b"], keepdims=0),
             helper.make_node("Add", ["a", "b"], ["y"]), gradient(["x", "s"], ["d"], "y", ["x"], ["s"])]  # fmt: skip
    with pytest.raises(TranspileError, match="output of BatchNormalization other than the first"):
        import_model(model_of(nodes, {"x": near(4, 3), "s": near(3)}, ["d"], 18))


def test_float_values_of_an_old_opset() -> None:
    """FP32, opset 9, a weight that is an initializer and an unused derivative."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("ReduceMean", ["r"], ["y"], axes=[0, 1], keepdims=0), gradient(["w", "x"], ["d"], "y", ["w", "x"])]  # fmt: skip
    x, w = near(5, 3).astype(np.float32), near(3, 2).astype(np.float32)
    model = model_of(nodes, {"x": x}, ["d"], 9, {"w": w})
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    with ScoringFunction(import_model(model)) as function:
        found = function({"x": x})["d"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, x.T @ (x @ w > 0) / 10, rtol=1e-5)
