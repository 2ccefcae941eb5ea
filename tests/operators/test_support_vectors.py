"""SVMRegressor and SVMClassifier: kernels, votes, probabilities, linear mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Case, at_sizes, case_model, check_case, random

ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
KERNELS: list[dict[str, Any]] = [
    {"kernel_type": "LINEAR"},
    {"kernel_type": "LINEAR", "kernel_params": [0.5, 3.0, 2.0]},
    {"kernel_type": "RBF", "kernel_params": [0.4, 0.0, 3.0]},
    {"kernel_type": "POLY", "kernel_params": [0.4, 0.25, 3.0]},
    {"kernel_type": "POLY", "kernel_params": [0.4, 0.0, 2.0]},
    {"kernel_type": "SIGMOID", "kernel_params": [0.3, 0.1, 3.0]},
]
RBF = KERNELS[2]
X = random(9, 3)
FAR = np.array([[np.inf, 0, -np.inf], [1, np.inf, np.inf], [np.nan, 1, 2], [1, 0, 2]], np.float32)


def regressor(x: Any = X, count: int = 4, **more: Any) -> Case:
    """A case of SVMRegressor with ``count`` support vectors."""
    attributes = {"n_supports": count, "rho": [0.3], "kernel_params": [0.0, 0.0, 0.0],
                  "coefficients": random(count or 3, seed=1).tolist(),
                  **({"support_vectors": random(count, 3, seed=2).ravel().tolist()} if count else {}), **more}
    return Case("SVMRegressor", 1, {"x": x}, attributes, domain=ML, note=str(more), output_dtypes=("float",))


def classifier(counts: list[int], labels: list[int], x: Any = X, proba: bool = False, **more: Any) -> Case:
    """A case of SVMClassifier with so many support vectors by class."""
    total, pairs = sum(counts), len(labels) * (len(labels) - 1) // 2
    attributes = {
        "coefficients": random(len(labels) - 1, total, seed=1).ravel().tolist(),
        "support_vectors": random(total, 3, seed=2).ravel().tolist(),
        "vectors_per_class": counts,
        "rho": random(pairs, seed=3).tolist(),
        "classlabels_ints": labels,
        "kernel_params": [0.0, 0.0, 0.0],
        **({"prob_a": (-np.abs(random(pairs, seed=4))).tolist(), "prob_b": random(pairs, seed=5).tolist()} if proba else {}),
        **more,
    }
    return _case(x, f"{counts}-{labels}-{proba}-{more}", attributes)


def linear(coefficients: Any, labels: list[int], x: Any = X, **more: Any) -> Case:
    """A case of SVMClassifier without support vectors."""
    attributes = {"coefficients": np.ravel(coefficients).tolist(), "rho": [0.2], "classlabels_ints": labels,
                  "kernel_params": [0.0, 0.0, 0.0], **more}
    return _case(x, f"linear-{labels}-{more}", attributes)


def _case(x: Any, note: str, attributes: dict[str, Any]) -> Case:
    return Case("SVMClassifier", 1, {"x": x}, attributes, outputs=2, domain=ML, note=note, tolerance=1e-4,
                output_dtypes=("int64", "float"))


CASES = [
    *[regressor(**kernel) for kernel in KERNELS],
    *[regressor(x=FAR, kernel_type=kernel, kernel_params=[0.0, 0.25, 2.0]) for kernel in ("RBF", "POLY")],
    *[regressor(x=x, kernel_type="POLY", kernel_params=[0.4, 0.0, degree])
      for x, degree in ((FAR, 0.0), (np.zeros((2, 3), np.float32), -2.0))],
    replace(regressor(x=random(6, 3000), kernel_type="SIGMOID", kernel_params=[0.01, 0.0, 0.0], support_vectors=
                      random(4, 3000, seed=2).ravel().tolist()), note="few long rows"),
    regressor(count=0, kernel_type="LINEAR"),
    regressor(count=0, one_class=1),
    regressor(x=X[0], **RBF),
    *[regressor(one_class=1, **kernel) for kernel in KERNELS[2:4]],
    regressor(post_transform="LOGISTIC", **RBF),
    *[classifier([2, 3, 2], [0, 1, 2], **kernel) for kernel in KERNELS],
    *[classifier([2, 3], [0, 1], **kernel) for kernel in KERNELS],
    *[classifier([2, 3, 1, 4], [5, 1, 2, 0], proba=True, **kernel) for kernel in KERNELS[1:3]],
    *[classifier([2, 3], [3, 7], proba=proba, **RBF) for proba in (False, True)],
    classifier([2, 3], [3, 7], x=FAR, proba=True, **RBF), regressor(x=FAR, **RBF),
    *[classifier([1] * 5, [3, 7, 1, 0, 9], proba=proba, **RBF) for proba in (False, True)],
    *[classifier([2, 3, 2], [0, 1, 2], post_transform=transform, **RBF) for transform in TRANSFORMS],
    *[classifier([2, 3, 2], [0, 1, 2], proba=True, post_transform=transform, **RBF) for transform in TRANSFORMS],
    *[classifier([2, 3], [0, 1], post_transform=transform, **RBF) for transform in TRANSFORMS[:4]],
    *[classifier([2, 3], [0, 1], proba=True, post_transform=transform, **RBF) for transform in TRANSFORMS],
    classifier([2, 0, 3], [0, 1, 2], **RBF),
    classifier([2, 3, 2], [0, 1, 2], x=X[0], proba=True, **RBF),
    classifier([2, 3, 2], [0, 1, 2], x=np.array([[np.nan, 1, 2], [1, 2, 3]], np.float32), proba=True, **RBF),
    *[classifier([2, 3, 2], [0, 1, 2], x=random(4, 3, dtype=dtype), **RBF) for dtype in ("double", "int64", "int32")],
    # rho 0 and no coefficients: all scores are 0, each vote goes to the second class of the pair
    classifier([2, 3, 2], [0, 1, 2], rho=[0.0] * 3, coefficients=[0.0] * 14, **RBF),
    *[linear(random(3, 3, seed=1), [0, 1, 2], post_transform=transform) for transform in TRANSFORMS[:4]],
    *[linear(random(2, 3, seed=1), [4, 6], post_transform=transform) for transform in TRANSFORMS[:4]],
    linear(np.abs(random(2, 3, seed=1)), [4, 6]),
    linear(np.abs(random(2, 3, seed=1)), [4, 6], prob_a=[1.0], prob_b=[0.5]),
    linear(random(2, 3, seed=1), [4, 6], prob_a=[1.0], prob_b=[0.5]),
    linear(random(3, 3, seed=1), [0, 1, 2], kernel_type="RBF"),
    linear(random(1, 3, seed=1), [6]),
    *[
        at_sizes(case, {"x": ("n", 3)}, {"x": random(1, 3, seed=4)}, {"x": random(40, 3, seed=5)})
        for case in (
            regressor(**RBF),
            classifier([2, 3, 2], [0, 1, 2], proba=True, **RBF),
            classifier([2, 3], [0, 1], **RBF),
            linear(random(2, 3, seed=1), [4, 6]),
        )
    ],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_undefined_scores_are_refused() -> None:
    with pytest.raises(TranspileError, match="undefined"):
        import_model(case_model(classifier([2, 3], [0, 1], post_transform="PROBIT", **RBF)))


def test_unknown_kernel_is_refused() -> None:
    with pytest.raises(TranspileError, match="kernel"):
        import_model(case_model(regressor(kernel_type="OTHER")))
