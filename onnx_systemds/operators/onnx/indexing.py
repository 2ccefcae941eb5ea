"""Gather, GatherElements, GatherND and Compress: parts of a tensor by the positions of their elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, Dims, is_non_negative_from_one, may_be_zero, product
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.inference.registry import (
    batch_rule,
    fold,
    generator,
    gradient,
    integer_rule,
    shape_rule,
    size_rule,
    takes_text,
)
from onnx_systemds.inference.values import Elements
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import (
    Backward,
    Fragment,
    NodeFacts,
    NodeView,
    Run,
    Value,
    View,
    bind,
    split_view,
    unknown_size,
)
from onnx_systemds.operators.api.layout import around
from onnx_systemds.operators.onnx.selecting import Steps, axis_first, from_axis_first
from onnx_systemds.operators.onnx.slice_gradients import run_of_axis, with_batch_axes
from onnx_systemds.operators.support.empty_outputs import empty, unless_empty, where_elements
from onnx_systemds.operators.support.integer_rules import moved
from onnx_systemds.operators.support.selection_products import gather_rows_text, is_finite

takes_text("Compress", "Gather", "GatherElements", "GatherND")
fold("Gather")(by_reference)
fold("GatherElements", "GatherND", since=11)(by_reference)
integer_rule("Compress", "Gather", "GatherElements", "GatherND")(moved)


# --- Gather ----------------------------------------------------------------------------------------------------


@shape_rule("Gather")
def gather_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The axis is replaced by the dims of the indices."""
    dims, axis = node.dims("data"), node.axis()
    known = node.constant("indices")
    if known is not None and known.size and not isinstance(dims[axis], int):
        # the engine takes elements that an axis without any has not for 0
        least = max(int(known.max()) + 1, -int(known.min()))
        node.assume(dims[axis], Relation.AT_LEAST, least, node.axis_words("data", axis))
    return (node.tensor((*dims[:axis], *node.dims("indices"), *dims[axis + 1 :])),)


@batch_rule("Gather")
def _gather_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Indices may be of many samples, each of its own."""
    return position == 0 and axis == node.axis()


@generator("Gather", since=1)
def gather(node: NodeView) -> Fragment:
    """Selections along an axis; negative indices count from the end, others out of range raise in the engine."""
    dims, axis = node.dims("data"), node.axis()
    steps = Steps(node)
    size, count = dims[axis], node.size("indices")
    known = node.constant("indices")
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


@size_rule("Gather", moves=True)
def _gathered_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    data, indices = inputs
    if not all(isinstance(index, int) for index in indices.ravel()):
        return None
    axis = node.axis(rank=data.ndim)
    positions = indices.astype(np.int64)
    limit = data.shape[axis]
    if positions.size and not (-limit <= positions.min() and positions.max() < limit):
        return None
    return np.array(np.take(data, positions % max(limit, 1), axis=axis), dtype=object)


@gradient("Gather")
def _gather_gradient(n: Backward) -> Sequence[str | Run]:
    """Slices added to where they came from."""
    axis, taken = n.axis(default=0), n.rank(1)
    chosen = n.constant(1)
    if chosen is not None and taken < 2 and _is_run(chosen):
        lowest = int(chosen.ravel()[0])
        start = lowest if lowest >= 0 else n.dims(0)[axis] + lowest
        return [run_of_axis(n, n.grad if taken else n.unsqueeze(n.grad, axis), axis, start, chosen.size)]
    index = n.unsqueeze(n.node.inputs[1], -1)
    if n.dtype(1) != "int64":
        index = n.cast(index, "int64")
    return [_added_along(n, index, axis, taken)]


def _added_along(n: Backward, index: str, axis: int, taken: int) -> str:
    """The slices, which lie along ``taken`` axes, added to where they came from along one, by way of the first axis."""
    rank, whole = n.rank(0), range(axis, axis + taken)
    first = (*whole, *range(axis), *range(axis + taken, rank + taken - 1))
    source = n.filled_like(n.x, n.dtype(0), 0.0)
    perm = (axis, *range(axis), *range(axis + 1, rank))
    if axis:
        source = n.emit("Transpose", source, perm=perm)
    grad = n.emit("Transpose", n.grad, perm=first) if axis else n.grad
    found = n.emit("ScatterND", source, index, grad, reduction="add")
    back = tuple(int(position) for position in np.argsort(perm))
    return n.emit("Transpose", found, perm=back) if axis else found


@gradient("Compress")
def _compress_gradient(n: Backward) -> Sequence[str]:
    """As of a Gather of the places where the condition holds, of all elements in a row where there is no axis."""
    index = n.emit("Transpose", n.emit("NonZero", n.node.inputs[1]), perm=(1, 0))
    if n.attribute("axis") is not None:
        return [_added_along(n, index, n.axis(), 1)]
    zeros = n.emit("Reshape", n.filled_like(n.x, n.dtype(0), 0.0), n.known([-1]))
    return [n.shaped(n.emit("ScatterND", zeros, index, n.grad, reduction="add"))]


def _is_run(indices: Array) -> bool:
    """Whether indices are of elements that follow each other, none of which is before the first or after the last."""
    flat = indices.ravel()
    return flat.size > 0 and bool((np.diff(flat) == 1).all()) and not flat[0] < 0 <= flat[-1]


def _gather_one(node: NodeView, steps: Steps, axis: int) -> None:
    """One index: a row, or a run of columns."""
    size = steps.dims[axis]
    elements = node.integers("indices")
    from_front = elements is not None and is_non_negative_from_one(elements[0])
    if elements is not None and (from_front or is_non_negative_from_one(-1 * elements[0] - 1)):
        position = elements[0] if from_front else elements[0] + size
        steps.slice(axis, position, 1)
        return
    index = node.scalar("indices")
    place = node.named("place", f"{index} + {node.factor(size)} * as.double({index} < 0) + 1")
    before, size, after = steps.around(axis)
    if before == 1:
        x = steps.matrix(View(size, after))
        steps.set(f"{x}[{place}, ]", View(1, after), axis, 1)
    elif after == 1:
        x = steps.matrix(View(before, size))
        steps.set(f"{x}[, {place}]", View(before, 1), axis, 1)
    else:
        x = steps.matrix(View(before, size * after))
        width = node.factor(after)
        chosen = f"{x}[, (({place} - 1) * {width} + 1):({place} * {width})]"
        steps.set(chosen, View(before, after), axis, 1)


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
    """Text of a column: the row-major positions in ``outer`` of all positions of ``inner``, without one axis."""
    terms: list[str] = []
    count = product(inner)
    steps, own = strides(outer), strides(inner)
    axis = 0
    while axis < len(inner):
        if axis == skipped or inner[axis] == 1:
            axis += 1
            continue
        last = axis
        while last + 1 < len(inner) and last + 1 != skipped and inner[last + 1] == outer[last + 1]:
            last += 1
        term = f"seq(0, {count - 1})" if isinstance(count, int) else f"seq(0, {node.dim(count)} - 1)"
        if own[last] != 1:
            term = f"({term} %/% {node.factor(own[last])})"
        if product(inner[:axis]) != 1:
            term = f"({term} %% {node.factor(product(inner[axis:last + 1]))})"
        if steps[last] != 1:
            term = f"{term} * {node.factor(steps[last])}"
        terms.append(term)
        axis = last + 1
    return " + ".join(terms)


def element_index(node: NodeView) -> str:
    """Text of the column of positions (from 1) in the first input that the second one, indices along an axis, names.

    They are computed in a view with the axis before its columns: that is faster than in one long column.
    """
    outer, inner, axis = node.dims(0), node.dims(1), node.axis()
    view = split_view(inner, axis)
    rows = coordinates(node, inner[:axis], outer, len(outer))
    cols = coordinates(node, inner[axis:], outer[axis:], 0)
    if rows and cols:
        base = f'outer({rows} + 1, t({cols}), "+")'
    elif cols:
        base = f"t({cols} + 1)"
    else:
        base = f"{rows} + 1" if rows else "as.matrix(1)"
    size, step = node.dim(outer[axis]), node.dim(strides(outer)[axis])
    wide = node.call("element_index", node.view(1, view), size, step, base)
    return node.reshape(wide, View(product(inner), 1))


@shape_rule("GatherElements")
def gather_elements_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As the indices."""
    assume_element_indices(node)
    return (node.tensor(node.dims("indices")),)


def assume_element_indices(node: NodeFacts) -> None:
    """Take indices of single elements to be within the data along all axes but that which they count along.

    Raises InvalidModel where they have another rank.
    """
    if node.rank("data") != node.rank("indices"):
        raise InvalidModel(f"indices of rank {node.rank('indices')} into data of rank {node.rank('data')}")
    along = node.axis()
    for axis, (size, count) in enumerate(zip(node.dims("data"), node.dims("indices"))):
        if axis != along:
            node.assume_at_most(count, size, node.axis_words("indices", axis), node.axis_words("data", axis))


@batch_rule("GatherElements", "ScatterElements")
def _elements_mix(node: NodeFacts, position: int, axis: int) -> bool:
    """Along the axis that indices count along, and where one of the inputs has another number of samples."""
    return axis == node.axis() or any(node.dims(other)[axis] != node.dims(0)[axis] for other in range(node.input_count))


@generator("GatherElements", since=11)
def gather_elements(node: NodeView) -> Fragment:
    """Single elements: rows of the data as one column."""
    count, size = node.size("indices"), node.size("data")
    return _taken(node, element_index(node), View(size, 1), count)


def _taken(node: NodeView, index: str, view: View, count: Dim) -> Fragment:
    """Rows of a view of the data that an index names, of which there may be none."""
    name, x = node.named("index", index), node.view("data", view)
    text = gather_rows_text(node, x, name, view.rows, count, view.cols, finite=is_finite(node, 0))
    return unless_empty(node, node.result(text, View(count, view.cols)), count)


@gradient("GatherElements")
def _gather_elements_gradient(n: Backward) -> Sequence[str]:
    zeros = n.filled_like(n.x, n.dtype(0), 0.0)
    axis = int(n.attribute("axis") or 0)
    return [n.emit("ScatterElements", zeros, n.node.inputs[1], n.grad, axis=axis, reduction="add")]


@shape_rule("GatherND")
def gather_nd_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of the indices without the last, and what an index leaves of the data."""
    dims, indices = node.dims("data"), node.dims("indices")
    for axis in range(min(int(node.attribute("batch_dims") or 0), len(dims), len(indices))):
        node.assume_same_size((0, axis), (1, axis))
    return (node.tensor((*indices[:-1], *dims[index_depth(node) :])),)


@batch_rule("GatherND")
def _nd_gather_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Along the axes that indices name; axes of both are aligned, other ones of the indices are of many samples."""
    batch = int(node.attribute("batch_dims") or 0)
    if axis < batch:
        return node.dims(0)[axis] != node.dims(1)[axis]
    return axis < index_depth(node) if position == 0 else axis == node.rank(1) - 1


def index_depth(node: NodeFacts, batch: int | None = None) -> int:
    """Number of the data's leading axes that an index names, batch axes counted. Raises UnsupportedCase."""
    last = node.dims(1)[-1]
    if not isinstance(last, int):
        raise UnsupportedCase("the length of an index is only known when the model runs")
    return last + (int(node.attribute("batch_dims") or 0) if batch is None else batch)


@generator("GatherND", since=(11, 12))
def gather_nd(node: NodeView) -> Fragment:
    """Rows of the data whose columns are what the indices leave; opset 12 added batch_dims."""
    batch = int(node.attribute("batch_dims") or 0)
    dims, depth = node.dims("data"), index_depth(node)
    rows, cols = product(dims[:depth]), product(dims[depth:])
    return _taken(node, nd_index(node, dims, batch, depth), View(rows, cols), product(node.dims("indices")[:-1]))


@gradient("GatherND")
def _gather_nd_gradient(n: Backward) -> Sequence[str]:
    zeros = n.filled_like(n.x, n.dtype(0), 0.0)
    return [n.emit("ScatterND", zeros, with_batch_axes(n), n.grad, reduction="add")]


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
    if all_known(row):
        return node.constant_matrix(np.array([row], dtype=np.int64), hint)
    texts = [f"as.matrix({node.dim(size)})" for size in row]
    return bind("cbind", texts)


# --- Compress --------------------------------------------------------------------------------------------------


@shape_rule("Compress")
def compress_rule(node: NodeFacts) -> tuple[Value, ...]:
    """How many are chosen is known when the condition is."""
    condition = node.constant("condition")
    count: Dim = unknown_size(node, 0, 0, or_none=True) if condition is None else int(np.count_nonzero(condition))
    flat = node.attribute("axis") is None
    dims, axis = list(node.dims("input")), 0 if flat else node.axis()
    length, whole = node.size("condition"), node.size("input") if flat else dims[axis]
    node.assume_at_most(length, whole, "the number of conditions", "that of elements")
    if flat:
        return (node.tensor((count,)),)
    dims[axis] = 0 if whole == 0 else count
    return (node.tensor(dims),)


@generator("Compress", since=9)
def compress(node: NodeView) -> Fragment:
    """Rows by a 0/1 column, with the axis in the rows; positions after the condition's end are dropped."""
    dims = node.dims("input")
    flat = node.attribute("axis") is None
    axis = 0 if flat else node.axis()
    if product(node.output_dims()) == 0:
        count = node.output_dims()[axis]
        mask = node.view("condition", View(node.size("condition"), 1))
        if not isinstance(count, int):
            node.write(f"{node.dim(count)} = as.integer(sum({mask}))")
        return empty(node)
    whole: Dims = (product(dims),) if flat else dims
    before, size, after = around(whole, axis)
    count, length = node.output_dims()[axis], node.size("condition")
    x = node.view("input", View(size, 1)) if flat else axis_first(node, axis)
    mask = node.view("condition", View(length, 1))
    if length != size:
        mask = f"rbind({mask}, {node.filled(0, View(size - length, 1))})"
    chosen = node.named("chosen", f'removeEmpty(target={x}, margin="rows", select={mask}, empty.return=FALSE)')
    may_be_none = may_be_zero(whole)
    if not isinstance(count, int) and not may_be_none:
        node.write(f"{node.dim(count)} = nrow({chosen})")
    fragment = node.result(*from_axis_first(node, chosen, before, count, after))
    if not may_be_none:
        return fragment
    counted = [] if isinstance(count, int) else [f"{node.dim(count)} = as.integer(sum({mask}))"]
    return node.fragment(counted) + where_elements(node, fragment, product(whole))
