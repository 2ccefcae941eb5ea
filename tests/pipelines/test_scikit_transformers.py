"""scikit-learn transformers of numeric features, alone and in pipelines."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn import (
    compose,
    decomposition,
    feature_selection,
    impute,
    linear_model,
    neighbors,
    pipeline,
    preprocessing,
    random_projection,
)

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import compare, run_reference
from tests.pipelines.scikit import called, check_estimator, exported, samples

LOGISTIC = linear_model.LogisticRegression
TRANSFORMERS = [
    preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.MinMaxScaler(clip=True),
    preprocessing.MaxAbsScaler(), preprocessing.RobustScaler(), preprocessing.Binarizer(threshold=0.25),
    *[preprocessing.Normalizer(norm) for norm in ("l1", "l2")],
    *[preprocessing.KBinsDiscretizer(4, encode=encode, quantile_method="averaged_inverted_cdf") for encode in ("ordinal", "onehot-dense")],
    preprocessing.PolynomialFeatures(2), preprocessing.PolynomialFeatures(3, interaction_only=True, include_bias=False),
    preprocessing.PowerTransformer(), preprocessing.PowerTransformer(standardize=False),
    preprocessing.QuantileTransformer(n_quantiles=10), preprocessing.FunctionTransformer(),
    decomposition.PCA(3), decomposition.PCA(3, whiten=True), decomposition.IncrementalPCA(3),
    decomposition.TruncatedSVD(3, random_state=0), decomposition.KernelPCA(2, kernel="rbf"),
    random_projection.GaussianRandomProjection(3, random_state=0),
    feature_selection.VarianceThreshold(0.9),
    pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2)),
    compose.make_column_transformer((preprocessing.StandardScaler(), [0, 2]), (preprocessing.MinMaxScaler(), [3]), remainder="passthrough"),
    neighbors.KNeighborsTransformer(n_neighbors=3),
    pipeline.make_pipeline(preprocessing.StandardScaler(), preprocessing.Normalizer(), decomposition.PCA(2)),
]
SUPERVISED_TRANSFORMERS = [
    *[getattr(feature_selection, name)() for name in ("SelectFdr", "SelectFpr", "SelectFwe")],
    feature_selection.SelectKBest(k=2), feature_selection.SelectPercentile(percentile=50),
    feature_selection.GenericUnivariateSelect(param=60), feature_selection.SelectFromModel(LOGISTIC()),
    feature_selection.RFE(LOGISTIC(), n_features_to_select=2), feature_selection.RFECV(LOGISTIC(), cv=2),
    neighbors.NeighborhoodComponentsAnalysis(2, random_state=0, max_iter=10),
]
COUNT_TRANSFORMERS = [
    preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    feature_selection.SelectKBest(feature_selection.chi2, k=2),
]
MISSING = [
    impute.SimpleImputer(), impute.SimpleImputer(strategy="median"), impute.SimpleImputer(strategy="most_frequent"),
    impute.SimpleImputer(strategy="constant", fill_value=3.0),
    pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler(), linear_model.Ridge()),
]

ROWS: list[tuple[str, Any]] = [
    *[("regression", one) for one in TRANSFORMERS],
    *[("classes", one) for one in SUPERVISED_TRANSFORMERS],
    *[("counts", one) for one in COUNT_TRANSFORMERS],
    ("counts-binary", preprocessing.TargetEncoder(cv=2, random_state=0)),
    *[("missing", one) for one in MISSING],
]


@pytest.mark.parametrize("row", ROWS, ids=called)
def test_agrees(row: tuple[str, Any]) -> None:
    check_estimator(*row, "transform" if hasattr(row[1], "transform") else "predict")


# ONNX's Normalizer takes the largest element with its sign; the exported imputer has no indicators
DIFFERING = [("regression", preprocessing.Normalizer("max")), ("missing", impute.SimpleImputer(add_indicator=True))]


@pytest.mark.parametrize("row", DIFFERING, ids=called)
def test_agrees_with_onnxruntime_alone(row: tuple[str, Any]) -> None:
    check_estimator(*row, "")


@pytest.mark.parametrize("estimator", [preprocessing.LabelBinarizer(), preprocessing.LabelEncoder()], ids=repr)
def test_encodes_labels(estimator: Any) -> None:
    labels = samples("classes")[1]
    model = exported(estimator.fit(labels), labels[:1])
    with ScoringFunction(import_model(model)) as function:
        for count in (40, 1):
            (actual,) = function({"X": labels[:count]}).values()
            compare(actual, run_reference(model, {"X": labels[:count]})[0], 1e-6, repr(estimator))
            assert (actual == estimator.transform(labels[:count])).all()
