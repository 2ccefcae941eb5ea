"""Maxima of maxima of sparse matrices: what the engine makes of them in one operation is wrong."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array

BOUNDS = {"low": 0.5, "high": 0.75}


def sparse(seed: int, *dims: int) -> Array:
    numbers = np.random.default_rng(seed)
    return (numbers.standard_normal(dims) * (numbers.random(dims) < 0.2)).astype(np.float32)


def scored(nodes: list[onnx.NodeProto], feeds: dict[str, Array]) -> Array:
    graph = helper.make_graph(
        nodes, "extremes",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(value), name) for name, value in BOUNDS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ScoringFunction(import_model(model)) as function:
        return function(feeds)["y"]


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_extremes_of_several_inputs(op_type: str, count: int) -> None:
    feeds = {f"x{number}": sparse(number, 24, 16) for number in range(count)}
    found = scored([helper.make_node(op_type, list(feeds), ["y"])], feeds)
    reduced = (np.maximum if op_type == "Max" else np.minimum).reduce(list(feeds.values()))
    np.testing.assert_array_equal(found, reduced)


@pytest.mark.parametrize("between", [[], [helper.make_node("Identity", ["a"], ["b"])]], ids=["next", "identity"])
def test_bounds_after_bounds(between: list[onnx.NodeProto]) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]), *between,
        helper.make_node("Clip", ["b" if between else "a", "low"], ["c"]),
        helper.make_node("Min", ["c", "high"], ["d"]), helper.make_node("Clip", ["d", "", "low"], ["y"]),
    ]
    x = sparse(0, 24, 16)
    np.testing.assert_array_equal(scored(nodes, {"x": x}), np.full_like(x, 0.5))


def test_relu_before_a_higher_bound() -> None:
    x = sparse(0, 24, 16)
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Max", ["a", "low"], ["y"])]
    np.testing.assert_array_equal(scored(nodes, {"x": x}), np.maximum(x, 0.5))


@pytest.mark.parametrize("bounds", [["low"], ["", "low"]], ids=["low", "high"])
def test_bounds_before_a_cast(bounds: list[str]) -> None:
    nodes = [
        helper.make_node("Clip", ["x", *bounds], ["a"]), helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    x = sparse(0, 24, 16)
    expected = np.clip(x, *([0.5, None] if bounds == ["low"] else [None, 0.5])).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(scored(nodes, {"x": x}), expected)


def test_dilated_pooling() -> None:
    x = sparse(0, 4, 3, 20, 20)
    found = scored([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[4, 4], dilations=[2, 2])], {"x": x})
    windows = [x[:, :, i : i + 14, j : j + 14] for i in range(0, 8, 2) for j in range(0, 8, 2)]
    np.testing.assert_array_equal(found, np.max(windows, axis=0))
