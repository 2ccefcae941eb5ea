"""Encoders as PyTorch exports them: layers that are alike, with names of their scopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8
TOKENS = 4


def encoder(layers: int, *, batch: int | str = "batch", width: int = WIDTH, tokens: int = TOKENS) -> onnx.ModelProto:
    """Layers of attention with two heads, of a wide layer with Gelu, and of normalisation behind both."""
    made = _Layers(width, tokens)
    made.add("/embeddings/Tanh", "Tanh", ["X"], "embedded")
    value = "embedded"
    for number in range(layers):
        value = made.layer(f"/encoder/layer.{number}", value)
    made.add("/pooler/Tanh", "Tanh", [value], "Y")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, tokens, width]) for name in "XY"]
    graph = helper.make_graph(made.nodes, "encoder", infos[:1], infos[1:], made.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class _Layers:
    def __init__(self, width: int, tokens: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.width, self.tokens = width, tokens
        self.random = np.random.default_rng(0)
        self.shapes = {"heads": [0, tokens, 2, width // 2], "joined": [0, tokens, width]}
        for name, shape in self.shapes.items():
            self.weights.append(numpy_helper.from_array(np.array(shape), name))

    def add(self, name: str, op_type: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        output = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name, **attributes))
        return output

    def weight(self, name: str, *dims: int, mean: float = 0) -> str:
        array = self.random.normal(mean, 1 / np.sqrt(dims[0]), dims).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def dense(self, scope: str, value: str, size: int, result: int) -> str:
        name = scope[1:].replace("/", ".")
        product = self.add(f"{scope}/MatMul", "MatMul", [value, self.weight(f"{name}.weight", size, result)])
        return self.add(f"{scope}/Add", "Add", [self.weight(f"{name}.bias", result), product])

    def norm(self, scope: str, value: str) -> str:
        name = scope[1:].replace("/", ".")
        weights = [self.weight(f"{name}.weight", self.width, mean=1), self.weight(f"{name}.bias", self.width)]
        return self.add(f"{scope}/LayerNormalization", "LayerNormalization", [value, *weights])

    def layer(self, scope: str, value: str) -> str:
        heads = []
        for part, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            inner = f"{scope}/attention/{part}"
            dense = self.dense(inner, value, self.width, self.width)
            split = self.add(f"{inner}/Reshape", "Reshape", [dense, "heads"])
            heads.append(self.add(f"{inner}/Transpose", "Transpose", [split], perm=perm))
        inner = f"{scope}/attention"
        scores = self.add(f"{inner}/MatMul", "MatMul", heads[:2])
        shares = self.add(f"{inner}/Softmax", "Softmax", [scores])
        mixed = self.add(f"{inner}/MatMul_1", "MatMul", [shares, heads[2]])
        moved = self.add(f"{inner}/Transpose", "Transpose", [mixed], perm=[0, 2, 1, 3])
        joined = self.add(f"{inner}/Reshape", "Reshape", [moved, "joined"])
        dense = self.dense(f"{inner}/output", joined, self.width, self.width)
        value = self.norm(f"{inner}/norm", self.add(f"{inner}/Add", "Add", [dense, value]))
        wide = self.add(f"{scope}/Gelu", "Gelu", [self.dense(f"{scope}/wide", value, self.width, 2 * self.width)])
        dense = self.dense(f"{scope}/narrow", wide, 2 * self.width, self.width)
        return self.norm(f"{scope}/norm", self.add(f"{scope}/Add", "Add", [dense, value]))
