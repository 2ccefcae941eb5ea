"""Forms of statements that are faster where sizes are known: products.

Depthwise convolutions become products with one sparse matrix, which is made once. The engine's `conv2d` copies each
window for it, and of one image takes one thread; with a native BLAS it makes the sparse filters of a depthwise
convolution dense. The matrix has an entry for each number that a result depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, rewritten
from onnx_systemds.dml.scopes import assignment_counts, is_call, name_counts
from onnx_systemds.importing.passes.specialisation.integers import known_sizes, whole_number

MOST_ENTRIES = 40_000_000
"""Of all such matrices of a script; an entry takes 12 bytes."""

FILTERS, MATRIX = "grouped_filters", "depthwise_matrix"  # library functions
POOLINGS = ("avg_pool", "max_pool")


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


def with_sparse_products(body: tree.Block, constant: frozenset[int]) -> tuple[tree.Block, Mapping[str, Convolution]]:
    """The statements of a function with products for those depthwise convolutions that have constant filters.

    constant: the numbers of the constant statements. Convolutions of sizes that are not known stay, and so do those
    that have no matrix or would exceed `MOST_ENTRIES`. Also gives the convolutions, by the names of their matrices.
    """
    counts = assignment_counts(body)
    seen = name_counts(body)
    sizes = known_sizes(body)
    filters = {  # the number of the statement, and of groups
        statement.target.name: (number, whole_number(statement.value.arguments[1].value, sizes))
        for number, statement in enumerate(body)
        if number in constant
        and isinstance(statement, tree.Assign)
        and isinstance(statement.value, tree.Call)
        and statement.value.function == FILTERS
        and counts[statement.target.name] == 1
        and seen[statement.target.name] == 2  # here, and where it is read
    }
    found: dict[str, Convolution] = {}
    left = MOST_ENTRIES

    def change(node: tree.Node) -> tree.Node:
        nonlocal left
        if not is_call(node, "conv2d"):
            return node
        images, weight = (argument.value for argument in node.arguments[:2])
        convolution = convolution_of(node, sizes)
        if not isinstance(weight, tree.Name) or weight.name not in filters or convolution is None:
            return node
        is_depthwise = filters[weight.name][1] == convolution.images[1]
        if not is_depthwise or not convolution.has_matrix or convolution.entries > left:
            return node
        left -= convolution.entries
        found[weight.name] = convolution
        return transposed(tree.Binary("%*%", weight, transposed(images)))

    changed: list[Any] = list(rewritten(body, change))
    for name, convolution in found.items():
        statement = changed[filters[name][0]]
        numbers = [*convolution.images[1:], *convolution.filters[2:], *convolution.stride, *convolution.padding]
        made = call(MATRIX, statement.value.arguments[0].value, *map(tree.IntLiteral, numbers))
        changed[filters[name][0]] = replace(statement, value=made)
    return tuple(changed), found


def convolution_of(call: tree.Call, sizes: Mapping[str, int]) -> Convolution | None:
    """The sizes of a ``conv2d`` or a pooling, where all are known."""
    given = {argument.name: argument.value for argument in call.arguments}
    is_pooling = call.function in POOLINGS
    shapes: list[tuple[int, ...]] = []
    for name in ("input_shape", "pool_size" if is_pooling else "filter_shape", "stride", "padding"):
        value = given.get(name)
        numbers = [whole_number(item, sizes) for item in value.items] if isinstance(value, tree.ListExpression) else []
        known = tuple(number for number in numbers if number is not None)
        if not known or len(known) < len(numbers):
            return None
        shapes.append(known)
    images, window, *others = shapes
    return Convolution(images, (images[1], 1, *window) if is_pooling else window, *others)


def images_of(node: tree.Call, sizes: Mapping[str, int]) -> tuple[tree.Expression, int] | None:
    """The size of a ``conv2d`` or a pooling of images, whose number alone may be open: that number, and the columns."""
    shape = next((it for it in node.arguments if it.name == "input_shape"), None)
    if shape is None or not isinstance(shape.value, tree.ListExpression):
        return None
    count, *others = shape.value.items
    of_one = replace(shape, value=replace(shape.value, items=(tree.IntLiteral(1), *others)))
    arguments = tuple(of_one if it is shape else it for it in node.arguments)
    found = convolution_of(replace(node, arguments=arguments), sizes)
    return None if found is None else (count, found.columns)


def transposed(operand: tree.Expression) -> tree.Call:
    """``t(operand)``."""
    return call("t", operand)
