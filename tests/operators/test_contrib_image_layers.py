"""MaxpoolWithMask, ConvTransposeWithDynamicPads and NhwcFusedConv of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, contrib, random, run_reference
from tests.operators.test_contrib_movement import channels_last_convolution


def mask(*dims: int) -> Array:
    return (random(1, 1, *dims, seed=4) > -0.7).astype(np.int32)


def masked(x: Array, m: Array, **attributes: Any) -> Case:
    return contrib("MaxpoolWithMask", {"x": x, "m": m}, attributes=attributes)


def transposed(pads: Sequence[int] | None, *, bias: bool = False, dims: tuple[int, ...] = (4, 5), constant: bool = True,
               **attributes: Any) -> Case:
    inputs = {"x": random(2, 3, *dims), "w": random(3, 2, *(3 for _ in dims), seed=1),
              "pads": None if pads is None else np.array(pads), "b": random(2, seed=2) if bias else None}
    return contrib("ConvTransposeWithDynamicPads", inputs, attributes=attributes, constants=["pads"] if constant and pads else [])


def activated(x: Array, weight: Array, bias: Array | None = None, z: Array | None = None, activation: str = "",
              **attributes: Any) -> Array:
    """No kernel for CPUs: by onnxruntime's Conv."""
    y = channels_last_convolution(x, weight, bias, **attributes)
    return np.maximum(y if z is None else y + z, 0)


def plain(x: Array, w: Array, _: None, b: Array) -> Array:
    """onnxruntime takes no node without pads."""
    feeds = {"x": x, "w": w, "b": b}
    return run_reference(case_model(Case("ConvTranspose", 11, feeds)), feeds)[0]


NHWC = {"x": random(2, 6, 7, 3), "weight": random(4, 3, 2, 3, seed=1), "bias": random(4, seed=2)}
SIZED = [
    at_sizes(masked(random(2, 3, 5, 6), mask(5, 6), kernel_shape=[2, 3]), {"x": ["n", 3, "h", "w"], "m": [1, 1, "h", "w"]},
             {"x": random(1, 3, 7, 4), "m": mask(7, 4)}),
    at_sizes(transposed([1, 0, 0, 2], strides=[2, 1]), {"x": ["n", 3, "h", "w"]}, {"x": random(1, 3, 5, 3)}),
    at_sizes(contrib("NhwcFusedConv", {**NHWC, "z": random(2, 4, 6, 4, seed=3)}, attributes={"activation": "Relu"},
                     expected=activated), {"x": ["n", 6, 7, 3], "z": ["n", 4, 6, 4]},
             {"x": random(1, 6, 7, 3), "z": random(1, 4, 6, 4)}),
]
CASES = [
    *SIZED,
    masked(random(2, 3, 5, 6), mask(5, 6), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1]),
    masked(random(2, 3, 5, 6), 0 * mask(5, 6), kernel_shape=[2, 2]),
    masked(random(2, 2, 9), mask(9), kernel_shape=[3], pads=[1, 1]),
    masked(np.where(random(1, 1, 4, 5) > 1, np.nan, random(1, 1, 4, 5)).astype(np.float32), mask(4, 5), kernel_shape=[2, 2]),
    replace(transposed(None, bias=True), expected=plain),
    transposed([0, 1], dims=(5,), bias=True, strides=[3], output_padding=[1]),
    transposed([1, 0, 0, 2], constant=False, dilations=[2, 1]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (masked(random(1, 2, 4), np.ones((1, 2, 4), np.int32), kernel_shape=[2]), "a mask of its own"),
        (masked(random(1, 2, 4), mask(4), kernel_shape=[2, 2]), "over 1 axes"),
        (masked(random(1, 2, 4), mask(4), kernel_shape=[2], auto_pad="SAME_UPPER"), "pads by itself"),
        (transposed([1, 0, 0, 2], auto_pad="SAME_UPPER"), "pads by itself"),
    ],
    ids=str,
)
def test_refused(case: Case, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(case_model(case))
