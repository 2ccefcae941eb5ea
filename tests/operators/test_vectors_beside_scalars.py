"""Repeated vectors and differences from vectors, which the engine's compiler rewrites, below other operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.helper import make_node

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array, compare, dtype_named, random, run_reference

Dims = Sequence[int | str]

ROW, COLUMN, MATRIX = random(1, 4), random(3, 1, seed=1), random(3, 4, seed=2)
ONE_ROW, ONE_COLUMN, WHOLE = [1, "m"], ["n", 1], ["n", "m"]
NUMBER = np.array(2, np.float32)
TAILS = {
    "Neg": [make_node("Neg", ["t"], ["y"])],
    "times": [make_node("Mul", ["number", "t"], ["y"])],
    "from": [make_node("Sub", ["number", "t"], ["y"])],
    "power": [make_node("Pow", ["number", "t"], ["y"])],
    "Max": [make_node("Max", ["number", "t"], ["y"])],
    "Concat": [make_node("Concat", ["x", "t"], ["y"], axis=1)],
    "Concat0": [make_node("Concat", ["x", "t"], ["y"], axis=0)],
    "Sigmoid": [make_node("Sigmoid", ["t"], ["y"])],
    "minus_one": [make_node("Mul", ["t", "minus"], ["y"])],
}
"""What becomes of the intermediate result t, beside a matrix x and a number."""

HEADS: dict[str, tuple[list[onnx.NodeProto], dict[str, tuple[Array, Dims]]]] = {
    "row": ([make_node("Expand", ["a", "shape_of_x"], ["t"])], {"a": (ROW, ONE_ROW)}),
    "column": ([make_node("Expand", ["a", "shape_of_x"], ["t"])], {"a": (COLUMN, ONE_COLUMN)}),
    "outer": ([make_node("MatMul", ["a", "b"], ["t"])], {"a": (COLUMN, ONE_COLUMN), "b": (ROW, ONE_ROW)}),
    "outer_ones": ([make_node("MatMul", ["ones", "b"], ["t"])], {"b": (ROW, ONE_ROW)}),
    "minus_row": ([make_node("Sub", ["x", "b"], ["t"])], {"b": (ROW, ONE_ROW)}),
    "minus_column": ([make_node("Sub", ["x", "b"], ["t"])], {"b": (COLUMN, ONE_COLUMN)}),
    "log_softmax": ([make_node("LogSoftmax", ["x"], ["t"])], {}),
    "row_and_column": ([make_node("Add", ["a", "b"], ["t"])], {"a": (COLUMN, ONE_COLUMN), "b": (ROW, ONE_ROW)}),
}
"""What computes t, and the inputs it needs."""


def check(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, tuple[Array, Dims]], what: str) -> None:
    """A graph with the output y agrees with onnxruntime."""
    known = {"number": NUMBER, "minus": np.array(-1, np.float32), "ones": np.ones((3, 1), np.float32)}
    read = {name for node in nodes for name in node.input}
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(dims))
             for name, (_, dims) in inputs.items() if name in read]
    weights = [onnx.numpy_helper.from_array(content, name) for name, content in known.items() if name in read]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, None])
    graph = helper.make_graph(list(nodes), "vectors", infos, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    feeds = {info.name: inputs[info.name][0] for info in infos}
    with ScoringFunction(import_model(model)) as function:
        compare(function(feeds)["y"], run_reference(model, feeds)[0], 1e-6, what)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("head", HEADS)
def test_vector_below_an_operator(head: str, tail: str) -> None:
    nodes, inputs = HEADS[head]
    shape = [make_node("Shape", ["x"], ["shape_of_x"])]
    check([*shape, *nodes, *TAILS[tail]], {"x": (MATRIX, WHOLE), **inputs}, f"{head} {tail}")


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Max", "Less"])
@pytest.mark.parametrize("zeros", ["a", "b", "ab"])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_column_and_row_of_zeros(op_type: str, zeros: str, order: str) -> None:
    """The engine counts the nonzero elements of the inputs, and compiles again where there are none."""
    arrays = {"a": COLUMN, "b": ROW}
    inputs = {name: (np.zeros_like(array) if name in zeros else array, dims)
              for (name, array), dims in zip(arrays.items(), (ONE_COLUMN, ONE_ROW))}
    last = [make_node("Cast", ["t"], ["y"], to=helper.np_dtype_to_tensor_dtype(dtype_named("float")))]
    check([make_node(op_type, list(order), ["t"]), *last], inputs, f"{op_type} {zeros}")
