"""Values of unknown dims that come from a choice: beside a scalar the engine takes the dims of an ifelse for 0 x 0.

What reads them next must not be misled, so each such operator is followed by others that cut, order and multiply.
"""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying.judging import judgement
from tests.operators.harness import compare, random

PRODUCERS = [
    "y = ThresholdedRelu<alpha = 0.2>(x)",
    "y = Shrink<lambd = 0.3, bias = 0.1>(x)",
    "y = Where(c, x, half)",
    "y = Where(c, half, x)",
    "y = Where(c, half, two)",
    "sum = ReduceSum(x) less = Less(sum, half) y = Where(less, x, half)",
    "sum = ReduceSum(x) more = Greater(sum, half) y = Where(more, half, x)",
    "y = CumSum<exclusive = 1>(x, last)",
    "y = Trilu(x)",
    "y = Mod<fmod = 1>(x, x2)",
    "y = Round(x)",
    "y = Asinh(x)",
    "y = Atanh(x3)",
    "y = ReduceLogSumExp<keepdims = 1>(x, axes)",
    "y, places = TopK(x, three)",
    "h, places = TopK(x, three) i = Cast<to = 23>(h) y = Cast<to = 1>(i)",
    "h = GreaterOrEqual(x, half) i = Cast<to = 7>(h) i2 = ReduceMax<keepdims = 0>(i, axes) y = OneHot(i2, four, pair)",
]


@pytest.mark.parametrize("producer", PRODUCERS)
def test_what_follows_a_choice(producer: str) -> None:
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 23]>
        g (float[n, m] x, bool[n, m] c) => (float[k, l] cut, int64[n] best, float[n, l] total, float[n, n] square)
        <float half = {{0.5}}, float two = {{2.0}}, int64[1] first = {{0}}, int64[1] end = {{-1}}, int64 last = {{1}},
         int64[1] axes = {{1}}, int64[1] three = {{3}}, int64 four = {{4}}, float[2] pair = {{-1.0, 2.5}}> {{
          x2 = Cos(x) x3 = Tanh(x) {producer}
          cut = Slice(y, first, end, first)
          best = ArgMax<axis = 1, keepdims = 0>(y)
          total = CumSum(y, last)
          t = Transpose(y)
          square = MatMul(y, t)
        }}""")
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    script = import_model(onnx.shape_inference.infer_shapes(model))
    with ScoringFunction(script) as function:
        for dims in [(3, 5), (6, 4)]:
            feeds = {"x": random(*dims), "c": random(*dims, dtype="bool", seed=1)}
            actual, expected = function(feeds), judgement(model, feeds).outputs
            for port in script.outputs:
                compare(actual[port.name], expected[port.name], 1e-5, f"{producer} {port.name} {dims}")
