"""Pooling over windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from onnx_systemds.engine.safe_forms import window_maxima
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.integer_spans import INDEX, Reads
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.inference.registry import batch_rule, generator, gradient, integer_rule, nn_layer, shape_rule
from onnx_systemds.limits import LOOP_STEPS, check_parts, check_table
from onnx_systemds.model import protos
from onnx_systemds.model.ir import DERIVATIVES, Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, bind, split_view
from onnx_systemds.operators.onnx.combining import OPERANDS_TOGETHER, extreme
from onnx_systemds.operators.onnx.global_pooling import power, root
from onnx_systemds.operators.onnx.indexing import along_axes, strides
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.convolution_gradients import Grid, known_grid, known_integers
from onnx_systemds.operators.support.movement import Moved
from onnx_systemds.operators.support.windows import (
    Image,
    Windows,
    builtin_padding,
    every_nth,
    is_even,
    padded,
    shape_list,
    windows,
)

integer_rule("MaxPool")(lambda node: Reads(INDEX))
batch_rule("AveragePool", "LpPool")(mixes_all_but_first)

LOWEST = "-Inf"

# --- shapes ----------------------------------------------------------------------------------------------------


def pool_windows(node: NodeFacts, dims: Dims | None = None) -> Windows:
    """The windows of a pooling operator, of an image with its channels first. Raises UnsupportedCase."""
    dims = node.dims("X") if dims is None else dims
    if len(dims) < 3:
        raise UnsupportedCase(f"pooling of an input of rank {len(dims)}")
    kernel = node.attribute("kernel_shape")
    if not kernel:
        raise UnsupportedCase("kernel_shape is missing")
    return windows(node, dims[2:], tuple(kernel), may_be_none=True)


@shape_rule("AveragePool", "LpPool", "MaxPool")
def pool_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch, channels, number of windows; the indices are as many."""
    dims = (*node.dims("X")[:2], *pool_windows(node).outputs)
    return (node.tensor(dims), Value("int64", dims))


# --- windows -----------------------------------------------------------------------------------------------------


def pooled(node: NodeView, image: Image, window: Windows, builtin: str) -> Image:
    """The result of max_pool or avg_pool over all windows; means count the padding as zeros.

    Both are separable: the last two axes are one builtin, further ones and dilated ones go one by one.
    """
    if window.rank == 1 and window.dilations == (1,):
        flat = replace(image, sizes=(1, *image.sizes))
        result = _two_axes(node, flat, window.with_flat_axis(), builtin)
        return replace(result, sizes=result.sizes[1:])
    if window.rank == 2 and window.dilations == (1, 1):
        return _two_axes(node, image, window, builtin)
    value = LOWEST if builtin == "max_pool" else "0"
    image = padded(node, image, window.before, window.after, value)
    window = window.without_padding()
    last = window.rank
    if window.dilations[-2:] == (1, 1):
        last -= 2
        inner = replace(image, lead=image.lead * product(image.sizes[:last]), sizes=image.sizes[last:])
        inner = _two_axes(node, inner, window.axes(last, last + 2), builtin)
        image = replace(inner, lead=image.lead, sizes=(*image.sizes[:last], *inner.sizes))
    for axis in reversed(range(last)):
        image = _one_axis(node, image, window, axis, builtin)
    return image


def _two_axes(node: NodeView, image: Image, window: Windows, builtin: str) -> Image:
    common, left, right = builtin_padding(window)
    image = padded(node, image, left, right, LOWEST if builtin == "max_pool" else "0")
    shape = (image.lead, 1, *image.sizes)
    view = View(image.lead, product(image.sizes))
    text = _builtin(node, builtin, image.seen(node, view), shape, window.kernel, window.strides, common)
    return replace(image, text=text, view=View(image.lead, product(window.outputs)), sizes=window.outputs)


def _builtin(
    node: NodeView, builtin: str, x: str, shape: Dims, kernel: Sequence[int], strides: Sequence[int],
    padding: Sequence[int] = (0, 0),
) -> str:
    return (
        f"{builtin}({x}, input_shape={shape_list(node, shape)}, pool_size={shape_list(node, kernel)}, "
        f"stride={shape_list(node, strides)}, padding={shape_list(node, padding)})"
    )


def _one_axis(node: NodeView, image: Image, window: Windows, axis: int, builtin: str) -> Image:
    """Windows along one axis of an image without padding; the taps of a dilated window are slices of columns."""
    kernel, stride, step = window.kernel[axis], window.strides[axis], window.dilations[axis]
    outputs, size = window.outputs[axis], image.sizes[axis]
    prefix, suffix = image.around(axis)
    view = View(prefix, size * suffix)
    if step == 1:
        text = _builtin(node, builtin, image.seen(node, view), (prefix, 1, size, suffix), (kernel, 1), (stride, 1))
        return image.resized(text, axis, outputs).bound(node, "pooled")
    check_parts(kernel, f"a dilated window along spatial axis {axis}")
    span = (outputs - 1) * stride + 1
    spans = [f"{node.dim(tap * step * suffix + 1)}:{node.dim((tap * step + span) * suffix)}" for tap in range(kernel)]
    whole = image.reshaped(node, view).bound(node, "whole")
    slices = [f"{whole.text}[, {taken}]" for taken in spans]
    if builtin == "max_pool":
        text = slices[0]
        for number, taken in enumerate(slices[1:]):
            text = extreme("max", text, taken, repeats=number % 2 == 1)
            if number % OPERANDS_TOGETHER == OPERANDS_TOGETHER - 1 and number < kernel - 2:
                text = node.named("part", text)
    else:
        text = f"({' + '.join(slices)}) / {kernel}"
    spread = Image(text, View(prefix, span * suffix), lead=prefix, sizes=(span, suffix))
    return image.resized(every_nth(node, spread, (stride, 1)).text, axis, outputs).bound(node, "pooled")


def _input_image(node: NodeView, window: Windows) -> Image:
    view = split_view(node.dims("X"), 2)
    return Image(node.view("X", view), view, lead=view.rows, sizes=window.sizes)


@nn_layer("AveragePool", "MaxPool")
def pool2d_layer(node: NodeView) -> Fragment | None:
    """nn/layers/max_pool2d_builtin.dml and avg_pool2d_builtin.dml: two spatial axes, even padding that means count."""
    window, is_max = pool_windows(node), node.node.op_type == "MaxPool"
    if window.rank != 2 or window.dilations != (1, 1) or not is_even(window) or node.wants(1):
        return None
    if not is_max and not node.attribute("count_include_pad") and any(window.before):
        return None
    batch, channels = node.dims("X")[:2]
    x = node.view("X", View(batch, channels * product(window.sizes)))
    sizes = (channels, *window.sizes, *window.kernel, *window.strides, *window.before)
    call = node.layer("max_pool2d_builtin" if is_max else "avg_pool2d_builtin", x, *map(node.dim, sizes))
    return node.layer_result(call, View(batch, channels * product(window.outputs)), ["height", "width"])


@generator("AveragePool", since=(1, 7, 10, 19))
def average_pool(node: NodeView) -> Fragment:
    """Means over windows: opset 7 may count the padding, 10 may round up, 19 may dilate."""
    window = pool_windows(node)
    image = pooled(node, _input_image(node, window), window, "avg_pool")
    share = counted_share(node, window, include=bool(node.attribute("count_include_pad"))) if window.is_padded else ""
    return node.result(f"{image.text} / {share}" if share else image.text, image.view)


def counted_share(node: NodeView, window: Windows, *, include: bool) -> str:
    """A row with the share of each window's elements that count; "" where all of them do."""
    if all_known((*window.sizes, *window.before, *window.after)):
        share = _known_share(window, include=include)
        return "" if np.all(share == 1) else node.constant_matrix(share.reshape(1, -1), "share")
    if include and window.after == window.declared_after:
        return ""
    image = _ones(node, window)
    if include:
        image = padded(node, image, window.before, window.declared_after, "1")
        extra = tuple(after - declared for after, declared in zip(window.after, window.declared_after))
        image = padded(node, image, (0,) * window.rank, extra)
        window = window.without_padding()
    shares = pooled(node, image, window, "avg_pool").reshaped(node, View(1, product(window.outputs)))
    return shares.bound(node, "share").text


def _known_share(window: Windows, *, include: bool) -> Array:
    """The share of each window's elements that count, an axis for each of the windows."""
    check_table(_number(product(window.outputs)), "the shares of windows that reach over the edge")
    return reduce(np.multiply.outer, (_axis_share(window, axis, include=include) for axis in range(window.rank)))


def _ones(node: NodeView, window: Windows) -> Image:
    """A plane of which all elements are 1."""
    row = View(1, product(window.sizes))
    return Image(node.filled(1, row), row, lead=1, sizes=window.sizes)


def _axis_share(window: Windows, axis: int, *, include: bool) -> Array:
    size, before, declared = (_number(field[axis]) for field in (window.sizes, window.before, window.declared_after))
    outputs = _number(window.outputs[axis])
    position = window_positions(window, axis, outputs)
    first, last = (-before, size + declared) if include else (0, size)
    counted: Array = ((position >= first) & (position < last)).sum(axis=1) / window.kernel[axis]
    return counted


def window_positions(window: Windows, axis: int, outputs: int) -> Array:
    """outputs x kernel: positions in the input, negative in the padding."""
    check_table(outputs * window.kernel[axis], f"the places of windows along spatial axis {axis}")
    starts = np.arange(outputs)[:, None] * window.strides[axis] - _number(window.before[axis])
    return starts + np.arange(window.kernel[axis])[None, :] * window.dilations[axis]


def _number(size: object) -> int:
    if not isinstance(size, int):
        raise UnsupportedCase(f"the size {size} must be known", hint="fix it by --dim")
    return size


@generator("LpPool", since=(1, 2, 18))
def lp_pool(node: NodeView) -> Fragment:
    """p-norm over windows: p is a float in opset 1; 18 may dilate and round up."""
    window, p = pool_windows(node), node.attribute("p")
    image = _input_image(node, window)
    image = replace(image, text=power(image.text, p)).bound(node, "powers")
    image = pooled(node, image, window, "avg_pool")
    return node.result(root(f"{image.text} * {product(window.kernel)}", p), image.view)


@batch_rule("MaxPool")
def _max_pool_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Indices of maxima count the elements of all samples."""
    return node.has_output(1) or mixes_all_but_first(node, position, axis)


@generator("MaxPool", since=(1, 8, 10))
def max_pooling(node: NodeView) -> Fragment:
    """Maxima over windows: opset 8 may tell their indices, 10 may dilate and round up."""
    window = pool_windows(node)
    if node.wants(1):
        return _with_indices(node, window)
    common, left, right = builtin_padding(window)
    if node.dims("X")[0] != 1 and window.rank == 2 and window.dilations == (1, 1) and not any((*left, *right)):
        return _images_pooled(node, window, common)
    return _maxima(node, pooled(node, _input_image(node, window), window, "max_pool"))


def _images_pooled(node: NodeView, window: Windows, padding: Sequence[int]) -> Fragment:
    """Whole images in the rows: the engine then fuses the pooling with a Relu before it.

    A single image goes plane by plane instead, since the engine's threads share the rows.
    """
    batch, *image = node.dims("X")
    x = node.view("X", View(batch, product(image)))
    text = _builtin(node, "max_pool", x, (batch, *image), window.kernel, window.strides, padding)
    return _maxima(node, Moved(text, View(batch, image[0] * product(window.outputs))))


def _maxima(node: NodeView, found: Moved) -> Fragment:
    """The result of max_pool; numbers of FP64 alone reach as low as what it makes of -Inf."""
    is_wide = node.dtype("X") == "double"
    return node.result(window_maxima(node.named("maxima", found.text)) if is_wide else found.text, found.view)


def _with_indices(node: NodeView, window: Windows) -> Fragment:
    """Maxima and where they are, in the flat input (row-major, or column-major within a plane)."""
    image = padded(node, _input_image(node, window), window.before, window.after, LOWEST)
    view = View(image.lead, product(image.sizes))
    places = strides(window.padded_sizes)
    numbers = strides(window.sizes[::-1])[::-1] if node.attribute("storage_order") else strides(window.sizes)
    starts, taps = _window_places(node, window, places, numbers)
    plane = padded(node, _ones(node, window), window.before, window.after)
    within = plane.seen(node, View(product(plane.sizes), 1))  # 1 within the image, 0 in the padding
    call = node.call("max_pool_indices", image.seen(node, view), starts, taps, node.dim(product(window.sizes)), within)
    maxima, indices = node.temporary("maxima"), node.temporary("indices")
    node.write(f"[{maxima}, {indices}] = {call}")
    result = View(image.lead, product(window.outputs))
    return node.result(maxima, result) + node.result(indices, result, 1)


def _window_places(node: NodeView, window: Windows, places: list[Dim], numbers: list[Dim]) -> tuple[str, str]:
    """Two identifiers: of where each window starts, and of how far from it each of its elements is.

    In two columns: in the padded plane (from 1), and in the numbering of the plane, in which padding does not count.
    """
    flat = node.named("window", f"seq(0, {node.dim(product(window.outputs) - 1)})")
    along = along_axes(node, flat, window.outputs)
    axes = node.named("window_along", bind("cbind", along))

    def total(matrix: str, factors: Sequence[Dim]) -> str:
        columns = [(f"{matrix}[, {axis + 1}]", size) for axis, size in enumerate(factors)]
        return " + ".join(column if size == 1 else f"{column} * {node.factor(size)}" for column, size in columns)

    moved = [[stride * size for stride, size in zip(window.strides, sizes)] for sizes in (places, numbers)]
    first = sum((before * size for before, size in zip(window.before, numbers)), start=0)
    number = total(axes, moved[1]) + ("" if first == 0 else f" - {node.factor(first)}")
    starts = node.named("windows", f"cbind({total(axes, moved[0])} + 1, {number})")
    check_table(LOOP_STEPS * math.prod(window.kernel), "the places in a window")
    offsets = np.array(list(itertools.product(*(range(size) for size in window.kernel)))) * window.dilations
    steps = node.constant_matrix(offsets, "steps")
    return starts, node.named("taps", f"cbind({total(steps, places)}, {total(steps, numbers)})")


# --- derivatives -----------------------------------------------------------------------------------------------


@gradient("MaxPool")
def _max_pool_gradient(n: Backward) -> Sequence[str]:
    """To the element that each maximum was taken from."""
    window = pool_windows(n)
    is_apart = all(stride >= size for stride, size in zip(window.strides, window.kernel))
    if window.rank <= 2 and is_apart and not window.is_padded and set(window.dilations) == {1}:
        sizes: dict[str, Any] = {"kernel_shape": window.kernel, "strides": window.strides}
        return [n.emit("MaxPoolGradient", n.x, n.grad, domain=DERIVATIVES, **sizes)]
    attributes: dict[str, Any] = {name: value for name, value in n.node.attributes.items() if name != "storage_order"}
    maxima = n.fresh("MaxPool")
    _, taken = n.emit_several("MaxPool", [maxima, f"{maxima}_1"], n.x, **attributes)
    flat = n.known([-1])
    zeros = n.emit("Reshape", n.filled_like(n.x, n.dtype(0), 0.0), flat)
    index, grad = n.emit("Reshape", taken, flat), n.emit("Reshape", n.grad, flat)
    return [n.shaped(n.emit("ScatterElements", zeros, index, grad, axis=0, reduction="add"))]


@gradient("AveragePool")
def _average_pool_gradient(n: Backward) -> Sequence[str]:
    """To all elements of a window alike; what is padded counts only where the attribute says so."""
    channels = known_integers(n, n.dims(0)[1:2])[0]
    kernel = tuple(n.attribute("kernel_shape"))
    grid = known_grid(n, n.dims(0)[2:], kernel)
    ones = np.ones((channels, 1, *kernel), protos.numpy_dtype(n.dtype(0)))
    filters = n.emit("Constant", value=ones)
    share = n.emit("Div", n.grad, _averaged(n, filters, channels, grid))
    return [n.emit("ConvTranspose", share, filters, group=channels, output_padding=grid.rest, **grid.attributes)]


def _averaged(n: Backward, filters: str, channels: int, grid: Grid) -> str:
    """How many elements each mean is of."""
    counts_padding, window = bool(n.attribute("count_include_pad")), pool_windows(n)
    if counts_padding and not n.attribute("ceil_mode"):
        return n.number(float(np.prod(grid.kernel)))
    if all_known((*window.sizes, *window.before, *window.after)):
        share = _known_share(window, include=counts_padding)
        return n.known(np.round(share * np.prod(grid.kernel))[None, None], n.dtype(0))
    counted, pads = n.filled_like(n.x, n.dtype(0), 1.0), grid.pads
    if counts_padding:  # but not that of windows which begin inside and end outside
        rank = len(grid.kernel)
        declared = known_integers(n, window.declared_after)
        around = n.known([0, 0, *pads[:rank], 0, 0, *declared])
        counted = n.emit("Pad", counted, around, n.number(1.0))
        pads = (*[0] * rank, *(whole - own for whole, own in zip(pads[rank:], declared)))
    return n.emit("Conv", counted, filters, group=channels, **{**grid.attributes, "pads": pads})
