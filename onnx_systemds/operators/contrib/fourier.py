"""Rfft, Irfft and products of complex numbers of onnxruntime, by ONNX's DFT; real and imaginary parts lie last."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB


def _signal_axes(node: Expansion) -> int:
    """The number of transformed axes."""
    if node.attribute("normalized") or not node.attribute("onesided"):
        raise UnsupportedCase("a Fourier transform that is normalized or has both sides; onnxruntime has none either")
    return int(node.attribute("signal_ndim"))


@expander("Rfft", domain=CONTRIB)
def real_transform(node: Expansion) -> None:
    """The last axis of a real signal to one side of its spectrum, then the other axes to whole ones."""
    count = _signal_axes(node)
    y = node.emit("DFT", node.unsqueeze(node.input("X"), -1), "", node.known(-2), onesided=1,
                  to=node.output() if count == 1 else "")
    for axis in range(2, count + 1):
        y = node.emit("DFT", y, "", node.known(-1 - axis), to=node.output() if axis == count else "")


@expander("Irfft", domain=CONTRIB)
def real_inverse_transform(node: Expansion) -> None:
    """The way back; the real signal has an even number of points."""
    count, x = _signal_axes(node), node.input("X")
    for axis in range(count, 1, -1):
        x = node.emit("DFT", x, "", node.known(-1 - axis), inverse=1)
    real = node.emit("DFT", x, "", node.known(-2), onesided=1, inverse=1)
    node.emit("Squeeze", real, node.known([-1]), to=node.output())


@expander("ComplexMul", domain=CONTRIB)
def complex_product(node: Expansion) -> None:
    """The product."""
    _product(node, "Sub", "Add")


@expander("ComplexMulConj", domain=CONTRIB)
def complex_product_of_conjugate(node: Expansion) -> None:
    """The product with the conjugate of the second factor."""
    _product(node, "Add", "Sub")


def _product(node: Expansion, real: str, imaginary: str) -> None:
    """The real part is a sum or difference of products of like parts, the imaginary one of unlike parts."""
    (a, b), (c, d) = ([_part(node, position, which) for which in (0, 1)] for position in (0, 1))
    parts = (node.emit(real, node.emit("Mul", a, c), node.emit("Mul", b, d)),
             node.emit(imaginary, node.emit("Mul", b, c), node.emit("Mul", a, d)))
    node.emit("Concat", *parts, axis=-1, to=node.output())


def _part(node: Expansion, position: int, which: int) -> str:
    return node.slice(node.input(position), -1, which, which + 1)
