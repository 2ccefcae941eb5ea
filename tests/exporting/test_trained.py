"""Models that were trained in the engine, exported and compared row by row on rows that the training did not see.

`TRAINED` has a row per builtin of SystemDS that scores; `MISSING` names those without one, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.weight_files import read_value
from tests.exporting.export_harness import Array, ExportCase, assert_close, check_export, engine, run_model

SCORING = (
    "lmPredict", "l2svmPredict", "msvmPredict", "multiLogRegPredict", "glmPredict", "kmeansPredict",
    "gmmPredict", "naiveBayesPredict", "alsPredict", "pcaTransform", "pcaInverse", "scaleApply",
    "scaleRobustApply", "normalizeApply", "winsorizeApply", "outlierBySdApply", "outlierByIQRApply",
    "imputeByMeanApply", "imputeByMedianApply", "imputeByModeApply", "decisionTreePredict",
    "randomForestPredict", "xgboostPredictRegression", "xgboostPredictClassification", "ffPredict",
    "lenetPredict", "autoencoder", "dbscanApply", "WoEApply", "frequencyEncodeApply", "miceApply",
)
MISSING: dict[str, str] = {}

RNG = np.random.default_rng(3)


@dataclass(frozen=True)
class Trained:
    """A script that trains on `data` and sets the matrices `model`, and one that scores the `held_out` inputs with them.

    symbols: dims of the held-out inputs. smaller: the held-out inputs of a second run of the same model.
    """

    builtin: str
    train: str
    data: Mapping[str, Array]
    model: Sequence[str]
    score: str
    held_out: Mapping[str, Array]
    symbols: Mapping[str, Sequence[Any]]
    smaller: Mapping[str, Array]
    outputs: Sequence[str] = ("Y",)
    dtypes: Sequence[str] = ("float64", "float32")
    sources: Mapping[str, str] = field(default_factory=dict)
    tolerance: Mapping[str, float] = field(default_factory=lambda: {"float64": 1e-9, "float32": 1e-5})
    variant: str = ""

    def __str__(self) -> str:
        return f"{self.builtin} {self.variant}".strip()


def numbers(*shape: int) -> Array:
    return RNG.normal(size=shape)


def classes(x: Array, count: int) -> Array:
    """Labels from 1 on that follow from the first two columns, with some noise."""
    noisy = x[:, :1] + x[:, 1:2] + 0.1 * RNG.normal(size=(len(x), 1))
    return np.clip(np.floor(noisy + count / 2) + 1, 1, count)


def row(builtin: str, train: str, score: str, x: Array, model: str, *, held: Array | None = None, y: Array | None = None,
        more: Mapping[str, Array] | None = None, **settings: Any) -> Trained:
    """A model of one matrix X (and labels y), scored on `held` rows, whose number is free."""
    held = numbers(7, x.shape[1]) if held is None else held
    data = {"X": x, **({} if y is None else {"y": y}), **(more or {})}
    return Trained(builtin, train, data, model.split(), score, {"X": held}, {"X": ["N", held.shape[1]]},
                   {"X": held[:4]}, **settings)


X = numbers(40, 4)
Y = X @ np.array([[1.0], [2.0], [-1.0], [0.5]]) + 1 + 0.1 * numbers(40, 1)
TWO, THREE = classes(X, 2), classes(X, 3)
WITH_GAPS = np.where(RNG.random((40, 4)) < 0.1, np.nan, X)
HELD_GAPS = np.where(RNG.random((7, 4)) < 0.3, np.nan, numbers(7, 4))
COUNTS = RNG.integers(1, 5, size=(40, 4)).astype(float)
HELD_COUNTS = RNG.integers(1, 5, size=(7, 4)).astype(float)
COUNT_CLASSES = 1.0 + (COUNTS[:, :1] > 2) + (COUNTS[:, 1:2] > 2)
WILD = numbers(7, 4) * 3

LINEAR = [
    row("lmPredict", "B = lmDS(X=X, y=y, icpt=1, verbose=FALSE)", "Y = lmPredict(X=X, B=B, icpt=1)", X, "B", y=Y),
    row("l2svmPredict", "W = l2svm(X=X, Y=y, intercept=TRUE)", "[S, Y] = l2svmPredict(X=X, W=W)", X, "W", y=TWO,
        outputs=["S", "Y"]),
    row("msvmPredict", "W = msvm(X=X, Y=y, intercept=TRUE, maxIterations=10)", "[S, Y] = msvmPredict(X=X, W=W)",
        X, "W", y=THREE, held=HELD_GAPS, outputs=["S", "Y"]),
    row("multiLogRegPredict", "B = multiLogReg(X=X, Y=y, icpt=1, maxi=10, verbose=FALSE)",
        "[P, Y, a] = multiLogRegPredict(X=X, B=B)", X, "B", y=THREE, held=HELD_GAPS, outputs=["P", "Y"]),
    row("multiLogRegPredict", "B = multiLogReg(X=X, Y=y, icpt=1, maxi=10, verbose=FALSE)",
        "[P, Y, a] = multiLogRegPredict(X=X, B=B, Y=matrix(1, nrow(X), 1), verbose=FALSE)", X, "B", y=THREE,
        outputs=["P", "Y", "a"], variant="with labels"),
    row("glmPredict", "B = glm(X=X, Y=y, verbose=FALSE)",
        "Y = glmPredict(X=X, B=B, dfam=1, vpow=0.0, link=1, lpow=1.0, verbose=FALSE)", X, "B", y=Y, variant="gaussian"),
    row("glmPredict", "B = glm(X=X, Y=y, dfam=2, link=2, icpt=1, moi=10, verbose=FALSE)",
        "Y = glmPredict(X=X, B=B, dfam=2, link=2)", X, "B", y=TWO - 1),
    row("glmPredict", "B = glm(X=X, Y=y, dfam=1, vpow=1.0, link=1, lpow=0.0, icpt=1, moi=10, verbose=FALSE)",
        "Y = glmPredict(X=X, B=B, dfam=1, vpow=1.0, link=1, lpow=0.0)", X, "B", y=np.floor(np.exp(Y / 4)),
        variant="poisson"),
]

CLUSTERS = [
    row("kmeansPredict", "[C, L] = kmeans(X=X, k=3, runs=2, seed=7)", "Y = kmeansPredict(X=X, C=C)", X, "C"),
    row("gmmPredict",
        '[L, p, df, bic, mu, prec, w] = gmm(X=X, n_components=2, model="VVV", init_params="random", iter=5, seed=7)',
        '[Y, P] = gmmPredict(X=X, weight=w, mu=mu, precisions_cholesky=prec, model="VVV")', X, "mu prec w",
        outputs=["Y", "P"], tolerance={"float64": 1e-9, "float32": 1e-4}),
    row("naiveBayesPredict", "[P, K] = naiveBayes(D=X, C=y, laplace=1, verbose=FALSE)",
        "[S, Y] = naiveBayesPredict(X=X, P=P, C=K)", np.abs(X), "P K", y=THREE, held=np.abs(numbers(7, 4)),
        outputs=["S", "Y"]),
    row("dbscanApply", "[L, K] = dbscan(X=X, eps=1.5, minPts=3)",
        "[C, Y] = dbscanApply(X=X, clusterModel=K, eps=1.6)", X, "K", outputs=["Y", "C"]),
    row("dbscanApply", "[L, K] = dbscan(X=X, eps=1.5, minPts=3)", "[C, Y] = dbscanApply(X=X, clusterModel=K, eps=1.6)",
        X, "K", held=WILD + 50, outputs=["Y", "C"], variant="none near"),
]

USERS = np.array([[3.0], [1.0], [12.0], [3.0]])
FACTORS = [
    Trained("alsPredict", "[L, R] = als(X=X, rank=3, reg=0.01, maxi=5, verbose=FALSE)\nI = X > 2",
            {"X": np.abs(numbers(12, 3)) @ np.abs(numbers(3, 8))}, ["L", "R", "I"],
            "Y = alsPredict(userIDs=U, I=I, L=L, R=R)", {"U": USERS}, {"U": ["N", 1]}, {"U": USERS[:2]}),
    row("pcaTransform", "[Z, C, m, s] = pca(X=X, K=2)", "Y = pcaTransform(X=X, Clusters=C, Centering=m, ScaleFactor=s)",
        X, "C m s"),
    row("pcaTransform", "[Z, C, m, s] = pca(X=X, K=2)", "Y = pcaTransform(X=X, Clusters=C)", X, "C", variant="plain"),
    row("pcaInverse", "[Z, C, m, s] = pca(X=X, K=2)", "Y = pcaInverse(Y=X, Clusters=C, Centering=m, ScaleFactor=s)",
        X, "C m s", held=numbers(7, 2)),
]

PREPARATION = [
    row("scaleApply", "[Z, m, s] = scale(X=X)", "Y = scaleApply(X, m, s)", X, "m s"),
    row("scaleRobustApply", "[Z, m, a, b] = scaleRobust(X=X)", "Y = scaleRobustApply(X, m, a, b)", X, "m a b"),
    row("normalizeApply", "[Z, a, b] = normalize(X=X)", "Y = normalizeApply(X, a, b)", X, "a b"),
    row("winsorizeApply", "[Z, a, b] = winsorize(X=X, ql=0.1, qu=0.9, verbose=FALSE)", "Y = winsorizeApply(X, a, b)",
        X, "a b"),
    *[row("outlierBySdApply",
          "[Z, m, s, k, r] = outlierBySd(X=X, k=3, repairMethod=1, max_iterations=1, verbose=FALSE)",
          f"Y = outlierBySdApply(X, m, s, 1.5, {repair})", X, "m s", held=WILD, variant=variant)
      for repair, variant in enumerate(("without rows", "zeros", "NaN"))],
    *[row("outlierByIQRApply",
          "[Z, a, b, c, k, r] = outlierByIQR(X=X, k=1.5, repairMethod=1, max_iterations=1, verbose=FALSE)",
          f"Y = outlierByIQRApply(X, a, b, c, 0.5, {repair})", X, "a b c", held=WILD, variant=variant)
      for repair, variant in enumerate(("without rows", "zeros", "NaN"))],
    row("imputeByMeanApply", "[Z, v] = imputeByMean(X=X, mask=matrix(0, 1, 4))", "Y = imputeByMeanApply(X, v)",
        WITH_GAPS, "v", held=HELD_GAPS),
    row("imputeByMedianApply", "[Z, v] = imputeByMedian(X=X, mask=matrix(0, 1, 4))", "Y = imputeByMedianApply(X, v)",
        WITH_GAPS, "v", held=HELD_GAPS),
    row("imputeByModeApply", "[Z, v] = imputeByMode(X=X)", "Y = imputeByModeApply(X, v)",
        np.where(np.isnan(WITH_GAPS), np.nan, COUNTS), "v", held=HELD_GAPS),
    row("WoEApply", "[Z, E] = WoE(X=X, Y=y, mask=matrix(1, 1, 4))",
        "Y = WoEApply(X=X, Y=matrix(0, nrow(X), 1), entropyMatrix=E)", COUNTS, "E", y=1.0 + (COUNTS[:, :1] > 2),
        held=HELD_COUNTS),
    row("frequencyEncodeApply", '[Z, F] = frequencyEncode(X=X, mask=matrix("1 0 1 1", 1, 4))',
        "Y = frequencyEncodeApply(X, F)", COUNTS, "F", held=HELD_COUNTS),
]

MIXED = np.hstack([X[:, :3], (X[:, 3:] > 0)])
FEW = np.concatenate([np.flatnonzero(label == TWO)[:count] for label, count in ((1, 4), (2, 6))])
COUNTS_WITH_GAPS = COUNTS[:12].copy()
COUNTS_WITH_GAPS[np.arange(0, 12, 2), np.arange(6) % 4] = [np.nan, -np.inf, np.inf, np.nan, np.inf, -np.inf]
HELD_MIXED = np.hstack([numbers(7, 3), RNG.integers(0, 2, size=(7, 1))])
KINDS = np.array([[1.0, 1, 1, 2]])
TO_CLASS, TO_NUMBER = np.array([[1.0, 1, 1, 1, 2]]), np.ones((1, 5))
TREE = "M = decisionTree(X=X, y=y, ctypes=c, max_depth=4, min_leaf=2, min_split=4, max_features=1.0, seed=7)"
FOREST = ("M = randomForest(X=X, y=y, ctypes=c, num_trees=3, sample_frac=0.9, feature_frac=0.8, max_depth=3, min_leaf=2,"
          " min_split=4, max_features=1.0, seed=7)")
BOOSTED = "M = xgboost(X=X, y=y, R=r, sml_type={}, num_trees=2, max_depth=3)"
TREES = [
    *[row("decisionTreePredict", TREE, f'Y = decisionTreePredict(X=X, ctypes=c, M=M, strategy="{strategy}")', COUNTS,
          "M c", y=COUNT_CLASSES, held=HELD_COUNTS, more={"c": TO_CLASS}, variant=strategy)
      for strategy in ("TT", "GEMM")],
    row("decisionTreePredict", TREE, "Y = decisionTreePredict(X=X, ctypes=c, M=M)", COUNTS, "M c", y=COUNT_CLASSES,
        held=COUNTS_WITH_GAPS, more={"c": TO_CLASS}, variant="of rows with gaps"),
    row("randomForestPredict", FOREST, "Y = randomForestPredict(X=X, ctypes=c, M=M)", COUNTS, "M c", y=COUNT_CLASSES,
        held=HELD_COUNTS, more={"c": TO_CLASS}, variant="classes"),
    row("randomForestPredict", FOREST.replace("feature_frac=0.8", "feature_frac=1.0"), "Y = randomForestPredict(X=X, ctypes=c, M=M)",
        COUNTS, "M c", y=1.0 + (COUNTS[:, 2:3] > 2), held=COUNTS_WITH_GAPS, more={"c": TO_CLASS}, variant="of rows with gaps"),
    row("randomForestPredict", FOREST, "Y = randomForestPredict(X=X, ctypes=c, M=M)", COUNTS, "M c", y=np.round(Y + 8),
        held=HELD_COUNTS, more={"c": TO_NUMBER}, variant="numbers"),
    row("xgboostPredictRegression", BOOSTED.format(1), "Y = xgboostPredictRegression(X=X, M=M)", MIXED[FEW], "M",
        y=Y[FEW], held=HELD_MIXED, more={"r": KINDS}),
    row("xgboostPredictClassification", BOOSTED.format(2), "Y = xgboostPredictClassification(X=X, M=M)", MIXED[FEW], "M",
        y=TWO[FEW] - 1, held=HELD_MIXED, more={"r": KINDS}),
]


def packed(names: str, extra: str = "") -> str:
    return f"m = list({', '.join(f'{name}={name}' for name in names.split())}{extra})\n"


def unpacked(names: str) -> str:
    return "".join(f'\n{name} = as.matrix(m["{name}"])' for name in names.split())


DENSE, IMAGE = "W1 b1 W2 b2", "W1 b1 W2 b2 W3 b3 W4 b4"
FORWARD = """
Z = (X - means) / stds
H1 = tanh(Z %*% t(W1) + t(b1))
H2 = tanh(H1 %*% t(W2) + t(b2))
H3 = tanh(H2 %*% t(W3) + t(b3))
Y = tanh(H3 %*% t(W4) + t(b4))
"""
NETWORKS = [
    row("ffPredict",
        'm = ffTrain(X=X, Y=y, batch_size=20, epochs=2, out_activation="softmax", loss_fcn="cel", seed=7)'
        + unpacked(DENSE),
        packed(DENSE, ', activation="softmax"') + "Y = ffPredict(model=m, X=X, batch_size=3)", X, DENSE,
        y=np.eye(3)[THREE.astype(int)[:, 0] - 1]),
    row("lenetPredict",
        "m = lenetTrain(X=X, Y=y, X_val=X, Y_val=y, C=1, Hin=8, Win=8, batch_size=8, epochs=1, seed=7)" + unpacked(IMAGE),
        packed(IMAGE) + "Y = lenetPredict(model=m, X=X, C=1, Hin=8, Win=8, batch_size=3)", numbers(8, 64), IMAGE,
        y=np.eye(3)[RNG.integers(0, 3, 8)], held=numbers(7, 64), dtypes=["float32"]),
    row("autoencoder",
        f"[{', '.join(IMAGE.split())}, H] = autoencoder_2layer(X=X, num_hidden1=3, num_hidden2=2, max_epochs=2, batch_size=20)"
        "\nmeans = colMeans(X)\nstds = colSds(X)", FORWARD, X, f"{IMAGE} means stds"),
    row("autoencoder",
        f"[{', '.join(IMAGE.split())}, H] = autoencoder_2layer(X=X, num_hidden1=3, num_hidden2=2, max_epochs=2, batch_size=20)",
        "[H1, d1, Y, d2, H3, d3, R, d4, E] = net::feedForward(X, W1, b1, W2, b2, W3, b3, W4, b4, X)", X, IMAGE,
        sources={"net": "scripts/builtin/autoencoder_2layer.dml"}, outputs=["Y", "R"], variant="own source"),
]

TRAINED = LINEAR + CLUSTERS + FACTORS + PREPARATION + TREES + NETWORKS
_MODELS: dict[tuple[str | int, ...], dict[str, Array]] = {}


def trained(case: Trained) -> dict[str, Array]:
    """The matrices of the model, trained in the engine once."""
    names = [name for name in case.model if name not in case.data]
    key = (case.train, *names, id(case.data["X"]), id(case.data.get("y")))
    if key not in _MODELS:
        reads = [f'{name} = read("./{name}")' for name in case.data]
        writes = [f'write({name}, "./{name}")' for name in names]
        prepared = engine().prepare("\n".join([*reads, case.train, *writes]) + "\n", list(case.data), names)
        _MODELS[key] = prepared({name: np.atleast_2d(array) for name, array in case.data.items()})
    return {name: case.data[name] if name in case.data else _MODELS[key][name] for name in case.model}


@pytest.mark.parametrize("case", TRAINED, ids=str)
def test_trained_model_scores_in_onnxruntime_as_in_the_engine(case: Trained) -> None:
    model = trained(case)
    check_export(ExportCase(
        str(case), case.score, {**case.held_out, **model}, outputs=case.outputs, bound=case.model,
        symbols=case.symbols, sizes=[case.smaller], sources=case.sources, dtypes=case.dtypes,
        tolerance=case.tolerance,
    ))


@pytest.mark.parametrize("mask", ["0 0 0 1", "0 0 0 0"])
def test_an_imputer_by_chained_equations_fills_as_the_engine_does(mask: str, tmp_path: Path) -> None:
    """Its codes of categories are of numbers; what it has learned are a list and a frame, which the engine writes."""
    data = np.hstack([X[:24, :3], RNG.integers(1, 4, (24, 1))])
    data[np.arange(12), np.arange(12) % 4] = np.nan
    held = data[::-1][:14].copy()
    held[np.arange(4), np.arange(4)] = np.nan
    train = (f'[o, meta, t, codes, betas] = mice(X=X, cMask=matrix("{mask}", 1, 4), iter=1, threshold=0.3, verbose=FALSE)\n'
             + "".join(f'write({name}, "{tmp_path}/{name}")\n' for name in ("meta", "codes", "betas")))
    apply = "Y = miceApply(X=G, meta=meta, threshold=0.3, dM=codes, betaList=betas)\n"
    run = engine().prepare(f'X = read("./X")\nG = read("./G")\n{train}{apply}write(Y, "./Y")\n', ["X", "G"], ["Y"])
    expected = run({"X": data, "G": held})["Y"]
    reads = ('meta = read("meta")\ncodes = read("codes", data_type="frame")\n'
             'betas = read("betas", data_type="list")\nG = read("G")\n')
    learned = {name: read_value(tmp_path / name) for name in ("meta", "codes", "betas")}
    for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-5)):
        model = export_script(f'{reads}{apply}write(Y, "Y")\n', inputs={"G": "double[N,4]"}, bindings=learned, dtype=dtype)
        assert_close(run_model(model, {"G": held})["Y"], expected, tolerance, dtype)
        whole = run_model(model, {"G": data[-4:]})["Y"]
        assert_close(whole, data[-4:], tolerance, "nothing is missing")


def test_each_scoring_builtin_is_tested_or_said_to_be_missing() -> None:
    assert {case.builtin for case in TRAINED} | {"miceApply"} | set(MISSING) == set(SCORING)
    assert not {case.builtin for case in TRAINED} & set(MISSING)
    assert len(MISSING) <= 4
