"""A matrix gets the shape that it needs at once, and a shape that is read several times has a name."""

from __future__ import annotations

import pytest

from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.plain_expressions import with_plain_expressions_in
from onnx_systemds.importing.passes.single_shapes import with_single_shapes_in

HEAD = "f = function(matrix[double] X, integer n) return (matrix[double] Y, matrix[double] Z) {\n"


@pytest.mark.parametrize(
    "body, expected",
    [
        ("Y = matrix(matrix(X, rows=1, cols=4 * n), rows=2, cols=2 * n)\nZ = X", "Y = matrix(X, rows=2, cols=2 * n)\nZ = X"),
        ("v = matrix(X, rows=1, cols=4 * n)\nY = matrix(v, rows=n, cols=4) + 1\nZ = matrix(v, rows=4, cols=n)",
         "Y = matrix(X, rows=n, cols=4) + 1\nZ = matrix(X, rows=4, cols=n)"),
        ("v = matrix(X, rows=1, cols=4 * n)\nw = matrix(v, rows=2, cols=2 * n)\nY = matrix(w, rows=n, cols=4) + 1\nZ = X",
         "Y = matrix(X, rows=n, cols=4) + 1\nZ = X"),
        ("Y = cbind(matrix(X, rows=n, cols=4), matrix(X, rows=n, cols=4), X[1, ])\nZ = X",
         "X_by_4 = matrix(X, rows=n, cols=4)\nY = cbind(X_by_4, X_by_4, X[1, ])\nZ = X"),
        ("Y = rbind(matrix(X, rows=4, cols=n), matrix(X, rows=4, cols=n))\nZ = Y + matrix(X, rows=4, cols=n)",
         "X_view = matrix(X, rows=4, cols=n)\nY = rbind(X_view, X_view)\nZ = Y + matrix(X, rows=4, cols=n)"),
        ("v = matrix(X, rows=n, cols=4)\nY = v %*% matrix(X, rows=4, cols=n)\nZ = rbind(matrix(X, rows=n, cols=4), Y)",
         "v = matrix(X, rows=n, cols=4)\nY = v %*% matrix(X, rows=4, cols=n)\nZ = rbind(v, Y)"),
    ],
    ids=["in one expression", "by a variable", "by two variables", "repeated", "of open size", "with a name"],
)
def test_a_shape_is_given_once(body: str, expected: str) -> None:
    assert shaped(f"{body}\na = matrix(matrix(X, rows=1, cols=n), rows=n, cols=1)") == (
        f"{expected}\na = matrix(X, rows=n, cols=1)"
    )


@pytest.mark.parametrize(
    "body",
    [
        "v = matrix(X, rows=1, cols=4 * n)\nY = matrix(v, rows=n, cols=4)\nZ = v + 1",
        "v = matrix(X, rows=1, cols=4 * n)\nX = X + 1\nY = matrix(v, rows=n, cols=4)\nZ = X",
        "Y = matrix(X, rows=1, cols=4 * n)\nZ = matrix(Y, rows=n, cols=4)",
        "v = X\nfor (i in 1:n) {\n  v = v + 1\n}\nY = cbind(matrix(v, rows=n, cols=4), matrix(v, rows=n, cols=4))\nZ = X",
        "v = matrix(X, rows=n, cols=4)\nfor (i in 1:n) {\n  v = v + 1\n}\nY = v\nZ = rbind(matrix(X, rows=n, cols=4), Y)",
        "v = matrix(X, rows=n, cols=4)\nY = v + matrix(X, rows=n, cols=4) * n\nZ = X",
    ],
    ids=["read as it is", "of what changes", "a result", "repeated, of what changes", "a name of what changes",
         "in arithmetic"],
)
def test_a_shape_stays(body: str) -> None:
    assert shaped(body) == body


def test_what_was_read_once_is_shaped_once() -> None:
    body = "Y = matrix(matrix(cbind(X, X), rows=1, cols=n), rows=n, cols=1)\nZ = X"
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    expected = "Y = matrix(cbind(X, X), rows=n, cols=1)\nZ = X\n"
    assert print_block(with_plain_expressions_in(function).body) == expected


def shaped(body: str) -> str:
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    return print_block(with_single_shapes_in(function).body).rstrip("\n")
