"""LinearRegressor and LinearClassifier with every post_transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.errors import TranspileError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Case, at_sizes, case_model, check_case, compare, random, run_reference

ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
X = random(6, 3)
# scores that are probabilities, so that PROBIT has values; one row gives zeros for SOFTMAX_ZERO
UNIT = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0.5, 0.2, 0.3]], np.float32)
SHARES = [0.1, 0.9, 0.5, 0.3, 0.05, 0.0, 0.25, 0.75, 0.6]


def regressor(x: Any, **attributes: Any) -> Case:
    """A case of LinearRegressor."""
    return Case("LinearRegressor", 1, {"x": x}, attributes, domain=ML, output_dtypes=("float",))


def classifier(x: Any, rows: int, labels: list[int], intercepts: list[float] | None = None, **more: Any) -> Case:
    """A case of LinearClassifier with coefficients in ``rows`` rows."""
    coefficients = more.pop("coefficients", random(rows, 3, seed=2).ravel().tolist())
    attributes = {"coefficients": coefficients, "classlabels_ints": labels,
                  "intercepts": random(rows, seed=3).tolist() if intercepts is None else intercepts, **more}
    return Case("LinearClassifier", 1, {"x": x}, attributes, outputs=2, domain=ML, tolerance=1e-4,
                note=f"{rows}-{labels}-{more}", output_dtypes=("int64", "float"))


CASES = [
    regressor(X, coefficients=[1.0, -2.0, 0.5], intercepts=[0.25]),
    regressor(X, coefficients=[1.0, -2.0, 0.5]),
    regressor(X[0], coefficients=[1.0, -2.0, 0.5], intercepts=[0.25]),
    regressor(X, coefficients=random(2, 3).ravel().tolist(), intercepts=[0.25, 0.5], targets=2),
    regressor(X, coefficients=random(2, 3).ravel().tolist(), targets=2),
    regressor(X, coefficients=random(2, 3).ravel().tolist(), intercepts=[0.25], targets=2),
    *[regressor(UNIT, coefficients=SHARES, targets=3, post_transform=transform) for transform in TRANSFORMS],
    *[regressor(UNIT[:3], coefficients=SHARES[:3], targets=1, post_transform=transform) for transform in TRANSFORMS],
    *[classifier(UNIT, 3, [7, 2, 9], [0.0] * 3, coefficients=SHARES, post_transform=transform) for transform in TRANSFORMS],
    *[classifier(X, rows, list(range(rows)), post_transform=transform) for rows in (2, 3, 5) for transform in TRANSFORMS[:4]],
    *[classifier(X, 1, [4, 8], post_transform=transform) for transform in TRANSFORMS[:4]],
    classifier(X, 1, [0, 1]),
    classifier(X, 1, [-1, 1]),
    classifier(X, 1, [10, 20], multi_class=1),
    classifier(X, 3, [10, 20, 30], multi_class=1, post_transform="SOFTMAX"),
    classifier(X, 3, [0, 5, 1]),
    classifier(X[1], 3, [0, 5, 1]),
    classifier(np.ones((2, 3), np.float32), 3, [5, 6, 8], [0.0] * 3, coefficients=[1.0, 0.0, 0.0] * 3),  # a tie
    classifier(np.array([[np.nan, 1, 2]], np.float32), 3, [5, 6, 8]),
    *[classifier(random(4, 3, dtype=dtype), 3, [2, 1, 0]) for dtype in ("double", "int64", "int32")],
    *[
        at_sizes(case, {"x": ("n", 3)}, {"x": random(1, 3, seed=4)}, {"x": random(40, 3, seed=5)})
        for case in (
            regressor(X, coefficients=[1.0, -2.0, 0.5], intercepts=[0.25]),
            classifier(X, 1, [4, 8]),
            classifier(X, 3, [4, 8, 1], post_transform="SOFTMAX"),
        )
    ],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("unused", [0, 1])
def test_one_of_the_outputs(unused: int) -> None:
    case = classifier(X, 3, [4, 8, 1])
    model = case_model(case)
    expected = run_reference(model, {"x": X})[1 - unused]
    del model.graph.output[unused]
    with ScoringFunction(import_model(model)) as function:
        compare(function({"x": X})[model.graph.output[0].name], expected, 1e-5, str(case))


@pytest.mark.parametrize(("attributes", "reason"), [
    ({"coefficients": [1.0, 2.0]}, "2 features"),
    ({"coefficients": [1.0, 2.0, 3.0], "post_transform": "OTHER"}, "post_transform"),
    ({"coefficients": [1.0, 2.0, 3.0, 4.0], "targets": 3}, "4 coefficients for 3"),
])
def test_refused(attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(case_model(regressor(X, **attributes)))


def test_another_number_of_features_ends_the_run_in_words() -> None:
    case = at_sizes(regressor(X, coefficients=[1.0, 2.0, 3.0]), {"x": ["rows", "features"]})
    with ScoringFunction(import_model(case_model(case))) as function, pytest.raises(EngineError, match="coefficients"):
        function({"x": X[:, :2]})


@pytest.mark.parametrize(("case", "reason"), [
    (classifier(X, 1, [4, 8], post_transform="PROBIT"), "undefined"),
    (classifier(X, 1, [4]), "1 labels for 1 columns"),
    (classifier(X, 3, [4, 5]), "2 labels for 3 columns"),
])
def test_refused_classifiers(case: Case, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(case_model(case))
