"""Loops whose trips do not depend on each other: operators over all trips, with a known batch as with an open one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from benchmarks.exports import node_count
from tests.exporting.export_harness import Array, ExportCase, assert_close, check_export, model_of, operators, run_model

RNG = np.random.default_rng(17)
X = {"X": RNG.normal(size=(5, 6))}
IMAGES = {"X": RNG.normal(size=(3, 2 * 6 * 5))}
FILTERS = {"W": RNG.normal(size=(4, 18)), "b": RNG.normal(size=(4, 1))}
WINDOW = "C=2, Hin=6, Win=5, Hf=3, Wf=3, strideh=2, stridew=1, padh=1, padw=1"
RANGES = "Y = matrix(0, nrow(X), ncol(X))\nfor (i in 1:ceil(nrow(X) / 2))"
RANGE = "beg = (i-1) * 2 + 1\nend = min(nrow(X), beg + 1)"
EMPTY = "Y = matrix(0, rows=nrow(X), cols=ncol(X))\n"
COLUMN = "Y = matrix(0, rows=nrow(X), cols=1)\n"


def rows(name: str, body: str, data: dict[str, Array] = X, **more: object) -> ExportCase:
    """A case whose X has any number of rows; also run with two of them and one."""
    bound = tuple(key for key in data if key != "X")
    return ExportCase(name, body, data, bound=bound, symbols={"X": ["N", data["X"].shape[1]]},
                      sizes=[{"X": data["X"][:2]}, {"X": data["X"][:1]}], **more)  # type: ignore[arg-type]


def layer(name: str, call: str, data: dict[str, Array]) -> ExportCase:
    return rows(name, f"[Y, h, w] = layer::forward({call}, {WINDOW})", data, sources={"layer": f"nn/layers/{name}.dml"},
                dtypes=["float32"])


INDEPENDENT = [
    rows("rows", EMPTY + "for (n in 1:nrow(X)) { Y[n,] = X[n,] / sum(abs(X[n,])) }", operators=["Abs", "ReduceSum", "Div"]),
    rows("rows of a product", f"{EMPTY}parfor (n in 1:nrow(X)) {{ Y[n,] = max(X[n,] %*% t(X[n,]) %*% X[n,], 0) }}"),
    rows("rows of another size", "Y = matrix(0, nrow(X), 4)\nfor (n in 1:nrow(X)) { Y[n,2:3] = t(rowSums(matrix(X[n,], 2, 3))) }"),
    rows("two parts of a row",
         f"{EMPTY}for (n in 1:nrow(X)) {{ Y[n,1:3] = exp(X[n,4:6])\nY[n,4:6] = Y[n,1:3] * X[n,1:3] }}"),
    rows("rows that were there", "Y = X ^ 2\nfor (n in 1:nrow(X)) { Y[n,] = Y[n,] + max(X[n,]) }"),
    rows("some rows", "Y = rbind(X, X)\nfor (n in 1:nrow(X)) { Y[n+1,] = X[n,] + rowSums(X[n,]) }"),
    rows("columns", EMPTY + "for (c in 1:ncol(X)) { Y[,c] = X[,c] - mean(X[,c]) }"),
    rows("a matrix for each row", "Y = matrix(0, nrow(X), 9)\nfor (n in 1:nrow(X)) { M = matrix(X[n,], 3, 2)\n"
         "Y[n,] = matrix(M %*% t(M), 1, 9) }"),
    rows("sums", "Y = matrix(0, 6, 6)\ns = 0\nfor (n in 1:nrow(X)) { Y = Y + t(X[n,]) %*% X[n,]\ns = s + sum(X[n,]) * n }\n"
         "Y = Y + s"),
    rows("a count of branches", "k = 0\nfor (n in 1:nrow(X)) { if (sum(X[n,]) > 0) { k = k + 1 } }\nY = as.matrix(k)"),
    rows("a sum of some rows", "s = matrix(0, 1, 6)\nfor (n in 1:nrow(X)) { if (as.scalar(X[n,1]) > 0) { s = s + X[n,]\ns = s + n } }\nY = s"),
    rows("a sum of one thing or the other", "s = 1.5\nfor (n in 1:nrow(X)) { s = s + n\nif (as.scalar(X[n,1]) > 0) { s = s + n * 2 } else "
         "{ if (as.scalar(X[n,2]) > 0) { s = s + sum(X[n,]) } } }\nY = matrix(s, 1, 1)"),
    rows("a counter", "k = 1\nm = nrow(X)\nY = matrix(0, 2 * nrow(X), 6)\nfor (n in 1:nrow(X)) { Y[k:(k+1),] = rbind(X[n,], X[m,] * k)\n"
         "k = k + 2\nm = m - 1 }\nY[1,1] = k + 10 * m"),
    rows("a sum that is lowered", "s = matrix(1, 1, 6)\nk = 9.5\nfor (n in 1:nrow(X)) { k = k - sum(X[n,])\nk = k - n\n"
         "if (as.scalar(X[n,1]) > 0) { s = s + X[n,] } else { s = s - X[n,] * n } }\nY = s * k"),
    rows("a product of some rows", "s = matrix(2, 1, 6)\nfor (n in 1:nrow(X)) { if (sum(X[n,]) > 0) { print(n) } else { s = s * X[n,] } }\nY = s"),
    rows("counts for each row", COLUMN + "for (n in 1:nrow(X)) { k = 0\nfor (m in 1:nrow(X)) { "
         "if (as.scalar(X[m,1]) > as.scalar(X[n,1])) { k = k + 1 } }\nY[n,1] = k }"),
    rows("extremes", "Y = X[1,]\nfor (n in 1:nrow(X)) { Y = max(Y, X[n,] * n) }"),
    *[rows(f"a {name} with NaN", f"s = 0.5\nm = X[1,]\nfor (n in 1:nrow(X)) {{ m = {name}(m, X[n,])\ns = {name}(s, as.scalar(X[n,1])) }}\nY = cbind(m, as.matrix(s))",
           {"X": np.array([[1, -2, np.inf], [2, 3, -np.inf], [np.nan, 1, 1], [3, np.nan, 2], [7, 2, 5]])}) for name in ("max", "min")],
    rows("rows, many of them in threads", EMPTY + "if (nrow(X) > 3) { parfor (n in 1:nrow(X), check=0) { Y[n,] = exp(X[n,]) * 2 } } "
         "else { for (n in 1:nrow(X)) { Y[n,] = exp(X[n,]) * 2 } }", operators=["Exp", "Mul"]),
    rows("the last row", "for (n in 1:nrow(X)) { Y = exp(X[n,]) + n }"),
    rows("rows of another matrix", "Y = matrix(0, nrow(X), 2)\nfor (n in 1:nrow(X)) { i = as.integer(as.scalar(X[n,1])^2 > 1) + 1\n"
         "Y[n,] = t(E[i:(i+1),1]) + n }", {**X, "E": RNG.normal(size=(4, 3))}),
    rows("ranges of rows", f"{RANGES} {{ {RANGE}\nY[beg:end,] = max(X[beg:end,] %*% W - 1, 0) }}", {**X, "W": RNG.normal(size=(6, 6))},
         operators=["MatMul", "Sub", "Relu"]),
    rows("ranges of rows from remainders", f"{RANGES} {{ {RANGE.replace('(i-1) * 2', '((i-1) * 2) %% nrow(X)')}\nY[beg:end,] = X[beg:end,] * 2 }}",
         operators=["Mul"]),
    rows("ranges of rows, scaled", f"{RANGES} {{ {RANGE}\nZ = cbind(X[beg:end,], matrix(1, end-beg+1, 1))\n"
         "Y[beg:end,] = Z[,2:7] / rowSums(abs(Z)) }"),
    rows("branches", COLUMN + "for (n in 1:nrow(X)) { s = sum(X[n,])\nif (s > 0.5) { Y[n,1] = 1 } else if (s > 0) { Y[n,1] = s } else { Y[n,1] = -1 } }"),
    rows("one branch that writes", "Y = X\nfor (n in 1:nrow(X)) { m = max(X[n,])\nif (m > 1) { Y[n,] = X[n,] / m } }"),
    rows("a row that is corrected", EMPTY + "for (n in 1:nrow(X)) { Y[n,] = X[n,] * n\n"
         "if (sum(Y[n,]) > 0) { Y[n,2] = 7\nY[n,5] = X[n,1] } }"),
    rows("branches one after the other", "Y = X\nfor (n in 1:nrow(X)) { if (as.scalar(X[n,1]) > 0) { Y[n,1] = 0 }\n"
         "if (as.scalar(X[n,2]) > 0) { Y[n,2] = 1 } else { Y[n,2] = sum(X[n,]) } }"),
    rows("branches in branches", COLUMN + "for (n in 1:nrow(X)) { if (as.scalar(X[n,1]) < 0.3) { if (as.scalar(X[n,2]) < 0) { Y[n,1] = 1 }\n"
         "else { Y[n,1] = sqrt(abs(sum(X[n,]))) } } else { if (as.scalar(X[n,3]) < 0) { Y[n,1] = 3 } else { Y[n,1] = 4 } } }"),
    rows("the best column", COLUMN + "for (n in 1:nrow(X)) { best = 0\nhighest = -99\nfor (c in 1:ncol(X)) { v = as.scalar(X[n,c])\n"
         "if (v > highest) { highest = v\nbest = c } }\nY[n,1] = best }"),
    *[rows(f"an extreme by {comparison}", f"m = {start}\nk = 0\nb = X[1,]\nfor (n in 1:nrow(X)) {{ v = as.scalar(X[n,1])\n"
           f"if ({comparison}) {{ m = v\nk = n\nb = X[n,] }} }}\nY = cbind(as.matrix(m), as.matrix(k), b)",
           {"X": np.array([[0, 2], [np.nan, 3], [4, 5], [-4, 6], [4, 7], [-4, 8], [np.nan, 9.0]])})
      for comparison, start in (("v > m", "0"), ("m <= v", "-1/0"), ("v < m", "1/0"), ("m >= v", "as.scalar(X[1,1])"), ("v > m", "0/0"))],
    rows("an extreme of some rows", "m = 1/0\nk = 0\nfor (n in 1:nrow(X)) { if (n != 2) { d = sum((X[n,] - X[1,])^2)\n"
         "if (d < m & as.scalar(X[n,1]) > -1) { m = d\nk = n } } }\nY = cbind(as.matrix(m), as.matrix(k))"),
    rows("the nearest of all rows", COLUMN + "for (n in 1:nrow(X)) { m = 1/0\nk = 0\nfor (o in 1:nrow(X)) { d = sum(abs(X[n,] - X[o,]))\n"
         "if (d < m & o != n) { m = d\nk = o } }\nY[n,1] = k }"),
    rows("what the last branch set", "s = 3\nk = FALSE\nfor (n in 1:nrow(X)) { if (sum(X[n,]) > 0) { s = sum(X[n,])\nk = TRUE } }\nY = as.matrix(s + ifelse(k, 1, 0))"),
    rows("a scalar of a branch", COLUMN + "for (n in 1:nrow(X)) { s = 0.5\nif (sum(X[n,]) > 0) { s = exp(max(X[n,])) }\nY[n,1] = s * 2 }"),
    rows("columns in branches", "Y = X\nfor (c in 1:ncol(X)) { d = sd(X[,c])\nif (is.nan(d) | d == 0) { Y[,c] = X[,c] * 0 } else { Y[,c] = X[,c] / d } }"),
    rows("cells in branches", EMPTY + "for (n in 1:nrow(X)) { for (c in 1:ncol(X)) { v = as.scalar(X[n,c])\n"
         "if (v > 0) { Y[n,c] = v } else { Y[n,c] = exp(v) - 1 } } }"),
    rows("one condition for all", "Y = X\nlarge = sum(X) > 0\nfor (n in 1:nrow(X)) { if (large) { Y[n,1] = n } }"),
    rows("a quotient that only some have", COLUMN + "for (n in 1:nrow(X)) { k = as.integer(as.scalar(X[n,1]) * 3)\n"
         "if (k > 0) { Y[n,1] = 7 %/% k } }"),
    rows("the row before in a branch", "Y = X\nfor (n in 1:nrow(X)) { if (n > 1) { Y[n,] = X[n-1,] + X[n,] } }"),
    rows("the row after in a branch", "Y = X\nfor (n in 1:nrow(X)) { if (n < nrow(X)) { Y[n,] = X[n+1,] } }"),
    rows("a place that is looked up in a branch", "E = matrix(\"4 5 6\", 3, 1)\n" + COLUMN + "for (n in 1:nrow(X)) { k = as.integer(as.scalar(X[n,1]) * 9)\n"
         "if (k >= 1 & k <= 3) { Y[n,1] = E[k,1] } }"),
    rows("rows beside it in branches", "Y = X\nfor (n in 1:nrow(X)) { if (n > 1) { if (n < nrow(X)) { Y[n,] = X[n-1,] + X[n+1,] } } else { Y[n,] = X[n,] * 2 } }"),
    rows("the nearest ones", COLUMN + "for (n in 1:nrow(X)) { d = rowSums((E - X[n,])^2)\ni = order(target=d, by=1, index.return=TRUE)\n"
         "near = table(seq(1, 3), i[1:3,], 3, nrow(E)) %*% seq(1, nrow(E))\ncount = table(ceil(near / 3), 1, 3, 1)\nY[n,1] = rowIndexMax(t(count)) }",
         {**X, "E": RNG.normal(size=(9, 6))}),
    rows("an extreme that is chosen", "m = -1/0\nfor (n in 1:nrow(X)) { v = as.scalar(X[n,1])\nm = ifelse(v > m, v, m) }\nY = as.matrix(m)"),
    rows("rows that are joined", "Y = matrix(0, 0, 6)\nfor (n in 1:nrow(X)) { Y = rbind(Y, X[n,] * n) }"),
    rows("several rows that are joined", "Y = X\nfor (n in 1:nrow(X)) { Y = rbind(Y, X[n,], matrix(n, 1, 6)) }"),
    rows("rows that only some trips join", "Y = X\nfor (n in 1:nrow(X)) { if (as.scalar(X[n,1]) > 0) { Y = rbind(Y, X[n,]) } }"),
    rows("columns and places that only some trips join", "Y = X[,1]\nI = matrix(0, 0, 1)\nfor (c in 1:ncol(X)) { if (as.scalar(X[1,c]) > 0) { s = c\n"
         "I = rbind(I, as.matrix(c)) } else { Y = cbind(Y, X[,c] * c) } }\nY = cbind(Y, matrix(sum(I) + nrow(I), nrow(X), 1))"),
    rows("rows that either branch joins", "Y = X\nfor (n in 1:nrow(X)) { v = X[n,]\nif (sum(v) > 1) { Y = rbind(Y, v, v * 2) } else { if (sum(v) > 0) "
         "{ Y = rbind(Y, v + n, matrix(n, 1, 6)) } else { Y = rbind(Y, -v, exp(v)) } } }"),
    rows("a while that counts", EMPTY + "n = 0\nwhile (nrow(Y) > n) { n = n + 1\nj = ncol(X)\nwhile (j >= 2) { if (as.scalar(X[n,j]) > 0) { Y[n,j] = n * j }\nj = j - 2 } }\n"
         "Y = Y + n + j"),
    rows("columns that are joined", "Y = X\nfor (c in 1:ncol(X)) { Y = cbind(Y, X[,c]^2) }"),
    rows("several columns that are joined", "Y = X\nfor (c in 1:ncol(X)) { Y = cbind(Y, X[,c] - mean(X[,c]), X[,c] * c) }"),
    rows("medians of columns", "Y = X\nfor (c in 1:ncol(X)) { Y[,c] = X[,c] - median(X[,c]) }"),
    rows("a line between places", "E = matrix(\"-1 0 1\", 3, 1)\n" + COLUMN + "for (n in 1:nrow(X)) { v = as.scalar(X[n,1])\nif (v >= -1 & v < 1) { j = sum(E <= v)\n"
         "a = as.scalar(E[j,1])\nb = as.scalar(E[j+1,1])\nY[n,1] = (v - a) / (b - a) } }"),
    rows("the largest step", "m = 0\nk = 0\nfor (n in 1:nrow(X)) { if (n > 1) { d = sum(abs(X[n,] - X[n-1,]))\nif (d > m) { m = d\nk = n } } }\nY = as.matrix(m + k)"),
    layer("conv2d", "X=X, W=W, b=b", {**IMAGES, **FILTERS}),
    layer("max_pool2d", "X=X", IMAGES),
]

DEPENDENT = [
    rows("what the row before gave", EMPTY + "Y[1,] = X[1,]\nfor (n in seq(2, nrow(X), 1)) { Y[n,] = Y[n-1,] / 2 + X[n,] }"),
    rows("a state", EMPTY + "s = matrix(0, 1, 6)\nfor (n in 1:nrow(X)) { s = tanh(s + X[n,])\nY[n,] = s }"),
    rows("a sum on its way", EMPTY + "s = 0\nfor (n in 1:nrow(X)) { s = s + sum(X[n,])\nY[n,] = X[n,] * s }"),
    rows("the variable after its loop", "s = 0\nfor (n in seq(2, 2 * nrow(X), 2)) { s = tanh(s + sum(X[n/2,])) + n }\nY = as.matrix(s + n)"),
    rows("rows that overlap", "Y = matrix(0, nrow(X) + 1, 6)\nfor (n in 1:nrow(X)) { Y[n:(n+1),] = rbind(X[n,], X[n,] + 1) }"),
    rows("one row for all", EMPTY + "for (n in 1:nrow(X)) { Y[1,] = X[n,] + Y[1,] * 2 }"),
    rows("ranges of rows, centered", f"{RANGES} {{ {RANGE}\nY[beg:end,] = X[beg:end,] - colMeans(X[beg:end,]) }}"),
    rows("ranges of rows, turned", f"{RANGES} {{ {RANGE}\nY[beg:end,] = rev(X[beg:end,]) }}"),
    rows("ranges that leave rows", f"{RANGES.replace('1:ceil(nrow(X) / 2)', 'seq(1, floor(nrow(X) / 2), 1)')} {{ {RANGE}\nY[beg:end,] = X[beg:end,] + 1 }}"),
    rows("a place beside another extreme", "m = -99\nk = 0\nfor (n in 1:nrow(X)) { v = sum(X[n,])\nif (v > m) { k = m\nm = v } }\nY = cbind(as.matrix(m), as.matrix(k))"),
    rows("a branch that writes the row after", "Y = X\nfor (n in 1:nrow(X)) { if (n < nrow(X)) { Y[n+1,] = X[n,] } }"),
    rows("branches that write other ranges", "Y = X\nfor (n in 1:nrow(X)) { if (sum(X[n,]) > 0) { Y[n,1] = 0 } else { Y[n,2] = 0 } }"),
    rows("loops that join rows", COLUMN + "for (n in 1:nrow(X)) { V = X[n,]\nv = abs(sum(V))\nwhile (v < 9) { V = rbind(V, X[n,])\nv = v * 2 + 1 }\nY[n,1] = sum(V) }"),
    rows("loops of so many runs as rows before", COLUMN + "for (n in 1:nrow(X)) { v = sum(X[n,])\nfor (k in 1:n) { v = cos(v) + k }\nY[n,1] = v }"),
    rows("a part that grows", "Y = matrix(0, nrow(X), 1)\nfor (n in 1:nrow(X)) { Y[n,1] = sum(X[1:n,]) }"),
    rows("rows that some trips join where there are few", "Y = X\nfor (n in 1:nrow(X)) { if (nrow(Y) < nrow(X) + 2) { Y = rbind(Y, X[n,]) } }"),
    rows("rows of different numbers that branches join", "Y = X\nfor (n in 1:nrow(X)) { if (sum(X[n,]) > 0) { Y = rbind(Y, X[n,], X[n,]) } else { Y = rbind(Y, X[n,]) } }"),
    rows("a while whose end moves", "Y = X\nn = 1\nm = nrow(X)\nwhile (n <= m) { if (sum(Y[n,]) > 0) { m = m - 1 }\nY[n,] = Y[n,] * m\nn = n + 1 }"),
    rows("rows that are counted while they are joined", "Y = X[1,]\nfor (n in 1:nrow(X)) { Y = rbind(Y, X[n,] + nrow(Y)) }"),
]

LOOPS_IN_THEM = [
    rows("a loop in a branch", COLUMN + "for (n in 1:nrow(X)) { v = abs(sum(X[n,])) + 0.1\nif (v < 1) { while (v < 5) { v = v * 2 } }\nY[n,1] = v }"),
    rows("a loop that never ends where it is not taken",
         COLUMN + "for (n in 1:nrow(X)) { v = sum(X[n,])\nif (v > 0) { while (v < 9) { v = v * 1.5 + 0.1 } }\nY[n,1] = v }"),
    rows("a loop of numbers, of rows and a product", EMPTY + "for (n in 1:nrow(X)) { V = X[n,]\nk = 0\n"
         "while (sum(V^2) > 0.01 * n) { V = V %*% t(X) %*% X / sum(X^2) / 1.5\nk = k + 1 }\nY[n,] = V * k }"),
    rows("the first place, which may be behind the end", COLUMN + "for (n in 1:nrow(X)) { j = 1\ngoing = TRUE\nwhile (going) {\n"
         "if (as.scalar(X[n,j]) < 1) { j = j + 1 } else { going = FALSE }\nif (j > ncol(X)) { going = FALSE } }\nY[n,1] = j }"),
    rows("a loop in a loop", COLUMN + "for (n in 1:nrow(X)) { v = abs(sum(X[n,])) + 0.1\nk = 0\nwhile (k < 20) { w = v\n"
         "while (w < n) { w = w * 2\nk = k + 1 }\nv = v + 1\nk = k + w }\nY[n,1] = v + k }"),
    rows("as many runs as there are rows", COLUMN + "for (n in 1:nrow(X)) { v = sum(X[n,])\nfor (k in 1:nrow(X)) { v = cos(v) + k }\nY[n,1] = v }"),
]

SURELY_SOME = [
    replace(rows(name, body), sizes=[{"X": X["X"][:3]}])
    for name, body in (
        ("differences", COLUMN + "for (n in 2:nrow(X)) { Y[n,1] = sum(X[n,] - X[n-1,]) }"),
        ("windows", "m = nrow(X) - 2\nY = matrix(0, m, 3)\nfor (n in 1:m) { Y[n,] = t(X[n:(n+2),1]) }"),
        ("windows that end at a row", COLUMN + "for (n in 3:nrow(X)) { Y[n,1] = max(X[(n-2):n,1:2]) }"),
        ("the largest", "m = as.scalar(X[1,1])\nfor (n in 2:nrow(X)) { if (as.scalar(X[n,1]) > m) { m = as.scalar(X[n,1]) } }\nY = as.matrix(m)"),
    )
]
"""Ranges that would go down for one row, or two, of which the engine then refuses the first place."""

POSSIBLY_NONE = "for (n in seq(3, nrow(X), 1))"
"""Trips that two rows have none of, and one row less than none."""

NONE = [
    rows("the last trip of possibly none", f"Y = X * 2\n{POSSIBLY_NONE} {{ Y = X + 1 }}"),
    rows("a sum of possibly none", f"s = 0\n{POSSIBLY_NONE} {{ s = s + sum(X[n,]) }}\nY = X + s"),
    rows("an extreme of possibly none", f"s = 0.5\n{POSSIBLY_NONE} {{ s = max(s, max(X[n,])) }}\nY = X + s"),
    rows("rows of possibly none", f"{EMPTY}{POSSIBLY_NONE} {{ Y[n,] = X[n,] * 2 }}"),
    replace(rows("rows back to the second, of open columns", "s = 0\nn = nrow(X)\nwhile (n >= 2) {\ns = s + sum(X[n,])\nn = n - 2\n}\nY = X + s"),
            symbols={"X": ["N", "M"]}),
]


WIDE = {"X": RNG.normal(size=(1000, 300)) + 1}
TOO_LARGE_TOGETHER = [
    ExportCase("matrices of all columns", "Y = matrix(0, 1, ncol(X))\nfor (i in 1:ncol(X)) { D = abs(X - X[,i])\nY[1,i] = sum(D) }", WIDE,
               dtypes=["float32"]),
    ExportCase("a matrix that is the same for all columns", "Y = matrix(0, 1000, 300)\nfor (i in 1:ncol(X)) { Y = Y + exp(X) }", WIDE,
               dtypes=["float32"]),
]


@pytest.mark.parametrize("case", INDEPENDENT + DEPENDENT + LOOPS_IN_THEM + SURELY_SOME + NONE, ids=str)
def test_loop_agrees_with_the_engine(case: ExportCase) -> None:
    check_export(case)


@pytest.mark.parametrize("case", INDEPENDENT + DEPENDENT, ids=str)
@pytest.mark.parametrize("count", [1, 3, 16])
def test_a_known_batch_gives_what_an_open_one_gives(case: ExportCase, count: int) -> None:
    opened = model_of(case, "float32")
    data = {**case.inputs, "X": RNG.normal(size=(count, case.inputs["X"].shape[1]))}
    known = model_of(replace(case, inputs=data, symbols={}), "float32")
    if case in INDEPENDENT:
        assert {"Loop", "If"}.isdisjoint(operators(opened))
        if count > 1 or "If" not in operators(known):  # a single trip is written out, with the branch that it takes
            assert {"Loop", "If"}.isdisjoint(operators(known))
            assert node_count(known.graph) <= node_count(opened.graph) + 2
    given = {"X": data["X"]}
    assert_close(run_model(known, given)["Y"], run_model(opened, given)["Y"].astype(np.float64), 1e-5, str(case))


@pytest.mark.parametrize("case", DEPENDENT, ids=str)
def test_trips_that_depend_on_each_other_stay_a_loop(case: ExportCase) -> None:
    assert "Loop" in operators(model_of(case, "float32"))


@pytest.mark.parametrize("case", LOOPS_IN_THEM, ids=str)
def test_loops_of_all_trips_are_one(case: ExportCase) -> None:
    loops = bodies(model_of(case, "float32"))
    assert [len(loops), loops[0].count("Loop"), loops[0].count("If")] == [1, case.name == "a loop in a loop", 0]


def test_a_place_that_a_branch_reads_outside_of_its_matrix_stops_the_model() -> None:
    body = 'E = matrix("4 5 6", 3, 1)\n' + COLUMN + "for (n in 1:nrow(X)) { k = as.integer(as.scalar(X[n,1]))\nif (k >= 1) { Y[n,1] = E[k,1] } }"
    model = model_of(rows("outside", body), "float32")
    assert "Loop" not in operators(model)
    data = np.zeros((3, 6))
    data[:, 0] = -9, 3, 0
    assert run_model(model, {"X": data})["Y"].ravel().tolist() == [0, 6, 0]
    data[2, 0] = 4
    with pytest.raises(Exception, match="out of data bounds"):
        run_model(model, {"X": data})


@pytest.mark.parametrize("case", SURELY_SOME, ids=str)
def test_a_range_that_cannot_go_down_is_no_loop(case: ExportCase) -> None:
    assert {"Loop", "If"}.isdisjoint(operators(model_of(case, "float32")))


def test_a_range_goes_down_where_its_body_does_not_begin_outside() -> None:
    body = "Y = matrix(0, 1, 6)\nfor (n in 2:nrow(X)) { if (n <= nrow(X)) { Y = Y * 2 + X[n,] } else { Y = Y + n } }"
    check_export(rows("down", body))


@pytest.mark.parametrize("case", TOO_LARGE_TOGETHER, ids=str)
def test_trips_that_are_too_large_together_stay_a_loop(case: ExportCase) -> None:
    assert "Loop" in operators(model_of(case, "float32"))
    check_export(case)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_extremes_stay_in_their_row(value: float) -> None:
    data = np.ones((4, 6))
    data[2, 3] = value
    model = model_of(INDEPENDENT[0], "float32")
    found = run_model(model, {"X": data})["Y"]
    with np.errstate(all="ignore"):
        expected = (data.astype(np.float32) / np.abs(data.astype(np.float32)).sum(1, keepdims=True)).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def bodies(model: onnx.ModelProto) -> list[list[str]]:
    """The operators in the bodies of loops of the main graph."""
    return [[inner.op_type for inner in attribute.g.node] for node in model.graph.node for attribute in node.attribute
            if attribute.HasField("g")]


def known_and_open(case: ExportCase, count: int) -> tuple[onnx.ModelProto, onnx.ModelProto, Array]:
    """A case with a known number of rows and with any, and so many rows."""
    data = RNG.normal(size=(count, case.inputs["X"].shape[1]))
    known = replace(case, inputs={**case.inputs, "X": data}, symbols={})
    return model_of(known, "float32"), model_of(case, "float32"), data


BRANCHING = rows("the first that is large", COLUMN + """
for (n in 1:nrow(X)) { found = FALSE
  for (j in 1:ncol(X)) { if (!found & as.scalar(X[n, j]) > 0.5) { Y[n, 1] = j
    found = TRUE } } }""")
VOTES = rows("votes at a computed column", """V = matrix(0, nrow(X), 3)
for (n in 1:nrow(X)) { for (j in 1:ncol(X)) { c = as.integer(min(abs(as.scalar(X[n, j])), 2)) + 1
  V[n, c] = as.scalar(V[n, c]) + 1 } }
Y = V""")


@pytest.mark.parametrize(("case", "count"), [(BRANCHING, 6), (BRANCHING, 16), (VOTES, 16)], ids=str)
def test_trips_with_branches_are_not_written_out_one_by_one(case: ExportCase, count: int) -> None:
    known, opened, data = known_and_open(case, count)
    assert node_count(known.graph) <= node_count(opened.graph)
    assert_close(run_model(known, {"X": data})["Y"], run_model(opened, {"X": data})["Y"].astype(np.float64), 1e-5, str(case))


def test_many_trips_that_depend_on_each_other_are_a_loop_with_a_known_batch_too() -> None:
    known, opened, data = known_and_open(DEPENDENT[1], 64)
    assert node_count(known.graph) <= node_count(opened.graph) <= 10
    assert bodies(known) == [["Reshape", "Gather", "Add", "Tanh", "Identity", "Identity"]]
    assert_close(run_model(known, {"X": data})["Y"], run_model(opened, {"X": data})["Y"].astype(np.float64), 1e-5, "64 trips")


def test_few_trips_that_depend_on_each_other_are_unrolled() -> None:
    known, _, _ = known_and_open(DEPENDENT[1], 4)
    assert "Loop" not in operators(known)


def test_numbers_that_a_long_loop_calculates_stay_known() -> None:
    body = ("k = 0\nY = matrix(0, 1, 6)\nfor (n in 1:20) { k = k + 2\nY = tanh(Y + X[1,] * k - min(Y)) }\n"
            "Y = matrix(Y, rows=k/20, cols=6*20/k)")
    known, _, data = known_and_open(rows("known", body), 2)
    assert run_model(known, {"X": data})["Y"].shape == (2, 3)


def test_what_is_the_same_in_all_trips_stands_outside_of_the_loop() -> None:
    weights = {**X, "W": RNG.normal(size=(6, 6))}
    body = "s = matrix(0, 1, 6)\nfor (n in 1:nrow(X)) { s = tanh(s %*% (W - 1) + sum(exp(X))) }\nY = s"
    case = replace(rows("hoisted", body, weights), bound=())
    assert bodies(model_of(case, "float32")) == [["Gemm", "Tanh", "Identity"]]


@pytest.mark.parametrize(("size", "is_loop"), [(4, False), (80, True)])
def test_large_items_that_each_row_chooses_are_not_held_for_all_rows(size: int, is_loop: bool) -> None:
    body = (f"L = list(V, V * 2, V / 2)\nY = matrix(0, nrow(X), {size})\nfor (i in 1:nrow(X)) {{\n  k = as.scalar(rowIndexMax(X[i, 1:3]))\n"
            "  Y[i, ] = X[i, ] %*% as.matrix(L[k])\n}")
    rng = np.random.default_rng(1)
    given = {"X": rng.normal(size=(5, size)), "V": rng.normal(size=(size, size))}
    case = ExportCase("items", body, given, bound=["V"], symbols={"X": ["N", size]}, sizes=[{"X": given["X"][:2]}])
    check_export(case)
    assert ("Loop" in operators(model_of(case, "float32"))) == is_loop
