"""If, Loop and Scan: branches, trips, carried and collected values, captured values, nesting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.engine.errors import ScriptRuntimeError
from onnx_systemds.errors import InvalidModel, TranspileError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import results_of_all_forms
from tests.fuzz.command_line import check_plainly
from tests.fuzz.judging import ModelCase
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Covered, compare, random


@dataclass(frozen=True)
class Model:
    """A model in ONNX's text form, initializers beside it, and the inputs of several runs of one script."""

    name: str
    text: str
    runs: Sequence[Mapping[str, Array]]
    weights: Mapping[str, Array] | None = None
    contains: str = ""
    lacks: str = "never there"

    def __str__(self) -> str:
        return self.name


def parsed(model: Model, opset: int) -> onnx.ModelProto:
    """The model with its initializers, in main graph or in sub-graphs (``graph/name``)."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{model.text}')
    for name, array in (model.weights or {}).items():
        *graph_name, plain = name.split("/")
        graph = _graph(proto.graph, graph_name[0]) if graph_name else proto.graph
        graph.initializer.append(onnx.numpy_helper.from_array(array, plain))
    return proto


def _graph(graph: onnx.GraphProto, name: str) -> onnx.GraphProto:
    found = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return next(inner for inner in found if inner.name == name)


def check(model: Model, opset: int, judge: int | None = None) -> None:
    """One script, all runs, against onnxruntime: at ``judge``, a version that means the same, if it lacks this one.

    It runs as it is, and compiled for the sizes of each run.
    """
    proto = parsed(model, opset)
    script = import_model(proto)
    text = "\n".join(map(print_statement, script.functions))
    assert model.contains in text and model.lacks not in text
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    judged = parsed(model, judge or opset)
    session = onnxruntime.InferenceSession(judged.SerializeToString(), options)
    for specialise_after in (20, 1):
        with ScoringFunction(script, specialise_after=specialise_after) as function:
            for feeds in model.runs:
                judged_outputs = session.run(None, dict(feeds))
                for actual in results_of_all_forms(function, feeds):
                    for port, expected in zip(script.outputs, judged_outputs, strict=True):
                        compare(actual[port.name], np.asarray(expected), 1e-5, f"{model} {port.name}")


X = random(2, 3)
YES, NO = np.array(True), np.array(False)
BOTH = [{"c": YES, "x": X}, {"c": NO, "x": X}]
TRIPS = [{"n": np.array(count, np.int64), "x": X} for count in (0, 1, 5)]

IFS = [
    Model("branches", """
        g (bool c, float[2,3] x) => (float[2,3] y) {
          y = If (c) <then_branch = t () => (float[2,3] a) { a = Exp(x) },
                      else_branch = e () => (float[2,3] b) { z = Neg(x) b = Mul(z, z) }>
        }""", BOTH, contains="} else {"),
    Model("several outputs, one unused", """
        g (bool c, float[2,3] x) => (float[2,3] y, float s) {
          one = Constant<value = float {1.5}>()
          y, unused, s = If (c) <
            then_branch = t () => (float[2,3] a, float[2,3] a2, float a3) { a = Exp(x) a2 = Sin(a) a3 = Identity(one) },
            else_branch = e () => (float[2,3] b, float[2,3] b2, float b3) {
              b = Neg(x) b2 = Cos(b) k = Constant<value = float {2.5}>() b3 = Add(k, one) }>
        }""", BOTH, lacks="cos("),
    Model("captured outputs", """
        g (bool c, float[2,3] x) => (float[2,3] y) {
          h = Exp(x)
          y = If (c) <then_branch = t () => (float[2,3] a) { a = Identity(h) },
                      else_branch = e () => (float[2,3] b) { b = Identity(x) }>
        }""", BOTH),
    Model("differing dims", """
        g (bool c, float[2,3] x) => (float[n,3] z, float[n,1] s) {
          y = If (c) <then_branch = t () => (float[2,3] a) { a = Exp(x) },
                      else_branch = e () => (float[1,3] b) { b = MatMul(w, x) }>
          n = Shape(y)
          k = Cast<to = 1>(n)
          q = MatMul(k, v)
          z = Add(y, q)
          s = MatMul(z, o)
        }""", BOTH, {"w": random(1, 2), "v": random(2, 1), "o": random(3, 1)}),
    Model("sizes of the run under one name in both branches", """
        g (bool c, float[2,3] x) => (int64[2,n] z) {
          y = If (c) <then_branch = t () => (int64[2,n] a) { q = NonZero(x) a = Add(q, q) },
                      else_branch = e () => (int64[2,n] b) { r = Relu(x) q = NonZero(r) b = Add(q, q) }>
          z = Neg(y)
        }""", BOTH),
    Model("nested", """
        g (bool c, bool d, float[2,3] x) => (float[2,3] y) {
          h = Exp(x)
          y = If (c) <
            then_branch = t () => (float[2,3] a) {
              a = If (d) <then_branch = tt () => (float[2,3] aa) { aa = Add(h, w) },
                          else_branch = te () => (float[2,3] ab) { ab = Sub(h, w) }> },
            else_branch = e () => (float[2,3] b) { b = Mul(x, w) }>
        }""", [{"c": c, "d": d, "x": X} for c in (YES, NO) for d in (YES, NO)], {"w": random(2, 3, seed=4)}),
    Model("large weights of one name in both branches", """
        g (bool c, float[2,3] x) => (float[2,40] y) {
          y = If (c) <then_branch = t () => (float[2,40] a) { a = MatMul(x, w) },
                      else_branch = e () => (float[2,40] b) { b = MatMul(x, w) }>
        }""", BOTH, {"t/w": random(3, 40, seed=1), "e/w": random(3, 40, seed=2)}, contains="weights["),
    Model("symbolic dims", """
        g (bool c, float[n,3] x) => (float[n,3] y) {
          y = If (c) <then_branch = t () => (float[n,3] a) { a = Exp(x) },
                      else_branch = e () => (float[n,3] b) {
                        s = Shape(x) k = Cast<to = 1>(s) q = MatMul(k, w) b = Add(x, q) }>
        }""", [{"c": c, "x": random(n, 3)} for c in (YES, NO) for n in (1, 4)], {"w": random(2)}),
    Model("two sizes of the run that the result's rows and columns do not tell", """
        g (bool c, float[2,n,3] x) => (float[q] s, float[2,r,m] z, int64[3] k) {
          y = If (c) <then_branch = t () => (float[2,a,b] v) { v = Identity(x) },
                      else_branch = e () => (float[2,a,b] w) { h = Transpose<perm = [0, 2, 1]>(x) w = Concat<axis = 1>(h, h) }>
          axes = Constant<value_ints = [0, 1]>()
          s = ReduceSum<keepdims = 0>(y, axes)
          z = Transpose<perm = [0, 2, 1]>(y)
          k = Shape(y)
        }""", [{"c": c, "x": random(2, n, 3)} for c in (YES, NO) for n in (2, 5)]),
    Model("an image that one branch enlarges", """
        g (bool c, bool d, float[1,2,h,w] x) => (float[1,2,a,b] y) {
          s = Constant<value = float[4] {1, 1, 2, 3}>()
          y = If (c) <
            then_branch = t () => (float[1,2,a,b] u) {
              u = If (d) <then_branch = tt () => (float[1,2,a,b] p) { p = Resize<mode = "nearest">(x, , s) },
                          else_branch = te () => (float[1,2,a,b] q) { q = Transpose<perm = [0, 1, 3, 2]>(x) }> },
            else_branch = e () => (float[1,2,a,b] v) { v = Identity(x) }>
        }""", [{"c": c, "d": d, "x": random(1, 2, 2, 3)} for c in (YES, NO) for d in (YES, NO)]),
    Model("a size that the columns tell, and another form", """
        g (bool c, float[2,n,3] x) => (float[2,3,m] z) {
          y = If (c) <then_branch = t () => (float[2,a,3] v) { v = Identity(x) },
                      else_branch = e () => (float[2,a,3] w) { w = Concat<axis = 1>(x, x) }>
          z = Transpose<perm = [0, 2, 1]>(y)
        }""", [{"c": c, "x": random(2, n, 3)} for c in (YES, NO) for n in (2, 5)]),
    Model("known condition", """
        g (float[2,3] x) => (float[2,3] y) {
          c = Constant<value = bool {1}>()
          y = If (c) <then_branch = t () => (float[2,3] a) { z = Exp(x) a = Add(z, w) },
                      else_branch = e () => (float[2,3] b) { b = Neg(x) }>
        }""", [{"x": X}], {"t/w": random(2, 3, seed=4)}, lacks="if ("),
    Model("condition of one element", """
        g (bool[1] c, float[2,3] x) => (float[2,3] y) {
          y = If (c) <then_branch = t () => (float[2,3] a) { a = Exp(x) },
                      else_branch = e () => (float[2,3] b) { b = Neg(x) }>
        }""", [{"c": YES.reshape(1), "x": X}, {"c": NO.reshape(1), "x": X}]),
]

PLACE = """
    g (int64 n, float limit, float[2,3] x) => (float[a,3] last, float[b] row, float total) {
      one = Constant<value = float {1.0}>() none = Constant<value = float {0.0}>() yes = Constant<value = bool {1}>()
      last, row, total = Loop (n, GO, none, none, none) <body = b (int64 k, bool c, float p, float q, float a) =>
        (bool c2, float[2,3] p2, float[3] q2, float a2) {
          p2 = Mul(x, a) q2 = Gather(p2, at) a2 = Add(a, one) c2 = CONDITION }>
    }"""
"""As PaddlePaddle writes a while loop: variables that the body sets have a number in their place before."""

LOOPS = [
    Model("trip count", """
        g (int64 n, float[2,3] x) => (float[2,3] y, float[t,2,3] z, int64[t] i) {
          y, z, i = Loop (n, , x) <body = b (int64 k, bool c, float[2,3] v) =>
            (bool c2, float[2,3] v2, float[2,3] s, int64 k2) {
              c2 = Identity(c) v2 = Add(v, w) s = Mul(v, v2) k2 = Identity(k) }>
        }""", [*TRIPS, {**TRIPS[0], "n": np.array(-1)}], {"w": random(2, 3, seed=3)}, contains="for ("),
    Model("a negative count", """
        g (float[2,3] x) => (float[2,3] y, float[t,2,3] z) {
          n = Constant<value = int64 {-1}>()
          y, z = Loop (n, , x) <body = b (int64 k, bool c, float[2,3] v) => (bool c2, float[2,3] v2, float[2,3] s) {
              c2 = Identity(c) v2 = Add(v, x) s = Exp(v) }>
        }""", [{"x": X}]),
    Model("a count that is negative for few rows", """
        g (float[n,2] x) => (float[t,2] z) {
          all = Shape(x) first = Constant<value = int64 {0}>() count = Gather(all, first)
          few = Constant<value = int64 {3}>() m = Sub(count, few) yes = Constant<value = bool {1}>()
          z = Loop (m, yes) <body = b (int64 k, bool c) => (bool c2, float[2] s) {
              c2 = Identity(c) row = Gather<axis = 0>(x, k) s = Exp(row) }>
        }""", [{"x": random(n, 2)} for n in (5, 2, 3)]),
    Model("condition", """
        g (float limit, float[2,3] x) => (float[2,3] y, float total, float[t] z) {
          yes = Constant<value = bool {1}>()
          zero = Constant<value = float {0.0}>()
          y, total, z = Loop (, yes, x, zero) <body = b (int64 k, bool c, float[2,3] v, float a) =>
            (bool c2, float[2,3] v2, float a2, float a3) {
              v2 = Add(v, v) one = Constant<value = float {1.0}>() a2 = Add(a, one)
              c2 = Less(a2, limit) a3 = Mul(a2, a2) }>
        }""", [{"limit": np.array(limit, np.float32), "x": X} for limit in (0, 1, 6.5)], contains="while ("),
    Model("count and condition, both at run time", """
        g (int64 n, bool go, float[2,3] x) => (float[2,3] y, float[t,2,3] z) {
          y, z = Loop (n, go, x) <body = b (int64 k, bool c, float[2,3] v) =>
            (bool c2, float[2,3] v2, float[2,3] s) {
              three = Constant<value = int64 {3}>() c2 = Less(k, three) v2 = Neg(v) s = Exp(v) }>
        }""", [{"n": np.array(n, np.int64), "go": go, "x": X} for n in (0, 2, 9) for go in (YES, NO)]),
    Model("places before the loop, and a condition", PLACE.replace("GO", "yes").replace("CONDITION", "Less(a2, limit)"),
          [{"n": np.array(9), "limit": np.array(limit, np.float32), "x": X} for limit in (0, 3.5, 99)],
          {"at": np.array(1)}, contains="while (", lacks="_total, 1"),
    Model("places before the loop, and a count", PLACE.replace("GO", "").replace("CONDITION", "Identity(c)"),
          [{"n": np.array(n), "limit": np.array(0, np.float32), "x": X} for n in (1, 3)], {"at": np.array(1)}, contains="for ("),
    Model("a number before the loop, a place that is a row", """
        g (float[2,3] x) => (float s, int64 k) {
          n = Constant<value = int64 {3}>() first = Constant<value = float[1,2] {1.0, 2.0}>() zero = Constant<value = int64 {0}>()
          s, k = Loop (n, , first, zero) <body = b (int64 i, bool c, float[1,2] p, int64 j) => (bool c2, float s2, int64 j2) {
            c2 = Identity(c) s2 = ReduceSum<keepdims = 0>(x) j2 = Add(j, i) }>
        }""", [{"x": X}]),
    Model("a number that is a vector of one after an iteration", """
        g (bool go, float[2,3] x) => (bool[a] stopped, int64[b] count, float[2,3] y) {
          yes = Constant<value = bool {1}>() no = Constant<value = bool {0}>() zero = Constant<value = int64 {0}>()
          stopped, count, y = Loop (, yes, no, zero, x) <body = b (int64 i, bool c, bool ended, int64 j, float[2,3] v) =>
            (bool[1] c2, bool[1] ended3, int64[1] j2, float[2,3] v2) {
              one = Constant<value = int64[1] {1}>() three = Constant<value = int64 {3}>()
              j2 = Add(j, one) v2 = Add(v, v) late = Less(three, j2) old = If (go) <
                then_branch = t () => (bool[1] e) { e = Or(ended, late) },
                else_branch = f () => (bool[1] o) { m = Not(ended) o = Or(m, late) }>
              ended3 = Identity(old) c2 = Not(old) }>
        }""", [{"go": go, "x": X} for go in (YES, NO)], contains="while ("),
    Model("what stays as it is, and what nothing reads", """
        g (int64 n, float[3] a, float[3] b) => (float[3] y, float[3] a3, float[3] b3, float[3] d3) {
          y, a3, b3, unused, d3, e3 = Loop (n, , a, a, b, b, a, b) <body = l
            (int64 i, bool c, float[3] y1, float[3] a, float[3] w, float[3] u, float[3] d, float[3] e) =>
            (bool c2, float[3] y2, float[3] a, float[3] w2, float[3] u2, float[3] e, float[3] d) {
              c2 = Identity(c) s = Mul(y1, a) y2 = Add(s, w) w1 = Identity(w) w2 = Identity(w1) u2 = Exp(y2) }>
        }""", [{"n": np.array(n), "a": random(3), "b": random(3, seed=8)} for n in (0, 1, 4)], lacks="exp("),
    Model("known count, only the last value", """
        g (float[2,3] x) => (float[2,3] y) {
          n = Constant<value = int64 {4}>()
          yes = Constant<value = bool {1}>()
          y, z = Loop (n, yes, x) <body = b (int64 k, bool c, float[2,3] v) =>
            (bool c, float[2,3] v2, float[2,3] s) { v2 = Add(v, x) s = Exp(v) }>
        }""", [{"x": X}], lacks="exp("),
    Model("nested loops and ifs", """
        g (int64 n, float[2,3] x) => (float[2,3] y) {
          yes = Constant<value = bool {1}>()
          two = Constant<value = int64 {2}>()
          y = Loop (n, yes, x) <body = b (int64 k, bool c, float[2,3] v) => (bool c2, float[2,3] v2) {
              c2 = Identity(c)
              u = Loop (k, yes, v) <body = b2 (int64 kk, bool cc, float[2,3] vv) => (bool cc2, float[2,3] vv2) {
                cc2 = Identity(cc) f = Cast<to = 1>(k) p = Mul(x, f) vv2 = Add(vv, p) }>
              d = Less(k, two)
              v2 = If (d) <then_branch = t () => (float[2,3] a) { a = Add(u, x) },
                           else_branch = e () => (float[2,3] o) { o = Sub(u, v) }> }>
        }""", TRIPS),
    Model("a value that grows", """
        g (int64 n, float[2,3] x) => (float[m,3] y, float[m,3] y2) {
          y = Loop (n, , x) <body = b (int64 k, bool c, float[r,3] v) => (bool c2, float[r2,3] v2) {
              c2 = Identity(c) v2 = Concat<axis = 0>(v, x) }>
          y2 = Exp(y)
        }""", TRIPS),
    Model("a middle axis that grows, and another form", """
        g (int64 n, float[2,k,3] x) => (float[2,3,m] z) {
          y = Loop (n, , x) <body = b (int64 i, bool c, float[2,p,3] v) => (bool c2, float[2,q,3] v2) {
              c2 = Identity(c) v2 = Concat<axis = 1>(v, x) }>
          z = Transpose<perm = [0, 2, 1]>(y)
        }""", [{"n": np.array(n, np.int64), "x": random(2, 2, 3)} for n in (0, 1, 3)]),
    Model("symbolic dims", """
        g (int64 n, float[b,3] x) => (float[b,3] y, float[t,b,3] z) {
          y, z = Loop (n, , x) <body = b (int64 k, bool c, float[b,3] v) =>
            (bool c2, float[b,3] v2, float[b,3] s) { c2 = Identity(c) v2 = Add(v, x) s = Exp(v) }>
        }""", [{"n": np.array(2, np.int64), "x": random(b, 3)} for b in (1, 4)]),
    Model("a state that takes the old one of another", """
        g (int64 n, float[3] x, float[3] q) => (float[3] y, float[3] z) {
          y, z = Loop (n, , x, q) <body = b (int64 k, bool c, float[3] v, float[3] w) =>
            (bool c2, float[3] v2, float[3] w2) { c2 = Identity(c) v2 = Add(v, w) w2 = Identity(v) }>
        }""", [{"n": np.array(n, np.int64), "x": random(3), "q": random(3, seed=1)} for n in (0, 1, 3)]),
    Model("states that change places, two vectors and two numbers", """
        g (int64 n, float[3] x, float[3] q) => (float[3] y, float[3] z, float f, float h) {
          one = Constant<value = float {1.0}>()
          two = Constant<value = float {2.0}>()
          y, z, f, h = Loop (n, , x, q, one, two) <body = b (int64 k, bool c, float[3] v, float[3] w, float i, float j) =>
            (bool c2, float[3] v2, float[3] w2, float i2, float j2) {
              c2 = Identity(c) v2 = Identity(w) w2 = Identity(v) i2 = Identity(j) j2 = Identity(i) }>
        }""", [{"n": np.array(n, np.int64), "x": random(3), "q": random(3, seed=1)} for n in (0, 1, 3)]),
    Model("states turned about twice that rotate, the old one collected", """
        g (int64 n, float[2,3] x, float[2,3] q, float[2,3] r) => (float[2,3] y, float[2,3] z, float[t,2,3] old) {
          y, z, u, old = Loop (n, , x, q, r) <body = b (int64 k, bool c, float[2,3] v, float[2,3] w, float[2,3] m) =>
            (bool c2, float[2,3] v2, float[2,3] w2, float[2,3] m2, float[2,3] o) {
              c2 = Identity(c) v2 = Neg(v) o = Identity(v) w2 = Identity(m)
              p = Transpose<perm = [1, 0]>(v) m2 = Transpose<perm = [1, 0]>(p) }>
        }""", [{"n": np.array(n, np.int64), "x": X, "q": random(2, 3, seed=1), "r": random(2, 3, seed=2)}
               for n in (0, 1, 4)]),
    Model("what grows from nothing, and a condition of the run", """
        g (bool go) => (float mean, float product) {
          three = Constant<value = int64 {3}>()
          none = Constant<value = int64[0] {}>()
          one = Constant<value = int64[1] {1}>()
          y = Loop (three, go, none) <body = b (int64 k, bool c, int64[p] v) => (bool c2, int64[q] v2) {
              c2 = Identity(c) j = Reshape(k, one) v2 = Concat<axis = 0>(v, j) }>
          f = Cast<to = 1>(y)
          s = Concat<axis = 0>(f, o)
          mean = ReduceMean<keepdims = 0>(s)
          product = MatMul(f, f)
        }""", [{"go": YES}, {"go": NO}], {"o": random(1)}),
    Model("what is collected until a condition, used after it", """
        g (float limit, float[2,3] x) => (float[t,2,3] z, int64 size) {
          yes = Constant<value = bool {1}>()
          y, r = Loop (, yes, x) <body = b (int64 k, bool c, float[2,3] v) => (bool c2, float[2,3] v2, float[2,3] s) {
              one = Constant<value = float {1.0}>() v2 = Add(v, one) h = ReduceMax<keepdims = 0>(v2)
              c2 = Less(h, limit) s = Neg(v2) }>
          z = Abs(r)
          size = Size(r)
        }""", [{"limit": np.array(limit, np.float32), "x": X} for limit in (-9, 3, 5.5)]),
    Model("a value that is cut to one row, or not at all", """
        g (int64 n, float[k] x) => (float y, int64[1] size) {
          low = Constant<value = int64[1] {0}>()
          high = Constant<value = int64[1] {1}>()
          v = Loop (n, , x) <body = b (int64 k, bool c, float[p] v) => (bool c2, float[q] v2) {
              c2 = Identity(c) h = Concat<axis = 0>(v, v) v2 = Slice(h, low, high) }>
          y = MatMul(v, v)
          size = Shape(v)
        }""", [{"n": np.array(n, np.int64), "x": random(3)} for n in (0, 2)]),
    Model("a size that is read before a branch and used after it", """
        g (int64 n, bool go, float[2,3] x) => (float[m,3] y, float[t] sizes) {
          y, sizes = Loop (n, , x) <body = b (int64 k, bool c, float[p,3] v) => (bool c2, float[q,3] v2, float s) {
              c2 = Identity(c)
              d = Shape(v)
              w = If (go) <then_branch = t () => (float[p,3] a) { a = Exp(v) },
                           else_branch = e () => (float[p,3] o) { o = Neg(v) }>
              f = ConstantOfShape<value = float[1] {0.5}>(d)
              h = Add(f, w)
              s = ReduceSum<keepdims = 0>(f)
              v2 = Concat<axis = 0>(h, x) }>
        }""", [{"n": np.array(n, np.int64), "go": go, "x": X} for n in (0, 3) for go in (YES, NO)]),
    Model("a value that stays empty", """
        g (bool go) => (float y, float[m] z) {
          two = Constant<value = int64 {2}>()
          none = Constant<value = float[0] {}>()
          v = Loop (two, go, none) <body = b (int64 k, bool c, float[p] v) => (bool c2, float[q] v2) {
              c2 = Identity(c) v2 = Identity(none) }>
          y = MatMul(v, v)
          z = Abs(v)
        }""", [{"go": YES}, {"go": NO}]),
    Model("a recurrent layer that counts its steps and collects its states, batch and length open", """
        g (float[batch,time,3] x) => (float[batch,t2,2] y, float[batch,2] last, int64[3] dims) {
          xt = Transpose<perm = [1, 0, 2]>(x)
          s = Shape(xt)
          one1 = Constant<value = int64[1] {1}>()
          two1 = Constant<value = int64[1] {2}>()
          i0 = Constant<value = int64 {0}>()
          t = Gather<axis = 0>(s, i0)
          b1 = Slice(s, one1, two1)
          hs = Concat<axis = 0>(b1, two1)
          fz = Constant<value = float {0.0}>()
          h0 = Expand(fz, hs)
          yes = Less(i0, t)
          most = Constant<value = int64 {9223372036854775807}>()
          count, last, c, all = Loop (most, yes, i0, h0, h0) <
            body = b (int64 n, bool k, int64 i, float[p,2] h, float[q,2] m) =>
              (bool k2, int64 i2, float[p2,2] h2, float[q2,2] m2, float[r,2] o) {
                xi = Gather<axis = 0>(xt, i) a = MatMul(xi, w) r = MatMul(h, u) z = Add(a, r)
                g = Sigmoid(z) kept = Mul(g, m) new = Tanh(z) m2 = Add(kept, new) th = Tanh(m2) h2 = Mul(g, th)
                o = Identity(h2)
                one = Constant<value = int64 {1}>() i2 = Add(i, one) k2 = Less(i2, t) }>
          y = Transpose<perm = [1, 0, 2]>(all)
          dims = Shape(all)
        }""", [{"x": random(b, t, 3)} for b, t in ((2, 1), (1, 4), (3, 2))], {"w": random(3, 2), "u": random(2, 2)}),
    Model("a loop in a loop, in a branch, whose states change places and grow", """
        g (bool go, int64 n, float[2,3] x, float[2,3] q) => (float[2,3] y, float[2,3] z, float[m,3] s) {
          y, z, s = If (go) <
            then_branch = t () => (float[2,3] y1, float[2,3] z1, float[m1,3] s1) {
              y1, z1, s1 = Loop (n, go, x, q, x) <
                body = b (int64 k, bool c, float[2,3] v, float[2,3] w, float[p,3] l) =>
                  (bool c2, float[2,3] v2, float[2,3] w2, float[o,3] l2) {
                    c2 = Identity(c)
                    v2, w2, l2 = Loop (k, , v, w, l) <
                      body = b2 (int64 kk, bool cc, float[2,3] vv, float[2,3] ww, float[pp,3] ll) =>
                        (bool cc2, float[2,3] vv2, float[2,3] ww2, float[qq,3] ll2) {
                          cc2 = Identity(cc) vv2 = Identity(ww) ww2 = Identity(vv) ll2 = Concat<axis = 0>(ll, vv) }> }> },
            else_branch = e () => (float[2,3] y3, float[2,3] z3, float[m2,3] s3) {
              y3 = Identity(q) z3 = Identity(x) s3 = Concat<axis = 0>(x, q) }>
        }""", [{"go": go, "n": np.array(n, np.int64), "x": X, "q": random(2, 3, seed=1)}
               for go, n in ((YES, 0), (YES, 4), (NO, 2))]),
]

SCANS = [
    Model("sum and running sum", """
        g (float[2,3] s0, float[t,2,3] x) => (float[2,3] s, float[t,2,3] y, float[t,2] z) {
          s, y, z = Scan <num_scan_inputs = 1, body = b (float[2,3] a, float[2,3] v) =>
            (float[2,3] a2, float[2,3] y2, float[2,1] z2) {
              a2 = Add(a, v) h = Mul(a2, w) y2 = Identity(h) z2 = MatMul(h, u) }>(s0, x)
        }""", [{"s0": X, "x": random(t, 2, 3)} for t in (1, 4)], {"w": random(2, 3, seed=1), "u": random(3, 1)}),
    Model("axes and directions", """
        g (float[2,3] s0, float[2,t,3] x, float[2,3,t] v) => (float[2,3] s, float[2,t,3] y, float[2,3,t] z) {
          s, y, z = Scan <num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [1, 0],
            scan_output_axes = [1, -1], scan_output_directions = [0, 1],
            body = b (float[2,3] a, float[2,3] p, float[2,3] q) => (float[2,3] a2, float[2,3] y2, float[2,3] z2) {
              a2 = Add(a, p) y2 = Mul(a2, q) z2 = Sub(a, q) }>(s0, x, v)
        }""", [{"s0": X, "x": random(2, t, 3), "v": random(2, 3, t, seed=1)} for t in (1, 4)]),
    Model("numbers", """
        g (float[t] x) => (float s, float[t] y) {
          zero = Constant<value = float {0.0}>()
          s, y = Scan <num_scan_inputs = 1, body = b (float a, float v) => (float a2, float y2) {
              a2 = Add(a, v) y2 = Exp(a2) }>(zero, x)
        }""", [{"x": random(t)} for t in (1, 4)]),
    Model("states that change places, in a branch, the old ones collected", """
        g (bool go, float[2,3] s0, float[2,3] r0, float[t,2,3] x) => (float[2,3] s, float[2,3] r, float[t,2,3] y) {
          s, r, y = If (go) <
            then_branch = th () => (float[2,3] s1, float[2,3] r1, float[t,2,3] y1) {
              s1, r1, y1 = Scan <num_scan_inputs = 1, body = b (float[2,3] a, float[2,3] c, float[2,3] v) =>
                (float[2,3] a2, float[2,3] c2, float[2,3] y2) {
                  a2 = Add(c, v) c2 = Identity(a) y2 = Identity(a) }>(s0, r0, x) },
            else_branch = el () => (float[2,3] s3, float[2,3] r3, float[t,2,3] y3) {
              s3 = Identity(r0) r3 = Identity(s0) y3 = Identity(x) }>
        }""", [{"go": go, "s0": X, "r0": random(2, 3, seed=1), "x": random(t, 2, 3)}
               for go, t in ((YES, 1), (YES, 4), (NO, 2))]),
]


IF, LOOP = Covered("If", (1, 6, 11, 16, 21), symbolic=True), Covered("Loop", (1, 6, 11, 19), symbolic=True)
SCAN_8, SCAN = Covered("Scan", (8,)), Covered("Scan", (9, 11, 16), symbolic=True)
COVERED = (IF, LOOP, SCAN_8, SCAN)


STEP = parser.parse_graph("""step (double[2,3] h, double[2,3] x) => (double[2,3] next, double[2,3] y) {
    p = Mul (h, x)
    next = Sin (p)
    y = Mul (next, h)
}""")
TURN = parser.parse_graph("""turn (int64 i, bool go, double[2,3] h) => (bool goes, double[2,3] next) {
    f = CastLike (i, h)
    p = Add (h, f)
    next = Cos (p)
    goes = Identity (go)
}""")
DERIVATIVES = [
    Derivative("Scan", {"h": near(2, 3), "x": near(4, 2, 3, seed=1)}, {"body": STEP, "num_scan_inputs": 1}, outputs=2),
    Derivative("Loop", {"M": np.array(3), "go": np.array(True), "h": near(2, 3)}, {"body": TURN}, fixed=("M", "go")),
]


@pytest.mark.parametrize("opset", IF.opsets)
@pytest.mark.parametrize("model", IFS[:1], ids=str)
def test_if_versions(model: Model, opset: int) -> None:
    check(model, opset, max(opset, 7))


@pytest.mark.parametrize("model", IFS, ids=str)
def test_if(model: Model) -> None:
    check(model, 13)


@pytest.mark.parametrize("opset", [opset for opset in LOOP.opsets if opset >= 11])
@pytest.mark.parametrize("model", LOOPS, ids=str)
def test_loop(model: Model, opset: int) -> None:
    check(model, opset)


@pytest.mark.parametrize("opset", [opset for opset in LOOP.opsets if opset < 11])
@pytest.mark.parametrize("model", [model for model in LOOPS if model.name in ("trip count", "symbolic dims")], ids=str)
def test_loop_versions(model: Model, opset: int) -> None:
    check(model, opset, 11)


@pytest.mark.parametrize("opset", SCAN.opsets)
@pytest.mark.parametrize("model", SCANS, ids=str)
def test_scan(model: Model, opset: int) -> None:
    check(model, opset)


@pytest.mark.parametrize("opset", SCAN_8.opsets)
@pytest.mark.parametrize("directions", ["0", "1"])
@pytest.mark.parametrize("lengths", [(4, 4), (2, 4)])
def test_scan_of_opset_8(opset: int, directions: str, lengths: tuple[int, ...]) -> None:
    model = Model("opset 8", f"""
        g (int64[2] lens, float[2,3] s0, float[2,4,3] x) => (float[2,3] s, float[2,4,3] y) {{
          s, y = Scan <num_scan_inputs = 1, directions = [{directions}], body = b (float[3] a, float[3] v) =>
            (float[3] a2, float[3] y2) {{ a2 = Add(a, v) y2 = Exp(a2) }}>(lens, s0, x)
        }}""", [{"lens": np.array(lengths), "s0": X, "x": random(2, 4, 3)}])
    check(model, opset)


@pytest.mark.parametrize("result, message", [
    ("float[2,r,m] z) { {loop} z = Identity(y) }", "y_dim1 does not follow from the result"),
    ("float z) { {loop} z = ReduceSum<keepdims = 0>(y) }", "y_dim1 does not follow from the result"),
])
def test_two_inner_axes_that_change_in_a_loop(result: str, message: str) -> None:
    loop = """y = Loop (n, , x) <body = b (int64 i, bool c, float[2,p,q] s) => (bool d, float[2,p2,q2] t) {
                d = Identity(c) t = Transpose<perm = [0, 2, 1]>(s) }>"""
    model = Model("changing", f"g (int64 n, float[2,k,3] x) => ({result.replace('{loop}', loop)}", [])
    with pytest.raises(TranspileError, match=message):
        import_model(parsed(model, 13))


def test_a_loop_without_iterations_has_no_value_of_a_rank_that_iterations_give() -> None:
    """onnxruntime gives the number that stands in its place."""
    model = Model("places", PLACE.replace("GO", "").replace("CONDITION", "Identity(c)"), [], {"at": np.array(1)})
    with ScoringFunction(import_model(parsed(model, 13))) as score, pytest.raises(
        ScriptRuntimeError, match='without an iteration "last", "row" would have the rank of the start'
    ):
        score({"n": np.array(0), "limit": np.array(0, np.float32), "x": X})


@pytest.mark.parametrize("inner", ["Shape(p) p2 = Cast<to = 1>(q)", "ConstantOfShape(e) p2 = Unsqueeze(p, z)"])
def test_a_rank_that_changes_in_a_loop(inner: str) -> None:
    """The rank of the first iteration matters to what reads it."""
    model = Model("rank", f"""
        g (int64 n) => (float[1] y) {{
          zero = Constant<value = float {{0.0}}>() z = Constant<value = int64[1] {{0}}>() e = Constant<value = int64[1] {{1}}>()
          y = Loop (n, , zero) <body = b (int64 k, bool c, float[1] p) => (bool d, float[1] p3) {{
            d = Identity(c) q = {inner} one = Constant<value = float[1] {{1.0}}>() p3 = Add(p2, one) }}>
        }}""", [])
    with pytest.raises(TranspileError, match='the rank of the carried value "p" changes or is unknown'):
        import_model(parsed(model, 13))


@pytest.mark.parametrize("run", [0, -1])
def test_by_the_command_line(run: int) -> None:
    """Each model of this module in one program, at the sizes of a run."""
    models = [*IFS, *LOOPS, *SCANS]
    findings = check_plainly([ModelCase(at, parsed(model, 13), (model.runs[run],)) for at, model in enumerate(models)])
    assert not findings, "\n".join(f"{models[finding.seed]}: {finding.detail}" for finding in findings)


@pytest.mark.parametrize("text, message", [
    ("""g (bool c, float[2,3] x) => (float[2,3] y) {
          y, z = If (c) <then_branch = t () => (float[2,3] a, float[2,3] a2) { a = Exp(x) a2 = Neg(x) },
                         else_branch = e () => (float[2,3] b) { b = Neg(x) }> }""",
     "else_branch gives 1 values, the node takes 2"),
    ("""g (int64 n, float[2,3] x) => (float[2,3] y) {
          y, z = Loop (n, , x) <body = b (int64 k, bool c, float[2,3] v) => (bool d, float[2,3] w) {
            d = Identity(c) w = Neg(v) }> }""",
     "body gives 2 values, the node takes 3"),
    ("""g (int64 n, float[2,3] x) => (float[2,3] y) {
          y = Loop (n, , x) <body = b (int64 k, bool c) => (bool d, float[2,3] w) { d = Identity(c) w = Neg(x) }> }""",
     "body takes 2 values, the node hands 3"),
    ("""g (float[3] s, float[2,3] x) => (float[3] y, float[2,3] z) {
          y, z = Scan <num_scan_inputs = 1, body = b (float[3] v, float[3] w) => (float[3] v2) { v2 = Add(v, w) }> (s, x) }""",
     "body gives 1 values, the node takes 2"),
])
def test_sub_graphs_that_do_not_fit_their_node(text: str, message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        import_model(parsed(Model("counts", text, []), 13))
