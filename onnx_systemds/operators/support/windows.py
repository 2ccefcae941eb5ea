"""Windows that slide over spatial axes: pads, auto_pad, output sizes, and padding that the engine cannot do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, Dims, is_non_negative_from_one, maximum, minimum, product
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import NodeFacts, NodeView, View
from onnx_systemds.operators.support.movement import Moved


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows lie on the spatial axes; every field has one entry per axis.

    sizes: of the input. kernel: elements of a window. before, after: the padding that makes rounding down right,
    thus ``after`` is longer than ``declared_after`` where ceil_mode adds a window. outputs: number of windows.
    """

    sizes: Dims
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: Dims
    after: Dims
    declared_after: Dims
    outputs: Dims

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.sizes)

    @property
    def extents(self) -> tuple[int, ...]:
        """Sizes of a window with its holes."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations))

    @property
    def padded_sizes(self) -> Dims:
        """Sizes of the input with its padding."""
        return tuple(before + size + after for before, size, after in zip(self.before, self.sizes, self.after))

    @property
    def is_padded(self) -> bool:
        """Whether there may be padding."""
        return any(pad != 0 for pad in (*self.before, *self.after))

    @property
    def is_pointwise(self) -> bool:
        """Whether each window is one element of the input itself."""
        return all(size == 1 for size in self.kernel) and not self.is_padded

    def taps_of_whole_images(self) -> tuple[Array, ...] | None:
        """For each axis the tap [input element, window] under which each window meets each element.

        None where a window misses an element, or where sizes are unknown.
        """
        if not all_known((*self.sizes, *self.before, *self.outputs)):
            return None
        found = []
        for size, count, kernel, stride, step, before in zip(
            self.sizes, self.outputs, self.kernel, self.strides, self.dilations, self.before
        ):
            least, most = before - (count - 1) * stride, before + size - 1  # of all shifts: no table of them yet
            if 0 in (size, count) or least < 0 or most >= kernel * step:
                return None
            shifts = np.subtract.outer(np.arange(size) + before, np.arange(count) * stride)
            if (shifts % step).any():
                return None
            found.append(shifts // step)
        return tuple(found)

    def axes(self, first: int, last: int) -> Windows:
        """The windows on some of the axes only."""
        return Windows(*(getattr(self, name)[first:last] for name in self.__slots__))

    def with_flat_axis(self) -> Windows:
        """The same windows with an axis of size 1 in front."""
        ones, zeros = (1,), (0,)
        return Windows(
            ones + self.sizes, ones + self.kernel, ones + self.strides, ones + self.dilations, zeros + self.before,
            zeros + self.after, zeros + self.declared_after, ones + self.outputs,
        )

    def without_padding(self) -> Windows:
        """The same windows on the padded input."""
        zeros = (0,) * self.rank
        return replace(self, sizes=self.padded_sizes, before=zeros, after=zeros, declared_after=zeros)


def windows(node: NodeFacts, sizes: Dims, kernel: Sequence[int], *, may_be_none: bool = False) -> Windows:
    """The windows that a node's attributes strides, dilations, pads, auto_pad and ceil_mode describe.

    may_be_none: whether there may be no windows along an axis that is too short for one.
    Raises InvalidModel, UnsupportedCase.
    """
    rank = len(sizes)
    strides = per_axis(node, "strides", rank)
    dilations = per_axis(node, "dilations", rank)
    if len(kernel) != rank:
        raise UnsupportedCase(f"a window of {len(kernel)} axes on {rank} spatial axes")
    if min(kernel, default=1) < 1:
        raise InvalidModel(f"kernel_shape {list(kernel)}: a window has one element at least along each axis")
    ceil = bool(node.attribute("ceil_mode"))
    declared = declared_pads(node, rank)
    found: list[tuple[Dim, Dim, Dim, Dim]] = []
    for axis, size in enumerate(sizes):
        extent = (kernel[axis] - 1) * dilations[axis] + 1
        pads = declared[axis] if declared else same_pads(node, size, strides[axis], extent)
        is_none = may_be_none and _has_none(size, size + sum(pads) - extent, strides[axis], ceil=ceil)
        if declared and not is_none:
            _check_room(node, axis, size, sum(declared[axis]), extent, strides[axis] if ceil else 1)
        found.append(_placed(size, extent, strides[axis], *pads, ceil))
    before, after, declared_after, outputs = (tuple(column) for column in zip(*found)) if found else ((),) * 4
    return Windows(sizes, tuple(kernel), strides, dilations, before, after, declared_after, outputs)


def _has_none(size: Dim, room: Dim, stride: int, *, ceil: bool) -> bool:
    """Whether there is no window along an axis by all who judge it; room: for its start, below 0.

    Without ceil_mode onnxruntime has a window along an axis that lacks less than a stride, the specification none, and
    less than none where it lacks more; so has onnxruntime from two strides on, with ceil_mode too.
    """
    if size == 0 or not isinstance(room, int):
        return False
    return -2 * stride < room <= -stride if ceil else room == -stride


def _check_room(node: NodeFacts, axis: int, size: Dim, padding: int, extent: int, rounding: int) -> None:
    """Refuse an axis without room for a window, of which less than ``rounding`` elements may be outside."""
    whole = size + padding
    # what sticks out begins at an element, of which an empty axis has none
    least = extent if rounding == 1 else max(extent - rounding + 1, padding + 1)
    if isinstance(whole, int) and whole < least:
        raise InvalidModel(f"a window of {extent} is larger than spatial axis {axis} with its padding: {whole}")
    if not is_non_negative_from_one(whole - least):
        words = f"spatial axis {axis} of {quoted(node.node.inputs[0])} with its padding"
        window = "the window" if rounding == 1 else "the least part of a window that counts"
        node.assume(whole, Relation.AT_LEAST, least, words, window)


def per_axis(node: NodeFacts, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with one positive integer per spatial axis, 1 where it is not given. Raises UnsupportedCase."""
    given = tuple(node.attribute(name) or ()) or (1,) * rank
    if len(given) != rank or min(given, default=1) < 1:
        raise UnsupportedCase(f"{name} {list(given)} for {rank} spatial axes")
    return given


def declared_pads(node: NodeFacts, rank: int) -> tuple[tuple[int, int], ...] | None:
    """(before, after) per axis, None where auto_pad asks for output sizes instead. Raises UnsupportedCase."""
    mode = node.attribute("auto_pad") or "NOTSET"
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return None
    if mode == "VALID":
        return ((0, 0),) * rank
    if mode != "NOTSET":
        raise UnsupportedCase(f"auto_pad {mode}")
    pads = given_pads(node, rank)
    return tuple(zip(pads[:rank], pads[rank:]))


def given_pads(node: NodeFacts, rank: int) -> tuple[int, ...]:
    """The attribute pads, zeros by default: before all axes, then after them. Raises UnsupportedCase."""
    pads = tuple(node.attribute("pads") or ()) or (0,) * (2 * rank)
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise UnsupportedCase(f"pads {list(pads)} for {rank} spatial axes")
    return pads


def same_pads(node: NodeFacts, size: Dim, stride: int, extent: int) -> tuple[Dim, Dim]:
    """The padding with which there are ``ceil(size / stride)`` windows; the odd element goes where auto_pad says."""
    outputs = (size + stride - 1) // stride
    total = maximum((outputs - 1) * stride + extent - size, 0) if stride > 1 else max(extent - 1, 0)
    return halves(total, upper=node.attribute("auto_pad") == "SAME_UPPER")


def halves(total: Dim, *, upper: bool) -> tuple[Dim, Dim]:
    """(before, after) of a padding; the odd element is at the end where ``upper``."""
    half = total // 2
    return (half, total - half) if upper else (total - half, half)


def _placed(size: Dim, extent: int, stride: int, before: Dim, after: Dim, ceil: bool) -> tuple[Dim, Dim, Dim, Dim]:
    """before, after, declared after and number of windows of one axis."""
    room = size + before + after - extent
    if not ceil:
        return before, after, after, room // stride + 1
    # a window must begin in the input or in the padding before it
    outputs = minimum((room + stride - 1) // stride, (size + before - 1) // stride) + 1
    return before, maximum(after, (outputs - 1) * stride + extent - size - before), after, outputs


def builtin_padding(window: Windows) -> tuple[tuple[int, ...], Dims, Dims]:
    """The symmetric padding that the engine does, and what is left before and after each axis."""
    common = tuple(
        min(before, after) if isinstance(before, int) and isinstance(after, int) else 0
        for before, after in zip(window.before, window.after)
    )
    left = tuple(before - done for before, done in zip(window.before, common))
    right = tuple(after - done for after, done in zip(window.after, common))
    return common, left, right


def is_even(window: Windows) -> bool:
    """Whether there is as much padding before each axis as after it, so that the engine does all of it."""
    _, left, right = builtin_padding(window)
    return all(size == 0 for size in (*left, *right))


@dataclass(frozen=True, slots=True)
class Image(Moved):
    """A matrix with ``lead`` times the row-major elements of spatial axes ``sizes``, in some view."""

    lead: Dim
    sizes: Dims

    def around(self, axis: int) -> tuple[Dim, Dim]:
        """How many runs of an axis there are, and how many elements each of its positions has."""
        return self.lead * product(self.sizes[:axis]), product(self.sizes[axis + 1 :])

    def resized(self, text: str, axis: int, size: Dim) -> Image:
        """The image of this text in which an axis has another size: a run of it is a row."""
        rows, suffix = self.around(axis)
        sizes = (*self.sizes[:axis], size, *self.sizes[axis + 1 :])
        return replace(self, text=text, view=View(rows, size * suffix), sizes=sizes)


def padded(node: NodeView, image: Image, before: Dims, after: Dims, value: str = "0") -> Image:
    """The image with ``value`` around the spatial axes, the last axis first."""
    for axis in reversed(range(len(image.sizes))):
        if before[axis] == 0 and after[axis] == 0:
            continue
        rows, suffix = image.around(axis)
        inner = image.seen(node, View(rows, image.sizes[axis] * suffix))
        first, last = (
            [] if pad == 0 else [node.filled(value, View(rows, pad * suffix))] for pad in (before[axis], after[axis])
        )
        size = before[axis] + image.sizes[axis] + after[axis]
        image = image.resized(f"cbind({', '.join([*first, inner, *last])})", axis, size).bound(node, "padded")
    return image


def cropped(node: NodeView, image: Image, before: Dims, sizes: Dims) -> Image:
    """``sizes`` cut out of the spatial axes of an image from position ``before`` on."""
    for axis in range(len(sizes)):
        if before[axis] == 0 and sizes[axis] == image.sizes[axis]:
            continue
        rows, suffix = image.around(axis)
        first, last = node.dim(before[axis] * suffix + 1), node.dim((before[axis] + sizes[axis]) * suffix)
        whole = image.reshaped(node, View(rows, image.sizes[axis] * suffix)).bound(node, "whole")
        image = whole.resized(f"{whole.text}[, {first}:{last}]", axis, sizes[axis]).bound(node, "cut")
    return image


def inflated(node: NodeView, image: Image, factors: Sequence[int]) -> Image:
    """The image with ``factor - 1`` zeros between the elements of each spatial axis (an exact dilation)."""
    for axis in reversed(range(len(image.sizes))):
        factor, size = factors[axis], image.sizes[axis]
        if factor == 1 or size == 1:
            continue
        rows, suffix = image.around(axis)
        elements = image.seen(node, View(rows * size, suffix))
        zeros = node.filled(0, View(rows * size, suffix * (factor - 1)))
        view = View(rows, size * factor * suffix)
        spread = replace(image, text=node.reshape(f"cbind({elements}, {zeros})", view), view=view).bound(node, "spread")
        extent = (size - 1) * factor + 1
        text = f"{spread.text}[, 1:{node.dim(extent * suffix)}]"
        image = spread.resized(text, axis, extent).bound(node, "dilated")
    return image


def shape_list(node: NodeView, sizes: Sequence[Dim]) -> str:
    """Sizes as the list that the engine's window builtins read."""
    return f"[{', '.join(node.dim(size) for size in sizes)}]"


def every_nth(node: NodeView, image: Image, strides: Sequence[int]) -> Image:
    """The elements at multiples of the strides of two spatial axes."""
    image = image.reshaped(node, View(image.lead, product(image.sizes)))
    if all(stride == 1 for stride in strides):
        return image
    sizes: Dims = tuple((size - 1) // stride + 1 for size, stride in zip(image.sizes, strides))
    shape = shape_list(node, (image.lead, 1, *image.sizes))
    # a window of one element picks strided elements faster than a product with a selection matrix; max_pool would turn
    # -Inf into the least double
    text = (
        f"avg_pool({image.text}, input_shape={shape}, pool_size=[1, 1], "
        f"stride={shape_list(node, strides)}, padding=[0, 0])"
    )
    return replace(image, text=text, view=View(image.lead, product(sizes)), sizes=sizes)
