"""Networks as old exporters wrote them, made here with fixed seeds, against onnxruntime: IR version 3 with initializers
among the inputs, nodes in any order, numbers for names, operators of old opsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying import judging
from tests.all_failures import all_failures
from tests.operators.harness import Array, compare
from tests.plain_engine import scored_together

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Network:
    """A graph that grows node by node; names are numbers."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return str(self.count)

    def weight(self, *dims: int, positive: bool = False) -> str:
        scale = np.sqrt(2 / max(1, int(np.prod(dims[1:]))))
        drawn = self.generator.uniform(0.5, 1.5, dims) if positive else self.generator.standard_normal(dims) * scale
        return self.known(drawn.astype(np.float32))

    def known(self, array: Array) -> str:
        self.weights.append(numpy_helper.from_array(array, self.name()))
        return self.weights[-1].name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0]

    def conv(self, x: str, inputs: int, outputs: int, size: int = 3, **attributes: object) -> str:
        pads = [size // 2] * 4
        weight = self.weight(outputs, inputs // int(attributes.get("group", 1)), size, size)  # type: ignore[call-overload]
        return self.node("Conv", x, weight, self.weight(outputs), kernel_shape=[size, size], pads=pads, **attributes)

    def norm(self, x: str, channels: int, **attributes: object) -> str:
        scale, variance = self.weight(channels, positive=True), self.weight(channels, positive=True)
        return self.node("BatchNormalization", x, scale, self.weight(channels), self.weight(channels), variance, **attributes)

    def model(
        self, opset: int, inputs: dict[str, Sequence[int | str]], outputs: Sequence[str], *,
        ir_version: int = 3, shuffled: bool = False, listed: bool = True, dtypes: dict[str, int] | None = None,
    ) -> ModelProto:
        """The model; ``listed``: whether the initializers stand among the inputs; ``dtypes``: of what is not float."""
        given = [helper.make_tensor_value_info(name, (dtypes or {}).get(name, FLOAT), dims) for name, dims in inputs.items()]
        if listed:
            given += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in self.weights]
        if shuffled:
            given.reverse()
            order = self.generator.permutation(len(self.nodes))
            self.nodes = [self.nodes[int(number)] for number in order]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        for result in results:
            result.type.tensor_type.elem_type = (dtypes or {}).get(result.name, FLOAT)
        graph = helper.make_graph(self.nodes, "torch-jit-export", given, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def lenet() -> ModelProto:
    net = Network(1)
    x = net.node("Relu", net.conv("0", 1, 6, 5))
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Relu", net.conv(x, 6, 16, 5))
    x = net.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", net.node("Dropout", x, ratio=0.5), axis=1)
    x = net.node("Tanh", net.node("Gemm", x, net.weight(84, 16 * 49), net.weight(84), alpha=0.5, beta=2.0, transB=1))
    x = net.node("Softmax", net.node("Gemm", x, net.weight(84, 10), net.weight(10)), axis=1)
    return net.model(7, {"0": ["batch", 1, 28, 28]}, [x])


def residual() -> ModelProto:
    net = Network(2)
    x = net.node("Relu", net.norm(net.conv("data", 3, 8, 3, strides=[2, 2]), 8, epsilon=1e-3))
    for before, channels in ((8, 8), (8, 16), (16, 16)):
        wide = net.conv(x, before, channels, 1)
        inner = net.node("LeakyRelu", net.norm(net.conv(wide, channels, channels, 3), channels), alpha=0.1)
        x = net.node("Sum", wide, net.conv(inner, channels, channels, 3, group=channels))
    x = net.node("GlobalAveragePool", net.node("PRelu", x, net.weight(16, 1, 1)))
    x = net.node("Reshape", x, net.known(np.array([0, -1], np.int64)))
    return net.model(8, {"data": [2, 3, 32, 32]}, [net.node("LogSoftmax", x, axis=1)], shuffled=True)


def autoencoder() -> ModelProto:
    net = Network(3)
    x = net.node("Pad", "image", mode="reflect", pads=[0, 0, 1, 1, 0, 0, 1, 1])
    x = net.node("Elu", net.node("Conv", x, net.weight(6, 3, 3, 3), strides=[2, 2]), alpha=0.5)
    code = net.node("InstanceNormalization", x, net.weight(6, positive=True), net.weight(6))
    x = net.node("Upsample", code, net.known(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    x = net.node("ConvTranspose", x, net.weight(6, 3, 3, 3), strides=[1, 1], pads=[1, 1, 1, 1])
    x = net.node("Slice", x, axes=[2, 3], starts=[0, 0], ends=[16, -1])
    return net.model(9, {"image": [1, 3, 18, 17]}, [net.node("Clip", x, min=-1.0, max=1.0), code])


def language_model() -> ModelProto:
    net = Network(4)
    words = net.node("Gather", net.weight(50, 8), "ids", axis=0)
    words = net.node("Transpose", words, perm=[1, 0, 2])
    h = net.node("GRU", words, net.weight(1, 36, 8), net.weight(1, 36, 12), net.weight(1, 72), hidden_size=12,
                 linear_before_reset=1)
    y = net.node("LSTM", net.node("Squeeze", h, axes=[1]), net.weight(2, 20, 12), net.weight(2, 20, 5), net.weight(2, 40),
                 hidden_size=5, direction="bidirectional")
    y = net.node("Reshape", net.node("Transpose", y, perm=[2, 0, 1, 3]), net.known(np.array([0, 0, -1], np.int64)))
    scores = net.node("MatMul", y, net.weight(10, 50))
    best = net.node("ArgMax", scores, axis=-1, keepdims=0)
    return net.model(9, {"ids": ["batch", "length"]}, [scores, best], dtypes={"ids": INT64, best: INT64}, shuffled=True)


def attention_by_hand() -> ModelProto:
    net = Network(5)
    parts = [net.node("MatMul", "tokens", net.weight(16, 16)) for _ in range(3)]
    heads = net.known(np.array([0, 0, 4, 4], np.int64))
    q, k, v = (net.node("Transpose", net.node("Reshape", part, heads), perm=[0, 2, 1, 3]) for part in parts)
    scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.node("Div", scores, net.known(np.array(2, np.float32)))
    hidden = net.node("Unsqueeze", "mask", axes=[1, 2])
    scores = net.node("Add", scores, net.node("Mul", hidden, net.known(np.array([-1e4], np.float32))))
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=3), v)
    mixed = net.node("Reshape", net.node("Transpose", mixed, perm=[0, 2, 1, 3]), net.known(np.array([0, 0, 16], np.int64)))
    x = net.node("Add", "tokens", mixed)
    centred = net.node("Sub", x, net.node("ReduceMean", x, axes=[-1], keepdims=1))
    variance = net.node("ReduceMean", net.node("Pow", centred, net.known(np.array(2, np.float32))), axes=[-1])
    x = net.node("Div", centred, net.node("Sqrt", net.node("Add", variance, net.known(np.array(1e-5, np.float32)))))
    gelu = net.node("Erf", net.node("Div", x, net.known(np.array(2**0.5, np.float32))))
    x = net.node("Mul", x, net.node("Add", gelu, net.known(np.array(1, np.float32))))
    best = net.node("TopK", x, net.known(np.array([3], np.int64)), axis=-1, outputs=2)
    position = str(int(best) + 1)
    inputs = {"tokens": ["n", "t", 16], "mask": ["n", "t"]}
    return net.model(10, inputs, [x, best, position], dtypes={position: INT64}, listed=False)


def statistics() -> ModelProto:
    net = Network(6)
    spread = net.node("ReduceL2", "table", axes=[0], keepdims=1)
    total = net.node("ReduceLogSumExp", "table", axes=[1], keepdims=0)
    scaled = net.node("Div", "table", net.node("Max", spread, net.known(np.array([0.1], np.float32))))
    one = net.node("Split", scaled, axis=1, split=[2, 3], outputs=2)
    two = str(int(one) + 1)
    joined = net.node("Concat", two, net.node("Neg", one), one, axis=1)
    positive = net.node("Cast", net.node("Greater", joined, net.known(np.zeros(1, np.float32))), to=FLOAT)
    tiled = net.node("Tile", positive, net.known(np.array([1, 2], np.int64)))
    return net.model(9, {"table": ["rows", 5]}, [total, joined, tiled, net.node("HardSigmoid", scaled)], listed=False)


MADE: dict[Callable[[], ModelProto], list[dict[str, Sequence[int]]]] = {
    lenet: [{"0": (2, 1, 28, 28)}, {"0": (5, 1, 28, 28)}],
    residual: [{"data": (2, 3, 32, 32)}],
    autoencoder: [{"image": (1, 3, 18, 17)}],
    language_model: [{"ids": (2, 7)}, {"ids": (3, 4)}],
    attention_by_hand: [{"tokens": (2, 5, 16), "mask": (2, 5)}, {"tokens": (1, 9, 16), "mask": (1, 9)}],
    statistics: [{"table": (6, 5)}, {"table": (1, 5)}],
}


def calls(make: Callable[[], ModelProto]) -> list[dict[str, Array]]:
    """The inputs of each call of a model."""
    found = []
    for seed, dims in enumerate(MADE[make]):
        generator = np.random.default_rng(seed)
        inputs: dict[str, Array] = {}
        for name, shape in dims.items():
            if name == "ids":
                inputs[name] = generator.integers(0, 50, shape)
            elif name == "mask":
                inputs[name] = (generator.random(shape) > 0.7).astype(np.float32)
            else:
                inputs[name] = generator.standard_normal(shape).astype(np.float32)
        found.append(inputs)
    return found


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_agrees(make: Callable[[], ModelProto]) -> None:
    model = make()
    with ScoringFunction(import_model(model)) as function:
        for inputs in calls(make):
            outputs = function(inputs)
            for name, judge in judging.judge(model, inputs).items():
                compare(outputs[name], judge, 1e-5, f"{make.__name__} {name}")


@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
def test_agree_on_the_plain_command_line(open_sizes: bool) -> None:
    models = {make: make() for make in MADE}
    cases = {make.__name__: (import_model(model), calls(make)) for make, model in models.items()}
    results = scored_together(cases, open_sizes=open_sizes)
    with all_failures() as case:
        for make, model in models.items():
            for number, (inputs, outputs) in enumerate(zip(calls(make), results[make.__name__], strict=True), 1):
                with case(f"{make.__name__} call {number}"):
                    for name, judge in judging.judge(model, inputs).items():
                        compare(outputs[name], judge, 1e-5, name)
