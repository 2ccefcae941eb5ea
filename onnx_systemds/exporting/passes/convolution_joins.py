"""What is one Conv or pooling: constants per channel after it, a border before it, parts of its channels beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.exporting.graph.nodes import CONVOLUTIONS, FLOAT, Array, Node, Tensor, cut_of, made_by, pairs
from onnx_systemds.exporting.passes.fusing import Fusing
from onnx_systemds.inference.dims import Dims

_SCALE = "_scale"
"""Attribute of a Conv whose filters are multiplied, one number per filter, when the model is written."""


def shifted(fusing: Fusing, node: Node) -> bool:
    """``Conv + constant``, or + a computed number per channel."""
    return any(_shifted(fusing, node, x, other, 1.0) for x, other in pairs(node))


def lowered(fusing: Fusing, node: Node) -> bool:
    """``Conv - constant``."""
    return _shifted(fusing, node, node.operand(0), node.operand(1), -1.0)


def _shifted(fusing: Fusing, node: Node, x: Tensor, other: Tensor, sign: float) -> bool:
    found = _per_channel(fusing, x, other)
    if found is not None:
        before = _known_bias(found[0])
        return before is not None and _rebuilt(fusing, node, found[0], before + sign * found[1], None, other.hint)
    return sign > 0 and _computed_bias(fusing, node, x, other)


def _computed_bias(fusing: Fusing, node: Node, x: Tensor, other: Tensor) -> bool:
    """Give a Conv without a bias one that is computed, where it is just the column of a matrix."""
    conv = fusing.single(x, "Conv")
    if conv is None or len(conv.inputs) != 2 or other.dims != (1, x.dims[1], *[1] * (x.rank - 2)):
        return False
    view = made_by(other, "Reshape")
    source = other if view is None else view.operand()
    every = fusing.builder.constant([-1])
    bias = fusing.inserted(node, "Reshape", (source, every), Tensor(FLOAT, (x.dims[1],), "bias"))
    return fusing.become(node, "Conv", [*conv.inputs, bias], **conv.attributes)


def scaled(fusing: Fusing, node: Node) -> bool:
    """``Conv * constant``."""
    return any(_scaled(fusing, node, x, other, inverse=False) for x, other in pairs(node))


def divided(fusing: Fusing, node: Node) -> bool:
    """``Conv / constant``."""
    return _scaled(fusing, node, node.operand(0), node.operand(1), inverse=True)


def _scaled(fusing: Fusing, node: Node, x: Tensor, other: Tensor, *, inverse: bool) -> bool:
    found = _per_channel(fusing, x, other)
    if found is None or found[0].op != "Conv":
        return False
    conv, factor = found
    weights, bias = conv.operand(1), _known_bias(conv)
    factor = 1.0 / factor if inverse and factor.all() else factor
    if weights.constant is None or bias is None or not np.isfinite(factor).all():
        return False
    if inverse and other.constant is not None and not other.constant.all():
        return False
    hint = getattr(conv.inputs[2], "hint", "") if len(conv.inputs) > 2 else ""
    return _rebuilt(fusing, node, conv, bias * factor, factor, hint)


def _per_channel(fusing: Fusing, x: Tensor, other: Tensor) -> tuple[Node, Array] | None:
    """Return the Conv that makes `x`, and `other` as a constant per channel."""
    conv = fusing.single(x, "Conv") or fusing.single(x, "ConvTranspose")
    if conv is None or other.constant is None or not isinstance(x.dims[1], int):
        return None
    content, channels = other.constant, x.dims[1]
    full = (1,) * (x.rank - content.ndim) + content.shape
    if len(full) != x.rank or full not in ((1, channels, *[1] * (x.rank - 2)), (1,) * x.rank):
        return None
    return conv, np.broadcast_to(content.reshape(-1), (channels,))


def _known_bias(conv: Node) -> Array | None:
    """Return the known bias of a Conv, zeros for none; None when it is computed."""
    if len(conv.inputs) == 2:
        channels = conv.outputs[0].dims[1]
        return np.zeros(channels) if isinstance(channels, int) else None
    bias = conv.inputs[2]
    return None if bias is None else bias.constant


def _rebuilt(fusing: Fusing, node: Node, conv: Node, bias: Array, scale: Array | None, hint: str) -> bool:
    attributes = dict(conv.attributes)
    if scale is not None:
        before = attributes.get(_SCALE)
        attributes[_SCALE] = scale * before if isinstance(before, np.ndarray) else scale
    inputs = list(conv.inputs[:2])
    if bias.any():
        inputs.append(fusing.builder.constant(bias, FLOAT, hint))
    return fusing.become(node, conv.op, inputs, **attributes)


def padded(fusing: Fusing, node: Node) -> bool:
    """A Conv or pooling of an image in a border that it makes itself."""
    image = node.operand()
    view = fusing.single(image, "Reshape")
    border = fusing.single(image if view is None else view.operand(), "Pad")
    if border is None or image.rank != 4 or border.operand().rank < 3:
        return False
    inner, pads = border.operand(), _image_border(border, node.op)
    if pads is None or image.dims[2:] != border.outputs[0].dims[-2:]:
        return False
    return with_border(fusing, node, inner, (*image.dims[:2], *inner.dims[-2:]), pads)


def with_border(fusing: Fusing, node: Node, image: Tensor, dims: Dims, border: Sequence[int]) -> bool:
    """Make a Conv or pooling one of an image seen with these dims, if it can make the border around it (`pads`)."""
    window, own = node.attributes.get("kernel_shape"), node.attributes.get("pads", (0,) * 4)
    if not isinstance(window, tuple) or not isinstance(own, tuple) or len(node.outputs) > 1:  # places count the border
        return False
    pads = tuple(int(a) + b for a, b in zip(own, border))
    if node.op != "Conv" and any(pad >= int(size) for pad, size in zip(pads, window * 2)):
        return False
    if any(own) and node.op == "AveragePool" and not node.attributes.get("count_include_pad"):
        return False
    counting = {"count_include_pad": 1} if node.op == "AveragePool" else {}
    view = fusing.viewed(image, dims, node)
    attributes = {**node.attributes, "pads": pads, **counting}
    return view is not None and fusing.become(node, node.op, [view, *node.inputs[1:]], **attributes)


def _image_border(border: Node, op: str) -> list[int] | None:
    """Return top, left, bottom and right of what a Pad puts around images, if `op` may put the same there."""
    widths, number = border.inputs[1], border.inputs[2] if len(border.inputs) > 2 else None
    if widths is None or widths.constant is None or border.attributes:
        return None
    value = 0.0 if number is None else None if number.constant is None else float(number.constant)
    if value != (-np.inf if op == "MaxPool" else 0.0):
        return None
    before, after = np.split(widths.constant, 2)
    if before[:-2].any() or after[:-2].any():
        return None
    return [int(width) for width in (*before[-2:], *after[-2:])]


def put_scaled_filters(node: Node) -> None:
    """Give a Conv whose filters are multiplied filters of its own; any other node stays as it is."""
    scale = node.attributes.get(_SCALE)
    weights = None if scale is None else node.operand(1).constant
    if weights is None or not isinstance(scale, np.ndarray):
        return
    filters: Array = weights * scale.reshape(-1, *[1] * (weights.ndim - 1))
    own = Tensor(FLOAT, filters.shape, node.operand(1).hint, filters)
    node.inputs = (node.inputs[0], own, *node.inputs[2:])
    node.attributes = {name: value for name, value in node.attributes.items() if name != _SCALE}


def grouped(fusing: Fusing, node: Node) -> bool:
    """Convolutions of one range of channels each, side by side: one in groups.

    A depthwise layer in DML loops over its channels; the loop is unrolled, and this makes one node of its runs.
    """
    convolutions = [made_by(tensor, *CONVOLUTIONS) for tensor in node.inputs]
    first = convolutions[0]
    if first is None or node.attributes.get("axis") != 1 or len(convolutions) < 2:
        return False
    filters: list[Tensor] = []
    for tensor, conv in zip(node.inputs, convolutions):
        if tensor is None or conv is None or fusing.uses[tensor] != 1 or not _alike(conv, first):
            return False
        weights = conv.operand(1)
        if weights.constant is None or len(conv.inputs) != 2 or "group" in conv.attributes:
            return False
        filters.append(weights)
    source = _common_source([conv.operand() for conv in convolutions if conv is not None])
    if len({weights.dims for weights in filters}) != 1 or source is None:
        return False
    own = first.operand().dims
    images = Tensor(FLOAT, (own[0], own[1] * len(filters), *own[2:]))
    shape = fusing.builder.constant(np.array([0, *(dim if isinstance(dim, int) else -1 for dim in images.dims[1:])]))
    fusing.inserted(node, "Reshape", (source, shape), images)
    contents = [weights.constant for weights in filters if weights.constant is not None]
    joined = fusing.builder.constant(np.concatenate(contents), FLOAT, filters[0].hint)
    return fusing.become(node, first.op, (images, joined), **first.attributes, group=len(filters))


def _alike(a: Node, b: Node) -> bool:
    return a.op == b.op and a.scope is b.scope and dict(a.attributes) == dict(b.attributes)


def _common_source(images: Sequence[Tensor]) -> Tensor | None:
    """Return the matrix that images are cut from, the columns of each range after those of the one before."""
    source: Tensor | None = None
    place = 0
    for tensor in images:
        view = made_by(tensor, "Reshape")
        cut = None if view is None else made_by(view.inputs[0], "Slice")
        bounds = None if cut is None else cut_of(cut)
        if cut is None or bounds is None or bounds[0] != place or bounds[2] != 1:
            return None
        width = cut.outputs[0].dims[1]
        if not isinstance(width, int) or (source is not None and cut.inputs[0] is not source):
            return None
        source = cut.inputs[0]
        place += width
    return source if source is not None and source.rank == 2 and source.dims[1] == place else None
