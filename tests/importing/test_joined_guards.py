"""Statements under one condition: several branches become one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import parser

from onnx_systemds import ScoringFunction, import_model
from onnx_systemds.dml.printer import print_block
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.importing.passes.joined_guards import with_joined_guards
from onnx_systemds.verifying import judging
from tests.operators.harness import compare

JOINED = {
    "past what is not of it": (
        """if (n > 0) { a = f(x) } else { a = matrix(0, rows=n, cols=3) }
        b = x + 1
        if (m < 1) { stop("m") }
        if (n > 0) { y = a %*% b } else { y = matrix(0, rows=n, cols=2) }""",
        """b = x + 1
        if (m < 1) { stop("m") }
        if (n > 0) {
          a = f(x)
          y = a %*% b
        } else {
          y = matrix(0, rows=n, cols=2)
        }""",
    ),
    "with what is right on both sides": (
        """if (n > 0) { a = f(x) } else { a = matrix(0, rows=n, cols=3) }
        half = a * 0.5
        other = exp(a)
        if (n > 0) { y = half + a } else { y = matrix(0, rows=n, cols=3) }
        z = half""",
        """if (n > 0) {
          a = f(x)
          half = a * 0.5
          y = half + a
        } else {
          a = matrix(0, rows=n, cols=3)
          half = a * 0.5
          y = matrix(0, rows=n, cols=3)
        }
        other = exp(a)
        z = half""",
    ),
    "with what reads a variable before its next value": (
        """if (n > 0) { a = f(x) } else { a = matrix(0, rows=n, cols=3) }
        v = a * 2
        old = v * 0.5
        v = a * 3
        if (n > 0) { y = v + 1 } else { y = matrix(0, rows=n, cols=3) }
        z = old""",
        """if (n > 0) {
          a = f(x)
          v = a * 2
          old = v * 0.5
          v = a * 3
          y = v + 1
        } else {
          a = matrix(0, rows=n, cols=3)
          v = a * 2
          old = v * 0.5
          y = matrix(0, rows=n, cols=3)
        }
        z = old""",
    ),
    "not past what asks of it": (
        """if (n > 0) { a = f(x) } else { a = matrix(0, rows=n, cols=3) }
        if (max(a) > 5) { stop("a") }
        if (n > 0) { y = g(a) } else { y = matrix(0, rows=n, cols=3) }
        z = y
        other = a""",
        """if (n > 0) {
          a = f(x)
        } else {
          a = matrix(0, rows=n, cols=3)
        }
        if (max(a) > 5) { stop("a") }
        other = a
        if (n > 0) {
          y = g(a)
        } else {
          y = matrix(0, rows=n, cols=3)
        }
        z = y""",
    ),
    "not past one that it needs": (
        """if (n > 0) { a = f(x) } else { a = matrix(0, rows=n, cols=3) }
        if (m > 0) { b = g(a) } else { b = matrix(0, rows=m, cols=3) }
        if (n > 0) { y = a %*% t(b) } else { y = matrix(0, rows=n, cols=m) }""",
        """if (n > 0) {
          a = f(x)
        } else {
          a = matrix(0, rows=n, cols=3)
        }
        if (m > 0) {
          b = g(a)
        } else {
          b = matrix(0, rows=m, cols=3)
        }
        if (n > 0) {
          y = a %*% t(b)
        } else {
          y = matrix(0, rows=n, cols=m)
        }""",
    ),
    "what stops is kept": (
        """if (n > 0) { a = f(x) } else { stop("nothing") }
        if (n > 0) { y = g(a) } else { y = matrix(0, rows=n, cols=3) }""",
        """if (n > 0) {
          a = f(x)
          y = g(a)
        } else {
          stop("nothing")
          y = matrix(0, rows=n, cols=3)
        }""",
    ),
}


@pytest.mark.parametrize("case", JOINED)
def test_statements(case: str) -> None:
    before, after = map(parse_snippet, JOINED[case])
    joined = tuple(with_joined_guards(before, ["y", "z", "other"]))
    assert joined == after, print_block(joined, "")


MODEL = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 3] x, float[n] level) => (float[k, 2] y, float[k, 3] taken)
    <int64[1] one = {1}, float limit = {0.5}, float[3, 4] w1 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
     float[4] b1 = {-30, 20, 10, -5}, float[4, 2] w2 = {1, 2, 3, 4, -5, 6, 7, -8}, float[2] b2 = {1, 2}> {
      high = Greater(level, limit)
      found = NonZero(high)
      turned = Transpose<perm = [1, 0]>(found)
      rows = Squeeze(turned, one)
      taken = Gather<axis = 0>(x, rows)
      h1 = Gemm(taken, w1, b1)
      h2 = Relu(h1)
      h3 = Gemm(h2, w2, b2)
      y = Softmax<axis = 1>(h3)
    }"""


def test_network_of_what_is_found() -> None:
    """A network of the rows that are found is one branch, and right on none and on all of them."""
    model = parser.parse_model(MODEL)
    script = import_model(model)
    body = script.text[script.text.index(f"{script.main.name} = function") :]
    assert len(re.findall(r"^  if \(.* > 0\) \{$", body, re.MULTILINE)) == 1
    assert "y = matrix(0" in body and "h1 = matrix(0" not in body
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    with ScoringFunction(script) as score:
        for level in ([1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]):
            feeds = {"x": x, "level": np.array(level, np.float32)}
            results, expected = score(feeds), judging.judge(model, feeds)
            for name in ("y", "taken"):
                compare(results[name], expected[name], 1e-5, f"{name} {level}")


def test_error_in_a_branch_names_its_node() -> None:
    text = MODEL.replace("h1 = Gemm(taken, w1, b1)", "c = Gather<axis = 1>(taken, at) h1 = Gemm(c, w1, b1)")
    model = parser.parse_model(text.replace("float[n] level)", "float[n] level, int64[3] at)"))
    feeds = {"x": np.ones((4, 3), np.float32), "level": np.ones(4, np.float32), "at": np.array([0, 5, 1])}
    with ScoringFunction(import_model(model)) as score, pytest.raises(ScriptRuntimeError, match=r"node \"#5\".*Gather"):
        score(feeds)
