"""Selections along one axis of a tensor, step by step: the idioms under Slice, Gather and Resize."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from onnx_systemds.dml.operands import is_name
from onnx_systemds.engine.safe_forms import progression
from onnx_systemds.inference.dims import Dim, Dims, depends_on_run, may_be_zero
from onnx_systemds.operators.api import SCALAR, Fragment, NodeView, View
from onnx_systemds.operators.api.layout import AlongAxis, along_axis, around
from onnx_systemds.operators.support.movement import ascending_runs, sums_of_pairs
from onnx_systemds.operators.support.selection_products import (
    gather_rows_text,
    is_finite,
    sparse_padding,
    sparse_row_padding,
)

MOST_RUNS = 8  # pieces of a selection that are written out as slices


class Steps:
    """The first input on its way through selections: its current text, view and dims."""

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self.dims: Dims = node.dims(0)
        self.finite = is_finite(node, 0)
        self._text: str | None = None
        self._view = View(0, 0)

    def matrix(self, view: View) -> str:
        """The current elements as an identifier of the given view."""
        if self._text is None:
            return self.node.view(0, view)
        text = self._text if view == self._view else self._reshaped(view)
        if not is_name(text):
            text = self.node.named("part", text)
        self._text, self._view = text, view
        return text

    def set(self, text: str, view: View, axis: int, count: Dim) -> None:
        """Take ``text`` as the new state; the axis now has ``count`` elements."""
        self._text, self._view = text, view
        self.dims = (*self.dims[:axis], count, *self.dims[axis + 1 :])

    def around(self, axis: int) -> tuple[Dim, Dim, Dim]:
        """Number of elements before the axis, along it, and after it."""
        return around(self.dims, axis)

    def slice(self, axis: int, start: Dim, count: Dim) -> None:
        """Keep ``count`` elements from ``start`` (from 0) on: a range of rows or columns."""
        if (start, count) == (0, self.dims[axis]):
            return
        along = along_axis(self.dims, axis)
        x = self.matrix(along.view(self.dims[axis]))
        self.set(part_of_axis(self.node, along, x, start, count), along.view(count), axis, count)

    def _reshaped(self, view: View) -> str:
        """The current elements in another view."""
        assert self._text is not None
        if may_be_zero(view):
            return self.node.call("shaped", self._text, self.node.dim(view.rows), self.node.dim(view.cols))
        return self.node.reshape(self._text, view)

    def reverse(self, axis: int) -> None:
        """Keep all elements of an axis, the last one first."""
        before, size, after = self.around(axis)
        if before == 1:
            self.set(f"rev({self.matrix(View(size, after))})", View(size, after), axis, size)
        else:
            self.take(axis, progression(self.node.dim(size), "1", "(-1)"), size)

    def pick(self, axis: int, indices: Sequence[int]) -> None:
        """Keep the known indices (from 0) of an axis, in their order."""
        runs = ascending_runs(indices)
        size = self.dims[axis]
        count = len(indices)
        if len(runs) == 1:
            self.slice(axis, *runs[0])
            return
        along = along_axis(self.dims, axis)
        if along.by_rows and list(indices) == list(range(count))[::-1] and size == count:
            self.reverse(axis)
        elif self._pick_every(axis, indices) or self._pick_repeated(axis, indices):
            return
        elif len(runs) <= MOST_RUNS:
            x = self.matrix(along.view(size))
            pieces = [part_of_axis(self.node, along, x, start, length) for start, length in runs]
            self.set(along.joined(pieces), along.view(count), axis, count)
        else:
            column = np.asarray(indices, dtype=np.int64).reshape(-1, 1) + 1
            self.take(axis, _progression(indices) or self.node.constant_matrix(column, "index"), count)

    def _pick_every(self, axis: int, indices: Sequence[int]) -> bool:
        """Keep every n-th index: the axis in blocks of n, of which one column (or run of them) is kept."""
        before, size, after = self.around(axis)
        count, step = len(indices), int(indices[1]) - int(indices[0])
        if step < 2 or not isinstance(size, int) or _progression(indices) is None:
            return False
        offset = max(0, int(indices[0]) + count * step - size)  # of what is kept within its block
        start = int(indices[0]) - offset
        if offset >= step or start < 0:
            return False
        self.slice(axis, start, count * step)
        x = self.matrix(View(before * count, step * after))
        kept = _span(self.node, offset * after, after)
        self.set(f"{x}[, {kept}]", View(before * count, after), axis, count)
        return True

    def _pick_repeated(self, axis: int, indices: Sequence[int]) -> bool:
        """Keep each index several times in a row: the elements side by side with themselves."""
        before, size, after = self.around(axis)
        times = len(indices) // size if isinstance(size, int) and size else 0
        if not 2 <= times <= MOST_RUNS or after == 1:
            return False
        if [int(index) for index in indices] != [place for place in range(int(str(size))) for _ in range(times)]:
            return False
        x = self.matrix(View(before * size, after))
        self.set(f"cbind({', '.join([x] * times)})", View(before * size, after * times), axis, len(indices))
        return True

    def take(self, axis: int, index: str, count: Dim) -> None:
        """Keep the elements that a DML column of ``count`` indices (from 1) names."""
        node = self.node
        before, size, after = self.around(axis)
        if may_be_zero((count, *self.dims)) or (before != 1 and depends_on_run(count)):
            x = self.matrix(View(before * size, after))
            text = node.call("picked_rows", x, index, node.dim(before))
            self.set(text, View(before * count, after), axis, count)
        elif before == 1:
            x = self.matrix(View(size, after))
            text = gather_rows_text(node, x, index, size, count, after, finite=self.finite)
            self.set(text, View(count, after), axis, count)
        elif after == 1:
            self._take_columns(axis, index, count)
        else:
            x = self.matrix(View(before * size, after))
            if size == 1:  # a row of ones is none to take an outer of
                whole = f"seq(0, {node.dim(before * count - 1)}) %/% {node.factor(count)} + 1"
            else:
                starts = f"seq(0, {node.dim((before - 1) * size)}, {node.dim(size)})"
                whole = sums_of_pairs(node, starts, index, before * count)
            text = gather_rows_text(node, x, whole, before * size, before * count, after, finite=self.finite)
            self.set(text, View(before * count, after), axis, count)

    def _take_columns(self, axis: int, index: str, count: Dim) -> None:
        """A product with a 0/1 matrix; few columns are padded so that it is stored sparse (0 * NaN is NaN)."""
        node = self.node
        before, size, _ = self.around(axis)
        x = self.matrix(View(before, size))
        padded = below = 0
        if not self.finite:
            padded, below = sparse_padding(count), sparse_row_padding(size)
        if below:
            x = f"cbind({x}, {node.filled(0, View(before, below))})"
        width = count + padded
        one_hot = f"table({index}, seq(1, {node.dim(count)}), {node.dim(size + below)}, {node.dim(width)})"
        self.set(f"{x} %*% {one_hot}", View(before, width), axis, count)
        if padded:
            name = self.matrix(View(before, width))
            self.set(f"{name}[, 1:{node.dim(count)}]", View(before, count), axis, count)

    def fragment(self, output: int = 0) -> Fragment:
        """The current elements as an output of the node."""
        if self._text is None:
            return self.node.same_elements(0, output)
        wanted = self.node.wanted_form(output)
        if wanted is not SCALAR and wanted != self._view and may_be_zero(wanted):
            self._text, self._view = self._reshaped(wanted), wanted
        return self.node.result(self._text, self._view, output)


def part_of_axis(node: NodeView, along: AlongAxis, matrix: str, start: Dim, count: Dim) -> str:
    """``count`` positions of an axis from ``start`` (from 0) on, by a function where the run may find them to be none.

    The engine refuses empty ranges.
    """
    first, length = start * along.step, count * along.step
    if may_be_zero(count):
        function = "row_range" if along.by_rows else "col_range"
        return node.call(function, matrix, node.dim(first), node.dim(length))
    return along.part(matrix, _span(node, first, length))


def _span(node: NodeView, start: Dim, count: Dim) -> str:
    return node.dim(start + 1) if count == 1 else f"{node.factor(start + 1)}:{node.factor(start + count)}"


def axis_last(node: NodeView, axis: int) -> str:
    """Text of the first input with one row for each place outside the axis: in the order [after, before].

    `from_axis_last` undoes it; for results of any width this costs two transpositions and no permutation.
    """
    before, size, after = around(node.dims(0), axis)
    if after == 1:
        return node.view(0, View(before, size))
    turned = f"t({node.view(0, View(before * size, after))})"
    return turned if before == 1 else node.reshape(turned, View(after * before, size))


def from_axis_last(node: NodeView, text: str, before: Dim, count: Dim, after: Dim) -> tuple[str, View]:
    """A result of ``count`` columns for the rows of `axis_last`, back in row-major order."""
    if after == 1:
        return text, View(before, count)
    if before != 1 and may_be_zero(count):
        text = node.call("shaped", text, node.dim(after), node.dim(before * count))
    elif before != 1:
        text = node.reshape(text, View(after, before * count))
    return f"t({text})", View(before * count, after)


def axis_first(node: NodeView, axis: int) -> str:
    """Text of the first input with the axis in the rows and [after, before] in the columns."""
    before, size, after = around(node.dims(0), axis)
    if before == 1:
        return node.view(0, View(size, after))
    turned = f"t({node.view(0, View(before, size * after))})"
    return turned if after == 1 else node.reshape(turned, View(size, after * before))


def from_axis_first(node: NodeView, text: str, before: Dim, count: Dim, after: Dim) -> tuple[str, View]:
    """A result of ``count`` rows for the columns of `axis_first`, back in row-major order."""
    if before == 1:
        return text, View(count, after)
    if after != 1:
        text = node.reshape(text, View(count * after, before))
    return f"t({text})", View(before, count * after)


def _progression(indices: Sequence[int]) -> str | None:
    """An arithmetic progression as seq, counted from 1."""
    step = int(indices[1]) - int(indices[0])
    if step == 0 or any(int(b) - int(a) != step for a, b in pairwise(indices)):
        return None
    text = str(step) if step > 0 else f"({step})"
    return progression(str(int(indices[0]) + 1), str(int(indices[-1]) + 1), text)
