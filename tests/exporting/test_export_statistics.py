"""Statistics with weights, of computed shares and of columns whose length stays open, against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export, model_of, operators, run_model

RNG = np.random.default_rng(5)
X = RNG.normal(size=(9, 1)).round(2)
Z = np.array([[0], [3.5], [0], [-1], [2], [0], [-4], [0.5]])
W = RNG.integers(1, 4, size=(9, 1)).astype(float)
V = RNG.uniform(0.5, 2, size=(9, 1)).round(2)
DATA = {"X": X, "B": RNG.normal(size=(9, 1)), "W": W, "V": V}
OPEN = {name: ["N", 1] for name in DATA}
FEWER = [{name: array[:6] for name, array in DATA.items()}]
GAPS = np.array([[1, 2, np.nan], [np.inf, 0, -np.inf], [3, np.nan, 1], [0, -5, 7]])
SHARES = {"X": X, "S": np.array([[0.3], [0.0], [1.0], [0.77]])}


def row(name: str, body: str, inputs: dict[str, np.ndarray] = DATA, **more: object) -> ExportCase:
    used = {each: array for each, array in inputs.items() if f"{each}" in body.replace("matrix", "")}
    sizes = [{each: array for each, array in run.items() if each in used} for run in FEWER] if inputs is DATA else []
    return ExportCase(name, body, used, symbols={each: ["N", 1] for each in used if each != "S"}, sizes=sizes, **more)  # type: ignore[arg-type]


CASES = [
    row("weighted mean", "Y = as.matrix(mean(X, W) + 10 * mean(X, V))"),
    row("weighted moments", "Y = rbind(as.matrix(moment(X, W, 2)), as.matrix(moment(X, V, 3)), as.matrix(moment(X, W, 4)))"),
    row("weighted covariance", "Y = as.matrix(cov(X, B, W) + 10 * cov(X, B, V))"),
    ExportCase("covariance of one row", "Y = rbind(as.matrix(cov(X[,1], X[,2])), as.matrix(cov(X[,2], X[,3], matrix(0.25, nrow(X), 1))),"
               " as.matrix(cov(X[,3], X[,1], matrix(1, nrow(X), 1))))", {"X": np.array([[4.0, -1, 2]])}, symbols={"X": ["N", 3]},
               sizes=[{"X": np.arange(12.0).reshape(4, 3) ** 2}, {"X": np.array([[np.inf, 1, 2]])}, {"X": np.array([[1.0, 1, 2], [3, 5, 4]])}]),
    ExportCase("covariance and variance of one known row", "Y = cbind(as.matrix(cov(X[,1], X[,2])), colVars(X), colSds(X))",
               {"X": np.array([[np.inf, -1, 2]])}),
    row("weighted quantiles", 'Y = rbind(quantile(X, W, matrix("0 0.1 0.5 0.9 1", 5, 1)), as.matrix(median(X, W)), '
        "as.matrix(quantile(X, W, 0.3)))"),
    row("weighted middle half", "Y = as.matrix(interQuartileMean(X, W))"),
    row("quantiles of any number", 'Y = rbind(quantile(X, matrix("0 0.1 0.3 0.5 1", 5, 1)), as.matrix(median(X)), '
        "as.matrix(quantile(X, 0.25)), as.matrix(interQuartileMean(X)))"),
    ExportCase("quantiles of any number among zeros", "Y = rbind(as.matrix(median(X)), as.matrix(quantile(X, 0.25)), "
               "as.matrix(quantile(X, 0.75)))", {"X": Z}, symbols={"X": ["N", 1]}, sizes=[{"X": Z[:6]}, {"X": Z[:1]}]),
    row("computed shares", "Y = rbind(quantile(X, S), as.matrix(quantile(X, as.scalar(S[1, 1]))))", SHARES),
    ExportCase("a direction that is computed", "d = as.scalar(S) > 0\nY = cbind(order(target=X, by=1, decreasing=d), "
               "order(target=X, by=1, decreasing=d, index.return=TRUE))", {"X": Z, "S": np.array([[1.0]])},
               symbols={"X": ["N", 1]}, sizes=[{"S": np.array([[-1.0]])}]),
    ExportCase("extremes of inputs with NaN", "E = cbind(rowMaxs(X), rowMins(-X), X >= rowMaxs(X), (X >= colMins(X)) * 2, matrix(max(X), nrow(X), 1))\n"
               "if (nrow(X) > 2) { Y = cbind(E, rowMaxs(cbind(X, X ^ 2))) } else { Y = cbind(E, rowMaxs(rev(X))) }\n"
               "Z = colMaxs(replace(target=X, pattern=NaN, replacement=0))\nF = replace(target=X, pattern=NaN, replacement=0)\n"
               "C = rbind(colMins(X * 2), colMaxs(F - F), colMaxs(X / rowSums(X > 9)), colMaxs((X > 9) / rowSums(X > 9)), colMins(X %*% diag(matrix(1, 3, 1))))\n"
               "k = 0\nwhile (k < 3 & max(abs(X - k)) > 1) { k = k + 1 }", {"X": GAPS}, ("Y", "Z", "C", "k"), symbols={"X": ["N", 3]},
               sizes=[{"X": GAPS[1:3]}, {"X": GAPS[2:]}]),
    ExportCase("a computed pattern", "Y = replace(target=X, pattern=as.scalar(S), replacement=7)",
               {"X": np.array([[1.0, np.nan], [np.inf, 2]]), "S": np.array([[2.0]])},
               sizes=[{"S": np.array([[item]])} for item in (np.nan, np.inf, 5.0)]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_statistics_agree_with_the_engine(case: ExportCase) -> None:
    check_export(case)


@pytest.mark.parametrize(("body", "used"), [
    ("rowMaxs(X)", ["ReduceMax", "ReduceL1", "IsNaN", "Where"]),
    ("rowMaxs(X * 2)", ["Mul", "ReduceMax", "ReduceL1", "IsNaN", "Where"]),
    ("rowMaxs(replace(target=X, pattern=NaN, replacement=0))", ["IsNaN", "Where", "ReduceMax"]),
    ("rowMaxs((X > 1) + 1)", ["Greater", "Cast", "Add", "ReduceMax"]),
    ("exp(X - rowMaxs(X)) / rowSums(exp(X - rowMaxs(X)))", ["Softmax"]),
])
def test_extremes_are_looked_at_for_nan_only_where_there_may_be_any(body: str, used: list[str]) -> None:
    model = model_of(ExportCase(body, f"Y = {body}", {"X": GAPS}), "float32")
    assert operators(model) == used


@pytest.mark.parametrize(("body", "most"), [("as.matrix(median(X))", 22), ('quantile(X, matrix("0.25 0.5 0.75", 3, 1))', 10)])
def test_known_shares_of_any_number_are_places(body: str, most: int) -> None:
    assert len(model_of(row("shares", f"Y = {body}", {"X": X}), "float32").graph.node) <= most


def test_share_in_float32_is_not_rounded_up() -> None:
    """0.3 of ten elements is the third, also where 0.3 in float32 is a little more."""
    case = ExportCase("", "Y = as.matrix(quantile(X, as.scalar(S)))", {"X": np.arange(10.0).reshape(10, 1), "S": np.array([[0.3]])})
    assert run_model(model_of(case, "float32"), case.inputs)["Y"].item() == 2.5


@pytest.mark.parametrize(("body", "reason"), [
    ("Y = as.matrix(moment(X, 5))", "a moment of order 5"),
    ("Y = as.matrix(moment(X, X, sum(X)))", "the argument k of moment must be known"),
    ("Y = conv2d(X, matrix(1, 1, 1), bias=matrix(1, 1, 1), input_shape=[1,1,1,1], filter_shape=[1,1,1,1], stride=[1,1], padding=[0,0])",
     "the engine ignores the argument bias of conv2d"),
])
def test_what_cannot_be_exported_is_refused(body: str, reason: str) -> None:
    with pytest.raises(TranspileError) as error:
        export_script(f'X = read("X")\n{body}\nwrite(Y, "Y")\n', inputs={"X": "double[N,1]"})
    assert reason in str(error.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_row_is_the_nearest_one_of_itself(dtype: str) -> None:
    """Sums of squares round to more than 0; the numbers that are missing come from the nearest row."""
    x = np.random.default_rng(5).normal(size=(12, 4))
    x[::3, 1] = np.nan
    case = ExportCase("nearest", "Z = dist(replace(target=X, pattern=NaN, replacement=0))\nY = imputeByKNN(X=X)", {"X": x}, ("Y", "Z"))
    found = run_model(model_of(case, dtype), case.inputs)
    filled = np.where(np.isnan(x), np.nanmean(x, 0), x)
    far = np.linalg.norm(filled[:, None] - filled, axis=2) + 1e9 * np.eye(12)
    np.testing.assert_allclose(found["Y"], np.where(np.isnan(x), filled[far.argmin(1)], x), rtol=1e-6)
    assert not np.diag(found["Z"]).any()
