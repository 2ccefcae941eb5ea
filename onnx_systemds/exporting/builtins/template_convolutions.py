"""The sparse matrix of a depthwise convolution, which scripts for known sizes make: its products are a Conv again."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from onnx_systemds.exporting.builtins.api import Context, Matrix, Value
from onnx_systemds.exporting.builtins.dnn import known_sizes
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.graph.nodes import Convolution, Entries, Node, cut_of, made_by, source_of
from onnx_systemds.inference.known_dims import as_ints

_MOST_FILTERS = 1 << 23
_known = partial(known_sizes, what="sizes of images")  # where they are not, the script itself is evaluated


@template_function("depthwise_matrix")
def depthwise_matrix(
    ctx: Context, W: Matrix, channels: int, height: int, width: int, kh: int, kw: int, sh: int, sw: int, ph: int,
    pw: int,
) -> Value | None:
    """The sparse matrix of a depthwise convolution, for images in the columns; W has a row per filter."""
    g, filters = ctx.g, W.rows
    if not isinstance(filters, int) or filters % channels or W.cols != kh * kw:
        return None
    y = sh * np.arange((height + 2 * ph - kh) // sh + 1)[:, None] - ph + np.arange(kh)
    x = sw * np.arange((width + 2 * pw - kw) // sw + 1)[:, None] - pw + np.arange(kw)
    inside = ((y >= 0) & (y < height))[:, None, :, None] & ((x >= 0) & (x < width))[:, None, :]
    cells = y[:, None, :, None] * width + x[:, None, :]
    pixels, taps = len(y) * len(x), kh * kw
    pixel, tap = inside.reshape(pixels, taps).nonzero()
    cell, number = cells.reshape(pixels, taps)[pixel, tap], np.arange(filters)[:, None]
    rows = g.constant((number * pixels + pixel).ravel())
    cols = g.constant((number // (filters // channels) * height * width + cell).ravel())
    flat = g.reshape(ctx.flat(W), (filters * taps,))
    weights = g.gather(flat, g.constant((number * taps + tap).ravel()), 0)
    dims = (filters * pixels, channels * height * width)
    places = g.concat([g.reshape(place, (*place.dims, 1)) for place in (rows, cols)], 1)
    found = g.node("ScatterND", [g.filled(0.0, dims), places, weights], dims)
    attributes = {"group": channels, "kernel_shape": (kh, kw), "pads": (ph, pw, ph, pw), "strides": (sh, sw)}
    kernels = g.reshape(flat, (filters, 1, kh, kw))
    convolution = Convolution(kernels, (channels, height, width), (len(y), len(x)), attributes)
    found.entries = Entries(rows, cols, weights, convolution)
    return ctx.matrix(found)


@template_function("grouped_filters")
def grouped_filters(ctx: Context, W: Matrix, groups: int) -> Value | None:
    """The filters of a convolution in groups among zeros; `conv2d` by them is a Conv in groups."""
    known, sizes = W.tensor.constant, as_ints(W.dims)
    if known is None or sizes is None or groups < 1 or sizes[0] % groups or known.size * groups > _MOST_FILTERS:
        return None
    filters, taps = sizes
    whole = np.zeros((filters, groups, taps))
    own = np.arange(filters)
    whole[own, own // (filters // groups)] = known.reshape(sizes)
    return ctx.matrix(ctx.g.constant(whole.reshape(filters, groups * taps), hint=W.tensor.hint))


@template_function("joined_strips")
def joined_strips(ctx: Context, Z: Matrix, channels: int, size: int, first: int, rest: int) -> Value | None:
    """The convolution of the image that two strips were cut from."""
    added = made_by(Z.tensor, "Add")
    node = made_by(Z.tensor if added is None else added.inputs[0], "Conv")
    strips = None if node is None else _strips(node)
    if node is None or strips is None:
        return None
    image, (_, planes, lines, width), second = strips
    _, filters, results, cols = _known(node.outputs[0].dims)
    kernel, step, pad = (node.integers(name)[0] for name in ("kernel_shape", "strides", "pads"))
    kept, left = first // cols, (rest - 1) // cols
    if filters != channels or results * cols != size or first % cols or (rest - 1) % cols or second % step:
        return None
    if kept > (lines + pad - kernel) // step + 1 or left * step < pad or kept != second // step + left:
        return None
    dims = (1, channels, kept + results - left, cols)
    whole = ctx.viewed(image, (1, planes, second + lines, width))
    found = ctx.g.node("Conv", [whole, *node.inputs[1:]], dims, whole.kind, **node.attributes)
    bias = None if added is None else added.inputs[1]
    return Matrix(found if bias is None else found + bias, channels, dims[2] * cols)


class _Strips(NamedTuple):
    """Two strips of an image. given: the sizes of both, as images. second: the first line of the lower one."""

    image: Matrix
    given: tuple[int, ...]
    second: int


def _strips(node: Node) -> _Strips | None:
    """The image whose first and last lines a Conv reads as two images; None where it reads anything else."""
    joined = made_by(source_of(node.inputs[0], "Reshape"), "Concat")
    cuts = [] if joined is None else [made_by(tensor, "Slice") for tensor in joined.inputs]
    images = {cut.inputs[0] for cut in cuts if cut is not None}
    if node.inputs[0] is None or len(cuts) != 2 or None in cuts or len(images) != 1 or (image := images.pop()) is None:
        return None
    given, (rows, pixels) = _known(node.inputs[0].dims), _known(image.dims)
    samples, channels, lines, width = given
    size, parts = lines * width, [cut_of(cut) for cut in cuts if cut is not None]
    if parts != [(0, size, 1), (pixels - size, pixels, 1)] or pixels % width or (samples, channels) != (2, rows):
        return None
    return _Strips(Matrix(image, rows, pixels), given, (pixels - size) // width)
