"""Literals: exact round trips in Python, and the same bits on the real engine."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import literal, matrix_literal, message_literal, number_of, string_literal
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.errors import UnsupportedCase
from tests.command_line import run_dml
from tests.cpu_time import cpu_seconds

# Characters a DML string literal cannot hold.
_INEXPRESSIBLE = "\\\u00b0\u00b7\u00b6\u2021\x00"


@pytest.mark.parametrize(("text", "number"), [
    ("3", 3.0), ("0.5", 0.5), ("-1", -1.0), ("(-2e-3)", -2e-3), ("+4", 4.0), ("-(-5)", 5.0), ("-0.0", -0.0), ("1e999", math.inf),
    ("Inf", math.inf), ("-Inf", -math.inf), ("NaN", math.nan), ("-pi", -math.pi), ("9223372036854775807", 2.0**63),
    ("x", None), ("-x", None), ("1 + 1", None), ("!1", None), ("-!1", None), ("TRUE", None), ('"1"', None), ("f(1)", None), ("$x", None),
])
def test_numbers_that_expressions_are(text: str, number: float | None) -> None:
    (statement,) = parse_script(f"x = {text}").statements
    assert isinstance(statement, tree.Assign)
    found = number_of(statement.value)
    assert found is None if number is None else found is not None and bits(found) == bits(number)


@given(st.floats() | st.integers(-(2**63) + 1, 2**63 - 1))
def test_literals_give_their_numbers(value: float) -> None:
    (statement,) = parse_script(f"x = {literal(value)}").statements
    assert isinstance(statement, tree.Assign)
    found = number_of(statement.value)
    assert found is not None and bits(found) == bits(float(value))


def bits(value: float) -> bytes:
    return struct.pack(">d", float("nan") if math.isnan(value) else value)


def value_of(text: str) -> Any:
    """What the parser of DML reads in a literal."""
    (statement,) = parse_script(f"x = {text}").statements
    assert isinstance(statement, tree.Assign)
    found = statement.value
    if isinstance(found, tree.Unary):
        assert found.operator == "-"
        return -_plain(found.operand)
    return _plain(found)


def _plain(found: tree.Expression) -> Any:
    if isinstance(found, tree.Constant):
        return {"NaN": math.nan, "Inf": math.inf}[found.name]
    assert isinstance(found, tree.IntLiteral | tree.DoubleLiteral | tree.BooleanLiteral | tree.StringLiteral)
    return found.value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-3, "(-3)"),
        (True, "TRUE"),
        (np.bool_(False), "FALSE"),
        (0.1, "0.1"),
        (-1.5, "(-1.5)"),
        (1.0, "1.0"),
        (1e-45, "1e-45"),
        (1e22, "1e+22"),
        (-0.0, "(-0.0)"),
        (math.nan, "NaN"),
        (math.inf, "Inf"),
        (-math.inf, "(-Inf)"),
        (np.float32(0.1), "0.10000000149011612"),
        (np.float16(0.1), "0.0999755859375"),
        (np.int8(-128), "(-128)"),
        (2**63 - 1, "9223372036854775807"),
        (2**63, "9.223372036854776e+18"),
        (-(2**63), "(-9.223372036854776e+18)"),
        (np.uint64(2**64 - 1), "1.8446744073709552e+19"),
    ],
)
def test_scalar_text(value: float, text: str) -> None:
    assert literal(value) == text


def test_scalars_of_ml_dtypes() -> None:
    assert literal(ml_dtypes.bfloat16(0.1)) == "0.10009765625"
    assert literal(ml_dtypes.float8_e4m3fn(-1.5)) == "(-1.5)"
    assert literal(ml_dtypes.int4(-3)) in {"(-3)", "(-3.0)"}


def test_no_number_is_refused() -> None:
    with pytest.raises(TypeError):
        literal(1j)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        literal(10**400)


@given(st.floats())
def test_floats_round_trip(value: float) -> None:
    parsed = value_of(literal(value))
    assert isinstance(parsed, float)
    assert bits(parsed) == bits(value)


@given(st.integers(-(2**63) + 1, 2**63 - 1) | st.booleans())
def test_integers_round_trip(value: int) -> None:
    parsed = value_of(literal(value))
    assert parsed == value
    assert type(parsed) is type(value)


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters=_INEXPRESSIBLE)))
def test_strings_round_trip_on_one_line(text: str) -> None:
    written = string_literal(text)
    assert "\n" not in written
    assert "\r" not in written
    assert value_of(written) == text


@given(st.text(alphabet=st.characters()))
def test_any_string_is_written_or_refused(text: str) -> None:
    value_of(string_literal(text, replacement="?"))
    try:
        assert value_of(string_literal(text)) == text
    except UnsupportedCase:
        assert any(c in _INEXPRESSIBLE or "\ud800" <= c <= "\udfff" for c in text)


@given(st.text(alphabet='a "\n', max_size=600))
def test_long_messages_are_joined_of_short_parts(text: str) -> None:
    parts = message_literal(text).split(" + ")
    assert all(len(value_of(part)) <= 100 or " " not in value_of(part).rstrip(" ") for part in parts)
    assert "".join(map(value_of, parts)) == text


@pytest.mark.parametrize("character", [*_INEXPRESSIBLE, "\ud800"])
def test_inexpressible_characters_are_refused_or_replaced(character: str) -> None:
    with pytest.raises(UnsupportedCase, match=r"U\+"):
        string_literal(f"a{character}b")
    assert string_literal(f"a{character}b", replacement="?") == '"a?b"'


@pytest.mark.parametrize(
    ("values", "rows", "cols", "text"),
    [
        ([1.0, 2.5, math.nan], 1, 3, 'matrix("1 2.5 NaN", rows=1, cols=3)'),
        (
            [-0.0, -0.0, 0.0, math.inf, -math.inf, 0.5],
            2,
            3,
            'matrix("-0.0 -0.0 0 Infinity -Infinity 0.5", rows=2, cols=3)',
        ),
        ([1, 2, 3, 4], 2, 2, 'matrix("1 2 3 4", rows=2, cols=2)'),
        ([10.0, 20.05, -30.0, 1e300], 1, 4, 'matrix("10 20.05 -30 1e+300", rows=1, cols=4)'),
        ([0.5] * 4, 2, 2, "matrix(0.5, rows=2, cols=2)"),
        ([-3] * 2, 1, 2, "matrix((-3), rows=1, cols=2)"),
        ([1.0] * 2, 1, 2, "matrix(1, rows=1, cols=2)"),
        ([math.nan] * 2, 1, 2, "matrix(NaN, rows=1, cols=2)"),
        ([-math.inf] * 2, 1, 2, "matrix((-Inf), rows=1, cols=2)"),
        ([-0.0] * 2, 1, 2, "matrix((-0.0), rows=1, cols=2)"),
        ([-0.0, 0.0], 1, 2, "matrix(0, rows=1, cols=2)"),
        ([True, False], 1, 2, 'matrix("1 0", rows=1, cols=2)'),
        ([], 0, 3, "matrix(0, rows=0, cols=3)"),
    ],
)
def test_matrix_text(values: list[float], rows: int, cols: int, text: str) -> None:
    assert matrix_literal(np.array(values), rows, cols) == text


def test_float32_is_written_as_the_double_it_widens_to() -> None:
    assert "0.10000000149011612" in matrix_literal(np.array([0.1, 0.2], np.float32), 1, 2)


def test_matrix_takes_any_layout() -> None:
    transposed = np.arange(6).reshape(2, 3).T
    assert matrix_literal(transposed, 3, 2) == 'matrix("0 3 1 4 2 5", rows=3, cols=2)'


def test_matrix_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fill"):
        matrix_literal(np.zeros(3), 2, 2)


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_matrix_tokens_round_trip(values: list[float]) -> None:
    text = matrix_literal(np.array(values), 1, len(values))
    if '"' not in text:
        constant = value_of(text[len("matrix(") : text.index(", rows=")])
        assert all(bits(float(constant)) == bits(value) for value in values)
        return
    tokens = text.split('"')[1].split(" ")
    assert [bits(float(token)) for token in tokens] == [bits(value) for value in values]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_large_arrays_are_fast(dtype: type[Any]) -> None:
    """Not much slower than Python's own texts of the same numbers."""
    array = (np.random.default_rng(0).normal(size=10**6) * 1000).astype(dtype)
    plain = cpu_seconds(lambda: " ".join(map(repr, array.tolist())))
    assert cpu_seconds(lambda: matrix_literal(array, 1000, 1000)) < 4 * plain


def test_literals_on_the_engine(tmp_path: Path) -> None:
    """One run prints every scalar, and matrices cell by cell (the engine prints doubles exactly)."""
    generator = np.random.default_rng(1)
    anything = generator.integers(0, 2**64, 300, dtype=np.uint64).view(np.float64)
    special = [
        math.nan,
        math.inf,
        -math.inf,
        0.0,
        5e-324,
        1e-45,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        0.1,
        1e22,
    ]
    scalars: list[float] = [*special, -1.5, *anything[:100].tolist()]
    integers = [0, -7, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
    # The engine stores mostly-zero matrices sparse, without the sign of zeros, so there are few zeros here.
    matrices = [
        np.array([*special, *anything.tolist()]).reshape(1, -1),
        np.full((2, 2), math.nan),
        np.full((2, 2), -math.inf),
        generator.integers(-(10**6), 10**6, (5, 7)),
        generator.normal(size=(4, 4)).astype(np.float32),
        np.array([[1e16, 9007199254740993.0, -3e15, 1e300]]),
        np.array([[True, False]]),
        np.array([[7.0]]),
    ]
    strings = [
        'a"b', "a'b", "tab\tnew\nreturn\rback\bfeed\f", "# no /* comment */", '") print("leak', "$x ${y} %s",
        "", "é日本😀", "  two  spaces ", "\x01\x1b\x7f\x85\u2028", "x" * 20_000, "NaN", "a=b,c;d",
    ]
    lines = [f'print("<S>" + {literal(value)})' for value in scalars]
    lines += [f'print("<I>" + {literal(value)})' for value in integers]
    for index, matrix in enumerate(matrices):
        rows, cols = matrix.shape
        lines.append(f"M{index} = {matrix_literal(matrix, rows, cols)}")
        lines.append(
            f'for (i in 1:{rows}) {{ for (j in 1:{cols}) {{ print("<M>" + as.scalar(M{index}[i, j])) }} }}'
        )
    lines += [f'print("<T>" + {string_literal(text)} + "</T>")' for text in strings]
    lines += ['print("<Z>" + (1 / (-0.0)))', 'print("<P>" + (2-(-1.5)) + " " + (-2.0)^2 + " " + (1<(-1)))']
    # A dense matrix keeps the sign of its zeros.
    zeros = matrix_literal(np.array([1.0, -0.0]), 1, 2)
    lines += [f"N = {zeros}", "R = 1 / N", 'print("<Z>" + as.scalar(R[1, 2]))']
    output = run_dml("\n".join(lines), tmp_path)

    def printed(mark: str) -> list[str]:
        return [line[len(mark) :] for line in output.split("\n") if line.startswith(mark)]

    assert [bits(float(text)) for text in printed("<S>")] == [bits(value) for value in scalars]
    assert [int(text) for text in printed("<I>")] == integers
    cells = [float(value) for matrix in matrices for value in matrix.reshape(-1).astype(np.float64)]
    assert [bits(float(text)) for text in printed("<M>")] == [bits(value) for value in cells]
    assert [part.split("</T>")[0] for part in output.split("<T>")[1:]] == strings
    assert printed("<Z>") == ["-Infinity", "-Infinity"]
    assert printed("<P>") == ["3.5 4.0 FALSE"]
