"""Means of quantised numbers as onnxruntime's CPU kernels give them: pooled, over all positions, over axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, check_case
from tests.operators.quantized_cases import TYPES, drawn, points, resized, row, single


def mean(op_type: str, dtype: str, scales: tuple[float, float], dims: tuple[int, ...], **attributes: Any) -> Case:
    if attributes.get("channels_last"):
        dims = (dims[0], *dims[2:], dims[1])
    zeros = points(2, dtype, 13)
    inputs = {"x": drawn(*dims, dtype=dtype), "xs": single(scales[0]), "xz": zeros[0], "ys": single(scales[1]),
              "yz": zeros[1]}
    return row(op_type, inputs, dtype, attributes=attributes, note=f"{dtype} {scales} {dims} {attributes}")


def reduced(x: Array, *_: Any, axes: list[int], keepdims: int) -> Array:
    """No kernel: by numpy."""
    means = ((x.astype(np.float64) - 4) * 0.5).mean(tuple(axes), keepdims=bool(keepdims))
    return np.clip(np.rint(means / 0.25) + 7, 0, 255).astype(np.uint8)


def reduced_mean(axes: list[int], keepdims: int) -> Case:
    inputs = {"x": drawn(2, 3, 4), "xs": single(0.5), "xz": np.array(4, np.uint8), "ys": single(0.25),
              "yz": np.array(7, np.uint8)}
    return row("QLinearReduceMean", inputs, "uint8", attributes={"axes": axes, "keepdims": keepdims},
                     expected=reduced)


POOLS = [
    ((2, 4, 12, 10), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((2, 3, 12, 11), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ((2, 3, 9, 7), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    ((2, 3, 12), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ((2, 3, 7, 6), {"kernel_shape": [7, 6]}),
    ((2, 3, 10, 10), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((2, 3, 10, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
]
MEANS = [
    *[mean("QLinearAveragePool", dtype, scales, dims, channels_last=last, **attributes)
      for dtype, scales, last in [("uint8", (0.0213, 0.0213), 0), ("int8", (0.5, 0.25), 1), ("uint8", (0.1, 0.05), 1),
                                  ("int8", (1 / 3, 0.29), 0)]
      for dims, attributes in POOLS],
    mean("QLinearAveragePool", "uint8", (0.5, 0.25), (2, 3, 6, 6, 5), kernel_shape=[2, 2, 2], strides=[2, 2, 1]),
    *[mean("QLinearGlobalAveragePool", dtype, scales, dims, channels_last=last)
      for dtype in TYPES for scales in [(0.0213, 0.0213), (0.5, 0.125)] for last in (0, 1)
      for dims in [(3, 8, 6, 5), (2, 1, 9), (1, 4, 2, 3, 4)]],
    replace(mean("QLinearGlobalAveragePool", "uint8", (0.1, 0.1), (2, 3, 4, 4), channels_last=0), constants=(),
            note="computed"),
]
REDUCED = [reduced_mean([-1], 0), reduced_mean([0, 2], 1)]
SIZED = [
    resized(mean("QLinearAveragePool", "uint8", (0.1, 0.1), (2, 3, 8, 8), kernel_shape=[2, 2], strides=[2, 2]),
            {"x": ["n", 3, 8, 8]}, x=(3, 3, 8, 8)),
    resized(mean("QLinearAveragePool", "uint8", (0.5, 0.25), (2, 3, 9, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1],
                 channels_last=1), {"x": ["n", "h", "w", 3]}, x=(1, 7, 10, 3)),
    resized(mean("QLinearGlobalAveragePool", "uint8", (0.1, 0.1), (2, 3, 8, 8), channels_last=1),
            {"x": ["n", "h", "w", 3]}, x=(3, 4, 5, 3)),
    resized(reduced_mean([-1], 0), {"x": ["n", 3, "m"]}, x=(3, 3, 5)),
]
CASES = [*MEANS, *REDUCED, *SIZED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
