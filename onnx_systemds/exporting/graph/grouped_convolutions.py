"""Convolutions of one range of channels each, joined afterwards, are one convolution in groups: `grouped`.

A depthwise layer in DML loops over its channels; the loop is unrolled, and this makes one node of its runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import FLOAT, Node, Tensor

CONVOLUTIONS = ("Conv", "ConvTranspose")


def grouped(builder: GraphBuilder, node: Node) -> Node | None:
    """Turn a Concat of convolutions into one; return the node that is needed in front of it, None for no change."""
    convolutions = [_convolution(tensor) for tensor in node.inputs]
    first = convolutions[0]
    if first is None or node.attributes.get("axis") != 1 or len(convolutions) < 2:
        return None
    filters: list[Tensor] = []
    for conv in convolutions:
        weights = None if conv is None else conv.inputs[1]
        if conv is None or weights is None or weights.constant is None or not _alike(conv, first):
            return None
        filters.append(weights)
    if len({weights.dims for weights in filters}) != 1 or first.inputs[0] is None:
        return None
    source = _common_source([conv.inputs[0] for conv in convolutions if conv is not None])
    if source is None:
        return None
    own = first.inputs[0].dims
    images = Tensor(FLOAT, (own[0], own[1] * len(filters), *own[2:]))
    shape = builder.constant(np.array([0, *(dim if isinstance(dim, int) else -1 for dim in images.dims[1:])]))
    images.node = Node("Reshape", (source, shape), (images,), {}, node.place, node.scope)
    contents = [weights.constant for weights in filters if weights.constant is not None]
    joined = builder.constant(np.concatenate(contents), FLOAT, filters[0].hint)
    attributes = dict(first.attributes) | {"group": len(filters)}
    node.op, node.inputs, node.attributes = first.op, (images, joined), attributes
    return images.node


def _convolution(tensor: Tensor | None) -> Node | None:
    """Return the ungrouped convolution without a bias that makes a tensor."""
    node = None if tensor is None else tensor.node
    if node is None or node.op not in CONVOLUTIONS or len(node.inputs) != 2 or "group" in node.attributes:
        return None
    return node


def _alike(a: Node, b: Node) -> bool:
    return a.op == b.op and a.scope is b.scope and dict(a.attributes) == dict(b.attributes)


def _common_source(images: Sequence[Tensor | None]) -> Tensor | None:
    """Return the matrix that images are cut from, the columns of each range after those of the one before."""
    source: Tensor | None = None
    place = 0
    for tensor in images:
        reshaped = None if tensor is None else tensor.node
        flat = reshaped.inputs[0] if reshaped is not None and reshaped.op == "Reshape" else None
        cut = None if flat is None else flat.node
        if cut is None or cut.op != "Slice" or len(cut.inputs) != 4 or cut.inputs[0] is None:
            return None
        contents = [None if part is None else part.constant for part in cut.inputs[1:]]
        bounds = [int(content.item()) for content in contents if content is not None and content.size == 1]
        width = cut.outputs[0].dims[1]
        if len(bounds) != 3 or bounds[2] != 1 or bounds[0] != place or not isinstance(width, int):
            return None
        if source is not None and cut.inputs[0] is not source:
            return None
        source = cut.inputs[0]
        place += width
    return source if source is not None and source.rank == 2 and source.dims[1] == place else None
