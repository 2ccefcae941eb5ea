"""onnxruntime as the judge is exact where its own kernels are not: they saturate sums, or round activations to 8 bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.errors import TranspileError
from onnx_systemds.verifying.judging import judgement

A = np.full((2, 4), 255, np.uint8)
W = np.full((4, 3), 127, np.int8)
EXACT = A.astype(np.int32) @ W.astype(np.int32)


def _judged(op_type: str, inputs: list[str], constants: dict[str, Any], activations: np.ndarray, opset: int = 13) -> np.ndarray:
    kind = helper.np_dtype_to_tensor_dtype(activations.dtype)
    given = helper.make_tensor_value_info("a", kind, activations.shape)
    node = helper.make_node(op_type, inputs, ["y"])
    graph = helper.make_graph([node], "g", [given], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))
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


X = np.random.default_rng(0).standard_normal((3, 32)).astype(np.float32)
CODES = np.random.default_rng(1).integers(0, 16, (32, 8)).astype(np.uint8)
SCALES = np.linspace(0.1, 0.3, 8, dtype=np.float32)
PRODUCT = X.astype(np.float64) @ ((CODES.astype(np.float64) - 8) * SCALES)


def _four_bits(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> np.ndarray:
    """What is judged of a model with these nodes, whose product is ``PRODUCT``."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, PRODUCT.shape)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", [given], [result], constants)
    judged = judgement(helper.make_model(graph, opset_imports=imports, ir_version=10), {"x": X})
    assert judged.judge.startswith("onnxruntime")
    return np.asarray(judged.outputs["y"])


def test_products_in_blocks_that_may_round_activations() -> None:
    packed = (CODES[0::2] | CODES[1::2] << 4).T.reshape(8, 1, 16)
    sizes = {"K": 32, "N": 8, "bits": 4, "block_size": 32, "accuracy_level": 4}
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", **sizes)
    constants = [numpy_helper.from_array(packed, "codes"), numpy_helper.from_array(SCALES, "scales")]
    np.testing.assert_allclose(_four_bits([node], constants), PRODUCT, atol=1e-5)


def test_products_with_weights_of_four_bits() -> None:
    nodes = [helper.make_node("DequantizeLinear", ["codes", "scales", "zeros"], ["w"], axis=0, block_size=32),
             helper.make_node("MatMul", ["x", "w"], ["y"])]
    constants = [helper.make_tensor("codes", TensorProto.UINT4, (32, 8), CODES.ravel().tolist()),
                 numpy_helper.from_array(SCALES[None], "scales"),
                 helper.make_tensor("zeros", TensorProto.UINT4, (1, 8), [8] * 8)]
    np.testing.assert_allclose(_four_bits(nodes, constants), PRODUCT, atol=1e-5)


def test_floats_of_eight_bits_are_no_bytes() -> None:
    zero = np.zeros((), ml_dtypes.float8_e4m3fn)
    found = _judged("QuantizeLinear", ["a", "scale", "zero"], {"scale": np.float32(0.5), "zero": zero}, X, opset=19)
    assert found.dtype == zero.dtype
    np.testing.assert_array_equal(found.view(np.uint8), (X / 0.5).astype(zero.dtype).view(np.uint8))


@pytest.mark.parametrize("operator, advice", [
    ("own.Swish", 'they do not know "own.Swish": give its results, in a folder of ONNX test data, by --inputs'),
    ("Gather", "the inputs may be out of range: give others by --inputs, or sizes by --dim"),
])
def test_what_to_do_where_no_judge_runs_a_model(operator: str, advice: str) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[2, 4] a) => (float[1, 4] y) <int64[1] last = {{9}}> {{ y = {operator} (a, last) }}""")
    with pytest.raises(TranspileError, match="neither onnxruntime nor") as refused:
        judgement(model, {"a": np.zeros((2, 4), np.float32)})
    assert refused.value.hint == advice


def test_texts_without_the_locale_that_is_the_default() -> None:
    """Where onnxruntime finds no en_US.UTF-8, as in most containers, it refuses a StringNormalizer that names no locale."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (string[2] x) => (string[2] y) { y = StringNormalizer<case_change_action = "LOWER"> (x) }""")
    judged = judgement(model, {"x": np.array(["Ab", "ÉTÉ"], object)})
    assert judged.judge.startswith("onnxruntime")
    assert judged.outputs["y"].tolist() == ["ab", "été"]
