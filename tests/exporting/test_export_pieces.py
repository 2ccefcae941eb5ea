"""Matrices that are filled piece by piece: the model joins the pieces once, and cuts them where they lie."""

from __future__ import annotations

import numpy as np
import pytest

from tests.exporting.export_harness import ExportCase, check_export, model_of, operators

X = np.arange(24.0).reshape(4, 6)
SQUARES = "for (i in 1:6) { Y[, i] = X[, i]^2 + i }"
SYMBOLS = {"X": ["N", 6]}
SMALLER = [{"X": X[:2]}]
LAYER = 'source("nn/layers/conv2d_depthwise.dml") as layer'

CASES = [
    ExportCase("all columns", f"Y = matrix(7, nrow(X), 6)\n{SQUARES}", {"X": X}, symbols=SYMBOLS, sizes=SMALLER,
               operators=["Pow", "Add"]),
    ExportCase("not all columns", "Y = matrix(7, nrow(X), 6)\nfor (i in 2:4) { Y[, i] = X[, i] * i }", {"X": X},
               symbols=SYMBOLS, sizes=SMALLER),
    ExportCase("overlapping ranges", "Y = X\nY[, 1:3] = Y[, 2:4]\nY[, 2:5] = Y[, 1:4] + 1", {"X": X}, symbols=SYMBOLS,
               sizes=SMALLER),
    ExportCase("rows and columns", "Y = X\nfor (i in 1:4) { Y[i, i] = as.scalar(Y[i, i + 1]) + 1 }", {"X": X}),
    ExportCase("cut of joined", "Z = cbind(X, X + 1)\nY = cbind(Z[, 7:12], Z[, 2:3], Z[, 5:8])", {"X": X}, symbols=SYMBOLS,
               sizes=SMALLER),
    ExportCase("cut of cut", "Z = X[, 2:6]\nZ = Z[, 2:4]\nY = Z[, 3] + Z[, 1]", {"X": X}, symbols=SYMBOLS, sizes=SMALLER,
               operators=["Slice", "Slice", "Add"]),
    ExportCase("rows of unknown number", "Z = rbind(X, 2 * X, X + 5)\nY = Z[nrow(X) + 1:2 * nrow(X), ] - Z[1:nrow(X), ]",
               {"X": X}, symbols=SYMBOLS, sizes=SMALLER, operators=["Mul", "Sub"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pieces_agree_with_the_engine(case: ExportCase) -> None:
    check_export(case)


def depthwise(more: str, weights: str = "W") -> list[str]:
    """The operators of a depthwise convolution of three channels, after which something more is done."""
    rng = np.random.default_rng(3)
    data = {"X": rng.normal(size=(2, 3 * 16)), "W": rng.normal(size=(3, 9)), "b": rng.normal(size=(3, 1))}
    body = f"[Y, h, w] = layer::forward(X, W, b, 4, 4, 1, 3, 3, 1, 1, 1, 1)\n{more}"
    case = ExportCase("depthwise", body, data, bound=["W", "b"] if weights else ["b"], symbols={"X": ["N", 48]},
                      sizes=[{"X": data["X"][:1]}], functions=LAYER, dtypes=["float32"])
    check_export(case)
    return operators(model_of(case, "float32"))


def test_depthwise_convolution_is_one_node() -> None:
    assert depthwise("Y = max(Y, 0)") == ["Reshape", "Conv", "Relu", "Reshape"]


def test_depthwise_convolution_of_computed_filters_is_not_joined() -> None:
    assert depthwise("", weights="").count("Conv") == 3
