"""What is taken from places of a NonZero that finds none: the engine's sequences count down to 0 (sequence-to-zero)."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import results_of_all_forms
from tests.operators.harness import Array, compare, run_reference
from tests.plain_engine import programs_plainly

FOUND = np.array([[1, 2, 3], [-4, -5, -6], [7, 8, 9]], np.float32)
RUNS = [FOUND, -abs(FOUND), FOUND[:, :2], -abs(FOUND[:2, :1])]
PRODUCERS = {
    "rows": "y = Gather(x, places)",
    "rows by a matrix of places": "found = Unsqueeze(places, zero) y = Gather(x, found)",
    "columns": "turned = Transpose(x) y = Gather<axis = 1>(turned, places)",
    "columns of several": "deep = Unsqueeze(x, zero) pair = Concat<axis = 0>(deep, deep) y = Gather<axis = 1>(pair, places)",
    "rows by tuples": "y = GatherND(x, tuples)",
    "rows replaced": "u = GatherND(x, tuples) v = Neg(u) y = ScatterND(x, tuples, v)",
    "rows added": 'u = GatherND(x, tuples) v = Neg(u) y = ScatterND<reduction = "add">(x, tuples, v)',
    "rows multiplied": 'u = GatherND(x, tuples) v = Neg(u) y = ScatterND<reduction = "mul">(x, tuples, v)',
    "reversed": "z = Gather(x, places) t = Transpose(z) o = Mul(places, zero) l = Add(o, one) "
                "y = ReverseSequence<batch_axis = 1, time_axis = 0>(t, l)",
}


def model(producer: str) -> onnx.ModelProto:
    """The rows of ``x`` with a sum above 0 are found."""
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[n, m] x) => (float y) <int64[1] zero = {{0}}, int64[1] one = {{1}}, float none = {{0.0}}> {{
          sum = ReduceSum<keepdims = 0>(x, one) above = Greater(sum, none) row = NonZero(above)
          places = Squeeze(row, zero) tuples = Transpose(row) {producer}
        }}""")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(made)


def expected(name: str) -> list[Array]:
    return [np.asarray(run_reference(model(PRODUCERS[name]), {"x": run})[0]) for run in RUNS]


@pytest.mark.parametrize("name", PRODUCERS)
def test_scoring(name: str) -> None:
    with ScoringFunction(import_model(model(PRODUCERS[name]))) as function:
        for run, right in zip(RUNS, expected(name), strict=True):
            for result in results_of_all_forms(function, {"x": run}):
                compare(result["y"], right, 1e-6, name)


def test_command_line() -> None:
    scripts: list[Script] = [import_model(model(producer)) for producer in PRODUCERS.values()]
    found = programs_plainly([(script, [{"x": run} for run in RUNS]) for script in scripts])
    for name, results in zip(PRODUCERS, found, strict=True):
        for result, right in zip(results, expected(name), strict=True):
            compare(result["y"], right, 1e-6, name)
