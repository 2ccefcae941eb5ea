"""onnxruntime as the judge is exact where its own kernels saturate: products of uint8 activations with int8 weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_systemds.verifying.judging import judgement

A = np.full((2, 4), 255, np.uint8)
W = np.full((4, 3), 127, np.int8)
EXACT = A.astype(np.int32) @ W.astype(np.int32)


def _judged(op_type: str, inputs: list[str], constants: dict[str, Any], activations: np.ndarray) -> np.ndarray:
    kind = helper.np_dtype_to_tensor_dtype(activations.dtype)
    given = helper.make_tensor_value_info("a", kind, activations.shape)
    node = helper.make_node(op_type, inputs, ["y"])
    graph = helper.make_graph([node], "g", [given], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])  # fmt: skip
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))  # fmt: skip
    judged = judgement(model, {"a": activations})
    assert judged.judge.startswith("onnxruntime")
    return np.asarray(judged.outputs["y"])


@pytest.mark.parametrize("inputs", [["a", "w"], ["a", "w", "", "zero"], ["a", "w", "beside", "zero"]], ids=",".join)
def test_integer_products(inputs: list[str]) -> None:
    constants = {"w": W, "zero": np.int8(0), "beside": np.uint8(0)}
    kept = {name: array for name, array in constants.items() if name in inputs}
    np.testing.assert_array_equal(_judged("MatMulInteger", inputs, kept, A), EXACT)
    images = {**kept, "w": W.T[:, :, None, None]}
    found = _judged("ConvInteger", inputs, images, A[:, :, None, None])
    np.testing.assert_array_equal(found[:, :, 0, 0], EXACT)


@pytest.mark.parametrize("activations", [A, A.view(np.int8)], ids=["uint8", "int8"])
def test_quantized_products(activations: np.ndarray) -> None:
    one, zero = np.float32(1), activations.dtype.type(0)
    constants = {"w": W, "one": one, "zero": zero, "weight zero": np.int8(0), "scale": np.float32(2048)}
    inputs = ["a", "one", "zero", "w", "one", "weight zero", "scale", "zero"]
    limits = np.iinfo(activations.dtype)
    exact = activations.astype(np.float64) @ W.astype(np.float64)
    expected = np.clip(np.rint(exact / 2048), limits.min, limits.max)
    np.testing.assert_array_equal(_judged("QLinearMatMul", inputs, constants, activations), expected)
    images = {**constants, "w": W.T[:, :, None, None]}
    found = _judged("QLinearConv", inputs, images, activations[:, :, None, None])
    np.testing.assert_array_equal(found[:, :, 0, 0], expected)
