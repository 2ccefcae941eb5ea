"""Nodes that compute the same are one, and others are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, parser

from onnx_systemds import ScoringFunction, import_model

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)


def parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEADER} {text}")


def check(model: onnx.ModelProto, feeds: dict[str, Any]) -> str:
    """The script gives what onnxruntime gives; its text."""
    script = import_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with ScoringFunction(script) as score:
        for got, expected in zip(score(feeds).values(), session.run(None, feeds), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    return script.text


def test_equal_nodes_are_one() -> None:
    """Also by equal constants, by nodes that are one before, as outputs of the graph, and read by a sub-graph."""
    text = check(parsed("""g (float[n, 3] X, bool c) => (float[n, 3] Y, float[n, 3] Z, float[n, 3] W)
        <float[3] one = {0.1, 0.2, 0.3}, float[3] other = {0.1, 0.2, 0.3}> {
          a = Add(X, one) b = Add(X, other) p = Exp(a) Z = Exp(b) q = Sin(Z) r = Sin(p)
          W = If (c) <then_branch = t () => (float[n, 3] u) { u = Mul(r, q) },
                      else_branch = e () => (float[n, 3] v) { v = Neg(r) }>
          Y = Sub(q, p) }"""), {"X": X, "c": np.array(True)})
    assert text.count("exp(") == text.count("sin(") == 1


@pytest.mark.parametrize(
    "nodes",
    [
        "a = RandomNormalLike(X) b = RandomNormalLike(X) Y = Sub(a, b)",
        "a = LeakyRelu <alpha = 0.1> (X) b = LeakyRelu <alpha = 0.2> (X) Y = Sub(a, b)",
        "a, i = TopK <axis = 1, largest = 1> (X, k) b, j = TopK <axis = 1, largest = 0> (X, k) Y = Sub(a, b)",
    ],
    ids=["random numbers", "other attributes", "an attribute of several"],
)
def test_others_are_not(nodes: str) -> None:
    model = parsed(f"""g (float[n, 3] X) => (float[n, 3] Y)
        <int64[1] k = {{3}}> {{ {nodes} }}""")
    if "Random" in nodes:
        with ScoringFunction(import_model(model)) as score:
            assert np.abs(score({"X": X})["Y"]).min() > 0
    else:
        check(model, {"X": X})


@pytest.mark.parametrize(
    ("first", "second", "content"),
    [
        (onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E4M3FNUZ, [0x38, 0x40, 0xB9]),
        (onnx.TensorProto.INT4, onnx.TensorProto.UINT4, [0x21, 0x07]),
    ],
    ids=["8 bits", "4 bits"],
)
def test_constants_of_equal_bytes_and_other_types(first: int, second: int, content: list[int]) -> None:
    text = """g (float[n, 3] X) => (float[n, 3] Y) <float s = {1.0}> {
        p = DequantizeLinear(a, s) q = DequantizeLinear(b, s) m = Mul(X, p) Y = Sub(m, q) }"""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name, kind in (("a", first), ("b", second)):
        model.graph.initializer.append(helper.make_tensor(name, kind, [3], bytes(content), raw=True))
    assert " a = " in (written := import_model(model).text) and " b = " in written


def test_layers_stay_as_they_are() -> None:
    """Each layer has its own mask, by which it is a function as all others."""
    text = """g (float[n, 3] X) => (float[n, 3] Y) { a = Exp(X) b = Sin(X) p = Mul(a, b)
        c = Exp(X) d = Mul(c, p) e = Exp(X) Y = Mul(e, d) }"""
    model = parsed(text)
    for name, node in zip(("0/Exp", "0/Sin", "0/Mul", "0/Exp_1", "0/Mul_1", "1/Exp", "1/Mul"), model.graph.node):
        node.name = f"/encoder/layer.{name}"
    assert check(model, {"X": X}).count("exp(") == 2


def test_far_apart() -> None:
    """Of nodes whose layers are not known those that are near each other are one."""
    steps = " ".join(f"s{place + 1} = Sin(s{place})" for place in range(40))
    model = parsed(f"g (float[n, 3] X) => (float[n, 3] Y) {{ a = Exp(X) b = Exp(X) s0 = Sub(a, b) {steps} "
                   "c = Exp(X) Y = Add(c, s40) }")
    assert check(model, {"X": X}).count("exp(") == 2
