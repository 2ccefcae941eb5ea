"""New text in If, Loop and Scan: the dictionary goes into their functions and comes out of them; judged by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.test_text import check, model_of


def texts(*words: Any) -> Any:
    """A tensor of strings."""
    return np.array(words, dtype=object)


WORDS = texts("red", "", "Größe", "red", "it's \"a\" \\ b")
FEW = texts("", "x")
YES, NO = np.array(True), np.array(False)
BOTH = [{"c": c, "x": x} for x in (WORDS, FEW) for c in (YES, NO)]
TRIPS = [{"n": np.array(count), "x": x} for count, x in ((3, WORDS), (1, FEW), (5, FEW))]

IFS = {
    "one branch makes text": """g (bool c, string[N] x) => (string[N] y, string[N] z) {
        y = If (c) <then_branch = t () => (string[N] a) { a = StringConcat(x, x) },
                    else_branch = e () => (string[N] b) { b = Identity(x) }>
        z = StringConcat(y, x) }""",
    "both branches make text": """g (bool c, string[N] x) => (string[N] y, string[N] z) {
        k = Constant <value = string[1] {"-"}> ()
        y, z = If (c) <then_branch = t () => (string[N] a, string[N] a2) { a = StringConcat(x, k) a2 = StringConcat(a, a) },
                       else_branch = e () => (string[N] b, string[N] b2) {
                         b2 = StringConcat(k, x) k2 = Constant <value = string[1] {"known"}> () b = StringConcat(b2, k2) }> }""",
    "a branch only reads text": """g (bool c, string[N] x) => (bool[N] y, string[N] z) {
        y = If (c) <then_branch = t () => (bool[N] a) { a = RegexFullMatch <pattern = "r.*"> (x) },
                    else_branch = e () => (bool[N] b) { b = Equal(x, x) }>
        z = StringConcat(x, x) }""",
    "words of a number known to the run": """g (bool c, string[N] x) => (string[M] y) {
        y = If (c) <then_branch = t () => (string[K] a) {
                      a = StringNormalizer <locale = "C", case_change_action = "LOWER", stopwords = ["red"]> (x) },
                    else_branch = e () => (string[N] b) { b = StringConcat(x, x) }> }""",
    "a single string": """g (bool c, string[N] x) => (string y, string[N] z) {
        p = Constant <value_int = 0> ()
        f = Gather(x, p)
        y = If (c) <then_branch = t () => (string a) { a = StringConcat(f, f) },
                    else_branch = e () => (string b) { b = Constant <value = string {"none"}> () }>
        z = StringConcat(x, y) }""",
    "nested": """g (bool c, string[N] x) => (string[N] y, string[N] z) {
        y = If (c) <then_branch = t () => (string[N] a) {
              d = Not(c)
              h = If (d) <then_branch = tt () => (string[N] p) { p = Identity(x) },
                          else_branch = te () => (string[N] q) { q = StringConcat(x, x) }>
              a = StringConcat(h, x) },
            else_branch = e () => (string[N] b) { b = Identity(x) }>
        z = StringConcat(x, y) }""",
}

LOOPS = {
    "carried and collected": """g (int64 n, string[N] x) => (string[N] y, string[T,N] rows, string[N] z) {
        k = Constant <value = string[1] {"+"}> ()
        y, rows = Loop (n, , x) <body = b (int64 i, bool c, string[N] v) => (bool d, string[N] w, string[N] r) {
            d = Identity(c) w = StringConcat(v, k) f = Cast <to = 8> (i) r = StringConcat(w, f) }>
        z = StringConcat(y, x) }""",
    "a condition on text": """g (int64 n, string[N] x) => (string[1] y, string[T,1] rows) {
        k = Constant <value = string[1] {"a"}> ()
        yes = Constant <value = bool {1}> ()
        y, rows = Loop (n, yes, k) <body = b (int64 i, bool c, string[1] v) => (bool d, string[1] w, string[1] r) {
            w = StringConcat(v, v) r = StringConcat(v, w) m = RegexFullMatch <pattern = "a{0,7}"> (w)
            zero = Constant <value = int64[1] {0}> () d = Squeeze(m, zero) }> }""",
    "text only read": """g (int64 n, string[N] x) => (int64 y, string[N] z) {
        zero = Constant <value_int = 0> ()
        y = Loop (n, , zero) <body = b (int64 i, bool c, int64 v) => (bool d, int64 w) {
            d = Identity(c) m = RegexFullMatch <pattern = "r.*"> (x) f = Cast <to = 7> (m)
            s = ReduceSum <keepdims = 0> (f) w = Add(v, s) }>
        z = StringConcat(x, x) }""",
    "an If in a loop": """g (int64 n, string[N] x) => (string[N] y) {
        two = Constant <value_int = 2> ()
        y = Loop (n, , x) <body = b (int64 i, bool c, string[N] v) => (bool d, string[N] w) {
            d = Identity(c) l = Less(i, two)
            w = If (l) <then_branch = t () => (string[N] p) { p = StringConcat(v, x) },
                        else_branch = e () => (string[N] q) { q = Identity(v) }> }> }""",
    "a loop in a loop": """g (int64 n, string[N] x) => (string[N] y) {
        k = Constant <value = string[1] {","}> ()
        y = Loop (n, , x) <body = b (int64 i, bool c, string[N] v) => (bool d, string[N] w) {
            d = Identity(c)
            u = Loop (i, , v) <body = b2 (int64 j, bool e, string[N] p) => (bool f, string[N] q) {
                f = Identity(e) q = StringConcat(p, k) }>
            w = StringConcat(u, x) }> }""",
    "text that grows": """g (int64 n, string[N] x) => (string[M] y) {
        y = Loop (n, , x) <body = b (int64 i, bool c, string[K] v) => (bool d, string[L] w) {
            d = Identity(c) f = Cast <to = 8> (i) j = StringConcat(x, f) w = Concat <axis = 0> (v, j) }> }""",
    "pieces": """g (int64 n, string[N] x) => (int64[N] y) {
        k = Constant <value = string[1] {" a "}> ()
        zero = Constant <value_int = 0> ()
        m = Size(x)
        dims = Reshape(m, one)
        start = Expand(zero, dims)
        s, y = Loop (n, , x, start) <body = b (int64 i, bool c, string[N] v, int64[N] l) => (bool d, string[N] w, int64[N] h) {
            d = Identity(c) w = StringConcat(v, k) p, h = StringSplit(w) }> }""",
}
LOOPS["pieces"] = LOOPS["pieces"].replace("zero = ", "one = Constant <value_ints = [1]> () zero = ")

SCANS = {
    "joined": """g (string[1] s0, string[N,2] x) => (string[1] s, string[N,2] y, string[N] z) {
        s, y, z = Scan <num_scan_inputs = 1, body = b (string[1] a, string[2] v) => (string[1] a2, string[2] y2, string z2) {
            p = Constant <value_ints = [0]> () f = Gather(v, p) a2 = StringConcat(a, f) y2 = StringConcat(v, a2)
            r = Constant <value_int = 0> () z2 = Gather(a2, r) }> (s0, x) }""",
}


@pytest.mark.parametrize("name", IFS)
def test_if(name: str) -> None:
    check(IFS[name], *BOTH)


@pytest.mark.parametrize("name", LOOPS)
def test_loop(name: str) -> None:
    check(LOOPS[name], *TRIPS)


@pytest.mark.parametrize("name", SCANS)
def test_scan(name: str) -> None:
    check(SCANS[name], {"s0": texts("<"), "x": texts(["a", "b"], ["c", ""], ["a", "é"])},
          {"s0": texts(""), "x": texts(["a", "b"])})


def test_calls_of_a_function() -> None:
    """A model's own function that makes text is called, and its calls hand the dictionary on."""
    head = '<ir_version: 10, opset_import: ["" : 20, "my" : 1]>'
    model = onnx.parser.parse_model(head + """g (string[N] x) => (string[N] y, string[N] z) { z = my.f(x) y = my.f(z) }
        <domain: "my", opset_import: ["" : 20]>
        f (x) => (y) { k = Constant <value = string[1] {"-"}> () a = StringConcat(x, k) b = StringConcat(a, x)
                       c = StringConcat(k, b) y = StringConcat(c, x) }""")
    assert import_model(model).text.count("gen_f(") == 2
    judge = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with ScoringFunction(import_model(model)) as function:
        for given in (WORDS, FEW):
            for actual, expected in zip(function({"x": given}).values(), judge.run(None, {"x": given}), strict=True):
                np.testing.assert_array_equal(actual, expected)


def test_a_large_dictionary_in_a_loop() -> None:
    """Every trip adds a thousand strings."""
    text = """g (int64 n, string[N] x) => (string[N] y) {
        y = Loop (n, , x) <body = b (int64 i, bool c, string[N] v) => (bool d, string[N] w) {
            d = Identity(c) f = Cast <to = 8> (i) w = StringConcat(v, f) }> }"""
    check(text, {"n": np.array(6), "x": texts(*(f"word {number}" for number in range(1000)))}, TRIPS[1])


def test_the_dictionary_is_a_parameter_and_a_result() -> None:
    script = import_model(model_of(IFS["one branch makes text"])).text
    assert "matrix[double] x, frame[string] texts) return (matrix[double] a, frame[string] texts_2)" in script
    read = import_model(model_of(IFS["a branch only reads text"])).text
    assert "matrix[double] x, frame[string] texts) return (matrix[double] a)" in read
