"""What derivatives of convolutions, pooling and normalisation by channel share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.backward import Backward
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.operators.support.windows import windows


@dataclass(frozen=True)
class Grid:
    """Windows whose sizes are all known. rest: elements after the last window of each axis."""

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
    """The windows of a kernel over axes of known sizes. Raises UnsupportedCase for others."""
    found = windows(n, sizes, kernel)
    numbers = [known_integers(n, item) for item in (found.sizes, found.before, found.after, found.outputs)]
    rest = tuple(
        before + size + after - extent - (count - 1) * stride
        for size, before, after, count, extent, stride in zip(*numbers, found.extents, found.strides)
    )
    return Grid(tuple(kernel), found.strides, found.dilations, (*numbers[1], *numbers[2]), rest)


def known_integers(n: Backward, sizes: Sequence[Dim]) -> tuple[int, ...]:
    """Spatial sizes as integers. Raises UnsupportedCase where they are expressions."""
    known = as_ints(sizes)
    if known is None:
        raise UnsupportedCase(f"the derivative of {n.node.op_type} needs known spatial dims", hint="fix them by --dim")
    return known


def channel_sum(n: Backward, name: str, rank: int) -> str:
    """Summed over all axes but the channels'."""
    return n.emit("ReduceSum", name, n.known([0, *range(2, rank)]), keepdims=0)


def by_channel(n: Backward, name: str, rank: int) -> str:
    """A number for each channel, to be broadcast along the other axes."""
    return n.emit("Reshape", name, n.known([1, -1, *[1] * (rank - 2)]))


def filter_gradient(n: Backward, image: str, grad: str, group: int, grid: Grid) -> str:
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
        split = n.emit("Concat", batch, n.known([group, -1]), space, axis=0)
        parts = n.emit("Transpose", n.emit("Reshape", image, split), perm=(2, 1, 0, *range(3, rank + 1)))
        channels = n.emit("Shape", parts, start=0, end=1)
        joined = n.emit("Concat", channels, n.known([-1]), space, axis=0)
        turned = n.emit("Reshape", parts, joined)
    filters = n.emit("Transpose", grad, perm=swap)
    found = n.emit("Conv", turned, filters, group=group, pads=grid.pads, strides=grid.dilations, dilations=grid.strides)
    if any(rest >= step for rest, step in zip(grid.rest, grid.dilations)):
        starts, ends = n.known([0] * len(spatial)), n.known(grid.kernel)
        found = n.emit("Slice", found, starts, ends, n.known(spatial))
    return n.emit("Transpose", found, perm=swap)
