"""RoiAlign, MaxRoiPool and DeformConv: images read at regions and positions that the run decides."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.model.ir import DERIVATIVES
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.convolution import conv_rule, conv_windows
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.onnx.indexing import size_row
from onnx_systemds.operators.support.movement import input_source, permuted
from onnx_systemds.operators.support.products import single_product
from onnx_systemds.operators.support.windows import Windows


def _images(node: NodeFacts) -> tuple[Dim, Dim, Dim, Dim]:
    """Batch, channels, height and width."""
    dims = node.dims(0)
    if len(dims) != 4:
        raise UnsupportedCase(f"regions of an input of rank {len(dims)}, rank 4 is needed")
    return dims[0], dims[1], dims[2], dims[3]


def _rounds_to_single(node: NodeFacts) -> bool:
    """Whether runtimes calculate with FP32 which elements belong to a region."""
    return node.dtype(0) != "double"


shape_rule("RoiAlignGradient", domain=DERIVATIVES)(same_dims)
batch_rule("RoiAlignGradient", domain=DERIVATIVES)(lambda node, position, axis: True)


# --- RoiAlign --------------------------------------------------------------------------------------------------


def _aligned_size(node: NodeFacts) -> tuple[int, int]:
    return int(node.attribute("output_height")), int(node.attribute("output_width"))


@shape_rule("RoiAlign")
def roi_align_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A small image with the input's channels for each region."""
    node.assume_equal(node.dims("rois")[1], 4, node.axis_words("rois", 1), "the number of coordinates")
    node.assume_same_size((1, 0), (2, 0))
    for axis in range(2, node.rank("X")):
        node.assume_elements("X", axis)
    return (node.tensor((node.dims("rois")[0], _images(node)[1], *_aligned_size(node))),)


@generator("RoiAlign", since=(10, 16, 22))
def roi_align(node: NodeView) -> Fragment:
    """Samples between pixels, averaged; opset 16 may put pixels at their centres and does so by default."""
    mode = str(node.attribute("mode"))
    if mode not in ("avg", "max"):
        raise UnsupportedCase(f"mode {mode}")
    batch, channels, height, width = _images(node)
    rows, cols = _aligned_size(node)
    x = node.view("X", View(batch * channels, height * width))
    call = node.call("roi_align", x, *_regions(node), f'"{mode}"')
    return node.result(call, View(node.dims("rois")[0] * channels, rows * cols))


def _regions(node: NodeView) -> list[object]:
    """The arguments of a library function that say where the samples of a RoiAlign are."""
    batch, _, height, width = _images(node)
    regions = node.dims(1)[0]
    centred = node.attribute("coordinate_transformation_mode") == "half_pixel"  # opset 10 has no such attribute
    return [node.view(1, View(regions, 4)), node.view(2, View(regions, 1)), *map(node.dim, (batch, height, width)),
            literal(float(node.attribute("spatial_scale"))), "0.5" if centred else "0.0", *_aligned_size(node),
            int(node.attribute("sampling_ratio")), _rounds_to_single(node)]


@gradient("RoiAlign")
def _roi_align_gradient(n: Backward) -> Sequence[str]:
    """To the pixels around each sample; the regions have none here."""
    if n.attribute("mode") != "avg" or n.needs(1):
        raise UnsupportedCase("the derivative of a RoiAlign by its regions, or of maxima")
    names = ("output_height", "output_width", "sampling_ratio", "spatial_scale")
    attributes: dict[str, Any] = {name: n.attribute(name) for name in names}
    attributes["coordinate_transformation_mode"] = n.attribute("coordinate_transformation_mode") or ""
    return [n.emit("RoiAlignGradient", *n.node.inputs, n.grad, domain=DERIVATIVES, **attributes), "", ""]


@generator("RoiAlignGradient", since=1, domain=DERIVATIVES)
def roi_align_gradient(node: NodeView) -> Fragment:
    """The derivative by the images: inputs are those of RoiAlign and the derivative of its result."""
    batch, channels, height, width = _images(node)
    rows, cols = _aligned_size(node)
    given = node.view(3, View(node.dims(1)[0] * channels, rows * cols))
    call = node.call("roi_align_gradient", given, *_regions(node), node.dim(channels))
    return node.result(call, View(batch * channels, height * width))


# --- MaxRoiPool ------------------------------------------------------------------------------------------------


def _pooled_size(node: NodeFacts) -> tuple[int, int]:
    shape = tuple(node.attribute("pooled_shape") or ())
    if len(shape) != 2:
        raise UnsupportedCase(f"pooled_shape {list(shape)}, height and width are needed")
    return int(shape[0]), int(shape[1])


@shape_rule("MaxRoiPool")
def max_roi_pool_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A small image with the input's channels for each region."""
    return (node.tensor((node.dims("rois")[0], _images(node)[1], *_pooled_size(node))),)


@generator("MaxRoiPool", since=(1, 22))
def max_roi_pool(node: NodeView) -> Fragment:
    """Maxima over the pixels of each region's bins; opset 22 adds a dtype."""
    batch, channels, height, width = _images(node)
    regions = node.dims("rois")[0]
    rows, cols = _pooled_size(node)
    call = node.call(
        "max_roi_pool", node.view("X", View(batch * channels, height * width)), node.view("rois", View(regions, 5)),
        *map(node.dim, (batch, height, width)), literal(float(node.attribute("spatial_scale"))), rows, cols,
        _rounds_to_single(node),
    )
    return node.result(call, View(regions * channels, rows * cols))


# --- DeformConv ------------------------------------------------------------------------------------------------


shape_rule("DeformConv")(conv_rule)


@generator("DeformConv", since=(19, 22))
def deform_conv(node: NodeView) -> Fragment:
    """A convolution whose taps are moved by offsets and weighted by a mask; opset 22 adds a dtype."""
    batch, channels = node.dims("X")[:2]
    group, offset_group = int(node.attribute("group")), int(node.attribute("offset_group"))
    filters, planes = node.known_dims("W", "a convolution's weight")[:2]
    if channels != planes * group or filters % group or (planes * group) % offset_group:
        raise UnsupportedCase(
            f"{channels} channels and {filters} filters of {planes} planes in {group} groups, {offset_group} of offsets"
        )
    window = conv_windows(node)
    # neither a group of filters nor one of offsets cuts through a block of channels
    blocks = lcm(group, offset_group)
    if (planes * group) % blocks:
        raise UnsupportedCase(f"{channels} channels in {group} groups and {offset_group} groups of offsets")
    columns = node.named("columns", _columns(node, window, batch, blocks, offset_group))
    weight = _block_weight(node, window, group, blocks)
    if group == 1:
        sizes = (batch * product(window.outputs), planes * product(window.kernel), filters)
        text = single_product(node, columns, weight, sizes)
    else:
        text = node.call("grouped_product", columns, weight, group)
    if node.has("B"):
        text = f"{text} + {node.view('B', View(1, filters))}"
    places = product(window.outputs)
    turned = f"t({node.reshape(text, View(places, batch * filters))})"
    return node.result(turned, View(batch * filters, places))


def _columns(node: NodeView, window: Windows, batch: Dim, blocks: int, offset_group: int) -> str:
    """What the windows read, a row per place and image: its columns are block, tap, channel of the block."""
    dims = node.dims("X")
    taps, places = product(window.kernel), product(window.outputs)
    lanes = batch * (offset_group * taps)
    form = View(lanes, places)
    mask = node.view("mask", form) if node.has("mask") else node.filled(1, form)
    fields: list[tuple[Dims, str]] = [
        (window.sizes, "sizes"), (window.outputs, "outputs"), (window.kernel, "kernel"), (window.strides, "strides"),
        (window.before, "pads"), (window.dilations, "dilations"),
    ]
    return node.call(
        "deformed_columns", node.view("X", View(batch * dims[1], product(window.sizes))),
        node.view("offset", View(lanes, window.rank * places)), mask, node.dim(batch), blocks, offset_group,
        *map(node.dim, (places, taps, product(window.sizes))), *(size_row(node, row, hint) for row, hint in fields),
    )


def _block_weight(node: NodeView, window: Windows, group: int, blocks: int) -> str:
    """The weight with a column per filter of a group, rows are group, block, tap, channel."""
    filters, planes = node.known_dims("W", "a convolution's weight")[:2]
    taps = int(np.prod(window.kernel))
    dims = (group, filters // group, blocks // group, planes * group // blocks, taps)
    order = (0, 2, 4, 3, 1)
    rows, cols = planes * group * taps, filters // group
    content = node.constant("W")
    if content is not None:
        return node.constant_matrix(content.reshape(dims).transpose(order).reshape(rows, cols), "weight")
    step = permuted(node, input_source(node, 1), dims, order, finite=False)
    return node.named("weight", step.seen(node, View(rows, cols)))
