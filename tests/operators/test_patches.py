"""MaxUnpool and Col2Im, judged by ONNX's reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, by_reference, check_case, random


def unpool(opset: int, x: Array, total: int, shape: list[int] | None = None, **attributes: Any) -> Case:
    index = np.random.default_rng(1).permutation(total)[: x.size].reshape(x.shape)
    given = None if shape is None else np.array(shape)
    return by_reference(Case("MaxUnpool", opset, {"x": x, "i": index, "shape": given}, attributes, ["shape"]))


def fold(x: Array, image: list[int], block: list[int], **attributes: Any) -> Case:
    constants = ["image", "block"]
    inputs = {"x": x, "image": np.array(image), "block": np.array(block)}
    return by_reference(Case("Col2Im", 18, inputs, attributes, constants))


def folded(x: Array, image: list[int], block: list[int], **attributes: Any) -> Derivative:
    given = {"x": x, "image": np.array(image), "block": np.array(block)}
    return Derivative("Col2Im", given, attributes, fixed=["image", "block"])


PLACES = np.array([[[[1, 3], [8, 14]], [[17, 18], [28, 31]]]])
DERIVATIVES = [
    Derivative("MaxUnpool", {"x": near(1, 2, 2, 2), "i": PLACES}, {"kernel_shape": [2, 2], "strides": [2, 2]}, fixed=["i"]),
    folded(near(2, 8, 6), [3, 4], [2, 2]), folded(near(1, 4, 9), [5, 5], [2, 2], strides=[2, 2], pads=[0, 0, 1, 1]),
    folded(near(2, 6, 4), [6], [3], dilations=[1]),
]
CASES = [
    unpool(9, random(1, 2, 2, 3), 48, kernel_shape=[2, 2], strides=[2, 2]),
    unpool(11, random(2, 1, 4), 16, kernel_shape=[2], strides=[2]),
    unpool(11, random(1, 2, 2, 3), 48, [1, 2, 5, 7], kernel_shape=[2, 2], strides=[2, 2]),
    unpool(22, random(1, 1, 3, 3), 25, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    fold(random(2, 8, 6), [3, 4], [2, 2]),
    fold(random(1, 12, 9), [5, 5], [2, 3], pads=[0, 1, 1, 1], strides=[2, 2], dilations=[1, 1]),
    fold(random(1, 4, 9), [5, 5], [2, 2], dilations=[2, 2]),
    fold(np.where(random(1, 4, 6) > 1, np.float32(np.nan), random(1, 4, 6)), [3, 4], [2, 2]),
    at_sizes(fold(random(2, 8, 6), [3, 4], [2, 2]), {"x": ["batch", 8, 6]}, {"x": random(3, 8, 6)}),
    at_sizes(unpool(11, random(2, 2, 2, 3), 96, kernel_shape=[2, 2], strides=[2, 2]),
             {"x": ["n", 2, "h", "w"], "i": ["n", 2, "h", "w"]},
             {name: unpool(11, random(1, 2, 3, 2), 48, kernel_shape=[2, 2], strides=[2, 2]).inputs[name] for name in "xi"}),
    at_sizes(unpool(22, random(2, 1, 4), 16, kernel_shape=[2], strides=[2]), {"x": ["n", 1, "w"], "i": ["n", 1, "w"]},
             {name: unpool(22, random(1, 1, 6), 12, kernel_shape=[2], strides=[2]).inputs[name] for name in "xi"}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
