"""Loops over matrices that hold zeros at first, or in one call only: the engine expects zeros of them for good."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_failures import all_failures
from tests.operators.harness import Array
from tests.plain_engine import scored_together

GRAPHS = {
    "the sum of two states": """(float[n,2] x, int64 trips) => (float[t,2,n] y) {
      p, q, y = Loop (trips, , x, x) <body = b (int64 i, bool go, float[n,2] p, float[n,2] q) =>
        (bool go2, float[n,2] p2, float[n,2] q2, float[2,n] o) {
          go2 = Identity (go) s = Add (p, q) o = Transpose (s) p2 = Add (p, x) q2 = Sub (x, q) }> }""",
    "zeros that are known": """(float[3,2] x, int64 trips) => (float[t,2,3] y) <float[3,2] z = {0, 0, 0, 0, 0, 0}> {
      p, q, y = Loop (trips, , z, z) <body = b (int64 i, bool go, float[3,2] p, float[3,2] q) =>
        (bool go2, float[3,2] p2, float[3,2] q2, float[2,3] o) {
          go2 = Identity (go) s = Add (p, q) o = Transpose (s) p2 = Add (p, x) q2 = Sub (x, q) }> }""",
    "a state and what is captured": """(float[n,2] x, int64 trips) => (float[t,n,2] y) {
      p, q, y = Loop (trips, , x, x) <body = b (int64 i, bool go, float[n,2] p, float[n,2] q) =>
        (bool go2, float[n,2] p2, float[n,2] q2, float[n,2] o) {
          go2 = Identity (go) p2 = Add (p, x) q2 = Max (q, q) o = Identity (p2) }> }""",
    "a sum beside a loop": """(float[n,2] x, int64 trips) => (float[2,n] y, float[n,2] l) {
      a = Abs (x) s = Add (x, a) y = Transpose (s)
      l = Loop (trips, , x) <body = b (int64 i, bool go, float[n,2] p) => (bool go2, float[n,2] q) {
        go2 = Identity (go) q = Mul (p, a) }> }""",
    "handed on three times": """(float[3,2] x, int64 trips) => (float[t,2,3] y) <float[3,2] z = {0, 0, 0, 0, 0, 0}> {
      p, q, r, y = Loop (trips, , z, z, z) <body = b (int64 i, bool go, float[3,2] p, float[3,2] q, float[3,2] r) =>
        (bool go2, float[3,2] p2, float[3,2] q2, float[3,2] r2, float[2,3] o) {
          go2 = Identity (go) o = Transpose (p) p2 = Identity (q) q2 = Identity (r) r2 = Identity (x) }> }""",
    "zeros in the loop only": """(float[3,2] x, int64 trips) => (float[2,2] y) <float[3,2] z = {0, 0, 0, 0, 0, 0}> {
      p = Loop (trips, , x) <body = b (int64 i, bool go, float[3,2] p) => (bool go2, float[3,2] q) {
        go2 = Identity (go) q = Identity (z) }>
      t = Transpose (p) y = MatMul (t, x) }""",
    "a scan": """(float[3,2] x, int64 trips) => (float[3,2,1] y) {
      z = Constant <value = float[2] {0, 0}> ()
      p, q, y = Scan <num_scan_inputs = 1, body = b (float[2] p, float[2] q, float[2] r) =>
        (float[2] p2, float[2] q2, float[2,1] o) {
          s = Add (p, q) k = Constant <value_ints = [2, 1]> () o = Reshape (s, k)
          p2 = Add (p, r) q2 = Sub (r, q) }> (z, z, x) }""",
}


def calls() -> list[dict[str, Array]]:
    x = np.float32([[1, -2], [0, 5], [7, 0.5]])
    return [{"x": values, "trips": np.array(trips)} for values, trips in ((0 * x, 4), (x, 5), (0 * x, 0), (x, 0), (x, 1))]


def wanted(graph: str) -> tuple[bytes, list[dict[str, Array]]]:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> loops {graph}').SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return model, [dict(zip(names, session.run(None, call))) for call in calls()]


def check(given: list[dict[str, Array]], expected: list[dict[str, Array]]) -> None:
    for number, (some, others) in enumerate(zip(given, expected, strict=True)):
        for name, value in others.items():
            if value.size:  # of a loop without trips onnxruntime tells no sizes
                np.testing.assert_array_equal(some[name], value, err_msg=f"{name} of call {number}")


@pytest.mark.parametrize("specialise_after", [20, 1])
@pytest.mark.parametrize("graph", GRAPHS)
def test_prepared(graph: str, specialise_after: int) -> None:
    model, expected = wanted(GRAPHS[graph])
    with ScoringFunction(import_model(model), specialise_after=specialise_after) as function:
        for _ in range(2):
            check([function(call) for call in calls()], expected)


@pytest.mark.parametrize("open_sizes", [False, True])
def test_by_the_command_line(open_sizes: bool) -> None:
    found = {name: wanted(graph) for name, graph in GRAPHS.items()}
    cases = {name: (import_model(model), calls()) for name, (model, _) in found.items()}
    results = scored_together(cases, open_sizes=open_sizes)
    with all_failures() as case:
        for name, (_, expected) in found.items():
            with case(name):
                check(results[name], expected)
