"""Numbers and strings as DML literals, from which the engine and the parser read the same value.

DML computes in FP64, so every number is written as the double it widens to, in the shortest text that reads
back as that double. Negative literals stand in parentheses: ``a<-1`` is an assignment in DML and ``-1^2`` is
``-(1^2)``.

Limits of the engine, measured on SystemDS 3.4.0:
- a scalar keeps the sign of -0.0, a matrix only while it is stored dense (one of nothing but zeros is not);
- a string literal cannot hold a backslash (the escape ``\\\\`` is read as two), and the delimiters of the
  engine's instructions (``\\u00b0 \\u00b7 \\u00b6 \\u2021``) would reach its instruction parser.
"""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import numpy as np

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.tokens import LARGEST_INT
from onnx_systemds.errors import UnsupportedCase

CONSTANTS = {"Inf": math.inf, "NaN": math.nan, "pi": math.pi}
_LARGEST_EXACT_INT = 2**53
_ESCAPES = {'"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_WIDEST_PART = 100  # of a text, with room for quotes and for what stands around it
_WORDS = re.compile(r"[^ ]* *")
# Backslash, instruction delimiters, NUL, and lone surrogates, which no file can hold.
_INEXPRESSIBLE = re.compile("[\\\\\u00b0\u00b7\u00b6\u2021\x00\ud800-\udfff]")


def literal(value: float | bool | np.generic) -> str:
    """Return `value` as a DML expression that can stand as an operand anywhere.

    Integers beyond 64 bits become the nearest double. Raises TypeError when `value` is no real number,
    OverflowError when an integer is beyond the range of a double.
    """
    if isinstance(value, (bool, np.bool_)):
        return "TRUE" if value else "FALSE"
    number: Any = value  # scalars of ml_dtypes have no useful static type
    try:
        text = _int_text(operator.index(number))
    except TypeError:
        text = _float_text(float(number))
    return f"({text})" if text.startswith("-") else text


def number_of(expression: tree.Expression) -> float | None:
    """The number that a literal is, of any sign, or one of DML's constants; None for anything else."""
    if isinstance(expression, (tree.IntLiteral, tree.DoubleLiteral)):
        return float(expression.value)
    if isinstance(expression, tree.Constant):
        return CONSTANTS[expression.name]
    if isinstance(expression, tree.Unary) and expression.operator != "!":
        number = number_of(expression.operand)
        return -number if number is not None and expression.operator == "-" else number
    return None


def is_finite_number(expression: tree.Expression) -> bool:
    """Whether an expression is a finite literal number; with others a result may be NaN."""
    number = number_of(expression)
    return number is not None and math.isfinite(number)


def is_literal(expression: tree.Expression) -> bool:
    """Whether an expression is a literal number, string or boolean."""
    return isinstance(expression, (tree.BooleanLiteral, tree.StringLiteral)) or number_of(expression) is not None


def matrix_literal(array: np.ndarray[Any, Any], rows: int, cols: int) -> str:
    """Return the row-major values of `array` (any real dtype and shape) as a `rows` x `cols` DML matrix.

    Integers beyond 2^53 become the nearest double, as in every DML matrix. Raises ValueError when the number
    of values is not ``rows * cols``.
    """
    if array.size != rows * cols or rows < 0 or cols < 0:
        raise ValueError(f"{array.size} values do not fill a {rows} x {cols} matrix")
    dims = f"rows={rows}, cols={cols}"
    if array.size == 0:
        return f"matrix(0, {dims})"
    values = _doubles(array)
    number = _uniform_literal(values)
    return f'matrix("{_joined(values)}", {dims})' if number is None else f"matrix({number}, {dims})"


def uniform_literal(array: np.ndarray[Any, Any]) -> str | None:
    """The number that all values are, as `matrix_literal` writes it; None where they differ, or there are none."""
    return _uniform_literal(_doubles(array)) if array.size else None


def element_literal(array: np.ndarray[Any, Any]) -> str:
    """The single element of an array as a DML number; booleans are 0 and 1. Raises UnsupportedCase for other sizes."""
    if array.size != 1:
        raise UnsupportedCase(f"a tensor of {array.size} elements stands where one is needed")
    element = array.ravel()[0]
    return literal(int(element) if array.dtype.kind == "b" else element)


def is_uniform(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements are the same number; only looked at where that is quick."""
    if array.size == 0:
        return True
    first = array.flat[0]
    return array.size <= 1 << 20 and bool(first == array.flat[-1]) and bool((array == first).all())


def string_literal(text: str, *, replacement: str | None = None) -> str:
    """Return `text` as a quoted DML string on one line; no character of it can end the literal.

    Characters that DML cannot express become `replacement`; without one they raise UnsupportedCase.
    """
    if replacement is not None:
        text = _INEXPRESSIBLE.sub(lambda _: replacement, text)
    if found := _INEXPRESSIBLE.search(text):
        character = f"U+{ord(found.group()):04X}"
        raise UnsupportedCase(
            f"the character {character} of a string cannot be written in DML",
            hint="DML strings hold no backslash, degree sign, middle dot, pilcrow, double dagger or NUL",
        )
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def message_literal(text: str) -> str:
    """Return a text for people as a DML expression: strings that fit a line each, joined by ``+``.

    Characters that DML cannot express become question marks.
    """
    return " + ".join(string_literal(part, replacement="?") for part in text_parts(text))


def text_parts(text: str) -> list[str]:
    """The parts of a text that fit a line each: it is cut after blanks, where that is possible."""
    parts = [""]
    for word in _WORDS.findall(text):
        if parts[-1] and len(parts[-1]) + len(word) > _WIDEST_PART:
            parts.append("")
        parts[-1] += word
    return parts


def is_expressible(text: str) -> bool:
    """Whether `string_literal` can write `text` as it is."""
    return _INEXPRESSIBLE.search(text) is None


def _int_text(value: int) -> str:
    # The lexer reads the digits without the sign, so -2^63 is out of its range too.
    return str(value) if abs(value) <= LARGEST_INT else repr(float(value))


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(value)


def _is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1.0, value) < 0


def _doubles(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.ascontiguousarray(array).reshape(-1).astype(np.float64)


def _uniform_literal(values: np.ndarray[Any, np.dtype[np.float64]]) -> str | None:
    if not _is_constant(values):
        return None if values.any() else "0"  # the engine stores no signs of zeros alone
    first = float(values[0])
    small_integer = first.is_integer() and abs(first) <= _LARGEST_EXACT_INT
    return literal(int(first) if small_integer and not _is_negative_zero(first) else first)


def _is_constant(values: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Return whether all values are the same double, or all NaN."""
    if math.isnan(values[0]):
        return bool(np.isnan(values).all())
    bits = values.view(np.int64)
    return bool(bits[0] == bits[-1]) and bool((bits == bits[0]).all())


def _joined(values: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """Return the tokens of a matrix string: integers without a point, -0.0, NaN, Infinity, -Infinity."""
    text = f" {' '.join(map(repr, values.tolist()))} ".replace(".0 ", " ")
    if " -0 " in text:
        # Twice, because neighbours share the blank between them.
        text = text.replace(" -0 ", " -0.0 ").replace(" -0 ", " -0.0 ")
    if "n" in text:
        text = text.replace("nan", "NaN").replace("inf", "Infinity")
    return text[1:-1]
