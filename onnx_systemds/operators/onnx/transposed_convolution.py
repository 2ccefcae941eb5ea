"""Transposed convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.assumptions import Relation, axis_words
from onnx_systemds.inference.dims import Dim, Dims, is_non_negative, maximum, product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, nn_layer, shape_rule
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, bind
from onnx_systemds.operators.onnx.convolution import dilated, read_of
from onnx_systemds.operators.onnx.convolution_layers import are_sparse
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.convolution_gradients import Grid, channel_sum, filter_gradient, known_integers
from onnx_systemds.operators.support.movement import Source, input_source
from onnx_systemds.operators.support.windows import (
    Image,
    cropped,
    declared_pads,
    halves,
    inflated,
    padded,
    per_axis,
    shape_list,
)

batch_rule("ConvTranspose")(mixes_all_but_first)


@dataclass(frozen=True, slots=True)
class Spread:
    """How one input element spreads over the output along one axis.

    whole: size of all windows together; the output begins ``before`` elements into it.
    """

    size: Dim
    kernel: int
    stride: int
    dilation: int
    whole: Dim
    before: Dim
    output: Dim

    @property
    def extent(self) -> int:
        """Size of a window with its holes."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def builtin_padding(self) -> int:
        """The padding with which the engine gives the output itself, -1 where it cannot."""
        if not isinstance(self.before, int) or self.before < 0:
            return -1
        rest = self.output + 2 * self.before - self.whole  # what the forward convolution would leave over
        return self.before if isinstance(rest, int) and 0 <= rest < self.stride else -1


class _Filters(NamedTuple):
    """The identifier of a weight, an input channel per row; input channels, planes that each gives, and groups."""

    weight: str
    channels: int
    planes: int
    group: int

    @property
    def results(self) -> int:
        """Planes of the result, of all groups."""
        return self.planes * self.group


def spreads(node: NodeFacts) -> tuple[Spread, ...]:
    """The windows on each axis; output_shape wins over pads, auto_pad asks for input size times stride."""
    rank = node.rank("X") - 2
    kernel = node.known_dims("W", "a transposed convolution's weight")[2:]
    if rank < 1 or len(kernel) != rank:
        raise UnsupportedCase(f"a transposed convolution of an input of rank {rank + 2}")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    extra = tuple(node.attribute("output_padding") or ()) or (0,) * rank
    wanted = tuple(node.attribute("output_shape") or ())[-rank:]
    declared = declared_pads(node, rank)
    found = []
    for axis, size in enumerate(node.dims("X")[2:]):
        stride, step = strides[axis], dilations[axis]
        whole = (size - 1) * stride + (kernel[axis] - 1) * step + 1
        if wanted or declared is None:
            output = wanted[axis] if wanted else size * stride
            total = maximum(whole + extra[axis] - output, 0)
            before, _ = halves(total, upper=node.attribute("auto_pad") == "SAME_UPPER")
        else:
            before, after = declared[axis]
            output = whole + extra[axis] - before - after
        found.append(Spread(size, kernel[axis], stride, step, whole, before, output))
    return tuple(found)


@shape_rule("ConvTranspose")
def conv_transpose_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch, filters of all groups, output sizes."""
    node.assume_same_size((0, 1), (1, 0))
    filters = node.dims("W")[1] * int(node.attribute("group"))
    if node.has("B"):
        node.assume_equal(node.dims("B")[0], filters, node.axis_words("B", 0), "the number of filters")
    for axis, spread in enumerate(spreads(node), 2):
        if isinstance(spread.output, int) and spread.output < 0:
            raise InvalidModel(f"the pads take all of axis {axis} of the output: its size is {spread.output}")
        if not isinstance(spread.output, int) and not is_non_negative(spread.output - 1):
            node.assume(spread.output, Relation.AT_LEAST, 1, axis_words(node.node.outputs[0], axis))
        node.assume_elements("X", axis)  # the engine spreads no images without pixels
    return (node.tensor((node.dims("X")[0], filters, *(spread.output for spread in spreads(node)))),)


@generator("ConvTranspose", since=1)
def conv_transpose(node: NodeView) -> Fragment:
    """The gradient of a convolution with respect to its input."""
    axes = spreads(node)
    if len(axes) == 1:
        axes = (Spread(1, 1, 1, 1, 1, 0, 1), *axes)
    channels, planes = node.known_dims("W", "a transposed convolution's weight")[:2]
    filters = _Filters(_weight(node, axes, channels, planes), channels, planes, int(node.attribute("group")))
    image = _spread(node, input_source(node, 0), node.dims("X")[0], filters, axes)
    view = View(node.dims("X")[0], filters.results * product(axis.output for axis in axes))
    text = image.seen(node, view)
    if node.has("B"):
        text = f"bias_add({text}, {node.view('B', View(node.dims('B')[0], 1))})"
    return node.result(text, view)


@nn_layer("ConvTranspose")
def conv2d_transpose_layer(node: NodeView) -> Fragment | None:
    """nn/layers/conv2d_transpose.dml: two spatial axes in one group, where the engine gives the output itself."""
    axes = spreads(node)
    is_plain = len(axes) == 2 and node.attribute("group") == 1
    if not is_plain or any(axis.dilation != 1 or axis.builtin_padding < 0 for axis in axes):
        return None
    batch, (channels, planes, *kernel) = node.dims("X")[0], node.known_dims("W", "a transposed convolution's weight")
    column = View(planes, 1)
    x = node.view("X", View(batch, product(node.dims("X")[1:])))
    weight = node.view("W", View(channels, planes * product(kernel)))
    bias = node.view("B", column) if node.has("B") else node.filled(0, column)
    rests = [axis.output + 2 * axis.before - axis.whole for axis in axes]
    sizes = [channels, *(axis.size for axis in axes), *kernel, *(axis.stride for axis in axes),
             *(axis.builtin_padding for axis in axes), *rests]
    call = node.layer("conv2d_transpose", x, weight, bias, *map(node.dim, sizes))
    return node.layer_result(call, View(batch, planes * product(axis.output for axis in axes)), ["height", "width"])


def _weight(node: NodeView, axes: tuple[Spread, ...], channels: int, planes: int) -> str:
    """The identifier of the weight, an input channel per row; holes in the last two axes are zeros."""
    kernel, steps = tuple(axis.kernel for axis in axes[-2:]), tuple(axis.dilation for axis in axes[-2:])
    extents = tuple(axis.extent for axis in axes[-2:])
    lead = planes * product(axis.kernel for axis in axes[:-2])
    view = View(channels, lead * product(kernel))
    if kernel == extents:
        return node.view("W", view)
    content = node.constant("W")
    if content is not None:
        return node.constant_matrix(dilated(content.reshape(-1, *kernel), steps).reshape(channels, -1), "weight")
    image = inflated(node, Image(node.view("W", view), view, lead=channels * lead, sizes=kernel), steps)
    return image.reshaped(node, View(channels, lead * product(extents))).bound(node, "weight").text


def _spread(node: NodeView, x: Source, batch: Dim, filters: _Filters, axes: tuple[Spread, ...]) -> Image:
    """What all filters make of all images, along two axes or more."""
    if len(axes) > 2:
        return _deep(node, x, batch, filters, axes)
    view = View(batch, filters.channels * product(axis.size for axis in axes))
    text, sizes = _planar(node, x(view), batch, filters, axes)
    view = View(batch, filters.results * product(sizes))
    return _placed(node, Image(text, view, lead=batch * filters.results, sizes=sizes), axes)


def _planar(node: NodeView, x: str, batch: Dim, filters: _Filters, axes: tuple[Spread, ...]) -> tuple[str, Dims]:
    """The engine's builtin, per group: text, and the sizes of the images it gives."""
    weight, channels, planes, group = filters
    if are_sparse(group, planes, math.prod(axis.extent for axis in axes)):
        weight = node.named("filters", node.call("grouped_filters", weight, node.dim(group)))
        planes, group = planes * group, 1
    builtin = all(axis.builtin_padding >= 0 for axis in axes)
    sizes = tuple(axis.output if builtin else axis.whole for axis in axes)
    own = channels // group
    tail = (
        f"input_shape={shape_list(node, (batch, planes, *sizes))}, "
        f"filter_shape={shape_list(node, (own, planes, *(axis.extent for axis in axes)))}, "
        f"stride={shape_list(node, [axis.stride for axis in axes])}, "
        f"padding={shape_list(node, [axis.builtin_padding if builtin else 0 for axis in axes])}"
    )
    if group == 1:
        return f"conv2d_backward_data({weight}, {x}, {tail})", sizes
    width = own * product(axis.size for axis in axes)
    parts: list[str] = []
    for number in range(group):
        rows = f"{weight}[{number * own + 1}:{(number + 1) * own}, ]"
        columns = f"{x}[, {node.dim(number * width + 1)}:{node.dim((number + 1) * width)}]"
        parts.append(node.named("group", f"conv2d_backward_data({rows}, {columns}, {tail})"))
    return bind("cbind", parts), sizes


def _placed(node: NodeView, image: Image, axes: tuple[Spread, ...]) -> Image:
    """The outputs cut out of the windows; where they reach beyond, there are zeros."""
    if image.sizes == tuple(axis.output for axis in axes):
        return image
    none = (0,) * len(axes)
    after = tuple(maximum(axis.before + axis.output - axis.whole, 0) for axis in axes)
    image = padded(node, image, none, after)
    return cropped(node, image, tuple(axis.before for axis in axes), tuple(axis.output for axis in axes))


def _deep(node: NodeView, x: Source, batch: Dim, filters: _Filters, axes: tuple[Spread, ...]) -> Image:
    """More than two axes: depths (of the first one) are images, the taps along them planes, summed where they meet."""
    depth, rest, channels = axes[0], axes[1:], filters.channels
    images, count, plane = batch * depth.size, filters.results, product(axis.size for axis in rest)
    slabs = x(View(batch * channels * depth.size, plane))
    moved = node.call("swapped_rows", slabs, *map(node.dim, (batch, channels, depth.size)))
    view = View(images, channels * plane)
    name = node.named("slabs", node.reshape(moved, view))
    inner = filters._replace(planes=filters.planes * depth.kernel)
    image = _spread(node, read_of(node, name, view), images, inner, rest)
    taps = image.seen(node, View(images * inner.results, product(image.sizes)))
    counts = (batch, depth.size, count, depth.kernel, depth.output, depth.stride, depth.dilation, depth.before)
    summed = node.call("depth_sums", taps, *map(node.dim, counts))
    view = View(batch * count * depth.output, product(image.sizes))
    return Image(summed, view, lead=batch * count, sizes=(depth.output, *image.sizes))


@gradient("ConvTranspose")
def _conv_transpose_gradient(n: Backward) -> Sequence[str]:
    n.known_dims(1, "the derivative of a convolution")
    group, grid, grad = int(n.attribute("group")), *_grid(n)
    return n.needed([
        lambda: n.emit("Conv", grad, n.node.inputs[1], group=group, **grid.attributes),
        lambda: filter_gradient(n, grad, n.x, group, grid),
        lambda: channel_sum(n, n.grad, n.rank(0)),
    ])


def _grid(n: Backward) -> tuple[Grid, str]:
    """The windows of the convolution that this one is a derivative of, and what they see of ``n.grad``."""
    axes, grad = spreads(n), n.grad
    before = known_integers(n, [axis.before for axis in axes])
    beyond = known_integers(n, [axis.before + axis.output - axis.whole for axis in axes])
    strides, dilations = tuple(axis.stride for axis in axes), tuple(axis.dilation for axis in axes)
    far = [axis for axis, count in enumerate(beyond) if count >= strides[axis]]  # a window more would find room
    if far:
        ends = n.known([-beyond[axis] for axis in far])
        grad = n.emit("Slice", grad, n.known([0] * len(far)), ends, n.known([axis + 2 for axis in far]))
    rest = tuple(0 if axis in far else max(count, 0) for axis, count in enumerate(beyond))
    after = tuple(max(-count, 0) for count in beyond)
    return Grid(tuple(axis.kernel for axis in axes), strides, dilations, (*before, *after), rest), grad
