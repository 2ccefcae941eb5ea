"""The golden models and the inputs with which their wrappers call them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Golden:
    """A model and, for each call in its wrapper, the inputs."""

    model: onnx.ModelProto
    calls: tuple[dict[str, Array], ...]


def ramp(*dims: int, step: float = 1.0, start: float = 0.0) -> Array:
    """start, start + step, ... in row-major order: what seq() gives in the wrappers."""
    return (start + step * np.arange(np.prod(dims))).reshape(dims).astype(np.float32)


def _info(name: str, dims: tuple[Any, ...], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def _model(name: str, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: dict[str, Array] | None = None,
           opset: int = 17) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, key) for key, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="golden")


def matrix_add() -> Golden:
    model = _model("matrix_add", [helper.make_node("Add", ["A", "B"], ["C"])],
                   [_info("A", ("rows", 3)), _info("B", ("rows", 3))], [_info("C", ("rows", 3))])
    return Golden(model, ({"A": ramp(2, 3), "B": ramp(2, 3, step=0.5, start=10)},))


def add_mul_sub() -> Golden:
    nodes = [helper.make_node("Add", ["A", "B"], ["sum"], doc_string="first\nprint('never code')"),
             helper.make_node("Mul", ["sum", "C"], ["product"]),
             helper.make_node("Sub", ["product", "A"], ["Y"])]
    infos = [_info(name, (2, 3)) for name in "ABC"]
    calls = ({"A": ramp(2, 3), "B": ramp(2, 3, start=1), "C": ramp(2, 3, start=2)},)
    return Golden(_model("add_mul_sub", nodes, infos, [_info("Y", (2, 3))]), calls)


def initialized_matrices() -> Golden:
    constants = {"W": ramp(3, 100, step=0.01, start=-1), "b": np.array([0.25], np.float32), "V": ramp(100, 2, step=0.02)}
    nodes = [helper.make_node("MatMul", ["X", "W"], ["hidden"]), helper.make_node("Add", ["hidden", "b"], ["shifted"]),
             helper.make_node("MatMul", ["shifted", "V"], ["Y"])]
    model = _model("initialized_matrices", nodes, [_info("X", ("n", 3))], [_info("Y", ("n", 2))], constants)
    return Golden(model, ({"X": ramp(4, 3)},))


def activations() -> Golden:
    nodes = [helper.make_node("Relu", ["X"], ["relu"]), helper.make_node("Tanh", ["relu"], ["tanh"]),
             helper.make_node("Sigmoid", ["tanh"], ["sigmoid"]),
             helper.make_node("Softmax", ["sigmoid"], ["Y"], axis=-1)]
    return Golden(_model("activations", nodes, [_info("X", ("n", 4))], [_info("Y", ("n", 4))]),
                  ({"X": ramp(3, 4, step=0.25, start=-1)},))


def convolution() -> Golden:
    constants = {"W1": ramp(4, 3, 3, 3, step=0.01, start=-0.5), "b1": np.array([0.1, -0.2, 0.3, 0.0], np.float32),
                 "W2": ramp(2, 4, 3, 3, step=0.02, start=-0.3)}
    nodes = [helper.make_node("Conv", ["X", "W1", "b1"], ["first"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["first"], ["relu"]),
             helper.make_node("Conv", ["relu", "W2"], ["Y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 0, 1])]
    model = _model("convolution", nodes, [_info("X", ("n", 3, 8, 8))], [_info("Y", ("n", 2, 3, 4))], constants)
    model = onnx.shape_inference.infer_shapes(_without_output_dims(model))
    return Golden(model, ({"X": ramp(2, 3, 8, 8, step=0.01)},))


def _without_output_dims(model: onnx.ModelProto) -> onnx.ModelProto:
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def max_pooling() -> Golden:
    node = helper.make_node("MaxPool", ["X"], ["Y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    model = _model("max_pooling", [node], [_info("X", ("n", 2, 6, 6))], [_info("Y", ("n", 2, 3, 3))])
    values = np.sin(ramp(2, 2, 6, 6, step=0.7)).astype(np.float32)
    return Golden(model, ({"X": values},))


def if_graph() -> Golden:
    then = helper.make_graph([helper.make_node("Mul", ["X", "factor"], ["doubled"])], "then",
                             [], [_info("doubled", ("n", 3))], [numpy_helper.from_array(np.float32(2), "factor")])
    other = helper.make_graph([helper.make_node("Sub", ["X", "captured"], ["lower"])], "else",
                              [], [_info("lower", ("n", 3))])
    nodes = [helper.make_node("Abs", ["X"], ["captured"]),
             helper.make_node("If", ["condition"], ["Y"], then_branch=then, else_branch=other)]
    model = _model("if_graph", nodes, [_info("condition", (), TensorProto.BOOL), _info("X", ("n", 3))],
                   [_info("Y", ("n", 3))])
    x = ramp(2, 3, start=-3)
    return Golden(model, ({"condition": np.array(True), "X": x}, {"condition": np.array(False), "X": x}))


def dropout() -> Golden:
    nodes = [helper.make_node("Dropout", ["X"], ["kept", "unused_mask"]), helper.make_node("Neg", ["kept"], ["Y"])]
    return Golden(_model("dropout", nodes, [_info("X", ("n", 3))], [_info("Y", ("n", 3))]), ({"X": ramp(2, 3)},))


def boolean_operators() -> Golden:
    nodes = [helper.make_node(op, ["A", "B"], [out]) for op, out in (("And", "both"), ("Or", "any"), ("Xor", "one"))]
    infos = [_info(name, ("n", 4), TensorProto.BOOL) for name in "AB"]
    outs = [_info(name, ("n", 4), TensorProto.BOOL) for name in ("both", "any", "one")]
    a, b = np.array([[0, 0, 1, 1]], bool), np.array([[0, 1, 0, 1]], bool)
    return Golden(_model("boolean_operators", nodes, infos, outs), ({"A": a, "B": b},))


# models of others, of which only the scripts are kept
REAL = ("burn-onnx__mnist", "sample-apps__transformer")

GOLDENS: dict[str, Callable[[], Golden]] = {
    build.__name__: build
    for build in (matrix_add, add_mul_sub, initialized_matrices, activations, convolution, max_pooling, if_graph,
                  dropout, boolean_operators)
}
