"""What takes the rows that NonZero, Compress or NonMaxSuppression find, where the run finds none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying import judging
from tests.operators.harness import compare

HEAD = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 3] x, float[n] level) => (float[%s] y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[2] column = {-1, 1},
     int64[3] image = {-1, 1, 3}, int64[3] images = {-1, 1, 3}, int64[2] parts = {2, 1}, int64 axis = {0},
     int64[1] rest = {5}, float[1, 1, 3] filter = {1, 2, 3}, float limit = {0.5}, float[3] factors = {1, 2, 3}> {
      high = Greater(level, limit)
      found = NonZero(high)
      turned = Transpose<perm = [1, 0]>(found)
      rows = Squeeze(turned, one)
      taken = Gather<axis = 0>(x, rows)
      changed = Mul(taken, factors)
      upright = Reshape(rows, column)
      shape = Shape(taken)
"""
TAKING = {
    "Add of a row": ("k, 3", "y = Add(taken, factors)"),
    "Add of scaled rows": ("k, 3", "half = Mul(taken, limit) y = Add(changed, half)"),
    "ArgMax": ("k", "at = ArgMax<axis = 1, keepdims = 0>(taken) y = Cast<to = 1>(at)"),
    "Conv": ("k, 1, 3", "deep = Reshape(taken, image) y = Conv<pads = [1, 1]>(deep, filter)"),
    "CumSum": ("k, 3", "y = CumSum(taken, axis)"),
    "LayerNormalization": ("k, 3", "y = LayerNormalization(taken, factors)"),
    "Mod": ("k", "four = Add(rows, rest) m = Mod(four, two) y = Cast<to = 1>(m)"),
    "NonZero of nothing": ("k", "many = Greater(taken, limit) all = NonZero(many) r = ReduceSum<keepdims = 0>(all, zero)"
                                " y = Cast<to = 1>(r)"),
    "Split": ("k, 1", "a, y = Split<axis = 1>(taken, parts)"),
    "TopK": ("k, 2", "y, at = TopK(taken, two)"),
    "Transpose": ("3, k, 2", "pair = Reshape(changed, images) both = Concat<axis = 1>(pair, pair)"
                             " y = Transpose<perm = [2, 0, 1]>(both)"),
    "Unique": ("k", "y = Unique(taken)"),
    "Concat": ("m, 3", "y = Concat<axis = 0>(taken, x, taken)"),
    "Compress": ("m, 3", "y = Compress<axis = 0>(x, high)"),
    "GatherElements": ("k, 3", "index = Expand(upright, shape) y = GatherElements<axis = 0>(x, index)"),
    "GatherND": ("k, 3", "y = GatherND(x, turned)"),
    "MatMul": ("3, 3", "t = Transpose<perm = [1, 0]>(taken) y = MatMul(t, taken)"),
    "Pad beside a cut": ("m, 2", "pads = Constant<value = int64[4] {0, -1, 1, 0}>() y = Pad(taken, pads)"),
    "Pad of cut rows": ("m, 4", "pads = Constant<value = int64[4] {-1, 1, 2, 0}>() y = Pad(taken, pads)"),
    "ReduceLogSumExp": ("1, 1", "y = ReduceLogSumExp(taken)"),
    "ReduceMax of integers": ("1, 1", "few = Cast<to = 6>(found) m = ReduceMax(few) y = Cast<to = 1>(m)"),
    "ReduceMin": ("", "y = ReduceMin<keepdims = 0>(taken)"),
    "ReduceProd": ("3", "y = ReduceProd<keepdims = 0>(taken, zero)"),
    "ReduceSum": ("3", "y = ReduceSum<keepdims = 0>(taken, zero)"),
    "ScatterElements": ("n, 3", "index = Expand(upright, shape) y = ScatterElements<axis = 0>(x, index, changed)"),
    "ScatterElements max":
        ("n, 3", 'index = Expand(upright, shape) y = ScatterElements<axis = 0, reduction = "max">(x, index, changed)'),
    "ScatterND": ("n, 3", "y = ScatterND(x, turned, changed)"),
    "ScatterND add": ("n, 3", 'y = ScatterND<reduction = "add">(x, turned, changed)'),
    "Slice": ("k, 2", "y = Slice(taken, one, three, one)"),
    "Slice to before its start": ("m, 3", "count = Slice(shape, zero, one) y = Slice(x, two, count)"),
    "Softmax": ("k, 3", "y = Softmax<axis = 1>(taken)"),
}


@pytest.mark.parametrize("case", TAKING)
def test_case(case: str) -> None:
    """One script serves some, no and all rows."""
    dims, nodes = TAKING[case]
    model = parser.parse_model(f"{HEAD % dims}{nodes} }}")
    x = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    with ScoringFunction(import_model(model)) as score:
        for level in ([1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]):
            feeds = {"x": x, "level": np.array(level, np.float32)}
            compare(score(feeds)["y"], judging.judge(model, feeds)["y"], 1e-5, f"{case} {level}")


def test_the_mean_of_nothing_is_refused() -> None:
    model = parser.parse_model(f"{HEAD % '3'} y = ReduceMean<keepdims = 0>(taken, zero) }}")
    with ScoringFunction(import_model(model)) as score, pytest.raises(ScriptRuntimeError, match='axis 0 of "taken" is 0'):
        score({"x": np.ones((4, 3), np.float32), "level": np.zeros(4, np.float32)})


def test_what_a_loop_collects_in_no_trips() -> None:
    """So are a Range of floats, whose length only the run knows, and a slice to a place that an input says."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (int64 n, float last, float[3] w) => (float[k, 3] y, float[k, 3] z, int64[2, m] at, float[l, 3] r, float[j, 3] s)
        <bool yes = {1}, int64[1] zero = {0}, int64[1] one = {1}, float[2, 3] rows = {1, 2, 3, 4, 5, 6}, float from = {0}, float by = {1}> {
          t = Loop(n, yes) <body = b (int64 i, bool c) => (bool d, float[3] o) {
            d = Identity(c) f = Cast<to = 1>(i) o = Mul(w, f) }>
          y = Add(t, w)
          z = Softmax<axis = 0>(t)
          at = NonZero(t)
          seq = Range(from, last, by)
          column = Unsqueeze(seq, one)
          r = Add(column, w)
          end = Unsqueeze(n, zero)
          cut = Slice(rows, zero, end, zero)
          s = Add(cut, w) }""")
    with ScoringFunction(import_model(model)) as score:
        for n in (2, 0, 1):
            feeds = {"n": np.array(n), "last": np.array(n, np.float32), "w": np.array([1, -2, 3], np.float32)}
            results, expected = score(feeds), judging.judge(model, feeds)
            for name in ("y", "z", "at", "r", "s"):
                compare(results[name], expected[name], 1e-5, f"{name} {n}")


@pytest.mark.parametrize("split", ["one = Constant<value = int64 {1}>() y = SplitToSequence(high, one)", "y = SplitToSequence(high)",
                                   "y = SplitToSequence<keepdims = 0>(high)"])
def test_items_of_nothing(split: str) -> None:
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]> g (float[n] x, float level) => (seq(float[k]) y) {{
        is = Greater(x, level) high = Compress<axis = 0>(x, is) {split} }}""")
    with ScoringFunction(import_model(model)) as score:
        for level in (3, 0, 1):
            assert [item.item() for item in score({"x": np.array([1, 2], np.float32), "level": np.float32(level)})["y"]] == [1, 2][level:]


def test_a_loop_with_fewer_than_no_trips_collects_nothing() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]> g (float x) => (float[1, k] y)
        <int64 one = {1}, int64 less = {-1}, int64[1] first = {0}> {
          n = Min(one, less)
          t = Loop(n, "") <body = b (int64 i, bool c) => (bool d, float o) { d = Identity(c) o = Neg(x) }>
          y = Unsqueeze(t, first) }""")
    with ScoringFunction(import_model(model)) as score:
        assert score({"x": np.float32(2)})["y"].shape == (1, 0)


SIZED = {
    "Expand, Add": "rows = Expand(row, shape) y = Add(rows, w)",
    "ConstantOfShape, Gemm": "rows = ConstantOfShape(shape) y = Gemm(rows, square, w)",
    "Tile, Softmax": "copies = Concat<axis = 0>(n, one) rows = Tile(row, copies) y = Softmax<axis = 0>(rows)",
    "Pad, Mean": "less = Sub(n, one) pads = Concat<axis = 0>(zero, zero, less, zero) rows = Pad(row, pads) y = Mean(rows, w)",
    "TopK, LayerNormalization": "rows, at = TopK<axis = 0>(square, n) y = LayerNormalization(rows, w)",
    "Split, Add": "rest = Sub(three, n) parts = Concat<axis = 0>(n, rest) rows, left = Split<axis = 0>(square, parts)"
                  " y = Add(rows, w)",
}
SIZES = """<ir_version: 8, opset_import: ["": 18]>
    g (%s float[3] w) => (float[k, 3] y)
    <float[1, 3] row = {1, 2, 3}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3},
     float[3, 3] square = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
      %s shape = Concat<axis = 0>(n, three)
      %s }"""


@pytest.mark.parametrize("case", SIZED)
def test_a_size_that_an_input_says(case: str) -> None:
    """Of 0 rows a row that is added, as by the engine, made one."""
    model = parser.parse_model(SIZES % ("int64[1] n,", "", SIZED[case]))
    with ScoringFunction(import_model(model)) as score:
        for n in (2, 0, 1):
            feeds = {"n": np.array([n]), "w": np.array([1, -2, 3], np.float32)}
            compare(score(feeds)["y"], judging.judge(model, feeds)["y"], 1e-5, f"{case} {n}")


@pytest.mark.parametrize("case", SIZED)
def test_a_size_that_sizes_of_inputs_say(case: str) -> None:
    """Layers of whole networks would stand in conditions: the script stops in words instead."""
    model = parser.parse_model(SIZES % ("float[N] x,", "all = Shape(x) n = Sub(all, one)", SIZED[case]))
    assert re.search(r'is " \+ \(N - 1\) \+\s+"; the script takes it to be larger', import_model(model).text)
