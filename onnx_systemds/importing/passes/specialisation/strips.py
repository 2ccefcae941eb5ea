"""Convolutions of one image in two strips of its lines.

The engine's `conv2d` gives each image one thread, so that of a single image it takes one, whatever the machine has. Two
strips are two images. Each has the lines that the other's border reads, too; what comes out of these is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, reshaped, rewritten, with_first
from onnx_systemds.dml.scopes import is_call
from onnx_systemds.importing.passes.convolution_sizes import Convolution, convolution_of
from onnx_systemds.importing.passes.matrix_sizes import integer_lookup

STRIPS, JOINED = "image_strips", "joined_strips"  # library functions
_FEWEST_PRODUCTS, _FEWEST_TAPS = 4_000_000, 64
"""Of two numbers, that a convolution and each of its results consist of: with less, copying costs what is gained."""
_LARGEST_SHARE = 0.65
"""Of the image's lines that a strip has: convolutions of images of a few lines would be twice as long."""


@dataclass(frozen=True)
class _Strips:
    """Lines of an image. lines: of each strip. second: the first one of the second strip. results: of each strip.

    first: results of the first strip that are kept. rest: the first result of the second strip that is kept.
    """

    lines: int
    second: int
    results: int
    first: int
    rest: int


def with_strips(body: tree.Block) -> tree.Block:
    """The statements of a function with convolutions of one image, that have a bias, in two strips."""
    integer_of = integer_lookup(body)

    def change(node: tree.Node) -> tree.Node:
        if not is_call(node, "bias_add") or not is_call(node.arguments[0].value, "conv2d"):
            return node
        convolved = node.arguments[0].value
        convolution = convolution_of(convolved, integer_of)
        strips = None if convolution is None else _strips(convolution)
        if convolution is None or strips is None:
            return node
        return _in_strips(node, convolved, convolution, strips)

    return rewritten(body, change)


def _in_strips(biased: tree.Call, convolved: tree.Call, convolution: Convolution, strips: _Strips) -> tree.Call:
    _, channels, height, width = convolution.images
    filters, cols = convolution.filters[0], convolution.pixels // _lines(convolution, convolution.images[2])
    image = reshaped(convolved.arguments[0].value, channels, height * width)
    given = call(STRIPS, image, *map(tree.IntLiteral, (strips.lines * width, strips.second * width + 1)))
    shape = tree.ListExpression(tuple(map(tree.IntLiteral, (2, channels, strips.lines, width))))
    first, *others = convolved.arguments
    arguments = (replace(first, value=given),
                 *(replace(each, value=shape) if each.name == "input_shape" else each for each in others))
    both = with_first(biased, replace(convolved, arguments=arguments))
    numbers = (filters, strips.results * cols, strips.first * cols, strips.rest * cols + 1)
    return reshaped(call(JOINED, both, *map(tree.IntLiteral, numbers)), 1, convolution.columns)


def _lines(convolution: Convolution, height: int) -> int:
    """Those of the result, of an image of so many lines."""
    return (height + 2 * convolution.padding[0] - convolution.filters[2]) // convolution.stride[0] + 1


def _strips(convolution: Convolution) -> _Strips | None:
    """How an image is cut; None where that does not serve."""
    samples, _, height, _ = convolution.images
    kernel, step, pad = convolution.filters[2], convolution.stride[0], convolution.padding[0]
    taps = prod(convolution.filters[1:])
    if samples != 1 or taps < _FEWEST_TAPS or taps * convolution.columns < _FEWEST_PRODUCTS:
        return None
    above = -(-pad // step)  # results of the second strip that read what lies above it
    for second in range((height // 2) // step * step, 0, -step):
        lines = height - second
        first = (lines + pad - kernel) // step + 1  # those of the first strip that do not read what lies below it
        if lines + pad >= kernel and first >= second // step + above:
            if lines > _LARGEST_SHARE * height:
                return None
            return _Strips(lines, second, _lines(convolution, lines), first, first - second // step)
    return None
