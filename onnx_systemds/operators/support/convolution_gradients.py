"""What derivatives of convolutions, pooling and normalisation by channel share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.backward import Backward
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.model.ir import DERIVATIVES
from onnx_systemds.operators.support.windows import windows

END = 2**31 - 1
"""Of a Slice to the end."""


@dataclass(frozen=True)
class Grid:
    """Windows whose padding is known. rest: elements after the last one of each axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    rest: tuple[int, ...]

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the convolution."""
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}


def known_grid(n: Backward, sizes: Dims, kernel: Sequence[int]) -> Grid:
    """The windows of a kernel over axes of known sizes, or of any with strides of 1. Raises UnsupportedCase."""
    found = windows(n, sizes, kernel)
    before, after = known_integers(n, found.before), known_integers(n, found.after)
    ends = zip(before, found.sizes, after, found.outputs, found.extents, found.strides)
    rest = known_integers(n, [0 if stride == 1 else start + size + end - extent - (count - 1) * stride
                              for start, size, end, count, extent, stride in ends])
    return Grid(tuple(kernel), found.strides, found.dilations, (*before, *after), rest)


def known_integers(n: Backward, sizes: Sequence[Dim]) -> tuple[int, ...]:
    """Spatial sizes as integers. Raises UnsupportedCase where they are expressions."""
    known = as_ints(sizes)
    if known is None:
        raise UnsupportedCase(f"the derivative of {n.node.op_type} needs known spatial dims", hint="fix them by --dim")
    return known


def channel_sum(n: Backward, name: str, rank: int) -> str:
    """Summed over all axes but the channels'."""
    return n.total(name, [0, *range(2, rank)], keepdims=0)


def by_channel(n: Backward, name: str, rank: int) -> str:
    """A number for each channel, to be broadcast along the other axes."""
    return n.emit("Reshape", name, n.known([1, -1, *[1] * (rank - 2)]))


def image_gradient(n: Backward, group: int, grid: Grid) -> str:
    """The derivative by a convolution's input: a transposed convolution of the derivative by its output.

    Of a depthwise one with strides of 1 it is a convolution with the kernel turned, which is faster.
    """
    weight, attributes = n.node.inputs[1], grid.attributes
    filters, planes, *kernel = n.known_dims(1, "the derivative of a convolution")
    around = [(size - 1) * step - pad for size, step, pad in zip(kernel * 2, grid.dilations * 2, grid.pads)]
    if planes > 1 or filters != group or set(grid.strides) != {1} or min(around) < 0 or group == 1:
        return n.emit("ConvTranspose", n.grad, weight, group=group, output_padding=grid.rest, **attributes)
    turned = n.reversed(weight, range(2, len(kernel) + 2))
    return n.emit("Conv", n.grad, turned, group=group, **{**attributes, "pads": tuple(around)})


def filter_gradient(n: Backward, image: str, grad: str, group: int, grid: Grid) -> str:
    """The derivative by a convolution's filters, input 1 of the node, of its input and the derivative of its output."""
    filters, planes, *kernel = n.known_dims(1, "the derivative of a convolution")
    if len(kernel) <= 2 and set(grid.dilations) == {1}:
        return n.emit(
            "ConvFilterGradient", image, grad, domain=DERIVATIVES, kernel_shape=grid.kernel, strides=grid.strides,
            pads=grid.pads, rest=grid.rest, group=group,
        )
    rank = len(kernel)
    spatial = n.known(range(2, rank + 2))
    if any(grid.pads):
        image = n.emit("Pad", image, n.known([0, 0, *grid.pads[:rank], 0, 0, *grid.pads[rank:]]))
    taps: list[str] = []
    for place in product(*map(range, kernel)):
        starts = [number * step for number, step in zip(place, grid.dilations)]
        extents = [(size - 1) * step for size, step in zip(kernel, grid.dilations)]
        ends = [start - extent if start < extent else END for start, extent in zip(starts, extents)]
        under = n.emit("Slice", image, n.known(starts), n.known(ends), spatial, n.known(grid.strides))
        parts = [n.emit("Reshape", name, n.known([0, group, size, -1]))
                 for name, size in ((under, planes), (grad, filters // group))]
        found = n.emit("Einsum", *parts, equation="ngcp,ngfp->gfc")
        taps.append(n.emit("Reshape", found, n.known([filters, planes, 1])))
    return n.emit("Reshape", n.emit("Concat", *taps, axis=2), n.known([filters, planes, *kernel]))
