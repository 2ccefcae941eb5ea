"""Rows put into another order, and products of parts of matrices: what is a Transpose, and one product of stacks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnx_systemds.exporting.graph.nodes import FLOAT, Array, Node, Tensor, cut_of, made_by
from onnx_systemds.exporting.passes.fusing import Fusing
from onnx_systemds.inference.dims import Dims


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


def stacked(fusing: Fusing, node: Node) -> bool:
    """Products of as many parts, of the same height, of the rows of two matrices, one below the other."""
    made = [fusing.single(part, "MatMul") for part in node.inputs]
    products = [each for each in made if each is not None]
    if node.attributes["axis"] != 0 or len(products) < max(len(made), 2):
        return False
    operands = [_parts([each.inputs[place] for each in products]) for place in (0, 1)]
    if operands[0] is None or operands[1] is None:
        return False
    views: list[Tensor] = []
    known: dict[Tensor, Tensor | None] = {}
    for x, turned in operands:  # type: ignore[misc]
        if x not in known:
            known[x] = fusing.viewed(x, (len(products), x.dims[0] // len(products), x.dims[1]), node)
        view = known[x]
        if view is None:
            return False
        if turned:
            moved = Tensor(FLOAT, (view.dims[0], view.dims[2], view.dims[1]))
            view = fusing.inserted(node, "Transpose", [view], moved, {"perm": (0, 2, 1)})
        views.append(view)
    dims: Dims = (len(products), views[0].dims[1], views[1].dims[2])
    return fusing.become_reshaped(node, "MatMul", views, Tensor(FLOAT, dims))


def _parts(parts: Sequence[Tensor | None]) -> tuple[Tensor, bool] | None:
    """Return the matrix whose rows are cut into these parts, and whether each is transposed; None for others."""
    turned = [node for part in parts if (node := made_by(part, "Transpose")) is not None]
    if turned and len(turned) < len(parts):
        return None
    source: Tensor | None = None
    for place, part in enumerate([node.inputs[0] for node in turned] if turned else parts):
        node = made_by(part, "Slice")
        if node is None or part is None or part.rank != 2:
            return None
        x, height = node.inputs[0], part.dims[0]
        source = x if source is None else source
        if x is None or x is not source or not isinstance(height, int) or x.dims[0] != height * len(parts):
            return None
        if cut_of(node) != (place * height, (place + 1) * height, 0):
            return None
    return None if source is None else (source, bool(turned))
