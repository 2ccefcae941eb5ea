"""Sequences and optionals: known lists leave nothing behind, the others are DML lists; judged by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from onnx_systemds import backend, import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.errors import TranspileError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Covered, random

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]>\n'


def model_of(text: str, opset: int = 17) -> onnx.ModelProto:
    """A model from ONNX's text form."""
    return onnx.parser.parse_model(HEAD.format(opset=opset) + text)


def check(text: str, *runs: dict[str, Any], opset: int = 17) -> None:
    """Run a model on the engine and in onnxruntime: the same arrays, lists and optionals."""
    model = model_of(text, opset)
    judge = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    prepared = backend.prepare(model)
    for inputs in runs:
        for actual, expected in zip(prepared.run(inputs), judge.run(None, inputs), strict=True):
            compare(actual, expected)
    prepared.close()


def compare(actual: Any, expected: Any) -> None:
    """Equal lists of equal arrays."""
    if isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected)
        for one, other in zip(actual, expected):
            compare(one, other)
    elif expected is None:
        assert actual is None
    else:
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        if expected.dtype == object:
            np.testing.assert_array_equal(actual, expected)
        else:
            np.testing.assert_allclose(actual, expected, rtol=1e-6)


ITEMS = [random(2, 3, seed=1), random(4, 3, seed=2), random(1, 3, seed=3)]
MORE = [random(3, 3, seed=4), random(2, 3, seed=5)]

RUN_TIME = {
    "at": ("g (seq(float[N,3]) s, int64 p) => (float[M,3] y) { y = SequenceAt(s, p) }",
           [{"s": ITEMS, "p": np.array(1)}, {"s": MORE, "p": np.array(-1)}, {"s": ITEMS, "p": np.array(-3)}]),
    "insert": ("g (seq(float[N,3]) s, float[2,3] x, int64 p) => (seq(float[N,3]) y) { y = SequenceInsert(s, x, p) }",
               [{"s": ITEMS, "x": random(2, 3), "p": np.array(p)} for p in (0, 2, 3, -1, -3)]),
    "append": ("g (seq(float[N,3]) s, float[2,3] x) => (seq(float[N,3]) y) { y = SequenceInsert(s, x) }",
               [{"s": ITEMS, "x": random(2, 3)}, {"s": MORE, "x": random(2, 3)}]),
    "erase": ("g (seq(float[N,3]) s, int64 p) => (seq(float[N,3]) y) { y = SequenceErase(s, p) }",
              [{"s": ITEMS, "p": np.array(p)} for p in (0, 2, -1, -3)]),
    "repeat_interleave": ("""g (float[N,3] x, int64[N] counts) => (float[M,3] y) <int64[1] three = {3}, int64[1] one = {1},
            int64[2] rows = {-1, 3}, bool yes = {1}>
        { n = Shape <start = 0, end = 1> (x) ones = ConstantOfShape <value = int64[1] {1}> (n)
          parts = SplitToSequence <axis = 0> (x, ones) each = SplitToSequence <axis = 0> (counts, ones)
          none = SequenceEmpty () m = Squeeze(n)
          all = Loop (m, yes, none) <body = b (int64 i, bool c, seq(float[K,3]) l) => (bool d, seq(float[L,3]) k)
            { d = Identity(c) part = SequenceAt(parts, i) wider = Unsqueeze(part, one) count = SequenceAt(each, i)
              shape = Concat <axis = 0> (one, count, three) more = Expand(wider, shape) flat = Reshape(more, rows)
              k = SequenceInsert(l, flat) }>
          y = ConcatFromSequence <axis = 0> (all) }""",
                          [{"x": random(3, 3), "counts": np.array([2, 1, 4])}, {"x": random(1, 3), "counts": np.array([3])}]),
    "erase_last": ("g (seq(float[N,3]) s) => (seq(float[N,3]) y, int64 n) { y = SequenceErase(s) n = SequenceLength(y) }",
                   [{"s": ITEMS}, {"s": MORE}]),
    "concat_0": ("g (seq(float[N,3]) s) => (float[M,3] y) { y = ConcatFromSequence <axis = 0> (s) }",
                 [{"s": ITEMS}, {"s": MORE}]),
    "concat_above": ("""g (seq(float[N,3]) s, float[2,3] x) => (float[M,3] y)
                        { all = ConcatFromSequence <axis = 0> (s) y = Concat <axis = 0> (all, x) }""",
                     [{"s": ITEMS, "x": random(2, 3)}, {"s": MORE, "x": random(2, 3)}]),
    "concat_flat": ("""g (seq(float[N,3]) s) => (float[M] y) <int64[1] all = {-1}>
                       { c = ConcatFromSequence <axis = 0> (s) y = Reshape(c, all) }""", [{"s": ITEMS}, {"s": MORE}]),
    "concat_last": ("g (seq(float[2,N]) s) => (float[2,M] y) { y = ConcatFromSequence <axis = -1> (s) }",
                    [{"s": [random(2, 3), random(2, 1), random(2, 5)]}, {"s": [random(2, 4)]}]),
    "concat_middle": ("g (seq(float[2,N,3]) s) => (float[2,M,3] y) { y = ConcatFromSequence <axis = 1> (s) }",
                      [{"s": [random(2, 3, 3), random(2, 1, 3), random(2, 5, 3)]}, {"s": [random(2, 4, 3)]}]),
    "stack_0": ("g (seq(float[2,3]) s) => (float[M,2,3] y) { y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }",
                [{"s": [random(2, 3), random(2, 3, seed=1)]}, {"s": [random(2, 3)]}]),
    "stack_open": ("g (seq(float[N]) s) => (float[A,B] y) { y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }",
                   [{"s": [random(3), random(3, seed=1)]}, {"s": [random(2)]}]),
    "scalar_at": ("g (seq(float) s, int64 p) => (float y) { y = SequenceAt(s, p) }",
                  [{"s": [random(), random(seed=1)], "p": np.array(p)} for p in (0, -1)]),
    "scalar_from_end": ("g (seq(int64) s) => (int64 y) { p = Constant <value_int = -2> () y = SequenceAt(s, p) }",
                        [{"s": [np.array(3), np.array(2**40), np.array(-1)]}]),
    "scalar_mapped": ("""g (seq(float) s) => (seq(float) y)
                         { y = SequenceMap <body = b (float i) => (float o) { o = Abs(i) }> (s) }""",
                      [{"s": [random(), random(seed=1)]}]),
    "optional_scalar": ("g (optional(float) o) => (float y) { e = OptionalGetElement(o) y = Neg(e) }", [{"o": random()}]),
    "stack_last": ("g (seq(float[2,3]) s) => (float[2,3,M] y) { y = ConcatFromSequence <axis = -1, new_axis = 1> (s) }",
                   [{"s": [random(2, 3), random(2, 3, seed=1)]}, {"s": [random(2, 3)]}]),
    "split_ones": ("g (float[N,2,3] x) => (seq(float[1,2,3]) y) { y = SplitToSequence (x) }",
                   [{"x": random(4, 2, 3)}, {"x": random(2, 2, 3)}]),
    "split_narrow": ("g (float[2,N] x) => (seq(float[2]) y) { y = SplitToSequence <axis = 1, keepdims = 0> (x) }",
                     [{"x": random(2, 4)}, {"x": random(2, 1)}]),
    "split_chunks": ("g (float[2,N,3] x, int64 k) => (seq(float[2,M,3]) y) { y = SplitToSequence <axis = 1> (x, k) }",
                     [{"x": random(2, 5, 3), "k": np.array(2)}, {"x": random(2, 6, 3), "k": np.array(3)}]),
    "split_sizes": ("g (float[N,3] x, int64[2] k) => (seq(float[M,3]) y) { y = SplitToSequence (x, k) }",
                    [{"x": random(5, 3), "k": np.array([2, 3])}, {"x": random(7, 3), "k": np.array([6, 1])}]),
    "map": ("""g (seq(float[N]) s, float[1] a) => (seq(float[N]) y)
               { y = SequenceMap <body = b (float[N] i, float[1] j) => (float[N] o) { o = Mul(i, j) }> (s, a) }""",
            [{"s": [random(3), random(5), random(1)], "a": random(1)}]),
    "if": ("""g (bool c, float[2,3] x) => (seq(float[N,3]) y) {
               y = If (c) <then_branch = t () => (seq(float[N,3]) a) { a = SequenceConstruct(x, x) },
                           else_branch = e () => (seq(float[N,3]) b) { b = SequenceConstruct(x) }> }""",
           [{"c": np.array(True), "x": random(2, 3)}, {"c": np.array(False), "x": random(2, 3)}]),
    "loop": ("""g (int64 n, float[2,3] x) => (seq(float[2,3]) y, int64 k) {
                  start = SequenceEmpty()
                  yes = Constant <value = bool {1}> ()
                  y = Loop (n, yes, start) <body = b (int64 i, bool c, seq(float[2,3]) s) => (bool d, seq(float[2,3]) t)
                    { d = Identity(c) f = Cast <to = 1> (i) z = Add(x, f) t = SequenceInsert(s, z) }>
                  k = SequenceLength(y) }""",
             [{"n": np.array(3), "x": random(2, 3)}, {"n": np.array(1), "x": random(2, 3)}]),
    "optional": ("g (optional(float[N]) o) => (bool h) { h = OptionalHasElement(o) }", [{"o": random(3)}, {"o": None}]),
    "of_sequence": ("""g (optional(seq(float[N])) o) => (seq(float[N]) y, bool h)
                       { y = OptionalGetElement(o) h = OptionalHasElement(o) }""", [{"o": [random(3), random(2)]}]),
    "element": ("g (optional(float[N,2]) o) => (float[N,2] y) { e = OptionalGetElement(o) y = Relu(e) }",
                [{"o": random(3, 2)}, {"o": random(1, 2)}]),
    "made": ("g (float[N] x) => (optional(float[N]) o) { o = Optional(x) }", [{"x": random(3)}]),
}


OPSETS = (16, 18)
LISTS = ["SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength", "ConcatFromSequence", "SplitToSequence",
         "OptionalHasElement", "OptionalGetElement", "Optional"]
COVERED = [*[Covered(op_type, OPSETS, symbolic=True) for op_type in LISTS], Covered("SequenceMap", (17,), symbolic=True),
           *[Covered(op_type, (11, 13, 17)) for op_type in ("SequenceConstruct", "SequenceEmpty")]]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", [name for name in RUN_TIME if "map" not in name])
def test_lists_at_run_time(name: str, opset: int) -> None:
    text, runs = RUN_TIME[name]
    check(text, *runs, opset=opset)


def test_no_items_and_items_without_elements() -> None:
    empty = np.zeros((0, 3), np.float32)
    check(RUN_TIME["append"][0], {"s": [], "x": random(2, 3)}, {"s": [empty, *ITEMS], "x": random(2, 3)})
    check(RUN_TIME["concat_0"][0], {"s": [empty, *ITEMS]})
    check(RUN_TIME["split_sizes"][0], *[{"x": random(4, 3), "k": np.array(sizes)} for sizes in ([0, 4], [4, 0])])
    inner = "g (float[2,N,3] x, int64[3] k) => (seq(float[2,M,3]) y) { y = SplitToSequence <axis = 1> (x, k) }"
    check(inner, {"x": random(2, 5, 3), "k": np.array([0, 5, 0])})


@pytest.mark.parametrize(("name", "sizes", "words"), [
    ("split_sizes", [2, 2], "SplitToSequence: the sizes of the parts add up to 4, the axis has 5"),
    ("split_sizes", [6, -1], "SplitToSequence: the size of a part is negative"),
    ("split_chunks", 0, "SplitToSequence: parts of size 0"),
])
def test_parts_that_a_tensor_does_not_have(name: str, sizes: Any, words: str) -> None:
    x = random(5, 3) if name == "split_sizes" else random(2, 5, 3)
    with ScoringFunction(import_model(model_of(RUN_TIME[name][0]))) as function, pytest.raises(EngineError, match=words):
        function({"x": x, "k": np.array(sizes)})


@pytest.mark.parametrize(("name", "feeds", "words"), [
    ("erase", {"p": np.array(3)}, "SequenceErase: there is no position 3 in a sequence of 3"),
    ("erase", {"p": np.array(-4)}, "SequenceErase: there is no position -4 in a sequence of 3"),
    ("insert", {"p": np.array(4), "x": random(2, 3)}, "SequenceInsert: there is no position 4 in a sequence of 3"),
    ("insert", {"p": np.array(-4), "x": random(2, 3)}, "SequenceInsert: there is no position -4 in a sequence of 3"),
])
def test_positions_that_a_list_does_not_have(name: str, feeds: dict[str, Any], words: str) -> None:
    with ScoringFunction(import_model(model_of(RUN_TIME[name][0]))) as function, pytest.raises(EngineError, match=words):
        function({"s": ITEMS, **feeds})


FOUND_BY_THE_RUN = {
    "a list that each trip makes anew": ("""g (float[2] x, int64 n) => (int64 k, int64 j) {
        a = SequenceConstruct(x, x, x) b = SequenceConstruct(x)
        r, q = Loop (n, , a, b) <body = t (int64 i, bool c, seq(float[2]) s, seq(float[2]) u) =>
            (bool d, seq(float[2]) v, seq(float[2]) w) { d = Identity(c) v = SequenceConstruct(x, x) w = Identity(s) }>
        k = SequenceLength(r) j = SequenceLength(q) }""", [{"x": random(2), "n": np.array(n)} for n in (0, 1, 2)]),
    "a loop without trips": ("""g (float[2,3] x) => (seq(float[2,3]) y, float[T,2,3] all) {
        n = Constant <value_int = 0> () s = SequenceConstruct(x)
        y, all = Loop (n, , s) <body = b (int64 i, bool c, seq(float[2,3]) l) => (bool d, seq(float[2,3]) k, float[2,3] z) {
            d = Identity(c) z = Neg(x) k = SequenceInsert(l, x) }> }""", [{"x": random(2, 3)}]),
    "starts empty, its items are read in a branch": ("""g (int64 n, float[K] x) => (seq(float[K]) y) {
        start = SequenceEmpty()
        y = Loop (n, , start) <body = b (int64 i, bool c, seq(float[K]) s) => (bool d, seq(float[K]) t) {
            d = Identity(c) one = Constant <value_int = 1> () first = Less(i, one) last = Constant <value_int = -1> ()
            z = If (first) <then_branch = t1 () => (float[K] a) { a = Identity(x) },
                            else_branch = e1 () => (float[K] b2) { l = SequenceAt(s, last) b2 = Add(l, x) }>
            t = SequenceInsert(s, z) }> }""", [{"n": np.array(3), "x": random(4)}, {"n": np.array(1), "x": random(2)}]),
    "starts empty, a branch gives the list": ("""g (int64 n, float[K] x) => (seq(float[K]) y, int64 k) {
        start = SequenceEmpty()
        y = Loop (n, , start) <body = b (int64 i, bool c, seq(float[K]) s) => (bool d, seq(float[K]) t) {
            d = Identity(c) m = SequenceLength(s) one = Constant <value_int = 1> () first = Less(m, one)
            t = If (first) <then_branch = t1 () => (seq(float[K]) a) { a = SequenceInsert(s, x) },
                            else_branch = e1 () => (seq(float[K]) b2) {
                              zero = Constant <value_int = 0> () l = SequenceAt(s, zero) b2 = SequenceInsert(s, l) }> }>
        k = SequenceLength(y) }""", [{"n": np.array(3), "x": random(4)}, {"n": np.array(1), "x": random(2)}]),
    "items that grow": ("""g (int64 n, float[K,3] x) => (seq(float[A,3]) y, float[B,3] all, float[P] z, int64[T,1] sizes) {
        start = SequenceEmpty()
        v0 = Constant <value = float[1] {2}> ()
        y, z, sizes = Loop (n, , start, v0) <body = b (int64 i, bool c, seq(float[A,3]) s, float[Q] v)
            => (bool d, seq(float[A,3]) t, float[R] w, int64[1] h) {
            d = Identity(c) zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
            j = Add(i, one) q = Slice(x, zero, j, zero) t = SequenceInsert(s, q)
            first = Constant <value_int = 0> () f = SequenceAt(t, first) k = Shape(f) h = Slice(k, zero, one)
            w = Concat <axis = 0> (v, v0) }>
        all = ConcatFromSequence <axis = 0> (y) }""",
                        [{"n": np.array(3), "x": random(4, 3)}, {"n": np.array(1), "x": random(2, 3)}]),
    "as many rows as are not zero": ("""g (int64 n, float[K,3] x) => (float[M,3] y) {
        start = SequenceEmpty()
        s = Loop (n, , start) <body = b (int64 i, bool c, seq(float[A,3]) s) => (bool d, seq(float[A,3]) t) {
            d = Identity(c) p = Relu(x) nz = NonZero(p) q = Transpose(nz) r = GatherND(x, q)
            o = Constant <value_ints = [-1,1]> () u = Reshape(r, o) e = Constant <value_ints = [1,3]> () w = Expand(u, e)
            t = SequenceInsert(s, w) }>
        last = Constant <value_int = -1> ()
        y = SequenceAt(s, last) }""", [{"n": np.array(3), "x": random(4, 3)}, {"n": np.array(1), "x": random(2, 3)}]),
    "an item in another form": ("""g (seq(float[2,N,3]) s, int64 p) => (float[2,3,M] y) {
        a = SequenceAt(s, p) b = Relu(a) y = Transpose <perm = [0, 2, 1]> (b) }""",
                                [{"s": [random(2, 2, 3), random(2, 1, 3)], "p": np.array(p)} for p in (0, 1)]),
    "a branch with no item": ("""g (bool c, float[N,3] x) => (seq(float[A,3]) y) {
        y = If (c) <then_branch = t () => (seq(float[A,3]) a) { a = SequenceEmpty() },
                    else_branch = e () => (seq(float[A,3]) b) { b = SequenceConstruct(x) }> }""",
                              [{"c": np.array(c), "x": random(2, 3)} for c in (True, False)]),
    "an optional": ("""g (bool c, float[N,3] x) => (float[A,3] y) {
        o = If (c) <then_branch = t () => (optional(float[N,3]) a) { a = Optional(x) },
                    else_branch = e () => (optional(float[N,3]) b) { p = Concat <axis = 0> (x, x) b = Optional(p) }>
        y = OptionalGetElement(o) }""", [{"c": np.array(c), "x": random(2, 3)} for c in (True, False)]),
}


@pytest.mark.parametrize("name", FOUND_BY_THE_RUN)
def test_items_known_to_the_run_only(name: str) -> None:
    text, runs = FOUND_BY_THE_RUN[name]
    check(text, *runs)


def test_an_item_that_repeats_a_column() -> None:
    """The engine would take append for arithmetic, in which a column is repeated by itself."""
    text = """g (seq(float[N,3]) s, float[N,1] x) => (seq(float[N,3]) y) {
        e = Constant <value_ints = [1, 3]> () w = Expand(x, e) y = SequenceInsert(s, w) }"""
    check(text, {"s": ITEMS, "x": random(2, 1)})


@pytest.mark.parametrize("name", [name for name in RUN_TIME if "map" in name])
def test_map_at_run_time(name: str) -> None:
    text, runs = RUN_TIME[name]
    check(text, *runs, opset=COVERED[len(LISTS)].opsets[0])


@pytest.mark.parametrize("opset", COVERED[-1].opsets)
def test_known_lists_leave_nothing(opset: int) -> None:
    text = """g (float[N,6] x) => (float[N,6] y, int64 n) {
        k = Constant <value = int64 {2}> ()
        s = SplitToSequence <axis = 1> (x, k)
        p = Constant <value = int64 {1}> ()
        a = SequenceAt(s, p)
        t = SequenceInsert(s, a, p)
        q = Constant <value = int64 {-1}> ()
        u = SequenceErase(t, q)
        unused = SequenceEmpty()
        n = SequenceLength(u)
        y = ConcatFromSequence <axis = 1> (u)
    }"""
    check(text, {"x": random(2, 6)}, {"x": random(5, 6)}, opset=opset)
    assert "list" not in import_model(model_of(text, opset)).text


@pytest.mark.parametrize("opset", [11, 13])
def test_stacking_known_items(opset: int) -> None:
    text = """g (float[N,2] x) => (float[N,3,2] y) {
        s = SequenceConstruct(x, x, x)
        y = ConcatFromSequence <axis = 1, new_axis = 1> (s)
    }"""
    check(text, {"x": random(4, 2)}, {"x": random(1, 2)}, opset=opset)


def test_loop_with_known_trips_is_written_out() -> None:
    text = """g (float[N] x) => (float[N] y, float[3,N] rows) {
        start = SequenceConstruct(x)
        n = Constant <value = int64 {3}> ()
        yes = Constant <value = bool {1}> ()
        s, rows = Loop (n, yes, start) <body = b (int64 i, bool c, seq(float[N]) s) => (bool d, seq(float[N]) t, float[N] r)
            { d = Identity(c) r = SequenceAt(s, i) z = Exp(r) t = SequenceInsert(s, z) }>
        last = Constant <value = int64 {-1}> ()
        y = SequenceAt(s, last)
    }"""
    check(text, {"x": random(4)}, {"x": random(2)})
    assert "for (" not in import_model(model_of(text)).text


def test_loop_that_goes_on_as_a_constant_around_it_says_is_written_out() -> None:
    """PyTorch's tensor_split, as TorchScript writes it."""
    text = """g (float[N,6] x) => (float[N,2] y, float[N,4] z) {
        one = Constant <value = int64 {1}> ()
        yes = Constant <value = bool {1}> ()
        bounds = Constant <value = int64[3] {0, 2, 6}> ()
        axis = Constant <value = int64[1] {1}> ()
        two = Constant <value = int64 {2}> ()
        zero = Constant <value = int64[1] {0}> ()
        none = SequenceEmpty()
        s = Loop (two, yes, none) <body = b (int64 i, bool c, seq(float[N,M]) s) => (bool d, seq(float[N,M]) t)
            { from = Gather(bounds, i) f = Unsqueeze(from, zero) j = Add(i, one) to = Gather(bounds, j)
              e = Unsqueeze(to, zero) r = Slice(x, f, e, axis) t = SequenceInsert(s, r) d = Identity(yes) }>
        first = Constant <value = int64 {0}> ()
        y = SequenceAt(s, first)
        z = SequenceAt(s, one)
    }"""
    check(text, {"x": random(2, 6)}, {"x": random(5, 6)})
    assert "for (" not in import_model(model_of(text)).text


def test_list_interface_of_the_script() -> None:
    script = import_model(model_of("g (seq(float[N,3]) s) => (seq(float[N,3]) y) { y = SequenceErase(s) }"))
    assert "function(list[unknown] s) return (list[unknown] y)" in script.text


@pytest.mark.parametrize("text, message", [
    ("g (float[2] x) => (float[2] y) { s = SequenceConstruct(x) p = Constant <value = int64 {1}> () y = SequenceAt(s, p) }",
     "position 1 is out of range for a sequence of 1"),
    ("g (float[2] x) => (float[2] y) { s = SequenceEmpty() p = Constant <value = int64 {0}> () y = SequenceAt(s, p) }",
     "position 0 is out of range for a sequence of 0"),
    ("g (float[2] x, int64[2] z) => (seq(float[2]) s) { s = SequenceConstruct(x, z) }",
     r"its input 1 \(inputs\) is int64, an input that it shares its type with is float"),
    ("g () => (float[2] y) { o = Optional <type = float[2]> () y = OptionalGetElement(o) }", "has no element"),
])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(TranspileError, match=message):
        import_model(model_of(text))
