"""Convolutions of one image in two strips, in scripts for known sizes; numpy and onnxruntime judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.importing.passes.convolution_sizes import Convolution
from onnx_systemds.importing.passes.specialisation.strips import _strips
from tests.plain_engine import score_plainly

RANDOM = np.random.default_rng(3)


def results(image: np.ndarray[Any, Any], kernel: int, step: int, pad: int) -> np.ndarray[Any, Any]:
    """Of a column of lines, with weights that tell the taps apart."""
    padded = np.pad(image, pad)
    weights = 10.0 ** np.arange(kernel)
    return np.lib.stride_tricks.sliding_window_view(padded, kernel)[::step] @ weights


@pytest.mark.parametrize(("height", "kernel", "step", "pad", "is_cut"), [
    *((height, kernel, step, pad, True)
      for kernel, step, pad in [(3, 1, 1), (3, 2, 1), (3, 1, 0), (5, 1, 2), (1, 1, 0), (1, 2, 0), (2, 2, 0), (3, 3, 0)]
      for height in (48, 51)),
    (64, 7, 2, 3, True), (64, 7, 4, 3, True), (7, 3, 1, 1, False), (64, 33, 1, 16, False), (64, 64, 1, 0, False),
    (64, 3, 1, 9, True),
])
def test_where_images_are_cut(height: int, kernel: int, step: int, pad: int, is_cut: bool) -> None:
    image = RANDOM.integers(1, 9, height).astype(np.float64)
    found = _strips(Convolution((1, 64, height, 999), (64, 64, kernel, kernel), (step, step), (pad, pad)))
    assert (found is not None) == is_cut
    if found is not None:
        upper, lower = (results(part, kernel, step, pad) for part in (image[: found.lines], image[found.second :]))
        assert len(upper) == len(lower) == found.results
        joined = np.concatenate([upper[: found.first], lower[found.rest :]])
        np.testing.assert_array_equal(joined, results(image, kernel, step, pad))


@pytest.mark.parametrize(("images", "filters"), [
    ((2, 64, 64, 64), (64, 64, 3, 3)),  # two images are shared among threads anyway
    ((1, 64, 8, 8), (64, 64, 3, 3)),  # little to do
    ((1, 3, 224, 224), (64, 3, 3, 3)),  # little to do for each result
], ids=str)
def test_where_images_stay_whole(images: tuple[int, ...], filters: tuple[int, ...]) -> None:
    assert _strips(Convolution(images, filters, (1, 1), (1, 1))) is None


def two_convolutions(sizes: list[Any]) -> ModelProto:
    """The second one of every second line."""
    shapes = {"v": (32, 16, 3, 3), "a": (32,), "w": (48, 32, 3, 3), "b": (48,)}
    weights = [numpy_helper.from_array(RANDOM.normal(size=shape).astype(np.float32), name) for name, shape in shapes.items()]
    nodes = [helper.make_node("Conv", ["x", "v", "a"], ["g"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["g"], ["h"]),
             helper.make_node("Conv", ["h", "w", "b"], ["y"], pads=[1, 0, 1, 0], strides=[2, 1])]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)]
    graph = helper.make_graph(nodes, "convolutions", info[:1], info[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.engine
def test_scripts_of_one_image() -> None:
    model = two_convolutions(["n", 16, 33, 36])
    script = import_model(model, dims={"n": 1})
    main = script.text.partition("gen_convolutions = ")[2]
    assert main.count("joined_strips(") == main.count("image_strips(") == 2
    x = RANDOM.normal(size=(1, 16, 33, 36)).astype(np.float32)
    x[0, 3, 16, 5], x[0, 7, 2, 30] = np.inf, np.nan
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(score_plainly(script, {"x": x})["y"], runtime.run(None, {"x": x})[0], rtol=1e-4, atol=1e-3)
    assert "strips" not in import_model(model).text and "strips" not in import_model(model, dims={"n": 2}).text
