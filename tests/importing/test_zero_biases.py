"""Convolutions of images of few numbers have no bias of zeros, and are right where one of these is not 0."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper, parser

from onnx_systemds import import_model
from tests.plain_engine import score_plainly

WEIGHT = np.random.default_rng(3).normal(size=(4, 2, 3, 3)).astype(np.float32)


def model(batch: object, side: int) -> ModelProto:
    proto = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{batch}, 2, {side}, {side}] x) => (float[{batch}, 4, q, r] y) {{ y = Conv(x, w) }}""")
    proto.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    return proto


@pytest.mark.engine
@pytest.mark.parametrize("place", [None, (0, 0, 0, 0), (0, 1, 110, 57)])
def test_small_images(place: tuple[int, int, int, int] | None) -> None:
    proto, x = model(1, 111), np.zeros((1, 2, 111, 111), np.float32)
    if place is not None:
        x[place] = 3
    script = import_model(proto)
    assert "conv2d(" in script.text and "bias_add(" not in script.text
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(score_plainly(script, {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("batch", "side"), [(1, 112), (2, 80), ("n", 8)])
def test_images_that_may_be_nearly_empty(batch: object, side: int) -> None:
    assert "bias_add(conv2d(" in import_model(model(batch, side)).text
