"""What generators ask of the texts they were given is told by their trees."""

from __future__ import annotations

import pytest

from onnx_systemds.dml.operands import called, is_name, number_in, plus
from onnx_systemds.dml.syntax import Name
from onnx_systemds.engine.safe_forms import full_matrix, matrix_product, progression


@pytest.mark.parametrize(("text", "expected"), [
    ("x", True), ("x_1", True), ("(x)", False), ("TRUE", False), ("Inf", False), ("x[1, ]", False), ("f(x)", False), ("1", False),
])
def test_names_can_be_indexed(text: str, expected: bool) -> None:
    assert is_name(text) is expected


def test_numbers_and_calls() -> None:
    assert [number_in(text) for text in ("0", "(0)", "(-0.0)", "((-1))", "x", "0 * x")] == [0, 0, 0, -1, None, None]
    assert called("(t(x))", "t") == called("t( x )", "t") == Name("x")
    assert called("t(x) + t(y)", "t") is None and called("rt(x)", "t") is None and called("t()", "t") is None


@pytest.mark.parametrize(("added", "expected"), [
    ("(-3)", "x - 3"), ("(-0.5)", "x - 0.5"), ("3", "x + 3"), ("(-y)", "x + (-y)"), ("(-Inf)", "x + (-Inf)"),
    ("(-2) * y", "x + (-2) * y"), ("(-2^2)", "x + (-2^2)"),
])
def test_negative_numbers_are_subtracted(added: str, expected: str) -> None:
    assert plus("x", added) == expected


@pytest.mark.parametrize(("left", "right", "expected"), [
    ("t(a)", "t(b)", "t(b %*% a)"), ("(t(a))", "t(b)", "t(b %*% a)"), ("t(a)", "b", "t(a) %*% b"),
    ("t(a)", "t(b[1, ])", "t(a) %*% t(b[1, ])"), ("t(a) + t(c)", "t(b)", "t(a) + t(c) %*% t(b)"),
])
def test_products_of_transposed(left: str, right: str, expected: str) -> None:
    assert matrix_product(left, right) == expected


def test_forms_by_numbers() -> None:
    assert full_matrix("(0)", "2", "3") == full_matrix("0.0", "2", "3") == "zeros(2, 3)"
    assert full_matrix("(-1)", "n", "1") == "abs(matrix(1, rows=n, cols=1)) * ((-1))"
    assert progression("n", "1", "(-1)") == "n - seq(0, n - (1), 1)" and progression("1", "n", "2") == "seq(1, n, 2)"
    assert progression("n", "1", "(-2)") == "n - seq(0, n - (1), 2)"
