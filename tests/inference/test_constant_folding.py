"""Operators of known inputs, as masks and positions are made of where sizes are known: the script has their results."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_systemds import import_model
from tests.plain_engine import scored_together

CONSTANTS = """int64 zero = {0}, int64 one = {1}, int64 last = {-1}, int64 four = {4}, int64[3] places = {2, -1, 0},
    float[2] off_on = {0.5, 3}, bool[2, 3] t = {1, 0, 1, 1, 0, 0}, bool[3] u = {1, 1, 0}, float[2, 3] a = {1, 2, 3, 4, 5, 6},
    float[3] b = {0.1, 0.2, 0.4}, float ten = {10}, int32[2, 3] n = {1, 2, 3, 4, 5, 6},
    float[2, 3] halves = {-1.5, 0.5, 1.5, 2.5, -2.5, 12}, float nothing = {0}, int64[4] around = {1, 0, 0, 2}"""
FOLDED = {
    "sums of columns": "R = CumSum(a, last)",
    "sums of rows, backwards": "R = CumSum <reverse = 1> (a, zero)",
    "sums before": "R = CumSum <exclusive = 1> (a, one)",
    "sums before, backwards": "R = CumSum <exclusive = 1, reverse = 1> (a, one)",
    "sums of integers": "c = CumSum(n, last) R = Cast <to = 1> (c)",
    "either": "c = Xor(t, u) R = Cast <to = 1> (c)",
    "sum": "R = Sum(a, b, ten)",
    "no number": "d = Log(b) e = Sub(d, d) f = Div(e, e) c = IsNaN(f) R = Cast <to = 1> (c)",
    "positions": "R = OneHot(places, four, off_on)",
    "no less": "R = Clip(halves, nothing)",
    "no more": "c = Clip(halves, , ten) R = Abs(c)",
    "no less than 0": "R = Relu(halves)",
    "rounded to even": "c = Round(halves) R = Abs(c)",
    "among others": "R = Pad(a, around, ten)",
    "beside their copies": "R = Pad <mode = \"edge\"> (a, around)",
    "places of others than 0": "c = NonZero(t) R = Cast <to = 1> (c)",
    "positions along the first axis": "R = OneHot <axis = 0> (places, four, off_on)",
}


def model_of(body: str) -> onnx.ModelProto:
    """A model of what is known, R, whose dims inference finds, and of what is not."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] X) => (float R, float[2, 3] Y) <{CONSTANTS}> {{ {body} Y = Neg(X) }}""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.engine
def test_what_is_known_is_computed_at_conversion() -> None:
    inputs = {"X": np.zeros((2, 3), np.float32)}
    models = {name.replace(",", "").replace(" ", "_"): model_of(body) for name, body in FOLDED.items()}
    scripts = {name: import_model(model) for name, model in models.items()}
    for script in scripts.values():
        constant = script.text.partition("  R = matrix(")[2]
        assert constant and set(constant.partition("rows=")[0]) <= set('0123456789. "\n,')
    given = scored_together({name: (script, [inputs]) for name, script in scripts.items()})
    for name, model in models.items():
        wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(["R"], inputs)
        np.testing.assert_array_equal(given[name][0]["R"], wanted[0], err_msg=name)


def test_padding_as_tensorflow_does_is_known_where_images_are() -> None:
    """As TorchScript writes it: what a layer lacks, calculated from Shape, no less than 0, a half of it on each side."""
    rows = [f"""
        at{axis} = Gather (s, {axis}) h{axis} = Cast <to = 1> (at{axis}) d{axis} = Div (h{axis}, two) c{axis} = Ceil (d{axis})
        b{axis} = Sub (c{axis}, one) m{axis} = Mul (b{axis}, two) r{axis} = Add (m{axis}, three) l{axis} = Sub (r{axis}, h{axis})
        p{axis} = Clip (l{axis}, nothing) q{axis} = Div (p{axis}, two) t{axis} = Cast <to = 7> (q{axis})
        f{axis} = Cast <to = 1> (t{axis}) o{axis} = Sub (p{axis}, f{axis}) first{axis} = Unsqueeze (f{axis}, zero)
        last{axis} = Unsqueeze (o{axis}, zero)""".replace(f"Gather (s, {axis})", f"Gather (s, axis{axis})") for axis in (2, 3)]
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[N, 2, 7, 8] X) => (float[N, 2, 4, 4] Y)
        <int64 axis2 = {{2}}, int64 axis3 = {{3}}, float one = {{1}}, float two = {{2}}, float three = {{3}}, float nothing = {{0}},
         int64[1] zero = {{0}}, int64[2] others = {{0, 0}}> {{
          s = Shape (X) {"".join(rows)}
          before = Concat <axis = 0> (first2, first3) after = Concat <axis = 0> (last2, last3)
          i = Cast <to = 7> (before) j = Cast <to = 7> (after)
          pads = Concat <axis = 0> (others, i, others, j) padded = Pad (X, pads, nothing)
          Y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (padded) }}""")
    script = import_model(model)
    assert [str(size) for size in script.outputs[0].dims] == ["N", "2", "4", "4"]
    assert "stop(" not in script.text.replace('stop("X has', "")
