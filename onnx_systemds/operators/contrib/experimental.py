"""Experimental operators that ONNX removed before opset 10. Converters of Core ML wrote them; onnxruntime runs them."""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import InvalidModel
from onnx_systemds.inference.assumptions import certainly_differ
from onnx_systemds.inference.registry import expander
from onnx_systemds.operators.api import Expansion


@expander("Affine")
def affine(node: Expansion) -> None:
    """alpha * x + beta."""
    node.emit("Add", node.emit("Mul", node.input("X"), node.numeric("alpha")), node.numeric("beta"), to=node.output())


@expander("Scale")
def scale(node: Expansion) -> None:
    """A number times each element."""
    node.emit("Mul", node.input("input"), node.numeric("scale"), to=node.output())


@expander("ScaledTanh")
def scaled_tanh(node: Expansion) -> None:
    """alpha * tanh(beta * x)."""
    alpha, beta = _both(node)
    node.emit("Mul", alpha, node.emit("Tanh", node.emit("Mul", beta, node.input(0))), to=node.output())


@expander("ParametricSoftplus")
def parametric_softplus(node: Expansion) -> None:
    """alpha * ln(exp(beta * x) + 1)."""
    alpha, beta = _both(node)
    node.emit("Mul", alpha, node.emit("Softplus", node.emit("Mul", beta, node.input("X"))), to=node.output())


def _both(node: Expansion) -> tuple[str, str]:
    """alpha and beta, which have no defaults."""
    if len(node.attributes("alpha", "beta")) < 2:
        raise InvalidModel(f"{node.node.op_type} without alpha or beta")
    return node.numeric("alpha"), node.numeric("beta")


@expander("ImageScaler")
def image_scaler(node: Expansion) -> None:
    """Images N x C x H x W times a number, plus one of each channel."""
    bias = node.attribute("bias") or ()
    _expect_images(node)
    if certainly_differ(node.dims("input")[1], len(bias)):
        raise InvalidModel(f"ImageScaler has {len(bias)} biases for {node.dims('input')[1]} channels")
    scaled = node.emit("Mul", node.input("input"), node.numeric("scale"))
    node.emit("Add", scaled, node.known(np.reshape(bias, (-1, 1, 1)), node.dtype("input")), to=node.output())


@expander("Crop")
def crop(node: Expansion) -> None:
    """Images N x C x H x W without a border, or the part of a height and width (``scale``) that begins after it."""
    _expect_images(node)
    border, size = (tuple(map(int, node.attribute(name) or ())) for name in ("border", "scale"))
    if len(border) != 4 or (size and len(size) != 2):
        raise InvalidModel(f"Crop has {len(border)} borders and {len(size)} sizes, 4 and 2 are needed")
    left, top, right, bottom = border
    starts = node.known([top, left])
    if size:
        ends = node.known([top + size[0], left + size[1]])
    else:
        sizes = node.emit("Shape", node.input("input"), start=2)
        ends = node.emit("Sub", sizes, node.known([bottom, right]))
    node.emit("Slice", node.input("input"), starts, ends, node.known([2, 3]), to=node.output())


def _expect_images(node: Expansion) -> None:
    if node.rank("input") != 4:
        raise InvalidModel(f"{node.node.op_type} takes images of rank 4, not {node.rank('input')}")


@expander("DynamicSlice")
def dynamic_slice(node: Expansion) -> None:
    """Slice with steps of 1."""
    node.emit("Slice", *(node.input(name) for name in ("data", "starts", "ends", "axes")), to=node.output())


@expander("MeanVarianceNormalization")
def mean_variance_normalization(node: Expansion) -> None:
    """All images less their mean, for each channel or over all, over the deviation where that is asked for."""
    _expect_images(node)
    axes = (0, 1, 2, 3) if node.attribute("across_channels") else (0, 2, 3)
    if node.attribute("normalize_variance"):
        node.emit("MeanVarianceNormalization", node.input("input"), to=node.output(), axes=axes)
        return
    mean = node.emit("ReduceMean", node.input("input"), node.known(axes), keepdims=1)
    node.emit("Sub", node.input("input"), mean, to=node.output())
