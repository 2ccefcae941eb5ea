"""The chain rule for operators over windows and channels: convolutions, pooling, batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.gradient_tape import Backward, rule
from onnx_systemds.model import protos
from onnx_systemds.operators.support.windows import windows


@dataclass(frozen=True)
class _Grid:
    """Windows whose sizes are all known. rest: elements behind the last window of each axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    rest: tuple[int, ...]

    @property
    def attributes(self) -> dict[str, tuple[int, ...]]:
        """Those of the convolution."""
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}


def _grid(n: Backward, sizes: Dims, kernel: Sequence[int]) -> _Grid:
    found = windows(n, sizes, kernel)
    numbers = [_integers(n, item) for item in (found.sizes, found.before, found.after, found.outputs)]
    rest = tuple(
        before + size + after - extent - (count - 1) * stride
        for size, before, after, count, extent, stride in zip(*numbers, found.extents, found.strides)
    )
    return _Grid(tuple(kernel), found.strides, found.dilations, (*numbers[1], *numbers[2]), rest)


def _integers(n: Backward, sizes: Sequence[Dim]) -> tuple[int, ...]:
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedCase(f"the derivative of {n.node.op_type} needs known spatial dims", hint="fix them by --dim")
    return tuple(size for size in sizes if isinstance(size, int))


def _channel_sum(n: Backward, name: str, rank: int) -> str:
    """Summed over all axes but the channels'."""
    return n.emit("ReduceSum", name, n.tape.integers([0, *range(2, rank)]), keepdims=0)


def _by_channel(n: Backward, name: str, rank: int) -> str:
    """A number for each channel, to be broadcast along the other axes."""
    return n.emit("Reshape", name, n.tape.integers([1, -1, *[1] * (rank - 2)]))


# --- convolutions ----------------------------------------------------------------------------------------------


@rule("Conv")
def _conv(n: Backward) -> Sequence[str]:
    weight = n.known_dims(1, "the derivative of a convolution")
    grid, group = _grid(n, n.dims(0)[2:], weight[2:]), int(n.attribute("group"))
    results = [""] * n.input_count
    if n.needs(0):
        results[0] = n.emit(
            "ConvTranspose", n.grad, n.node.inputs[1], group=group, output_padding=grid.rest, **grid.attributes
        )
    if n.needs(1):
        results[1] = _by_filters(n, n.x, n.grad, group, grid)
    if n.needs(2):
        results[2] = _channel_sum(n, n.grad, n.rank(0))
    return results


@rule("ConvTranspose")
def _conv_transpose(n: Backward) -> Sequence[str]:
    weight = n.known_dims(1, "the derivative of a convolution")
    if n.attribute("output_shape") or (n.attribute("auto_pad") or "NOTSET") not in ("NOTSET", "VALID"):
        raise UnsupportedCase("the derivative of a ConvTranspose whose padding follows from its output's size")
    sizes = n.values[n.out].dims or ()
    grid, group = _grid(n, sizes[2:], weight[2:]), int(n.attribute("group"))
    results = [""] * n.input_count
    if n.needs(0):
        results[0] = n.emit("Conv", n.grad, n.node.inputs[1], group=group, **grid.attributes)
    if n.needs(1):
        results[1] = _by_filters(n, n.grad, n.x, group, grid)
    if n.needs(2):
        results[2] = _channel_sum(n, n.grad, n.rank(0))
    return results


def _by_filters(n: Backward, image: str, grad: str, group: int, grid: _Grid) -> str:
    """The derivative by a convolution's filters: a convolution of its input by the derivative of its output.

    The batch takes the channels' place, and strides and dilations change roles.
    """
    rank = len(grid.kernel) + 2
    spatial = tuple(range(2, rank))
    swap = (1, 0, *spatial)
    if group == 1:
        turned = n.emit("Transpose", image, perm=swap)
    else:
        batch = n.emit("Shape", image, start=0, end=1)
        space = n.emit("Shape", image, start=2)
        split = n.emit("Concat", batch, n.tape.integers([group, -1]), space, axis=0)
        parts = n.emit("Transpose", n.emit("Reshape", image, split), perm=(2, 1, 0, *range(3, rank + 1)))
        channels = n.emit("Shape", parts, start=0, end=1)
        joined = n.emit("Concat", channels, n.tape.integers([-1]), space, axis=0)
        turned = n.emit("Reshape", parts, joined)
    filters = n.emit("Transpose", grad, perm=swap)
    found = n.emit(
        "Conv", turned, filters, group=group, pads=grid.pads, strides=grid.dilations, dilations=grid.strides
    )
    if any(rest >= step for rest, step in zip(grid.rest, grid.dilations)):
        starts, ends = n.tape.integers([0] * len(spatial)), n.tape.integers(grid.kernel)
        found = n.emit("Slice", found, starts, ends, n.tape.integers(spatial))
    return n.emit("Transpose", found, perm=swap)


# --- pooling ---------------------------------------------------------------------------------------------------


@rule("MaxPool")
def _max_pool(n: Backward) -> Sequence[str]:
    """To the element that each maximum was taken from."""
    attributes = {name: value for name, value in n.node.attributes.items() if name != "storage_order"}
    _, taken = n.tape.emit_several("MaxPool", 2, n.x, **attributes)
    flat = n.tape.integers([-1])
    zeros = n.emit("Reshape", n.tape.filled_like(n.x, n.dtype(0), 0.0), flat)
    index, grad = n.emit("Reshape", taken, flat), n.emit("Reshape", n.grad, flat)
    return [n.shaped(n.emit("ScatterElements", zeros, index, grad, axis=0, reduction="add"))]


@rule("AveragePool")
def _average_pool(n: Backward) -> Sequence[str]:
    """To all elements of a window alike; what is padded counts only where the attribute says so."""
    if n.attribute("ceil_mode"):
        raise UnsupportedCase("the derivative of an AveragePool with ceil_mode")
    channels = _integers(n, n.dims(0)[1:2])[0]
    kernel = tuple(n.attribute("kernel_shape"))
    grid = _grid(n, n.dims(0)[2:], kernel)
    ones = np.ones((channels, 1, *kernel), protos.numpy_dtype(n.dtype(0)))
    filters = n.emit("Constant", value=ones)
    if n.attribute("count_include_pad"):
        count = n.number(float(np.prod(kernel)))
    else:
        whole = n.tape.filled_like(n.x, n.dtype(0), 1.0)
        count = n.emit("Conv", whole, filters, group=channels, **grid.attributes)
    share = n.emit("Div", n.grad, count)
    return [n.emit("ConvTranspose", share, filters, group=channels, output_padding=grid.rest, **grid.attributes)]


@rule("GlobalMaxPool")
def _global_max_pool(n: Backward) -> Sequence[str]:
    """Equal maxima share the derivative."""
    hits = n.emit("CastLike", n.emit("Equal", n.x, n.out), n.x)
    total = n.emit("ReduceSum", hits, n.tape.integers(range(2, n.rank(0))))
    return [n.times(n.emit("Div", hits, total), n.grad)]


# --- normalisation ---------------------------------------------------------------------------------------------


@rule("BatchNormalization")
def _batch_normalization(n: Backward) -> Sequence[str]:
    """With the statistics given, or since opset 14 with those of the batch."""
    rank = n.rank(0)
    trains = bool(n.attribute("training_mode"))
    if (n.version < 14 and any(n.node.outputs[1:])) or (n.version < 7 and not n.attribute("is_test")):
        raise UnsupportedCase("the derivative of a BatchNormalization that trains, before opset 14")
    scale, mean, variance = (n.node.inputs[position] for position in (1, 3, 4))
    centred_by = _by_channel(n, mean, rank)
    spread = _by_channel(n, variance, rank)
    others = n.tape.integers([0, *range(2, rank)])
    if trains:
        centred_by = n.emit("ReduceMean", n.x, others)
        deviation = n.emit("Sub", n.x, centred_by)
        spread = n.emit("ReduceMean", n.times(deviation, deviation), others)
    root = n.emit("Sqrt", n.emit("Add", spread, n.number(float(n.attribute("epsilon")))))
    normal = n.emit("Div", n.emit("Sub", n.x, centred_by), root)
    weighted = n.times(n.grad, normal)
    factor = n.emit("Div", _by_channel(n, scale, rank), root)
    inner = n.grad
    if trains:
        common = n.emit("ReduceMean", n.grad, others)
        common = n.emit("Add", common, n.times(normal, n.emit("ReduceMean", weighted, others)))
        inner = n.emit("Sub", n.grad, common)
    results = [n.times(inner, factor) if n.needs(0) else "", "", "", "", ""]
    results[1] = _channel_sum(n, weighted, rank) if n.needs(1) else ""
    results[2] = _channel_sum(n, n.grad, rank) if n.needs(2) else ""
    if not trains and n.needs(3):
        results[3] = n.emit("Neg", _channel_sum(n, n.times(n.grad, factor), rank))
    if not trains and n.needs(4):
        by_spread = n.emit("Div", n.times(n.times(weighted, factor), -0.5), root)
        results[4] = _channel_sum(n, by_spread, rank)
    return results
