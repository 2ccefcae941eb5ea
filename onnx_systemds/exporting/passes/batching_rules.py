"""How operators work for all iterations of a loop at once: a rule for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_systemds.correspondence import ELEMENTWISE, REDUCTIONS
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.nodes import Attribute, Node, Tensor
from onnx_systemds.exporting.limits import estimated_elements
from onnx_systemds.exporting.passes.batching import Batched, Batching, Rule, moved_to_front
from onnx_systemds.exporting.passes.fusing import reduced_axes
from onnx_systemds.inference.dims import product
from onnx_systemds.inference.known_dims import as_ints

OF_IMAGES = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LRN", "BatchNormalization")
_LARGEST_ITEM = 2**12
"""Elements of the item of a list that each iteration has, if only the run knows how many iterations there are."""


def _in_place(
    batching: Batching, node: Node, inputs: Sequence[Batched | None], busy: Sequence[int] = ()
) -> Batched | None:
    """Return the same operator with the iterations in place of an axis of size 1, None where that is not possible.

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
        if tensor is None or found is None or found.is_invariant:
            operands.append(None if found is None else found.tensor)
        elif own < 0:
            more = [1] * (result.rank - 1 - axis - tensor.rank)
            operands.append(graph.reshape(found.tensor, (*[1] * axis, batching.trips, *more, *tensor.dims)))
        elif tensor.dims[own] != 1:
            return None
        else:
            operands.append(batching.in_place(found, tensor.dims, own))
    dims = result.dims_with(axis, batching.trips)
    return Batched(graph.node(node.op, operands, dims, result.kind, **node.attributes), axis=axis)


def _elementwise(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    found = _in_place(batching, node, inputs)
    if found is not None:
        return found
    operands = [None if tensor is None or one is None else batching.stacked(one, tensor.dims, node.outputs[0].rank)
                for tensor, one in zip(node.inputs, inputs)]
    return _made(batching, node, operands)


def _made(batching: Batching, node: Node, operands: Sequence[Tensor | None], **changed: Attribute) -> Batched:
    """Return the same operator of operands that have the iterations in front, with some attributes changed."""
    result = node.outputs[0]
    attributes = {**node.attributes, **changed}
    return Batched(batching.graph.node(node.op, operands, (batching.trips, *result.dims), result.kind, **attributes))


def _only_first(node: Node, inputs: Sequence[Batched | None]) -> tuple[Tensor, Batched]:
    """Return the first input of a node, which is the only one that differs from iteration to iteration."""
    first, *others = inputs
    if first is None or any(other is not None and not other.is_invariant for other in others):
        raise UnsupportedCase(f"{node.op} cannot be computed for several iterations at once if its sizes differ")
    return node.operand(), first


def _stacked_first(batching: Batching, node: Node, inputs: Sequence[Batched | None], rank: int | None = None) -> Tensor:
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
    perm = (0, *(axis + 1 for axis in node.integers("perm")))
    return Batched(batching.graph.transpose(_stacked_first(batching, node, inputs), perm))


def _matmul(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    a, b, (left, right) = node.operand(0), node.operand(1), inputs
    assert left is not None and right is not None
    graph, result = batching.graph, node.outputs[0]
    if left.is_invariant and right.axis == 1 and a.rank == b.rank == 2:  # one product by all columns
        return Batched(graph.matmul(left.tensor, right.tensor), axis=1)
    if right.is_invariant and b.rank == 2:  # one product of all rows
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
    trip_axis, dims = first.axis or 0, tuple(1 if axis in axes else dim for axis, dim in enumerate(source.dims))
    others = [axis for axis in axes if axis != trip_axis]
    if source.dims[trip_axis] == 1 and others:
        in_place = batching.in_place(first, source.dims, trip_axis)
        reduced = Batched(graph.reduce(node.op, in_place, others), axis=trip_axis)
    else:
        stacked = batching.stacked(first, source.dims)
        reduced = Batched(graph.reduce(node.op, stacked, [axis + 1 for axis in axes]))
    if result.dims == dims:
        return reduced
    return Batched(graph.reshape(batching.stacked(reduced, dims), (batching.trips, *result.dims)))


def _along_axis(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    """Operators with an attribute `axis` and one operand."""
    axis = node.integer("axis") % node.outputs[0].rank
    found = _in_place(batching, node, inputs, [axis])
    return found or _made(batching, node, [_stacked_first(batching, node, inputs)], axis=axis + 1)


def _top(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> tuple[Batched, ...]:
    stacked = _stacked_first(batching, node, inputs)
    attributes = {**node.attributes, "axis": node.integer("axis") % node.outputs[0].rank + 1}
    count = None if inputs[1] is None else inputs[1].tensor
    outputs = [(output.kind, (batching.trips, *output.dims)) for output in node.outputs]
    return tuple(map(Batched, batching.graph.nodes("TopK", [stacked, count], outputs, **attributes)))


def _concat(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    graph, trips, result, axis = batching.graph, batching.trips, node.outputs[0], node.integer("axis")
    pairs = [(tensor, found) for tensor, found in zip(node.inputs, inputs) if tensor is not None and found is not None]
    trip_axis = next((found.axis for _, found in pairs if found.axis is not None), 0)
    if result.dims[trip_axis] != 1 or axis == trip_axis:
        return Batched(graph.concat([batching.repeated(found, tensor.dims) for tensor, found in pairs], axis + 1))
    parts = [batching.in_place(found, tensor.dims, trip_axis) if not found.is_invariant else
             graph.expand(found.tensor, tensor.dims_with(trip_axis, trips))
             for tensor, found in pairs]
    return Batched(graph.concat(parts, axis), axis=trip_axis)


def _cumulated(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, axis = node.operand(0), node.operand(1).only_element
    if axis is None:
        raise UnsupportedCase(f"{node.op} along a computed axis")
    along = axis % source.rank
    found = _in_place(batching, node, inputs, [along])
    if found is not None:
        return found
    return _made(batching, node, [_stacked_first(batching, node, inputs), batching.graph.constant(along + 1)])


def _slice(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, axis, found = node.operand(), node.operand(3).only_element, inputs[0]
    result, graph = node.outputs[0], batching.graph
    assert found is not None
    if axis is None:
        raise UnsupportedCase("a Slice along several axes")
    bounds = [bound for bound in inputs[1:] if bound is not None]
    is_safe = not batching.may_fail(node)
    if all(bound.is_invariant for bound in bounds) and is_safe:
        in_place = _in_place(batching, node, inputs, [axis])
        if in_place is not None:
            return in_place
        operands = [batching.stacked(found, source.dims), *(bound.tensor for bound in bounds)]
        operands[3] = graph.constant([axis + 1])
        return _made(batching, node, operands)
    block = batching.block(node) if is_safe else None
    if block is not None:
        block.check_inside(batching.trips, source.dims[axis])
    size = result.dims[axis]
    if found.is_invariant and block is not None and 0 < block.step == block.size:
        width = batching.trips * block.step
        whole = graph.slice(found.tensor, axis, block.first, block.first + width, size=width)
        if size == 1:
            return Batched(whole, axis=axis)
        parts = graph.reshape(whole, (*source.dims[:axis], batching.trips, size, *source.dims[axis + 1 :]))
        return Batched(moved_to_front(graph, parts, axis))
    if len(bounds) > 3 or not isinstance(size, int):
        raise UnsupportedCase("the iterations of this loop read ranges of different sizes")
    own = graph.reshape(batching.repeated(bounds[0], (1,)), (batching.trips, 1))
    starts = own if is_safe else batching.safe_places(node, own, source.dims[axis] - size)
    places = starts + graph.constant(np.arange(size).reshape(1, size))
    return _gathered(batching, source, found, Batched(places), axis)


def _gather(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, axis, (found, chosen) = node.operand(), node.integer("axis"), inputs
    assert found is not None and chosen is not None
    if not chosen.is_invariant:
        return _gathered(batching, source, found, chosen, axis)
    return Batched(batching.graph.gather(batching.stacked(found, source.dims), chosen.tensor, axis + 1))


def _gathered(batching: Batching, source: Tensor, found: Batched, places: Batched, axis: int) -> Batched:
    """Return what stands along an axis at positions that differ from iteration to iteration."""
    graph, trips = batching.graph, batching.trips
    if found.is_invariant:
        item = estimated_elements(source.dims[1:])
        if not isinstance(trips, int) and axis == 0 and _is_stack(source) and item > _LARGEST_ITEM:
            raise UnsupportedCase(f"the iterations of this loop choose a matrix of {item} elements each")
        return Batched(moved_to_front(graph, graph.gather(found.tensor, places.tensor, axis), axis))
    stacked = batching.stacked(found, source.dims)
    order = (0, axis + 1, *(i for i in range(1, stacked.rank) if i != axis + 1))
    transposed, inner = graph.transpose(stacked, order), places.tensor.dims[1:]
    rest = transposed.dims[2:]
    chosen = graph.node("GatherND", [transposed, graph.reshape(places.tensor, (*places.tensor.dims, 1))],
                        (trips, *inner, *rest), source.kind, batch_dims=1)
    count = len(inner)
    back = (0, *range(count + 1, count + 1 + axis), *range(1, count + 1), *range(count + 1 + axis, chosen.rank))
    return Batched(graph.transpose(chosen, back))


def _is_stack(x: Tensor) -> bool:
    """Whether a tensor is made of matrices of known sizes, as the items of a list are from which the run chooses."""
    return x.rank == 3 and as_ints(x.dims) is not None


def _shape(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    sizes = node.operand().dims[slice(node.attributes.get("start", 0), node.attributes.get("end"))]  # type: ignore[arg-type]
    return Batched(batching.graph.sizes_tensor(sizes), is_invariant=True)


def _of_images(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, result, graph = node.operand(), node.outputs[0], batching.graph
    stacked = _stacked_first(batching, node, inputs)
    images = graph.reshape(stacked, (batching.trips * source.dims[0], *source.dims[1:]))
    operands = [images, *(None if found is None else found.tensor for found in inputs[1:])]
    made = graph.node(node.op, operands, (images.dims[0], *result.dims[1:]), result.kind, **node.attributes)
    return Batched(graph.reshape(made, (batching.trips, *result.dims)))


def _pad(batching: Batching, node: Node, inputs: Sequence[Batched | None]) -> Batched:
    source, widths = node.operand(0), node.operand(1)
    if widths.constant is None:
        raise UnsupportedCase("a Pad by computed widths")
    before, after = widths.constant[: source.rank], widths.constant[source.rank :]
    every = batching.graph.constant(np.concatenate([[0], before, [0], after]))
    operands = [_stacked_first(batching, node, inputs), every, *(None if f is None else f.tensor for f in inputs[2:])]
    return _made(batching, node, operands)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*ELEMENTWISE, "Clip"), _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(OF_IMAGES, _of_images),
    **dict.fromkeys(("Softmax", "LogSoftmax", "ArgMax", "ArgMin"), _along_axis),
    "Concat": _concat, "CumSum": _cumulated, "Expand": _expand, "Gather": _gather, "MatMul": _matmul, "Pad": _pad,
    "Reshape": _reshape, "Shape": _shape, "Slice": _slice, "TopK": _top, "Transpose": _transpose,
}
