"""Short names of values that exporters call by the path of their module."""

from __future__ import annotations

import pytest

from onnx_systemds.dml.module_paths import short_names, shortened
from onnx_systemds.dml.names import legal_identifier

_STAGES = [f"/net/encoder/stages.{stage}/layer/layer.0/conv/Conv_output_0" for stage in (0, 1)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (_STAGES, ["stages_0_layer_0_conv", "stages_1_layer_0_conv"]),
        (["/net/stem/conv/Conv_output_0", "/net/act/act/Relu_output_0"], ["conv", "act"]),
        (["/net/norm/Sub_output_0", "/net/norm/Div_output_0"], ["norm_Sub", "norm_Div"]),
        (["/net/norm/Split_output_0", "/net/norm/Split_output_1"], ["norm_Split", "norm_Split_output_1"]),
        (["/net/0/Gemm_output_0", "/other/0/Gemm_output_0"], ["net_0", "other_0"]),
        (["/Conv_output_0"], ["Conv"]),
        (["model/dense/MatMul:0", "model/dense/BiasAdd:0"], ["dense_MatMul", "dense_BiasAdd"]),
        (["/net/conv/Conv_output_0", "/net/conv/Conv_output_0_x"], ["conv_Conv", "conv_Conv_output_0_x"]),
        (["net.layers.0.query.bias", "net.layers.1.query.bias"], ["layers_0_query_bias", "layers_1_query_bias"]),
        (["net.encoder.norm.bias", "/net/encoder/norm/Add_output_0"], ["norm_bias", "norm_Add"]),
        (["a.b", "input.1", "onnx::Conv_205", "x"], [False, False, "onnx_Conv_205", False]),
        (["/" + 500 * "a" + "/b", "//", "/"], [False, False, False]),
    ],
)
def test_short_names(names: list[str], expected: list[str | bool]) -> None:
    found = short_names(names)
    assert [name in found and legal_identifier(found[name]) for name in names] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (_STAGES[0], "stages_0"),
        (f"{_STAGES[0]}_by_64", "stages_0_by_64"),
        (f"{_STAGES[0]}/factor/mean_of_rows", "stages_0/factor/mean_of_rows"),
        ("/net/other/Conv_output_0", "/net/other/Conv_output_0"),
        ("x_by_64", "x_by_64"),
    ],
)
def test_names_made_of_a_value(name: str, expected: str) -> None:
    assert shortened(name, {_STAGES[0]: "stages_0"}) == expected
