"""Attentions in scripts for any size, triple by triple where their matrices are large; onnxruntime judges."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from benchmarks.round_trip import exported as back
from benchmarks.round_trip import operators
from onnx_systemds import import_model
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.specialisation.attention import with_batch_attention
from tests.exporting.export_harness import run_model
from tests.plain_engine import calls_plainly

RANDOM = np.random.default_rng(29)
SCORES = "s = matrix(batch_matmul_transposed(Q, K, n), rows=10, cols=7)"
SOFTMAX = "e = exp(s - rowMaxs(s))\np = e / rowSums(e)"
PRODUCT = "matrix(batch_matmul(p, V, n), rows=10, cols=4)"


def rewritten_body(body: str) -> str:
    """The statements of a function of Q, K and V, n = 2 matrices 5 x 3, 7 x 3 and 7 x 4 each."""
    given = {"Q": (10, 3), "K": (14, 3), "V": (14, 4), "n": 2}
    parameters = "matrix[double] Q, matrix[double] K, matrix[double] V, integer n, double a"
    function = parse_script(f"f = function({parameters}) return (matrix[double] Y) {{\n{body}\n}}").functions["f"]
    functions = {function.name: function for function in library_functions(["batch_matmul", "batch_matmul_transposed"])}
    return "\n".join(print_block(with_batch_attention(function, functions, {**given, "a": math.nan}).body).splitlines())


@pytest.mark.parametrize("between", ["", "b = Q + a\n"])
def test_one_call(between: str) -> None:
    body = f"{SCORES}\n{SOFTMAX}\n{between}Y = {PRODUCT} * 2"
    assert rewritten_body(body) == f"{between}Y = matrix(batch_attention(Q, K, V, n), rows=10, cols=4) * 2"


@pytest.mark.parametrize(
    "body",
    [
        f"{SCORES}\n{SOFTMAX}\nY = {PRODUCT} + sum(p)",
        f"{SCORES}\n{SOFTMAX}\nY = {PRODUCT} + sum(e)",
        f"{SCORES}\n{SOFTMAX}\nY = {PRODUCT} + sum(s)",
        f"{SCORES}\n{SOFTMAX}\nQ = Q + 1\nY = {PRODUCT}",
        f"{SCORES}\n{SOFTMAX}\nY = matrix(batch_matmul(p, V, 1), rows=10, cols=4)",
        f"{SCORES}\n{SOFTMAX}\nif (a > 0) {{\n  Y = {PRODUCT}\n}}",
        f"{SCORES}\ne = exp(s * a - rowMaxs(s * a))\np = e / rowSums(e)\nY = {PRODUCT}",
        f"s = matrix(batch_matmul_transposed(Q, K, n), rows=14, cols=5)\n{SOFTMAX}\n"
        "Y = matrix(batch_matmul(p, V, n), rows=14, cols=4)",  # rows of other numbers
        f"s = batch_matmul(Q, K, n)\n{SOFTMAX}\nY = {PRODUCT}",
    ],
)
def test_what_stays(body: str) -> None:
    assert rewritten_body(body) == body


def attention() -> ModelProto:
    """Any number of matrices of any number of rows."""
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "t"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    shapes = {"q": ["n", "rows", 3], "k": ["n", "keys", 3], "v": ["n", "keys", 2], "y": ["n", "rows", 2]}
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(nodes, "attention", [infos[name] for name in "qkv"], [infos["y"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inputs(count: int, rows: int, keys: int) -> dict[str, np.ndarray]:
    sizes = {"q": (rows, 3), "k": (keys, 3), "v": (keys, 2)}
    given = {name: RANDOM.normal(size=(count, *size)).astype(np.float32) for name, size in sizes.items()}
    given["q"][-1, 0, 0], given["q"][0, 1, 1], given["v"][0, 2, 1] = np.nan, np.inf, np.inf
    return given


CALLS = [inputs(3, 4, 5), inputs(3, 64, 128), inputs(1, 100, 90)]


@pytest.mark.engine
def test_small_and_large_ones() -> None:
    model = attention()
    script = import_model(model)
    assert "(batch_attention(" in script.text.partition("gen_attention = ")[2]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for call, found in zip(CALLS, calls_plainly(script, CALLS)):
        np.testing.assert_allclose(found["y"], session.run(None, call)[0], rtol=1e-4, atol=1e-6)


def test_it_comes_back() -> None:
    model, call = attention(), CALLS[1]
    found, _ = back(import_model(model), call)
    assert operators(found) == {"Transpose": 1, "MatMul": 2, "Softmax": 1, "Reshape": 1}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, call)[0]
    (own,) = run_model(found, call).values()
    np.testing.assert_allclose(own.reshape(expected.shape), expected, rtol=1e-4, atol=1e-6)
