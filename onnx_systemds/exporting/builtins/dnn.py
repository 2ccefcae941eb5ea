"""The builtins of neural networks on linearised images: convolution, pooling, bias."""

from __future__ import annotations

from typing import Any

from onnx_systemds.dims import Dim, Dims, add, floor_divide
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.operators import tensor_operator
from onnx_systemds.exporting.builtins.registry import Sizes, builtin
from onnx_systemds.exporting.graph import Tensor
from onnx_systemds.exporting.values import Matrix, Value


def image(ctx: Context, x: Matrix, shape: Dims) -> Tensor:
    """Return a matrix as images N x C x H x W; the rows of the matrix say N."""
    return ctx.viewed(x, (x.rows, *shape[1:]))


def _known(sizes: Dims, what: str) -> tuple[int, ...]:
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedCase(f"the {what} must be known when the script is exported")
    return tuple(int(size) for size in sizes)  # type: ignore[arg-type]


def _extent(size: Dim, window: int, stride: int, pad: int) -> Dim:
    return add(floor_divide(add(size, 2 * pad - window), stride), 1)


@builtin("conv2d")
def conv2d(
    ctx: Context, x: Matrix, w: Matrix, input_shape: Sizes, filter_shape: Sizes, stride: Sizes, padding: Sizes
) -> Value:
    """Convolution of linearised images."""
    window, strides, pads = _windows(filter_shape[2:], stride, padding)
    images = image(ctx, x, input_shape)
    filters = ctx.viewed(w, tuple(filter_shape))
    extents = tuple(_extent(s, k, d, p) for s, k, d, p in zip(input_shape[2:], window, strides, pads))
    dims = (x.rows, filter_shape[0], *extents)
    return ctx.matrix(ctx.g.node("Conv", [images, filters], dims, **_window_attributes(window, strides, pads)))


def _windows(window: Dims, stride: Dims, padding: Dims) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return _known(window, "window of a filter"), _known(stride, "stride"), _known(padding, "padding")


def _window_attributes(
    window: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...]
) -> dict[str, Any]:
    return {"kernel_shape": window, "strides": strides, "pads": (*pads, *pads)}


@builtin("max_pool")
def max_pool(
    ctx: Context, x: Matrix, input_shape: Sizes, pool_size: Sizes, stride: Sizes, padding: Sizes
) -> Value:
    """The largest element of each window."""
    return _pooled(ctx, "MaxPool", x, input_shape, pool_size, stride, padding)


@builtin("avg_pool")
def avg_pool(
    ctx: Context, x: Matrix, input_shape: Sizes, pool_size: Sizes, stride: Sizes, padding: Sizes
) -> Value:
    """The mean of each window; padding counts as zeros."""
    return _pooled(ctx, "AveragePool", x, input_shape, pool_size, stride, padding)


def _pooled(ctx: Context, op: str, x: Matrix, shape: Dims, window: Dims, stride: Dims, padding: Dims) -> Value:
    kernel, strides, pads = _windows(window, stride, padding)
    extents = tuple(_extent(s, k, d, p) for s, k, d, p in zip(shape[2:], kernel, strides, pads))
    attributes = _window_attributes(kernel, strides, pads)
    if op == "AveragePool":
        attributes["count_include_pad"] = 1
    return ctx.matrix(ctx.g.node(op, [image(ctx, x, shape)], (x.rows, shape[1], *extents), **attributes))


@builtin("bias_add")
def bias_add(ctx: Context, x: Matrix, b: Matrix) -> Value:
    """Each channel plus its own number."""
    return _per_channel(ctx, "+", x, b)


@builtin("bias_multiply")
def bias_multiply(ctx: Context, x: Matrix, b: Matrix) -> Value:
    """Each channel times its own number."""
    return _per_channel(ctx, "*", x, b)


def _per_channel(ctx: Context, operator: str, x: Matrix, b: Matrix) -> Value:
    channels, dims = b.rows, x.tensor.dims
    if len(dims) > 2 and dims[0] == x.rows and dims[1] == channels:
        images = ctx.g.floating(x.tensor)
    else:
        if not isinstance(channels, int) or not channels:
            raise UnsupportedCase("the number of channels is not known")
        images = ctx.viewed(x, (x.rows, channels, floor_divide(x.cols, channels)))
    per_channel = ctx.viewed(b, (1, channels, *[1] * (images.rank - 2)))
    return Matrix(tensor_operator(ctx, operator, images, per_channel), x.rows, x.cols)

