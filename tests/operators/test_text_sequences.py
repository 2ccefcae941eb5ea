"""Sequences and optionals of text: lists of frames at the interface, lists of codes inside; judged by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import save_model

from onnx_systemds import backend, import_model
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.invoking import invoke
from tests.operators.test_sequences import check, compare, model_of
from tests.operators.test_text_control_flow import texts

ITEMS = [texts(["a", "b"], ["", "a"]), texts(["é", "b"]), texts(["\\", "\"'"], ["x, y", "a"], ["c", ""])]
MORE = [texts(["b", "new"])]
X = texts(["b", "q"], ["", "r"])
VECTORS = [texts("a", "b"), texts(""), texts("c", "a", "d")]

ROWS = {
    "identity": ("g (seq(string[N,2]) s) => (seq(string[N,2]) y) { y = Identity(s) }", [{"s": ITEMS}, {"s": MORE}]),
    "at": ("g (seq(string[N,2]) s, int64 p) => (string[M,2] y) { y = SequenceAt(s, p) }",
           [{"s": ITEMS, "p": np.array(1)}, {"s": MORE, "p": np.array(-1)}, {"s": ITEMS, "p": np.array(-3)}]),
    "insert": ("g (seq(string[N,2]) s, string[2,2] x, int64 p) => (seq(string[N,2]) y) { y = SequenceInsert(s, x, p) }",
               [{"s": ITEMS, "x": X, "p": np.array(p)} for p in (0, 2, 3, -1)]),
    "append": ("g (seq(string[N,2]) s, string[2,2] x) => (seq(string[N,2]) y) { y = SequenceInsert(s, x) }",
               [{"s": ITEMS, "x": X}, {"s": MORE, "x": X}]),
    "erase": ("g (seq(string[N,2]) s, int64 p) => (seq(string[N,2]) y, int64 n) { y = SequenceErase(s, p) n = SequenceLength(y) }",
              [{"s": ITEMS, "p": np.array(p)} for p in (0, 2, -2)]),
    "construct scalars": ("g (string x) => (seq(string) y) { y = SequenceConstruct(x, x) }",
                          [{"x": np.array("word", dtype=object)}, {"x": np.array("", dtype=object)}]),
    "split ones": ("g (string[N,2] x) => (seq(string[1,2]) y) { y = SplitToSequence (x) }", [{"x": X}, {"x": ITEMS[2]}]),
    "split chunks": ("g (string[2,N] x, int64 k) => (seq(string[2,M]) y) { y = SplitToSequence <axis = 1> (x, k) }",
                     [{"x": texts([*"abcde"], [*"fgahi"]), "k": np.array(2)}]),
    "concat 0": ("g (seq(string[N,2]) s) => (string[M,2] y) { y = ConcatFromSequence <axis = 0> (s) }",
                 [{"s": ITEMS}, {"s": MORE}]),
    "stack": ("g (seq(string[2,2]) s) => (string[2,M,2] y) { y = ConcatFromSequence <axis = 1, new_axis = 1> (s) }",
              [{"s": [X, X[::-1]]}, {"s": [X]}]),
    "new text": ("""g (seq(string[N]) s, string[M] x) => (seq(string[N]) y, string[M] z)
                    { z = StringConcat(x, x) y = SequenceInsert(s, z) }""",
                 [{"s": VECTORS, "x": texts("a", "z")}, {"s": VECTORS[1:], "x": texts("")}]),
    "if": ("""g (bool c, string[N] x, seq(string[N]) s) => (seq(string[N]) y) {
               y = If (c) <then_branch = t () => (seq(string[N]) a) { n = StringConcat(x, x) a = SequenceConstruct(x, n) },
                           else_branch = e () => (seq(string[N]) b) { b = SequenceInsert(s, x) }> }""",
           [{"c": np.array(c), "x": texts("a", "w"), "s": VECTORS} for c in (True, False)]),
    "loop": ("""g (int64 n, string[N] x) => (seq(string[N]) y, int64 k, string[M] all) {
                  start = SequenceConstruct(x)
                  y = Loop (n, , start) <body = b (int64 i, bool c, seq(string[N]) s) => (bool d, seq(string[N]) t)
                    { d = Identity(c) f = Cast <to = 8> (i) z = StringConcat(x, f) t = SequenceInsert(s, z) }>
                  k = SequenceLength(y) all = ConcatFromSequence <axis = 0> (y) }""",
             [{"n": np.array(n), "x": x} for n, x in ((3, texts("a", "w")), (1, texts("")))]),
    "map with a word from around it": ("""g (seq(string[N]) s, string w) => (seq(string[N]) y, seq(bool[N]) z) {
                  y, z = SequenceMap <body = b (string[N] i) => (string[N] o, bool[N] p) {
                    o = StringConcat(i, w) p = Equal(i, w) }> (s) }""", [{"s": VECTORS, "w": np.array("a", object)}]),
    "words of each item": ("""g (seq(string[N]) s) => (seq(string[M]) y) {
                  n = SequenceLength(s)
                  start = SequenceEmpty <dtype = 8> ()
                  y = Loop (n, , start) <body = b (int64 i, bool c, seq(string[K]) l) => (bool d, seq(string[K]) t)
                    { d = Identity(c) x = SequenceAt(s, i) z = StringConcat(x, x) t = SequenceInsert(l, z) }> }""",
                           [{"s": VECTORS}, {"s": VECTORS[:1]}]),
    "element": ("g (optional(string[N]) o) => (string[N] y) { e = OptionalGetElement(o) y = StringConcat(e, e) }",
                [{"o": texts("a", "")}, {"o": texts("é")}]),
    "optional": ("g (string[N] x) => (optional(string[N]) o) { o = Optional(x) }", [{"x": texts("a", "")}]),
    "optional sequence": ("""g (optional(seq(string[N])) o) => (seq(string[N]) y, bool h)
                             { y = OptionalGetElement(o) h = OptionalHasElement(o) }""", [{"o": VECTORS}]),
    "optional sequence out": ("g (seq(string[N]) s) => (optional(seq(string[N])) o) { o = Optional(s) }", [{"s": VECTORS}]),
}


@pytest.mark.parametrize("name", ROWS)
def test_lists_of_text(name: str) -> None:
    text, runs = ROWS[name]
    check(text, *runs, opset=20)


def test_lists_of_frames_at_the_interface() -> None:
    script = import_model(model_of(ROWS["append"][0])).text
    assert "function(list[unknown] s, frame[string] x) return (list[unknown] y)" in script


def test_known_items_leave_no_list() -> None:
    text = """g (string[N,4] x) => (string[N,2] y) {
        k = Constant <value = int64 {2}> ()
        s = SplitToSequence <axis = 1> (x, k)
        p = Constant <value = int64 {1}> ()
        y = SequenceAt(s, p) }"""
    assert "list" not in "\n".join(map(print_statement, import_model(model_of(text)).functions))
    check(text, {"x": np.concatenate([X, X[::-1]], axis=1)})


@pytest.mark.parametrize("name", ["insert", "optional sequence"])
def test_scoring_function(name: str) -> None:
    """One script for all runs: dims of the items are read from the items."""
    text, runs = ROWS[name]
    expected = backend.prepare(model_of(text, 20))
    with ScoringFunction(import_model(model_of(text, 20))) as function:
        for inputs in runs:
            for actual, other in zip(function(inputs).values(), expected.run(inputs), strict=True):
                compare(actual, other)
    expected.close()


@pytest.mark.engine
def test_run_command(tmp_path: Path) -> None:
    """Items are NAME/0, NAME/1 ... of an .npz file, of numpy's type for strings."""
    save_model(model_of(ROWS["append"][0]), tmp_path / "model.onnx")
    given: dict[str, Any] = {f"s/{number}": item.astype(str) for number, item in enumerate(ITEMS)}
    np.savez(tmp_path / "in.npz", x=X.astype(str), **given)
    arguments = ["run", str(tmp_path / "model.onnx"), "--inputs", str(tmp_path / "in.npz"),
                 "--outputs", str(tmp_path / "out.npz")]
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert "y/3: string [2, 2]" in result.output
    with np.load(tmp_path / "out.npz") as results:
        for number, expected in enumerate([*ITEMS, X]):
            np.testing.assert_array_equal(results[f"y/{number}"].astype(object), expected)


def test_no_items_and_items_without_elements() -> None:
    none = texts([], [])
    check(ROWS["append"][0], {"s": [], "x": X}, {"s": [none[:0].reshape(0, 2)], "x": X}, opset=20)
    text = "g (seq(string[2,N]) s, string[2,2] x) => (seq(string[2,N]) y) { y = SequenceInsert(s, x) }"
    check(text, {"s": [none, X], "x": X}, opset=20)


def test_hostile_strings() -> None:
    words = ["null", "NA", "", "l\nm", "t\tt", "日本", "😀", " lead", "trail ", "1.0", "TRUE", "\x00z", "°", "·", "->"]
    check(ROWS["identity"][0], {"s": [texts(*words).reshape(-1, 1)[:, [0, 0]], texts(words[:2], words[2:4])]})
