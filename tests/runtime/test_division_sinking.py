"""Quotients of Softmax behind the products that take them, in specialised scripts; onnxruntime judges."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_script
from onnx_systemds.dml.syntax import Script
from onnx_systemds.importing.passes.specialisation.division_sinking import with_sunk_divisions
from onnx_systemds.operators.support.products import looped_product
from tests.plain_engine import score_plainly

RANDOM = np.random.default_rng(23)

OTHERS = """
pairs = function(matrix[double] X, matrix[double] Y) return (matrix[double] Z) {
  Z = rbind(X[1:2, ] %*% t(Y[1:3, ]), X[3:4, ] %*% t(Y[4:6, ]))
}
backwards = function(matrix[double] A, matrix[double] B) return (matrix[double] C) {
  C = rbind(A[3:4, ] %*% t(B[4:6, ]), A[1:2, ] %*% t(B[1:3, ]))
}
part = function(matrix[double] A, matrix[double] B) return (matrix[double] C) {
  C = rbind(A[1:2, ] %*% B, A[3:3, ] %*% B)
}
both = function(matrix[double] A, matrix[double] B) return (matrix[double] C) {
  C = rbind(A[1:2, ] %*% t(A[1:2, ]), A[3:4, ] %*% t(B[1:2, ]))
}
"""
EXP = "e = exp(X - rowMaxs(X))"
SOFTMAX = f"{EXP}\np = e / rowSums(e)\n"
OTHERS += f"{looped_product('loop', 2, (2, 5, 3))}\n"
OTHERS += looped_product("other_loop", 2, (2, 5, 3)).replace("%*% Q", "%*% (Q + i)")


def rewritten_body(body: str) -> str:
    """The statements of a function of X (4 x 5), V (5 x 3), W (5 x 5), B (6 x 5), U (10 x 3) and a number a."""
    given = {"X": (4, 5), "V": (5, 3), "W": (5, 5), "B": (6, 5), "U": (10, 3), "a": math.nan}
    parameters = ", ".join(f"{'matrix[double]' if isinstance(size, tuple) else 'double'} {name}"
                           for name, size in given.items())
    script = parse_script(f"f = function({parameters}) return (matrix[double] Y) {{\n{body}\n}}{OTHERS}")
    function = with_sunk_divisions(script.functions["f"], script.functions, given)
    return print_script(Script(function.body)).strip()


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("p %*% V", "e %*% V / rowSums(e)"),
        ("p %*% V + a", "e %*% V / rowSums(e) + a"),
        ("V %*% (p %*% V)", "V %*% (e %*% V / rowSums(e))"),
        ("pairs(p, B)", "pairs(e, B) / rowSums(e)"),
        ("loop(p, U)", "loop(e, U) / rowSums(e)"),
    ],
)
def test_narrower_products(product: str, expected: str) -> None:
    assert rewritten_body(f"{SOFTMAX}Y = {product}") == f"{EXP}\nY = {expected}"


@pytest.mark.parametrize(
    "body",
    [
        f"{SOFTMAX}Y = p %*% W",  # not narrower
        f"{SOFTMAX}Y = p %*% V + sum(p)",
        f"{SOFTMAX}Y = t(p) %*% X",
        f"{SOFTMAX}Y = W %*% p",
        f'{SOFTMAX}Y = p %*% removeEmpty(target=V, margin="cols")',
        f"{SOFTMAX}Y = backwards(p, B)",
        f"{SOFTMAX}Y = part(p, V)",
        f"{SOFTMAX}Y = both(p, B)",
        f"{SOFTMAX}Y = other_loop(p, U)",
        f"{SOFTMAX}if (a > 0) {{\n  Y = p %*% V\n}}",
        f"{SOFTMAX}p = p + 1\nY = p %*% V",
        f"{SOFTMAX}e = e + 1\nY = p %*% V",
        "e = X\np = e / rowSums(e)\nY = p %*% V",  # sums may be zero
        "e = exp(X)\np = e / rowSums(e)\nY = p %*% V",  # the product may be beyond all numbers
        f"{EXP}\np = e / rowMaxs(e)\nY = p %*% V",
        f"{EXP}\nY = e / rowSums(e)\nz = Y %*% V",  # a result
        f"{EXP}\ns = exp(X + a)\np = e / rowSums(s)\nY = p %*% V",
    ],
)
def test_what_stays(body: str) -> None:
    assert rewritten_body(body) == body


def attention(batch: int, tokens: int, features: int) -> ModelProto:
    """Softmax of a batch of matrices, times values."""
    nodes = [helper.make_node("Softmax", ["x"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    shapes = {"x": [batch, tokens, tokens], "v": [batch, tokens, features], "y": [batch, tokens, features]}
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(nodes, "attention", [infos["x"], infos["v"]], [infos["y"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.engine
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_attention(batch: int) -> None:
    """Of one matrix, of some that are written out, and of many; rows with infinities and without numbers, too."""
    model = attention(batch, 6, 2)
    x, v = (RANDOM.normal(size=(batch, 6, size)).astype(np.float32) * 3 for size in (6, 2))
    x[0, 0, :3], x[0, 1, 2], x[0, 2] = -np.inf, np.nan, -np.inf
    x[0, 3, 1], v[-1, -1, 0] = 40, np.inf
    script = import_model(model)
    assert " / (p_exp %*% matrix(1, rows=6, cols=1))" in script.text and "\n  p = " not in script.text
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x, "v": v})[0]
    np.testing.assert_allclose(score_plainly(script, {"x": x, "v": v})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.engine
def test_weights_that_are_a_result() -> None:
    """Attention whose weights are an output, too, as PyTorch's need_weights gives them."""
    nodes = [helper.make_node("Softmax", ["x"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])]
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [6, size])
             for name, size in {"x": 6, "v": 2, "p": 6, "y": 2}.items()}
    graph = helper.make_graph(nodes, "attention", [infos["x"], infos["v"]], [infos["y"], infos["p"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = {name: RANDOM.normal(size=(6, size)).astype(np.float32) for name, size in (("x", 6), ("v", 2))}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    found = score_plainly(import_model(model), inputs)
    for name, numbers in zip(("y", "p"), expected):
        np.testing.assert_allclose(found[name], numbers, rtol=1e-5, atol=1e-6)
