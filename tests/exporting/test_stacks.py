"""Rows in another order and products of parts: what becomes a Transpose and a product of stacks, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.exporting.passes.stacks import exchanged_axes
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


def turned(body: str) -> tuple[list[str], Array, Array]:
    """The operators of a model of 6 x 4, its input, and what it gives."""
    model = exported(body, dims="6,4")
    data = np.random.default_rng(5).normal(size=(6, 4))
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
