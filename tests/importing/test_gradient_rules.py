"""Rules of the chain rule that ONNX's reference does not judge: against differences of the script itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnx_systemds import import_model
from tests.derivative_programs import derivatives
from tests.importing.test_gradients import model, near, node


def check(network: onnx.ModelProto, sizes: Mapping[str, int], folder: Path, count: int, **options: Any) -> None:
    """The derivatives by inputs and weights are differences. count: how many there are."""
    words = ["inputs", *(["weights"] if network.graph.initializer else [])]
    found = derivatives(import_model(network, gradients=words, **options), sizes, folder)
    assert len(found) == count
    for name, derivative, difference in found:
        assert derivative == pytest.approx(difference, rel=1e-5, abs=1e-6), name


def spread(x: list[Any], w: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    """A transposed convolution."""
    return model([node("ConvTranspose", "x,w", "y", **attributes)], {"x": x}, {"w": near(*w)}, ["y"])


SPREAD: Mapping[str, onnx.ModelProto] = {
    "as large as the strides say": spread(["n", 2, "s"], (2, 3, 3), auto_pad="SAME_UPPER", strides=[2]),
    "of two axes": spread([2, 2, 4, 3], (2, 3, 2, 3), auto_pad="SAME_LOWER", strides=[3, 2]),
    "cut to a size": spread([2, 2, 4], (2, 3, 3), output_shape=[7], strides=[2]),
    "of a size beyond all windows": spread([2, 2, 4], (2, 3, 3), output_shape=[14], strides=[2]),
    "padded by more than a stride": spread(["n", 2, 4, "s"], (2, 3, 3, 2), output_padding=[1, 3], strides=[1, 3], dilations=[2, 2]),
}


@pytest.mark.engine
@pytest.mark.parametrize("network", SPREAD.values(), ids=SPREAD)
def test_transposed_convolutions(network: onnx.ModelProto, tmp_path: Path) -> None:
    check(network, {"n": 2, "s": 5}, tmp_path, 2)


EMPTY: Mapping[str, onnx.ModelProto] = {
    "a result": spread([2, 2, 1], (2, 3, 2), pads=[1, 1]),
    "an input": spread([2, 2, 0], (2, 3, 1)),
    "a part of a result": model(
        [node("ConvTranspose", "x,w", "c", pads=[1, 1]), node("Concat", "c,x", "y", axis=2)],
        {"x": ["n", 2, 1]}, {"w": near(2, 2, 2)}, ["y"]),
}


@pytest.mark.engine
@pytest.mark.parametrize("network", EMPTY.values(), ids=EMPTY)
def test_no_derivative_passes_what_has_no_elements(network: onnx.ModelProto, tmp_path: Path) -> None:
    check(network, {"n": 2}, tmp_path, 1)


def narrow(op_type: str, dims: list[Any], kind: int = TensorProto.FLOAT16, **attributes: Any) -> onnx.ModelProto:
    """An operator of float16, or of another type."""
    return model([node(op_type, "x", "y", **attributes)], {"x": (kind, dims)}, {}, ["y"], opset=24)


# What float16 makes of 300,300 is infinite, of 3,003 it is 3,004.
NARROW: Mapping[str, tuple[onnx.ModelProto, int]] = {
    "a mean of many": (narrow("ReduceMean", [300, 1001]), 1),
    "a mean of an open number": (narrow("ReduceMean", ["n", 1001]), 1),
    "Erf": (narrow("Erf", ["n", 4]), 1),
    "Gelu": (narrow("Gelu", ["n", 4], TensorProto.BFLOAT16, approximate="tanh"), 1),
    "HardSigmoid": (narrow("HardSigmoid", ["n", 4], alpha=0.3), 1),
    "HardSwish": (narrow("HardSwish", ["n", 4]), 1),
    "Selu": (narrow("Selu", ["n", 4], TensorProto.BFLOAT16), 1),
    "Swish": (narrow("Swish", ["n", 4], alpha=0.7), 1),
    "a cast to a wider type": (
        model([node("Cast", "w", "c", to=TensorProto.FLOAT), node("MatMul", "x,c", "y")], {"x": ["n", 4]},
              {"w": near(4, 3).astype(np.float16)}, ["y"]), 2),
    "an exponent of a wider type": (
        model([node("Abs", "x", "a"), node("Pow", "a,e", "y")], {"x": (TensorProto.FLOAT16, ["n", 4])},
              {"e": np.array(0.3, np.float32)}, ["y"]), 1),
    "an interpolation": (
        model([node("Resize", "x,,s", "y", mode="linear")], {"x": (TensorProto.FLOAT16, ["n", 1, 5])},
              {"s": np.array([1, 1, 1.7], np.float32)}, ["y"]), 1),
}


@pytest.mark.engine
@pytest.mark.parametrize(("network", "count"), NARROW.values(), ids=NARROW)
def test_derivatives_are_not_rounded_to_narrow_types(network: onnx.ModelProto, count: int, tmp_path: Path) -> None:
    found = derivatives(import_model(network, gradients=["x", "w"][:count]), {"n": 300}, tmp_path)
    assert len(found) == count
    for name, derivative, difference in found:
        assert derivative == pytest.approx(difference, rel=1e-5, abs=1e-9), name
