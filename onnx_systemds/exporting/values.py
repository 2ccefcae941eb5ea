"""What variables hold while a script is evaluated without data: scalars, matrices, lists.

A scalar of type int is a `Dim`: a number, or an expression over sizes and integers that the model computes when it
runs (`GraphBuilder.size_tensor`). A matrix is a tensor of any rank with the same elements in row-major order; a
tensor N x C x H x W stands for the matrix of N rows and C*H*W columns, and is reshaped only where an operation needs
the matrix itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Union

from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting import limits
from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, TEXT, Array, Tensor
from onnx_systemds.inference.dims import Dim, Expression
from onnx_systemds.inference.known_dims import as_int

INTEGER, DOUBLE, BOOLEAN, STRING = "int", "double", "boolean", "string"
KINDS = {INTEGER: INT, DOUBLE: FLOAT, BOOLEAN: BOOL, STRING: TEXT}
"""Of the tensors of scalars, by their types."""
TYPES = {kind: name for name, kind in KINDS.items()}
Content = Union[bool, int, float, str, Expression, Tensor]


@dataclass(frozen=True, eq=False)
class Scalar:
    """One value. content: known, or a `Dim`, or a tensor of rank 0."""

    type: str
    content: Content

    @property
    def known(self) -> bool | int | float | str | None:
        """The value itself if it is known."""
        return None if isinstance(self.content, (Tensor, Expression)) else self.content

    @property
    def dim(self) -> Dim | None:
        """The value for calculations with sizes, None if it is no known integer or expression over such."""
        content = self.content
        if isinstance(content, Expression):
            return content
        if isinstance(content, (bool, int)):
            return int(content)
        if isinstance(content, float) and content.is_integer() and abs(content) < 2**53:
            return int(content)
        return None

    def __str__(self) -> str:
        return f"an {self.type}" if self.type == INTEGER else f"a {self.type}"


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of `rows` x `cols`; `tensor` holds its elements in row-major order with dims of its own.

    is_stacked: whether it is several matrices below each other, by `rbind`.
    """

    tensor: Tensor
    rows: Dim
    cols: Dim
    is_stacked: bool = field(default=False, kw_only=True)

    @property
    def constant(self) -> Array | None:
        """The known content with rows and columns, or None."""
        if self.tensor.constant is None:
            return None
        found: Array = self.tensor.constant.reshape(as_int(self.rows), as_int(self.cols))
        return found

    @property
    def dims(self) -> tuple[Dim, Dim]:
        """Rows and columns."""
        return self.rows, self.cols

    def __str__(self) -> str:
        return f"a matrix of {self.rows} x {self.cols}"


@dataclass(frozen=True, eq=False)
class ListValue:
    """A list; `names` has one per item, or is empty."""

    items: tuple[Value, ...]
    names: tuple[str, ...] = ()
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Count the items, those of lists in it included. Raises UnsupportedCase where they are too many."""
        total = sum(1 + (item.size if isinstance(item, ListValue) else 0) for item in self.items)
        if total > limits.MOST_ITEMS:
            raise UnsupportedCase(f"a list of {total} items, and {limits.MOST_ITEMS} are possible")
        object.__setattr__(self, "size", total)

    def __str__(self) -> str:
        return f"a list of {len(self.items)}"


@dataclass(frozen=True, eq=False)
class FrameValue:
    """A table; its `parts` stand side by side, each a tensor of rows x columns, of text or of numbers.

    missing: what the engine noted of a meta frame to put into missing cells, by column ("": nothing); empty for others.
    types: those that the engine gives the columns of each part; empty where it finds them in the cells.
    names: of the columns of a bound frame; empty where they are unknown.
    """

    parts: tuple[Tensor, ...]
    missing: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def rows(self) -> Dim:
        """The number of rows."""
        return self.parts[0].dims[0]

    @property
    def cols(self) -> Dim:
        """The number of columns of all parts."""
        return sum(part.dims[1] for part in self.parts)

    @property
    def dims(self) -> tuple[Dim, Dim]:
        """Rows and columns."""
        return self.rows, self.cols

    def __str__(self) -> str:
        return f"a frame of {self.rows} x {self.cols}"


@dataclass(frozen=True, eq=False)
class Poison:
    """Stands for what a statement should have given that was refused (`errors`) or may not have run (`reason`).

    It matters only where it is read.
    """

    reason: str = ""
    errors: tuple[TranspileError, ...] = ()

    def __str__(self) -> str:
        return "a value of a refused statement"


Value = Union[Scalar, Matrix, ListValue, FrameValue, Poison]


def known_of(value: Value | None) -> bool | int | float | str | None:
    """Return the known content of a scalar, None for one of which only the run knows it, and for other values."""
    return value.known if isinstance(value, Scalar) else None


def known_numbers(*values: Value) -> list[float] | None:
    """Return the known numbers or booleans that scalars hold, None if any is something else."""
    found: list[float] = []
    for value in values:
        known = known_of(value)
        if known is None or isinstance(known, str):
            return None
        found.append(known)
    return found


def known_scalar(value: bool | int | float | str) -> Scalar:
    """Return a known value with its DML type."""
    for kind, name in ((bool, BOOLEAN), (int, INTEGER), (float, DOUBLE)):
        if isinstance(value, kind):
            return Scalar(name, value)
    return Scalar(STRING, value)


def known_integer(number: int) -> Scalar:
    """Return a known integer. Raises UnsupportedCase beyond 2^53."""
    if abs(number) > limits.LARGEST_INTEGER:
        raise UnsupportedCase(f"the integer {number} is beyond 2^53, from where on doubles do not hold each integer",
                              hint="calculate with doubles: as.double(n)")
    return known_scalar(number)


def integer(dim: Dim) -> Scalar:
    """Return a size or another integer as a scalar."""
    return Scalar(INTEGER, dim)


def with_tensors(value: Value, change: Callable[[Tensor], Tensor]) -> Value:
    """Return the same value made of other tensors."""
    if isinstance(value, Scalar) and isinstance(value.content, Tensor):
        return Scalar(value.type, change(value.content))
    if isinstance(value, Matrix):
        return Matrix(change(value.tensor), value.rows, value.cols)
    if isinstance(value, FrameValue):
        return replace(value, parts=tuple(map(change, value.parts)))
    if isinstance(value, ListValue):
        return ListValue(tuple(with_tensors(item, change) for item in value.items), value.names)
    return value


def sizes_in(value: Value) -> Iterator[Dim]:
    """Yield the sizes and integers that a value is made of."""
    if isinstance(value, Scalar) and isinstance(value.content, Expression):
        yield value.content
    elif isinstance(value, Matrix):
        yield from (value.rows, value.cols, *value.tensor.dims)
    elif isinstance(value, FrameValue):
        yield from (dim for part in value.parts for dim in part.dims)
    elif isinstance(value, ListValue):
        for item in value.items:
            yield from sizes_in(item)


def unwrapped(value: Value) -> Value:
    """Return the item of a list of one, which stands for the list as in the engine; other values as they are."""
    return value.items[0] if isinstance(value, ListValue) and len(value.items) == 1 else value


def scalar_text(value: bool | int | float | str) -> str:
    """Return a scalar as the engine prints it, and so as Java does."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, float) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    digits, exponent = f"{Decimal(repr(value)).normalize():e}".split("e")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"
