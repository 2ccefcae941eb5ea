"""Dims as expressions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_systemds.inference.dim_equations import solve
from onnx_systemds.inference.dim_text import factor_text, text
from onnx_systemds.inference.dims import (
    Dim,
    divide_exactly,
    floor_divide,
    is_non_negative,
    maximum,
    minimum,
    modulo,
    product,
    substitute,
    symbol,
    symbols,
)

B, S = symbol("batch"), symbol("seq")


def plain(name: str) -> str:
    return name


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Any:
    """A dim and a function of the symbols' values that says what it is worth."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([
            (B, lambda b, s: b), (S, lambda b, s: s), (3, lambda b, s: 3), (1, lambda b, s: 1), (-2, lambda b, s: -2),
        ]))
    left, left_value = draw(expressions(depth - 1))
    right, right_value = draw(expressions(depth - 1))
    kind = draw(st.sampled_from("+-*"))
    if kind == "+":
        return left + right, lambda b, s: left_value(b, s) + right_value(b, s)
    if kind == "-":
        return left - right, lambda b, s: left_value(b, s) - right_value(b, s)
    return left * right, lambda b, s: left_value(b, s) * right_value(b, s)


@given(expressions(), st.integers(0, 50), st.integers(0, 50))
def test_value_and_text(pair: tuple[Dim, object], b: int, s: int) -> None:
    dim, value = pair
    worth = value(b, s)  # type: ignore[operator]
    assert substitute(dim, {"batch": b, "seq": s}) == worth
    assert eval(text(dim, plain).replace("%/%", "//"), {"batch": b, "seq": s}) == worth
    assert eval(f"7*{factor_text(dim, plain)}", {"batch": b, "seq": s}) == 7 * worth


@given(expressions(), expressions(), st.integers(1, 50), st.integers(1, 50))
def test_divisions(left: tuple[Dim, object], right: tuple[Dim, object], b: int, s: int) -> None:
    values = {"batch": b, "seq": s}
    divisor = substitute(right[0], values)
    if divisor == 0 or right[0] == 0:
        return
    whole = substitute(left[0], values)
    assert substitute(floor_divide(left[0], right[0]), values) == whole // divisor
    assert substitute(modulo(left[0], right[0]), values) == whole % divisor
    assert substitute(minimum(left[0], right[0]), values) == min(whole, divisor)
    assert substitute(maximum(left[0], right[0]), values) == max(whole, divisor)


@given(expressions(), expressions(), st.sampled_from([B, B * S, 3, -2]), st.integers(1, 6), st.integers(0, 30),
       st.integers(0, 30))
def test_what_is_not_negative_is_so_for_all_sizes(
    pair: tuple[Dim, object], divided: tuple[Dim, object], factor: Dim, divisor: int, b: int, s: int
) -> None:
    """Of quotients of sizes: what else is divided, as batch - 2, counts as a size, too, since it is one in models."""
    dim = pair[0] - factor * (divided[0] // divisor)
    assert not is_non_negative(divided[0]) or not is_non_negative(dim) or substitute(dim, {"batch": b, "seq": s}) >= 0  # type: ignore[operator]


def test_canonical_form() -> None:
    assert (B + S) * 2 == 2 * S + 2 * B
    assert B * S * 4 // (4 * S) == B
    assert B - B == 0
    assert product([B, 3, S]) == 3 * B * S
    assert divide_exactly(B * 6, 4) is None
    assert divide_exactly((B + 1) * (S // 4 + 1) * 6, 2 * (S // 4 + 1)) == 3 * B + 3
    assert divide_exactly(B * B - S * S, B - S) == B + S
    assert divide_exactly((B + 1) * S, B + S) is None
    assert str(2 * S + 1) == "2 * seq + 1"
    assert symbols([B * S, (S + 1) // 2]) == ("batch", "seq")
    assert (S - 1) // 2 // 3 == (S - 1) // 6
    assert 16 * S * B // (128 * B) == S // 8
    assert (32 * B * S + 32 * B) // (48 * B * B) == (2 * S + 2) // (3 * B)
    assert 6 // (4 * S + 2) == 3 // (2 * S + 1)
    assert str(modulo(S // 3, 4) * 8) == "8 * ((seq %/% 3) %% 4)"


def test_known_order_of_sizes() -> None:
    assert minimum(S, S + 1) == S
    assert maximum(S, 0) == S
    assert str(minimum(S, 512)) == "min(512, seq)"
    assert maximum(S - 4 * (S // 4), 0) == S - 4 * (S // 4)
    assert minimum(B * (4 * (S // 4) + 4), B * S) == B * S
    assert is_non_negative(3 * B - B * (S - 4 * (S // 4)))
    assert not is_non_negative(2 * B - B * (S - 4 * (S // 4)))


@pytest.mark.parametrize(
    ("dim", "expected"),
    [(B, "n"), (3 * B, "n %/% 3"), (2 * B + 1, "(n - 1) %/% 2"), (B * S, "n %/% seq"), (B * B, None), (S, None)],
)
def test_solve(dim: Dim, expected: str | None) -> None:
    assert solve(dim, "batch", "n", plain) == expected
