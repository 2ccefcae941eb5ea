"""Activation functions."""

from __future__ import annotations

from onnx_systemds.broadcasting import operands
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.importing.fragment import Fragment
from onnx_systemds.importing.node_view import NodeView
from onnx_systemds.layout import SCALAR, View, split_view
from onnx_systemds.numbers import literal
from onnx_systemds.operator_generators.elementwise import finish, infix, unary
from onnx_systemds.operator_generators.registry import generator


@generator("Relu", since=1)
@generator("Relu", since=6)
def relu(node: NodeView) -> Fragment:
    """The positive part."""
    return unary(node, lambda x: f"max({x}, 0)")


@generator("Sigmoid", since=1)
@generator("Sigmoid", since=6)
def sigmoid(node: NodeView) -> Fragment:
    """1 / (1 + exp(-x))."""
    return unary(node, lambda x: f"1 / (1 + exp(-{x}))")
