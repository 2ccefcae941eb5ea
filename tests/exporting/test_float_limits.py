"""Constants at the limits of floats: in float32 none becomes infinite or 0, in float64 onnxruntime leaves none out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime import InferenceSession

from onnx_systemds.exporting.float_rounding import rounded
from onnx_systemds.exporting.model_files import export_file
from onnx_systemds.exporting.stored_matrices import stored_array
from tests.exporting.export_harness import ExportCase, check_export, model_of, operators

X = {"X": np.array([[0.0, 2, -1], [0, 0, 0], [3, -0.5, 1]])}

CASES = [
    ExportCase("masked scores", "S = ifelse(X > 0, X, -1e300)\nE = exp(S - rowMaxs(S))\nY = E / rowSums(E)", X),
    ExportCase("a mask that is added", "S = X + (X < 0) * -1e40\nE = exp(S - rowMaxs(S))\nY = E / rowSums(E)", X),
    ExportCase("the smallest of what is not hidden", "M = ifelse(X > 0, X, 1e308)\nY = rowIndexMin(M) + (rowMins(M) < 1e307)", X),
    ExportCase("a best number so far", "b = 1e300\nk = 0\nfor (i in 1:nrow(X)) { if (as.scalar(X[i, 1]) < b) { b = as.scalar(X[i, 1])\n k = i } }\n"
               "Y = matrix(b - k, 1, 1)", X),
    ExportCase("replaced by what is hardly more than 0", "Y = (replace(target=abs(X), pattern=0, replacement=2e-307) > 0) + (X + 1e-60 > 0)", X),
    ExportCase("logarithms of what may be 0", "Y = abs(X) * log(abs(X) + 1e-300) + (X != 0) * log(max(abs(X), 1e-200))", X),
    ExportCase("entropies of shares that are hardly in doubt", "p = 1 / (1 + exp(-X * 10))\nq = 1 / (1 + exp(X * 15))\n"
               "Y = p * log(p) + (1 - p) * log(1 - p)\nZ = log(q) + log(sigmoid(X * 12))", X, ("Y", "Z")),
    ExportCase("a loss of shares that are limited", "p = min(max(1 / (1 + exp(-X * 20)), 1e-15), 1 - 1e-15)\ny = X > 0\n"
               "Y = mean(y * log(p) + (1 - y) * log(1 - p))\nr = min(max(X, -(1 - 1e-9)), 1 - 1e-9)\n"
               "Z = is.infinite(log((1 + r) / (1 - r))) + is.infinite(log(1 - ifelse(X >= 1, 1 - 1e-9, X)))", X, ("Y", "Z")),
    ExportCase("a loss of shares that are an output, too", "S = X * 70\nE = exp(S - rowMaxs(S))\nP = E / rowSums(E)\n"
               "Y = (X >= rowMaxs(X)) * log(P) + (X < 0) * log(P) / 200", X, ("Y", "P")),
    ExportCase("probabilities of a cloglog link", "Y = glmPredict(X=X, B=matrix(1, 1, 1), dfam=2, link=4, verbose=FALSE)",
               {"X": np.array([[-40.0, -20, -3, 0, 2, 89, 200]]).T}),
    ExportCase("the same of large numbers alone, which are zeros of a mask", "E = exp(X)\nm = ((1e7 + E) == 1e7)\n"
               "Y = (1 - m) * (1 - exp(-E)) + m * E * (1 - E / 2)", {"X": np.array([[800.0], [900]])}),
    ExportCase("clusters of points that are centers", "[cluster, outliers] = dbscanApply(X=X, clusterModel=X[1:2, ], eps=0.5)\nY = outliers",
               {"X": np.array([[0.0, 0], [4, 4], [0, 0], [9, 9]])}),
]


TENTHS = np.arange(0.0, 12).reshape(12, 1) / 10
CASES += [
    ExportCase("bounds that are decimals but for noise", 'b = t(seq(0.1, 1, 0.1))\nY = outer(X, b, ">=") + 2 * outer(X, b, ">") + 4 * outer(rev(X), b, "<")'
               ' + 8 * outer(X, b, "<=")\nZ = (0.1 * 3 > X) + 2 * (0.1 * 7 <= X)', {"X": TENTHS}, ("Y", "Z")),
    ExportCase("bounds that a branch asks for", "Y = X\nfor (i in 1:nrow(X)) {\n  if (as.scalar(X[i, 1]) < 0.1 + 0.2) { Y[i, ] = Y[i, ] + 5 }\n}", {"X": TENTHS}),
    ExportCase("bounds of what texts show", "Y = as.matrix(F) < 0.1 * 3", {"F": TENTHS.astype(str).astype(object)}),
    ExportCase("bounds in functions that stay functions", 'Y = low(X, 0.1 + 0.2) + 4 * low(X * 3, 0.1 * 3)\nZ = above(X, t(seq(0.1, 1, 0.1)))', {"X": TENTHS}, ("Y", "Z"), keep=True,
               functions="low = function(matrix[double] A, double t) return (matrix[double] B) { B = (A < t) + 2 * (0.1 * 7 <= A) }\n"
               'above = function(matrix[double] A, matrix[double] b) return (matrix[double] B) { B = outer(rev(A), b, ">=") }\n'),
    ExportCase("bounds of what a branch or a function gives back", "if (sum(X) > 1) { A = X } else { A = rev(X) }\nY = (A >= 0.1 * 3) + 2 * (turned(X) < 0.1 * 3)",
               {"X": TENTHS}, keep=True, functions="turned = function(matrix[double] A) return (matrix[double] B) { B = rev(A) }\n"),
    ExportCase("decimals that are no decimals but for noise", "Y = (X == 0.1 * 3) + 2 * (X != 0.1 * 7) + 4 * (0.1 + 0.2 == X) + 8 * (X == 0.3)"
               " + 16 * replace(target=X, pattern=0.1 * 6, replacement=7)", {"X": TENTHS}),
    ExportCase("elements of data among those of a matrix", 'Y = outer(X, W, "==")', {"X": np.arange(12).reshape(12, 1) * 0.1, "W": np.arange(3, 9).reshape(1, 6) * 0.1},
               bound=["W"]),
    ExportCase("bounds of what is calculated", "Y = (X * 3 >= 0.1 * 3) + (X + 0.2 >= 0.1 + 0.2)", {"X": TENTHS}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers(case: ExportCase) -> None:
    check_export(case)


@pytest.mark.parametrize(("body", "used"), [
    ("Y = log(abs(X) + 1e-300)", ["Abs", "Sum", "Log"]),
    ("Y = log(1e-300 + abs(X)) + log(abs(X) - -1e-60)", ["Abs", "Sum", "Log", "Sum", "Log", "Add"]),
    ("Y = (abs(X) * 1.000000001 - abs(X)) * 1e9", ["Abs", "Mul", "Mul", "Sub", "Mul"]),
    ("Y = (abs(X) / 1.000000001 - 0.999999999 * abs(X)) * 1e18", None),
    ("Y = abs(X) * 1.0000001 - 1e-30", ["Abs", "Mul", "Sub"]),
])
def test_float64_that_float32_takes_for_0_or_1(body: str, used: list[str] | None) -> None:
    """onnxruntime's optimizer looks at them as float32, and would leave the operation out."""
    case = ExportCase(body, body, X, dtypes=["float64"])
    check_export(case)
    assert used is None or operators(model_of(case, "float64")) == used


def test_weights(tmp_path: Path) -> None:
    """The same in the model, beside it, and read only when the file is written."""
    largest, smallest = np.finfo(np.float32).max, np.finfo(np.float32).tiny
    weights = np.array([[1e300, -1e300, 1e-300, -1e-300, 0, np.inf, -np.inf, 0.1]])
    expected = np.array([[largest, -largest, smallest, -smallest, 0, np.inf, -np.inf, 0.1]], np.float32)
    np.save(tmp_path / "w.npy", weights)
    stored = stored_array(tmp_path / "w.npy")
    assert stored is not None
    np.testing.assert_array_equal(stored.read(np.float32), expected)
    np.testing.assert_array_equal(rounded(weights, np.dtype(np.float64)), weights)
    path = tmp_path / "model.onnx"
    for bytes_beside in (None, 1):
        export_file('X = read("X")\nW = read("W")\nY = W + X * 0.1\nwrite(Y, "Y")\n', path, inputs={"X": "double[1,8]"},
                    bindings={"W": weights}, external_data=bytes_beside)
        assert path.with_name("model.onnx.data").exists() == (bytes_beside is not None)
        found = InferenceSession(path).run(None, {"X": np.zeros((1, 8), np.float32)})[0]
        np.testing.assert_array_equal(found, expected)
