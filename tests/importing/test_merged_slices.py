"""Parts of parts of matrices, which scripts take from the matrix itself."""

from __future__ import annotations

import pytest

from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.merged_slices import with_merged_slices_in


def merged(body: str) -> str:
    script = parse_script(f"f = function(matrix[double] X) return (matrix[double] Y) {{\n{body}\n}}")
    return print_block(with_merged_slices_in(script.functions["f"]).body).strip()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v = X[, 3:6]\nY = v[, 1:2] + v[, 3:4]", "Y = X[, 3:4] + X[, 5:6]"),
        ("v = X[2:6, ]\nY = v[2:3, ] + v[5, ]", "Y = X[3:4, ] + X[6, ]"),
        ("v = X[2:6, ]\nY = v[, 2:3]", "Y = X[2:6, 2:3]"),
        ("v = X[2:6, 3:9]\nY = v[1, 7] + v[5, ]", "Y = X[2, 9] + X[6, 3:9]"),
        ("v = X[, 5]\nY = v[2:3, ]", "Y = X[2:3, 5]"),
        ("n = nrow(X)\nv = X[, 3:6]\nY = v[1:n, 4]", "n = nrow(X)\nY = X[1:n, 6]"),
        ("W = X + 1\nv = W[, 3:6]\nY = v[, 1:2]\nZ = v[, 3]", "W = X + 1\nY = W[, 3:4]\nZ = W[, 5]"),
        ("v = X[, 3:6]\n[Y, Z] = g(v[, 1:2], v[, 2])", "[Y, Z] = g(X[, 3:4], X[, 4])"),
    ],
)
def test_parts_of_parts(body: str, expected: str) -> None:
    assert merged(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "v = X[, 3:6]\nY = v[, 1:2] + sum(v)",
        "v = X[, 3:6]\nY = v[, 1:2] + nrow(v)",
        "v = X[, 3:6]\nY = v[, 4:5]",  # beyond the part, though not beyond the matrix
        "v = X[, 3:6]\nY = v[, 0:1]",
        "v = X[, 3:6]\nn = sum(X)\nY = v[, 1:n]",
        "n = ncol(X)\nv = X[, 3:n]\nY = v[, 1:2]",
        "v = X[, 3:6]\nX = X + 1\nY = v[, 1:2]",
        "v = X[, 3:6]\nX[1, 1] = 5\nY = v[, 1:2]",
        "v = X[, 3:6]\nv[1, 1] = 5\nY = v[, 1:2]",
        "v = X[, 3:6]\nv = v[, 2:3]\nY = v[, 1]",
        "v = X[, 3:6]\nfor (i in 1:3) {\n  Y = v[, 1:2]\n}",
        "Y = X[, 3:6]\nZ = Y[, 1:2]",  # a result
        "L = list(X)\nv = L[1]\nY = as.matrix(v[1])",
        "v = X[, ]\nY = v[, 1:2]",
        "v = X[, 3:6]\nY = X",
    ],
)
def test_others_stay(body: str) -> None:
    assert merged(body) == body
