"""Forms of DML that are safe from faults of the engine, in the place of the plain ones (see `faults`)."""

from __future__ import annotations

import sys

ZEROS = "zeros"  # the library function


def progression(first: str, last: str, step: str) -> str:
    """DML of the column ``first``, ``first + step`` .. ``last``, for a table of places (table-of-descending-places)."""
    if step.strip("()") == "-1":
        return f"{first} - seq(0, {first} - {last if last.isalnum() else f'({last})'}, 1)"
    return f"seq({first}, {last}, {step})"


def matrix_product(left: str, right: str) -> str:
    """DML of the product of two operands (product-of-transposed); names are kept apart by `block_cuts`."""
    if is_transposed(left) and is_transposed(right):
        return f"t({right[2:-1]} %*% {left[2:-1]})"
    return f"{left} %*% {right}"


def is_transposed(text: str) -> bool:
    """Whether a text is ``t(..)`` of a name."""
    return text.startswith("t(") and text.endswith(")") and text[2:-1].isidentifier()


def full_matrix(value: str, rows: str, cols: str) -> str:
    """DML of a matrix of one number that graphs calculate with (zero-beside-filled-matrix, filled-with-unknown-number).

    The engine must not see that all elements are the same, nor that all are 0: such are made by a library function.
    """
    if is_zero(value):
        return f"{ZEROS}({rows}, {cols})"
    return f"abs(matrix(1, rows={rows}, cols={cols})) * {_operand(value)}"


def is_zero(text: str) -> bool:
    """Whether a text is the literal 0."""
    try:
        return float(text.strip("()")) == 0
    except ValueError:
        return False


def window_maxima(name: str) -> str:
    """DML of the result ``name`` of max_pool in FP64, -Inf where it is the lowest number (maximum-of-infinities)."""
    return f"{name} / ({name} > {-sys.float_info.max})"


def row_sums(x: str, cols: str) -> str:
    """DML of the sums of the rows of ``x``, which has ``cols`` columns, as a product (sums-of-infinities)."""
    return f"{_operand(x)} %*% matrix(1, rows={cols}, cols=1)"


def col_sums(x: str, rows: str) -> str:
    """DML of the sums of the columns of ``x``, which has ``rows`` rows, as a product (sums-of-infinities)."""
    return f"matrix(1, rows=1, cols={rows}) %*% {_operand(x)}"


def total(x: str, rows: str, cols: str) -> str:
    """DML of the sum of a matrix as a scalar, by products (sums-of-infinities, sum-beside-one-number)."""
    if cols == "1":
        return f"as.scalar({col_sums(x, rows)})"
    sums = row_sums(x, cols)
    return f"as.scalar({sums if rows == '1' else col_sums(f'({sums})', rows)})"


def _operand(text: str) -> str:
    """The text, in parentheses unless it is a name, a call or in parentheses."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        is_inner = depth > 0 or position == len(text) - 1
        if not is_inner and not (character.isalnum() or character in "._"):
            return f"({text})"
        if depth == 0 and character in ")]" and position < len(text) - 1:
            return f"({text})"
    return text
