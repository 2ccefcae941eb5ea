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
        """Rows and columns, which are known. Raises UnsupportedCase where they are not."""
        if not (isinstance(self.rows, int) and isinstance(self.cols, int)):
            raise UnsupportedCase(f"a matrix of {self.rows} x {self.cols}, which must be known")
        return self.rows, self.cols


SCALAR = None
"""The form of a value that stands in the script as a DML scalar."""

LIST = View(-1, -1)
"""The form of sequences and optionals: they have no other one, and no matrix has this one."""

Form = Union[View, None]


def split_view(dims: Dims, split: int) -> View:
    """The matrix with the axes before ``split`` in the rows and the others in the columns."""
    return View(product(dims[:split]), product(dims[split:]))


def around(dims: Sequence[Dim], axis: int) -> tuple[Dim, Dim, Dim]:
    """How many elements the axes before an axis have, its size, and how many those after it have; 1 of no axes."""
    return product(dims[:axis]), product(dims[axis : axis + 1]), product(dims[axis + 1 :])


@dataclass(frozen=True, slots=True)
class AlongAxis:
    """A matrix whose rows, or else columns, run along an axis, so that parts of the axis are parts of the matrix.

    before, after: elements of the axes before and after it. by_rows: whether positions of the axis are rows.
    """

    before: Dim
    after: Dim
    by_rows: bool

    @property
    def step(self) -> Dim:
        """How many rows or columns a place of the axis has."""
        return 1 if self.by_rows else self.after

    def view(self, size: Dim) -> View:
        """The matrix where the axis has that size."""
        return View(size, self.after) if self.by_rows else View(self.before, size * self.after)

    def part(self, matrix: str, span: str) -> str:
        """DML of the rows or columns ``span`` of the matrix of that name."""
        return f"{matrix}[{span}, ]" if self.by_rows else f"{matrix}[, {span}]"

    def joined(self, parts: Sequence[str]) -> str:
        """DML of parts one after the other."""
        return f"{'rbind' if self.by_rows else 'cbind'}({', '.join(parts)})"


def along_axis(dims: Sequence[Dim], axis: int) -> AlongAxis:
    """By rows where nothing is before the axis."""
    before, _, after = around(dims, axis)
    return AlongAxis(before, after, before == 1)


def boundary_form(dims: Dims) -> View | None:
    """The form at function boundaries: rank 0 a scalar, rank 1 ``n x 1``, else ``d0 x rest``."""
    return split_view(dims, 1) if dims else SCALAR


def item_form(dims: Dims) -> View:
    """The form of a tensor in a list: as at function boundaries, but rank 0 is a matrix, too."""
    return split_view(dims, 1)


def converted(text: str, form: Form, wanted: Form, dim_text: DimText) -> str:
    """The DML expression that turns ``text``, which has one form, into another form of the same elements."""
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
    """``text`` as a matrix of other rows and columns over the same elements; the engine reshapes no empty ones."""
    text = "0" if 0 in wanted else text
    return f"matrix({text}, rows={dim_text(wanted.rows)}, cols={dim_text(wanted.cols)})"
