"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.dims import Dims, product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, nn_layer, shape_rule
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, bind
from onnx_systemds.operators.onnx.combining import wrapped
from onnx_systemds.operators.onnx.convolution_layers import Filters, Layer, dense
from onnx_systemds.operators.onnx.shifted_convolution import dilated_depthwise, stacked
from onnx_systemds.operators.onnx.wrapping import may_wrap
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.convolution_gradients import (
    channel_sum,
    filter_gradient,
    image_gradient,
    known_grid,
)
from onnx_systemds.operators.support.movement import Source, input_source
from onnx_systemds.operators.support.products import single_product
from onnx_systemds.operators.support.windows import (
    Image,
    Windows,
    builtin_padding,
    every_nth,
    inflated,
    is_even,
    padded,
    shape_list,
    windows,
)

batch_rule("Conv", "ConvInteger")(mixes_all_but_first)

# --- shapes ----------------------------------------------------------------------------------------------------


def conv_windows(node: NodeFacts, weight: int = 1) -> Windows:
    """The windows of a convolution; the weight has the kernel's sizes. Raises InvalidModel, UnsupportedCase."""
    if node.rank(0) < 3:
        raise UnsupportedCase(f"a convolution of an input of rank {node.rank(0)}")
    kernel = node.known_dims(weight, "a convolution's weight")[2:]
    written = tuple(node.attribute("kernel_shape") or kernel)
    if written != kernel:
        raise InvalidModel(f"kernel_shape is {list(written)}, the weight has {list(kernel)}")
    found = windows(node, node.dims(0)[2:], kernel)
    for axis, (before, after) in enumerate(zip(found.before, found.after)):
        extent = (kernel[axis] - 1) * found.dilations[axis] + 1
        if isinstance(before, int) and isinstance(after, int) and before + after >= extent:
            node.assume_elements(0, axis + 2)  # the engine has no windows of padding alone
    return found


@shape_rule("Conv")
def conv_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch, filters, number of windows."""
    return (node.tensor((node.dims("X")[0], node.dims("W")[0], *conv_windows(node).outputs)),)


@shape_rule("ConvInteger")
def conv_integer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As Conv, in 32 bits."""
    return (node.tensor((node.dims("x")[0], node.dims("w")[0], *conv_windows(node).outputs), "int32"),)


# --- operators -------------------------------------------------------------------------------------------------


@generator("Conv", since=(1, 11, 22))
def conv(node: NodeView) -> Fragment:
    """A convolution; opset 11 only settles the defaults of strides and dilations, 22 adds a dtype."""
    filters = Filters(node.constant("W"), lambda view: node.view("W", view))
    bias = node.view("B", View(node.dims("W")[0], 1)) if node.has("B") else None
    return node.result(*convolved(node, input_source(node, 0), filters, bias))


@nn_layer("Conv")
def conv2d_layer(node: NodeView) -> Fragment | None:
    """nn/layers/conv2d_builtin.dml: two spatial axes in one group, padding as much before as after each."""
    window = conv_windows(node)
    if window.rank != 2 or node.attribute("group") != 1 or window.kernel != window.extents or not is_even(window):
        return None
    (batch, channels), (count, planes) = node.dims("X")[:2], node.known_dims("W", "a convolution's weight")[:2]
    if planes != channels:
        return None
    x = node.view("X", View(batch, channels * product(window.sizes)))
    weight = node.view("W", View(count, planes * product(window.kernel)))
    column = View(count, 1)
    bias = node.view("B", column) if node.has("B") else node.filled(0, column)
    sizes = (planes, *window.sizes, *window.kernel, *window.strides, *window.before)
    call = node.layer("conv2d_builtin", x, weight, bias, *map(node.dim, sizes))
    return node.layer_result(call, View(batch, count * product(window.outputs)), ["height", "width"])


@generator("ConvInteger", since=10)
def conv_integer(node: NodeView) -> Fragment:
    """A convolution of integers less their zero points; padding holds the zero point."""
    text, view = convolved(node, shifted_input(node), shifted_filters(node))
    if may_wrap(product(node.dims(1)[1:])):
        text = wrapped("int32", node.named("sums", text))
    return node.result(text, view)


def shifted_input(node: NodeView) -> Source:
    """The input of an integer convolution with its zero point (input 2) taken off."""
    zero = node.constant(2)
    if not node.has(2) or (zero is not None and not zero.any()):
        return input_source(node, 0)
    whole = node.matrix(0, 1)
    name = node.named("input", f"{whole} - {node.scalar(2)}")
    shifted = read_of(node, name, View(node.dims(0)[0], product(node.dims(0)[1:])))

    def checked(view: View) -> str:
        node.check_elements(0, view)
        return shifted(view)

    return checked


def shifted_filters(node: NodeView) -> Filters:
    """The filters of an integer convolution with their zero points (input 3) taken off."""
    weight, zero = node.constant(1), node.constant(3)
    if not node.has(3) or (zero is not None and not zero.any()):
        return Filters(weight, input_source(node, 1))
    if weight is not None and zero is not None:
        per_filter = zero.astype(np.float64).reshape(-1, *[1] * (weight.ndim - 1))
        shifted = weight.astype(np.float64) - per_filter
        return Filters(shifted, lambda view: node.constant_matrix(shifted.reshape(view.known), "weight"))
    home = View(node.dims(1)[0], product(node.dims(1)[1:]))
    offset = node.scalar(3) if node.size(3) == 1 else node.view(3, View(node.dims(1)[0], 1))
    return Filters(None, read_of(node, node.named("filters", f"{node.matrix(1, 1)} - {offset}"), home))


# --- the cases of a convolution ----------------------------------------------------------------------------------


def convolved(node: NodeView, x: Source, filters: Filters, bias: str | None = None) -> tuple[str, View]:
    """Text and view of the convolution of inputs 0 and 1; ``bias`` is a column with a number per filter."""
    window = conv_windows(node)
    batch, group = node.dims(0)[0], int(node.attribute("group"))
    count, planes = node.known_dims(1, "a convolution's weight")[:2]
    channels = planes * group
    given = node.dims(0)[1]
    if (isinstance(given, int) and given != channels) or group < 1 or count % group:
        raise UnsupportedCase(f"{given} channels and {count} filters of {planes} planes in {group} groups")
    layer = Layer(batch, channels, count, group, window, bias)
    if window.rank > 2:
        return _deep(node, x, filters, layer)
    return _planar(node, x, filters, layer if window.rank == 2 else replace(layer, window=window.with_flat_axis()))


def _planar(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    if layer.window.is_pointwise and layer.group == 1 and layer.batch == 1:
        return _pointwise(node, x, filters, layer)
    if (matrix := filters.of_whole_images(layer)) is not None:
        return _of_whole_images(node, x, matrix, layer)
    if layer.has_holes_to_skip:
        return dilated_depthwise(node, x, filters, layer)
    if layer.is_better_stacked:
        return stacked(node, x, filters, layer)
    return _windowed(node, x, filters, layer)


def _pointwise(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """One image under filters of one element: a plain product, twice as fast as the builtin."""
    view = View(layer.channels, product(layer.window.sizes))
    image = every_nth(node, Image(x(view), view, lead=layer.channels, sizes=layer.window.sizes), layer.window.strides)
    weight = filters.read(View(layer.filters, layer.channels))
    pixels = product(image.sizes)
    total = single_product(node, weight, image.text, (layer.filters, layer.channels, pixels))
    return total if layer.bias is None else f"{total} + {layer.bias}", View(layer.filters, pixels)


def _of_whole_images(node: NodeView, x: Source, matrix: Array, layer: Layer) -> tuple[str, View]:
    """A plain product, of all images at once: the builtin is slow where there are few windows."""
    images = x(View(layer.batch, matrix.shape[0]))
    total = single_product(node, images, node.constant_matrix(matrix, "weight"), (layer.batch, *matrix.shape))
    return layer.biased(total), layer.output_view


def _windowed(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """The engine's builtin, per group; padding that it cannot do is done before."""
    window = layer.window
    padding, left, right = builtin_padding(window)
    view = View(layer.batch, layer.channels * product(window.sizes))
    image = padded(node, Image(x(view), view, lead=layer.batch * layer.channels, sizes=window.sizes), left, right)
    weight = _weight(node, filters, layer)
    if layer.has_sparse_filters:
        weight = node.named("filters", node.call("grouped_filters", weight, node.dim(layer.group)))
        layer = replace(layer, group=1)
    sizes: Dims = image.sizes
    view = View(layer.batch, layer.channels * product(sizes))
    tail = f"stride={shape_list(node, window.strides)}, padding={shape_list(node, padding)}"
    planes, count = layer.planes, layer.filters // layer.group
    shapes = (
        f"input_shape={shape_list(node, (layer.batch, planes, *sizes))}, "
        f"filter_shape={shape_list(node, (count, planes, *window.extents))}, {tail}"
    )
    if layer.group == 1:
        text = f"conv2d({image.seen(node, view)}, {weight}, {shapes})"
        return layer.biased(text) if layer.bias else dense(text, count), layer.output_view
    whole = image.text
    if image.view != view:
        whole = node.named("images", image.seen(node, view))
    width = planes * product(sizes)
    parts = []
    for number in range(layer.group):
        columns = f"{node.dim(number * width + 1)}:{node.dim((number + 1) * width)}"
        own = f"{whole}[, {columns}], {weight}[{number * count + 1}:{(number + 1) * count}, ]"
        parts.append(node.named("group", dense(f"conv2d({own}, {shapes})", count)))
    return layer.biased(bind("cbind", parts)), layer.output_view


def _weight(node: NodeView, filters: Filters, layer: Layer) -> str:
    """The identifier of the weight, a filter per row; holes of a dilation are zeros."""
    window = layer.window
    lead = layer.filters * layer.planes
    if window.kernel == window.extents:
        return filters.read(View(layer.filters, layer.planes * product(window.kernel)))
    if filters.content is not None:
        spread = dilated(filters.content.reshape(lead, *window.kernel), window.dilations)
        return node.constant_matrix(spread.reshape(layer.filters, -1), "weight")
    view = View(layer.filters, layer.planes * product(window.kernel))
    image = inflated(node, Image(filters.read(view), view, lead=lead, sizes=window.kernel), window.dilations)
    return image.reshaped(node, View(layer.filters, layer.planes * product(window.extents))).bound(node, "weight").text


def dilated(weight: Array, dilations: tuple[int, ...]) -> Array:
    """``weight`` [lead, height, width] with zeros between its elements."""
    extents = [(size - 1) * step + 1 for size, step in zip(weight.shape[1:], dilations)]
    spread = np.zeros((weight.shape[0], *extents), dtype=weight.dtype)
    spread[:, :: dilations[0], :: dilations[1]] = weight
    return spread


def _deep(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """More than two axes: the depths (of the first one) under a window become channels, the output depths images."""
    window = layer.window
    depth, rest = window.axes(0, 1), window.axes(1, window.rank)
    taps, outputs = depth.kernel[0], depth.outputs[0]
    rows = layer.batch * layer.channels * window.sizes[0]
    slabs = x(View(rows, product(rest.sizes)))
    sizes = (layer.batch, layer.channels, window.sizes[0], taps, outputs, depth.strides[0], depth.dilations[0],
             depth.before[0])
    gathered = node.call("depth_windows", slabs, *map(node.dim, sizes))
    images = layer.batch * outputs
    view = View(images, layer.channels * taps * product(rest.sizes))
    name = node.named("slabs", node.reshape(gathered, view))
    inner = replace(layer, batch=images, channels=layer.channels * taps, window=rest)
    text, found = (_windowed if rest.rank == 2 else _deep)(node, read_of(node, name, view), filters, inner)
    plane = product(rest.outputs)
    moved = node.reshape(text, View(images * layer.filters, plane)) if found.cols != plane else text
    swapped = node.call("swapped_rows", moved, *map(node.dim, (layer.batch, outputs, layer.filters)))
    whole = View(layer.batch, layer.filters * outputs * plane)
    return node.reshape(swapped, whole), whole


def read_of(node: NodeView, name: str, home: View) -> Source:
    """Reads a temporary, by a further statement in other views."""
    return lambda view: name if view == home else node.named("view", node.reshape(name, view))


@gradient("Conv")
def _conv_gradient(n: Backward) -> Sequence[str]:
    weight = n.known_dims(1, "the derivative of a convolution")
    grid, group = known_grid(n, n.dims(0)[2:], weight[2:]), int(n.attribute("group"))
    return n.needed([
        lambda: image_gradient(n, group, grid),
        lambda: filter_gradient(n, n.x, n.grad, group, grid),
        lambda: channel_sum(n, n.grad, n.rank(0)),
    ])
