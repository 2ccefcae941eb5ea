"""The sizes of convolutions and poolings of images, from the arguments of their calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from onnx_systemds.dml import syntax as tree

POOLINGS = ("avg_pool", "max_pool")

IntegerOf: TypeAlias = Callable[[tree.Expression], "int | None"]
"""Gives the integer that an expression is, None where it is not known."""


@dataclass(frozen=True)
class Convolution:
    """The sizes of a ``conv2d``: images N x C x H x W, filters F x C x KH x KW, and two numbers each.

    A pooling is one of a filter C x 1 x KH x KW.
    """

    images: tuple[int, ...]
    filters: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def pixels(self) -> int:
        """Of a plane of the result."""
        sizes = zip(self.images[2:], self.filters[2:], self.stride, self.padding)
        height, width = ((size + 2 * pad - kernel) // step + 1 for size, kernel, step, pad in sizes)
        return height * width

    @property
    def columns(self) -> int:
        """Of the result, which has a row for each image."""
        return self.filters[0] * self.pixels

    @property
    def entries(self) -> int:
        """Non-zeros of its matrix if it is depthwise, at most."""
        return self.filters[0] * self.filters[2] * self.filters[3] * self.pixels

    @property
    def has_matrix(self) -> bool:
        """Whether ``depthwise_matrix`` makes its matrix if it is depthwise: its windows lie as that says."""
        (channels, height, width), (kh, kw) = self.images[1:], self.filters[2:]
        (sh, sw), (ph, pw) = self.stride, self.padding
        down = (height + 2 * ph - kh) // sh * sh  # the last window, from the first one
        right = (width + 2 * pw - kw) // sw * sw
        reach = max(ph * width + pw, (kh - 1 - ph) * width + kw - 1 - pw)  # of a window, to both sides of its pixel
        lies_inside = down < height and right < width and kw <= width and 3 * reach < channels * height * width
        return lies_inside and height * width > 1 and kh * kw > 1

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel of a result is made of one pixel."""
        return self.filters[2:] == self.stride == (1, 1) and self.padding == (0, 0)


def convolution_of(call: tree.Call, integer_of: IntegerOf) -> Convolution | None:
    """The sizes of a ``conv2d`` or a pooling, where all are known."""
    given = {argument.name: argument.value for argument in call.arguments}
    is_pooling = call.function in POOLINGS
    shapes: list[tuple[int, ...]] = []
    for name in ("input_shape", "pool_size" if is_pooling else "filter_shape", "stride", "padding"):
        value = given.get(name)
        numbers = [*map(integer_of, value.items)] if isinstance(value, tree.ListExpression) else []
        known = tuple(number for number in numbers if number is not None)
        if not known or len(known) < len(numbers):
            return None
        shapes.append(known)
    images, window, *others = shapes
    return Convolution(images, (images[1], 1, *window) if is_pooling else window, *others)


def images_of(node: tree.Call, integer_of: IntegerOf) -> tuple[tree.Expression, int] | None:
    """The size of a ``conv2d`` or a pooling of images, whose number alone may be open: that number, and the columns."""
    shape = next((it for it in node.arguments if it.name == "input_shape"), None)
    if shape is None or not isinstance(shape.value, tree.ListExpression):
        return None
    count, *others = shape.value.items
    of_one = replace(shape, value=replace(shape.value, items=(tree.IntLiteral(1), *others)))
    arguments = tuple(of_one if it is shape else it for it in node.arguments)
    found = convolution_of(replace(node, arguments=arguments), integer_of)
    return None if found is None else (count, found.columns)
