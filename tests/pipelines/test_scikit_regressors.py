"""scikit-learn regressors, clusterings and detectors of outliers of numeric features, alone and in pipelines."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn import (
    cluster,
    cross_decomposition,
    decomposition,
    ensemble,
    gaussian_process,
    linear_model,
    mixture,
    model_selection,
    multioutput,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)

from tests.pipelines.scikit import called, check_estimator

RBF = gaussian_process.kernels.RBF
LINEAR_REGRESSORS = [
    linear_model.LinearRegression(), linear_model.Ridge(), linear_model.RidgeCV(), linear_model.Lasso(alpha=0.05),
    linear_model.LassoCV(), linear_model.LassoLars(alpha=0.01), linear_model.LassoLarsCV(), linear_model.LassoLarsIC(),
    linear_model.Lars(), linear_model.LarsCV(), linear_model.ElasticNet(alpha=0.05), linear_model.ElasticNetCV(),
    linear_model.SGDRegressor(random_state=0), linear_model.BayesianRidge(), linear_model.ARDRegression(),
    linear_model.HuberRegressor(), linear_model.TheilSenRegressor(random_state=0),
    linear_model.OrthogonalMatchingPursuit(), linear_model.OrthogonalMatchingPursuitCV(),
    linear_model.PassiveAggressiveRegressor(random_state=0), linear_model.RANSACRegressor(random_state=0),
    linear_model.QuantileRegressor(alpha=0.01), svm.LinearSVR(),
]
SUPPORT_REGRESSORS = [
    *[svm.SVR(kernel=kernel) for kernel in ("linear", "poly", "rbf", "sigmoid")], svm.NuSVR(),
]
OTHER_REGRESSORS = [
    neural_network.MLPRegressor(hidden_layer_sizes=(8,), random_state=0, max_iter=300),
    neighbors.KNeighborsRegressor(3), neighbors.KNeighborsRegressor(3, weights="distance"),
    neighbors.RadiusNeighborsRegressor(100.0),
    gaussian_process.GaussianProcessRegressor(RBF(2.0), alpha=0.1),
    ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", svm.SVR())]),
    ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", svm.SVR())]),
    ensemble.BaggingRegressor(linear_model.Ridge(), 3, random_state=0),
    cross_decomposition.PLSRegression(2),
    pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.Ridge()),
    model_selection.GridSearchCV(linear_model.Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
]
TARGETS_REGRESSORS = [
    linear_model.LinearRegression(), linear_model.MultiTaskLasso(0.05), linear_model.MultiTaskElasticNet(0.05),
    linear_model.MultiTaskLassoCV(), linear_model.MultiTaskElasticNetCV(),
    multioutput.MultiOutputRegressor(linear_model.Ridge()), multioutput.MultiOutputRegressor(svm.SVR()),
    neighbors.KNeighborsRegressor(4), neural_network.MLPRegressor(hidden_layer_sizes=(8,), random_state=0, max_iter=200),
    cross_decomposition.PLSRegression(2),
]
POSITIVE_REGRESSORS = [
    linear_model.PoissonRegressor(), linear_model.GammaRegressor(), linear_model.TweedieRegressor(power=1.5),
]
CLUSTERS = [
    cluster.KMeans(3, random_state=0, n_init=1), cluster.MiniBatchKMeans(3, random_state=0, n_init=1),
    mixture.GaussianMixture(2, random_state=0),
    *[mixture.GaussianMixture(2, covariance_type=kind, random_state=0) for kind in ("diag", "tied", "spherical")],
    mixture.BayesianGaussianMixture(n_components=2, random_state=0),
    svm.OneClassSVM(), linear_model.SGDOneClassSVM(random_state=0),
    neighbors.LocalOutlierFactor(novelty=True),
]
ROWS: list[tuple[str, Any]] = [
    *[("regression", one) for one in [*LINEAR_REGRESSORS, *SUPPORT_REGRESSORS, *OTHER_REGRESSORS, *CLUSTERS]],
    *[("targets", one) for one in TARGETS_REGRESSORS],
    *[("positive", one) for one in POSITIVE_REGRESSORS],
]

# parts of the names of rows for which skl2onnx's model is known to compute something else than scikit-learn
EXPORTED_OTHERWISE = ("weights='distance'",)


@pytest.mark.parametrize("row", ROWS, ids=called)
def test_agrees(row: tuple[str, Any]) -> None:
    method = "" if any(part in called(row) for part in EXPORTED_OTHERWISE) else "predict"
    check_estimator(*row, method)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("estimator", [
    linear_model.Ridge(), svm.LinearSVR(), cluster.KMeans(3, random_state=0, n_init=1),
    pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()),
], ids=repr)
def test_other_inputs(estimator: Any, dtype: str) -> None:
    check_estimator("regression", estimator, "predict", dtype=dtype)
