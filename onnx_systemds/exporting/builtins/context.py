"""What a builtin can ask of the exporter: the graph, views of matrices, and scalars as tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.nodes import BOOL, INT, TEXT, Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.interface import Interface
from onnx_systemds.exporting.values import (
    DOUBLE,
    INTEGER,
    KINDS,
    STRING,
    TYPES,
    ListValue,
    Matrix,
    Scalar,
    Value,
    unwrapped,
)
from onnx_systemds.inference.dims import Dim, Dims, Expression, product

_BEYOND_INT64 = 2.0**63


@dataclass
class Context:
    """The graph under construction (`g`), what goes in and out (`interface`), and conversions of values and tensors.

    iterative: whether what takes many steps is exported. random: whether the model may draw numbers of its own.
    dropped: notes on statements that the model leaves out. asked: the names of arguments that the script has asked for.
    written: what the branches of If around the current place write, None for the body of a Loop. files: what has been
    written, by path.
    """

    g: Operators
    interface: Interface
    iterative: bool = False
    random: bool = False
    dropped: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    written: list[dict[str, Value] | None] = field(default_factory=list)
    files: dict[str, Value] = field(default_factory=dict)

    def check_opset(self, since: int, words: str) -> None:
        """Raise UnsupportedCase, with these words, where the model has an older opset."""
        if self.g.opset < since:
            raise UnsupportedCase(words, hint=f"give --opset {since}")

    # From values to tensors

    def tensor(self, value: Value) -> Tensor:
        """Return a scalar as a tensor of rank 0, or a matrix with its own dims; of its own kind.

        Raises UnsupportedCase.
        """
        if isinstance(value, Matrix):
            return value.tensor
        if not isinstance(value, Scalar):
            hint = "as.matrix(...) makes a matrix of a list of numbers" if isinstance(value, ListValue) else ""
            raise UnsupportedCase(f"{value} where a matrix or a scalar is needed", hint=hint)
        if isinstance(value.content, Tensor):
            return value.content
        if isinstance(value.content, Expression):
            found = self.g.size_number(value.content)
            return self.g.floating(found) if value.type == DOUBLE else found
        return self.g.constant(np.array(value.content), KINDS[value.type])

    def floats(self, value: Value) -> Tensor:
        """Return a scalar (rank 0) or a matrix (its own dims) as floats. Raises UnsupportedCase."""
        if isinstance(value, Scalar) and value.type == STRING:
            raise UnsupportedCase("a string where a number is needed")
        if isinstance(value, Scalar) and value.known is not None:
            return self.g.number(float(value.known))
        return self.g.floating(self.tensor(value))

    def flat(self, matrix: Matrix) -> Tensor:
        """Return a matrix as a float tensor of rows x columns."""
        return self.g.floating(self.g.reshape(matrix.tensor, matrix.dims))

    def viewed(self, matrix: Matrix, dims: Dims) -> Tensor:
        """Return a matrix as a float tensor with the same elements and other dims."""
        return self.g.floating(self.g.reshape(matrix.tensor, dims))

    def column(self, matrix: Matrix) -> Tensor:
        """Return the elements of a matrix as a float tensor of rank 1."""
        return self.viewed(matrix, (matrix.rows * matrix.cols,))

    def only_column(self, matrix: Matrix) -> Tensor:
        """Return a matrix of one column as a float tensor of rank 1. Raises UnsupportedCase for several columns."""
        if isinstance(matrix.cols, int) and matrix.cols != 1:
            raise UnsupportedCase(f"{matrix} where a column is needed")
        return self.column(matrix)

    def truth(self, value: Value) -> Tensor:
        """Return whether a scalar (rank 0) or each element of a matrix (its own dims) is not 0, as bool.

        Raises UnsupportedCase.
        """
        if isinstance(value, Scalar) and isinstance(value.known, (bool, int, float)):
            return self.g.constant(np.array(bool(value.known)))
        tensor = self.tensor(value)
        if tensor.kind == TEXT:
            raise UnsupportedCase("a string where a boolean is needed", hint="write TRUE or FALSE, in arguments, too")
        return self.g.truth(tensor)

    def as_matrix(self, value: Value) -> Matrix:
        """Return a scalar as a matrix of 1 x 1, and a matrix itself. Raises UnsupportedCase."""
        if isinstance(value, Matrix):
            return value
        if isinstance(value, ListValue) and len(value.items) == 1:
            return self.as_matrix(value.items[0])
        if not isinstance(value, Scalar):
            raise UnsupportedCase(f"{value} is no matrix")
        return Matrix(self.g.reshape(self.floats(value), (1, 1)), 1, 1)

    # From tensors to values

    def matrix(self, tensor: Tensor, rows: Dim | None = None, cols: Dim | None = None) -> Matrix:
        """Return a tensor as a matrix: by default its first axis in the rows, all others in the columns."""
        if rows is None:
            rows = tensor.dims[0] if tensor.dims else 1
        if cols is None:
            cols = product(tensor.dims[1:])
        return Matrix(tensor, rows, cols)

    def scalar(self, tensor: Tensor) -> Scalar:
        """Return a tensor of one element as a scalar."""
        tensor = self.g.reshape(tensor, ())
        if tensor.constant is not None:
            return Scalar(TYPES[tensor.kind], tensor.constant.item())
        if tensor.kind == INT:
            return Scalar(INTEGER, self.g.integer_symbol(tensor))
        return Scalar(TYPES[tensor.kind], tensor)

    def integer(self, value: Value) -> Dim:
        """Return a scalar as an integer, known or computed by the model; cut off after the point.

        Raises UnsupportedCase.
        """
        value = unwrapped(value)
        if isinstance(value, Matrix) and value.dims == (1, 1):
            value = self.scalar(value.tensor)
        if not isinstance(value, Scalar) or value.type == STRING or isinstance(value.known, str):
            raise UnsupportedCase(f"{value} where an integer is needed")
        if value.dim is not None:
            return value.dim
        if value.known is not None:
            if not math.isfinite(value.known):
                raise UnsupportedCase(f"{value.known} where an integer is needed")
            return int(value.known)
        assert isinstance(value.content, Tensor)
        return self.g.integer_symbol(self.g.cast(value.content, INT))

    def whole(self, number: Tensor) -> Tensor:
        """Return a computed number as an integer, cut off after the point; NaN is 0, no large one turns."""
        if number.kind in (INT, BOOL):
            return self.g.cast(number, INT)
        largest = np.nextafter(_BEYOND_INT64, 0, dtype=np.float32 if self.g.dtype == "float32" else np.float64)
        known = self.g.where(number.apply("IsNaN"), 0, number)
        return self.g.cast(known.at_most(largest), INT)

    def drop(self, what: str) -> None:
        """Note something that the script does and the model does not."""
        note = f"{self.g.place}: {what}"
        if note not in self.dropped:
            self.dropped.append(note)
