"""Expressions are as one would write them."""

from __future__ import annotations

import pytest

from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.plain_expressions import with_plain_expressions_in

HEAD = "f = function(matrix[double] X, integer h, integer k) return (matrix[double] Y) {\n"
BRANCH = "if (c != 0) {\n  Y = X\n} else {\n  Y = X + 1\n}"


@pytest.mark.parametrize(
    "body, expected",
    [
        ("Y = sqrt(t(t(X * 2))) + t(X)", "Y = sqrt(X * 2) + t(X)"),
        (f"c = as.double(h == k)\n{BRANCH}", BRANCH.replace("c != 0", "h == k")),
        (f"d = as.double(h > 1)\nc = as.double(nrow(X) < k)\n{BRANCH}\nif (d != 0) {{\n  Y = Y * 2\n}}",
         BRANCH.replace("c != 0", "nrow(X) < k") + "\nif (h > 1) {\n  Y = Y * 2\n}"),
    ],
    ids=["there and back", "a condition", "two conditions"],
)
def test_what_does_nothing_goes(body: str, expected: str) -> None:
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    assert print_block(with_plain_expressions_in(function).body).rstrip("\n") == expected


@pytest.mark.parametrize(
    "body",
    [
        f"c = as.double(h == k)\n{BRANCH}\nY = Y * c",
        f"c = as.double(h == k)\nh = 3\n{BRANCH}",
        f"c = as.double(sum(X) == k)\n{BRANCH}",
        f"c = as.double(h)\n{BRANCH}",
        "Y = t(X) %*% t(t(X) + 1)",
    ],
    ids=["read again", "changed", "of a matrix", "a number", "one transpose in another expression"],
)
def test_what_does_something_stays(body: str) -> None:
    (function,) = parse_script(f"{HEAD}{body}\n}}\n").functions.values()
    assert with_plain_expressions_in(function) is function
