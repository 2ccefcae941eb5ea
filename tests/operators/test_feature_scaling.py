"""Scaler, Normalizer, Binarizer, Imputer, FeatureVectorizer, ArrayFeatureExtractor and OneHotEncoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, by_reference, check_case, random

ML = "ai.onnx.ml"
DTYPES = ["float", "double", "int64", "int32"]
SIGNS = np.array([[1, -5, 2], [0, 0, 0], [-1, -2, -4], [3, 0, 3]], np.float32)
NAN = np.array([[np.nan, 1, -2], [1, np.nan, np.nan], [4, 0, np.nan]], np.float32)


def ml(op_type: str, *inputs: Any, constants: tuple[str, ...] = (), expected: Any = None, **attributes: Any) -> Case:
    """A case of one operator of ai.onnx.ml; the inputs are called a, b, ..."""
    named = dict(zip("abcdef", inputs))
    dtypes = () if op_type in ("Binarizer", "Imputer", "ArrayFeatureExtractor") else ("float",)
    return Case(op_type, 1, named, attributes, constants, domain=ML, expected=expected, output_dtypes=dtypes)


def from_the_end(data: Array, indices: list[int], *constants: str) -> Case:
    """As ONNX's reference has it; onnxruntime reads before its data."""
    return replace(by_reference(ml("ArrayFeatureExtractor", data, np.array(indices), constants=constants)), note=str(indices))


def any_samples(case: Case, **size: Array) -> Case:
    """The case with a symbol for the number of samples, run at a further one."""
    inputs = {name: array for name, array in case.inputs.items() if array is not None and name not in case.constants}
    return at_sizes(case, {name: ("n", *array.shape[1:]) for name, array in inputs.items()}, size)


CASES = [
    *[ml("Scaler", random(4, 3, dtype=dtype), offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, -1.0]) for dtype in DTYPES],
    ml("Scaler", random(4, 3), offset=[0.5], scale=[2.0]),
    ml("Scaler", random(4, 3), offset=[0.0, 0.0, 0.0], scale=[1.0, 1.0, 1.0]),
    ml("Scaler", random(3), offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, -1.0]),
    ml("Scaler", random(2, 3, 4), offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, -1.0]),
    ml("Scaler", random(2, 3, 2, 5), offset=[0.5], scale=[3.0]),
    *[ml("Normalizer", random(4, 3, dtype=dtype), norm=norm) for dtype in DTYPES for norm in ("MAX", "L1", "L2")],
    *[ml("Normalizer", values, norm=norm) for values in (SIGNS, NAN, SIGNS[2]) for norm in ("MAX", "L1", "L2")],
    ml("Normalizer", SIGNS),
    ml("Binarizer", random(4, 3)),
    ml("Binarizer", random(2, 3, 4, 2), threshold=0.75),
    *[
        ml("Binarizer", random(4, 3, dtype=dtype), threshold=0.5, expected=lambda a, threshold: (a > 0.5).astype(a.dtype))
        for dtype in DTYPES[1:]
    ],
    ml("Imputer", NAN, imputed_value_floats=[7.0], replaced_value_float=float("nan")),
    ml("Imputer", NAN, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan")),
    ml("Imputer", NAN, imputed_value_floats=[7.0, 8.0], replaced_value_float=float("nan")),
    ml("Imputer", NAN, imputed_value_floats=[7.0, float("inf"), float("nan")], replaced_value_float=1.0),
    ml("Imputer", NAN[0], imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=1.0),
    ml("Imputer", random(4, 3, dtype="int64") % 3, imputed_value_int64s=[7], replaced_value_int64=1),
    ml("Imputer", random(4, 3, dtype="int64") % 3, imputed_value_int64s=[7, 8, 9], replaced_value_int64=0),
    ml("Imputer", random(2, 3, 4, dtype="int64") % 3, imputed_value_int64s=[7], replaced_value_int64=0),
    ml("Imputer", random(4, 3, dtype="int32") % 3, imputed_value_int64s=[7], replaced_value_int64=0,
       expected=lambda a, **_: np.where(a == 0, 7, a).astype(np.int32)),
    ml("Imputer", NAN.astype(np.float64), imputed_value_floats=[7.0], replaced_value_float=float("nan"),
       expected=lambda a, **_: np.where(np.isnan(a), 7, a)),
    *[ml("FeatureVectorizer", random(4, 3, dtype=dtype), inputdimensions=[3]) for dtype in DTYPES],
    ml("FeatureVectorizer", random(4, 3), random(4, 2, seed=1), inputdimensions=[2, 4]),
    ml("FeatureVectorizer", random(4, 3), random(4, 2, 2, seed=1), random(4, 1), inputdimensions=[3, 3, 1]),
    ml("FeatureVectorizer", random(3), random(2, seed=1), inputdimensions=[3, 2]),
    *[ml("ArrayFeatureExtractor", random(4, 6, dtype=dtype), np.array([[5, 0, 0]]), constants=("b",)) for dtype in DTYPES],
    ml("ArrayFeatureExtractor", random(4, 6), np.array([2]), constants=("b",)),
    ml("ArrayFeatureExtractor", random(4, 6), np.array([2, 3, 4]), constants=("b",)),
    ml("ArrayFeatureExtractor", random(6), np.array([2, 0]), constants=("b",)),
    ml("ArrayFeatureExtractor", random(6), np.arange(6), constants=("b",)),
    ml("ArrayFeatureExtractor", random(2, 3, 4, 5), np.array([4, 1, 1, 0, 2]), constants=("b",)),
    ml("ArrayFeatureExtractor", random(1, 6), np.array([[5], [0], [3], [3]])),
    ml("ArrayFeatureExtractor", random(2, 3, 6), np.array([5, 0, 3])),
    ml("ArrayFeatureExtractor", NAN, np.array([2, 0])),
    ml("ArrayFeatureExtractor", np.array([[10, 20, 30]]), np.array([2, 0, 1, 1]), constants=("a",)),
    from_the_end(random(4, 6), [-1, 3, -6]), from_the_end(random(5), [4, -5, -1, -1]),
    from_the_end(random(4, 6), [-1, 3, -6], "b"), from_the_end(random(5), [-2], "b"),
    at_sizes(from_the_end(random(4, 6), [-1, 3, -4], "b"), {"a": ["n", "m"]}, {"a": random(2, 4)}),
    *[ml("OneHotEncoder", random(4, 3, dtype=dtype) * 2, cats_int64s=[-2, 0, 1, 5]) for dtype in DTYPES[:3]],
    ml("OneHotEncoder", random(7, dtype="int64"), cats_int64s=[3, 1, 3, 0]),
    ml("OneHotEncoder", np.array(1), cats_int64s=[3, 1]),
    ml("OneHotEncoder", NAN, cats_int64s=[1, 0]),
    ml("OneHotEncoder", np.array([-0.5, 0, 4, -0.0, 20], np.float32), cats_int64s=list(range(-10, 30, 2)),  # sorted: searched otherwise
       expected=lambda a, **_: (np.trunc(a)[:, None] == np.arange(-10, 30, 2)).astype(np.float32)),
    ml("OneHotEncoder", np.array([[2, 0, 1]]), cats_int64s=[0, 1, 2], zeros=0),
    ml("OneHotEncoder", random(2, 2, 3, dtype="int32"), cats_int64s=[0, 1],
       expected=lambda a, cats_int64s: (a[..., None] == np.array(cats_int64s)).astype(np.float32)),
    any_samples(ml("Scaler", random(4, 3), offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, -1.0]), a=random(1, 3)),
    any_samples(ml("Normalizer", random(4, 3), norm="L2"), a=random(7, 3)),
    any_samples(ml("Binarizer", random(4, 3)), a=random(1, 3)),
    any_samples(ml("Imputer", NAN, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan")), a=NAN[:1]),
    any_samples(ml("FeatureVectorizer", random(4, 3), random(4, 2), inputdimensions=[4, 1]), a=random(1, 3),
                b=random(1, 2)),
    any_samples(ml("ArrayFeatureExtractor", random(4, 6), np.array([[5, 0, 0]]), constants=("b",)), a=random(1, 6)),
    any_samples(ml("ArrayFeatureExtractor", np.array([[10, 20, 30]]), np.array([2, 0, 1, 1]), constants=("a",)),
                b=np.array([1])),
    any_samples(ml("OneHotEncoder", random(4, 3, dtype="int64"), cats_int64s=[0, 1]), a=random(9, 3, dtype="int64")),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_unknown_category_is_an_error_of_the_run() -> None:
    with pytest.raises(Exception, match="zeros=0 allows none"):
        check_case(ml("OneHotEncoder", np.array([[2, 7]]), cats_int64s=[0, 1, 2], zeros=0, expected=lambda a, **_: a))
