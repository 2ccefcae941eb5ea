"""Joins that only their parts are read of, and products of pairs, which scripts write out."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.specialisation.joined_parts import with_parts_apart
from tests.plain_engine import score_plainly

FUNCTIONS = """
products = function(matrix[double] X, matrix[double] Y) return (matrix[double] Z) {
  Z = rbind(X[1:4, ] %*% Y[1:3, ], X[5:8, ] %*% Y[4:6, ])
}
transposed = function(matrix[double] X, matrix[double] Y) return (matrix[double] Z) {
  Z = rbind(X[1:4, ] %*% t(Y[1:4, ]), X[5:8, ] %*% t(Y[5:8, ]))
}
"""


def parted(body: str) -> str:
    """The statements of a function whose parameters are X of 4 x 6, U of 3 x 5 and W of 8 x 3."""
    head = "f = function(matrix[double] X, matrix[double] U, matrix[double] W) return (matrix[double] Y)"
    functions = parse_script(f"{FUNCTIONS}\n{head} {{\n{body}\n}}").functions
    given = {"X": (4, 6), "U": (3, 5), "W": (8, 3)}
    return print_block(with_parts_apart(functions.pop("f"), functions, given).body).strip()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("A = rbind(X[, 1:3], X[, 4:6])\nB = rbind(U, U + 1)\nY = products(A, B)",
         "Y = rbind(X[, 1:3] %*% U, X[, 4:6] %*% (U + 1))"),
        ("A = rbind(X[, 1:3], X[, 4:6])\nY = products(A, W)",
         "Y = rbind(X[, 1:3] %*% W[1:3, ], X[, 4:6] %*% W[4:6, ])"),
        ("A = rbind(X[, 1:3], X[, 4:6])\nY = transposed(W, A) / 2",
         "Y = rbind(W[1:4, ] %*% t(X[, 1:3]), W[5:8, ] %*% t(X[, 4:6])) / 2"),
        ("A = rbind(X[, 1:3], X[, 4:6])\nB = products(A, W)\nY = cbind(B[1:4, ], B[5:8, ])",
         "Y = cbind(X[, 1:3] %*% W[1:3, ], X[, 4:6] %*% W[4:6, ])"),
        ("A = rbind(X[1, ], X[2:3, ])\nY = A[1, ] + A[2:3, ]", "Y = X[1, ] + X[2:3, ]"),
        ("A = rbind(X, X * 2)\nY = A[5:8, ]", "Y = X * 2"),
        ("A = matrix(X[2, ], rows=2, cols=3)\nY = rbind(A[1, ] %*% U, A[2, ] %*% W[1:3, ])",
         "Y = rbind(X[2, 1:3] %*% U, X[2, 4:6] %*% W[1:3, ])"),
        ("A = matrix(X[1, 2:5], rows=4, cols=1)\nY = A[4, ]", "Y = X[1, 5]"),
        ("Y = matrix(rbind(X[1, ], X[2, ] * 2), rows=1, cols=12) + 1", "Y = cbind(X[1, ], X[2, ] * 2) + 1"),
    ],
)
def test_parts_are_read_where_they_come_from(body: str, expected: str) -> None:
    assert parted(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "Y = products(W, W)",  # no factor is joined
        "A = rbind(X[, 1:3], X[, 4:6])\nY = products(A, W) + sum(A)",
        "A = rbind(X[1:2, 1:3], X[3:4, 1:3], X[, 4:6])\nY = products(A, W)",  # of other parts
        "A = rbind(X[, 1:3], X[, 4:6])\nX = X + 1\nY = products(A, W)",
        "A = rbind(X[, 1:3], X[, 4:6])\nA[1, 1] = 2\nY = products(A, W)",
        "A = rbind(X[, 1:3], X[, 4:6])\nif (sum(X) > 1) {\n  Y = A[1:4, ]\n} else {\n  Y = A[5:8, ]\n}",
        "A = rbind(X, X * 2)\nY = A[5:8, ] + A[5:8, ]",  # would be computed twice
        "A = rbind(X, X * 2)\nY = A[4:8, ]",
        "A = rbind(X, X * 2)\nY = A[5:8, 1]",
        "A = rbind(X, rand(rows=4, cols=6))\nY = A[5:8, ]",
        "A = rbind(X, removeEmpty(target=X, margin=\"rows\"))\nY = A[1:4, ]",  # its size is not known
        "Y = rbind(X, X * 2)\nY = Y[1:4, ]",
        "A = matrix(X[1:2, ], rows=4, cols=3)\nY = A[4, ]",  # of two rows
        "A = matrix(X[1, ], rows=nrow(U), cols=2)\nY = A[3, ]",
        "Y = matrix(rbind(X[1, ], X[2:3, ]), rows=1, cols=18)",  # whose parts would be of different heights
        "Y = matrix(rbind(X[1, ], X[2, ]), rows=2, cols=6)",
    ],
)
def test_what_stays(body: str) -> None:
    assert parted(body) == body


@pytest.mark.engine
def test_heads_of_one_sample() -> None:
    """Three heads of an attention, whose queries, keys and values are columns of one product."""
    weight = np.random.default_rng(5).normal(size=(6, 18)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["all"]),
             helper.make_node("Split", ["all"], list("qkv"), axis=2, num_outputs=3)]
    for name in "qkv":
        nodes.append(helper.make_node("Reshape", [name, "heads"], [f"{name}_heads"]))
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(helper.make_node("Transpose", [f"{name}_heads"], [f"{name}_moved"], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["q_moved", "k_moved"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v_moved"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["moved"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["moved", "flat"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 5, 6]) for name in "xy"]
    constants = {"w": weight, "heads": np.array([1, 5, 3, 2]), "flat": np.array([1, 5, 6])}
    tensors = [helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.ravel())
               for name, value in constants.items()]
    graph = helper.make_graph(nodes, "heads", infos[:1], infos[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = np.random.default_rng(6).normal(size=(1, 5, 6)).astype(np.float32)
    script = import_model(model)
    assert "rbind(all[, 1:2] %*% t(all[, 7:8])," in script.text and "matrix_products" not in script.text
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(score_plainly(script, {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)
