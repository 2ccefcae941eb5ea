"""What ONNX tried out before opset 10 and removed; onnxruntime judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import InvalidModel
from tests.operators.harness import Case, at_sizes, case_model, check_case, random

IMAGES = random(2, 3, 5, 6)
SIZED = [
    at_sizes(Case("Affine", 9, {"x": random(2, 3)}, {"alpha": 0.3, "beta": -2.0}), {"x": ["n", 3]}, {"x": random(1, 3)}),
    at_sizes(Case("Scale", 9, {"x": random(2, 3)}, {"scale": 0.3}), {"x": ["n", 3]}, {"x": random(5, 3)}),
    *[at_sizes(Case(op_type, 9, {"x": random(2, 3)}, {"alpha": 0.7, "beta": 1.5}), {"x": ["n", 3]}, {"x": random(4, 3)})
      for op_type in ("ScaledTanh", "ParametricSoftplus")],
    at_sizes(Case("ImageScaler", 9, {"x": IMAGES}, {"scale": 0.3, "bias": [0.5, -1.0, 0.1]}), {"x": ["n", 3, "h", "w"]},
             {"x": random(1, 3, 1, 1)}),
    *[at_sizes(Case("Crop", 9, {"x": IMAGES}, {"border": [1, 0, 2, 1], **scale}), {"x": ["n", 3, "h", "w"]},
               {"x": random(1, 3, 7, 4)}) for scale in ({}, {"scale": [2, 3]})],
    at_sizes(Case("DynamicSlice", 9, {"x": IMAGES, "starts": np.array([1, -4]), "ends": np.array([9, -1]),
                                      "axes": np.array([2, 3])}, constants=["starts", "ends", "axes"]),
             {"x": ["n", 3, "h", 6]}, {"x": random(1, 3, 4, 6)}),
    at_sizes(Case("ThresholdedRelu", 9, {"x": random(2, 3)}, {"alpha": 0.3}), {"x": ["n", 3]}, {"x": random(5, 3)}),
    *[at_sizes(Case("MeanVarianceNormalization", 8, {"x": IMAGES}, attributes), {"x": ["n", 3, 5, 6]},
               {"x": random(1, 3, 5, 6)})
      for attributes in ({}, {"across_channels": 1}, {"normalize_variance": 0})],
]
CASES = [
    *SIZED,
    Case("Affine", 1, {"x": random(2, 3)}),
    Case("Scale", 7, {"x": random(2, 3)}),
    Case("ImageScaler", 1, {"x": random(1, 1, 2, 3)}, {"bias": [-0.7]}),
    at_sizes(Case("ImageScaler", 9, {"x": IMAGES}, {"bias": [0.5, -1.0, 0.1]}), {"x": ["n", "c", 5, 6]},
             {"x": random(3, 3, 5, 6)}),
    Case("DynamicSlice", 9, {"x": IMAGES, "starts": np.array([1, 1]), "ends": np.array([2, 3])}),
    Case("ThresholdedRelu", 1, {"x": random(2, 3)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (Case("ScaledTanh", 9, {"x": IMAGES}, {"alpha": 1.0}), "without alpha or beta"),
        (Case("Crop", 9, {"x": IMAGES}, {"border": [1, 1]}), "2 borders"),
        (Case("Crop", 9, {"x": IMAGES[0]}, {"border": [1, 1, 1, 1]}), "images of rank 4"),
        (Case("ImageScaler", 9, {"x": IMAGES}, {"bias": [1.0, 2.0]}), "2 biases for 3 channels"),
    ],
    ids=str,
)
def test_refused(case: Case, reason: Any) -> None:
    with pytest.raises(InvalidModel, match=reason):
        import_model(case_model(case))
