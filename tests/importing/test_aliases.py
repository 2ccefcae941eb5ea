"""A value has one name, where it needs no two."""

from __future__ import annotations

import pytest

from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.aliases import without_aliases_in

HEAD = "f = function(matrix[double] X, integer h) return (matrix[double] Y, matrix[double] Z) {\n"


@pytest.mark.parametrize(
    "body, expected",
    [
        ("a = X * 2\nb = a\nY = b + b\nZ = a", "Z = X * 2\nY = Z + Z"),
        ("a = X\nb = a\nY = b[1, ]\nZ = Y * b", "Y = X[1, ]\nZ = Y * X"),
        ("[a, b] = g(X, h)\nY = a\nZ = b", "[Y, Z] = g(X, h)"),
        ("a = X * 2\nY = a\nZ = a", "Y = X * 2\nZ = Y"),
        (
            "a = X\nfor (i in 1:h) {\n  a = a + 1\n}\nb = a\nY = b * b\nZ = Y + h",
            "a = X\nfor (i in 1:h) {\n  a = a + 1\n}\nY = a * a\nZ = Y + h",
        ),
        ("a = X * X\nY = matrix(a, rows=h, cols=1)\nb = a\nZ = matrix(b, rows=1, cols=h)",
         "a = X * X\nY = matrix(a, rows=h, cols=1)\nZ = matrix(a, rows=1, cols=h)"),
        ("rows = h\nY = matrix(X, rows=rows, cols=1)\nZ = Y + rows", "Y = matrix(X, rows=h, cols=1)\nZ = Y + h"),
        ('a = matrix(as.matrix(weights["w"]), rows=2, cols=3)\nb = matrix(as.matrix(weights["w"]), rows=2, cols=3)\n'
         'c = matrix(as.matrix(weights["w"]), rows=3, cols=2)\nY = X %*% a + b\nZ = X %*% c',
         'a = matrix(as.matrix(weights["w"]), rows=2, cols=3)\nc = matrix(as.matrix(weights["w"]), rows=3, cols=2)\n'
         'Y = X %*% a + a\nZ = X %*% c'),
    ],
    ids=["a result", "a parameter", "several results", "two results are one", "behind a loop", "reshapes",
         "named arguments", "one weight for two"],
)
def test_an_alias_goes(body: str, expected: str) -> None:
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    assert print_block(without_aliases_in(function).body).rstrip("\n") == expected


@pytest.mark.parametrize(
    "body",
    [
        "Y = X\nZ = X",
        "Y = X * 2\nZ = Y",
        "a = X * 2\nb = a\na = a + 1\nY = a * b\nZ = Y + b",
        "a = X\nif (h > 1) {\n  a = X + 1\n}\nY = a * a\nZ = a + a",
        "for (i in 1:h) {\n  a = X\n  Y = a + i\n  Z = a\n}",
        "a = X * 2\n# that much is said of it\nb = a\nY = b * b\nZ = Y + b",
        'a = matrix(as.matrix(weights["w"]), rows=2, cols=3)\nfor (i in 1:h) {\n  a = a + 1\n}\n'
        'b = matrix(as.matrix(weights["w"]), rows=2, cols=3)\nY = a * b\nZ = Y + b',
    ],
    ids=["parameters", "results", "changed", "in a branch", "in a loop", "commented", "a changed weight"],
)
def test_a_copy_that_is_needed_stays(body: str) -> None:
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    assert without_aliases_in(function) is function
