"""Rows and columns of what statements assign, as expressions over the sizes that the script has."""

from __future__ import annotations

import pytest

from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.importing.passes.result_sizes import shapes_in

CONVOLUTION = "input_shape=[{images}, 3, 8, 6], filter_shape=[4, 3, 3, 3], stride=[2, 1], padding=[1, 1]"


@pytest.mark.parametrize(("value", "expected"), [
    ("matrix(X, rows=2 * n, cols=5) %*% matrix(0, rows=5, cols=7)", ("2 * n", "7")),
    ("table(seq(1, n), X, n, n + 32)", ("n", "n + 32")),
    ("table(seq(1, n), X)", None),
    ("table(seq(1, n), X, n, n + 32) %*% rbind(X, matrix(0, rows=32, cols=ncol(X)))", ("n", "ncol(X)")),
    ("rbind(X, matrix(0, rows=32, cols=4))", ("nrow(X) + 32", "ncol(X)")),
    ("rbind(matrix(0, rows=2, cols=4), matrix(0, rows=32, cols=4))", ("34", "4")),
    ("cbind(X, matrix(0, rows=n, cols=2), X)", ("nrow(X)", "2 * ncol(X) + 2")),
    ("rbind(X, removeEmpty(target=X, margin=\"rows\"))", None),
    (f"conv2d(X, X, {CONVOLUTION.format(images='2 * n')})", ("2 * n", "96")),
    (f"conv2d(X, X, {CONVOLUTION.format(images='n')}) + 1", ("n", "96")),
    ("conv2d(X, X, input_shape=[n, 3, n, 6], filter_shape=[4, 3, 3, 3], stride=[2, 1], padding=[1, 1])", None),
    ("max_pool(X, input_shape=[n, 3, 8, 6], pool_size=[2, 2], stride=[2, 2], padding=[0, 0])", ("n", "36")),
])
def test_results(value: str, expected: tuple[str, str] | None) -> None:
    text = f"f = function(matrix[double] X, integer n) return (matrix[double] Y) {{\n  Y = {value}\n}}"
    found = shapes_in(parse_script(text).functions["f"], {}).get("Y")
    assert (found and tuple(map(print_expression, found))) == expected
