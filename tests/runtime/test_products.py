"""Depthwise convolutions as products with sparse matrices, in specialised scripts; onnxruntime judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.engine import shared_session
from onnx_systemds.importing.passes.specialisation import products
from onnx_systemds.runtime import forms
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.runtime.recording import recorded

RANDOM = np.random.default_rng(7)


def depthwise(channels: int, multiplier: int, kernel: tuple[int, int], sizes: list[Any], **attributes: Any) -> ModelProto:
    weight = RANDOM.normal(size=(channels * multiplier, 1, *kernel)).astype(np.float32)
    bias = RANDOM.normal(size=channels * multiplier).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["h"], group=channels, **attributes),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "depthwise", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def texts_and_results(model: ModelProto, x: np.ndarray[Any, Any], parts: int = 1) -> tuple[list[str], Mapping[str, Any]]:
    """The texts of the scripts prepared on the way to a second call, and what that gives."""
    with ScoringFunction(import_model(model), specialise_after=2, parts=parts) as function:
        texts = recorded(function)
        function({"x": x})
        return texts, function({"x": x})


@pytest.mark.parametrize(
    ("channels", "multiplier", "kernel", "attributes"),
    [
        (8, 1, (3, 3), {"pads": [1, 1, 1, 1]}),
        (5, 1, (3, 3), {}),
        (8, 1, (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        (8, 1, (5, 3), {"pads": [2, 1, 2, 1], "strides": [2, 1]}),
        (8, 1, (3, 3), {"pads": [0, 1, 2, 1], "strides": [1, 2]}),
        (8, 2, (3, 3), {"pads": [1, 1, 1, 1]}),
        (6, 3, (2, 4), {"strides": [1, 3]}),
        (8, 1, (3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2], "strides": [2, 2]}),
        (8, 1, (1, 7), {"pads": [0, 3, 0, 3]}),
    ],
)
@pytest.mark.parametrize("batch", [1, 4])
def test_products_give_what_convolutions_give(
    channels: int, multiplier: int, kernel: tuple[int, int], attributes: dict[str, Any], batch: int
) -> None:
    model = depthwise(channels, multiplier, kernel, ["n", channels, 7, 9], **attributes)
    x = RANDOM.normal(size=(batch, channels, 7, 9)).astype(np.float32)
    texts, results = texts_and_results(model, x, parts=2)
    assert all("conv2d" not in text for text in texts) and texts
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(results["y"], runtime.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [((3, 3), {"pads": [2, 2, 2, 2]}), ((1, 1), {"strides": [2, 2]}), ((1, 11), {"pads": [0, 5, 0, 5]})],
    ids=["windows that begin beside the image", "single pixels", "windows wider than the image"],
)
def test_convolutions_that_have_no_matrix_stay(kernel: tuple[int, int], attributes: dict[str, Any]) -> None:
    model = depthwise(8, 1, kernel, [2, 8, 7, 9], **attributes)
    x = RANDOM.normal(size=(2, 8, 7, 9)).astype(np.float32)
    texts, results = texts_and_results(model, x)
    assert "conv2d" in texts[-1] and "depthwise_matrix" not in texts[-1]
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(results["y"], runtime.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_models_of_fixed_sizes_become_products_too() -> None:
    model = depthwise(8, 1, (3, 3), [2, 8, 6, 6])
    texts, _ = texts_and_results(model, RANDOM.normal(size=(2, 8, 6, 6)).astype(np.float32))
    assert len(texts) == 2 and all("conv2d" not in text and "grouped_filters" not in text for text in texts)


def test_nan_and_infinity_stay_in_their_channel() -> None:
    model = depthwise(4, 1, (3, 3), ["n", 4, 5, 5], pads=[1, 1, 1, 1])
    x = np.ones((2, 4, 5, 5), np.float32)
    x[0, 1, 2, 2], x[1, 3, 0, 0] = np.nan, np.inf
    texts, results = texts_and_results(model, x)
    assert "conv2d" not in texts[-1]
    found = ~np.isfinite(results["y"]).all(axis=(2, 3))
    assert not found[0, [0, 2, 3]].any() and not found[1, [0, 1, 2]].any() and found[0, 1]


def test_matrices_that_would_be_too_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "MOST_ENTRIES", 100)
    model = depthwise(8, 1, (3, 3), ["n", 8, 6, 6])
    texts, _ = texts_and_results(model, RANDOM.normal(size=(2, 8, 6, 6)).astype(np.float32))
    assert "conv2d" in texts[-1] and "grouped_filters" in texts[-1]


def test_matrices_of_convolutions_are_kept_whatever_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "LARGEST_CONSTANTS", 0)
    model = depthwise(8, 1, (3, 3), ["n", 8, 6, 6])
    texts, _ = texts_and_results(model, RANDOM.normal(size=(2, 8, 6, 6)).astype(np.float32))
    assert "%*%" in texts[-1] and "constant0" in texts[-1] and "depthwise_matrix" not in texts[-1]


def test_images_that_are_nearly_empty() -> None:
    model = depthwise(8, 1, (3, 3), ["n", 8, 20, 20], pads=[1, 1, 1, 1])
    x = np.zeros((3, 8, 20, 20), np.float32)
    x[1, 2, 3, 4], x[2, 7, 19, 0] = 2, -1
    texts, results = texts_and_results(model, x)
    assert "conv2d" not in texts[-1]
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(results["y"], runtime.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize(
    ("sizes", "kernel", "strides", "padding"),
    [
        ((6, 7), (3, 2), (2, 1), (1, 0)),
        ((5, 7), (3, 3), (2, 2), (1, 1)),  # rows of an odd length are made in more than two parts
        ((3, 9), (5, 5), (1, 1), (2, 2)),  # no window lies in the image
        ((2, 5), (2, 2), (1, 3), (0, 0)),
        ((7, 7), (7, 7), (1, 1), (0, 0)),  # windows as wide as the image
        ((3, 4), (1, 2), (1, 1), (0, 0)),  # two taps: half of a matrix that says which is which
        ((9, 8), (7, 3), (2, 3), (3, 1)),
    ],
)
def test_matrices_of_filters(
    each: int, sizes: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: tuple[int, int]
) -> None:
    """Of five channels, with one filter or two for each."""
    functions = "\n".join(map(print_statement, library_functions(["depthwise_matrix"])))
    weight = RANDOM.normal(size=(5 * each, *kernel))
    weight[1, 0, 1], weight[2, -1, 0], weight[3], weight[4, 0, 0] = np.inf, np.nan, 0, -np.inf
    numbers = ", ".join(map(str, (5, *sizes, *kernel, *strides, *padding)))
    call = f'W = read("./W")\nM = depthwise_matrix(W, {numbers})\nwrite(M, "./M")\n'
    (found,) = shared_session().prepare(f"{functions}\n{call}", ["W"], ["M"])({"W": weight.reshape(5 * each, -1)}).values()
    # where each window takes its pixels: numbers of them, from 1, 0 beside the image
    pixels = np.pad(np.arange(1, sizes[0] * sizes[1] + 1).reshape(sizes), [(pad, pad) for pad in padding])
    windows = np.lib.stride_tricks.sliding_window_view(pixels, kernel)[:: strides[0], :: strides[1]].reshape(-1, weight[0].size)
    expected = np.zeros((5 * each, len(windows), 5, pixels.max() + 1))
    for number, row, tap in np.ndindex(5 * each, *windows.shape):
        expected[number, row, number // each, windows[row, tap]] = weight[number].ravel()[tap]
    np.testing.assert_array_equal(found, expected[..., 1:].reshape(5 * each * len(windows), -1))
