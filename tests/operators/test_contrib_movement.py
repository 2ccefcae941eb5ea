"""Data movement, softmax and pooling of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, contrib, random, run_reference

X = random(2, 3, 4)
MAPS = random(2, 3, 5, 6)
GRID = np.random.default_rng(1).uniform(-1.2, 1.2, (2, 4, 3, 2)).astype(np.float32)
NUMBERS = np.array([3, 1, 3, 2, 1, 1], np.float32)
IMAGE = np.random.default_rng(2).integers(0, 255, (2, 6, 7, 3)).astype(np.uint8)


def softmax_of_sum(data: Array, bias: Array, axis: int = 1, **_: Any) -> Array:
    """No kernel for CPUs: by numpy."""
    total = data + bias
    axes = tuple(range(axis % data.ndim, data.ndim))
    powers = np.exp(total - total.max(axes, keepdims=True))
    return powers / powers.sum(axes, keepdims=True)


NEAR = 100 + random(4, 3)
NHWC = {"x": random(2, 6, 7, 3), "weight": random(4, 3, 2, 3, seed=1)}


def channels_last_convolution(x: Array, weight: Array, bias: Array | None = None, **attributes: Any) -> Array:
    """Conv of the transposed image by the transposed weight: the CPU package has no kernel."""
    inputs = {"x": np.moveaxis(x, -1, 1), "w": np.moveaxis(weight, -1, 1), "b": bias}
    case = Case("Conv", 11, inputs, attributes=attributes)
    feeds = {name: array for name, array in inputs.items() if array is not None}
    return np.moveaxis(run_reference(case_model(case), feeds)[0], 1, -1)


SIZED = [
    at_sizes(contrib("GatherND", {"x": X, "i": np.array([[0, 1], [1, 2]], np.int64)}), {"x": ["n", 3, "m"], "i": ["k", 2]},
             {"x": random(3, 3, 5), "i": np.array([[2, 0], [-1, 1], [0, 2]], np.int64)}),
    at_sizes(contrib("Trilu", {"x": X}), {"x": ["n", 3, "m"]}, {"x": random(1, 3, 2)}),
    at_sizes(contrib("ExpandDims", {"x": X, "axis": np.array(-2, np.int32)}, constants=["axis"]), {"x": ["n", 3, "m"]},
             {"x": random(1, 3, 2)}),
    at_sizes(contrib("Pad", {"x": X, "pads": np.array([0, 1, 2, 0, 0, 1], np.int64)}, constants=["pads"]),
             {"x": ["n", 3, "m"]}, {"x": random(1, 3, 2)}),
    at_sizes(contrib("BiasSoftmax", {"x": random(2, 3, 4, 4), "b": random(2, 1, 1, 4, seed=1)},
                     attributes={"axis": 3, "is_inner_broadcast": 1}, expected=softmax_of_sum),
             {"x": ["n", 3, "seq", "seq"], "b": ["n", 1, 1, "seq"]},
             {"x": random(3, 3, 5, 5), "b": random(3, 1, 1, 5, seed=1)}),
    at_sizes(contrib("NhwcMaxPool", {"x": IMAGE}, attributes={"kernel_shape": [2, 3]}), {"x": ["n", "h", "w", 3]},
             {"x": IMAGE[:1, :4, :5]}),
    at_sizes(contrib("Unique", {"x": NUMBERS}, outputs=3, output_dtypes=["float", "int64", "int64"]), {"x": ["n"]},
             {"x": NUMBERS[:2]}),
    at_sizes(contrib("GridSample", {"x": MAPS, "grid": GRID}, tolerance=2e-5),
             {"x": ["n", 3, "h", "w"], "grid": ["n", "rows", "cols", 2]}, {"x": random(1, 3, 4, 7), "grid": GRID[:1, :2]}),
    at_sizes(contrib("CDist", {"a": random(4, 3), "b": random(5, 3, seed=1)}), {"a": ["n", 3], "b": ["m", 3]},
             {"a": random(2, 3), "b": random(6, 3, seed=1)}),
]
CASES = [
    contrib("GatherND", {"x": X, "i": np.array([[0, 1], [1, 2]], np.int64)}),
    contrib("GatherND", {"x": X, "i": np.array([[[0, 1, 3]], [[1, -1, 2]]], np.int32)}),
    contrib("Trilu", {"x": X}),
    contrib("Trilu", {"x": random(2, 2, 4, 3), "k": np.array(-1, np.int64)}, attributes={"upper": 0}),
    contrib("Range", {"a": np.array(1, np.float32), "b": np.array(7, np.float32), "c": np.array(2, np.float32)}),
    contrib("Range", {"a": np.array([1], np.int64), "b": np.array([4], np.int64)}),
    contrib("ExpandDims", {"x": X, "axis": np.array(1, np.int32)}, constants=["axis"]),
    contrib("ExpandDims", {"x": X, "axis": np.array(-1, np.int32)}, constants=["axis"]),
    contrib("Pad", {"x": X, "pads": np.array([0, 1, 2, 0, 0, 1], np.int64), "value": np.array([1.5], np.float32)},
            constants=["pads"]),
    contrib("Pad", {"x": X, "pads": np.array([[0, 1, 2, 0, 0, 1]], np.int64)}, attributes={"mode": "reflect"},
            constants=["pads"]),
    contrib("BiasSoftmax", {"x": random(2, 3, 4, 4), "b": random(2, 1, 1, 4, seed=1)},
            attributes={"axis": 3, "is_inner_broadcast": 1}, expected=softmax_of_sum),
    contrib("BiasSoftmax", {"x": random(2, 3, 4), "b": random(3, 4, seed=1)},
            attributes={"axis": 1, "is_inner_broadcast": 0}, expected=softmax_of_sum),
    contrib("NhwcMaxPool", {"x": IMAGE}, attributes={"kernel_shape": [2, 3]}),
    contrib("NhwcMaxPool", {"x": IMAGE.astype(np.int8)},
            attributes={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    contrib("Unique", {"x": NUMBERS}, outputs=3, output_dtypes=["float", "int64", "int64"]),
    *[contrib("GridSample", {"x": MAPS, "grid": GRID}, attributes=attributes, tolerance=2e-5) for attributes in (
        {}, {"mode": "nearest", "padding_mode": "border"}, {"mode": "bicubic", "align_corners": 1},
        {"padding_mode": "reflection"})],
    contrib("CDist", {"a": random(4, 3), "b": random(5, 3, seed=1)}),
    contrib("CDist", {"a": random(4, 3), "b": random(5, 3, seed=1)}, attributes={"metric": "euclidean"}),
    contrib("CDist", {"a": NEAR, "b": NEAR[::-1] + np.float32(1e-3)}, attributes={"metric": "euclidean"},
            expected=lambda a, b, **_: np.sqrt((np.subtract(a[:, None], b, dtype=float) ** 2).sum(2)).astype(np.float32)),
    *SIZED,
    contrib("NhwcConv", NHWC, expected=channels_last_convolution, attributes={"pads": [1, 0, 1, 2], "strides": [2, 1]}),
    contrib("NhwcConv", {**NHWC, "bias": random(4, seed=2)}, expected=channels_last_convolution),
    at_sizes(contrib("NhwcConv", NHWC, expected=channels_last_convolution), {"x": ["batch", "height", 7, 3]},
             {"x": random(1, 8, 7, 3)}),
    *[contrib("UnfoldTensor", {"x": random(*dims)}, attributes=attributes) for dims, attributes in (
        ((7,), {"size": 3}), ((2, 7, 3), {"dim": 1, "size": 3, "step": 2}), ((5, 4), {"dim": 0, "size": 5}))],
    at_sizes(contrib("UnfoldTensor", {"x": random(2, 7)}, attributes={"size": 3, "step": 2}), {"x": ["batch", "length"]},
             {"x": random(3, 10)}),
    *[contrib("IsAllFinite", {"x": X, "y": np.array(special, np.float32)}, attributes=attributes,
              output_dtypes=["bool"], expected=lambda x, y, answer=answer, **_: np.bool_(answer))
      for special, attributes, answer in (
          ([1, 2], {}, True), ([1, np.inf], {}, False), ([np.nan], {}, False), ([np.nan], {"isinf_only": 1}, True),
          ([-np.inf], {"isnan_only": 1}, True), ([np.nan], {"isnan_only": 1}, False))],
    contrib("IsAllFinite", {"x": X[:0]}, output_dtypes=["bool"], expected=lambda x: np.bool_(True)),
    at_sizes(contrib("IsAllFinite", {"x": X}, output_dtypes=["bool"], expected=lambda x: np.bool_(np.isfinite(x).all())),
             {"x": ["batch", 3, 4]}, {"x": np.full((3, 3, 4), np.inf, np.float32)}),
    contrib("TorchEmbedding", {"table": X[0], "indices": np.array([[2, 0], [1, 1]])}, expected=lambda table, indices:
            table[indices]),
    at_sizes(contrib("TorchEmbedding", {"table": X[0], "indices": np.array([[2, 0], [1, 1]])},
                     expected=lambda table, indices: table[indices]),
             {"indices": ["batch", 2]}, {"indices": np.array([[2, 0], [1, 1], [0, 2]])}),
    contrib("SampleOp", {"x": X}),
    at_sizes(contrib("SampleOp", {"x": X}), {"x": ["batch", 3, 4]}, {"x": random(4, 3, 4)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
