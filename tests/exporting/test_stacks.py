"""Rows in another order and products of parts: what becomes a Transpose and a product of stacks, and what does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onnx_systemds.exporting.passes.stacks import common_factors, exchanged_axes
from onnx_systemds.inference.dims import Dims
from tests.exporting.export_harness import Array, assert_close, run_model
from tests.exporting.test_idioms import exported, operators

ORDERS = [((2, 3), (1, 0)), ((2, 3, 4), (0, 2, 1)), ((2, 3, 4), (2, 1, 0)), ((3, 2, 5), (1, 0, 2)), ((2, 2, 2, 3), (3, 1, 2, 0))]


@pytest.mark.parametrize(("sizes", "order"), ORDERS)
def test_the_axes_of_an_order_are_found(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    places = np.arange(np.prod(sizes)).reshape(sizes).transpose(order).ravel()
    found = exchanged_axes(places)
    assert found is not None
    assert len(found[0]) <= len(sizes)
    np.testing.assert_array_equal(np.arange(places.size).reshape(found[0]).transpose(found[1]).ravel(), places)


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [1, 0, 2, 3], [3, 2, 1, 0], [0, 0, 1, 1], [0, 2, 1, 1], [0, 2, 4, 6]])
def test_an_order_without_axes(places: list[int]) -> None:
    assert exchanged_axes(np.array(places)) is None


SPLITS = [((24, 16), (2, 192), 1, 1, ((2, 12, 16), 2, 1)), ((24, 16), (24, 16), 1, 0, ((24, 16), 1, 0)),
          ((2, 192), (24, 16), 1, 1, ((2, 12, 16), 1, 2)), ((6, 1), (2, 3, 1), 1, 1, ((2, 3), 2, 1)),
          ((6, 4), (4, 6), 0, 0, None), ((0, 4), (4, 0), 0, 0, None), ((6,), (4,), 0, 0, None)]


@pytest.mark.parametrize(("one", "other", "axis", "other_axis", "wanted"), SPLITS)
def test_common_factors(one: Dims, other: Dims, axis: int, other_axis: int, wanted: object) -> None:
    assert common_factors(one, other, axis, other_axis) == wanted


def turned(body: str, dims: str = "6,4") -> tuple[list[str], Array, Array]:
    """The operators of a model of one matrix, its input, and what it gives."""
    model = exported(body, dims=dims)
    data = np.random.default_rng(5).normal(size=[int(size.replace("N", "6")) for size in dims.split(",")])
    return operators(model), data, run_model(model, {"X": data})["Y"]


def test_rows_of_exchanged_axes_are_a_transposition() -> None:
    order = "o = matrix(t(matrix(seq(1, 12), rows=3, cols=4)), rows=12, cols=1)\nP = table(seq(1, 12), o, 12, 44)"
    rows = "P %*% rbind(matrix(X, rows=12, cols=2), matrix(0, rows=32, cols=2))"
    used, data, found = turned(f"{order}\nY = matrix({rows}, rows=4, cols=6)")
    assert used == ["Reshape", "Transpose", "Reshape"]
    assert_close(found, data.reshape(3, 4, 2).transpose(1, 0, 2).reshape(4, 6), 1e-6, "exchanged")


def test_products_of_parts_are_one_of_stacks() -> None:
    parts = [f"X[{rows}, ] %*% t(X[{rows}, ])" for rows in ("1:2", "3:4", "5:6")]
    used, data, found = turned(f"Y = rbind({', '.join(parts)})")
    blocks = data.reshape(3, 2, 4)
    assert used == ["Reshape", "Transpose", "MatMul", "Reshape"]
    assert_close(found, (blocks @ blocks.transpose(0, 2, 1)).reshape(6, 2), 1e-6, "transposed")


def test_products_of_some_columns_are_one_of_stacks() -> None:
    """As heads of an attention are, whose queries and keys are columns of one product."""
    products = [f"X[, {place}:{place + 1}] %*% t(X[, {place + 6}:{place + 7}])" for place in (1, 3, 5)]
    used, data, found = turned(f"Y = rbind({', '.join(products)})", "6,12")
    assert used.count("MatMul") == 1 and used.count("Slice") == 2 and "Concat" not in used
    left, right = (data[:, first : first + 6].reshape(6, 3, 2).transpose(1, 0, 2) for first in (0, 6))
    assert_close(found, (left @ right.transpose(0, 2, 1)).reshape(18, 6), 1e-6, "columns")


def test_products_of_narrow_and_wide_columns_of_one_matrix() -> None:
    used, data, found = turned("Y = rbind(X[, 1:2] %*% X[, 1:4], X[, 3:4] %*% X[, 5:8])", "2,8")
    assert_close(found, np.vstack([data[:, :2] @ data[:, :4], data[:, 2:4] @ data[:, 4:]]), 1e-6, "narrow and wide")
    assert used.count("MatMul") == 1


def test_products_of_rows_and_columns_beside_one_another_are_one_of_stacks() -> None:
    """As heads of an attention are: shares in rows, values in columns of a product."""
    used, data, found = turned("Y = cbind(X[1:3, 1:3] %*% X[1:3, 5:6], X[4:6, 1:3] %*% X[1:3, 7:8])", "6,8")
    shares, values = data[:, :3].reshape(2, 3, 3), data[:3, 4:].reshape(3, 2, 2).transpose(1, 0, 2)
    assert_close(found, (shares @ values).transpose(1, 0, 2).reshape(3, 4), 1e-6, "beside")
    assert used.count("MatMul") == 2  # the parts are of rows and columns
    used, data, found = turned("S = X[, 1:3] * 2\nV = X[1:3, ]\nY = cbind(S[1:3, ] %*% V[, 5:6], S[4:6, ] %*% V[, 7:8])", "6,8")
    shares, values = 2 * data[:, :3].reshape(2, 3, 3), data[:3, 4:].reshape(3, 2, 2).transpose(1, 0, 2)
    assert_close(found, (shares @ values).transpose(1, 0, 2).reshape(3, 4), 1e-6, "beside")
    assert used.count("MatMul") == 1


def test_products_with_parts_of_another_matrix() -> None:
    parts = [f"X[{2 * i - 1}:{2 * i}, ] %*% B[{4 * i - 3}:{4 * i}, ]" for i in (1, 2, 3)]
    used, data, found = turned(f"B = matrix(X + 1, rows=12, cols=2)\nY = rbind({', '.join(parts)})")
    assert used == ["Add", "Reshape", "Reshape", "MatMul", "Reshape"]
    assert_close(found, (data.reshape(3, 2, 4) @ (data + 1).reshape(3, 4, 2)).reshape(6, 2), 1e-6, "another")


def test_parts_in_another_order_are_no_stack() -> None:
    parts = [f"X[{a}, ] %*% t(X[{b}, ])" for a, b in (("1:2", "3:4"), ("3:4", "1:2"), ("5:6", "5:6"))]
    used, data, found = turned(f"Y = rbind({', '.join(parts)})")
    blocks = data.reshape(3, 2, 4)
    assert used.count("MatMul") == 3
    assert_close(found, (blocks @ blocks[[1, 0, 2]].transpose(0, 2, 1)).reshape(6, 2), 1e-6, "order")


def heads(x: Array) -> Array:
    return x.reshape(6, 2, 2).transpose(1, 0, 2)


PARTS: list[tuple[str, str, str, Callable[[Array], Array], list[str]]] = [
    ("columns below one another", "Y = rbind(X[, 1:2], X[, 3:4])", "N,4", lambda x: heads(x).reshape(12, 2),
     ["Reshape", "Transpose", "Reshape"]),
    ("rows beside one another", "Y = cbind(X[1:2, ], X[3:4, ], X[5:6, ])", "6,4",
     lambda x: x.reshape(3, 2, 4).transpose(1, 0, 2).reshape(2, 12), ["Reshape", "Transpose", "Reshape"]),
    ("of another shape", "Y = cbind(matrix(X[, 1:2], rows=3, cols=4), matrix(X[, 3:4], rows=3, cols=4))", "6,4",
     lambda x: heads(x).reshape(2, 3, 4).transpose(1, 0, 2).reshape(3, 8), ["Reshape", "Transpose", "Reshape"]),
    ("of a range", "Y = rbind(X[, 2], X[, 3], X[, 4])", "N,4", lambda x: x[:, 1:].T.reshape(18, 1),
     ["Slice", "Transpose", "Reshape"]),
    ("of a range of rows", "Y = rbind(matrix(X[2:3, ], rows=4, cols=2), matrix(X[4:5, ], rows=4, cols=2))", "6,4",
     lambda x: x[1:5].reshape(8, 2), ["Slice", "Reshape"]),
    ("in another order", "Y = rbind(X[, 3:4], X[, 1:2])", "N,4", lambda x: heads(x)[::-1].reshape(12, 2),
     ["Slice", "Slice", "Concat"]),
    ("with a gap", "Y = rbind(X[, 1], X[, 3])", "N,4", lambda x: x[:, ::2].T.reshape(12, 1), ["Slice", "Slice", "Concat"]),
    ("used again", "A = X[, 1:2]\nY = rbind(A, X[, 3:4]) * sum(A)", "N,4",
     lambda x: heads(x).reshape(12, 2) * x[:, :2].sum(), ["Slice", "Slice", "Concat", "ReduceSum", "Mul"]),
    ("products of columns", "Y = rbind(X[, 1:2] %*% t(X[, 1:2]), X[, 3:4] %*% t(X[, 3:4]))", "6,4",
     lambda x: (heads(x) @ heads(x).transpose(0, 2, 1)).reshape(12, 6),
     ["Reshape", "Transpose", "Transpose", "MatMul", "Reshape"]),
    ("products side by side", "Y = cbind(t(X[, 1:2]) %*% X[, 1:2], t(X[, 3:4]) %*% X[, 3:4])", "6,4",
     lambda x: (heads(x).transpose(0, 2, 1) @ heads(x)).transpose(1, 0, 2).reshape(2, 4),
     ["Reshape", "Transpose", "Transpose", "MatMul", "Transpose", "Reshape"]),
    ("shares that are divided last", "E = exp(X - rowMaxs(X))\nY = (E %*% t(X)) / rowSums(E)", "N,4",
     lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True) @ x.T, ["Transpose", "Softmax", "MatMul"]),
    ("shares of stacks", "E = exp(X - rowMaxs(X))\nP = rbind(E[1:3, ] %*% t(X[1:3, ]), E[4:6, ] %*% t(X[4:6, ]))\n"
     "Y = P / rowSums(E)", "6,4",
     lambda x: (np.exp(x) / np.exp(x).sum(1, keepdims=True)).reshape(2, 3, 4).__matmul__(
         x.reshape(2, 3, 4).transpose(0, 2, 1)).reshape(6, 3),
     ["Reshape", "Transpose", "Softmax", "Reshape", "MatMul", "Reshape"]),
    ("powers that may be too large", "E = exp(X)\nY = (E %*% t(X)) / rowSums(E)", "N,4",
     lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True) @ x.T, ["Exp", "Transpose", "MatMul", "ReduceSum", "Div"]),
]


@pytest.mark.parametrize(("name", "body", "dims", "wanted", "nodes"), PARTS, ids=[row[0] for row in PARTS])
def test_consecutive_parts(name: str, body: str, dims: str, wanted: Callable[[Array], Array], nodes: list[str]) -> None:
    used, data, found = turned(body, dims)
    assert used == nodes
    assert_close(found, wanted(data), 1e-6, name)
