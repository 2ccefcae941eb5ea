"""Rows and columns that are gathered or repeated by a product with a matrix of ones and zeros, as DML text."""

from __future__ import annotations

from onnx_systemds.inference.dims import Dim, depends_on_run
from onnx_systemds.inference.values import FINITE_DTYPES
from onnx_systemds.operators.api import NodeView, View

SPARSE_ROWS = 32  # from about 20 rows on a permutation matrix is always stored sparse
_BLOCK = 1000


# The engine drops a product with a plain matrix(1, ...) where it is the right operand of another operator, and takes
# the vector for it: right beside a matrix, but wrong beside a scalar (2 * Y, -Y) and in cbind and rbind. And it makes
# outer(column, row, ...) of the left one, whose result has one column where the row is known to be zeros.


def repeated_row(row: str, count: str) -> str:
    """A row vector below itself, ``count`` times."""
    return f"(abs(matrix(1, rows={count}, cols=1)) %*% {row})"


def repeated_column(column: str, count: str) -> str:
    """A column vector beside itself, ``count`` times."""
    return f"({column} %*% abs(matrix(1, rows=1, cols={count})))"


def each_repeated(node: NodeView, count: Dim, times: Dim) -> str:
    """The numbers from 1 on as an index of so many rows (1 at least), each of them ``times`` times."""
    return f"(seq(0, {node.dim(count - 1)}) %/% {node.factor(times)}) + 1"


def minus_vector(matrix: str, vector: str) -> str:
    """A matrix minus a row or column; of -(X - v) the engine would make v - X, which it then refuses."""
    return f"{matrix} + (-{vector})"


def gather_rows_text(node: NodeView, matrix: str, index: str, rows: Dim, count: Dim, cols: Dim, *, finite: bool) -> str:
    """Rows ``index`` (1-based column, text) of ``matrix`` with ``rows`` rows, as a product with a 0/1 matrix.

    The 0/1 matrix must be stored sparse where the data may hold NaN or infinities (0 * NaN is NaN), which the engine
    only does for enough columns: so few rows are padded by rows of zeros. There may be no index where only the run
    knows how many there are (sequence-to-zero).
    """
    width: Dim = rows
    padding = 0 if finite else sparse_padding(rows)
    if padding:
        matrix = f"rbind({matrix}, {node.filled(0, View(padding, cols))})"
        width = rows + padding
    total = node.dim(count)
    if depends_on_run(count):
        return f"({node.call('gathered_rows', matrix, index, total, node.dim(width))})"
    return f"(table(seq(1, {total}), {index}, {total}, {node.dim(width)}) %*% {matrix})"


def sparse_padding(count: Dim) -> int:
    """How many columns of zeros make a 0/1 matrix of ``count`` columns, one 1 in a row, sparse in all blocks of Spark.

    (gather-spreads-nan, gather-spreads-nan-in-last-block)
    """
    if not isinstance(count, int) or count == 0:
        return SPARSE_ROWS
    return max(SPARSE_ROWS - count % _BLOCK, 0) if count % _BLOCK else 0


def sparse_row_padding(count: Dim) -> int:
    """How many rows of zeros make one of ``count`` rows sparse that has many columns, with one 1 in each."""
    if not isinstance(count, int):
        return 2
    return 3 - count % _BLOCK if count > 1 and count % _BLOCK in (1, 2) else 0


def is_finite(node: NodeView, position: int) -> bool:
    """Whether an input cannot hold NaN or infinities."""
    return node.dtype(position) in FINITE_DTYPES or node.dtype(position) == "string"
