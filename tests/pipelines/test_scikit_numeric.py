"""scikit-learn estimators with numeric features: fitted, exported by skl2onnx, judged by onnxruntime and scikit-learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.scoring import ScoringFunction
from tests.operators.harness import compare, run_reference

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")

from sklearn import (  # noqa: E402
    calibration,
    cluster,
    compose,
    covariance,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    gaussian_process,
    impute,
    kernel_approximation,
    linear_model,
    mixture,
    model_selection,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    random_projection,
    svm,
)

FITTED = 80  # rows to fit on; the others are held out
SIZES = (1, 40)  # numbers of held-out rows that one script scores


class Row(NamedTuple):
    """An estimator and the data it is fitted on.

    tolerance: against onnxruntime. exact: against scikit-learn, which computes in FP64.
    """

    estimator: Any
    data: str
    tolerance: float = 1e-4
    exact: float = 1e-3
    options: dict[str, Any] = {}


def samples(kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """120 samples of 5 features with targets of a kind."""
    generator = np.random.default_rng(7)
    x = generator.standard_normal((120, 5)).astype(np.float32)
    x[:, 1] += 2 * x[:, 0]
    linear = x @ np.array([1.0, -2.0, 0.5, 1.5, 0.0], np.float32) + 0.3 * generator.standard_normal(120)
    if kind == "counts":
        counts = generator.poisson(2.0, (120, 5)).astype(np.float32)
        return counts, (counts[:, 0] > counts[:, 1]).astype(np.int64) + (counts[:, 2] > 2)
    if kind == "missing":
        x[generator.random((120, 5)) < 0.2] = np.nan
        return x, linear
    targets = {
        "regression": linear,
        "positive": np.exp(linear / 4),
        "targets": np.stack([linear, linear**2 / 4 - x[:, 4]], axis=1),
        "binary": (linear > 0).astype(np.int64) * 4 - 1,
        "classes": np.digitize(linear, [-1.5, 1.5]).astype(np.int64) * 2 + 5,
        "flags": np.stack([linear > 0, x[:, 4] > 0.5], axis=1).astype(np.int64),
    }
    return x, targets[kind]


def both(estimator: Any, **more: Any) -> dict[str, Row]:
    """A classifier with two classes and with three."""
    name = type(estimator).__name__ + ("-" + ",".join(f"{key}={value}" for key, value in more.pop("of", {}).items()))
    return {f"{name}binary": Row(estimator, "binary", **more), f"{name}classes": Row(estimator, "classes", **more)}


def of(data: str, *estimators: Any, **more: Any) -> dict[str, Row]:
    """Rows of estimators on one kind of data, called by their class and what is not default."""
    return {repr(estimator).replace("\n", "").replace(" ", "")[:120]: Row(estimator, data, **more) for estimator in estimators}


LOGISTIC = linear_model.LogisticRegression
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
]  # fmt: skip
SUPPORT_REGRESSORS = [
    *[svm.SVR(kernel=kernel) for kernel in ("linear", "poly", "rbf", "sigmoid")], svm.NuSVR(),
]  # fmt: skip
OTHER_REGRESSORS = [
    neural_network.MLPRegressor((8,), random_state=0, max_iter=300),
    neighbors.KNeighborsRegressor(3), neighbors.KNeighborsRegressor(3, weights="distance"),
    neighbors.RadiusNeighborsRegressor(4.0),
    gaussian_process.GaussianProcessRegressor(RBF(2.0), alpha=0.1),
    ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", svm.SVR())]),
    ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", svm.SVR())]),
    ensemble.BaggingRegressor(linear_model.Ridge(), 3, random_state=0),
    cross_decomposition.PLSRegression(2),
    pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.Ridge()),
    model_selection.GridSearchCV(linear_model.Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
    compose.TransformedTargetRegressor(linear_model.Ridge()),
]  # fmt: skip
TARGETS_REGRESSORS = [
    linear_model.LinearRegression(), linear_model.MultiTaskLasso(0.05), linear_model.MultiTaskElasticNet(0.05),
    linear_model.MultiTaskLassoCV(), linear_model.MultiTaskElasticNetCV(),
    multioutput.MultiOutputRegressor(linear_model.Ridge()), multioutput.MultiOutputRegressor(svm.SVR()),
    neighbors.KNeighborsRegressor(4), neural_network.MLPRegressor((8,), random_state=0, max_iter=200),
    cross_decomposition.PLSRegression(2),
]  # fmt: skip
POSITIVE_REGRESSORS = [
    linear_model.PoissonRegressor(), linear_model.GammaRegressor(), linear_model.TweedieRegressor(power=1.5),
]  # fmt: skip
CLASSIFIERS = [
    LOGISTIC(), linear_model.LogisticRegressionCV(Cs=2, cv=2),
    linear_model.Perceptron(random_state=0), linear_model.SGDClassifier(random_state=0),
    linear_model.SGDClassifier(loss="log_loss", random_state=0),
    linear_model.SGDClassifier(loss="modified_huber", random_state=0),
    linear_model.PassiveAggressiveClassifier(random_state=0), linear_model.RidgeClassifier(), linear_model.RidgeClassifierCV(),
    svm.LinearSVC(), discriminant_analysis.LinearDiscriminantAnalysis(),
    discriminant_analysis.QuadraticDiscriminantAnalysis(), naive_bayes.GaussianNB(), naive_bayes.BernoulliNB(),
    *[svm.SVC(kernel=kernel) for kernel in ("linear", "poly", "rbf", "sigmoid")],
    svm.SVC(probability=True, random_state=0), svm.NuSVC(), svm.NuSVC(probability=True, random_state=0),
    svm.SVC(break_ties=False, decision_function_shape="ovo"),
    neighbors.KNeighborsClassifier(3), neighbors.KNeighborsClassifier(4, weights="distance"),
    neighbors.RadiusNeighborsClassifier(6.0), neighbors.NearestCentroid(),
    neural_network.MLPClassifier((8,), random_state=0, max_iter=300),
    gaussian_process.GaussianProcessClassifier(RBF(2.0)),
    multiclass.OneVsRestClassifier(LOGISTIC()), multiclass.OneVsOneClassifier(LOGISTIC()),
    calibration.CalibratedClassifierCV(LOGISTIC(), cv=2), calibration.CalibratedClassifierCV(LOGISTIC(), method="isotonic", cv=2),
    ensemble.StackingClassifier([("a", LOGISTIC()), ("b", naive_bayes.GaussianNB())], cv=2),
    ensemble.VotingClassifier([("a", LOGISTIC()), ("b", naive_bayes.GaussianNB())]),
    ensemble.VotingClassifier([("a", LOGISTIC()), ("b", naive_bayes.GaussianNB())], voting="soft"),
    ensemble.BaggingClassifier(LOGISTIC(), 3, random_state=0),
    ensemble.AdaBoostClassifier(LOGISTIC(), n_estimators=3, random_state=0),
    pipeline.make_pipeline(preprocessing.StandardScaler(), LOGISTIC()),
    pipeline.make_pipeline(preprocessing.MinMaxScaler(), svm.SVC()),
    model_selection.GridSearchCV(LOGISTIC(), {"C": [0.1, 1.0]}, cv=2),
]  # fmt: skip
COUNT_CLASSIFIERS = [
    naive_bayes.MultinomialNB(), naive_bayes.ComplementNB(), naive_bayes.CategoricalNB(min_categories=20),
    pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), LOGISTIC()),
]  # fmt: skip
CLUSTERS = [
    cluster.KMeans(3, random_state=0, n_init=1), cluster.MiniBatchKMeans(3, random_state=0, n_init=1),
    mixture.GaussianMixture(2, random_state=0),
    *[mixture.GaussianMixture(2, covariance_type=kind, random_state=0) for kind in ("diag", "tied", "spherical")],
    mixture.BayesianGaussianMixture(n_components=2, random_state=0),
    svm.OneClassSVM(), linear_model.SGDOneClassSVM(random_state=0),
    neighbors.LocalOutlierFactor(novelty=True),
]  # fmt: skip
TRANSFORMERS = [
    preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.MinMaxScaler(clip=True),
    preprocessing.MaxAbsScaler(), preprocessing.RobustScaler(), preprocessing.Binarizer(threshold=0.25),
    *[preprocessing.Normalizer(norm) for norm in ("l1", "l2", "max")],
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
]  # fmt: skip
SUPERVISED_TRANSFORMERS = [
    *[getattr(feature_selection, name)() for name in ("SelectFdr", "SelectFpr", "SelectFwe")],
    feature_selection.SelectKBest(k=2), feature_selection.SelectPercentile(percentile=50),
    feature_selection.GenericUnivariateSelect(param=60), feature_selection.SelectFromModel(LOGISTIC()),
    feature_selection.RFE(LOGISTIC(), n_features_to_select=2), feature_selection.RFECV(LOGISTIC(), cv=2),
    neighbors.NeighborhoodComponentsAnalysis(2, random_state=0, max_iter=10),
    discriminant_analysis.LinearDiscriminantAnalysis(),
]  # fmt: skip
COUNT_TRANSFORMERS = [
    preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    preprocessing.TargetEncoder(cv=2, random_state=0),
    feature_selection.SelectKBest(feature_selection.chi2, k=2),
]  # fmt: skip
MISSING = [
    impute.SimpleImputer(), impute.SimpleImputer(strategy="median"), impute.SimpleImputer(strategy="most_frequent"),
    impute.SimpleImputer(strategy="constant", fill_value=3.0), impute.SimpleImputer(add_indicator=True),
    impute.KNNImputer(n_neighbors=3),
    pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler(), linear_model.Ridge()),
]  # fmt: skip

ROWS: list[tuple[str, Any]] = [
    *[("regression", one) for one in [*LINEAR_REGRESSORS, *SUPPORT_REGRESSORS, *OTHER_REGRESSORS]],
    *[("targets", one) for one in TARGETS_REGRESSORS],
    *[("positive", one) for one in POSITIVE_REGRESSORS],
    *[(data, one) for data in ("binary", "classes") for one in CLASSIFIERS],
    *[("counts", one) for one in COUNT_CLASSIFIERS],
    ("flags", multioutput.MultiOutputClassifier(LOGISTIC())), ("flags", multiclass.OneVsRestClassifier(LOGISTIC())),
    ("flags", neighbors.KNeighborsClassifier(3)),
    *[("regression", one) for one in [*CLUSTERS, *TRANSFORMERS]],
    *[("classes", one) for one in SUPERVISED_TRANSFORMERS],
    *[("counts", one) for one in COUNT_TRANSFORMERS],
    *[("missing", one) for one in MISSING],
]  # fmt: skip
