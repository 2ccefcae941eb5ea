"""Models that are trained in the engine by SystemDS's builtins, exported, and compared row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.exporting.export_harness import Array, ExportCase, check_export, engine

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4))
X[:, 1] += X[:, 0]
CLASSES = (1 + (X[:, :1] > 0) + (X[:, 1:2] > 0.5)).astype(float)
TARGET = X @ np.array([[1.0], [-2.0], [0.5], [0.0]]) + 0.3
BINS = np.clip(np.round(X * 1.5) + 3, 1, 5)
DATA = {"X": X, "L": CLASSES, "T": TARGET, "B": (CLASSES > 1) * 2.0 - 1, "D": BINS, "P": np.abs(X)}
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
BOTH = ("float64", "float32")
FIRST = ("float32",)


def trained(training: str, names: Sequence[str]) -> dict[str, Array]:
    """The matrices that a training script gives."""
    text = "\n".join([*(f'{name} = read("./{name}")' for name in DATA), training, *(f'write({n}, "./{n}")' for n in names)])
    return engine().prepare(text, list(DATA), list(names))(DATA)


def check_model(
    name: str, training: str, model: Sequence[str], scoring: str, dtypes: Sequence[str] = BOTH, outputs: Sequence[str] = ("Y",),
    data: Array | None = None, **more: Any,
) -> None:  # fmt: skip
    weights: Mapping[str, Array] = trained(training, model) if model else {}
    rows = (X if data is None else data)[:7]
    check_export(ExportCase(name, scoring, {"X": rows, **weights}, outputs, bound=tuple(weights), dtypes=dtypes,
                            symbols={"X": ["N", rows.shape[1]]}, sizes=[{"X": rows[:3]}], **more))  # fmt: skip


MODELS: list[tuple[str, str, Sequence[str], str]] = [
    ("lmPredict", "B1 = lm(X=X, y=T, icpt=1, verbose=FALSE)", ["B1"], "Y = lmPredict(X=X, B=B1, icpt=1)"),
    ("l2svmPredict", "W = l2svm(X=X, Y=B, intercept=TRUE, verbose=FALSE)", ["W"], "[Z, Y] = l2svmPredict(X=X, W=W)"),
    ("msvmPredict", "W = msvm(X=X, Y=L, intercept=TRUE, verbose=FALSE)", ["W"], "[Z, Y] = msvmPredict(X=X, W=W)"),
    ("multiLogRegPredict", "W = multiLogReg(X=X, Y=L, icpt=1, verbose=FALSE)", ["W"],
     "Q = matrix(1, nrow(X), 1)\n[Z, Y, a] = multiLogRegPredict(X=X, B=W, Y=Q, verbose=FALSE)\nY = Z + Y"),
    ("glmPredict", "W = glm(X=X, Y=T, verbose=FALSE)", ["W"],
     "Y = glmPredict(X=X, B=W, dfam=1, vpow=0.0, link=1, lpow=1.0, verbose=FALSE)"),
    ("kmeansPredict", "[C, q] = kmeans(X=X, k=3, seed=7)", ["C"], "Y = kmeansPredict(X=X, C=C)"),
    ("naiveBayesPredict", "[R, C] = naiveBayes(D=P, C=L)", ["R", "C"],
     "X = abs(X)\n[Y, Z] = naiveBayesPredict(X=X, P=R, C=C)\nY = Y + Z"),
    ("gmmPredict", "[q, p, df, b, M, C, W] = gmm(X=X, n_components=2, seed=3)", ["M", "C", "W"],
     'A = matrix(1, 1, 2)\n[Y, Z] = gmmPredict(X=X, weight=W, mu=M, precisions_cholesky=C, model="VVV")\nY = Z + Y'),
    ("pcaTransform", "[Q, C, E, F] = pca(X=X, K=2)", ["C", "E", "F"], "Y = pcaTransform(X=X, Clusters=C, Centering=E, ScaleFactor=F)"),
    ("pcaInverse", "[Q, C, E, F] = pca(X=X, K=2)", ["C", "E", "F"],
     "Q = X[, 1:2]\nY = pcaInverse(Y=Q, Clusters=C, Centering=E, ScaleFactor=F)"),
    ("scaleApply", "[Q, C, S] = scale(X, TRUE, TRUE)", ["C", "S"], "Y = scaleApply(X=X, Centering=C, ScaleFactor=S)"),
    ("scaleRobustApply", "[Q, M, A, C] = scaleRobust(X=X)", ["M", "A", "C"], "Y = scaleRobustApply(X=X, med=M, q1=A, q3=C)"),
    ("normalizeApply", "[Q, A, C] = normalize(X=X)", ["A", "C"], "Y = normalizeApply(X=X, cmin=A, cmax=C)"),
    ("winsorizeApply", "[Q, A, C] = winsorize(X=X, verbose=FALSE)", ["A", "C"], "Y = winsorizeApply(X=X, qLower=A, qUpper=C)"),
    ("randomForestPredict", "R = matrix(1, 1, 5)\nR[1, 5] = 2\nM = randomForest(X=D, y=L, ctypes=R, num_trees=3, "
     "sample_frac=0.8, min_leaf=3, min_split=6, seed=7)", ["M"],
     "R = matrix(1, 1, 5)\nR[1, 5] = 2\nY = randomForestPredict(X=X, ctypes=R, M=M)"),
    ("xgboostPredictRegression", "R = matrix(1, rows=1, cols=4)\nM = xgboost(X=X, y=T, R=R, sml_type=1, num_trees=2, max_depth=3)",
     ["M"], "Y = xgboostPredictRegression(X=X, M=M)"),
    ("xgboostPredictClassification",
     "R = matrix(1, rows=1, cols=4)\nC = (B + 1) / 2\nM = xgboost(X=X, y=C, R=R, sml_type=2, num_trees=2, max_depth=3)",
     ["M"], "Y = xgboostPredictClassification(X=X, M=M)"),
    ("frequencyEncodeApply", "K = matrix(1, rows=1, cols=4)\n[Q, M] = frequencyEncode(D, K)", ["M"],
     "Z = min(max(round(X * 1.5) + 3, 1), 5)\nY = frequencyEncodeApply(Z, M)"),
    ("WoEApply", "K = matrix(1, rows=1, cols=4)\n[Q, M] = WoE(D, L, K)", ["M"],
     "Z = min(max(round(X * 1.5) + 3, 1), 5)\nY = WoEApply(Z, Z, M)"),
    ("dbscanApply", "[a, M] = dbscan(X=X, eps=1.0, minPts=4)", ["M"], "Y = dbscanApply(X=X, clusterModel=M, eps=1.0)"),
    ("alsPredict", "[U, V] = als(X=P, rank=2, maxi=5, verbose=FALSE)", ["U", "V"],
     "I = matrix(0, rows=nrow(U), cols=4)\nQ = seq(1, nrow(X))\nY = alsPredict(userIDs=Q, I=I, L=U, R=V) + 0 * X"),
    ("decisionTreePredict", "R = matrix(1, 1, 5)\nR[1, 5] = 2\nM = decisionTree(X=D, y=L, ctypes=R)", ["M"],
     'R = matrix(1, 1, 5)\nR[1, 5] = 2\nY = decisionTreePredict(X=X, ctypes=R, M=M, strategy="TT")'),
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model[0])
def test_trained_model_agrees_with_the_engine(model: tuple[str, str, Sequence[str], str]) -> None:
    check_model(*model)


@pytest.mark.parametrize("kind", ["Mean", "Median", "Mode"])
def test_imputed_values_agree_with_the_engine(kind: str) -> None:
    body = f"I = matrix(\"1 2 3 4\", rows=1, cols=4)\nY = imputeBy{kind}Apply(X, I)"
    check_model(f"imputeBy{kind}Apply", "", [], body, data=HOLES)


@pytest.mark.parametrize("repair", [0, 1, 2])
def test_repaired_outliers_agree_with_the_engine(repair: int) -> None:
    body = (f"M = matrix(0, rows=1, cols=4)\nS = matrix(1, rows=1, cols=4)\n"
            f"Y = outlierBySdApply(X=X, colMean=M, colSD=S, k=1, repairMethod={repair})")
    check_model("outlierBySdApply", "", [], body)
