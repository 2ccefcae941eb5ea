"""Attention that keeps samples behind tokens, as PyTorch's MultiheadAttention does; onnxruntime judges."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.verifying.verify import verify_model

NUMBERS = np.random.default_rng(5)
WEIGHTS = {"W": (4, 12), "w": (12,), "O": (4, 4), "o": (4,), "V": (4, 4), "v": (4,), "F": (5, 5), "R": (10, 4), "C": (10, 3), "K": (3, 1)}
CONSTANTS = {
    **{name: NUMBERS.normal(size=dims).astype(np.float32) for name, dims in WEIGHTS.items()},
    "three": np.array([5, -1, 3, 4]), "at0": np.array(0), "at1": np.array(1),
    "at2": np.array(2), "axis0": np.array([0]), "axis3": np.array([3]), "beside": np.array([5, -1, 2]),
    "other": np.array([6, -1, 2]),
    "six": np.array([-1, 2, 6, 2]), "split": np.array([-1, 4, 2, 2]),
    "apart": np.array([-1, 2, 5, 2]), "rows": np.array([-1, 4]), "back": np.array([5, -1, 4]),
    "E": NUMBERS.normal(size=(5, 4)).astype(np.float32), "all": np.array([-1]), "scale": np.array(0.7, np.float32),
    "twice": np.array([2]), "four": np.array([4]),
}
FIRST = "t = Transpose <perm = [1, 0, 2]> (X)"
PACKED = """p = MatMul(t, W) a = Add(w, p) r = Reshape(a, three) e = Unsqueeze(r, axis0)
    m = Transpose <perm = [3, 1, 2, 0, 4]> (e) f = Squeeze(m, axis3)
    q = Gather <axis = 0> (f, at0) k = Gather <axis = 0> (f, at1) s = Gather <axis = 0> (f, at2)"""
APART = "q = MatMul(t, O) k1 = MatMul(t, V) k = Sub(k1, v) s1 = MatMul(t, O) s2 = Add(s1, o) s = Mul(s2, scale)"
BESIDE = """qb = Reshape(q, beside) qh = Transpose <perm = [1, 0, 2]> (qb) kb = Reshape(k, beside)
    kh = Transpose <perm = [1, 0, 2]> (kb) sb = Reshape(s, beside) sh = Transpose <perm = [1, 0, 2]> (sb)"""
HEADS = f"""{BESIDE} q4 = Reshape(qh, apart) k4 = Reshape(kh, apart) s4 = Reshape(sh, apart)
    kt = Transpose <perm = [0, 1, 3, 2]> (k4) c = MatMul(q4, kt) d = Mul(c, scale) g = Softmax <axis = -1> (d)
    h = MatMul(g, s4) j = Transpose <perm = [2, 0, 1, 3]> (h)"""
PAIRS = f"""{BESIDE} qs = Mul(qh, scale) kt = Transpose <perm = [0, 2, 1]> (kh) c = MatMul(qs, kt)
    g = Softmax <axis = -1> (c) h = MatMul(g, sh) j = Transpose <perm = [1, 0, 2]> (h)"""
OUT = "i = Reshape(j, rows) l = Gemm <transB = 1> (i, O, o) n = Reshape(l, back)"
LAST = "Y = Transpose <perm = [1, 0, 2]> (n)"


def model_of(*texts: str, inputs: str = "float[N, 5, 4] X", dims: str = "x, y, z") -> ModelProto:
    """A model with the constants that its text names."""
    text = " ".join(texts)
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    model = onnx.parser.parse_model(f"{header} g ({inputs}) => (float[{dims}] Y) {{ {text} }}")
    made = {name for node in model.graph.node for name in node.output}
    read = {name for node in model.graph.node for name in node.input} - made
    model.graph.initializer.extend(numpy_helper.from_array(CONSTANTS[name], name) for name in CONSTANTS if name in read)
    return model


def fired(model: ModelProto) -> list[str]:
    """The operators at which the pass says that it did something."""
    return [note.op_type for note in import_model(model).notes if note.rule == "samples-first" and note.fired]


def calls_attention(script: Script) -> bool:
    return "attention" in {function.name for function in script.library}


def permutes(script: Script) -> bool:
    """Whether rows are put into another order."""
    return "row_order" in script.text or "gathered" in script.text


@pytest.mark.engine
@pytest.mark.parametrize("heads", [HEADS, PAIRS], ids=["heads apart", "pairs"])
@pytest.mark.parametrize("first", [PACKED, APART], ids=["packed", "apart"])
def test_a_layer_has_samples_first(heads: str, first: str) -> None:
    model = model_of(FIRST, first, heads, OUT, LAST)
    script = import_model(model)
    assert script.batching is not None and script.batching.batch is not None
    assert calls_attention(script) and not permutes(script)
    assert verify_model(model).passed


@pytest.mark.engine
@pytest.mark.parametrize("out", [
    "l = Gemm <transB = 1> (i, O)", "l = Gemm (i, O, o)", "l1 = MatMul(i, O) l = Add(l1, o)", "l = MatMul(i, V)",
])
def test_what_follows_the_heads(out: str) -> None:
    text = f"i = Reshape(j, rows) {out} n = Reshape(l, back)"
    model = model_of(FIRST, PACKED, HEADS, text, LAST)
    script = import_model(model)
    assert script.batching is not None and script.batching.batch is not None and not permutes(script)
    assert verify_model(model).passed


@pytest.mark.engine
@pytest.mark.parametrize("heads", [HEADS, PAIRS], ids=["heads apart", "pairs"])
def test_tokens_that_come_first_are_transposed_once(heads: str) -> None:
    """Before the products of queries, keys and values, and after that of their heads."""
    model = model_of("t = Abs(X)", PACKED, heads, OUT, "Y = Add(n, t)", inputs="float[5, N, 4] X")
    script = import_model(model)
    assert script.batching is not None and script.batching.batch is not None
    assert script.batching.batch.inputs == (1,)
    assert calls_attention(script) and script.text.count("= gathered") + script.text.count("(gathered") == 2
    assert verify_model(model).passed


@pytest.mark.engine
def test_keys_of_other_tokens() -> None:
    """Of an input with tokens first, and another number of them."""
    keys = "k = MatMul(z, V) s = MatMul(z, O)"
    memory = BESIDE.replace("Reshape(k, beside)", "Reshape(k, other)").replace("Reshape(s, beside)", "Reshape(s, other)")
    heads = HEADS.replace(BESIDE, memory).replace("Reshape(kh, apart)", "Reshape(kh, six)")
    heads = heads.replace("Reshape(sh, apart)", "Reshape(sh, six)")
    model = model_of("z = Abs(Z)", "q = MatMul(X, O)", keys, heads, OUT, "Y = Add(n, X)",
                     inputs="float[5, N, 4] X, float[6, N, 4] Z")
    script = import_model(model)
    assert calls_attention(script) and script.batching is not None and script.batching.batch is not None
    assert verify_model(model).passed


@pytest.mark.engine
@pytest.mark.parametrize("product", [
    "Gemm <alpha = 0.5> (i, O, o)", "Gemm <beta = 0.5> (i, O, o)", "Gemm (i, O, R)", "Gemm <transA = 1> (i, C)",
])
def test_other_products_stay(product: str) -> None:
    """A Gemm whose factors are not 1, that adds another number to each row, or that sums over rows."""
    model = model_of(FIRST, f"i = Reshape(t, rows) Y = {product}", inputs="float[2, 5, 4] X", dims="x, y")
    assert fired(model) == []
    assert verify_model(model).passed


@pytest.mark.engine
def test_a_gemm_of_rows_in_turns_is_one_of_samples() -> None:
    model = model_of(FIRST, "i = Reshape(t, rows) l = Gemm(i, O, o) Y = Reshape(l, back)")
    assert fired(model) == ["Gemm", "Reshape"]
    script = import_model(model)
    assert script.batching is not None and script.batching.batch is not None
    assert verify_model(model).passed


def test_a_transpose_of_channels_stays() -> None:
    """Nothing is in front of the samples, so nothing brings them back."""
    model = model_of("c = Transpose <perm = [0, 2, 1]> (X) m = MatMul(c, F) Y = Transpose <perm = [0, 2, 1]> (m)")
    assert fired(model) == []


def test_what_is_not_read_by_row_stays() -> None:
    model = model_of(FIRST, "s = CumSum(t, at0) p = MatMul(s, O) Y = Transpose <perm = [1, 0, 2]> (p)")
    assert fired(model) == []


@pytest.mark.engine
def test_sizes_that_are_all_open() -> None:
    """Pairs of samples and heads, of as many tokens as there are: the dims come from a Shape."""
    sizes = """z = Shape <start = 0, end = 1> (t) b = Shape <start = 1, end = 2> (t) two1 = Mul(b, twice)
        beside = Concat <axis = 0> (z, two1, twice) all = Concat <axis = 0> (z, b, four)"""
    model = model_of(FIRST, sizes, APART, PAIRS, OUT.replace("back", "all"), LAST, inputs="float[N, T, 4] X")
    script = import_model(model)
    assert "Transpose" in fired(model)
    assert script.batching is not None and script.batching.batch is not None and not permutes(script)
    assert verify_model(model, dims={"T": 3, "N": 2}).passed and verify_model(model).passed


@pytest.mark.engine
def test_samples_that_are_not_known_apart_stay() -> None:
    """Words that were looked up in one list: no Reshape says how many samples it is of. It is asked for twice."""
    text = """f = Reshape(I, all) e = Gather(E, f) s = Shape(I) a = Concat <axis = 0> (s, four) r = Reshape(e, a)
        t = Transpose <perm = [1, 0, 2]> (r) p = MatMul(t, V) z = Shape <start = 0, end = 1> (t)
        n = Shape <start = 1, end = 2> (t) m = Mul(n, twice) b = Concat <axis = 0> (z, m, twice)
        h = Reshape(p, b) Y = Transpose <perm = [1, 0, 2]> (h)"""
    model = model_of(text, inputs="int64[a, b] I")
    assert fired(model) == []
    assert verify_model(model, {"I": np.array([[0, 1, 2], [3, 4, 1]])}).passed


@pytest.mark.engine
def test_a_source_that_would_have_to_be_written_first_stays() -> None:
    """An axis of one place goes, which is no part of a row: what is before it is no source to transpose."""
    text = """t = Transpose <perm = [1, 0, 2, 3]> (X) p = MatMul(t, K) g = Gather <axis = 3> (p, at0) r = Reshape(g, split)
        Y = Transpose <perm = [1, 0, 2, 3]> (r)"""
    model = model_of(text, inputs="float[4, N, 4, 3] X", dims="x, y, z, w")
    assert fired(model) == []
    assert verify_model(model).passed
