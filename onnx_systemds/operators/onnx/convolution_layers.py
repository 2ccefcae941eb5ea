"""What the forms of a convolution share: the filters, the sizes, and how the engine takes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api.layout import View
from onnx_systemds.operators.support.movement import Source
from onnx_systemds.operators.support.windows import Windows

MOST_TAPS = 25  # taps of a filter that are written out
FEWEST_CHANNELS, FEWEST_FILTERS, FEWEST_PIXELS = 32, 16, 8192  # from which on stacked taps are faster for one image
FEWEST_CHANNEL_GROUPS, FEWEST_GROUPS = 3, 9
"""Groups of one and of several channels from which on one convolution of sparse filters is faster than one of each."""
LARGEST_GROWTH = 4  # times the size of the filters
SPARSE_ROW = 100  # bytes that the engine reckons for a row of a sparse matrix, at least, besides 12 for a value


def are_sparse(group: int, planes: int, taps: int) -> bool:
    """Whether there are many groups, and the engine stores their filters over all channels as a sparse matrix.

    In a dense matrix the zeros would carry NaN and Inf from one group to the others. planes: that one filter reads.
    """
    fewest = FEWEST_CHANNEL_GROUPS if planes == 1 else FEWEST_GROUPS
    return group >= fewest and is_sparse(group * planes * taps, planes * taps)


@dataclass(frozen=True, slots=True)
class Filters:
    """The weight: its known content, if any, and how its identifier is got in a view."""

    content: Array | None
    read: Source

    def of_whole_images(self, layer: Layer) -> Array | None:
        """What images are multiplied by, one in each row, where each window meets all of an image.

        None where that is not so, as zeros of the matrix would then carry NaN and Inf to other windows, or where the
        matrix would be much larger than the filters.
        """
        taps = layer.window.taps_of_whole_images()
        if self.content is None or layer.group > 1 or taps is None:
            return None
        rows, cols = taps  # [line, line of the result], [column, column of the result]
        if rows.size * cols.size > LARGEST_GROWTH * math.prod(layer.window.kernel):
            return None
        filters = self.content.reshape(layer.filters, layer.channels, *layer.window.kernel)
        met = filters[:, :, rows[:, np.newaxis, :, np.newaxis], cols[np.newaxis, :, np.newaxis, :]]
        (height, lines), (width, columns) = rows.shape, cols.shape
        return met.transpose(1, 2, 3, 0, 4, 5).reshape(layer.channels * height * width, layer.filters * lines * columns)


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution over two spatial axes: ``filters`` of ``channels // group`` planes each."""

    batch: Dim
    channels: int
    filters: int
    group: int
    window: Windows
    bias: str | None = None
    """Identifier of a column with a number for each filter."""

    def biased(self, images: str) -> str:
        """Images with the bias added."""
        return images if self.bias is None else f"bias_add({images}, {self.bias})"

    @property
    def planes(self) -> int:
        """Input planes that one filter reads."""
        return self.channels // self.group

    @property
    def has_holes_to_skip(self) -> bool:
        """Whether it is depthwise and dilated, and small and known enough to be written tap by tap."""
        window = self.window
        is_plain = self.planes == 1 and self.filters == self.group > 1 and set(window.strides) == {1}
        known = all_known((*window.sizes, *window.outputs)) and math.prod(window.kernel) <= MOST_TAPS
        return is_plain and known and window.kernel != window.extents

    @property
    def is_better_stacked(self) -> bool:
        """Whether it is dilated, where the builtin would read holes, or of one image, where it has one thread."""
        window = self.window
        taps = math.prod(window.kernel)
        if self.group > 1 or set(window.strides) != {1} or not 1 < taps <= MOST_TAPS:
            return False
        if window.kernel != window.extents:
            return True
        if self.batch != 1 or not all_known((*window.sizes, *window.outputs)):  # else the bounds are long texts
            return False
        pixels = product(window.outputs)
        is_deep = self.channels >= FEWEST_CHANNELS and self.filters >= FEWEST_FILTERS
        return is_deep and isinstance(pixels, int) and pixels >= FEWEST_PIXELS

    @property
    def has_sparse_filters(self) -> bool:
        """Whether its filters are better those of all channels, see `are_sparse`."""
        return are_sparse(self.group, self.planes, math.prod(self.window.extents))

    @property
    def output_view(self) -> View:
        """The view in which the result comes: an image per row."""
        return View(self.batch, self.filters * product(self.window.outputs))


def is_sparse(cols: int, entries: int) -> bool:
    """Whether the engine stores a matrix of so many columns, and entries in each row, as a sparse one."""
    return 8 * cols > SPARSE_ROW + 12 * max(4, entries)


def dense(convolution: str, filters: int) -> str:
    """A convolution without bias, with a bias of zeros: else the engine is wrong where the images are nearly empty.

    Under 0.00004 of other numbers than 0, it has the filters overwrite each other in a sparse result.
    """
    return f"bias_add({convolution}, matrix(0, rows={filters}, cols=1))"
