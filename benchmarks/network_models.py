"""Four networks, each as an ONNX model and by hand on `nn/layers`: LeNet, a small ResNet, an LSTM, a layer of BERT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.float32]
Parts = tuple[str, onnx.ModelProto, str, Mapping[str, Array], Array]


class Graph:
    """Collects nodes and weights of a model with one input X and one output Y."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}

    def weight(self, name: str, *shape: int) -> str:
        """Random weights that keep the spread of what they are multiplied with."""
        fan_in = max(int(np.prod(shape[1:])) if len(shape) > 2 else shape[0], 1)
        self.constants[name] = (self.generator.normal(size=shape) / np.sqrt(fan_in)).astype(np.float32)
        return name

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node, and give the name of its output."""
        name = output or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def reshape(self, value: str, *shape: int) -> str:
        """A Reshape to constant dims."""
        name = f"shape{len(self.nodes)}"
        self.constants[name] = np.array(shape)
        return self.node("Reshape", value, name)

    def model(self, name: str, data: Array, result: str, dims: Sequence[int | str]) -> onnx.ModelProto:
        """The model; the first axis of the input is the batch."""
        self.node("Identity", result, output="Y")
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", *data.shape[1:]])],
            [helper.make_tensor_value_info("Y", TensorProto.FLOAT, dims)],
            [numpy_helper.from_array(array, key) for key, array in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        return model


def rows(array: npt.NDArray[Any]) -> Array:
    """A vector as one row."""
    return array.reshape(1, -1)


def column(array: npt.NDArray[Any]) -> Array:
    """A vector as one column."""
    return array.reshape(-1, 1)


def filters(array: npt.NDArray[Any]) -> Array:
    """Filters of a convolution, a row each."""
    return array.reshape(len(array), -1)


# --- LeNet -----------------------------------------------------------------------------------------------------

LENET = """
source("nn/layers/conv2d_builtin.dml") as conv2d
source("nn/layers/relu.dml") as relu
source("nn/layers/max_pool2d_builtin.dml") as max_pool2d
source("nn/layers/affine.dml") as affine
source("nn/layers/softmax.dml") as softmax
[c1, h1, w1] = conv2d::forward(X, W1, b1, 1, 28, 28, 5, 5, 1, 1, 2, 2)
[p1, h2, w2] = max_pool2d::forward(relu::forward(c1), 32, 28, 28, 2, 2, 2, 2, 0, 0)
[c2, h3, w3] = conv2d::forward(p1, W2, b2, 32, 14, 14, 5, 5, 1, 1, 2, 2)
[p2, h4, w4] = max_pool2d::forward(relu::forward(c2), 64, 14, 14, 2, 2, 2, 2, 0, 0)
hidden = relu::forward(affine::forward(p2, W3, b3))
Y = softmax::forward(affine::forward(hidden, W4, b4))
"""


def lenet(batch: int) -> Iterator[Parts]:
    """LeNet on images of 28 x 28, as in SystemDS's example."""
    graph = Graph()
    data = graph.generator.normal(size=(batch, 1, 28, 28)).astype(np.float32)
    value = "X"
    for layer, (inputs, outputs) in enumerate(((1, 32), (32, 64)), 1):
        weights = graph.weight(f"W{layer}", outputs, inputs, 5, 5), graph.weight(f"b{layer}", outputs)
        value = graph.node("Conv", value, *weights, pads=[2, 2, 2, 2], kernel_shape=[5, 5])
        value = graph.node("MaxPool", graph.node("Relu", value), kernel_shape=[2, 2], strides=[2, 2])
    value = graph.node("Flatten", value)
    value = graph.node("Gemm", value, graph.weight("W3", 3136, 512), graph.weight("b3", 512))
    value = graph.node("Gemm", graph.node("Relu", value), graph.weight("W4", 512, 10), graph.weight("b4", 10))
    model = graph.model("lenet", data, graph.node("Softmax", value), ["batch", 10])
    c = graph.constants
    weights_by_hand = {"W1": filters(c["W1"]), "b1": column(c["b1"]), "W2": filters(c["W2"]), "b2": column(c["b2"]),
                       "W3": c["W3"], "b3": rows(c["b3"]), "W4": c["W4"], "b4": rows(c["b4"])}
    yield f"LeNet, batch {batch}", model, LENET, weights_by_hand, data


# --- a small ResNet --------------------------------------------------------------------------------------------

RESNET_HEAD = """
source("nn/layers/conv2d_builtin.dml") as conv2d
source("nn/layers/relu.dml") as relu
source("nn/layers/max_pool2d_builtin.dml") as max_pool2d
source("nn/layers/global_avg_pool2d.dml") as global_avg_pool2d
source("nn/layers/affine.dml") as affine
[c, h, w] = conv2d::forward(X, W0, b0, 3, 64, 64, 7, 7, 2, 2, 3, 3)
[Y, h, w] = max_pool2d::forward(relu::forward(c), 8, 32, 32, 3, 3, 2, 2, 1, 1)
"""
RESNET_TAIL = """
[pooled, h, w] = global_avg_pool2d::forward(Y, 64, 2, 2)
Y = affine::forward(pooled, W, b)
"""
STAGES = ((8, 16, 1), (16, 32, 2), (32, 32, 2), (32, 64, 2))
"""Channels that come in and go out, and the stride of each stage of two blocks."""


def resnet(batch: int) -> Iterator[Parts]:
    """A ResNet of eight blocks on images of 64 x 64, normalization folded into its convolutions."""
    graph = Graph()
    data = graph.generator.normal(size=(batch, 3, 64, 64)).astype(np.float32)
    script, by_hand = [RESNET_HEAD], dict[str, Array]()

    def conv(value: str, inputs: int, outputs: int, kernel: int, stride: int) -> str:
        number = sum(node.op_type == "Conv" for node in graph.nodes)
        weights = graph.weight(f"W{number}", outputs, inputs, kernel, kernel), graph.weight(f"b{number}", outputs)
        by_hand[f"W{number}"] = filters(graph.constants[f"W{number}"])
        by_hand[f"b{number}"] = column(graph.constants[f"b{number}"])
        return graph.node(
            "Conv", value, *weights, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, strides=[stride] * 2
        )

    def written(target: str, source: str, inputs: int, size: int, kernel: int, stride: int) -> None:
        number = sum(node.op_type == "Conv" for node in graph.nodes) - 1
        script.append(
            f"[{target}, h, w] = conv2d::forward({source}, W{number}, b{number}, {inputs}, {size}, {size}, "
            f"{kernel}, {kernel}, {stride}, {stride}, {kernel // 2}, {kernel // 2})"
        )

    value = graph.node("Relu", conv("X", 3, 8, 7, 2))
    value = graph.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    size = 16
    for inputs, outputs, stride in STAGES:
        for channels, step in ((inputs, stride), (outputs, 1)):
            first = graph.node("Relu", conv(value, channels, outputs, 3, step))
            written("c", "Y", channels, size, 3, step)
            second = conv(first, outputs, outputs, 3, 1)
            written("c", "relu::forward(c)", outputs, size // step, 3, 1)
            if channels != outputs or step != 1:
                value = conv(value, channels, outputs, 1, step)
                written("Y", "Y", channels, size, 1, step)
            value = graph.node("Relu", graph.node("Add", second, value))
            script.append("Y = relu::forward(c + Y)")
            size //= step
    value = graph.node("Flatten", graph.node("GlobalAveragePool", value))
    value = graph.node("Gemm", value, graph.weight("W", 64, 10), graph.weight("b", 10))
    by_hand |= {"W": graph.constants["W"], "b": rows(graph.constants["b"])}
    model = graph.model("resnet", data, value, ["batch", 10])
    yield f"small ResNet, batch {batch}", model, "\n".join([*script, RESNET_TAIL]), by_hand, data


# --- LSTM ------------------------------------------------------------------------------------------------------

LSTM = """
source("nn/layers/lstm.dml") as lstm
zeros = matrix(0, rows=nrow(X), cols=128)
[Y, c, cache1, cache2, cache3] = lstm::forward(X, W, b, 32, 64, TRUE, zeros, zeros)
"""
LSTM_BUILTIN = """
zeros = matrix(0, rows=nrow(X), cols=128)
[Y, c, cache1, cache2, cache3] = lstm(X, W, b, zeros, zeros, TRUE)
"""


def lstm(batch: int) -> Iterator[Parts]:
    """An LSTM of 128 units over 32 steps of 64 features, with all its outputs."""
    features, units, steps = 64, 128, 32
    graph = Graph()
    data = graph.generator.normal(size=(batch, steps, features)).astype(np.float32)
    names = [graph.weight("W", 1, 4 * units, features), graph.weight("R", 1, 4 * units, units)]
    names.append(graph.weight("B", 1, 8 * units))
    value = graph.node("LSTM", graph.node("Transpose", "X", perm=[1, 0, 2]), *names, hidden_size=units)
    value = graph.node("Transpose", value, perm=[2, 0, 1, 3])  # steps, 1, batch, units
    model = graph.model("lstm", data, graph.reshape(value, 0, 0, units), ["batch", steps, units])
    w, r, b = (graph.constants[name][0] for name in names)
    # the gates of ONNX are i, o, f, c, those of the layer i, f, o, c
    order = np.concatenate([np.arange(units) + units * gate for gate in (0, 2, 1, 3)])
    by_hand = {"W": np.vstack([w.T, r.T])[:, order], "b": rows((b[: 4 * units] + b[4 * units :])[order])}
    yield f"LSTM, batch {batch}", model, LSTM, by_hand, data
    yield f"LSTM, batch {batch}, by hand with the builtin lstm", model, LSTM_BUILTIN, by_hand, data


# --- a layer of BERT -------------------------------------------------------------------------------------------

BERT = """
source("nn/layers/bert_layer.dml") as bert
[Y, A, O, m1, m2, m3, c1, c2, c3, c4, c5, c6] = bert::forward(X, 4, 64, 32, 512, WQ, bQ, WK, bK, WV, bV, WC, bC, WI, bI,
    WO, bO, 0, 0, 1e-12, g1, e1, g2, e2, "gelu")
"""


def bert_layer(batch: int) -> Iterator[Parts]:
    """A layer of BERT: 64 tokens of 128 features, 4 heads, 512 in between, as PyTorch writes it."""
    heads, tokens, width, between = 4, 64, 128, 512
    graph = Graph()
    data = graph.generator.normal(size=(batch, tokens, width)).astype(np.float32)

    def linear(value: str, name: str, inputs: int, outputs: int) -> str:
        product = graph.node("MatMul", value, graph.weight(f"W{name}", inputs, outputs))
        return graph.node("Add", graph.weight(f"b{name}", outputs), product)

    def of_heads(value: str, *perm: int) -> str:
        return graph.node("Transpose", graph.reshape(value, 0, 0, heads, width // heads), perm=perm)

    def normalized(value: str, number: int) -> str:
        scale, shift = graph.weight(f"g{number}", width), graph.weight(f"e{number}", width)
        return graph.node("LayerNormalization", value, scale, shift, epsilon=1e-12)

    query, key, values = (linear("X", name, width, width) for name in "QKV")
    graph.constants["scale"] = np.array(np.sqrt(width / heads), np.float32)
    scores = graph.node("MatMul", of_heads(query, 0, 2, 1, 3), of_heads(key, 0, 2, 3, 1))
    weights = graph.node("Softmax", graph.node("Div", scores, "scale"))
    context = graph.node("MatMul", weights, of_heads(values, 0, 2, 1, 3))
    context = graph.node("Transpose", context, perm=[0, 2, 1, 3])
    context = linear(graph.reshape(context, 0, 0, width), "C", width, width)
    first = normalized(graph.node("Add", context, "X"), 1)
    hidden = graph.node("Gelu", linear(first, "I", width, between), approximate="tanh")
    second = normalized(graph.node("Add", linear(hidden, "O", between, width), first), 2)
    model = graph.model("bert", data, second, ["batch", tokens, width])
    by_hand = {
        name: array if array.ndim == 2 else rows(array)
        for name, array in graph.constants.items() if array.dtype == np.float32 and array.ndim
    }
    yield f"layer of BERT, batch {batch}", model, BERT, by_hand, data
