"""The sparse matrix of a depthwise convolution, which scripts for known sizes make: its products are a Conv again."""

from __future__ import annotations

import numpy as np

from onnx_systemds.exporting.builtins.api import Context, Matrix, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.graph.nodes import Convolution, Entries


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
