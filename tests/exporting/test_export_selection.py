"""Builtins that count, select and sort, and statistics, against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export, run_model

RNG = np.random.default_rng(11)
X = {"X": RNG.normal(size=(6, 3))}
TIES = np.array([[3, 1, 0], [1, 2, 0], [3, 3, 5], [1, 4, 0], [2, 5, 0], [0, 0, 0]], float)
T = {"X": TIES}
IDS = {"I": np.array([[3.0], [1], [2], [3], [1]]), "W": np.array([[0.5], [2], [1], [4], [3]])}
N3 = {"X": ["N", 3]}
FREE = {"I": ["N", 1], "W": ["N", 1]}
MORE_IDS = [{"I": np.array([[2.0], [1], [2], [2]]), "W": np.array([[1.0], [2], [3], [4]])}]


PAIRS = {"I": np.array([[1.0], [2], [2], [3]]), "J": np.array([[2.0], [1], [1], [3]])}
UNDEFINED = {"I": np.array([[1.0], [2], [4], [3]]), "J": np.array([[2.0], [1], [np.nan], [3]])}
WEIGHTS = [np.array([[number] for number in line]) for line in (
    (1, np.nan, 3, 4), (1, np.inf, np.nan, np.nan), (np.nan, -np.inf, np.inf, 4), (1, 2, 3, 0.5),
)]
FREE_PAIRS = {"I": ["N", 1], "J": ["N", 1], "W": ["N", 1]}
WEIGHTED = ["table(I, J, W)", "table(I, J, W, 4, 5)", "table(I, J, W, 2, 2)", "table(I, 1, W)", "table(seq(1, nrow(I)), J, W)",
            "table(seq(1, nrow(I)), J, W, nrow(I), 2)", "table(I, seq(1, nrow(I)), W, 4, nrow(I))", "table(I, seq(1, nrow(I)), W)"]


def row(name: str, body: str, inputs=T, symbols=N3, sizes=None, **more) -> ExportCase:
    sizes = [{"X": inputs["X"][:4]}] if sizes is None and "X" in inputs else sizes or ()
    return ExportCase(name, body, inputs, symbols=symbols, sizes=sizes, **more)


CASES = [
    row("table of a column", "Y = table(I, 1) + sum(W) * 0", IDS, FREE, MORE_IDS),
    row("table of both", "Y = table(I, I)", {"I": IDS["I"]}, {"I": ["N", 1]}, [{"I": MORE_IDS[0]["I"]}]),
    row("table with weights", "Y = table(I, I, W)", IDS, FREE, MORE_IDS),
    row("table with one weight", "Y = table(I, I, 2, 4, 4)", {"I": IDS["I"]}, {"I": ["N", 1]}, [{"I": MORE_IDS[0]["I"]}]),
    row("table with a truth", "Y = table(I, I, 1, 4, 4, FALSE)", {"I": IDS["I"]}),
    row("table of a given size", "Y = table(I, I, 2, 4) + sum(W) * 0", IDS, FREE, MORE_IDS),
    row("one row per index", "Y = table(seq(1, nrow(I)), I, nrow(I), 5) + sum(W) * 0", IDS, FREE, MORE_IDS),
    row("chosen rows", "Y = table(seq(1, nrow(I)), I, nrow(I), 3) %*% matrix(seq(1, 12), 3, 4)", {"I": IDS["I"]},
        {"I": ["N", 1]}, [{"I": MORE_IDS[0]["I"]}]),
    row("one row per index of a column that is not declared", "Y = table(seq(1, nrow(I)), I, nrow(I), 5)", {"I": IDS["I"]},
        {"I": ["N", "M"]}, [{"I": MORE_IDS[0]["I"]}]),
    *(row(f"{text} takes the first column", f"Y = {text}", {"I": IDS["I"]}, {"I": ["N", 1]}, [{"I": MORE_IDS[0]["I"]}])
      for text in ("table(seq(1, nrow(I)), cbind(I, 9 * I), nrow(I), 5)",
                   "table(I, cbind(2 * I, I))", "table(I, cbind(I, 9 * I), I, 4, 4)", "table(I, cbind(I, 9 * I), 4, 5)",
                   "table(I, matrix(rbind(I, I + 1), rows=nrow(I), cols=2), 4, 5)")),
    row("chosen rows of pairs in one column", """J = matrix(outer(I, t(seq(0, 1)), "+"), rows=2 * nrow(I), cols=1)
Y = table(seq(1, 2 * nrow(I)), J, 2 * nrow(I), 5) %*% seq(1, 5)""", {"I": IDS["I"]}, {"I": ["N", 1]}, [{"I": MORE_IDS[0]["I"]}]),
    row("table of NaN", "Y = table(I, J)", UNDEFINED, {"I": ["N", 1], "J": ["N", 1]}, [PAIRS]),
    row("table of NaN in one", "Y = table(J, 1)", {"J": UNDEFINED["J"]}, {"J": ["N", 1]}),
    row("one weight that is no number", "w = sum(J) * 0 + 0 / 0\nY = table(I, J, w, 4, 4) + table(I, J, 0 / 0, 4, 4)", PAIRS),
    row("one infinite weight", "w = sum(J) * 0 + 1 / 0\nY = table(I, J, w, 4, 4) + table(I, J, -1 / 0, 4, 4)", PAIRS),
    row("table of fractions", "Y = table(I * 1.2, 1)", {"I": IDS["I"]}, {"I": ["N", 1]}),
    row("permutation", "P = table(seq(1, nrow(X)), order(target=X, by=1, index.return=TRUE), nrow(X), nrow(X))\nY = P %*% X",
        X),
    row("rows that are not empty", 'Y = removeEmpty(target=X, margin="rows")'),
    row("columns that are not empty", 'Y = removeEmpty(target=X, margin="cols")'),
    row("selected rows", 'm = X[,1] > 1\nY = removeEmpty(target=X, margin="rows", select=m)'),
    row("selected columns", 'm = colSums(X) > 10\nY = removeEmpty(target=X, margin="cols", select=m)'),
    row("columns that are known", 'Y = removeEmpty(target=X, margin="cols", select=S)',
        {**T, "S": np.array([[1.0, 0, 1]])}, bound=["S"]),
    row("no row", 'm = X[,1] > 100\nY = removeEmpty(target=X, margin="rows", select=m)'),
    row("no column known", 'Y = removeEmpty(target=X, margin="cols", select=matrix(0, 1, 3))'),
    row("no row, none in its place", 'm = X[,1] > 100\nZ = removeEmpty(target=X, margin="rows", select=m, empty.return=FALSE)'
        "\nY = as.matrix(nrow(Z))"),
    row("used after a selection", 'm = X[,1] > 1\nZ = removeEmpty(target=X, margin="rows", select=m)\n'
        "Y = (Z - colMeans(Z)) / nrow(Z)"),
    row("sorted", "Y = order(target=X, by=1)"),
    row("sorted downwards", "Y = order(target=X, by=2, decreasing=TRUE)"),
    row("equal ones downwards", "Y = order(target=X, by=1, decreasing=TRUE)"),
    row("sorted by two", 'Y = order(target=X, by=matrix("1 2", 1, 2), decreasing=TRUE)'),
    row("sorted by a computed column", "Y = order(target=X, by=as.scalar(rowIndexMax(X[1, ])))"),
    row("places", "Y = order(target=X, by=1, decreasing=TRUE, index.return=TRUE)"),
    row("contains", "Y = X + ifelse(contains(target=X, pattern=5), 1, 2)"
        " + ifelse(contains(target=X, pattern=7), 4, 8)"),
    row("contains NaN", "Y = as.matrix(ifelse(contains(target=X, pattern=NaN), 1, 2))",
        {"X": np.where(TIES == 5, np.nan, TIES)}),
    row("quantiles", "Y = X[,2] * quantile(X[,1], 0.3) + quantile(X[,2], 0.75) + quantile(X[,1], 0) + quantile(X[,1], 1)",
        X, {}, ()),
    row("quantiles of an odd number", "Z = X[1:5,1]\nY = as.matrix(quantile(Z, 0.3) + median(Z) * 2)", X, {}, ()),
    row("several quantiles", 'Y = quantile(X[,1], matrix("0.25 0.5 0.75", 3, 1)) + median(X[,2])', X, {}, ()),
    row("quantiles among zeros", "Y = as.matrix(median(X[,1]) + 10 * median(X[,2]) + 100 * quantile(X[,3], 0.25))",
        {"X": np.array([[0, 5, 0], [0, 0, 7], [1, 6, 8], [1, 7, 9.0]])}, {}, ()),
    row("triangles", "Z = t(X) %*% X\nY = lower.tri(target=Z, values=TRUE) + upper.tri(target=Z, diag=TRUE) * 2"
        " + upper.tri(target=Z, diag=TRUE, values=TRUE) + lower.tri(target=Z)", X),
    row("triangles in an old opset", "Y = lower.tri(target=X, values=TRUE) + upper.tri(target=X, diag=TRUE) * 2", X, opset=13),
    row("covariance", "Y = as.matrix(cov(X[,1], X[,2]) + moment(X[,1], 2) + moment(X[,2], 3))", X),
    row("size from data", "n = max(I)\nY = (matrix(0, nrow(I), n) + t(seq(1, n))) == I", {"I": IDS["I"]}, {"I": ["N", 1]},
        [{"I": MORE_IDS[0]["I"]}]),
    row("clock that is not read", "t1 = time()\nY = X + 1\nprint(time() - t1)"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_builtin_agrees_with_the_engine(case: ExportCase) -> None:
    check_export(case)


@pytest.mark.parametrize("places", [PAIRS, UNDEFINED], ids=["defined", "undefined"])
@pytest.mark.parametrize("body", WEIGHTED)
def test_weights_that_are_no_numbers_count_nowhere(body: str, places: dict[str, np.ndarray]) -> None:
    """Infinite ones count in their cell alone; the engine takes no size from a pair with NaN."""
    inputs = {**places, "W": WEIGHTS[0]}
    check_export(row("weights", f"Y = {body}", inputs, FREE_PAIRS, [{"W": weights} for weights in WEIGHTS[1:]]))
    for weights in WEIGHTS:
        check_export(row("known weights", f"Y = {body}", {**places, "W": weights}, {}, bound=["W"]))


@pytest.mark.parametrize(("body", "reason"), [
    ("Y = order(target=X, by=X)", "must be known, or be one"),
    ("Y = X * time()", "a model knows no clock"),
    ('Y = removeEmpty(target=X, margin="all")', "not rows or cols"),
])
def test_what_cannot_be_exported_is_refused_with_its_line(body: str, reason: str) -> None:
    with pytest.raises(TranspileError) as caught:
        export_script(f'X = read("X")\n{body}\nwrite(Y, "Y")\n', inputs={"X": "double[N,1]"})
    assert reason in str(caught.value)
    assert f":{body.count(chr(10)) + 2}:" in str(caught.value)


def test_a_model_stops_at_indices_of_more_columns() -> None:
    model = export_script('I = read("I")\nY = table(seq(1, nrow(I)), I, nrow(I), 5)\nwrite(Y, "Y")\n')
    with pytest.raises(Exception, match="Squeeze"):
        run_model(model, {"I": np.ones((4, 2))})
