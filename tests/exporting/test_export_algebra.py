"""Builtins that solve, scan, shift bits and find places in rows, against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export, model_of, operators

RNG = np.random.default_rng(17)
NAN, INF = np.nan, np.inf
A = RNG.normal(size=(5, 5))
A[0, 0] = 0  # a pivot must be found further down
FIVE = {"A": A, "B": RNG.normal(size=(5, 2))}
POSITIVE = A @ A.T + np.eye(5)
X = {"X": RNG.normal(size=(6, 3))}
N3 = {"X": ["N", 3]}
SIZED = "A = matrix(A, 5, 5)\n"  # the engine wants to know that it is square
TOLERANCE = {"float64": 1e-9, "float32": 2e-4}
SQUARE = {"A": ["N", "N"], "B": ["N", 2]}
SMALLER = [{"A": A[1:3, :2], "B": FIVE["B"][:2]}]
WORDS = {"X": np.array([[1, 5, 1023], [5.7, 8, 2.0**40], [-1, -5, 0], [-3.5, 2147483647, -2147483648]])}
ODD_WORDS = {"X": np.array([[NAN, INF, -INF]])}
HALVES = {"X": np.array([[0.5, 1.5, 2.5], [-2.5, -0.5, 3.25], [1000.125, INF, -INF], [4097, 65519, 0.000061]])}
TIES = np.array([[1, NAN, 3], [NAN, 1, 2], [3, 2, NAN], [NAN, NAN, NAN], [1, 3, 3], [-INF, -INF, -INF],
                 [NAN, -INF, NAN], [INF, NAN, INF], [NAN, NAN, -1], [-INF, NAN, -INF], [0, -0.0, 0], [-2, -3, -3]])


def scanned(name: str, body: str, inputs=X, **more) -> ExportCase:
    sizes = [{"X": inputs["X"][:1]}, {"X": inputs["X"][1:4]}]
    return ExportCase(name, body, inputs, symbols={"X": ["N", inputs["X"].shape[1]]}, sizes=sizes, **more)


CASES = [
    ExportCase("determinant", f"{SIZED}Y = as.matrix(det(A) + sum(B) * 0)", FIVE, tolerance=TOLERANCE),
    ExportCase("determinant of zeros in a column", f"{SIZED}Y = as.matrix(det(A))",
               {"A": np.where(np.arange(5) == 2, 0, A)}),
    ExportCase("determinant of a known matrix", f"{SIZED}Y = B * det(A)", FIVE, bound=["A"], tolerance=TOLERANCE),
    ExportCase("inverse", "Y = inv(A) %*% B", FIVE, symbols=SQUARE, sizes=SMALLER, tolerance=TOLERANCE),
    ExportCase("inverse by its other name", "Y = inverse(A)", {"A": A}, tolerance=TOLERANCE),
    ExportCase("inverse of so many rows as a number says", "n = as.integer(as.scalar(B[1, 1]))\ni = n - 3\nM = A[i:n, ]\nY = inv(M[, 1:nrow(M)])",
               {**FIVE, "B": np.full((1, 1), 4.0)}, tolerance=TOLERANCE),
    ExportCase("inverse of a known matrix", "Y = inv(A) %*% B", FIVE, bound=["A"], operators=["MatMul"],
               tolerance=TOLERANCE),
    ExportCase("solution", "Y = solve(A, B)", FIVE, symbols=SQUARE, sizes=SMALLER, tolerance=TOLERANCE),
    ExportCase("solution in an old opset", "Y = solve(A, B) + cumprod(B)", FIVE, opset=13, tolerance=TOLERANCE),
    ExportCase("solution in a loop", "Y = B\nwhile (sum(Y^2) > 0.01) { Y = solve(C, Y) }",
               {"C": POSITIVE + 3 * np.eye(5), "B": FIVE["B"]}, symbols={"C": ["N", "N"], "B": ["N", 2]}, tolerance=TOLERANCE),
    ExportCase("solution of known matrices", "Y = solve(A, t(A)) %*% B", FIVE, bound=["A"], tolerance=TOLERANCE),
    ExportCase("least squares", "Y = solve(t(X) %*% X, t(X) %*% X[,1] + 1)", X, symbols=N3, tolerance=TOLERANCE),
    ExportCase("factor", "Y = cholesky(A)", {"A": POSITIVE}, symbols={"A": ["N", "N"]}, tolerance=TOLERANCE,
               sizes=[{"A": POSITIVE[:1, :1]}]),
    ExportCase("factor of a known matrix", "Y = cholesky(A) %*% B", {**FIVE, "A": POSITIVE}, bound=["A"],
               tolerance=TOLERANCE),
    scanned("running product", "Y = cumprod(X)"),
    scanned("running product of opset 26", "Y = cumprod(X)", opset=26, operators=["CumProd"]),
    scanned("running minimum", "Y = cummin(X)"),
    scanned("running maximum", "Y = cummax(X) + cumsum(X)"),
    scanned("running extremes with NaN", "Y = cummax(X) + 10 * cummin(X)", {"X": TIES[[4, 11, 10, 8]]}),
    # the engine gives a single row as it is, with both columns
    ExportCase("running sum of products", "Y = cumsumprod(X[,1:2])", X, symbols=N3, sizes=[{"X": X["X"][2:4]}]),
    scanned("rolled down", "Y = roll(X, 1)"),
    scanned("rolled up and around", "Y = roll(X, -8)"),
    scanned("bits in both", "Y = bitwAnd(X, 12) + bitwAnd(6, X) / 16", WORDS),
    scanned("bits in one", "Y = bitwOr(X, 3)", WORDS),
    scanned("bits in just one", "Y = bitwXor(X, X[1,])", WORDS),
    ExportCase("bits of scalars", "s = as.integer(as.scalar(X[2,1]))\nY = as.matrix(bitwXor(s, 3) + bitwAnd(6, 12))", WORDS),
    scanned("bits moved up", "Y = bitwShiftL(X, 2)", WORDS),
    scanned("bits moved out", "Y = bitwShiftL(X, 31)", {"X": np.array([[1.0, 2, 3], [7, 0, -1]])}),
    scanned("bits moved down", "Y = bitwShiftR(X, 1) + bitwShiftR(X, 33)", WORDS),
    ExportCase("bits of what is no number", "Y = bitwOr(X, 3)", ODD_WORDS),
    scanned("last of the largest", "Y = rowIndexMax(X)", {"X": TIES}),
    scanned("last of the smallest", "Y = rowIndexMin(X)", {"X": TIES}),
    ExportCase("places in rows of any length", "Y = rowIndexMax(X) + 100 * rowIndexMin(X)", {"X": TIES},
               symbols={"X": ["N", "M"]}, sizes=[{"X": TIES[:5, :2]}, {"X": TIES[:, :1]}]),
    scanned("place among truths", "Y = rowIndexMax(X > 0) + 10 * rowIndexMin(X > 0)"),
    scanned("places in long rows", "Y = rowIndexMax(X) + 1000 * rowIndexMin(X)",
            {"X": np.where(RNG.random((5, 100)) < 0.1, NAN, RNG.normal(size=(5, 100)))}),
    scanned("comparison by name", 'Y = ppred(X, 0.5, ">=") + ppred(X, X, "==")'),
    ExportCase("names of old scripts", "Y = as.matrix(centralMoment(X[,1], 2) + tr(t(X) %*% X))", X),
    # doubles are rounded by sums in which bits get lost: float32 would lose others
    scanned("to single precision", "T = X * 536870912\nY = (X + T) - T"),
    scanned("to single precision by another way", "C = X * 536870913\nY = C - (C - X)"),
    scanned("halves to even", "A = abs(X)\nY = sign(X) * ((A + 4503599627370496) - 4503599627370496)", HALVES),
    scanned("halves to even by one number for all", "Y = bias_add(bias_add(X, as.matrix(6755399441055744)), "
            "as.matrix(-6755399441055744)) + bias_multiply(X, as.matrix(0.5))", HALVES),
    scanned("numbers that do not cancel", "Y = (X + 5000) + (-4990) + ((X + 30000000) - 20000000) / 1e7", HALVES),
    scanned("to half precision", "C = max(min(X, 131008), -131008)\nM = 2 ^ (max(floor(log(abs(C), 2)), -14) + 42) * 1.5\n"
            "R = (C + M) - M\nY = ifelse(abs(R) > 65504, sign(R) * Inf, R)", HALVES),
    scanned("to bfloat", "C = max(min(X, 6.8e38), -6.8e38)\nM = 2 ^ (max(floor(log(abs(C), 2)), -126) + 45) * 1.5\n"
            "R = (C + M) - M\nY = ifelse(abs(R) > 3.38e38, sign(R) * Inf, R)", HALVES),
    scanned("branch that is never taken", "never = time() < 0\nY = X\nif (never) { Y = X + 1 }"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_builtin_agrees_with_the_engine(case: ExportCase) -> None:
    check_export(case)


def test_determinant_is_one_operator_in_float32() -> None:
    assert operators(model_of(CASES[1], "float32")) == ["Det", "Reshape"]


@pytest.mark.parametrize(("body", "opset", "reason"), [
    ("Y = inv(X[1:2,])", None, "not square"),
    ("Y = solve(X[1:2,], X[1:2,1])", None, "not square"),
    ("Y = solve(t(X) %*% X, X[1:2,1])", None, "their rows differ"),
    ("Y = inv(matrix(1, 3, 3))", None, "Singular matrix"),
    ("Y = cumsumprod(X)", None, "takes two columns"),
    ("Y = bitwAnd(X, 3)", 17, "no operator of opset 17"),
    ('Y = ppred(X, 3, "+")', None, "no comparison"),
    ("Y = X + time()", None, "knows no clock"),
])
def test_what_cannot_be_exported_is_refused(body: str, opset: int | None, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        export_script(f'X = read("X")\n{body}\nwrite(Y, "Y")\n', inputs={"X": "double[N,3]"}, opset=opset)
