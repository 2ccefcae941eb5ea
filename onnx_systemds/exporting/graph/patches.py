"""Finds the windows of an image that a script cuts out and puts side by side (im2col): `patches_of`.

However the script does it: what only moves elements is followed from an image on, with the positions of its elements
instead of its numbers, and the outcome is compared with what the windows of a convolution would give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_systemds.exporting.graph.folding import moved
from onnx_systemds.exporting.graph.nodes import FLOAT, Array, Node, Tensor, repeated_number
from onnx_systemds.inference.known_dims import all_known, as_ints

_LARGEST = 1 << 24
_MOST_MOVES = 64
OUTSIDE = -1
"""The position of what is no element of an image."""


@dataclass(frozen=True, eq=False)
class Patches:
    """A column per window of an image of `shape` (channels, height, width), and in it a row per channel and place.

    extents: how many windows there are down and across. padding: the number around the image, None where no window
    leaves it. pads: top, left, bottom, right.
    """

    image: Tensor
    shape: tuple[int, int, int]
    window: tuple[int, int]
    extents: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    padding: float | None

    def attributes(self) -> dict[str, Any]:
        """What a Conv or a pooling says of its windows."""
        plain: dict[str, Any] = {"kernel_shape": self.window, "strides": self.strides, "pads": self.pads}
        return plain if self.dilations == (1, 1) else plain | {"dilations": self.dilations}


def patches_of(x: Tensor) -> Patches | None:
    """Return the windows of an image that the columns of a matrix are, None where they are no such thing."""
    chain = list(_movements(x))
    if not any(node.op in ("Gather", "Slice", "Pad") for node in chain):
        return None
    for image in (node.operand() for node in chain):
        shape = _image_shape(image)
        if shape is None:
            continue
        following = Following(image)
        places = following.places(x)
        found = None if places is None else windows(image, shape, places, following.padding)
        if places is None or found is not None:
            return found
    return None


def _movements(x: Tensor) -> Iterator[Node]:
    """Return the nodes before a tensor that only move its elements, first to last."""
    found: list[Node] = []
    while x.node is not None and moved(x.node.op) and all_known(x.dims):
        source, *others = x.node.inputs
        if source is None or any(other is not None and other.constant is None for other in others):
            break
        found.append(x.node)
        x = source
    return reversed(found)


def _image_shape(image: Tensor) -> tuple[int, int, int] | None:
    """Return channels, height and width of a tensor that may be an image."""
    dims = as_ints(image.dims)
    if dims is None or math.prod(dims) > _LARGEST:
        return None
    while len(dims) > 3 and dims[0] == 1:
        dims = dims[1:]
    if not 2 <= len(dims) <= 3:
        return None
    channels, height, width = (*[1] * (3 - len(dims)), *dims)
    return channels, height, width


@dataclass
class Following:
    """The positions that elements come from in `source`, else in the only tensor that is no move.

    padding: the number of all others. joins: whether there are several parts.
    """

    source: Tensor | None = None
    padding: float | None = None
    joins: bool = False
    known: dict[Tensor, Array] = field(default_factory=dict)

    def places(self, x: Tensor) -> Array | None:
        """Return where the elements of a tensor come from, None where they are no moved ones."""
        sizes = as_ints(x.dims)
        if sizes is None or math.prod(sizes) > _LARGEST or len(self.known) > _MOST_MOVES:
            return None
        if x not in self.known:
            found = self._made(x, sizes)
            if found is None or found.shape != sizes:
                return None
            self.known[x] = found
        return self.known[x]

    def _made(self, x: Tensor, sizes: tuple[int, ...]) -> Array | None:
        if x is self.source:
            return np.arange(math.prod(sizes), dtype=np.int32).reshape(sizes)
        filling, node = repeated_number(x), x.node
        if filling is not None:
            return np.full(sizes, OUTSIDE, np.int32) if self._is_outside(filling) else None
        if node is not None and node.op == "Concat":
            self.joins = True
            parts = [None if part is None else self.places(part) for part in node.inputs]
            own = [part for part in parts if part is not None]
            return np.concatenate(own, axis=node.integer("axis")) if len(own) == len(parts) else None
        rule = None if node is None else moved(node.op)
        contents = [content for content in node.further_contents() if content is not None] if node is not None else []
        if node is not None and rule is not None and len(contents) == len(node.inputs) - 1:
            if node.op == "Pad":
                number = float(contents[1].item()) if len(contents) > 1 else 0.0
                if node.attributes or not self._is_outside(number):
                    return None
                contents[1:] = [np.array(OUTSIDE)]
            before = self.places(node.operand())
            return None if before is None else np.asarray(rule(before, *contents, **node.attributes))
        if self.source is not None or x.kind != FLOAT:
            return None
        self.source = x
        return self._made(x, sizes)

    def _is_outside(self, number: float) -> bool:
        """Whether all that comes from elsewhere is this number."""
        if self.padding is None:
            self.padding = number
        return self.padding == number


def windows(image: Tensor, shape: tuple[int, int, int], places: Array, padding: float | None) -> Patches | None:
    """Return the windows that `places` (rows x windows) are."""
    channels, height, width = shape
    if places.ndim != 2 or places.shape[0] % channels or places.shape[1] < 2:
        return None
    for kernel in _factors(places.shape[0] // channels):
        if kernel == (1, 1):
            continue
        for extents in _factors(places.shape[1]):
            split = places.reshape(channels, *kernel, *extents)
            down = _axis(np.where(split < 0, -1, split // width % height).max(axis=(0, 2, 4)), height)
            across = _axis(np.where(split < 0, -1, split % width).max(axis=(0, 1, 3)), width)
            if down is None or across is None or not _agree(split, shape, down, across):
                continue
            strides, dilations = (down.stride, across.stride), (down.dilation, across.dilation)
            pads = (down.before, across.before, down.after, across.after)
            outside = padding if (places < 0).any() else None
            return Patches(image, shape, kernel, extents, strides, dilations, pads, outside)
    return None


def _factors(number: int) -> Iterator[tuple[int, int]]:
    """Return the pairs of numbers with a product, those that are nearly equal first."""
    pairs = [(n, number // n) for n in range(1, number + 1) if number % n == 0]
    return iter(sorted(pairs, key=lambda pair: abs(math.log(pair[0] / pair[1]))))


@dataclass(frozen=True)
class _Axis:
    """Windows along one axis: one at every `stride`, from `before` positions before the image on."""

    stride: int
    dilation: int
    before: int
    after: int

    def places(self, window: int, extent: int) -> Array:
        """Return where the windows lie in the image, window x extent, also positions outside of it."""
        return np.arange(window)[:, None] * self.dilation + np.arange(extent) * self.stride - self.before


def _axis(coordinates: Array, size: int) -> _Axis | None:
    """Return the windows whose positions (window x extent, -1 outside of the image) are these coordinates."""
    window, extent = coordinates.shape
    inside = np.argwhere(coordinates >= 0)
    if not len(inside) or (extent == 1 and size > 1):
        return None
    dilation = _difference(coordinates) if window > 1 else 1
    stride = _difference(coordinates.T) if extent > 1 else 1
    if dilation is None or stride is None or dilation < 1 or stride < 1:
        return None
    place, number = inside[0].tolist()
    before = number * stride + place * dilation - int(coordinates[place, number])
    reach = (window - 1) * dilation + 1
    after = max(0, (extent - 1) * stride + reach - size - before)
    if before < 0:
        return None
    found = next((a for a in (before, after) if (size + before + a - reach) // stride + 1 == extent), None)
    return None if found is None else _Axis(stride, dilation, before, found)


def _difference(coordinates: Array) -> int | None:
    """Return the step from a row to the next where both are inside."""
    both = np.argwhere((coordinates[:-1] >= 0) & (coordinates[1:] >= 0))
    if not len(both):
        return None
    row, column = both[0].tolist()
    return int(coordinates[row + 1, column] - coordinates[row, column])


def _agree(split: Array, shape: tuple[int, int, int], down: _Axis, across: _Axis) -> bool:
    """Whether positions (channel x window x extents) are exactly those of windows."""
    channels, height, width = shape
    _, tall, wide, rows, columns = split.shape
    y = down.places(tall, rows)[None, :, None, :, None]
    x = across.places(wide, columns)[None, None, :, None, :]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    channel = np.arange(channels).reshape(channels, 1, 1, 1, 1)
    return np.array_equal(split, np.where(inside, (channel * height + y) * width + x, OUTSIDE))
