"""The layout rule: how a tensor of any rank lies in a two-dimensional matrix.

A tensor with dims ``d0..dk`` and split ``s`` is the row-major matrix ``prod(d[:s]) x prod(d[s:])``.
All such matrices hold the same values in the same order, so going from one to another is a reshape and costs
next to nothing. A tensor of rank 0 is a DML scalar. At function boundaries the split is 1.
Sequences and optionals are DML lists, whose items are matrices: rank 0 is 1 x 1 there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.assumptions import DimText
from onnx_systemds.inference.dims import Dim, Dims, product


class View(NamedTuple):
    """A matrix over the row-major elements of a tensor."""

    rows: Dim
    cols: Dim

    @property
    def known(self) -> tuple[int, int]:
        """Rows and columns as integers. Raises UnsupportedCase if they are unknown."""
        if not (isinstance(self.rows, int) and isinstance(self.cols, int)):
            raise UnsupportedCase(f"a matrix of {self.rows} x {self.cols}, which must be known")
        return self.rows, self.cols


SCALAR = None
"""The form of a DML scalar."""

LIST = View(-1, -1)
"""The only form of sequences and optionals; no matrix has it."""

Form = Union[View, None]


def in_form(matrix: str, form: Form) -> str:
    """The text of a matrix that lies as its form says, which for that of a scalar is its only number."""
    return f"as.scalar({matrix})" if form is SCALAR else matrix


def split_view(dims: Dims, split: int) -> View:
    """The matrix with the axes before ``split`` in the rows and the others in the columns."""
    return View(product(dims[:split]), product(dims[split:]))


def around(dims: Sequence[Dim], axis: int) -> tuple[Dim, Dim, Dim]:
    """The number of elements in the axes before an axis, its size, and the number in the axes after it."""
    return product(dims[:axis]), product(dims[axis : axis + 1]), product(dims[axis + 1 :])


@dataclass(frozen=True, slots=True)
class AlongAxis:
    """A matrix in which parts of an axis are ranges of rows or columns.

    before, after: elements in the axes before and after it. by_rows: whether positions of the axis are rows.
    """

    before: Dim
    after: Dim
    by_rows: bool

    @property
    def step(self) -> Dim:
        """The number of rows or columns for one position of the axis."""
        return 1 if self.by_rows else self.after

    def view(self, size: Dim) -> View:
        """The matrix for a size of the axis."""
        return View(size, self.after) if self.by_rows else View(self.before, size * self.after)

    def part(self, matrix: str, span: str) -> str:
        """DML of the rows or columns ``span`` of a matrix."""
        return f"{matrix}[{span}, ]" if self.by_rows else f"{matrix}[, {span}]"

    def joined(self, parts: Sequence[str]) -> str:
        """DML of parts joined along the axis."""
        return bind("rbind" if self.by_rows else "cbind", parts)


def bind(builtin: str, parts: Sequence[str]) -> str:
    """DML of matrices joined by ``cbind`` or ``rbind``; a single one is as it is."""
    return parts[0] if len(parts) == 1 else f"{builtin}({', '.join(parts)})"


def along_axis(dims: Sequence[Dim], axis: int) -> AlongAxis:
    """The matrix for an axis: by rows if it is the first axis of more than one element."""
    before, _, after = around(dims, axis)
    return AlongAxis(before, after, before == 1)


def boundary_form(dims: Dims) -> View | None:
    """The form at function boundaries: rank 0 a scalar, rank 1 ``n x 1``, else ``d0 x rest``."""
    return split_view(dims, 1) if dims else SCALAR


def item_form(dims: Dims) -> View:
    """The form of a tensor in a list: as at function boundaries, but rank 0 is a 1 x 1 matrix."""
    return split_view(dims, 1)


def converted(text: str, form: Form, wanted: Form, dim_text: DimText) -> str:
    """DML that converts ``text`` from one form to another form of the same elements. Raises UnsupportedCase."""
    if form == wanted:
        return text
    if LIST in (form, wanted):
        raise UnsupportedCase("a sequence or optional stands where a tensor is needed")
    if wanted is SCALAR:
        return f"as.scalar({text})"
    if form is SCALAR:
        return f"as.matrix({text})"
    return reshaped(text, wanted, dim_text)


def reshaped(text: str, wanted: View, dim_text: DimText) -> str:
    """DML that reshapes ``text``; an empty matrix is made anew, because the engine does not reshape it."""
    text = "0" if 0 in wanted else text
    return f"matrix({text}, rows={dim_text(wanted.rows)}, cols={dim_text(wanted.cols)})"
