"""Transposes that meet after functions of single elements, reductions and Concats; Casts that change nothing."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.inference.notes import Notes
from onnx_systemds.inference.passes import simplify
from onnx_systemds.model.load import load_model
from tests.plain_engine import scored_together

BACK, THERE = "<perm = [0, 3, 1, 2]>", "<perm = [0, 2, 3, 1]>"
CASES = {
    "there and back": (f"(float[N, 2, 3, 4] X) => (float[N, 2, 3, 4] Y) {{ a = Transpose {THERE} (X) Y = Transpose {BACK} (a) }}", 0),
    "each twice the same way": (
        f"(float[N, 2, 3, 4] X) => (float[N, 4, 2, 3] Y) {{ a = Transpose {THERE} (X) Y = Transpose {THERE} (a) }}", 1),
    "a layer of channels last": (
        f"""(float[N, 5, 5, 2] X) => (float[N, 2, 2, 3] Y)
        <float[3, 2, 2, 2] W = {{{", ".join(str(k % 7 - 3) for k in range(24))}}}, float[1, 1, 1, 3] b = {{1, -2, 3}}, float[3] s = {{2, 3, 4}}>
        {{ a = Cast <to = 1> (X) b0 = Transpose {BACK} (a) c = Conv (b0, W) d = Transpose {THERE} (c) e = Cast <to = 1> (d)
          f = Add (e, b) g = Relu (f) h = Mul (s, g) i = Transpose {BACK} (h) j = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (i)
          Y = Transpose {THERE} (j) }}""", 2),
    "a residual": (
        f"""(float[N, 2, 3, 4] X) => (float[N, 2, 3, 4] Y) <float half = {{0.5}}>
        {{ a = Transpose {THERE} (X) b = Mul (a, half) c = Sigmoid (a) d = Sub (c, b) e = PRelu (d, half) Y = Transpose {BACK} (e) }}""", 0),
    "constants of all ranks": (
        f"""(float[N, 2, 3, 4] X) => (float[N, 2, 3, 4] Y)
        <float[2] c = {{1, 2}}, float[4, 2] wc = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[3, 1, 1] h = {{3, 5, 7}}, float[1, 1, 4, 1] w = {{1, 2, 1, 3}}>
        {{ a = Transpose {THERE} (X) b = Sub (a, c) d = Mul (wc, b) e = Div (d, h) f = Max (e, w) g = Clip (f) Y = Transpose {BACK} (g) }}""", 0),
    "broadcast to more": (
        """(float[N, 1, 3] X) => (float[N, 5, 3] Y) <float[5] c = {1, 2, 3, 4, 5}>
        { a = Transpose <perm = [0, 2, 1]> (X) b = Add (a, c) Y = Transpose <perm = [0, 2, 1]> (b) }""", 0),
    "a chosen one": (
        f"""(float[N, 2, 3, 4] X, bool[N, 2, 3, 4] B) => (float[N, 2, 3, 4] Y) <float zero = {{0}}>
        {{ a = Transpose {THERE} (X) b = Transpose {THERE} (B) c = Where (b, a, zero) Y = Transpose {BACK} (c) }}""", 0),
    "maxima of images": (
        f"""(float[N, 2, 3, 4] X) => (float[N, 2] Y) <int64[2] axes = {{1, 2}}>
        {{ a = Transpose {THERE} (X) b = Neg (a) c = ReduceMax <keepdims = 0> (b, axes) d = Relu (c) Y = Neg (d) }}""", 1),
    "means, then back": (
        f"""(float[N, 2, 3, 4] X) => (float[N, 2, 1, 4] Y) <int64[1] axes = {{-3}}>
        {{ a = Transpose {THERE} (X) c = ReduceSum (a, axes) Y = Transpose {BACK} (c) }}""", 0),
    "two axes are left": (
        f"""(float[N, 2, 3, 4] X) => (float[N, 4, 2] Y) <int64[1] axes = {{1}}>
        {{ a = Transpose {THERE} (X) c = ReduceSum <keepdims = 0> (a, axes) Y = Relu (c) }}""", 1),
    "put together": (
        f"""(float[N, 2, 3, 4] X) => (float[N, 4, 3, 4] Y)
        {{ a = Transpose {THERE} (X) b = Transpose {THERE} (X) c = Relu (b) d = Concat <axis = -1> (a, c) Y = Transpose {BACK} (d) }}""", 0),
    "also read in a branch": (
        f"""(float[N, 2, 3, 4] X, bool c) => (float[N, 2, 3, 4] Y)
        {{ a = Transpose {THERE} (X) b = Relu (a) d = If (c) <then_branch = t () => (float[N, 3, 4, 2] p) {{ p = Abs (b) }},
          else_branch = e () => (float[N, 3, 4, 2] q) {{ q = Neg (b) }}> e = Add (d, b) f = Transpose {BACK} (e) g = Transpose {BACK} (b)
          Y = Add (f, g) }}""", 2),
    "also a result": (
        f"(float[N, 2, 3, 4] X) => (float[N, 2, 3, 4] Y, float[N, 3, 4, 2] a, float[N, 2, 3, 4] Z)"
        f"{{ a = Transpose {THERE} (X) b = Transpose {BACK} (a) Y = Relu (b) Z = Transpose {BACK} (a) }}", 1),
}
STAYS = {
    "one way only": f"(float[N, 2, 3, 4] X) => (float[N, 3, 4, 2] Y, float[N, 3, 4, 2] Z) {{ a = Transpose {THERE} (X) Y = Relu (a) Z = Neg (a) }}",
    "by another matrix": f"""(float[N, 2, 3, 4] X, float[N, 3, 4, 2] Z) => (float[N, 2, 3, 4] Y)
        {{ a = Transpose {THERE} (X) b = Add (a, Z) Y = Transpose {BACK} (b) }}""",
    "a scale for each channel": f"""(float[N, 2, 3, 4] X) => (float[N, 2, 3, 4] Y) <float[2] s = {{1, 2}}, int8[2] z = {{0, 1}}>
        {{ a = Transpose {THERE} (X) q = QuantizeLinear <axis = 3> (a, s, z) d = DequantizeLinear <axis = 3> (q, s, z) Y = Transpose {BACK} (d) }}""",
}


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')


def transposes(text: str) -> tuple[int, int]:
    """How many Transposes a model has, and has after the first passes."""
    graph = load_model(parsed(text)).graph
    kinds = [[node.op_type for node in it.nodes].count("Transpose") for it in (graph, simplify(graph, Notes()))]
    return kinds[0], kinds[1]


@pytest.mark.parametrize(("text", "left"), CASES.values(), ids=CASES)
def test_fewer_are_left(text: str, left: int) -> None:
    assert transposes(text)[1] == left


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_others_stay(text: str) -> None:
    before, after = transposes(text)
    assert before == after


@pytest.mark.parametrize("text", [
    f"(float[N, 2, 3] X) => (float[N, 2, 3] Y) {{ a = Transpose {THERE} (X) Y = Transpose {BACK} (a) }}",
    f"(float[N, 2, 3, 4] X) => (float[N, 2, 3, 4] Y) <int64[1] axes = {{4}}> {{ a = Transpose {THERE} (X) b = ReduceSum (a, axes) Y = Transpose {BACK} (b) }}",
    f"(float[N, 2, 3, 4] X) => (float[N, 2, 3, 4] Y) {{ a = Transpose {THERE} (X) b = Concat <axis = 4> (a, a) Y = Transpose {BACK} (b) }}",
], ids=["rank", "axis of a reduction", "axis of a Concat"])
def test_what_breaks_its_rule_is_told(text: str) -> None:
    assert transposes(text) == (2, 2)
    with pytest.raises(TranspileError):
        import_model(parsed(text))


def test_the_same_numbers() -> None:
    random = np.random.default_rng(5)
    scripts, expected = {}, {}
    for name, text in {**{name: text for name, (text, _) in CASES.items()}, **STAYS}.items():
        model = parsed(text)
        runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {}
        for given in runtime.get_inputs():
            numbers = random.normal(size=[3 if dim == "N" else dim for dim in given.shape])
            feeds[given.name] = np.asarray(numbers > 0) if given.type == "tensor(bool)" else numbers.astype(np.float32)
        scripts[name] = (import_model(model), [feeds])
        expected[name] = dict(zip([made.name for made in runtime.get_outputs()], runtime.run(None, feeds)))
    for name, (found,) in scored_together(scripts).items():
        for output, numbers in expected[name].items():
            np.testing.assert_allclose(found[output], numbers, rtol=1e-5, atol=1e-6, err_msg=f"{name}: {output}")


def test_casts_that_change_something_stay() -> None:
    text = """(float[N] X, int64[N] I) => (float[N] Y, float[N] Z, int64[1] S, int64[N] W)
        { a = Cast <to = 1> (X) b = Cast <to = 11> (a) c = Relu (b) d = Cast <to = 11> (c) Y = Cast <to = 1> (d)
          e = Cast <to = 1> (I) f = Neg (e) g = Cast <to = 1> (f) Z = Cast <to = 1> (g) s = Shape (X) S = Cast <to = 7> (s)
          h = Scan <num_scan_inputs = 1, body = roots (int64 i) => (float r) { k = Cast <to = 1> (i) r = Sqrt (k) }> (I)
          l = Cast <to = 7> (h) W = Neg (l) }"""
    found = simplify(load_model(parsed(text)).graph, Notes())
    casts = [(node.inputs[0], node.attributes["to"]) for node in found.nodes if node.op_type == "Cast"]
    assert casts == [("X", 11), ("c", 1), ("I", 1), ("f", 1), ("s", 7), ("h", 7)]


def test_slopes_of_channels_stay_with_them() -> None:
    """Up to opset 6 PRelu has a slope for each number along the second axis, not along the last."""
    text = f"""(float[N, 2, 2, 2] X) => (float[N, 2, 2, 2] Y) <float[2] s = {{2, 3}}>
        {{ a = Transpose {THERE} (X) b = PRelu (a, s) Y = Transpose {BACK} (b) }}"""
    model = onnx.parser.parse_model(f'<ir_version: 3, opset_import: ["" : 6]> g {text}')
    graph = simplify(load_model(model).graph, Notes())
    assert [node.op_type for node in graph.nodes] == ["Transpose", "PRelu", "Transpose"]


@pytest.mark.parametrize("node", ["a = Transpose <perm = [1, 0]> (W) V = Transpose <perm = [1, 0]> (a)", "V = Cast <to = 1> (W)"])
def test_what_a_node_takes_may_be_read_by_its_body_too(node: str) -> None:
    text = f"""(float[2, 3] W) => (float[2, 3] Y)
        <int64 n = {{3}}> {{ {node}
          Y = Loop (n, "", V) <body = body (int64 i, bool go, float[2, 3] s) => (bool on, float[2, 3] t)
            {{ on = Identity (go) t = Add (s, V) }}> }}"""
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = scored_together({"loop": (import_model(parsed(text)), [{"W": numbers}])})["loop"]
    np.testing.assert_array_equal(found[0]["Y"], 4 * numbers)
