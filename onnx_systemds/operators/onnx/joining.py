"""Concat, Split, Expand, Tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.broadcast_dims import broadcast_dims, of_rank
from onnx_systemds.inference.dims import Dim, Dims, is_non_negative_from_one, may_be_zero, product
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import Moves
from onnx_systemds.inference.known_dims import as_ints
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
from onnx_systemds.inference.shape_values import MOST_ELEMENTS
from onnx_systemds.inference.values import Elements
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.api.layout import along_axis
from onnx_systemds.operators.onnx.selecting import Steps, part_of_axis
from onnx_systemds.operators.support.batch_rules import mixes_at_axis, output_size, unlimited
from onnx_systemds.operators.support.broadcasting import expand_text
from onnx_systemds.operators.support.empty_outputs import empty
from onnx_systemds.operators.support.integer_rules import moved
from onnx_systemds.operators.support.selection_products import is_finite
from onnx_systemds.operators.support.size_rules import known_elements

takes_text("Concat", "Expand", "Split", "Tile")
batch_rule("Split")(mixes_at_axis)
fold("Split", since=2)(by_reference)
fold("Concat", since=4)(by_reference)
fold("Tile", since=6)(by_reference)
fold("Expand", since=8)(by_reference)
integer_rule("Expand", "Tile")(moved)
integer_rule("Concat")(lambda node: Moves(None))
integer_rule("Split")(lambda node: Moves(is_parted=True))

# --- Concat ------------------------------------------------------------------------------------------------------


@shape_rule("Concat")
def concat_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The inputs' dims, joined."""
    return (node.tensor(concatenated(node, range(node.input_count), node.axis(default=1))),)  # that of opset 1


def concatenated(node: NodeFacts, positions: Sequence[int], axis: int) -> Dims:
    """The sizes along the axis add up; along the others a known size wins over an expression."""
    first, *others = positions
    dims = list(node.dims(first))
    for position in others:
        other = node.dims(position)
        if len(other) != len(dims):
            raise UnsupportedCase(f"inputs of rank {len(dims)} and {len(other)} are joined")
        for here, dim in enumerate(other):
            if here == axis:
                dims[here] = dims[here] + dim
            elif dim != dims[here]:
                node.assume_same_size((first, here), (position, here))
                dims[here] = dim if isinstance(dim, int) else dims[here]
    return tuple(dims)


@batch_rule("Concat")
def _concat_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Along its own axis; along others all inputs are alike."""
    sizes = {unlimited(node.dims(other)[axis]) for other in range(node.input_count)}
    return axis == node.axis(default=1) or len(sizes) > 1


@generator("Concat", since=(1, 4))
def concat(node: NodeView) -> Fragment:
    """Columns side by side, or rows one below the other where nothing is before the axis."""
    axis = node.axis(default=1)
    dims = node.output_dims()
    filled = [position for position in range(node.input_count) if node.dims(position)[axis] != 0]
    if len(filled) == 1:
        return node.same_elements(filled[0])
    form = node.wanted_form()
    along = along_axis(dims, axis)
    if form is not SCALAR and form.rows == 1:
        along = replace(along, by_rows=False)
    parts = [node.view(position, along.view(node.dims(position)[axis])) for position in filled]
    return node.result(along.joined(parts), along.view(dims[axis]))


@size_rule("Concat", moves=True)
def _joined_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    return np.concatenate(inputs, axis=int(node.attribute("axis")))


@gradient("Concat")
def _concat_gradient(n: Backward) -> Sequence[str]:
    axis = n.axis(default=1)
    if n.input_count == 1:
        return [n.grad]
    sizes = _sizes(n, n.node.inputs, axis)
    part = n.fresh("Split")
    return n.emit_several("Split", [part, *(f"{part}_{k}" for k in range(1, n.input_count))], n.grad, sizes, axis=axis)


def _sizes(n: Backward, names: Sequence[str], axis: int) -> str:
    """The sizes of several values along an axis."""
    parts = [n.emit("Shape", name, start=axis, end=axis + 1) for name in names]
    return n.emit("Concat", *parts, axis=0)


# --- Split -------------------------------------------------------------------------------------------------------


@shape_rule("Split")
def split_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The input's dims with the parts' sizes on the axis."""
    dims, axis = node.dims("input"), node.axis(default=0)
    parts = split_sizes(node)
    words = node.axis_words("input", axis)
    node.assume_equal(dims[axis], sum(parts[1:], parts[0]), words, "the sum of its parts")
    for place, part in enumerate(parts):
        least = 0 if may_be_zero(part) else 1
        if not isinstance(part, int) and not is_non_negative_from_one(part - least):
            which = "the last part" if place == len(parts) - 1 else f"part {place}"
            node.assume(part, Relation.AT_LEAST, least, f"the length of {which} of {words}")
    return tuple(node.tensor((*dims[:axis], size, *dims[axis + 1 :])) for size in parts)


@generator("Split", since=(1, 2, 13, 18))
def split(node: NodeView) -> Fragment:
    """Runs of columns, or of rows where nothing is before the axis; only those that are wanted."""
    dims, axis = node.dims("input"), node.axis(default=0)
    along = along_axis(dims, axis)
    fragment = node.fragment()
    start: Dim = 0
    for output, size in enumerate(split_sizes(node)):
        if not node.wants(output):
            pass
        elif product(node.output_dims(output)) == 0:
            fragment += empty(node, output)
        elif size == dims[axis]:
            fragment += node.same_elements("input", output)
        else:
            text = part_of_axis(node, along, node.view("input", along.view(dims[axis])), start, size)
            fragment += node.result(text, along.view(size), output)
        start = start + size
    return fragment


@size_rule("Split", moves=True)
def _split_elements(node: NodeFacts, inputs: Sequence[Elements]) -> tuple[Elements, ...] | None:
    axis, sizes = node.axis(default=0), as_ints(split_sizes(node))
    if sizes is None or sum(sizes) != inputs[0].shape[axis]:
        return None
    return tuple(np.split(inputs[0], np.cumsum(sizes[:-1]), axis))


@gradient("Split")
def _split_gradient(n: Backward) -> Sequence[str]:
    axis = n.axis(default=0)
    parts = [given or n.filled_like(name, n.dtype(0), 0.0) for given, name in zip(n.given, n.node.outputs)]
    return [n.emit("Concat", *parts, axis=axis)]


def split_sizes(node: NodeFacts) -> tuple[Dim, ...]:
    """Sizes of the parts: by attribute, since opset 13 by input; else equal parts.

    Since opset 18 ``num_outputs`` says how many, and the last part is smaller where they do not fit.
    """
    whole = node.dims("input")[node.axis(default=0)]
    given: Sequence[Dim] | None = node.attribute("split")
    if given is None and node.has(1):
        given = node.sizes(1, "the sizes of the parts")
    count = len(node.node.outputs)
    if given is not None:
        if len(given) != count:
            raise UnsupportedCase(f"{len(given)} sizes for {count} outputs")
        if any(isinstance(size, int) and size < 0 for size in given):
            raise InvalidModel(f"a part of negative size: {', '.join(map(str, given))}")
        return tuple(given)
    if node.version < 18:
        return (whole // count,) * count
    count = int(node.attribute("num_outputs") or count)
    part = (whole + (count - 1)) // count
    if not isinstance(whole, int) or not isinstance(part, int):
        return (*[part] * (count - 1), whole - part * (count - 1))
    return tuple(max(0, min(part, whole - part * position)) for position in range(count))


# --- Expand and Tile ---------------------------------------------------------------------------------------------


@shape_rule("Expand")
def expand_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Both dims broadcast: a 1 in the shape keeps the input's size."""
    own, wanted = node.dims("input"), node.sizes("shape", "the shape")
    dims, open_axes = list(broadcast_dims([own, wanted])), _open_axes(own, wanted)
    for axis in range(max(len(dims) - len(own), len(dims) - len(wanted)), len(dims)):
        pair = own[axis - len(dims)], wanted[axis - len(dims)]
        if axis in open_axes:
            dims[axis] = node.computed("expanded_size", *pair, hint=f"size{axis}")
        elif pair[0] != 1 and may_be_zero(pair[1]):  # a size that the script does not need, but for what it refuses
            found = node.computed("expanded_size", *pair, hint=f"size{axis}")
            node.assume_equal(found, pair[0], "an axis", node.axis_words("input", axis - len(dims)))
        elif 1 not in pair:
            words = f"element {axis - len(dims) + len(wanted)} of {quoted(node.node.inputs[1])}"
            node.assume_equal(*pair, node.axis_words("input", axis - len(dims)), words)
    return (node.tensor(dims),)


def _open_axes(dims: Dims, wanted: Dims) -> list[int]:
    """Axes of an Expand's result of which only the run knows whether the input is repeated along them."""
    rank = max(len(dims), len(wanted))
    pairs = [(rank - back, dims[-back], wanted[-back]) for back in range(1, min(len(dims), len(wanted)) + 1)]
    return [
        axis for axis, dim, size in reversed(pairs) if may_be_zero(size) and not isinstance(dim, int) and dim != size
    ]


@batch_rule("Expand", sizes=(1,), fills=True)
@batch_rule("Tile", since=6, sizes=(1,), fills=True)
def _repeating_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Only where the axis stays as it is."""
    return position != 0 or output_size(node, node.rank("input") - axis) != unlimited(node.dims("input")[axis])


@generator("Expand", since=8)
def expand(node: NodeView) -> Fragment:
    """The input repeated along the axes where it has size 1."""
    dims = node.output_dims()
    own = of_rank(node.dims("input"), len(dims))
    open_axes = _open_axes(node.dims("input"), node.sizes("shape", "the shape"))
    if open_axes:
        return _repeated_at_run_time(node, own, dims, open_axes)
    kept = [axis for axis, dim in enumerate(dims) if dim != 1]
    return repeated(node, [own[axis] != 1 for axis in kept], tuple(dims[axis] for axis in kept))


@size_rule("Expand", moves=True)
def _expanded_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    shape = known_elements(inputs[1])
    if shape is None or int(np.prod(shape)) > MOST_ELEMENTS:
        return None
    return np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, tuple(shape))).copy()


@gradient("Expand")
def _expand_gradient(n: Backward) -> Sequence[str]:
    return [n.fit(n.grad, 0)]


def _repeated_at_run_time(node: NodeView, own: Dims, dims: Dims, open_axes: Sequence[int] = ()) -> Fragment:
    """Axis by axis, the last first: selections that repeat the only element, or take each once; or nothing."""
    steps = Steps(node)
    steps.dims = own
    for axis, count in reversed(list(enumerate(dims))):
        if axis in open_axes:
            counted = node.call("count_up", node.dim(count))
            steps.take(axis, f"{counted} * as.integer({node.factor(own[axis])} != 1) + 1", count)
        elif own[axis] == 1 and count != 1:
            steps.take(axis, node.filled(1, View(count, 1)), count)
    return steps.fragment()


def repeated(node: NodeView, varies: Sequence[bool], dims: Dims) -> Fragment:
    """The first input repeated along those of the axes ``dims`` on which it does not vary."""
    if all(varies):
        return node.same_elements()
    form = node.wanted_form()
    view = split_view(dims, 1) if form is SCALAR else form
    if node.size("input") == 1:
        return node.result(node.full(node.scalar("input"), view), view)
    row = View(1, node.size("input"))
    if may_be_zero(dims) and not _is_below_itself(varies, dims, view):
        own = tuple(dim if is_own else 1 for dim, is_own in zip(dims, varies))
        return _repeated_at_run_time(node, own, dims)
    text = expand_text(node, node.view("input", row), row, varies, dims, view, finite=is_finite(node, 0))
    return node.result(text, view)


def _is_below_itself(varies: Sequence[bool], dims: Dims, view: View) -> bool:
    """Whether a row is repeated as a whole, which may be no times, and nobody reshapes it."""
    copies = varies.index(True)
    row = product(dims[copies:])
    return all(varies[copies:]) and view == View(product(dims[:copies]), row) and not may_be_zero(row)


@shape_rule("Tile")
def tile_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Each axis by its number of copies."""
    return (node.tensor([dim * times for dim, times in zip(node.dims("input"), _tiles(node))]),)


def _tiles(node: NodeFacts) -> Sequence[Dim]:
    """The number of copies along each axis; before opset 6 there are some along one axis, both by input."""
    rank = node.rank("input")
    if node.version < 6:
        copied = node.normalize_axis(int(node.require_constant(2, "the axis").ravel()[0]), rank)
        number = int(node.require_constant(1, "the number of copies").ravel()[0])
        tiles: Sequence[Dim] = [number if axis == copied else 1 for axis in range(rank)]
    else:
        tiles = node.sizes("repeats", "the numbers of copies")
    if len(tiles) != rank:
        raise UnsupportedCase(f"{len(tiles)} numbers of copies for rank {rank}")
    for axis, times in enumerate(tiles):
        what = f"the number of copies along axis {axis}"
        if isinstance(times, int) and times < 0:
            raise InvalidModel(f"{what} is {times}, less than none")
        if may_be_zero(times):
            node.assume(times, Relation.AT_LEAST, 0, what)
    return tiles


@generator("Tile", since=(1, 6))
def tile(node: NodeView) -> Fragment:
    """Copies of an axis are a new axis before it, on which the input does not vary."""
    dims: list[Dim] = []
    varies: list[bool] = []
    for dim, times in zip(node.dims("input"), _tiles(node)):
        if times != 1:
            dims.append(times)
            varies.append(False)
        if dim != 1:
            dims.append(dim)
            varies.append(True)
    return repeated(node, varies, tuple(dims))


@gradient("Tile")
def _tile_gradient(n: Backward) -> Sequence[str]:
    """The sum over all repetitions."""
    if n.version < 6:
        raise UnsupportedCase("the derivative of a Tile before opset 6")
    repeats, found = n.require_integers(1, "the repeats"), n.grad
    for axis, count in reversed(list(enumerate(repeats))):
        if count == 1:
            continue
        if n.dims(0)[axis] == 1:
            found = n.total(found, [axis])
            continue
        times = n.known([count]) if isinstance(count, int) else n.emit("Gather", n.node.inputs[1], n.known([axis]))
        before = [n.known([0] * axis)] if axis else []
        after = [n.emit("Shape", n.x, start=axis + 1)] if axis + 1 < len(repeats) else []
        split = n.emit("Concat", *before, times, n.known([-1]), *after, axis=0)
        found = n.total(n.emit("Reshape", found, split), [axis], keepdims=0)
    return [found]
