"""What is taken from each sample by an index of its own: ``x[arange(batch), last]``."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, parser

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction

ROWS = {
    "one index": ("int64[N] i", "p = Unsqueeze(i, a) k = Concat <axis = 1> (own, p) Y = GatherND(X, k)", True),
    "two indices": ("int64[N, 2] i", "p, q = Split <axis = 1> (i) k = Concat <axis = -1> (own, p, q) Y = GatherND(X, k)", True),
    "several of a sample": (
        "int64[N, 3] i", """p = Unsqueeze(i, last) f = Unsqueeze(own, last) d = Shape(p) e = Expand(f, d)
        k = Concat <axis = -1> (e, p) Y = GatherND(X, k)""", True),
    "the other way round": ("int64[N] i", "p = Unsqueeze(i, a) k = Concat <axis = 1> (p, own) Y = GatherND(X, k)", False),
    "of every second": (
        "int64[N] i", "p = Unsqueeze(i, a) h = Div(own, two) k = Concat <axis = 1> (h, p) Y = GatherND(X, k)", False),
}
X = np.random.default_rng(2).normal(size=(4, 5, 6)).astype(np.float32)


def model(interface: str, body: str) -> ModelProto:
    proto = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[N, 5, 6] X, {interface}) => (float[q] Y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64[1] two = {{2}}, int64[1] a = {{1}}, int64[1] last = {{-1}}> {{
        s = Shape <start = 0, end = 1> (X) n = Squeeze(s) r = Range(zero, n, one) own = Unsqueeze(r, a) {body} }}""")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.engine
@pytest.mark.parametrize("name", ROWS)
def test_samples_do_not_depend_on_each_other(name: str) -> None:
    interface, body, is_divided = ROWS[name]
    proto = model(interface, body)
    script = import_model(proto)
    assert (script.batch is not None) is is_divided
    shape = {"int64[N] i": (4,), "int64[N, 2] i": (4, 2), "int64[N, 3] i": (4, 3)}[interface]
    indices = np.random.default_rng(1).integers(-4, 4, shape)
    runtime = onnxruntime.InferenceSession(proto.SerializeToString())
    for rows in (4, 1):
        feeds = {"X": X[:rows], "i": indices[:rows] if is_divided else abs(indices[:rows]) % rows}
        expected = runtime.run(None, feeds)[0]
        for options in ({}, {"parts": 2, "specialise_after": 1}):
            with ScoringFunction(script, **options) as function:  # type: ignore[arg-type]
                for _ in range(3 if options else 1):
                    np.testing.assert_array_equal(function(feeds)["Y"], expected)
