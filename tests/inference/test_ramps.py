"""Integers that follow from their places: what is known of them is what they are, and what reads them is no look-up."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.importing.convert import typed_model
from onnx_systemds.importing.script import Script
from onnx_systemds.inference.dims import substitute
from onnx_systemds.inference.ramps import ramp_of
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.scoring import ScoringFunction

X = np.arange(12, dtype=np.float32).reshape(3, 4)
MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[b, s] X%s) => (%s)
    <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] last = {-1}, int64[1] at0 = {0}, int64[1] at1 = {1}, int64[1] at2 = {2}, int64[1] at9 = {9},
     int64[2] starts = {0, 1}, int64[2] ends = {2, 9}, int64[2, 2] table = {5, 7, 6, 8}, int64[2, 2] uneven = {5, 7, 6, 9},
     int64[8] nothing = {0, 0, 0, 0, 0, 0, 0, 0}, int64[2] front = {0, 1}, int64[3] tiles = {1, 2, 1}, int64[8] places = {0, 1, 2, 3, 4, 5, 6, 7}, int32 large = {1000000000},
     float[8, 2] W = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, float low = {-1}, float high = {1}> {
    d = Shape(X) n = Slice(d, at0, at1, at0) rows = Squeeze(n) m = Slice(d, at1, at2, at0) cols = Squeeze(m)
    i = Range(zero, rows, one) j = Range(zero, cols, one) column = Unsqueeze(i, last) down = Unsqueeze(j, last) each = Expand(j, d)
    %s }"""
FOLLOWED = {
    "numbers of rows": "R = Identity(column)",
    "a number for each element": "k = Mul(column, cols) R = Add(k, j)",
    "backwards": "R = Sub(one, j)",
    "part": "R = Slice(each, starts, ends)",
    "each second": "t = Add(front, one) R = Slice(each, starts, ends, front, t)",
    "a column before": "f = Slice(each, at0, at1, at1) g = Sub(f, one) R = Concat <axis = -1> (g, each)",
    "single columns": "f = Slice(each, at0, at1, at1) g = Add(f, two) R = Concat <axis = -1> (f, g)",
    "a constant": "k = Mul(j, zero) e = Slice(k, at0, at1) R = Add(table, e)",
    "of a constant": "k = Unsqueeze(table, last) R = Add(k, j)",
    "dims away": "e = Unsqueeze(each, at0) R = Squeeze(e, at0)",
    "the same everywhere, flat": "e = Expand(two, d) R = Reshape(e, last)",
    "true everywhere": "R = GreaterOrEqual(j, zero)",
    "false everywhere": "R = Less(j, zero)",
    "all steps": "e = Add(cols, one) f = Range(zero, e, one) to = Unsqueeze(e, at0) g = Slice(f, at1, to) h = Sub(g, j) R = Equal(h, one)",
    "not": "t = GreaterOrEqual(j, zero) R = Not(t)",
    "both": "t = GreaterOrEqual(j, zero) f = Less(down, zero) R = And(t, f)",
    "either": "t = GreaterOrEqual(j, zero) f = Less(down, zero) R = Or(t, f)",
    "sums of nothing": "e = Expand(zero, d) R = CumSum(e, one)",
    "cast": "t = GreaterOrEqual(j, zero) c = Cast <to = 7> (t) R = Cast <to = 9> (c)",
    "taken of what is the same": "c = Range(zero, rows, one) k = Slice(places, at0, m) R = GatherElements <axis = 0> (nothing, k)",
}
NOT_FOLLOWED = {
    "gaps": "R = Concat <axis = 0> (j, j)",
    "uneven": "R = Add(uneven, rows)",
    "some": "R = Greater(j, zero)",
    "what the run adds": "R = Add(j, rows)",
    "other dims": "R = Reshape(each, last)",
    "from the end": "R = Slice(j, last, at9)",
    "places that may not be there": "R = Gather(nothing, j)",
    "wraps": "c = Cast <to = 6> (j) R = Mul(c, large)",
}



def model(body: str, outputs: str = "int64[q] R", inputs: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL % (inputs, outputs, body))


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_follows_from_places_is_known(name: str) -> None:
    proto = model(FOLLOWED[name])
    ramp = ramp_of(typed_model(load_model(proto)).graph.values["R"])
    expected = ReferenceEvaluator(proto).run(None, {"X": X})[0]
    assert ramp is not None and len(ramp.steps) == expected.ndim
    found = np.array(ramp.start)
    for axis, step in enumerate(ramp.steps):
        number = substitute(step, {"b": 3, "s": 4})
        found = np.expand_dims(found, -1) + np.arange(expected.shape[axis]) * number
    assert np.array_equal(found, expected)
    assert ramp.low is None or ramp.low <= expected.min()
    assert ramp.high is None or ramp.high >= expected.max()


@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_what_does_not_follow_evenly_is_not_known(name: str) -> None:
    assert ramp_of(typed_model(load_model(model(NOT_FOLLOWED[name]))).graph.values["R"]) is None


READ = {
    "rows": "R0 = Gather(W, j)",
    "rows for each sample": "R1 = Gather(W, each)",
    "rows from the third on": "k = Add(down, two) R2 = Gather(W, k)",
    "one row": "k0 = Mul(each, zero) o = Add(k0, two) R3 = Gather(W, o)",
    "masks": "t = GreaterOrEqual(j, zero) R4 = And(t, M)",
    "masks of more elements": "t1 = GreaterOrEqual(down, zero) c = Unsqueeze(M, at1) R5 = And(c, t1)",
    "up to the row": "e1 = Expand(j, d) e2 = Unsqueeze(e1, at1) e3 = Unsqueeze(down, at0) e4 = LessOrEqual(e2, e3) r1 = Where(e4, low, high) u1 = Unsqueeze(X, at1) R6 = Add(u1, r1)",
    "before": "R7 = Less(j, column)",
    "behind": "k1 = Add(j, two) k2 = Unsqueeze(k1, at0) R8 = Greater(column, k2)",
    "shifted": "k3 = Add(column, two) k4 = Unsqueeze(j, at0) R9 = GreaterOrEqual(k4, k3)",
    "a mask repeated between its axes": "v = Concat <axis = 0> (n, at2, m) m1 = Unsqueeze(M, at1) m2 = Expand(m1, v) r2 = Where(m2, low, high) x1 = Unsqueeze(X, at1) x2 = Tile(x1, tiles) R10 = Add(x2, r2)",
}
TYPES = {"R4": "bool", "R5": "bool", "R7": "bool", "R8": "bool", "R9": "bool"}


def read_model() -> onnx.ModelProto:
    """All of `READ` in one model, to start the engine once."""
    ranks = (2, 3, 3, 3, 2, 3, 3, 2, 2, 2, 3)
    outputs = [f"{TYPES.get(f'R{at}', 'float')}[{', '.join(f'q{at}_{axis}' for axis in range(rank))}] R{at}"
               for at, rank in enumerate(ranks)]
    return model("\n".join(READ.values()), ", ".join(outputs), ", bool[b, s] M")


def test_what_is_read_by_places_is_what_it_was() -> None:
    given: dict[str, Any] = {"X": X, "M": X % 3 == 0}
    proto = read_model()
    script: Script = import_model(proto)
    assert "gather_index(" not in script.text and "count_up(" not in script.text
    sums = [node for node in typed_model(load_model(proto)).graph.nodes if node.outputs == ("R10",)]
    assert [node.inputs for node in sums] == [("x2", "r2/chosen")]  # the mask is not repeated
    with ScoringFunction(script) as function:
        found = function(given)
    for name, expected in zip([it.name for it in proto.graph.output], ReferenceEvaluator(proto).run(None, given)):
        assert np.array_equal(found[name], expected), name
