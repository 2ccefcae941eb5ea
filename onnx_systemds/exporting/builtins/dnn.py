"""The builtins of neural networks on linearised images: convolution, pooling, bias."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Tensor, Value, builtin, refuse
from onnx_systemds.exporting.builtins.operators import tensor_operator
from onnx_systemds.exporting.builtins.products import SCATTER_SINCE
from onnx_systemds.exporting.builtins.registry import Sizes
from onnx_systemds.exporting.graph.images import planes
from onnx_systemds.exporting.graph.nodes import source_of
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.known_dims import as_ints

_FEWEST_GROUPS = 4


def image(ctx: Context, x: Matrix, shape: Dims) -> Tensor:
    """Return a matrix as images N x C x H x W; the rows of the matrix say N."""
    return ctx.viewed(x, (x.rows, *shape[1:]))


def known_sizes(sizes: Dims, what: str) -> tuple[int, ...]:
    """Return sizes as numbers. Raises UnsupportedCase."""
    known = as_ints(sizes)
    if known is None:
        raise UnsupportedCase(f"the {what} must be known when the script is exported")
    return known


def _extent(size: Dim, window: int, stride: int, pad: int) -> Dim:
    return (size + 2 * pad - window) // stride + 1


@builtin("conv2d")
def conv2d(
    ctx: Context, x: Matrix, w: Matrix, input_shape: Sizes, filter_shape: Sizes, stride: Sizes, padding: Sizes,
    bias: Value | None = None,
) -> Value:
    """Convolution of linearised images."""
    if bias is not None:
        raise UnsupportedCase("the engine ignores the argument bias of conv2d",
                              hint="use bias_add(Y, bias)")
    windows = _Windows.of(filter_shape[2:], stride, padding)
    images = image(ctx, x, input_shape)
    own, groups = _grouped(ctx, ctx.viewed(w, tuple(filter_shape)))
    dims = (x.rows, filter_shape[0], *windows.extents(input_shape))
    return ctx.matrix(ctx.g.node("Conv", [images, own], dims, **windows.attributes, **groups))


def _grouped(ctx: Context, filters: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Return filters and the groups of a Conv: of known ones that read few channels each, those channels alone.

    The engine passes over the zeros of such filters, too, which are sparse.
    """
    known = filters.constant
    if known is None or not known.size:
        return filters, {}
    count, channels = known.shape[:2]
    reads = known.any(axis=(2, 3))
    if reads.sum() * _FEWEST_GROUPS > reads.size:
        return filters, {}
    for groups in range(math.gcd(count, channels), _FEWEST_GROUPS - 1, -1):
        if count % groups or channels % groups:
            continue
        blocks = reads.reshape(groups, count // groups, groups, channels // groups).any(axis=(1, 3))
        if not (blocks & ~np.eye(groups, dtype=bool)).any():
            parts = known.reshape(groups, count // groups, groups, channels // groups, *known.shape[2:])
            own = parts[np.arange(groups), :, np.arange(groups)].reshape(count, channels // groups, *known.shape[2:])
            return ctx.g.constant(own, FLOAT, filters.hint), {"group": groups}
    return filters, {}


class _Windows(NamedTuple):
    """Windows of images; their size, the steps from one to the next, and what is put on both sides of the images."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]

    @classmethod
    def of(cls, size: Dims, stride: Dims, padding: Dims) -> _Windows:
        """Raises UnsupportedCase where they are not known, or there are no such windows."""
        window, strides, pads = found = cls(
            known_sizes(size, "window of a filter"), known_sizes(stride, "stride"), known_sizes(padding, "padding"))
        for name, numbers, least in (("window", window, 1), ("stride", strides, 1), ("padding", pads, 0)):
            if min(numbers, default=least) < least:
                raise UnsupportedCase(f"a {name} of {' x '.join(map(str, numbers))}, at least {least} is possible")
        return found

    @classmethod
    def of_pooling(cls, size: Dims, stride: Dims, padding: Dims) -> _Windows:
        """Raises UnsupportedCase where they are not known, or may hold nothing but padding."""
        found = cls.of(size, stride, padding)
        if any(pad >= window for window, pad in zip(found.size, found.pads)):
            window, pads = (" x ".join(map(str, each)) for each in (found.size, found.pads))
            raise UnsupportedCase(f"a window of {window} with a padding of {pads}, in which nothing else may lie",
                                  hint="make the padding smaller than the window: runtimes refuse others")
        return found

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of a node."""
        return {"kernel_shape": self.size, "strides": self.strides, "pads": (*self.pads, *self.pads)}

    def extents(self, shape: Dims) -> Dims:
        """Return how many windows are below and side by side in images of N x C x H x W."""
        return tuple(_extent(s, k, d, p) for s, k, d, p in zip(shape[2:], *self))


def _register_pool(name: str, op: str, meaning: str, **more: Any) -> None:
    @builtin(name, meaning=meaning)
    def function(ctx: Context, x: Matrix, input_shape: Sizes, pool_size: Sizes, stride: Sizes, padding: Sizes) -> Value:
        windows = _Windows.of_pooling(pool_size, stride, padding)
        extents = windows.extents(input_shape)
        rows = planes(x.tensor, x.rows, x.cols) if input_shape[1] == 1 else None  # each the channel of one image
        if rows is not None and rows.dims[2:] == input_shape[2:] and ctx.g.visible(rows):
            pooled = ctx.g.node(op, [ctx.g.floating(rows)], (1, x.rows, *extents), **windows.attributes, **more)
            return Matrix(pooled, x.rows, product(extents))
        dims = (x.rows, input_shape[1], *extents)
        return ctx.matrix(ctx.g.node(op, [image(ctx, x, input_shape)], dims, **windows.attributes, **more))


_register_pool("max_pool", "MaxPool", "The maximum of each window.")
_register_pool("avg_pool", "AveragePool", "The mean of each window; padding counts as zeros.", count_include_pad=1)


def _register_per_channel(name: str, operator: str, meaning: str) -> None:
    @builtin(name, meaning=meaning)
    def function(ctx: Context, x: Matrix, b: Matrix, /) -> Value:
        channels = b.rows
        if not isinstance(channels, int) or not channels:
            raise UnsupportedCase("the number of channels is not known")
        if channels == 1:  # one number for all
            return Matrix(tensor_operator(ctx, operator, x.tensor, ctx.viewed(b, (1,) * x.tensor.rank)), x.rows, x.cols)
        images = ctx.viewed(x, _channel_view(x, channels))
        per_channel = ctx.viewed(b, (1, channels, *[1] * (images.rank - 2)))
        return Matrix(tensor_operator(ctx, operator, images, per_channel), x.rows, x.cols)


_register_per_channel("bias_add", "+", "The sum of each channel and its bias.")
_register_per_channel("bias_multiply", "*", "The product of each channel and its factor.")


@builtin("conv2d_backward_data")
def conv2d_backward_data(
    ctx: Context, w: Matrix, x: Matrix, input_shape: Sizes, filter_shape: Sizes, stride: Sizes, padding: Sizes
) -> Value:
    """The gradient of `conv2d` by its images, a transposed convolution; `input_shape` is the shape of the result."""
    windows = _Windows.of(filter_shape[2:], stride, padding)
    images = ctx.viewed(x, (x.rows, filter_shape[0], *windows.extents(input_shape)))
    filters = ctx.viewed(w, tuple(filter_shape))
    return ctx.matrix(_transposed_convolution(ctx, images, filters, windows, (filter_shape[1], *input_shape[2:])))


def _transposed_convolution(ctx: Context, images: Tensor, filters: Tensor, windows: _Windows, result: Dims) -> Tensor:
    """Return the images from which a convolution comes; `result` are their channels, height and width."""
    sizes = known_sizes(result[1:], "height and width of the result")
    extents = known_sizes(images.dims[2:], "height and width of the images")
    more = tuple(size - ((extent - 1) * d + k - 2 * p) for size, extent, k, d, p in zip(sizes, extents, *windows))
    attributes = windows.attributes | {"output_padding": more}
    return ctx.g.node("ConvTranspose", [images, filters], (images.dims[0], result[0], *sizes), **attributes)


@builtin("conv2d_backward_filter")
def conv2d_backward_filter(
    ctx: Context, x: Matrix, dout: Matrix, input_shape: Sizes, filter_shape: Sizes, stride: Sizes, padding: Sizes
) -> Value:
    """The gradient of `conv2d` by its filters: a convolution of the images, channels first, by the gradient."""
    window, strides, pads = windows = _Windows.of(filter_shape[2:], stride, padding)
    g, filters, channels, extents = ctx.g, filter_shape[0], filter_shape[1], windows.extents(input_shape)
    kernel = known_sizes(extents, "height and width of the gradient")
    images = g.transpose(image(ctx, x, input_shape), (1, 0, 2, 3))
    moved = g.transpose(ctx.viewed(dout, (x.rows, filters, *extents)), (1, 0, 2, 3))
    whole = tuple(_extent(s, (k - 1) * d + 1, 1, p) for s, k, d, p in zip(input_shape[2:], kernel, strides, pads))
    attributes = _Windows(kernel, (1, 1), pads).attributes | {"dilations": strides}
    found = g.node("Conv", [images, moved], (channels, filters, *whole), **attributes)
    for axis, size in enumerate(window, 2):  # of a rest of the image that no window reaches
        found = g.slice(found, axis, 0, size)
    return ctx.matrix(g.transpose(found, (1, 0, 2, 3)))


@builtin("max_pool_backward")
def max_pool_backward(
    ctx: Context, x: Matrix, dout: Matrix, input_shape: Sizes, pool_size: Sizes, stride: Sizes, padding: Sizes
) -> Value:
    """The gradient of `max_pool`: each number goes to the first maximum of its window."""
    windows = _Windows.of_pooling(pool_size, stride, padding)
    overlap = any(k > d for k, d in zip(windows.size, windows.strides))
    g = ctx.g
    if overlap:
        ctx.check_opset(SCATTER_SINCE, f"the gradient of pooling by windows that overlap in opset {g.opset}")
    dims = (x.rows, input_shape[1], *windows.extents(input_shape))
    kinds = [(FLOAT, dims), (INT, dims)]
    _, places = g.nodes("MaxPool", [image(ctx, x, input_shape)], kinds, **windows.attributes)
    total, flat = x.rows * x.cols, (product(dims),)
    inputs = [g.filled(0.0, (total,)), g.reshape(places, flat), ctx.viewed(dout, flat)]
    more = {"reduction": "add"} if overlap else {}
    return Matrix(g.node("ScatterElements", inputs, (total,), axis=0, **more), x.rows, x.cols)


@builtin("avg_pool_backward")
def avg_pool_backward(
    ctx: Context, x: Matrix, dout: Matrix, input_shape: Sizes, pool_size: Sizes, stride: Sizes, padding: Sizes
) -> Value:
    """The gradient of `avg_pool`: each number is spread over its window; overlapping windows add up."""
    window, strides, pads = windows = _Windows.of_pooling(pool_size, stride, padding)
    g, channels, extents = ctx.g, input_shape[1], windows.extents(input_shape)
    share = 1.0 / (window[0] * window[1])
    if window == strides and not any(pads) and tuple(n * k for n, k in zip(extents, window)) == tuple(input_shape[2:]):
        spread = ctx.viewed(dout, (dout.rows, channels, extents[0], 1, extents[1], 1))
        whole = g.expand(spread, (dout.rows, channels, extents[0], window[0], extents[1], window[1]))
        return ctx.matrix(g.reshape(whole, (dout.rows, channels, *input_shape[2:])) * share)
    images = ctx.viewed(dout, (dout.rows * channels, 1, *extents))
    filters = g.filled(share, (1, 1, *window))
    found = _transposed_convolution(ctx, images, filters, windows, (1, *input_shape[2:]))
    return Matrix(found, dout.rows, x.cols)


@builtin("batch_norm2d")
def batch_norm2d(
    ctx: Context, x: Matrix, gamma: Matrix, beta: Matrix, ema_mean: Matrix, ema_var: Matrix, mode: str, epsilon: float,
    mu: float,
) -> tuple[Value, ...]:
    """The normalized channels, the updated averages, and the mean and inverse standard deviation that were used."""
    if mode.lower() not in ("train", "test"):
        raise UnsupportedCase(f"the mode of batch_norm2d is train or test, not {mode}")
    g, channels = ctx.g, gamma.rows
    if not isinstance(channels, int):
        raise UnsupportedCase("the number of channels is not known")
    images = ctx.viewed(x, _channel_view(x, channels))
    stored = [ctx.viewed(m, (channels,)) for m in (gamma, beta, ema_mean, ema_var)]
    if mode.lower() == "test":
        out = g.node("BatchNormalization", [images, *stored], images.dims, epsilon=epsilon)
        own = _inverse_deviation(ctx.flat(ema_var), epsilon)
        return Matrix(out, x.rows, x.cols), ema_mean, ema_var, ema_mean, ctx.matrix(own)
    axes = tuple(axis for axis in range(images.rank) if axis != 1)
    mean = g.reduce("ReduceMean", images, axes)
    centered = images - mean
    variance = g.reduce("ReduceMean", centered * centered, axes)
    inverse = _inverse_deviation(variance, epsilon)
    scale, shift = (g.reshape(stored[i], mean.dims) for i in (0, 1))
    scaled = centered * inverse * scale + shift
    # the engine moves the average of the variances by the mean, too
    updated = [_moving(ctx, old, mean, mu) for old in (ema_mean, ema_var)]
    caches = [ctx.matrix(g.reshape(t, (channels, 1))) for t in (mean, inverse)]
    return Matrix(scaled, x.rows, x.cols), *updated, *caches


def _inverse_deviation(variance: Tensor, epsilon: float) -> Tensor:
    """Return 1 divided by the deviation, which a small number keeps from 0."""
    return (variance + epsilon).root().apply("Reciprocal")


def _channel_view(x: Matrix, channels: int) -> Dims:
    """Return dims with the channels second: those that the matrix has or had before it was flattened."""
    for tensor in (x.tensor, source_of(x.tensor, "Reshape")):
        if tensor is not None and tensor.rank > 2 and tensor.dims[:2] == (x.rows, channels):
            return tensor.dims
    return (x.rows, channels, x.cols // channels)


def _moving(ctx: Context, old: Matrix, new: Tensor, mu: float) -> Value:
    """Return ``mu*old + (1-mu)*new``."""
    return ctx.matrix(ctx.flat(old) * mu + ctx.g.reshape(new, old.dims) * (1.0 - mu))


refuse("batch_norm2d_backward", "lstm_backward", reason="the gradient of this layer is for training",
       hint="export the function that scores")
