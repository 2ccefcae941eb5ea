"""Forms of DML that are safe from faults of the engine, in the place of the plain ones (see `faults`)."""

from __future__ import annotations

import sys

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.operands import called, number_in

ZEROS = "zeros"  # the library function
FEWEST_NEARLY_EMPTY = 25_000
"""Numbers of images of which one alone may be less than 0.00004 of them (convolution-of-nearly-empty-images)."""
BLOCK = 1000
"""Rows and columns of a block on Spark."""


def progression(first: str, last: str, step: str) -> str:
    """DML of the column ``first``, ``first + step`` .. ``last`` (table-of-descending-places, falling-sequence)."""
    number = number_in(step)
    if number is not None and number < 0:
        return f"{first} - seq(0, {first} - ({last}), {-int(number)})"
    return f"seq({first}, {last}, {step})"


def count_from_one(last: str) -> str:
    """DML of the column 1, 2 .. ``last`` (sequence-to-zero, sum-of-ones-to-zero, length-of-a-sequence-of-unknown-end).

    The engine counts a sequence down to 0, and may keep a wrong length of one whose end it does not know.
    """
    number = number_in(last)
    is_known = number is not None and number > 0
    return f"seq(1, {last})" if is_known else f"cumsum(abs(matrix(1, rows={last}, cols=1)))"


def matrix_product(left: str, right: str) -> str:
    """DML of the product of two operands (product-of-transposed); names are kept apart by `block_cuts`."""
    factors = called(left, "t"), called(right, "t")
    if all(isinstance(factor, tree.Name) for factor in factors):
        first, second = (factor.name for factor in factors if isinstance(factor, tree.Name))
        return f"t({second} %*% {first})"
    return f"{left} %*% {right}"


def equal_pairs(column: str, row: str, count: int) -> str:
    """DML of where an element of a column is one of a row of ``count``, none -0.0 (comparisons-with-sorted-row).

    Numbers that nothing was added to may be -0.0; then adding 0 makes 0 of it.
    """
    if count > BLOCK:
        return equal_places(f"({column}) + 0", f"t({row})")
    return f'outer(({column}) + 0, {row}, "==")'


def full_matrix(value: str, rows: str, cols: str) -> str:
    """DML of a matrix of one number that graphs calculate with (zero-beside-filled-matrix, filled-with-unknown-number).

    The engine must not see that all elements are the same, nor that all are 0: such are made by a library function.
    """
    if number_in(value) == 0:
        return f"{ZEROS}({rows}, {cols})"
    return f"abs(matrix(1, rows={rows}, cols={cols})) * ({value})"


def counted(x: str) -> str:
    """DML of what an ``ifelse`` gives, whose last matrix may be zeros alone (last-operand-counted-on-spark)."""
    return f"max({x}, -Inf)"


def equal_places(column: str, others: str) -> str:
    """DML of ``outer(column, t(others), "==")`` of columns, transposed: on Spark, one of a single row lacks blocks."""
    return f't(outer({others}, t({column}), "=="))'


def window_maxima(name: str) -> str:
    """DML of the result ``name`` of max_pool in FP64, -Inf where it is the lowest number (maximum-of-infinities)."""
    return f"{name} / ({name} > {-sys.float_info.max})"


def row_sums(x: str, cols: str) -> str:
    """DML of the sums of the rows of ``x``, which has ``cols`` columns, as a product (sums-of-infinities)."""
    return f"({x}) %*% matrix(1, rows={cols}, cols=1)"


def col_sums(x: str, rows: str) -> str:
    """DML of the sums of the columns of ``x``, which has ``rows`` rows, as a product (sums-of-infinities)."""
    return f"matrix(1, rows=1, cols={rows}) %*% ({x})"


def total(x: str, rows: str, cols: str) -> str:
    """DML of the sum of a matrix as a scalar, by products (sums-of-infinities, sum-beside-one-number)."""
    if cols == "1":
        return f"as.scalar({col_sums(x, rows)})"
    sums = row_sums(x, cols)
    return f"as.scalar({sums if rows == '1' else col_sums(f'({sums})', rows)})"
