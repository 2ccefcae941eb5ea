"""A convolutional network, a transformer and an LSTM with random weights, small, but with what real ones are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]


@dataclass(frozen=True)
class Network:
    """A model with the output y, and inputs for a seed."""

    model: onnx.ModelProto
    feeds: Callable[[int], Feeds]


@dataclass
class Writer:
    """Writes nodes and weights."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def constant(self, content: Any) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(content), name))
        return name

    def weight(self, *dims: int, scale: float | None = None) -> str:
        inner = np.prod(dims[1:]) if len(dims) > 2 else dims[0]
        numbers = self.random.standard_normal(dims) * (1 / np.sqrt(inner) if scale is None else scale)
        return self.constant(numbers.astype(np.float32))

    def node(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=output, **attributes))
        return output

    def model(self, inputs: dict[str, tuple[int, list[Any]]], dims: list[Any]) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info(name, *item) for name, item in inputs.items()]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)]
        graph = helper.make_graph(self.nodes, "network", given, outputs, self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def convolutional() -> Network:
    """Convolutions of all kinds, a residual connection, a gate, pools, a softmax."""
    w = Writer()

    def conv(x: str, filters: int, planes: int, size: int, **attributes: Any) -> str:
        weight, bias = w.weight(filters, planes, size, size), w.weight(filters, scale=0.1)
        return w.node("Conv", x, weight, bias, kernel_shape=[size] * 2, pads=[size // 2] * 4, **attributes)

    x = w.node("MaxPool", w.node("Relu", conv("x", 8, 3, 3)), kernel_shape=[2, 2], strides=[2, 2])
    y = w.node("LeakyRelu", conv(x, 8, 1, 3, group=8), alpha=0.1)
    y = conv(y, 8, 8, 1)
    y = w.node("Mul", y, w.node("Sigmoid", y))
    x = w.node("Concat", w.node("Add", x, y), y, axis=1)
    x = w.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    limits = (w.constant(np.float32(0)), w.constant(np.float32(6)))
    x = w.node("Clip", conv(x, 12, 16, 3, strides=[2, 2]), *limits)
    x = w.node("Flatten", w.node("GlobalAveragePool", x))
    x = w.node("Gemm", x, w.weight(10, 12), w.weight(10, scale=0.1), transB=1)
    w.node("Softmax", x, axis=-1, output="y")
    model = w.model({"x": (TensorProto.FLOAT, ["n", 3, 16, 16])}, ["n", 10])
    return Network(model, lambda seed: {"x": _normal(seed, 2, 3, 16, 16)})


def transformer(hidden: int = 32, heads: int = 4, words: int = 50, length: int = 8) -> Network:
    """A layer of an encoder with a mask, and a head on the first position."""
    w = Writer()

    def norm(x: str) -> str:
        scale = w.constant(1 + 0.1 * w.random.standard_normal(hidden).astype(np.float32))
        return w.node("LayerNormalization", x, scale, w.weight(hidden, scale=0.1), axis=-1, epsilon=1e-5)

    def linear(x: str, rows: int, cols: int) -> str:
        return w.node("Add", w.weight(cols, scale=0.1), w.node("MatMul", x, w.weight(rows, cols)))

    def per_head(x: str, perm: list[int]) -> str:
        split = w.constant(np.array([0, 0, heads, hidden // heads], np.int64))
        return w.node("Transpose", w.node("Reshape", linear(x, hidden, hidden), split), perm=perm)

    mask = w.node("Cast", w.node("Unsqueeze", "mask", w.constant(np.array([1, 2], np.int64))), to=TensorProto.FLOAT)
    mask = w.node("Mul", w.node("Sub", w.constant(np.float32(1)), mask), w.constant(np.float32(-10000)))
    x = w.node("Add", w.node("Gather", w.weight(words, hidden, scale=1), "ids"), w.weight(length, hidden, scale=0.5))
    x = norm(x)
    query, key, value = per_head(x, [0, 2, 1, 3]), per_head(x, [0, 2, 3, 1]), per_head(x, [0, 2, 1, 3])
    root = w.constant(np.float32(np.sqrt(hidden // heads)))
    scores = w.node("Add", w.node("Div", w.node("MatMul", query, key), root), mask)
    mixed = w.node("Transpose", w.node("MatMul", w.node("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    mixed = w.node("Reshape", mixed, w.constant(np.array([0, 0, hidden], np.int64)))
    x = norm(w.node("Add", linear(mixed, hidden, hidden), x))
    inner = linear(x, hidden, 2 * hidden)
    error = w.node("Erf", w.node("Div", inner, w.constant(np.float32(np.sqrt(2)))))
    inner = w.node("Mul", inner, w.node("Add", error, w.constant(np.float32(1))))
    inner = w.node("Mul", inner, w.constant(np.float32(0.5)))
    x = norm(w.node("Add", linear(inner, 2 * hidden, hidden), x))
    x = w.node("Gather", x, w.constant(np.int64(0)), axis=1)
    x = w.node("Tanh", w.node("Gemm", x, w.weight(hidden, hidden), w.weight(hidden, scale=0.1)))
    w.node("MatMul", x, w.weight(hidden, 3), output="y")
    dims = (TensorProto.INT64, ["n", length])

    def feeds(seed: int) -> Feeds:
        generator = np.random.default_rng(seed)
        lengths = generator.integers(4, length + 1, (2, 1))
        return {"ids": generator.integers(0, words, (2, length)), "mask": (np.arange(length) < lengths).astype(np.int64)}

    return Network(w.model({"ids": dims, "mask": dims}, ["n", 3]), feeds)


def recurrent(size: int = 6, hidden: int = 8) -> Network:
    """A bidirectional LSTM and a linear layer."""
    w = Writer()
    weights = (w.weight(2, 4 * hidden, size, scale=0.4), w.weight(2, 4 * hidden, hidden, scale=0.4),
               w.weight(2, 8 * hidden, scale=0.1))
    x = w.node("LSTM", "x", *weights, hidden_size=hidden, direction="bidirectional")
    x = w.node("Reshape", w.node("Transpose", x, perm=[0, 2, 1, 3]), w.constant(np.array([0, 0, 2 * hidden], np.int64)))
    w.node("MatMul", x, w.weight(2 * hidden, 4), output="y")
    model = w.model({"x": (TensorProto.FLOAT, ["steps", 1, size])}, ["steps", 1, 4])
    return Network(model, lambda seed: {"x": _normal(seed, 7, 1, size)})


def _normal(seed: int, *dims: int) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)
