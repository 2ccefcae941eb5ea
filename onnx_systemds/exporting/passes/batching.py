"""The body of a loop for all trips at once: what differs from trip to trip gets an axis of the trips.

A rule per operator (`_RULES`) says how it takes such operands; a body with any other operator stays a loop. The trips
take the place of an axis of size 1 where that serves: rows of a matrix become the matrix. Else their axis is in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.correspondence import ELEMENTWISE, REDUCTIONS
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import Node, Scope, Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.limits import LARGEST_BATCH, estimated_elements
from onnx_systemds.exporting.passes.idioms import reduced_axes
from onnx_systemds.inference.dims import Dim, Dims, add, lone_symbol, multiply, product, substitute, symbol

OF_IMAGES = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LRN", "BatchNormalization")


@dataclass(frozen=True)
class Block:
    """The places that each trip reads or writes along an axis: `size` many from ``first + trip * step`` on."""

    axis: int
    first: Dim
    step: int
    size: int


@dataclass(frozen=True, eq=False)
class Batched:
    """A tensor of the body for all trips: with their axis in place of `axis`, of size 1, or (None) in front.

    same: it is alike in all trips, and has no such axis.
    """

    tensor: Tensor
    same: bool = False
    axis: int | None = None


class Batching:
    """Makes the nodes of a loop's body anew, outside of it, each for all trips."""

    def __init__(self, graph: Operators, scope: Scope, trips: Dim, counter: Tensor) -> None:
        """`scope` is the body; `counter` counts its trips from 0 on."""
        self.graph, self.scope, self.trips = graph, scope, trips
        known = graph.constant(np.arange(trips)) if isinstance(trips, int) else graph.count(0, trips)
        self.found: dict[Tensor, Batched] = {counter: Batched(known)}
        trip = lone_symbol(graph.integer_symbol(counter))
        assert trip is not None
        self.trip = trip
        self.kept: dict[Tensor, tuple[Tensor, Block]] = {}
        self.largest = LARGEST_BATCH

    def keep(self, state: Tensor, initial: Tensor, block: Block) -> None:
        """Let the body read of `state`, which holds `initial` before the loop, the block that the trip writes."""
        self.kept[state] = initial, block
        self.largest = max(self.largest, estimated_elements(initial.dims))

    def of(self, tensor: Tensor) -> Batched:
        """Return a tensor of the body for all trips. Raises UnsupportedCase where that is not possible."""
        for node in needed_nodes(self.scope, [], [tensor]):
            if any(output not in self.found for output in node.outputs):
                self._make(node)
        return self._of(tensor)

    def _of(self, tensor: Tensor) -> Batched:
        if tensor in self.found:
            return self.found[tensor]
        if tensor.node is not None and tensor.node.scope is self.scope:
            raise UnsupportedCase("a trip of this loop reads what the one before it has left")
        return Batched(tensor, same=True)

    def _make(self, node: Node) -> None:
        graph, before = self.graph, self.graph.place
        graph.place = node.place or before
        for tensor in node.outputs:
            if not all(graph.computable(dim) for dim in tensor.dims):
                raise UnsupportedCase("the trips of this loop make matrices of different sizes")
        kept = self._kept(node)
        inputs = [None if tensor is None else kept or self._of(tensor) if place == 0 else self._of(tensor)
                  for place, tensor in enumerate(node.inputs)]  # fmt: skip
        if all(found is None or found.same for found in inputs):
            self._make_once(node, inputs)
        else:
            rule = _RULES.get(node.op)
            if rule is None or len(node.outputs) != 1:
                raise UnsupportedCase(f"{node.op} is not calculated for several trips at once")
            self.found[node.outputs[0]] = found = rule(self, node, inputs)
            self._check_size(found.tensor.dims, *(own.tensor for own in inputs if own is not None))
        graph.place = before

    def _check_size(self, dims: Dims, *operands: Tensor) -> None:
        """Raise UnsupportedCase for a matrix that is large, and larger than its operands and what the loop writes."""
        size = estimated_elements(dims)
        if size > max(self.largest, *(estimated_elements(operand.dims) for operand in operands)):
            raise UnsupportedCase(f"the trips of this loop make about {size} elements together")

    def _kept(self, node: Node) -> Batched | None:
        """Return what a state holds before the loop, for a node that reads of it just what its trip writes."""
        state = node.inputs[0] if node.op == "Slice" else None
        if state is None or state not in self.kept:
            return None
        initial, block = self.kept[state]
        if self.block(node) != block:
            raise UnsupportedCase("a trip of this loop reads what another one writes")
        return Batched(initial, same=True)

    def _make_once(self, node: Node, inputs: Sequence[Batched | None]) -> None:
        if any(True for _ in node.subgraphs()):
            raise UnsupportedCase(f"{node.op} is not moved out of a loop")
        made = self.graph.nodes(node.op, [None if found is None else found.tensor for found in inputs],
                                [(tensor.kind, tensor.dims) for tensor in node.outputs], **node.attributes)  # fmt: skip
        for old, new in zip(node.outputs, made):
            self.found[old] = Batched(new, same=True)

    # What rules ask

    def stacked(self, found: Batched, dims: Dims, rank: int | None = None) -> Tensor:
        """Return a tensor for all trips with their axis in front, and axes of size 1 behind it up to a rank."""
        more = 0 if rank is None else rank - len(dims)
        if found.same:
            return found.tensor
        moved = found.tensor if found.axis is None else _moved_to_front(self.graph, found.tensor, found.axis)
        return self.graph.reshape(moved, (self.trips, *[1] * more, *dims))

    def in_place(self, found: Batched, dims: Dims, axis: int) -> Tensor:
        """Return a tensor for all trips with their axis in place of one of size 1."""
        if found.axis == axis:
            return found.tensor
        rest = tuple(dim for i, dim in enumerate(dims) if i != axis)
        front = self.graph.reshape(self.stacked(found, dims), (self.trips, *rest))
        return self.graph.transpose(front, (*range(1, axis + 1), 0, *range(axis + 1, len(dims))))

    def repeated(self, found: Batched, dims: Dims) -> Tensor:
        """Return a tensor for all trips with their axis in front also where it is the same in all of them."""
        if not found.same:
            return self.stacked(found, dims)
        self._check_size((self.trips, *dims), found.tensor)
        return self.graph.expand(self.graph.reshape(found.tensor, (1, *dims)), (self.trips, *dims))

    def block(self, node: Node) -> Block | None:
        """Return what a Slice reads in each trip, None where its places are no such block."""
        starts, axes = node.inputs[1], node.inputs[3]
        assert starts is not None and axes is not None
        if axes.constant is None or axes.constant.size != 1 or len(node.inputs) > 4:
            return None
        axis = int(axes.constant.item())
        return self.block_of(axis, self.graph.size_of(starts), node.outputs[0].dims[axis])

    def block_of(self, axis: int, start: Dim | None, size: Dim) -> Block | None:
        """Return the block of `size` places from `start` on, None where that is no multiple of the trip."""
        if start is None or not isinstance(size, int):
            return None
        step = add(substitute(start, {self.trip: symbol(self.trip) + 1}), multiply(-1, start))
        return Block(axis, substitute(start, {self.trip: 0}), step, size) if isinstance(step, int) else None

    def check_inside(self, block: Block, size: Dim) -> None:
        """Raise UnsupportedCase where the first or last trip leaves an axis of `size`: alone, it says where."""
        last = add(block.first, multiply(block.step, add(self.trips, -1)))
        for start in (block.first, last):
            beyond = add(start, add(block.size, multiply(-1, size)))
            if (isinstance(start, int) and start < 0) or (isinstance(beyond, int) and beyond > 0):
                raise UnsupportedCase("a trip of this loop reads or writes outside of a matrix")


Rule = Callable[[Batching, Node, Sequence["Batched | None"]], Batched]


def _in_place(
    batching: Batching, node: Node, inputs: Sequence[Batched | None], busy: Sequence[int] = ()
) -> Batched | None:
    """Return the same operator with the trips in place of an axis of size 1, None where that is not possible.

    busy: axes that the operator works along.
    """
    result, graph = node.outputs[0], batching.graph
    pairs = [(tensor, found) for tensor, found in zip(node.inputs, inputs) if tensor is not None and found is not None]
    axis = next((found.axis + result.rank - tensor.rank for tensor, found in pairs if found.axis is not None), 0)
    if axis >= result.rank or result.dims[axis] != 1 or axis in busy:
        return None
    operands: list[Tensor | None] = []
    for tensor, found in zip(node.inputs, inputs):
        own = axis if tensor is None else axis - result.rank + tensor.rank
        if tensor is None or found is None or found.same:
            operands.append(None if found is None else found.tensor)
        elif own < 0:
            more = [1] * (result.rank - 1 - axis - tensor.rank)
            operands.append(graph.reshape(found.tensor, (*[1] * axis, batching.trips, *more, *tensor.dims)))
        elif tensor.dims[own] != 1:
            return None
        else:
            operands.append(batching.in_place(found, tensor.dims, own))
    dims = tuple(batching.trips if i == axis else dim for i, dim in enumerate(result.dims))
    return Batched(graph.node(node.op, operands, dims, result.kind, **node.attributes), axis=axis)


def _elementwise(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    found = _in_place(batching, node, inputs)
    if found is not None:
        return found
    result = node.outputs[0]
    operands = [None if tensor is None or one is None else batching.stacked(one, tensor.dims, result.rank)
                for tensor, one in zip(node.inputs, inputs)]  # fmt: skip
    dims = (batching.trips, *result.dims)
    return Batched(batching.graph.node(node.op, operands, dims, result.kind, **node.attributes))


def _only_first(node: Node, inputs: Sequence[Batched | None]) -> tuple[Tensor, Batched]:
    """Return the first input of a node, which is the only one that differs from trip to trip."""
    (first, *others), source = inputs, node.inputs[0]
    if source is None or first is None or any(other is not None and not other.same for other in others):
        raise UnsupportedCase(f"{node.op} is not calculated for several trips at once when its sizes differ")
    return source, first


def _stacked_first(
    batching: Batching, node: Node, inputs: Sequence[Batched | None], rank: int | None = None
) -> Tensor:
    source, first = _only_first(node, inputs)
    return batching.stacked(first, source.dims, rank)


def _reshape(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    stacked = _stacked_first(batching, node, inputs)
    return Batched(batching.graph.reshape(stacked, (batching.trips, *node.outputs[0].dims)))


def _expand(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    result = node.outputs[0]
    stacked = _stacked_first(batching, node, inputs, result.rank)
    return Batched(batching.graph.expand(stacked, (batching.trips, *result.dims)))


def _transpose(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    stacked, perm = _stacked_first(batching, node, inputs), node.attributes["perm"]
    assert isinstance(perm, tuple)
    return Batched(batching.graph.transpose(stacked, (0, *(int(axis) + 1 for axis in perm))))


def _matmul(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    (a, b), (left, right) = node.inputs, inputs
    assert a is not None and b is not None and left is not None and right is not None
    graph, result = batching.graph, node.outputs[0]
    if left.same and right.axis == 1 and a.rank == b.rank == 2:  # one product by all columns
        return Batched(graph.matmul(left.tensor, right.tensor), axis=1)
    if right.same and b.rank == 2:  # one product of all rows
        stacked = batching.stacked(left, a.dims)
        rows = graph.reshape(stacked, (product((batching.trips, *a.dims[:-1])), a.dims[-1]))
        found = graph.matmul(rows, right.tensor)
        return Batched(graph.reshape(found, (batching.trips, *result.dims)))
    operands = [batching.stacked(one, tensor.dims, result.rank) for one, tensor in ((left, a), (right, b))]
    return Batched(graph.matmul(*operands))


def _reduce(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    (source, first), result, graph = _only_first(node, inputs), node.outputs[0], batching.graph
    axes = reduced_axes(node)
    if axes is None:
        raise UnsupportedCase(f"{node.op} over computed axes")
    place, dims = first.axis or 0, tuple(1 if axis in axes else dim for axis, dim in enumerate(source.dims))
    others = [axis for axis in axes if axis != place]
    if source.dims[place] == 1 and others:
        reduced = Batched(graph.reduce(node.op, batching.in_place(first, source.dims, place), others), axis=place)
    else:
        stacked = batching.stacked(first, source.dims)
        reduced = Batched(graph.reduce(node.op, stacked, [axis + 1 for axis in axes]))
    if result.dims == dims:
        return reduced
    return Batched(graph.reshape(batching.stacked(reduced, dims), (batching.trips, *result.dims)))


def _along_axis(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    """Operators with an attribute `axis` and one operand."""
    result, axis = node.outputs[0], node.attributes["axis"]
    assert isinstance(axis, int)
    axis %= result.rank
    found = _in_place(batching, node, inputs, [axis])
    if found is not None:
        return found
    stacked, attributes = _stacked_first(batching, node, inputs), {**node.attributes, "axis": axis + 1}
    dims = (batching.trips, *result.dims)
    return Batched(batching.graph.node(node.op, [stacked], dims, result.kind, **attributes))


def _concat(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    graph, trips, result, axis = batching.graph, batching.trips, node.outputs[0], node.attributes["axis"]
    assert isinstance(axis, int)
    pairs = [(tensor, found) for tensor, found in zip(node.inputs, inputs) if tensor is not None and found is not None]
    place = next((found.axis for _, found in pairs if found.axis is not None), 0)
    if result.dims[place] != 1 or axis == place:
        return Batched(graph.concat([batching.repeated(found, tensor.dims) for tensor, found in pairs], axis + 1))
    parts = [batching.in_place(found, tensor.dims, place) if not found.same else
             graph.expand(found.tensor, tuple(trips if i == place else dim for i, dim in enumerate(tensor.dims)))
             for tensor, found in pairs]  # fmt: skip
    return Batched(graph.concat(parts, axis), axis=place)


def _cumulated(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, axis = node.inputs
    if source is None or axis is None or axis.constant is None:
        raise UnsupportedCase(f"{node.op} along a computed axis")
    along = int(axis.constant.item()) % source.rank
    found = _in_place(batching, node, inputs, [along])
    if found is not None:
        return found
    stacked = _stacked_first(batching, node, inputs)
    return Batched(batching.graph.node(node.op, [stacked, batching.graph.constant(along + 1)], stacked.dims,
                                       source.kind, **node.attributes))  # fmt: skip


def _slice(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, found, result, graph = node.inputs[0], inputs[0], node.outputs[0], batching.graph
    assert source is not None and found is not None
    axes = node.inputs[3]
    if axes is None or axes.constant is None or axes.constant.size != 1:
        raise UnsupportedCase("a Slice along several axes")
    axis = int(axes.constant.item())
    bounds = [bound for bound in inputs[1:] if bound is not None]
    if all(bound.same for bound in bounds):
        in_place = _in_place(batching, node, inputs, [axis])
        if in_place is not None:
            return in_place
        operands = [batching.stacked(found, source.dims), *(bound.tensor for bound in bounds)]
        operands[3] = graph.constant([axis + 1])
        return Batched(graph.node("Slice", operands, (batching.trips, *result.dims), result.kind))
    block = batching.block(node)
    if block is not None:
        batching.check_inside(block, source.dims[axis])
    size = result.dims[axis]
    if found.same and block is not None and 0 < block.step == block.size:
        width = multiply(batching.trips, block.step)
        whole = graph.slice(found.tensor, axis, block.first, add(block.first, width), size=width)
        if size == 1:
            return Batched(whole, axis=axis)
        parts = graph.reshape(whole, (*source.dims[:axis], batching.trips, size, *source.dims[axis + 1 :]))
        return Batched(_moved_to_front(graph, parts, axis))
    if len(bounds) > 3 or not isinstance(size, int):
        raise UnsupportedCase("the trips of this loop read ranges of different sizes")
    starts = graph.reshape(bounds[0].tensor, (batching.trips, 1))
    places = graph.binary("Add", starts, graph.constant(np.arange(size).reshape(1, size)))
    return _gathered(batching, source, found, Batched(places), axis)


def _gather(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, places = node.inputs
    found, chosen = inputs
    axis, graph = node.attributes["axis"], batching.graph
    assert source is not None and places is not None and found is not None and chosen is not None
    assert isinstance(axis, int)
    if not chosen.same:
        return _gathered(batching, source, found, chosen, axis)
    return Batched(graph.gather(batching.stacked(found, source.dims), chosen.tensor, axis + 1))


def _gathered(batching: Batching, source: Tensor, found: Batched, places: Batched, axis: int) -> Batched:
    """Return what stands along an axis at places that differ from trip to trip."""
    graph, trips = batching.graph, batching.trips
    if found.same:
        return Batched(_moved_to_front(graph, graph.gather(found.tensor, places.tensor, axis), axis))
    stacked = batching.stacked(found, source.dims)
    order = (0, axis + 1, *(i for i in range(1, stacked.rank) if i != axis + 1))
    turned, inner = graph.transpose(stacked, order), places.tensor.dims[1:]
    rest = turned.dims[2:]
    chosen = graph.node("GatherND", [turned, graph.reshape(places.tensor, (*places.tensor.dims, 1))],
                        (trips, *inner, *rest), source.kind, batch_dims=1)  # fmt: skip
    count = len(inner)
    back = (0, *range(count + 1, count + 1 + axis), *range(1, count + 1), *range(count + 1 + axis, chosen.rank))
    return Batched(graph.transpose(chosen, back))


def _moved_to_front(graph: Operators, x: Tensor, axis: int) -> Tensor:
    return graph.transpose(x, (axis, *(i for i in range(x.rank) if i != axis)))


def _shape(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    sizes = node.inputs[0].dims[slice(node.attributes.get("start", 0), node.attributes.get("end"))]  # type: ignore[union-attr,arg-type]
    return Batched(batching.graph.sizes_tensor(sizes), same=True)


def _of_images(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, result, graph = node.inputs[0], node.outputs[0], batching.graph
    assert source is not None
    stacked = _stacked_first(batching, node, inputs)
    images = graph.reshape(stacked, (multiply(batching.trips, source.dims[0]), *source.dims[1:]))
    operands = [images, *(None if found is None else found.tensor for found in inputs[1:])]
    made = graph.node(node.op, operands, (images.dims[0], *result.dims[1:]), result.kind, **node.attributes)
    return Batched(graph.reshape(made, (batching.trips, *result.dims)))


def _pad(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, widths, result = node.inputs[0], node.inputs[1], node.outputs[0]
    if source is None or widths is None or widths.constant is None:
        raise UnsupportedCase("a Pad by computed widths")
    before, after = widths.constant[: source.rank], widths.constant[source.rank :]
    every = batching.graph.constant(np.concatenate([[0], before, [0], after]))
    operands = [_stacked_first(batching, node, inputs), every, *(None if f is None else f.tensor for f in inputs[2:])]
    return Batched(batching.graph.node("Pad", operands, (batching.trips, *result.dims), result.kind))


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(OF_IMAGES, _of_images),
    **dict.fromkeys(("Softmax", "LogSoftmax", "ArgMax", "ArgMin"), _along_axis),
    "Concat": _concat, "CumSum": _cumulated, "Expand": _expand, "Gather": _gather, "MatMul": _matmul, "Pad": _pad,
    "Reshape": _reshape, "Shape": _shape, "Slice": _slice, "Transpose": _transpose,
}  # fmt: skip
