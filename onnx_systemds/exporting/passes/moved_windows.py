"""Images whose elements a script moves by itself: a border of joined zeros, and a convolution of shifted lines.

What only moves elements is followed from its source on, with positions in place of numbers, and the outcome is compared
with what a border, or the windows of a convolution, would give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from onnx_systemds.exporting.graph.nodes import FLOAT, Array, Node, Tensor, first_found, source_of
from onnx_systemds.exporting.graph.patches import OUTSIDE, Following, windows
from onnx_systemds.exporting.passes.convolution_joins import with_border
from onnx_systemds.exporting.passes.fusing import Fusing
from onnx_systemds.inference.known_dims import as_ints


def bordered(fusing: Fusing, node: Node) -> bool:
    """A Conv or pooling of one image in a border of joined numbers, which it makes itself."""
    image, pads = node.operand(), node.attributes.get("pads", (0,) * 4)
    if image.rank != 4 or image.dims[0] != 1 or not isinstance(pads, tuple):
        return False
    if source_of(image, "Reshape", "Concat") is None or (node.op == "AveragePool" and any(pads)):
        return False
    following = Following()
    places = following.places(image)
    source, outside = following.source, -math.inf if node.op == "MaxPool" else 0.0
    if places is None or source is None or not following.joins or following.padding != outside:
        return False
    inside = np.argwhere(places[0, 0] >= 0)
    if not len(inside):
        return False
    low, high = inside.min(axis=0), inside.max(axis=0) + 1
    size = (places.shape[1], *(high - low).tolist())
    after = np.array(places.shape[2:]) - high
    whole = np.arange(math.prod(size)).reshape(size)
    framed = np.pad(whole, ((0, 0), *zip(low, after)), constant_values=OUTSIDE)
    if math.prod(source.dims) != math.prod(size) or not np.array_equal(places[0], framed):
        return False
    return with_border(fusing, node, source, (1, *size), (*map(int, low), *map(int, after)))


def convolved_lines(fusing: Fusing, node: Node) -> bool:
    """Columns of a product of known filters and moved elements of an image that are the windows of a convolution."""
    joined = source_of(node.inputs[0], "Reshape")
    if joined is None or fusing.builder.dtype != "float32" or source_of(joined, "Concat") is None:
        return False
    chosen = Following()
    places = chosen.places(node.outputs[0])
    product = None if chosen.source is None else chosen.source.node
    if places is None or product is None or product.op not in ("Gemm", "MatMul") or product.attributes:
        return False
    columns = _columns(places, product.outputs[0])
    filters, stack = product.operand(0), product.operand(1)
    if columns is None or not filters.is_constant or filters.rank != 2:
        return False
    following = Following()
    rows = following.places(stack)
    image = following.source
    if rows is None or image is None or following.padding not in (None, 0.0) or stack.rank != 2:
        return False
    read = rows[:, columns]
    found = first_found(windows(image, shape, read, following.padding) for shape in _image_shapes(image, rows))
    view = None if found is None else fusing.viewed(image, (1, *found.shape), node)
    if found is None or view is None:
        return False
    count = filters.dims[0]
    inputs = [view, fusing.builder.reshape(filters, (count, found.shape[0], *found.window))]
    if len(product.inputs) == 3:
        bias = product.operand(2)
        if bias.dims != (count, 1) or not bias.is_constant:
            return False
        inputs.append(fusing.builder.reshape(bias, (count,)))
    made = Tensor(FLOAT, (1, count, *found.extents))
    return fusing.become_reshaped(node, "Conv", inputs, made, found.attributes())


def _columns(places: Array, product: Tensor) -> Array | None:
    """Return which columns of a product, the same of each row, stand one after the other at these places."""
    sizes = as_ints(product.dims)
    if sizes is None or len(sizes) != 2 or not places.size or places.size % sizes[0] or (places < 0).any():
        return None
    by_row = places.reshape(sizes[0], -1)
    columns: Array = by_row[0]
    expected = np.arange(sizes[0])[:, None] * sizes[1] + columns
    return columns if columns.max() < sizes[1] and np.array_equal(by_row, expected) else None


def _image_shapes(image: Tensor, rows: Array) -> Iterator[tuple[int, int, int]]:
    """Yield the channels, height and width that an image may have of which each channel stands in as many rows."""
    sizes, whole = as_ints(image.dims), np.flatnonzero((rows >= 0).all(axis=0))
    if not sizes or not len(whole):
        return
    column, total = rows[:, whole[len(whole) // 2]], math.prod(sizes)
    for channels in range(min(len(column), total), 0, -1):
        if len(column) % channels or total % channels:
            continue
        plane, by_channel = total // channels, column.reshape(channels, -1)
        if (np.diff(by_channel, axis=0) == plane).all() and by_channel[0].max() < plane:
            lines = (by_channel[0] - by_channel[0, 0]).tolist()
            widths = dict.fromkeys([sizes[-1], *lines])
            yield from ((channels, plane // width, width) for width in widths if width > 1 and plane % width == 0)
            return
