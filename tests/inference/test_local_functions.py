"""A model's own functions become DML functions: called, shared between equal calls, judged by onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from onnx_systemds import backend, import_model
from tests.operators.harness import random

HEAD = '<ir_version: 10, opset_import: ["" : 18, "my" : 1]>\n'
FUNCTIONS = """
<domain: "my", opset_import: ["" : 18, "my" : 1]>
block <alpha> (x, w) => (y) {
  h = MatMul(x, w)
  r = LeakyRelu <alpha : float = @alpha> (h)
  s = Shape(r)
  z = Reshape(r, s)
  t = Tanh(z)
  u = my.inner(t)
  y = Add(u, x)
}
<domain: "my", opset_import: ["" : 18]>
inner (x) => (y) { a = Exp(x) b = Sin(a) c = Cos(b) y = Sub(c, a) }
<domain: "my", opset_import: ["" : 18]>
small (x) => (y) { y = Neg(x) }
<domain: "my", opset_import: ["" : 18]>
tail (x, k) => (y, n) {
  zero = Constant <value_ints = [0]> ()
  end = Constant <value_ints = [9223372036854775807]> ()
  y = Slice(x, k, end, zero)
  s = Shape(y)
  s_ = Cast <to = 1> (s)
  z = Exp(s_)
  n = ReduceSum <keepdims = 0> (z)
}
<domain: "my", opset_import: ["" : 18]>
positive (x) => (y, i) { z = Constant <value_float = 0.0> () b = Greater(x, z) i = NonZero(b) t = Transpose(i) y = GatherND(x, t) }
<domain: "my", opset_import: ["" : 18]>
optional (x, low, high) => (y) { a = Clip(x, low, high) b = Abs(a) c = Exp(b) y = Neg(c) }
"""


def check(graph: str, *runs: dict[str, np.ndarray]) -> str:
    """Compare the engine with onnxruntime; returns the script."""
    model = onnx.parser.parse_model(HEAD + graph + FUNCTIONS)
    judge = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    prepared = backend.prepare(model)
    for inputs in runs:
        for actual, expected in zip(prepared.run(inputs), judge.run(None, inputs), strict=True):
            assert actual.shape == expected.shape and actual.dtype == expected.dtype
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    prepared.close()
    return import_model(model).text


def test_equal_calls_share_a_function() -> None:
    text = check("""g (float[N,4] x, float[4,4] w) => (float[N,4] y) {
        v = Constant <value = float[4,4] {1.,2.,3.,4.,5.,6.,7.,8.,9.,1.,2.,3.,4.,5.,6.,7.}> ()
        a = my.block <alpha = 0.5> (x, w)
        b = my.block <alpha = 0.5> (a, v)
        c = my.block <alpha = 0.25> (b, w)
        y = my.small(c)
    }""", {"x": random(3, 4), "w": random(4, 4)}, {"x": random(1, 4), "w": random(4, 4)})
    assert text.count("= function(") == 4  # one per alpha, the inner one, the main one
    assert text.count("gen_inner(") == 2


def test_small_functions_are_put_in_place() -> None:
    text = check("g (float[N,4] x) => (float[N,4] y) { y = my.small(x) }", {"x": random(3, 4)})
    assert text.count("= function(") == 1


def test_run_time_sizes_inside() -> None:
    graph = "g (float[N] x) => (float[M] y, int64[1,M] i) { y, i = my.positive(x) }"
    text = check(graph, {"x": random(7)}, {"x": random(4, seed=1)})
    assert "gen_positive" in text


def test_contents_decide_the_body() -> None:
    text = check("""g (float[N,4] x) => (float[M,4] y, float n, float[K,4] z) {
        one = Constant <value_ints = [1]> ()
        two = Constant <value_ints = [2]> ()
        y, n = my.tail(x, one)
        z, m = my.tail(y, two)
    }""", {"x": random(5, 4)}, {"x": random(4, 4)})
    assert "gen_tail = function" in text and "gen_tail_2 = function" in text


@pytest.mark.parametrize("call", ["my.optional(x, low, high)", "my.optional(x, , high)", "my.optional(x)"])
def test_omitted_inputs(call: str) -> None:
    graph = f"""g (float[N] x) => (float[N] y) {{
        low = Constant <value_float = -0.5> ()
        high = Constant <value_float = 0.5> ()
        y = {call}
    }}"""
    check(graph, {"x": random(6)})
