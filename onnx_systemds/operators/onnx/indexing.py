"""Slice, Gather, GatherElements, GatherND and Compress: parts of a tensor by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.engine.safe_forms import progression
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference import dims as sizes
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, Dims, may_be_zero, product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.infer import unknown_size
from onnx_systemds.inference.registry import generator, shape_rule, takes_text
from onnx_systemds.inference.values import Value
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import SCALAR, View
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.onnx.selecting import Steps, axis_first, from_axis_first
from onnx_systemds.operators.support.broadcasting import gather_rows_text, is_finite

takes_text("Compress", "Gather", "GatherElements", "GatherND", "Slice")

FAR = 2**31 - 1  # exporters write this, or more, for "to the end"

# --- Slice -----------------------------------------------------------------------------------------------------


def slice_ranges(node: NodeFacts) -> list[tuple[int, Dim, Dim, Dim]]:
    """(axis, start, count, step) for each sliced axis; opset 1 has attributes, from 10 on inputs."""
    dims = node.dims(0)
    if node.version < 10:
        starts, ends = tuple(node.attribute("starts")), tuple(node.attribute("ends"))
        axes, steps = node.attribute("axes"), None
    else:
        starts, ends = node.sizes(1, "the starts", signed=True), node.sizes(2, "the ends", signed=True)
        axes = node.require_integers(3, "the axes") if node.has(3) else None
        steps = node.sizes(4, "the steps", signed=True) if node.has(4) else None
    if not dims:
        raise InvalidModel("a scalar has no axis to be sliced")
    for count in (len(given) for given in (ends, axes, steps) if given is not None):
        if count != len(starts):
            raise InvalidModel(f"{len(starts)} starts and {count} ends, axes or steps")
    found: list[tuple[int, Dim, Dim, Dim]] = []
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis = node.normalize_axis(_known(i if axes is None else axes[i], "an axis"), len(dims))
        step = 1 if steps is None else steps[i]
        if step == 0:
            raise UnsupportedCase("a slice of step 0")
        if isinstance(step, int) and _is_signed(start) and _is_signed(end):
            found.append((axis, *slice_range(start, end, step, dims[axis]), step))
        else:
            found.append((axis, *_run_time_range(node, axis, start, end, step), step))
    return found


def _is_signed(position: Dim) -> bool:
    """Whether it is known from which end a position counts."""
    return not_negative(position) or not_negative(-1 * position)


def _run_time_range(node: NodeFacts, axis: int, start: Dim, end: Dim, step: Dim) -> tuple[Dim, Dim]:
    """First position and number of the elements of a slice that only the run decides."""
    size = node.dims(0)[axis]
    first: Dim = 0
    if isinstance(start, int) and isinstance(size, int) and step == 1:
        first = slice_range(start, size, 1, size)[0]
    elif start != 0 or step != 1:
        first = node.computed("slice_start", start, step, size, hint=f"start{axis}")
    return first, node.computed("slice_count", first, end, step, size, hint=f"size{axis}")


def _known(size: Dim, what: str) -> int:
    if not isinstance(size, int):
        raise UnsupportedCase(f"{what} of a slice is an expression")
    return size


def slice_range(start: Dim, end: Dim, step: int, size: Dim) -> tuple[Dim, Dim]:
    """First position and number of the elements of a slice.

    Where sizes are expressions nothing is clipped that would only matter for a slice that may be empty (the script
    refuses one), and an expression as the end on an axis of known size is trusted to be within it (it is checked).
    """
    if isinstance(start, int) and isinstance(end, int) and isinstance(size, int):
        chosen = range(size)[slice(start, None if step < 0 and end < -size else end, step)]
        return (chosen.start if len(chosen) else 0), len(chosen)
    if step > 0:
        first, last = _clipped(start, size, 0, size), _clipped(end, size, 0, size)
        from_here, length = end - start, last - first
    else:
        first, last = _clipped(start, size, 0, size - 1), _clipped(end, size, -1, size - 1)
        from_here, length = start - end, first - last
    counts_alike = not_negative(start) == not_negative(end)  # from the front or from the back
    if not_negative(-1 * length) or (counts_alike and not_negative(-1 * from_here)):
        return 0, 0
    return first, sizes.floor_divide(length + (abs(step) - 1), abs(step))


def _clipped(position: Dim, size: Dim, least: int, limit: Dim) -> Dim:
    """A position counted from the front, from ``least`` to ``limit``; negative ones count from ``size``."""
    if isinstance(position, int) and abs(position) >= FAR:
        return limit if position > 0 else least
    if not_negative(position):
        if isinstance(limit, int) and not isinstance(position, int):
            return position
        return _smaller(position, limit)
    if not_negative(-1 * position):
        shifted = position + size
        return shifted if not_negative(shifted - least) else sizes.maximum(shifted, least)
    raise UnsupportedCase(f"the sign of the slice position {position} is not known at conversion")


def _smaller(left: Dim, right: Dim) -> Dim:
    """The minimum, told at conversion where possible."""
    if not_negative(left - right):
        return right
    return left if not_negative(right - left) else sizes.minimum(left, right)


def not_negative(size: Dim) -> bool:
    """Whether a size is certainly >= 0, symbols being at least 1: the engine has no empty matrices to compute with."""
    at_least_one = {
        name: sizes.symbol(name) + 1 for name in sizes.symbols(size) if not may_be_zero(sizes.symbol(name))
    }
    return sizes.is_non_negative(sizes.substitute(size, at_least_one))


def _is_filled(count: Dim) -> bool:
    """Whether a size is certainly at least 1, symbols being so."""
    if isinstance(count, int):
        return True  # of one that is known to be 0 nothing is computed
    if len(count.terms) == 1:
        ((atoms, coefficient),) = count.terms
        if coefficient == 1 and len(atoms) == 1 and isinstance(atoms[0], sizes.Operation):
            left, right = atoms[0].left, atoms[0].right
            found = [not_negative(operand - 1) for operand in (left, right)]
            by_operator = {"min": all(found), "max": any(found), "floordiv": not_negative(left - right)}
            return by_operator.get(atoms[0].operator, False)
    return not_negative(count - 1)


_MOST_PICKED = 100_000
"""Elements along an axis that are named one by one; of more only the first, the last and the step are written."""


@shape_rule("Slice")
def slice_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The sliced axes shrink."""
    dims = list(node.dims(0))
    for axis, start, count, step in slice_ranges(node):
        words = f"the length of the slice of {node.axis_words(0, axis)}"
        if not may_be_zero(count) and not _is_filled(count):  # those that may be 0 are guarded
            node.assume(count, Relation.AT_LEAST, 1, words)
        if step == 1 and isinstance(dims[axis], int) and not isinstance(count, int) and start == 0:
            node.assume(count, Relation.AT_MOST, dims[axis], words, "the whole axis")
        dims[axis] = count
    return (node.tensor(dims),)


@generator("Slice", since=1)
@generator("Slice", since=10)
def slice_(node: NodeView) -> Fragment:
    """Ranges of rows or columns, axis by axis; other steps are selections."""
    if product(node.output_dims()) == 0:
        return empty(node)
    steps = Steps(node)
    for axis, start, count, step in sorted(slice_ranges(node), key=lambda found: found[0]):
        if step == 1:
            steps.slice(axis, start, count)
        elif isinstance(start, int) and isinstance(count, int) and isinstance(step, int) and count <= _MOST_PICKED:
            steps.pick(axis, [start + i * step for i in range(count)])
        elif may_be_zero((start, count, step)):
            counted = node.call("count_up", node.dim(count))
            steps.take(axis, f"{counted} * {node.factor(step)} + {node.factor(start + 1)}", count)
        elif step == -1 and count == node.dims(0)[axis]:
            steps.reverse(axis)
        else:
            last = node.dim(start + (count - 1) * step + 1)
            steps.take(axis, progression(node.dim(start + 1), last, node.factor(step)), count)
    return steps.fragment()


def empty(node: NodeView, output: int = 0) -> Fragment:
    """An output without elements."""
    form = node.wanted_form(output)
    view = View(0, 0) if form is SCALAR else form
    return node.result(f"matrix(0, rows={node.dim(view.rows)}, cols={node.dim(view.cols)})", view, output)


# --- Gather ----------------------------------------------------------------------------------------------------


@shape_rule("Gather")
def gather_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The axis is replaced by the dims of the indices."""
    dims, axis = node.dims(0), node.axis()
    return (node.tensor((*dims[:axis], *node.dims(1), *dims[axis + 1 :])),)


@generator("Gather", since=1)
def gather(node: NodeView) -> Fragment:
    """Selections along an axis; negative indices count from the end, others out of range raise in the engine."""
    dims, axis = node.dims(0), node.axis()
    if product(node.output_dims()) == 0:
        return empty(node)
    steps = Steps(node)
    size, count = dims[axis], node.size(1)
    known = node.constant(1)
    if known is not None and isinstance(size, int):
        indices = [int(index) for index in known.ravel()]
        if any(not -size <= index < size for index in indices):
            raise UnsupportedCase(f"an index is out of range for an axis of {size}")
        steps.pick(axis, [index % size for index in indices])
    elif count == 1:
        _gather_one(node, steps, axis)
    else:
        steps.take(axis, gather_index(node, 1, size, count), count)
    return steps.fragment()


def _gather_one(node: NodeView, steps: Steps, axis: int) -> None:
    """One index: a row, or a run of columns."""
    size = steps.dims[axis]
    elements = node.integers(1)
    if elements is not None and (not_negative(elements[0]) or not_negative(-1 * elements[0] - 1)):
        position = elements[0] if not_negative(elements[0]) else elements[0] + size
        steps.slice(axis, position, 1)
        return
    index, place = node.scalar(1), node.temporary("place")
    steps.statements.append(f"{place} = {index} + {node.factor(size)} * as.double({index} < 0) + 1")
    before, size, behind = steps.around(axis)
    if before == 1:
        x = steps.matrix(View(size, behind))
        steps.set(f"{x}[{place}, ]", View(1, behind), axis, 1)
    elif behind == 1:
        x = steps.matrix(View(before, size))
        steps.set(f"{x}[, {place}]", View(before, 1), axis, 1)
    else:
        x = steps.matrix(View(before, size * behind))
        width = node.factor(behind)
        chosen = f"{x}[, (({place} - 1) * {width} + 1):({place} * {width})]"
        steps.set(chosen, View(before, behind), axis, 1)


def gather_index(node: NodeView, position: int, size: Dim, count: Dim) -> str:
    """Text of an input of indices as a column counted from 1."""
    return node.call("gather_index", node.view(position, View(count, 1)), node.dim(size))


# --- positions of single elements ------------------------------------------------------------------------------


def strides(dims: Dims) -> list[Dim]:
    """For each axis how far apart its neighbours lie in row-major order."""
    return [product(dims[axis + 1 :]) for axis in range(len(dims))]


def along_axes(node: NodeView, flat: str, dims: Dims) -> list[str]:
    """For each axis the texts of the numbers along it, of flat row-major numbers (both from 0)."""
    texts = []
    for axis, step in enumerate(strides(dims)):
        text = flat if step == 1 else f"({flat} %/% {node.factor(step)})"
        texts.append(text if axis == 0 else f"({text} %% {node.factor(dims[axis])})")
    return texts


def coordinates(node: NodeView, inner: Dims, outer: Dims, skipped: int) -> str:
    """Text of the column of row-major positions in ``outer`` of all places of ``inner``, without the skipped axis."""
    terms: list[str] = []
    total = node.dim(product(inner))
    steps, own = strides(outer), strides(inner)
    axis = 0
    while axis < len(inner):
        if axis == skipped or inner[axis] == 1:
            axis += 1
            continue
        last = axis
        while last + 1 < len(inner) and last + 1 != skipped and inner[last + 1] == outer[last + 1]:
            last += 1
        term = f"seq(0, {total} - 1)" if not total.isdigit() else f"seq(0, {int(total) - 1})"
        if own[last] != 1:
            term = f"({term} %/% {node.factor(own[last])})"
        if product(inner[:axis]) != 1:
            term = f"({term} %% {node.factor(product(inner[axis:last + 1]))})"
        if steps[last] != 1:
            term = f"{term} * {node.factor(steps[last])}"
        terms.append(term)
        axis = last + 1
    return " + ".join(terms)


def element_index(node: NodeView, position: int, axis: int) -> str:
    """Text of the column of positions (from 1) in input 0 that an input of indices along ``axis`` names.

    They are computed in a view with the axis in front of its columns: that is faster than in one long column.
    """
    outer, inner = node.dims(0), node.dims(position)
    view = View(product(inner[:axis]), product(inner[axis:]))
    rows = coordinates(node, inner[:axis], outer, len(outer))
    cols = coordinates(node, inner[axis:], outer[axis:], 0)
    if rows and cols:
        base = f'outer({rows} + 1, t({cols}), "+")'
    elif cols:
        base = f"t({cols} + 1)"
    else:
        base = f"{rows} + 1" if rows else "as.matrix(1)"
    size, step = node.dim(outer[axis]), node.dim(strides(outer)[axis])
    wide = node.call("element_index", node.view(position, view), size, step, base)
    return node.reshape(wide, View(product(inner), 1))


@shape_rule("GatherElements")
def gather_elements_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As the indices."""
    if node.rank(0) != node.rank(1):
        raise InvalidModel(f"indices of rank {node.rank(1)} into data of rank {node.rank(0)}")
    return (node.tensor(node.dims(1)),)


@generator("GatherElements", since=11)
def gather_elements(node: NodeView) -> Fragment:
    """Single elements: rows of the data as one column."""
    if product(node.output_dims()) == 0:
        return empty(node)
    count, size = node.size(1), node.size(0)
    index = node.temporary("index")
    before = [f"{index} = {element_index(node, 1, node.axis())}"]
    x = node.view(0, View(size, 1))
    text = gather_rows_text(node, x, index, size, count, 1, finite=is_finite(node, 0))
    return node.result(text[1:-1], View(count, 1), before=before)


@shape_rule("GatherND")
def gather_nd_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of the indices without the last, and what an index leaves of the data."""
    dims, indices = node.dims(0), node.dims(1)
    return (node.tensor((*indices[:-1], *dims[index_depth(node) :])),)


def index_depth(node: NodeFacts, batch: int | None = None) -> int:
    """Number of the data's leading axes that an index names, batch axes counted."""
    last = node.dims(1)[-1]
    if not isinstance(last, int):
        raise UnsupportedCase("the length of an index is only known when the model runs")
    return last + (int(node.attribute("batch_dims") or 0) if batch is None else batch)


@generator("GatherND", since=11)
@generator("GatherND", since=12)
def gather_nd(node: NodeView) -> Fragment:
    """Rows of the data whose columns are what the indices leave; opset 12 added batch_dims."""
    if product(node.output_dims()) == 0:
        return empty(node)
    batch = int(node.attribute("batch_dims") or 0)
    dims, depth = node.dims(0), index_depth(node)
    rows, cols = product(dims[:depth]), product(dims[depth:])
    count = product(node.dims(1)[:-1])
    index = node.temporary("index")
    before = [f"{index} = {nd_index(node, dims, batch, depth)}"]
    x = node.view(0, View(rows, cols))
    text = gather_rows_text(node, x, index, rows, count, cols, finite=is_finite(node, 0))
    return node.result(text[1:-1], View(count, cols), before=before)


def nd_index(node: NodeView, dims: Dims, batch: int, depth: int) -> str:
    """Text of the column of row numbers (from 1) that the index tuples of input 1 name."""
    indices = node.dims(1)
    count = product(indices[:-1])
    given = node.view(1, View(count, indices[-1]))
    limits = list(dims[batch:depth])
    if product(dims[:batch]) != 1:
        each = product(indices[batch:-1])
        given = f"cbind(seq(0, {node.dim(count - 1)}) %/% {node.factor(each)}, {given})"
        limits.insert(0, product(dims[:batch]))
    row = size_row(node, limits, "limits")
    column = size_row(node, strides(tuple(limits)), "strides")
    return node.call("tuple_index", given, row, f"t({column})" if len(limits) > 1 else column)


def size_row(node: NodeView, row: Sequence[Dim], hint: str) -> str:
    """Text of some sizes as a 1 x n matrix."""
    if sizes.all_known(row):
        return node.constant_matrix(np.array([row], dtype=np.int64), hint)
    texts = [f"as.matrix({node.dim(size)})" for size in row]
    return texts[0] if len(texts) == 1 else f"cbind({', '.join(texts)})"


# --- Compress --------------------------------------------------------------------------------------------------


@shape_rule("Compress")
def compress_rule(node: NodeFacts) -> tuple[Value, ...]:
    """How many are chosen is known when the condition is."""
    condition = node.constant(1)
    count: Dim = unknown_size(node, 0, 0) if condition is None else int(np.count_nonzero(condition))
    if node.attribute("axis") is None:
        return (node.tensor((count,)),)
    dims, axis = list(node.dims(0)), node.axis()
    dims[axis] = count
    return (node.tensor(dims),)


@generator("Compress", since=9)
def compress(node: NodeView) -> Fragment:
    """Rows by a 0/1 column, with the axis in the rows; places behind the condition's end are dropped."""
    dims = node.dims(0)
    if product(node.output_dims()) == 0:
        return empty(node)
    flat = node.attribute("axis") is None
    axis = 0 if flat else node.axis()
    whole: Dims = (product(dims),) if flat else dims
    before, size, behind = product(whole[:axis]), whole[axis], product(whole[axis + 1 :])
    count, length = node.output_dims()[axis], node.size(1)
    x = node.view(0, View(size, 1)) if flat else axis_first(node, 0, axis)
    mask = node.view(1, View(length, 1))
    if length != size:
        missing = size - length
        mask = f"rbind({mask}, matrix(0, rows={node.dim(missing)}, cols=1))"
    chosen = node.temporary("chosen")
    statements = [f'{chosen} = removeEmpty(target={x}, margin="rows", select={mask}, empty.return=FALSE)']
    if not isinstance(count, int):
        statements.append(f"{node.dim(count)} = nrow({chosen})")
    text, view = from_axis_first(node, chosen, before, count, behind)
    return node.result(text, view, before=statements)
