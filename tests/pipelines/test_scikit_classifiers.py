"""scikit-learn classifiers of numeric features, alone and in pipelines."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn import (
    calibration,
    discriminant_analysis,
    ensemble,
    linear_model,
    model_selection,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)

from tests.pipelines.scikit import called, check_estimator

LOGISTIC = linear_model.LogisticRegression
CLASSIFIERS = [
    LOGISTIC(), linear_model.LogisticRegressionCV(Cs=2, cv=2),
    linear_model.Perceptron(random_state=0), linear_model.SGDClassifier(random_state=0),
    linear_model.SGDClassifier(loss="log_loss", alpha=0.1, random_state=0),
    linear_model.SGDClassifier(loss="modified_huber", random_state=0),
    linear_model.PassiveAggressiveClassifier(random_state=0), linear_model.RidgeClassifier(), linear_model.RidgeClassifierCV(),
    svm.LinearSVC(), discriminant_analysis.LinearDiscriminantAnalysis(),
    discriminant_analysis.QuadraticDiscriminantAnalysis(), naive_bayes.GaussianNB(), naive_bayes.BernoulliNB(),
    *[svm.SVC(kernel=kernel) for kernel in ("linear", "poly", "rbf", "sigmoid")],
    svm.SVC(probability=True, random_state=0), svm.NuSVC(), svm.NuSVC(probability=True, random_state=0),
    svm.SVC(break_ties=False, decision_function_shape="ovo"),
    neighbors.KNeighborsClassifier(3), neighbors.KNeighborsClassifier(4, weights="distance"),
    neighbors.RadiusNeighborsClassifier(100.0),
    neural_network.MLPClassifier((8,), random_state=0, max_iter=300),
    multiclass.OneVsRestClassifier(LOGISTIC()), multiclass.OneVsOneClassifier(LOGISTIC()),
    calibration.CalibratedClassifierCV(LOGISTIC(), cv=2), calibration.CalibratedClassifierCV(LOGISTIC(), method="isotonic", cv=2),
    ensemble.StackingClassifier([("a", LOGISTIC()), ("b", naive_bayes.GaussianNB())], cv=2),
    ensemble.VotingClassifier([("a", LOGISTIC()), ("b", naive_bayes.GaussianNB())], flatten_transform=False),
    ensemble.VotingClassifier([("a", LOGISTIC()), ("b", naive_bayes.GaussianNB())], voting="soft", flatten_transform=False),
    ensemble.BaggingClassifier(LOGISTIC(), 3, random_state=0),
    ensemble.AdaBoostClassifier(LOGISTIC(), n_estimators=3, random_state=0),
    pipeline.make_pipeline(preprocessing.StandardScaler(), LOGISTIC()),
    pipeline.make_pipeline(preprocessing.MinMaxScaler(), svm.SVC()),
    model_selection.GridSearchCV(LOGISTIC(), {"C": [0.1, 1.0]}, cv=2),
]
COUNT_CLASSIFIERS = [
    naive_bayes.MultinomialNB(), naive_bayes.ComplementNB(), naive_bayes.CategoricalNB(min_categories=20),
    pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), LOGISTIC()),
]
ROWS: list[tuple[str, Any]] = [
    *[(data, one) for data in ("binary", "classes") for one in CLASSIFIERS],
    *[("counts", one) for one in COUNT_CLASSIFIERS],
    ("flags", multiclass.OneVsRestClassifier(LOGISTIC())),
]

# parts of the names of rows for which skl2onnx's model is known to compute something else than scikit-learn
EXPORTED_OTHERWISE = (
    "weights='distance'",
    "OneVsOneClassifier",  # gives the numbers of the classes instead of their labels
    "method='isotonic'",
    "binary-LinearDiscriminantAnalysis",  # softmax of scores that scikit-learn takes the logistic of
    "classes-SGDClassifier(loss='modified_huber'",
)


@pytest.mark.parametrize("row", ROWS, ids=called)
def test_agrees(row: tuple[str, Any]) -> None:
    method = "" if any(part in called(row) for part in EXPORTED_OTHERWISE) else "predict"
    check_estimator(*row, method)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("estimator", [LOGISTIC(), svm.SVC(), naive_bayes.GaussianNB()], ids=repr)
def test_other_inputs(estimator: Any, dtype: str) -> None:
    check_estimator("classes", estimator, "predict", dtype=dtype)


def test_tuned_threshold() -> None:
    check_estimator("counts-binary", model_selection.TunedThresholdClassifierCV(LOGISTIC(), cv=2), "predict")
