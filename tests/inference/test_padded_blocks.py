"""Axes of any length that are padded to whole blocks, as windows of images and chunks of sequences are."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import random


@pytest.mark.parametrize("missing", [
    "over = Mod (size, four) under = Sub (four, over) missing = Mod (under, four)",
    "below = Neg (size) missing = Mod (below, four)",
    "number = Squeeze (size, zero) below = Neg (number) under = Mod (below, four) missing = Reshape (under, one)",
])
def test_a_padded_axis_has_a_size_that_is_known_at_the_start(missing: str) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n,s,2] x) => (float[n,b,8] y, float[n,s,2] z)
        <int64[1] four = {{4}}, int64[3] zeros = {{0, 0, 0}}, int64[1] zero = {{0}}, int64[1] one = {{1}},
         int64[3] blocks = {{0, -1, 8}}> {{
          size = Shape <start = 1, end = 2> (x) {missing}
          pads = Concat <axis = 0> (zeros, zero, missing, zero)
          padded = Pad (x, pads) y = Reshape (padded, blocks)
          shape = Shape (padded) back = Reshape (y, shape) z = Slice (back, zero, size, one)
        }}""")
    script = import_model(model)
    assert "  y = cbind(x, matrix(0, rows=n, cols=8 * ((s + 3) %/% 4) - 2 * s))\n  z = y[, 1:(2 * s)]\n" in script.text
    assert "stop(\"node" not in script.text
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with ScoringFunction(script) as function:
        for dims in ((2, 7, 2), (1, 8, 2), (3, 1, 2)):
            feeds = {"x": random(*dims)}
            found, expected = function(feeds), session.run(None, feeds)
            np.testing.assert_array_equal(found["y"], expected[0])
            np.testing.assert_array_equal(found["z"], expected[1])


def test_a_size_of_the_run_is_checked_once() -> None:
    """That it is not negative follows from that it is 1 or more."""
    text = import_model(onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n,s,2] x) => (float[n,s,2] z)
        <int64[4] front = {0, 0, 0, 0}, int64[1] zero = {0}, int64[1] one = {1}> {
          size = Shape <start = 1, end = 2> (x) more = Sign (size)
          pads = Concat <axis = 0> (front, more, zero) y = Pad (x, pads) z = Slice (y, zero, size, one)
        }""")).text
    checks = [line.partition("{")[0].strip() for line in text.splitlines() if "if (" in line and "y_size1 <" in line]
    assert checks == ["if (size_y_size1 < 1)"]
