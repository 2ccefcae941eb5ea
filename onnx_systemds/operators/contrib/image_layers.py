"""MaxpoolWithMask, ConvTransposeWithDynamicPads and NhwcFusedConv of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.expansion import TO_END
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Expansion
from onnx_systemds.operators.contrib.attention import LOWEST


@expander("MaxpoolWithMask", domain=CONTRIB)
def maxpool_with_mask(node: Expansion) -> None:
    """Maxima over the windows, each of whose lines ends before the first place where the mask is 0.

    Of two axes and more the first place of all is never masked. NaN is no maximum.
    """
    kernel = node.attribute("kernel_shape")
    rank = node.rank("X") - 2
    if kernel is None or len(kernel) != rank:
        raise InvalidModel(f"MaxpoolWithMask over {rank} axes by windows of {kernel}")
    if str(node.attribute("auto_pad")) not in ("NOTSET", "VALID"):
        raise UnsupportedCase("MaxpoolWithMask that pads by itself")
    if node.dims("M")[:2] != (1, 1):
        raise UnsupportedCase("a mask of its own for each sample or channel, which onnxruntime takes from other places")
    pads = node.attribute("pads") or (0,) * 2 * rank
    strides = node.attribute("strides") or (1,) * rank
    width = node.known([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    lowest = node.number(LOWEST)
    images = node.emit("Pad", node.input("X"), width, lowest)
    mask = node.cast(node.input("M"), "bool")
    best = ""
    seen = node.emit("Pad", _first_seen(node, mask) if rank > 1 else mask, width, node.known(True, "bool"))
    is_open = ""
    for tap in product(*map(range, kernel)):  # the last axis varies the fastest
        part, here = (_tap(node, given, tap, kernel, strides) for given in (images, seen))
        is_open = node.emit("And", is_open, here) if tap[-1] else here
        best = best or node.filled_like(part, node.dtype("X"), LOWEST)
        best = node.emit("Where", node.emit("And", is_open, node.emit("Greater", part, best)), part, best)
    node.give(best)


def _first_seen(node: Expansion, mask: str) -> str:
    """The mask with its first place open."""
    number = node.count_up(node.emit("Size", mask))
    first = node.emit("Reshape", node.emit("Equal", number, node.known(0)), node.emit("Shape", mask))
    return node.emit("Or", mask, first)


def _tap(node: Expansion, images: str, tap: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> str:
    """For each window the element at one place of it."""
    ends = [place - size + 1 or TO_END for place, size in zip(tap, kernel)]
    given = (node.known(numbers) for numbers in (tap, ends, range(2, 2 + len(tap)), strides))
    return node.emit("Slice", images, *given)


@expander("ConvTransposeWithDynamicPads", domain=CONTRIB)
def conv_transpose_with_dynamic_pads(node: Expansion) -> None:
    """ConvTranspose without pads, whose result is cropped by the pads in an input."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides")
    inputs = [node.input(name) for name in ("X", "W", "B")]
    if not node.has("Pads"):
        node.emit("ConvTranspose", *inputs, to=node.output(), **node.attributes(*names))
        return
    if str(node.attribute("auto_pad")) != "NOTSET":
        raise UnsupportedCase("ConvTransposeWithDynamicPads that pads by itself, too")
    rank = node.rank("X") - 2
    whole = node.emit("ConvTranspose", *inputs, **node.attributes(*names[1:]))
    before, after = node.split(node.input("Pads"), ("before", "after"), [rank, rank], axis=0)
    sizes = node.emit("Shape", whole, start=2)
    node.emit("Slice", whole, before, node.emit("Sub", sizes, after), node.known(range(2, 2 + rank)), to=node.output())


@expander("NhwcFusedConv", domain=CONTRIB)
def nhwc_fused_conv(node: Expansion) -> None:
    """FusedConv of images with the channels last, also in the weight and in what is added."""
    rank = node.rank("X")
    attributes = node.attributes("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "activation",
                                 "activation_params")
    x, w, z = (node.channels_first(node.input(name), rank) if node.has(name) else "" for name in ("X", "W", "Z"))
    y = node.emit("FusedConv", x, w, node.input("B"), z, domain=CONTRIB, **attributes)
    node.channels_last(y, rank, to=node.output())
