"""Initial states of zeros that a recurrent layer is given, and would have anyway."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper, parser

from onnx_systemds import import_model
from tests.plain_engine import score_plainly

RANDOM = np.random.default_rng(4)


def model(number: float, states: str = "h0, c0") -> ModelProto:
    """Two layers, as PyTorch writes them: the zeros of all states at once, of which each layer takes its own."""
    proto = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[t, n, 2] x) => (float[t, n, 6] y, float[2, n, 3] h)
        <int64[1] one = {{1}}, int64[1] at0 = {{0}}, int64[1] two = {{2}}, int64[1] four = {{4}}, int64[1] units = {{3}}, int64[3] flat = {{0, 0, -1}}> {{
        s = Shape <start = 1, end = 2> (x) d = Concat <axis = 0> (four, s, units)
        z = ConstantOfShape <value = float[1] {{{number}}}> (d)
        h0 = Slice(z, at0, two, at0) c0 = Identity(h0) p = Shape(h0) zeros = ConstantOfShape(p) h1 = Slice(z, two, four, at0)
        a, h, c = LSTM <direction = "bidirectional", hidden_size = 3> (x, W0, R0, , , {states})
        b = Transpose <perm = [0, 2, 1, 3]> (a) e = Reshape(b, flat)
        f, g = GRU <direction = "bidirectional", hidden_size = 3> (e, W1, R1, , , h1)
        i = Transpose <perm = [0, 2, 1, 3]> (f) y = Reshape(i, flat) }}""")
    for name, shape_ in {"W0": (2, 12, 2), "R0": (2, 12, 3), "W1": (2, 9, 6), "R1": (2, 9, 3)}.items():
        proto.graph.initializer.append(numpy_helper.from_array(RANDOM.normal(size=shape_).astype(np.float32), name))
    return proto


@pytest.mark.engine
@pytest.mark.parametrize(("number", "states"), [(0.0, "h0, c0"), (0.5, "h0, c0"), (0.5, "h0, zeros"), (0.5, "zeros, c0")])
def test_states_of_zeros_are_not_taken_apart(number: float, states: str) -> None:
    proto = model(number, states)
    script = import_model(proto)
    assert ("matrix(0, rows=n, cols=3)" in script.text) is (number == 0 or "zeros" in states)
    assert ("[(n + 1):(2 * n), ]" in script.text) is (number != 0)
    x = RANDOM.normal(size=(4, 3, 2)).astype(np.float32)
    runtime = onnxruntime.InferenceSession(proto.SerializeToString())
    found = score_plainly(script, {"x": x})
    for output, expected in zip(runtime.get_outputs(), runtime.run(None, {"x": x})):
        np.testing.assert_allclose(found[output.name], expected, rtol=1e-5, atol=1e-6)
