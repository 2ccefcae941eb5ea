"""LabelEncoder between numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Case, at_sizes, case_model, check_case, random

INTS = random(4, 5, dtype="int64")
FLOATS = np.array([[0.5, -1.5, 2], [np.nan, 0.5, 7]], np.float32)


def encoder(opset: int, x: Any, dtype: str, expected: Any = None, **attributes: Any) -> Case:
    """A case of LabelEncoder with outputs of an element type."""
    return Case("LabelEncoder", opset, {"x": x}, attributes, domain="ai.onnx.ml", expected=expected,
                output_dtypes=(dtype,), note=str(list(attributes)))


def tensor(values: Any, dtype: Any) -> onnx.TensorProto:
    """A tensor attribute."""
    return onnx.numpy_helper.from_array(np.array(values, dtype), "values")


CASES = [
    *[
        case
        for opset in (2, 3, 4)
        for case in (
            encoder(opset, INTS, "float", keys_int64s=[3, -1, 0], values_floats=[0.5, 1.5, -2.0], default_float=9.0),
            encoder(opset, INTS, "float", keys_int64s=[3, -1, 0], values_floats=[0.5, 1.5, -2.0]),
            encoder(opset, INTS, "float", keys_int64s=[0, 1, 2], values_floats=[0.5, np.nan, np.inf], default_float=9.0),
            encoder(opset, FLOATS, "int64", keys_floats=[0.5, 2.0], values_int64s=[10, 20], default_int64=7),
            encoder(opset, FLOATS, "int64", keys_floats=[0.5, 2.0], values_int64s=[10, 20]),
        )
    ],
    encoder(2, INTS, "float", keys_int64s=[3, -1, 3], values_floats=[0.5, 1.5, -2.0]),
    encoder(2, FLOATS, "int64", lambda x, **_: np.where(np.isnan(x), 20, -1),
            keys_floats=[np.nan], values_int64s=[20]),
    encoder(2, FLOATS, "int64", lambda x, **_: np.array([[10, -1, -1], [20, 10, 30]]),
            keys_floats=[0.5, np.nan, 7.0], values_int64s=[10, 20, 30]),
    encoder(4, FLOATS, "int64", keys_floats=[0.5, np.nan, 7.0], values_int64s=[10, 20, 30]),
    encoder(4, np.arange(-3, 9), "float", keys_int64s=[1, 2, 3], values_floats=[0.5, np.nan, np.inf]),
    encoder(4, np.arange(-3, 9) * 250000, "int64", keys_int64s=[1000000, 0, 250000], values_int64s=[5, 6, 7]),
    encoder(4, np.arange(-3, 9), "int64", keys_int64s=[-2, -1, 0, 1], values_int64s=[5, 6, 7, 7]),
    encoder(4, random(2, 3, 4, dtype="int64"), "int64", keys_int64s=list(range(-9, 10)), values_int64s=list(range(19))),
    encoder(4, random(2, 3, 4, 2, dtype="int64"), "int64", keys_int64s=[4, 2], values_int64s=[1, 0]),
    encoder(2, np.array([-0.0, 0, 3, np.nan, 50], np.float32), "int64",  # as many sorted keys as the engine searches otherwise
            keys_floats=[1.5 * key if key else -0.0 for key in range(-9, 10)], values_int64s=list(range(19))),
    encoder(4, np.array(4), "int64", keys_int64s=[4, 2], values_int64s=[1, 0]),
    encoder(4, np.array([4]), "int64", keys_int64s=[4, 2], values_int64s=[1, 0]),
    encoder(4, INTS, "int64", lambda x, **_: np.where(x == 3, 1, np.where(x == -1, 2, -1)),
            keys_int64s=[3, -1, 3], values_int64s=[0, 2, 1]),  # the last of equal keys, as ONNX says
    encoder(4, FLOATS.astype(np.float64), "double", keys_tensor=tensor([0.5, 2, np.nan], np.float64),
            values_tensor=tensor([0.1, 1e10, 3], np.float64), default_tensor=tensor([1e-10], np.float64)),
    encoder(4, FLOATS, "float", keys_tensor=tensor([0.5, 2], np.float32),
            values_tensor=tensor([0.25, 3], np.float32), default_tensor=tensor([np.nan], np.float32)),
    encoder(4, INTS.astype(np.int32), "int16", lambda x, **_: np.where(x == 3, 5, 9).astype(np.int16),
            keys_tensor=tensor([3], np.int32), values_tensor=tensor([5], np.int16),
            default_tensor=tensor([9], np.int16)),
    at_sizes(encoder(4, INTS, "int64", keys_int64s=[4, 2], values_int64s=[1, 0]), {"x": ("n", 5)},
             {"x": random(1, 5, dtype="int64")}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(("attributes", "reason"), [
    ({"keys_strings": ["a"], "values_int64s": [3]}, "keys of type string for int64"),
    ({"keys_int64s": [3, 4], "values_int64s": [1]}, "2 keys and 1 values"),
    ({"values_int64s": [1]}, "without keys"),
])
def test_refused(attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(case_model(encoder(2, INTS, "int64", **attributes)))
