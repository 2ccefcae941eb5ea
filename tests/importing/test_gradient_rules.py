"""Rules of the chain rule that ONNX's reference does not judge: against differences of the script itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest

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
