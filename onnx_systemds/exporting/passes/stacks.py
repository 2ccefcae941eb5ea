"""Rows put into another order, and products of parts of matrices: what is a Transpose, and one product of stacks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.exporting.graph.nodes import Array, Node, Tensor, cut_of, made_by
from onnx_systemds.exporting.passes.fusing import Fusing
from onnx_systemds.inference.dims import Dim, Dims, divide_exactly


def exchanged(fusing: Fusing, node: Node) -> bool:
    """Rows in the order of exchanged axes, seen as a tensor of other dims."""
    chosen = fusing.single(node.inputs[0], "Gather")
    places = None if chosen is None else chosen.operand(1).constant
    if chosen is None or places is None or chosen.operand().rank != 2 or chosen.attributes.get("axis"):
        return False
    rows = chosen.operand()
    axes = exchanged_axes(places) if len(places) == rows.dims[0] else None
    if axes is None:
        return False
    sizes, order = axes
    view = fusing.viewed(rows, (*sizes, rows.dims[1]), node)
    if view is None:
        return False
    perm = (*order, len(order))
    dims = tuple(view.dims[axis] for axis in perm)
    if dims == node.outputs[0].dims:
        return fusing.become(node, "Transpose", [view], perm=perm)
    return fusing.become_reshaped(node, "Transpose", [view], Tensor(rows.kind, dims), {"perm": perm})


def exchanged_axes(places: Array) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the sizes of axes and their order that put counted numbers into the order of `places`; None for others."""
    if places.ndim != 1 or len(places) < 2 or (places == np.arange(len(places))).all():
        return None
    sizes: list[int] = []
    strides: list[int] = []
    block = 1
    while block < len(places):
        heads = places[::block]
        stride = int(heads[1] - heads[0])
        ends = np.flatnonzero(np.diff(heads) != stride)
        sizes.insert(0, int(ends[0]) + 1 if len(ends) else len(heads))
        strides.insert(0, stride)
        block *= sizes[0]
    by_stride = np.argsort(strides)[::-1]
    dims = tuple(sizes[axis] for axis in by_stride)
    order = tuple(int(np.flatnonzero(by_stride == axis)[0]) for axis in range(len(sizes)))
    if math.prod(dims) != len(places):
        return None
    moved = np.arange(len(places)).reshape(dims).transpose(order).ravel()
    return (dims, order) if (moved == places).all() else None


@dataclass(frozen=True, eq=False)
class Cut:
    """Parts of `source` with the dims `part` that follow one another along an axis, from `first` on."""

    source: Tensor
    part: Dims
    axis: int
    first: int
    count: int

    @property
    def size(self) -> int:
        """Of each part, along the axis."""
        found = self.part[self.axis]
        assert isinstance(found, int)
        return found

    def whole(self, fusing: Fusing, node: Node) -> Tensor:
        """Return all parts in one, maybe by a Slice before a node."""
        dims = (*self.part[: self.axis], self.size * self.count, *self.part[self.axis + 1 :])
        if dims == self.source.dims:
            return self.source
        ends = (self.first, self.first + self.size * self.count, self.axis)
        bounds = [fusing.builder.constant([end]) for end in ends]
        return fusing.inserted(node, "Slice", [self.source, *bounds], Tensor(self.source.kind, dims))


def cut_up(parts: Sequence[Tensor | None]) -> Cut | None:
    """Return how one tensor is cut into these parts, None where it is not."""
    made = [node for part in parts if (node := made_by(part, "Slice")) is not None]
    bounds = [cut for node in made if (cut := cut_of(node)) is not None]
    if len(parts) < 2 or len(bounds) < len(parts) or len({node.inputs[0] for node in made}) > 1:
        return None
    first, _, axis = bounds[0]
    dims = made[0].outputs[0].dims
    size = dims[axis]
    if not isinstance(size, int) or first < 0 or any(node.outputs[0].dims != dims for node in made):
        return None
    if any(cut != (first + place * size, first + (place + 1) * size, axis) for place, cut in enumerate(bounds)):
        return None
    return Cut(made[0].operand(), dims, axis, first, len(parts))


def joined_parts(fusing: Fusing, node: Node) -> bool:
    """Parts of one tensor that follow one another, each maybe with other dims, joined along another axis."""
    shapes = [fusing.single(part, "Reshape") for part in node.inputs]
    own: list[Tensor | None] = [each.inputs[0] for each in shapes if each is not None]
    parts = own if len(own) == len(node.inputs) else list(node.inputs)
    is_alike = len({part.dims for part in node.given()}) == 1
    cut = cut_up(parts) if is_alike and all(fusing.single(part, "Slice") for part in parts) else None
    split = None if cut is None else common_factors(cut.part, node.operand().dims, cut.axis, node.integer("axis"))
    if cut is None or split is None:
        return False
    factors, place, target = split
    view = (*factors[:place], cut.count, *factors[place:])
    whole = cut.whole(fusing, node)
    fewer = len(parts) * (2 if parts is own else 1) - (2 if whole is cut.source else 3)
    is_determined = sum(not isinstance(dim, int) for dim in view) < 2  # of two that are open one may be 0
    source = fusing.viewed(whole, view, node) if fewer >= 0 and is_determined else None
    if source is None:
        return False
    fusing.uses[cut.source] -= cut.count - 1
    if place == target:
        return fusing.become(node, "Reshape", [source, fusing.builder.target(source, node.outputs[0].dims)])
    perm = [axis for axis in range(len(view)) if axis != place]
    perm.insert(target, place)
    moved = tuple(view[axis] for axis in perm)
    if moved == node.outputs[0].dims:
        return fusing.become(node, "Transpose", [source], perm=tuple(perm))
    return fusing.become_reshaped(node, "Transpose", [source], Tensor(source.kind, moved), {"perm": tuple(perm)})


def common_factors(one: Dims, other: Dims, axis: int, other_axis: int) -> tuple[Dims, int, int] | None:
    """Return the sizes of which the dims of both are products; and before which one an axis of either begins."""
    factors: list[Dim] = []
    left, right = list(one), list(other)
    begins: list[list[int]] = [[], []]
    rest: list[Dim] = [1, 1]
    while left or right or rest != [1, 1]:
        for place, dims in enumerate((left, right)):
            while dims and rest[place] == 1:
                begins[place].append(len(factors))
                rest[place] = dims.pop(0)
        quotients = divide_exactly(rest[0], rest[1]), divide_exactly(rest[1], rest[0])
        if 0 in rest or (1 in rest and rest != [1, 1]) or quotients == (None, None):
            return None
        factor = rest[0] if quotients[0] is None else rest[1]
        if factor != 1:
            factors.append(factor)
        rest = [1 if quotients[0] is None else quotients[0], 1 if quotients[1] is None else quotients[1]]
    return tuple(factors), begins[0][axis], begins[1][other_axis]


def stacked(fusing: Fusing, node: Node) -> bool:
    """Products of as many parts, of the same size, of two matrices, one below the other or side by side."""
    made = [fusing.single(part, "MatMul") for part in node.inputs]
    products = [each for each in made if each is not None]
    if len(products) < max(len(made), 2) or node.outputs[0].rank != 2:
        return False
    cuts = [_transposed_cut(fusing, [each.inputs[place] for each in products]) for place in (0, 1)]
    views: list[Tensor] = []
    known: dict[tuple[Tensor, int, int, int], Tensor | None] = {}
    uses: Counter[Tensor] = Counter()
    for found in cuts:
        if found is None:
            return False
        cut, is_transposed, used = found
        key, dims = (cut.source, cut.axis, cut.first, cut.size), cut.source.dims
        if key not in known:
            parts = (*dims[: cut.axis], cut.count, cut.size, *dims[cut.axis + 1 :])
            known[key] = fusing.viewed(cut.whole(fusing, node), parts, node)
            uses[cut.source] += 1
        view = known[key]
        if view is None:
            return False
        uses[view] += 1
        uses[cut.source] -= used
        order = (cut.axis, *(axis for axis in range(3) if axis != cut.axis))
        views.append(_moved(fusing, node, view, (order[0], order[2], order[1]) if is_transposed else order))
    kind = node.outputs[0].kind
    whole = Tensor(kind, (len(products), views[0].dims[1], views[1].dims[2]))
    fusing.uses.update({**uses, whole: 1})
    if node.attributes["axis"] == 0:
        return fusing.become_reshaped(node, "MatMul", views, whole)
    beside = Tensor(kind, (whole.dims[1], whole.dims[0], whole.dims[2]))
    product = fusing.inserted(node, "MatMul", views, whole)
    return fusing.become_reshaped(node, "Transpose", [product], beside, {"perm": (1, 0, 2)})


def _moved(fusing: Fusing, node: Node, view: Tensor, perm: tuple[int, ...]) -> Tensor:
    """Return a tensor with its axes in another order, made before a node."""
    if perm == tuple(range(len(perm))):
        return view
    dims = tuple(view.dims[axis] for axis in perm)
    return fusing.inserted(node, "Transpose", [view], Tensor(view.kind, dims), {"perm": perm})


def _transposed_cut(fusing: Fusing, parts: Sequence[Tensor | None]) -> tuple[Cut, bool, int] | None:
    """Return how a matrix is cut into these parts, whether each is transposed, and how many have no other use."""
    transposed = [node for part in parts if (node := made_by(part, "Transpose")) is not None]
    if transposed and len(transposed) < len(parts):
        return None
    own = [node.inputs[0] for node in transposed] if transposed else parts
    cut = cut_up(own)
    if cut is None or cut.source.rank != 2:
        return None
    used = sum(all(fusing.uses[each] == 1 for each in pair if each is not None) for pair in zip(parts, own))
    return cut, bool(transposed), used
