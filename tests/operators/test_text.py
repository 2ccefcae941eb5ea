"""Text tensors: moved and compared as codes, made anew by text operators; judged by onnxruntime or by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from onnx_systemds import backend, import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.operators.rendering.script_parts import LARGEST_LITERAL
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.command_line import run_dml
from tests.operators.harness import Covered

HEAD = '<ir_version: 10, opset_import: ["" : {opset}]>\n'
COVERED = [Covered("StringConcat", (20,), symbolic=True), Covered("RegexFullMatch", (20,), symbolic=True),
           Covered("StringSplit", (20,), symbolic=True), Covered("StringNormalizer", (20,), symbolic=True),
           Covered("TfIdfVectorizer", (20,), symbolic=True)]
OPSET = COVERED[0].opsets[0]
WORDS = np.array([["red", "", "blue"], ["Größe", "blue", "x\\y \"q\" 'z', 1"]], dtype=object)


def model_of(text: str, opset: int = OPSET) -> onnx.ModelProto:
    """A model from ONNX's text form."""
    return onnx.parser.parse_model(HEAD.format(opset=opset) + text)


def check(text: str, *runs: dict[str, Any], opset: int = OPSET) -> None:
    """Run a model on the engine and in onnxruntime: equal strings and numbers."""
    model = model_of(text, opset)
    judge = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    prepared = backend.prepare(model)
    for inputs in runs:
        for actual, expected in zip(prepared.run(inputs), judge.run(None, inputs), strict=True):
            assert actual.dtype == np.asarray(expected).dtype
            np.testing.assert_array_equal(actual, expected)
    prepared.close()


MOVED = {
    "identity": "g (string[N,3] x) => (string[N,3] y) { y = Identity(x) }",
    "transpose": "g (string[N,3] x) => (string[3,N] y) { y = Transpose(x) }",
    "reshape": "g (string[N,3] x) => (string[M] y) { s = Constant <value_ints = [-1]> () y = Reshape(x, s) }",
    "gather": "g (string[N,3] x) => (string[N,2] y) { i = Constant <value_ints = [2, 0]> () y = Gather <axis = 1> (x, i) }",
    "concat": 'g (string[N,3] x) => (string[N,6] y) { y = Concat <axis = 1> (x, x) }',
    "split": "g (string[N,3] x) => (string[N,1] a, string[N,2] b) { s = Constant <value_ints = [1, 2]> () a, b = Split <axis = 1> (x, s) }",
    "tile": "g (string[N,3] x) => (string[N,6] y) { r = Constant <value_ints = [1, 2]> () y = Tile(x, r) }",
    "expand": "g (string[N,3] x) => (string[2,N,3] y) { u = Constant <value_ints = [2, 1, 1]> () y = Expand(x, u) }",
    "unsqueeze": "g (string[N,3] x) => (string[N,1,3] y) { a = Constant <value_ints = [1]> () y = Unsqueeze(x, a) }",
    "where": 'g (string[N,3] x) => (string[N,3] y) { k = Constant <value = string[1] {"blue"}> () c = Equal(x, k) '
             'd = Constant <value = string[1] {"was blue"}> () y = Where(c, d, x) }',
    "shape": "g (string[N,3] x) => (int64[2] y) { y = Shape(x) }",
    "sequence": "g (string[N,3] x) => (string[N,3] y) { s = SequenceConstruct(x, x) p = Constant <value_int = 1> () y = SequenceAt(s, p) }",
}


@pytest.mark.parametrize("name", MOVED)
def test_moved_as_codes(name: str) -> None:
    check(MOVED[name], {"x": WORDS}, {"x": WORDS[:1]}, {"x": np.concatenate([WORDS, WORDS[::-1], WORDS])})


def test_equal_broadcast() -> None:
    """By hand: onnxruntime 1.31 finds "blue" different from itself in this broadcast."""
    text = "g (string[N,3] x) => (bool[N,3] y) { t = Constant <value_ints = [0]> () r = Gather(x, t) y = Equal(x, r) }"
    with ScoringFunction(import_model(model_of(text))) as function:
        for given in (WORDS, WORDS[::-1]):
            np.testing.assert_array_equal(function({"x": given})["y"], given == given[:1])


def test_rank_0_is_a_string() -> None:
    text = 'g (string x) => (string y, bool b) { k = Constant <value = string {"blue"}> () b = Equal(x, k) y = Identity(x) }'
    check(text, {"x": np.array("blue", dtype=object)}, {"x": np.array("", dtype=object)})
    script = import_model(model_of(text)).text
    assert "function(string x) return (string y, boolean b)" in script


def test_frames_at_the_interface() -> None:
    script = import_model(model_of("g (string[N,3] x) => (string[3,N] y) { y = Transpose(x) }")).text
    assert "function(frame[string] x) return (frame[string] y)" in script


def test_several_inputs_share_the_dictionary() -> None:
    text = "g (string[N] x, string[M] y) => (string[K] z, bool[N] e) { z = Concat <axis = 0> (x, y, x) o = Identity(y) e = Equal(x, o) }"
    a, b = np.array(["u", "v", ""], dtype=object), np.array(["v", "v", ""], dtype=object)
    check(text, {"x": a, "y": b}, {"x": b, "y": a})


CONSTANT = 'g (int64[N] i) => (string[N] y) {{ k = Constant <value = string[{count}] {{{words}}}> () y = Gather(k, i) }}'


@pytest.mark.parametrize("count", [1, 3, LARGEST_LITERAL + 20])
def test_known_strings(count: int) -> None:
    words = [f"w{number}" for number in range(count)]
    text = CONSTANT.format(count=count, words=", ".join(f'"{word}"' for word in words))
    check(text, {"i": np.array([count - 1, 0, count // 2])}, {"i": np.array([0])})


def hostile_model() -> onnx.ModelProto:
    """A model that holds strings which DML cannot write."""
    model = model_of(CONSTANT.format(count=2, words='"a", "b"'))
    tensor = model.graph.node[0].attribute[0].t
    tensor.string_data[:] = ["back\\slash · °".encode(), b"tab\tquote\"'"]
    return model


def test_known_strings_that_dml_cannot_write() -> None:
    for weights in ("auto", "inline", "files"):
        with ScoringFunction(import_model(hostile_model(), weights=weights)) as function:
            result = function({"i": np.array([1, 0])})["y"]
        assert result.tolist() == ["tab\tquote\"'", "back\\slash · °"]


def test_text_on_the_command_line(tmp_path: Path) -> None:
    """From CSV to CSV with the plain engine, the dictionary beside the script."""
    script = import_model(hostile_model(), weights="files")
    script.save(tmp_path / "model.dml")
    run_dml(f"""source("model.dml") as m
weights = m::{script.function}_init()
i = matrix("1 0 1", rows=3, cols=1)
y = m::{script.function}(i, weights)
write(y, "y.csv", format="csv", sep=";")
""", tmp_path)
    assert (tmp_path / "y.csv").read_text(encoding="utf-8").count("back\\slash") == 1


@pytest.mark.parametrize("text, runs", [
    ("g (string[N,3] x, string[3] y) => (string[N,3] z) { z = StringConcat(x, y) }",
     [{"x": WORDS, "y": WORDS[1]}, {"x": WORDS[:1], "y": WORDS[0]}]),
    ("g (string[N] x) => (bool[N] z) { z = RegexFullMatch <pattern = \"a*\"> (x) }",
     [{"x": np.array(["", ""], object)}, {"x": np.array(["a"], object)}]),
    ("g (string[N,3] x) => (bool[N,3] z) { z = RegexFullMatch <pattern = \"[a-z]+|G.*e\"> (x) }", [{"x": WORDS}]),
    ("g (string[N,3] x) => (string[N,3,K] y, int64[N,3] z) { y, z = StringSplit <delimiter = \"l\"> (x) }",
     [{"x": WORDS[1:]}, {"x": np.array([["l", "all all", "none"]], dtype=object)}]),
    ("g (string[N] x) => (string[N,K] y, int64[N] z) { y, z = StringSplit <maxsplit = 1> (x) }",
     [{"x": np.array(["a b  c", " ", "one"], dtype=object)}]),
    ("g (string[1,A,B] x) => (string[K,1,A,B] y) { w, z = StringSplit(x) y = Transpose <perm = [3, 0, 1, 2]> (w) }",
     [{"x": np.array([[["a b", "c d e"], ["q", ""]]], object)}, {"x": np.array([[["a"]]], object)}]),
    ("g (string[N] x) => (string[M] y) <int64[1] s = {-1}> { w, z = StringSplit(x) y = Reshape(w, s) }",
     [{"x": np.array(["a b", "c d e"], object)}, {"x": np.array([""], object)}]),
    ("""g (string[N,1] x) => (string[N,1,K,L] y, int64[N,1,K] v) {
        w, z = StringSplit(x) y, v = StringSplit <delimiter = "|"> (w) }""",
     [{"x": np.array([["a|b b"], ["c d|e|"]], object)}, {"x": np.array([["a"]], object)}]),
    ("""g (string x, bool c) => (string[1] y, string z) <int64[1] one = {1}> {
        v = Reshape(x, one) z = If (c) <then_branch = t () => (string a) { k = Constant <value = string {"0"}> () a = StringConcat(x, k) },
                                        else_branch = e () => (string b) { l = Constant <value = string {"°"}> () b = StringConcat(x, l) }>
        y = StringConcat(x, v) }""",
     [{"x": np.array(text, object), "c": np.array(c)} for text, c in (("5 °C", True), ("a·b", False), ("¶", True))]),
    ("g (string x) => (string[K] y, int64 z) { y, z = StringSplit(x) }",
     [{"x": np.array(text, dtype=object)} for text in ("a b  c", "one", "")]),
    ("g (string[N] x) => (string[M] y) { y = StringNormalizer <locale = \"C\", case_change_action = \"UPPER\", stopwords = [\"a\", \"B\"]> (x) }",
     [{"x": np.array(["A", "b", "cd"], dtype=object)}, {"x": np.array(["a", "b"], dtype=object)}]),
    ("g (string[1,N] x) => (string[1,M] y) { y = StringNormalizer <locale = \"C\", case_change_action = \"NONE\", is_case_sensitive = 1, stopwords = [\"a\"]> (x) }",
     [{"x": np.array([["A", "a", "cd"]], dtype=object)}, {"x": np.array([["x"]], dtype=object)}]),
    ("""g (string[1,N] x) => (string[1,M] y) { z = StringNormalizer <locale = "C", case_change_action = "UPPER", stopwords = ["a"]> (x)
        y = StringNormalizer <locale = "C", case_change_action = "NONE", stopwords = ["cd"]> (z) }""",
     [{"x": np.array([["A", "b", "cd", "e"]], dtype=object)}, {"x": np.array([["a", "cd"]], dtype=object)}]),
    ("""g (string[N,C] x) => (float[N,3] y) { y = TfIdfVectorizer <mode = "TFIDF", min_gram_length = 1, max_gram_length = 2,
        max_skip_count = 1, ngram_counts = [0, 2], ngram_indexes = [0, 2, 1], weights = [0.5, 2.0, 3.0],
        pool_strings = ["red", "blue", "red", "blue"]> (x) }""",
     [{"x": WORDS}, {"x": np.array([["red", "red", "blue", "blue"]], dtype=object)}]),
])
def test_text_operators(text: str, runs: list[dict[str, Any]]) -> None:
    check(text, *runs)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams_of_integers(mode: str) -> None:
    text = f"""g (int64[N,C] x) => (float[N,7] y) {{ y = TfIdfVectorizer <mode = "{mode}", min_gram_length = 1,
        max_gram_length = 3, max_skip_count = 2, ngram_counts = [0, 2, 6], ngram_indexes = [0, 1, 2, 3, 4, 5, 6],
        pool_int64s = [2, 3, 2, 3, 3, 2, 5, 2, 3, 5, 5, 6, 7, 8, 5],
        weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> (x) }}"""
    numbers = np.random.default_rng(3).integers(1, 9, (40, 12))
    check(text, {"x": numbers}, {"x": numbers[:3, :2]}, {"x": numbers[:2, :1]})


@pytest.mark.parametrize("far", [9, 40_000_000])
def test_ngrams_of_integers_near_and_far(far: int) -> None:
    """Numbers that lie near each other are looked up in a table, others by sorting."""
    text = f"""g (int64[N,C] x) => (float[N,4] y) {{ y = TfIdfVectorizer <mode = "TF", min_gram_length = 1,
        max_gram_length = 2, max_skip_count = 0, ngram_counts = [0, 3], ngram_indexes = [2, 0, 1, 3],
        pool_int64s = [{far}, -7, 0, -7, {far}]> (x) }}"""
    numbers = np.random.default_rng(5).choice([-8, -7, -6, 0, 1, far - 1, far, far + 1, 2**50, -(2**50)], (40, 12))
    check(text, {"x": numbers}, {"x": numbers[:1, :2]}, {"x": numbers[:3, :1]})


@pytest.mark.parametrize("text, message", [
    ("g (string[2] x) => (string[2] y) { y = Dropout(x) }", "is string, the operator takes floats"),
    ("g (string[2,3] x) => (string[2,3] y) { y = StringNormalizer(x) }", "neither"),
    ("g (string[2] x) => (bool[2] y) { y = RegexFullMatch <pattern = \"(?=a)\"> (x) }", "cannot be written for Java"),
    ("""g (string[2] x) => (float[2] y) { y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 0,
        ngram_counts = [0], ngram_indexes = [0, 1], pool_strings = ["cat", "the cat"]> (x) }""", "up to 1 tokens begin, max_gram_length is 2"),
    ("""g (string[2] x) => (float[2] y) { y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 0,
        ngram_counts = [0, 1], ngram_indexes = [0, 1], pool_strings = ["cat", "the"]> (x) }""", "do not hold whole n-grams"),
])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(TranspileError, match=message):
        import_model(model_of(text))
