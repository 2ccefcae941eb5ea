"""Products whose right factor was transposed before, maxima of activations, and quantised numbers moved about."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction


def model(perm: list[int] | None, dims: list[Any], scaled: bool) -> Any:
    """scores = Q MatMul (Transpose(K) Mul scale), as attention computes them."""
    transpose = helper.make_node("Transpose", ["K"], ["T"], **({} if perm is None else {"perm": perm}))
    nodes = [transpose, helper.make_node("MatMul", ["Q", "S" if scaled else "T"], ["Y"])]
    if scaled:
        nodes.insert(1, helper.make_node("Mul", ["T", "scale"], ["S"]))
    rank = len(dims)
    infos = [helper.make_tensor_value_info("Q", TensorProto.FLOAT, [f"q{axis}" for axis in range(rank)])]
    infos.append(helper.make_tensor_value_info("K", TensorProto.FLOAT, dims))
    result = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
    scale = numpy_helper.from_array(np.array([0.125], np.float32), "scale")
    graph = helper.make_graph(nodes, "scores", infos, [result], [scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(proto: Any, query: tuple[int, ...], key: tuple[int, ...], dims: list[Any] | None = None) -> str:
    """Compare with onnxruntime; the script's text."""
    numbers = np.random.default_rng(0)
    feeds = {"Q": numbers.normal(size=query).astype(np.float32), "K": numbers.normal(size=key).astype(np.float32)}
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("Q", TensorProto.FLOAT, dims or query))
    script = import_model(proto)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    with ScoringFunction(script) as function:
        np.testing.assert_allclose(function(feeds)["Y"], expected, rtol=1e-4, atol=1e-5)
    return script.text


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    ("perm", "query", "key"),
    [
        ([0, 1, 3, 2], (2, 3, 4, 5), (2, 3, 6, 5)),
        ([0, 2, 3, 1], (2, 3, 4, 5), (2, 6, 3, 5)),
        ([1, 0, 3, 2], (2, 3, 4, 5), (3, 2, 6, 5)),
        ([0, 2, 1], (2, 4, 5), (2, 6, 5)),
        ([0, 2, 1], (4, 5), (2, 6, 5)),
        ([1, 2, 0], (3, 4, 5), (6, 3, 5)),
    ],
)
def test_transposed_factor(perm: list[int], query: tuple[int, ...], key: tuple[int, ...], scaled: bool) -> None:
    text = check(model(perm, list(key), scaled), query, key)
    if perm == [1, 2, 0]:  # columns of K are multiplied where they stand
        assert " %*% t(K[, 1:5])," in text and "matrix_products" not in text
    else:
        assert "matrix_products_transposed = function(" in text and " %*% t(Y[" in text


@pytest.mark.parametrize(
    ("perm", "query", "key"),
    [
        ([0, 2, 1, 3], (2, 3, 4, 6), (2, 6, 3, 5)),
        (None, (2, 4, 5), (6, 5, 2)),
        ([1, 0], (2, 4, 5), (6, 5)),
    ],
)
def test_other_permutations(perm: list[int] | None, query: tuple[int, ...], key: tuple[int, ...]) -> None:
    assert "%*% t(Y[" not in check(model(perm, list(key), False), query, key)


def test_lengths_of_the_run() -> None:
    proto = model([0, 2, 3, 1], [2, "past", 3, 5], True)
    text = check(proto, (2, 3, 4, 5), (2, 6, 3, 5), [2, 3, "seq", 5])
    assert "sizeX = nrow(X) %/% 6" in text
    assert "sizeY = nrow(Y) %/% 6" in text


def test_without_simplification() -> None:
    text = import_model(model([0, 1, 3, 2], ["q0", "q1", "s", 5], False), simplified=False).text
    assert "batch_matmul = function(" in text
    assert "batch_matmul_transposed" not in text


X = (np.random.default_rng(1).normal(size=(2, 3, 6, 8)) * 3).astype(np.float32)
POOL = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]}
CONSTANTS = {
    "step": np.float32(0.05), "other": np.float32(0.037), "falling": np.float32(-0.05), "zero": np.uint8(100),
    "low": np.float32(-1), "high": np.float32(2.5), "steps": np.array([0.05, 0.1, 0.2], np.float32),
    "zeros": np.array([100, 90, 80], np.uint8), "shape": np.array([2, -1]), "first": np.array([1]), "end": np.array([5]),
}


def node(op_type: str, *inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs, [output], **attributes)


def script_of(nodes: list[Any]) -> str:
    """Compare the output Y with onnxruntime, which does not optimise; the script's text."""
    used = {name for made in nodes for name in made.input}
    constants = [numpy_helper.from_array(np.asarray(CONSTANTS[name]), name) for name in CONSTANTS if name in used]
    graph = helper.make_graph(nodes, "moved", [helper.make_tensor_value_info("X", TensorProto.FLOAT, X.shape)],
                              [onnx.ValueInfoProto(name="Y")], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, {"X": X})[0]
    script = import_model(proto)
    with ScoringFunction(script) as function:
        found = function({"X": X})["Y"]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    return script.text


@pytest.mark.parametrize("inputs", [("Relu", "X"), ("Clip", "X", "low", "high")])
def test_maximum_before_an_activation(inputs: tuple[str, ...]) -> None:
    text = script_of([node(*inputs, output="R"), node("MaxPool", "R", output="Y", **POOL)])
    assert re.search(r"max\((matrix\()?max_pool\(", text)


def test_maximum_with_indices_stays_after_the_activation() -> None:
    """Equal maxima: of the zeros the first one counts."""
    pool = helper.make_node("MaxPool", ["R"], ["values", "Y"], kernel_shape=[6, 8])
    script_of([node("Clip", "X", "low", "low", output="R"), pool])


QUANTISED = [
    node("QuantizeLinear", "X", "step", "zero", output="Q"), node("DequantizeLinear", "Q", "step", "zero", output="D")]


@pytest.mark.parametrize("moving", [
    node("MaxPool", "D", output="M", **POOL), node("Transpose", "D", output="M", perm=[0, 2, 3, 1]),
    node("Reshape", "D", "shape", output="M"), node("Flatten", "D", output="M"),
    node("Slice", "D", "first", "end", "first", output="M"),
])
def test_quantised_numbers_are_moved_without_rounding(moving: Any) -> None:
    text = script_of([*QUANTISED, moving, node("QuantizeLinear", "M", "step", "zero", output="Y")])
    assert text.count("nearest_integer_plus(single_precision(") == 1
    assert script_of([*QUANTISED, moving, node("QuantizeLinear", "M", "other", "zero", output="Y")]).count(
        "nearest_integer_plus(single_precision(") == 2


MEAN = {name: POOL[name] for name in ("kernel_shape", "strides")}


@pytest.mark.parametrize("mean", [
    node("AveragePool", "D", output="Y", **MEAN), node("GlobalAveragePool", "D", output="Y"),
    node("AveragePool", "D", output="Y", **POOL), node("AveragePool", "D", output="Y", ceil_mode=1, **MEAN),
])
def test_means_before_they_are_dequantised(mean: Any) -> None:
    text = script_of([*QUANTISED, mean])
    mean_of = "%*% matrix(1, " if mean.op_type == "GlobalAveragePool" else "avg_pool("
    assert text.index(mean_of) < text.index("as.matrix(-100)")


def test_means_of_counted_padding_stay_after() -> None:
    """A zero of the padding is no zero point."""
    text = script_of([*QUANTISED, node("AveragePool", "D", output="Y", count_include_pad=1, **POOL)])
    assert text.index("as.matrix(-100)") < text.index("avg_pool(")


def test_means_are_quantised_again() -> None:
    """What is after a mean is no integer, though its numbers come from integers of the same scale; of nine no half."""
    again = node("QuantizeLinear", "M", "step", "zero", output="Y")
    text = script_of([*QUANTISED, node("AveragePool", "D", output="M", kernel_shape=[3, 3]), again])
    assert text.count("nearest_integer_plus(single_precision(") == 2


@pytest.mark.parametrize(("scale", "zero"), [("falling", "zero"), ("steps", "zeros")])
def test_maximum_of_falling_or_several_scales(scale: str, zero: str) -> None:
    quantised = node("QuantizeLinear", "X", scale, zero, output="Q", axis=1)
    dequantised = node("DequantizeLinear", "Q", scale, zero, output="D", axis=1)
    script_of([quantised, dequantised, node("MaxPool", "D", output="Y", **POOL)])
    script_of([quantised, dequantised, node("Transpose", "D", output="Y", perm=[1, 0, 3, 2])])
