"""A Gather of one place goes before what is computed for all places; onnxruntime judges."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.verifying.verify import verify_model

NUMBERS = np.random.default_rng(3)
WEIGHTS = {
    "W": (4, 4), "V": (4, 4), "U": (4, 6), "u": (6,), "gamma": (4,), "beta": (4,), "row": (1, 4), "tokens": (5, 4),
    "mask": (1, 1, 5, 5), "one": (1, 1, 1, 5),
}
CONSTANTS = {
    **{name: NUMBERS.normal(size=dims).astype(np.float32) for name, dims in WEIGHTS.items()},
    "first": np.array(0), "last": np.array(-1), "second": np.array(1), "list": np.array([0]),
    "heads": np.array([0, 0, 2, 2]), "fixed": np.array([-1, 5, 2, 2]), "joined": np.array([0, 0, 4]),
}
LAYER = """
    n = LayerNormalization(X, gamma, beta)
    q = MatMul(n, W) qh = Reshape(q, {heads}) qt = Transpose <perm = [0, 2, 1, 3]> (qh)
    k = MatMul(n, V) kh = Reshape(k, {heads}) kt = Transpose <perm = [0, 2, 3, 1]> (kh)
    v = Add(n, row) vh = Reshape(v, {heads}) vt = Transpose <perm = [0, 2, 1, 3]> (vh)
    s = MatMul(qt, kt) m = Add(s, {mask}) p = Softmax <axis = -1> (m)
    o = MatMul(p, vt) ot = Transpose <perm = [0, 2, 1, 3]> (o) oj = Reshape(ot, joined)
    r = Add(oj, X) l = LayerNormalization(r, gamma) f = MatMul(l, U) fb = Add(f, u) g = Relu(fb)
    c = Clip(g) y = Gather <axis = 1> (c, {place})"""


def model_of(text: str, inputs: str, outputs: str = "float[a, b] y", opset: int = 17) -> ModelProto:
    """A model with the constants that its text names."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {text} }}')
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(CONSTANTS[name], name) for name in CONSTANTS if name in read)
    return model


def hoisted(model: ModelProto) -> list[str]:
    """What the pass says that it did."""
    return [note.words for note in import_model(model).notes if note.rule == "gather-hoisting" and note.fired]


@pytest.mark.engine
@pytest.mark.parametrize("inputs", ["float[N, 5, 4] X", "float[1, 5, 4] X", "float[N, 5, 4] X, float[N, 1, 1, 5] given"])
@pytest.mark.parametrize("place", ["first", "last", "second"])
@pytest.mark.parametrize("heads", ["heads", "fixed"])
def test_a_layer_is_computed_for_one_token(inputs: str, place: str, heads: str) -> None:
    mask = "given" if "given" in inputs else "mask" if place == "last" else "one"
    model = model_of(LAYER.format(heads=heads, mask=mask, place=place), inputs)
    (words,) = hoisted(model)
    assert words.startswith("before 15 nodes")  # all but the first normalization and what is made of that
    assert verify_model(model).passed


@pytest.mark.engine
@pytest.mark.parametrize(("text", "inputs"), [
    ("a = MatMul(X, W) b = Mul(a, tokens) y = Gather <axis = 1> (b, second)", "float[N, 5, 4] X"),
    ("a = MatMul(X, W) b = Mul(row, a) y = Gather <axis = 1> (b, last)", "float[N, S, 4] X"),
    ("a = MatMul(X, Z) b = Exp(a) y = Gather <axis = 0> (b, second)", "float[3, 2, 4] X, float[3, 4, 2] Z"),
    ("a = MatMul(X, Z) b = Exp(a) y = Gather <axis = 0> (b, last)", "float[3, 2, 4] X, float[1, 4, 2] Z"),
    ("a = MatMul(X, W) y = Gather <axis = -1> (a, second)", "float[N, 5, 4] X"),
    ("a = MatMul(X, W) b = Where(C, a, X) y = Gather <axis = 1> (b, first)", "float[N, 5, 4] X, bool[N, 5, 1] C"),
    ("a = MatMul(X, W) b = Add(a, X) c = Add(b, a) y = Gather <axis = 1> (c, last)", "float[N, 5, 4] X"),
    ("a = MatMul(X, W) b = Transpose(a) y = Gather <axis = 1> (b, last)", "float[N, 5, 4] X"),
], ids=str)
def test_what_is_computed_for_one_place(text: str, inputs: str) -> None:
    model = model_of(text, inputs)
    assert len(hoisted(model)) == 1
    assert verify_model(model).passed


@pytest.mark.engine
@pytest.mark.parametrize(("text", "inputs", "outputs"), [
    ("a = MatMul(X, W) y = Gather <axis = 1> (a, first) z = Exp(a)", "float[N, 5, 4] X", "float[a, b] y, float[a, b, c] z"),
    ("a = MatMul(X, W) y = Gather <axis = 1> (a, first)", "float[N, 5, 4] X", "float[a, b] y, float[a, b, c] a"),
    ("a = MatMul(X, W) y = Gather <axis = 1> (a, list)", "float[N, 5, 4] X", "float[a, 1, b] y"),
    ("a = MatMul(X, W) y = Gather <axis = 1> (a, i)", "float[N, 5, 4] X, int64 i", "float[a, b] y"),
    ("a = MatMul(X, W) b = MatMul(a, Z) y = Gather <axis = 1> (b, first) z = Exp(a)", "float[2, 5, 4] X, float[4, 3] Z",
     "float[a, b] y, float[a, b, c] z"),
    # rows that are one for all, or as many: it is not known which
    ("a = MatMul(X, W) b = Add(a, Z) y = Gather <axis = 1> (b, last)", "float[N, S, 4] X, float[N, T, 4] Z", "float[a, b] y"),
    ("a = MatMul(X, W) b = Softmax <axis = 1> (a) y = Gather <axis = 2> (b, first)", "float[N, 5, 4] X", "float[a, b] y"),
    ("a = LayerNormalization(X, gamma) y = Gather <axis = 2> (a, first)", "float[N, 5, 4] X", "float[a, b] y"),
    ("a = MatMul(X, W) y = Gather <axis = 1> (a, first)", "float[N, 1, 4] X", "float[a, b] y"),
], ids=str)
def test_what_is_computed_for_all_places(text: str, inputs: str, outputs: str) -> None:
    model = model_of(text, inputs, outputs)
    assert len(hoisted(model)) == ("b = MatMul(a, Z)" in text)  # the second product is of one place, the first one of all
    assert verify_model(model).passed


def test_slopes_of_channels() -> None:
    """Before opset 7 a PRelu has a slope for each place of the second axis, as many as the last one may have.

    ONNX's reference implementation takes them for those of the last axis, onnxruntime has no such operator.
    """
    model = model_of("a = MatMul(X, W) b = PRelu(a, beta) y = Gather <axis = 2> (b, first)", "float[2, 4, 4] X", opset=6)
    assert not hoisted(model)
