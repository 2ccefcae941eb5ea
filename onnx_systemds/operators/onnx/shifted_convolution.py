"""Convolutions as sums over the taps of the filters: of shifted images, or of shifted results.

Holes of a dilation are never read so, and of one image a product takes more than one thread.
"""

from __future__ import annotations

import math

from onnx_systemds.dml.operands import is_name
from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.operators.api import NodeView, View
from onnx_systemds.operators.onnx.convolution_layers import Filters, Layer, dense, is_sparse
from onnx_systemds.operators.support.movement import Source
from onnx_systemds.operators.support.products import single_product
from onnx_systemds.operators.support.windows import Image, Windows, padded, shape_list

MOST_TAP_RESULTS = 1_000_000  # numbers for an image, up to which the results of all taps are there at once


def dilated_depthwise(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """One plane per filter, with holes: a sum of shifted planes, weighted by row, that never reads the holes."""
    window = layer.window
    rows, taps = layer.batch * layer.channels, product(window.kernel)
    planes, line = _padded_planes(node, x, layer)
    weight = filters.read(View(layer.channels, taps))
    if layer.batch != 1:
        all_taps = f"matrix({weight}, rows=1, cols={layer.filters * taps})"
        weight = node.reshape(f"{node.filled(1, View(layer.batch, 1))} %*% {all_taps}", View(rows, taps))
    if not is_name(weight):
        weight = node.named("taps", weight)
    total = node.temporary("sum")
    for tap, columns in enumerate(_shifts(node, line, window)):  # a loop would make the engine compile at each step
        _add(node, total, tap, f"{planes}[, {columns}] * {weight}[, {tap + 1}]")
    text = _without_gaps(node, total, rows, line, window)
    return layer.biased(node.reshape(text, layer.output_view)), layer.output_view


def _add(node: NodeView, total: str, tap: int, term: str) -> None:
    node.write(f"{total} = {term}" if tap == 0 else f"{total} = {total} + {term}")


def _padded_planes(node: NodeView, x: Source, layer: Layer) -> tuple[str, Dim]:
    """The identifier of the padded planes, one in each row, and the length of their lines."""
    window, rows = layer.window, layer.batch * layer.channels
    view = View(rows, product(window.sizes))
    image = padded(node, Image(x(view), view, lead=rows, sizes=window.sizes), window.before, window.after)
    image = image.reshaped(node, View(rows, product(image.sizes)))
    if not is_name(image.text):
        image = image.bound(node, "planes")
    return image.text, image.sizes[1]


def stacked(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """The form that serves the number of images and their size."""
    is_dilated = layer.window.kernel != layer.window.extents
    if (is_dilated or layer.batch != 1) and _has_few_results(layer):
        return _shifted_results(node, x, filters, layer)
    if layer.batch == 1:
        return _in_one_product(node, x, filters, layer)
    return _tap_by_tap(node, x, filters, layer)


def _has_few_results(layer: Layer) -> bool:
    """Whether there is room for those of all taps, and what sums them is sparse: else zeros carry NaN everywhere."""
    taps = math.prod(layer.window.kernel)
    of_plane = taps * product(layer.window.sizes)
    if not isinstance(of_plane, int):
        return False
    return layer.filters * of_plane <= MOST_TAP_RESULTS and is_sparse(of_plane, taps)


def _in_one_product(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """Planes of one image, shifted for each tap, all at once: they lie above each other for one product."""
    window = layer.window
    planes, line = _padded_planes(node, x, layer)
    rows = layer.channels * math.prod(window.kernel)
    shifted = [f"{planes}[, {columns}]" for columns in _shifts(node, line, window)]
    weight = filters.read(View(layer.filters, rows))
    joined = f"cbind({', '.join(shifted)})"
    stack = node.named("stack", node.reshape(joined, View(rows, _span(line, window))))
    whole = single_product(node, weight, stack, (layer.filters, rows, _span(line, window)))
    total = node.named("sum", whole if layer.bias is None else f"{whole} + {layer.bias}")
    lines = _without_gaps(node, total, layer.filters, line, window)
    view = View(layer.filters, product(window.outputs))
    return node.reshape(lines, view), view


def _shifted_results(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """All pixels weighted for each tap by one builtin; a product with a sparse matrix shifts and sums these results.

    The results are dense, where shifted images would often be sparse, of which the engine takes columns slowly.
    """
    window, taps, count = layer.window, math.prod(layer.window.kernel), layer.filters
    by_tap = node.reshape(f"t({filters.read(View(count * layer.channels, taps))})", View(taps * count, layer.channels))
    sizes = (*window.sizes, *window.kernel, *window.dilations, *window.before, *window.outputs)
    images = x(View(layer.batch, layer.channels * product(window.sizes)))
    weight = node.named("filters", node.call("swapped_rows", by_tap, "1", str(taps), str(count)))
    shifts = node.named("shifts", node.call("tap_shifts", *map(node.dim, sizes)))
    by_pixel = _of_pixels(node, layer, images, window.sizes, weight, taps * count)
    results = node.named("taps", dense(by_pixel, taps * count))
    by_filter = node.reshape(results, View(layer.batch * count, taps * product(window.sizes)))
    total = node.reshape(f"t({shifts} %*% t({by_filter}))", layer.output_view)
    return layer.biased(total), layer.output_view


def _tap_by_tap(node: NodeView, x: Source, filters: Filters, layer: Layer) -> tuple[str, View]:
    """The sum over the taps of shifted planes, each weighted by the builtin: of large images, all at once need room."""
    window, taps = layer.window, math.prod(layer.window.kernel)
    planes, line = _padded_planes(node, x, layer)
    total, span = node.temporary("sum"), _span(line, window)
    weight = filters.read(View(layer.filters * layer.channels, taps))
    for tap, columns in enumerate(_shifts(node, line, window)):
        images = node.reshape(f"{planes}[, {columns}]", View(layer.batch, layer.channels * span))
        own = node.reshape(f"{weight}[, {tap + 1}]", View(layer.filters, layer.channels))
        text = _of_pixels(node, layer, images, (1, span), own, layer.filters)
        _add(node, total, tap, layer.biased(text) if tap == 0 and layer.bias else dense(text, layer.filters))
    rows = layer.batch * layer.filters
    node.write(f"{total} = {node.reshape(total, View(rows, span))}")
    lines = _without_gaps(node, total, rows, line, window)
    return node.reshape(lines, layer.output_view), layer.output_view


def _of_pixels(node: NodeView, layer: Layer, images: str, sizes: tuple[Dim, ...], weight: str, filters: int) -> str:
    """A convolution of single pixels, of all channels of the layer."""
    given = shape_list(node, (layer.batch, layer.channels, *sizes))
    filter_shape = shape_list(node, (filters, layer.channels, 1, 1))
    shapes = f"input_shape={given}, filter_shape={filter_shape}, stride=[1, 1], padding=[0, 0]"
    return f"conv2d({images}, {weight}, {shapes})"


def _span(line: Dim, window: Windows) -> Dim:
    """Columns from the first result in a plane of lines to the last one."""
    return (window.outputs[0] - 1) * line + window.outputs[1]


def _shifts(node: NodeView, line: Dim, window: Windows) -> list[str]:
    """For each tap the columns of a plane that it meets, gaps between the lines of the result included."""
    span = _span(line, window)
    firsts = [
        line * (i * window.dilations[0]) + j * window.dilations[1]
        for i in range(window.kernel[0]) for j in range(window.kernel[1])
    ]
    return [f"{node.dim(first + 1)}:{node.dim(first + span)}" for first in firsts]


def _without_gaps(node: NodeView, total: str, rows: Dim, line: Dim, window: Windows) -> str:
    """Planes of whole lines, each in a row, less what lies between the lines of the result; a line in each row."""
    height, width = window.outputs
    whole = View(rows * height, line)
    if width == line:
        return node.reshape(total, whole)
    rest = node.filled(0, View(rows, line - width))
    lines = node.named("lines", node.reshape(f"cbind({total}, {rest})", whole))
    return f"{lines}[, 1:{node.dim(width)}]"
