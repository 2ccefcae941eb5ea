"""Moving elements: permutations of axes, and padding or cropping along one axis at a time, as DML text.

An input is given as a `Source`: a function that says the text of the same row-major elements in a wanted view. So the
first step asks for the view that suits it, and every further one reshapes what the step before left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from onnx_systemds.dml.operands import is_name
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, is_non_negative, maximum, minimum, product
from onnx_systemds.operators.api import NodeView, View, split_view
from onnx_systemds.operators.api.layout import along_axis, around
from onnx_systemds.operators.support.selection_products import gather_rows_text

Source = Callable[[View], str]
Kind = TypeVar("Kind", bound="Moved")
Amounts = Sequence[tuple[Dim, Dim]]  # for each axis what is added before and after it; negative amounts crop

MOST_PIECES = 8  # elements added to an axis that are written out as slices
MOST_HEADS = 4  # as slices; of more the rows are gathered
LONG_BLOCK = 32  # from this length on a row is worth gathering as a whole


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements on their way: DML text, and the view it has."""

    text: str
    view: View

    def seen(self, node: NodeView, view: View) -> str:
        """The text of another view."""
        return node.converted(self.text, self.view, view)

    def source(self, node: NodeView) -> Source:
        """The text as the source of a further step."""
        return partial(self.seen, node)

    def reshaped(self: Kind, node: NodeView, view: View) -> Kind:
        """The same elements in another view."""
        return replace(self, text=self.seen(node, view), view=view)

    def bound(self: Kind, node: NodeView, hint: str) -> Kind:
        """The same elements under a name of their own, so that a chain of steps is read line by line."""
        return replace(self, text=node.named(hint, self.text))


def input_source(node: NodeView, position: int) -> Source:
    """An input of the node, in whatever view a step asks for."""
    return partial(node.view, position)


# --- permutations ------------------------------------------------------------------------------------------------


def merged(dims: Dims, perm: Sequence[int]) -> tuple[Dims, tuple[int, ...]]:
    """The same permutation on fewer axes: without those of size 1, neighbours that stay together as one."""
    order = [axis for axis in perm if dims[axis] != 1]
    rank_of = {axis: rank for rank, axis in enumerate(sorted(order))}
    sizes = [dims[axis] for axis in sorted(order)]
    runs: list[list[int]] = []
    for axis in order:
        rank = rank_of[axis]
        if runs and runs[-1][-1] + 1 == rank:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    source_order = sorted(runs)
    return (
        tuple(product(sizes[rank] for rank in run) for run in source_order),
        tuple(source_order.index(run) for run in runs),
    )


def permuted(node: NodeView, source: Source, dims: Dims, perm: Sequence[int], *, finite: bool) -> Moved:
    """The source's elements with its axes ``dims`` in the order ``perm``: at most one t() and one gather of rows."""
    dims, order = merged(dims, perm)
    last = len(dims) - 1
    if last < 1:
        view = View(product(dims), 1)
        return Moved(source(view), view)
    if last == 1:
        return Moved(f"t({source(View(*dims))})", View(dims[1], dims[0]))
    wanted = order[-1]
    if wanted == last:
        return _rows_permuted(node, source, dims, order, finite=finite)
    if _is_better_block(dims[last], dims[wanted]):
        # rows are moved as they are, then the axes after the last one of the input come to the front by t()
        cut = order.index(last) + 1
        moved = _rows_permuted(node, source, dims, (*order[cut:], *order[:cut]), finite=finite)
        moved = moved.bound(node, "blocks")
        after = View(product(dims[axis] for axis in order[cut:]), product(dims[axis] for axis in order[:cut]))
        return Moved(f"t({moved.seen(node, after)})", View(after.cols, after.rows))
    cut = wanted + 1
    flipped = split_view(dims, cut)
    turned = Moved(f"t({source(flipped)})", View(flipped.cols, flipped.rows))
    shifted = tuple((axis - cut) % len(dims) for axis in order)
    return _rows_permuted(node, turned.source(node), (*dims[cut:], *dims[:cut]), shifted, finite=finite)


def _is_better_block(left: Dim, right: Dim) -> bool:
    """Whether rows of length ``left`` are gathered faster than those of length ``right``: longer ones."""
    if isinstance(left, int) and isinstance(right, int):
        return left > right
    return left >= LONG_BLOCK if isinstance(left, int) else not (isinstance(right, int) and right >= LONG_BLOCK)


def _rows_permuted(node: NodeView, source: Source, dims: Dims, perm: Sequence[int], *, finite: bool) -> Moved:
    """A permutation that leaves the last axis where it is: a gather of rows."""
    dims, order = merged(dims, perm)
    if len(dims) < 2:
        view = View(1, product(dims))
        return Moved(source(view), view)
    few = _few_swapped(node, source, dims, order)
    if few is not None:
        return few
    lead, block = dims[:-1], dims[-1]
    count = product(lead)
    rows = node.shared(permuted_positions(node, lead, order[:-1]), lead, "row_order")
    text = gather_rows_text(node, source(View(count, block)), rows, count, count, block, finite=finite)
    return Moved(text, View(count, block))


def _few_swapped(node: NodeView, source: Source, dims: Dims, order: tuple[int, ...]) -> Moved | None:
    """Two axes before the last one swapped, one of which is a few heads: their slices, one beside the other."""
    if order not in ((1, 0, 2), (0, 2, 1, 3)):
        return None
    count, outer, inner, block = (1, *dims)[-4:]
    few = [size for size in (outer, inner) if isinstance(size, int) and size <= MOST_HEADS]
    if not few:
        return None
    heads, is_apart = min(few), min(few) == inner
    length = outer if is_apart else inner
    together, apart = View(count * length, heads * block), View(count, heads * length * block)
    if count == 1:
        apart = View(heads * length, block)
    text = _indexed(node, source(together if is_apart else apart), "heads")
    step = block if is_apart else length if count == 1 else length * block
    spans = [f"{node.factor(at * step + 1)}:{node.factor((at + 1) * step)}" for at in range(heads)]
    if count == 1:
        parts = [f"{text}[, {span}]" if is_apart else f"{text}[{span}, ]" for span in spans]
        return Moved(f"{'rbind' if is_apart else 'cbind'}({', '.join(parts)})", apart if is_apart else together)
    taken, wanted = View(count * length, block), View(count, length * block)
    taken, wanted = (taken, wanted) if is_apart else (wanted, taken)
    parts = [node.converted(f"{text}[, {span}]", taken, wanted) for span in spans]
    return Moved(f"cbind({', '.join(parts)})", apart if is_apart else together)


def _indexed(node: NodeView, text: str, hint: str) -> str:
    """An identifier for a matrix: only these can be indexed."""
    return text if is_name(text) else node.named(hint, text)


def permuted_positions(node: NodeView, dims: Dims, perm: Sequence[int]) -> str:
    """Positions from 1 of the elements of axes ``dims`` in the order of ``perm``, as a column."""
    count = node.dim(product(dims))
    if len(dims) == 2:
        table = f"matrix(seq(1, {count}), rows={node.dim(dims[0])}, cols={node.dim(dims[1])})"
        return f"matrix(t({table}), rows={count}, cols=1)"
    text, done = "", 1  # type: str, Dim
    for axis in perm:
        steps = f"seq(0, {node.dim(dims[axis] - 1)})"
        stride = product(dims[axis + 1 :])
        if stride != 1:
            steps = f"{steps} * {node.factor(stride)}"
        done = done * dims[axis]
        text = sums_of_pairs(node, text, steps, done) if text else steps
    return f"{text} + 1"


def sums_of_pairs(node: NodeView, first: str, second: str, count: Dim) -> str:
    """A column of ``count`` sums: of each number of a column and each of another one, of which the latter is faster."""
    return f'matrix(outer({first}, t({second}), "+"), rows={node.dim(count)}, cols=1)'


# --- padding and cropping ----------------------------------------------------------------------------------------


def cropped(node: NodeView, source: Source, dims: Dims, amounts: Amounts) -> tuple[Moved | None, Dims]:
    """Take away what negative ``amounts`` say; None where they say nothing. The dims that are left follow."""
    moved: Moved | None = None
    for axis, (before, after) in enumerate(amounts):
        first, last = -1 * minimum(before, 0), -1 * minimum(after, 0)
        if (first, last) == (0, 0):
            continue
        for amount in (before, after):
            _require_sign(amount)
        remaining = dims[axis] - first - last
        moved = _runs(node, source, dims, axis, [(first, remaining)])
        source, dims = moved.source(node), (*dims[:axis], remaining, *dims[axis + 1 :])
    return moved, dims


def _runs(node: NodeView, source: Source, dims: Dims, axis: int, runs: Sequence[tuple[Dim, Dim]]) -> Moved:
    """Runs of an axis one after the other: where each starts and how long it is."""
    along = along_axis(dims, axis)
    text = _indexed(node, source(along.view(dims[axis])), "whole")
    ends = [(start * along.step + 1, (start + length) * along.step) for start, length in runs]
    parts = [along.part(text, f"{node.factor(first)}:{node.factor(last)}") for first, last in ends]
    count = sum((length for _, length in runs), start=0)
    return Moved(along.joined(parts), along.view(count))


def _require_sign(amount: Dim) -> None:
    if not is_non_negative(amount) and not is_non_negative(-1 * amount):
        raise UnsupportedCase(
            f"whether a pad of {amount} adds or removes is only known when the model runs",
            hint="fix the sizes by --dim",
        )


def _grown(
    node: NodeView, source: Source, dims: Dims, amounts: Amounts, grow: Callable[[Source, Dims, int], Moved]
) -> Moved:
    """The axes that a pad changes, grown from the last to the first."""
    moved = Moved("", View(0, 0))
    for axis, (before, after) in reversed(list(enumerate(amounts))):
        if (before, after) == (0, 0):
            continue
        _require_sign(before)
        _require_sign(after)
        if moved.text:
            moved = moved.bound(node, "padded")
            source = moved.source(node)
        moved = grow(source, dims, axis)
        dims = (*dims[:axis], before + dims[axis] + after, *dims[axis + 1 :])
    return moved


def padded_constant(node: NodeView, source: Source, dims: Dims, amounts: Amounts, value: str) -> Moved:
    """Add ``value`` (DML text) before and after each axis; for all images at once, one axis after the other.

    ``amounts`` are not negative (crop before). At least one of them must not be 0.
    """

    def grow(source: Source, dims: Dims, axis: int) -> Moved:
        along, (before, after) = along_axis(dims, axis), amounts[axis]
        text = source(along.view(dims[axis]))
        first, last = (node.filled(value, along.view(amount)) for amount in (before, after))
        if before == after:
            first = last = node.named("margin", first)
        parts = [part for part, amount in ((first, before), (text, 1), (last, after)) if amount != 0]
        return Moved(along.joined(parts), along.view(before + dims[axis] + after))

    return _grown(node, source, dims, amounts, grow)


def gathered(
    node: NodeView, source: Source, dims: Dims, axis: int, positions: str, length: Dim, *, finite: bool
) -> Moved:
    """Elements ``positions`` (from 0: the identifier of a column of ``length`` numbers) of one axis."""
    prefix, size, suffix = around(dims, axis)
    index = f"{positions} + 1"
    if prefix == 1:
        text = source(View(size, suffix))
        rows = gather_rows_text(node, text, index, size, length, suffix, finite=finite)
        return Moved(rows, View(length, suffix))
    if suffix == 1:
        # columns as the rows of the transposed: long rows, and no product that spreads NaN
        text = f"t({source(View(prefix, size))})"
        rows = gather_rows_text(node, text, index, size, length, prefix, finite=finite)
        return Moved(f"t{rows}", View(prefix, length))
    starts = f"seq(0, {node.dim(prefix - 1)})"
    starts = starts if size == 1 else f"{starts} * {node.factor(size)}"
    count = prefix * length
    name = node.named("rows", sums_of_pairs(node, starts, index, count))
    rows = gather_rows_text(
        node, source(View(prefix * size, suffix)), name, prefix * size, count, suffix, finite=finite
    )
    return Moved(rows, View(count, suffix))


def _few_runs(mode: str, before: Dim, size: Dim, after: Dim) -> list[tuple[int, int]]:
    """The continued axis as ascending runs (start, length) of its elements, if sizes are known and they are few."""
    if not (isinstance(before, int) and isinstance(size, int) and isinstance(after, int)):
        return []
    if before + after >= MOST_PIECES:
        return []
    places = range(-before, size + after)
    if mode == "edge":
        found = [min(max(place, 0), size - 1) for place in places]
    elif mode == "wrap":
        found = [place % size for place in places]
    else:
        period = max(2 * (size - 1), 1)
        found = [size - 1 - abs(size - 1 - place % period) for place in places]
    return ascending_runs(found)


def ascending_runs(places: Iterable[int]) -> list[tuple[int, int]]:
    """Places that follow each other as (start, length)."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and sum(runs[-1]) == place:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((int(place), 1))
    return runs


def padded_from_inside(
    node: NodeView, source: Source, dims: Dims, amounts: Amounts, mode: str, *, finite: bool
) -> Moved:
    """Continue each axis beyond its ends by its own elements: mode edge, reflect or wrap.

    ``amounts`` are not negative (crop before). At least one of them must not be 0.
    """

    def grow(source: Source, dims: Dims, axis: int) -> Moved:
        size, (before, after) = dims[axis], amounts[axis]
        if runs := _few_runs(mode, before, size, after):
            return _runs(node, source, dims, axis, runs)
        call = node.call(f"{mode}_positions", node.dim(before), node.dim(size), node.dim(after))
        return gathered(node, source, dims, axis, node.named("positions", call), before + size + after, finite=finite)

    return _grown(node, source, dims, amounts, grow)


def positive_parts(amounts: Amounts) -> Amounts:
    """What is added, where ``amounts`` may also crop."""
    return [(maximum(before, 0), maximum(after, 0)) for before, after in amounts]
