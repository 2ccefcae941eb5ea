"""The core of the exporter: operators, functions, control flow and indexing, against the engine."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_systemds.engine.errors import ScriptRuntimeError
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export, engine, model_of, run_engine, run_model

RNG = np.random.default_rng(7)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


X = {"X": numbers(5, 4)}
N4 = {"X": ["N", 4]}
SIZES = [{"X": numbers(3, 4)}]


SEARCHED = """fit = function(matrix[double] X, matrix[double] y, int icpt, double reg, double tol, int maxi)
  return (matrix[double] B) { B = t(X) %*% y * reg }
loss = function(matrix[double] X, matrix[double] y, matrix[double] B)
  return (matrix[double] loss) { loss = as.matrix(sum((y - X %*% B)^2)) }"""


def row(name: str, body: str, inputs=X, symbols=N4, sizes=SIZES, **more) -> ExportCase:
    return ExportCase(name, body, inputs, symbols=symbols, sizes=sizes, **more)


OPERATORS = [
    row("arithmetic", "Y = (X + 2) * X - X / 3 + X ^ 2 - -X"),
    row("row vector", "Y = X - colMeans(X) + 1"),
    row("column vector", "Y = X / rowSums(abs(X))"),
    row("scalar on the left", "Y = 2 - X / (1 + abs(X))"),
    row("comparison", "Y = (X > 0) + (X <= 0.5) * 2 + (X == X) + (X != 0)"),
    row("logic", "Y = ((X > 0) & (X < 1)) + !(X > 0) + (X | (X > 0)) + xor(X > 0, X > 1)"),
    row("modulus", "Y = (X * 7) %% 3 + (X * 7) %/% 3 + (X * 7) %% -2.5"),
    row("quotients without a sign", "Y = 1 / (X %/% 9) + 1 / (X %/% -9)"),
    row("rounding", "Y = round(X * 2) + floor(X) + ceil(X) + sign(X)"),
    row("numbers that a sum does not lose in doubles", "Y = ((10000000 + exp(X)) == 10000000) + ((exp(X - 20) + 1) != 1)"),
    row("a condition that its known part decides", "k = 2\nif (sum(X) > 0 & k == 1) { Y = X[, 9] } else { Y = X }\n"
        "if (k == 2 | sum(X) > 0) { Y = Y + 1 } else { Y = t(Y) }", operators=["Add"]),
    ExportCase("rounding where 0.5 more is another number", "Y = round(X)\nZ = 1 / round(X[, 4:5])",
               {"X": np.array([[8388609.0, -8388611, 0.4999999701976776, -0.5, -0.3, 2.5, 4194304.5]])}, ("Y", "Z"),
               tolerance={"float64": 0.0, "float32": 0.0}),
    row("mathematics", "Y = exp(X) + log(abs(X)) + sqrt(abs(X)) + sin(X) + tanh(X) + log(abs(X), 10)",
        dtypes=["float64", "float32"]),
    row("extremes", "Y = max(X, 0) + min(X, colMeans(X)) + max(X) - min(X)"),
    row("choice", "Y = ifelse(X > 0, X, -1) + ifelse(max(X) > 0, X, 0)"),
    row("an integer beside a double", "n = ifelse(nrow(X) > 0, 7, 2.5)\nY = X + ifelse(n %% 0 == 0, 1, 2) + ifelse(\"v\" + n == \"v7.0\", 10, 20)"),
    row("choice by another view", "N = matrix(seq(1, length(X)), nrow(X), ncol(X))\n"
        "Y = ifelse(N > 3, X, seq(nrow(X), 1) %*% X[1, ])"),
    row("sizes", "Y = X * nrow(X) + ncol(X) + length(X) / nrow(X)"),
    row("softmax", "E = exp(X - rowMaxs(X))\nY = E / rowSums(E)", operators=["Softmax"]),
    row("logistic", "Y = 1 / (1 + exp(-X))", operators=["Sigmoid"]),
    row("logistic of powers", "E = exp(X)\nY = E / (1 + E)", operators=["Sigmoid"]),
    row("logistic of a negative number", "Y = 1 / (exp(X) + 1)", operators=["Neg", "Sigmoid"]),
    row("hyperbolic functions", "Y = sinh(X) + sinh(X / 1e5) * 1e5 + cosh(X) + tan(X / 3) + sinh(X * 20) / exp(abs(X) * 20)"),
    row("arcs", "Y = atan(X * 5) + atan(X / 5) + asin(X / 9) + acos(X / 9) + atan(X / X[1, 1] * Inf)"),
    row("index of maximum", "Y = rowIndexMax(round(X)) + 10 * rowIndexMin(round(X))"),
    row("aggregates", "Y = rowSums(X) + rowMeans(X) + rowMaxs(X) + rowMins(X) + sum(X) + mean(X) + max(X)"),
    row("aggregates of columns", "Y = colSums(X) + colMeans(X) + colMaxs(X) + colMins(X) + colVars(X) + colSds(X)"),
    row("variances", "Y = rowVars(X) + rowSds(X) + var(X) + sd(X)"),
    row("cumulated", "Y = cumsum(X) + rowcumsum(X)"),
    row("joined", "Y = rbind(cbind(X, X * 2), cbind(X, matrix(1, nrow(X), 4)))"),
    row("reshaped", "Y = matrix(X, rows=2, cols=length(X)/2)"),
    row("by columns", "Y = matrix(X, rows=4, cols=nrow(X), byrow=FALSE)"),
    row("sequence", "Y = seq(1, nrow(X)) * 2 + X[,1]"),
    row("names that the engine passes over", "Y = cbind(table(seq(1, 3), seq(1, 3), cols=5, rows=3), ifelse(X[1:5, 1] > 0, no=X[1:5, 2], yes=3),"
        " seq(1, incr=9, to=2), table(seq(1, 3), seq(1, 3), odim1=5, odim2=2))\nY = Y * moment(X[, 1], k=2)", sizes=()),
    row("a matrix with names", "Y = matrix(data=X, cols=2, rows=2 * nrow(X))"),
    row("diagonal", "Y = diag(X[,1]) %*% X"),
    row("the diagonal of a column or a square matrix", "Y = diag(X) * 2", {"X": numbers(4, 1)}, {"X": ["N", "M"]},
        [{"X": numbers(3, 3)}, {"X": numbers(1, 1)}]),
    row("reversed", "Y = rev(X) + X"),
    row("outer", 'Y = outer(X[,1], t(X[,2]), "+")'),
    row("outer by operators that have names", 'a = X[,1]\nb = t(X[,2] * (X[,3] > 0))\nY = outer(a, b, "plus") * outer(a, b, "LESS") + outer(a, b, "Max")'
        ' + outer(a, b, "xor") * 3 + outer(a, b, "&&") * 5 + outer(a, b, "OR") * 7 + outer(a, b, "NotEqual")'),
    row("replaced", 'Z = replace(target=X * (X > 0), pattern=0, replacement="Infinity")\nY = replace(target=Z, pattern=" Infinity ", replacement="7")'),
    row("product", "Y = t(X) %*% X"),
    row("large matrices full of numbers", "A = matrix(1, 300, 300) + matrix(2, 300, 300)\nY = X[, 1:2] * sum(A %*% rowMaxs(A / 3))"),
    row("matrices full of numbers for each row", "A = matrix(3, nrow(X), 4) - matrix(2, nrow(X), 4)\nY = cbind(A, A > matrix(0, nrow(X), 4))"),
    row("aggregates of no columns", "Z = matrix(0, 100, 0)\nm = mean(Z)\ns = sd(Z)\nY = rbind(as.matrix(min(Z) == Inf), "
        "as.matrix(max(Z) == -Inf), as.matrix(sum(Z) == 0), as.matrix(m != m), as.matrix(s != s)) * X[1, 1]", sizes=()),
    row("trace of infinite elements", "Z = t(X) %*% X\nZ[1, 2] = 1 / 0\nY = X * trace(Z)"),
]

INDEXING = [
    row("known range", "Y = X[2:3, 2:4]"),
    row("computed end", "n = nrow(X)\nY = X[2:n, ] - X[1:(n-1), ]", operators=["Slice", "Slice", "Sub"]),
    row("the last rows", "n = nrow(X)\nY = X[(n-1):n, ] - X[n, ]", operators=["Slice", "Slice", "Sub"]),
    row("one cell", "Y = X * as.scalar(X[nrow(X), 2])"),
    row("left range", "Y = X\nY[2:3, 2:3] = matrix(7, 2, 2)\nY[1, ] = X[2, ]"),
    row("left column", "Y = X\nY[, 2] = X[, 1] * 2\nY[nrow(X), 4] = 3"),
    row("index from data", "i = as.integer(as.scalar(rowIndexMax(X[1, ])))\nY = X[, i] + X[1, 1]"),
]

CONTROL = [
    row("known if", "if (ncol(X) == 4) { Y = X + 1 } else { Y = X }"),
    row("unknown if", "if (sum(X) > 0) { Y = X + 1\n z = 2 } else { Y = X * 2\n z = 3 }\nY = Y * z"),
    row("a few operators in branches", "s = sum(X)\nif (s > 0) { Y = X / s } else { Y = X }", operators=["ReduceSum", "Greater", "Div", "Where"]),
    row("numbers in branches", "i = as.integer(sum(X))\nk = 3\nb = TRUE\nif (i > 2) { k = 7 %/% i\nb = i < 5 }\nY = X * k\nif (b & i > 0) { Y = Y + 1 }"),
    row("a number that counts", "n = 0\nfor (i in 1:3) { if (as.scalar(X[i, 2]) > 0) { n = max(n + i, 2) } else { n = 0 } }\nY = X * n", sizes=[],
        operators=["Slice", "Reshape", "Greater", "Where", *["Slice", "Reshape", "Greater", "Add", "Max", "Where"] * 2, "Cast", "Mul"]),
    row("if with other sizes", "Y = X\nif (sum(X) > 0) { Y = X[1:2, ] }"),
    row("numbers that are printed as", 'o = sum(X) - sum(X)\nn = o / o\nY = X\nif (n == "NaN") { Y = Y + 1 }\nif (n != "NaN" | "NaN" == o) { Y = Y * 3 }\n'
        'if ((1 - o) / o == "Infinity") { Y = Y + 2 }\nif ("-Infinity" != (1 - o) / o) { Y = -Y }\nif ("" + (TRUE + TRUE) == "2.0") { Y = Y + 5 }'),
    row("nested if", "Y = X\nif (sum(X) > 0) { if (max(X) > 1) { Y = X * 2 } } else { Y = -X }"),
    row("unrolled", "Y = X\nfor (i in 1:3) { Y[, i] = Y[, i] * i }"),
    row("a row that is added up with what may be several", "Y = matrix(0, 1, ncol(X))\nfor (i in 1:ncol(P)) { Y = Y + (X > as.scalar(P[1, i])) }",
        {"X": X["X"][:1], "P": numbers(1, 3)}, {"X": ["N", "D"], "P": [1, "M"]}, [{"P": numbers(1, 1)}]),
    row("loop over rows", "Y = matrix(0, nrow(X), 4)\nfor (i in 1:nrow(X)) { Y[i, ] = X[i, ] * i }"),
    row("accumulating loop", "s = 0\nfor (i in 1:nrow(X)) { s = s + sum(X[i, ]) * i }\nY = X * s"),
    row("growing loop", "Y = X[1, ]\nfor (i in 2:nrow(X)) { Y = rbind(Y, X[i, ] + i) }"),
    row("parfor", "Y = matrix(0, nrow(X), 1)\nparfor (i in 1:nrow(X)) { Y[i, 1] = max(X[i, ]) }"),
    row("truths that a condition chooses", "c = sum(X) > 2\nd = ifelse(c, nrow(X) > 4, min(X) > 0)\nY = X * as.integer(ifelse(d, c, TRUE))\n"
        "for (i in 1:nrow(X)) {\n v = as.scalar(X[i, 1])\n b = v > 0\n if (v > 1) { b = as.scalar(X[i, 2]) > 0 }\n"
        " if (b) { Y[i, 1] = v } else { Y[i, 1] = -1 } }"),
    row("while", "s = sum(abs(X))\nk = 0\nwhile (s > 0.01) { s = s / 2\n k = k + 1 }\nY = X * s + k"),
    row("counted while", "k = 0\nY = X\nwhile (k < 3) { Y = Y * 2\n k = k + 1 }"),
    row("while with a flag", "go = TRUE\nk = 0\nY = X\nwhile (go & k < 50) { Y = Y / 2\n k = k + 1\n go = sum(abs(Y)) > 1 }"),
    row("downwards", "Y = matrix(0, nrow(X), 1)\nk = 0\nfor (i in nrow(X):1) { k = k + 1\n Y[i, 1] = k + i }"),
    row("up or down", "Y = X[1, ]\nfor (i in 4:nrow(X)) { Y = Y * 10 + i }\nY = Y + i"),
    row("up or down from a number", "k = as.scalar(rowIndexMax(X[1, ])) + 0.5\nY = X\nfor (i in 3:k) { Y = Y * 10 + i }"),
    row("explicit steps that may be none", "Y = X\ni = 7\nfor (i in seq(1, nrow(X) - 3, 1)) { Y = Y * 10 + i }\nY = Y + i"),
    row("inner loop that goes down at last", "Y = X\nfor (i in 1:nrow(X)) { for (j in (i + 1):nrow(X)) { Y = Y + i * j } }"),
    row("parfor downwards", "Y = matrix(0, nrow(X), 1)\nparfor (i in nrow(X):1) { Y[i, 1] = i }"),
    row("a loop that sets its variable", "Y = X\nfor (i in 1:nrow(X)) { Y = Y + i\n i = i + 1 }\nY = Y * i"),
    row("sequence downwards", "Y = seq(nrow(X), 1) + X[, 1]"),
    row("sequence up or down", "Y = cbind(seq(3, nrow(X)), seq(3, nrow(X), 1))"),
    row("sequence from a computed number", "k = nrow(X) / 4\nY = rbind(seq(k, 3), seq(k, -2.5), seq(5, k), seq(k, 4, 0.3))"),
    row("sequences of decimals", "Y = rbind(seq(0, 0.3, 0.1), seq(0.1, 0.7, 0.2), seq(2.5, 2.8, 0.1), seq(1, 0, -0.1))\n"
        "Z = rbind(as.matrix(sum(seq(0, 1, 0.1) == 0.8)), as.matrix(nrow(seq(1, 1.2, 0.2))))", outputs=("Y", "Z")),
    row("sequences of computed steps", "s = as.scalar(rowIndexMax(X[1, ])) / 8\nn = as.scalar(rowIndexMax(X[1, ])) - 1\n"
        "Y = rbind(seq(0, 4, s), seq(4, -1, -s), seq(n, 9, n), seq(5, n / n, n / n))"),
    row("loops of computed steps", "k = as.scalar(rowIndexMax(X[1, ]))\nY = X\nfor (i in seq(1, 9, k)) { Y = Y * 2 + i }\n"
        "for (j in seq(9, 1, -k - 1)) { Y = Y + j }\nfor (l in seq(1, 3, nrow(X))) { Y[l, ] = Y[l, ] * j }\nY = Y + i"),
    row("nested loops", "Y = X\nfor (i in 1:nrow(X)) { for (j in 1:nrow(X)) { Y[i, ] = Y[i, ] + X[j, ] * j } }"),
]

FUNCTIONS = [
    row("defaults and names", "Y = f(X, 3, 1) + f(b=1, A=X, c=2)",
        functions="f = function(matrix[double] A, double b = 2, double c = 1) return (matrix[double] B) { B = A * b + c }"),
    row("defaults that are left out, with names of the caller", "k = 7\nY = f(A=X) + f(c=3, A=X) * f(k=2, A=X, b=0)",
        functions="f = function(matrix[double] A, double k = 2, double c = k * 2, double b = 1) return (matrix[double] B) {\n"
                  " if (sum(A) > 1e9) { A = A + 1 }\n B = A * k + c * b }"),
    row("several results", "[Y, s] = f(X)\nY = Y + s",
        functions="f = function(matrix[double] A) return (matrix[double] B, double s) { B = A * 2\n s = sum(A) }"),
    *(row(f"{text} of a computed zero", f"k = as.integer(sum(X) * 0)\nY = matrix({text}, 1, 1)")
      for text in ("0 / k", "k / k", "0 / (k * 2)", "(k + k) / k")),
    row("a loop that writes the same again and again",
        "Y = X <= 1\nfor (i in 1:3) {\n c = 0\n while (c < ncol(X)) {\n  Y[1:nrow(Y), 1] = seq(1, nrow(X)) != 1\n  c = c + 1\n }\n}"),
    row("known integers by zero", "Y = X + 5 %% 0"),
    *(row(f"{text} of computed integers", f"k = as.integer(sum(X) * 0)\nn = as.integer(sum(X > 0))\nY = matrix({text}, 1, 1)")
      for text in ("5 %% k", "k %% k", "(0 - 5) %% k", "n %% (n - 2)", "(0 - n) %% n", "n %% 3", "n %% k + 0.5",
                   *(f"{dividend} %% k" for dividend in ("abs(0 - n)", "(n %% -3)", "(n %/% -3)", "round(n)", "floor(n)", "ceil(7)",
                                                         "round(nrow(X))", "abs(nrow(X))", "sign(n)", "sign(3)", "min(n, 7)")))),
    row("a remainder by a size less one", "Y = X * (5 %% (nrow(X) - 1) + nrow(X) %% (nrow(X) - 1))", sizes=[{"X": numbers(1, 4)}]),
    row("computed integers", "Y = f(X, sum(abs(X)) + 0.5) + f(X, -sum(abs(X)) - 0.5) + f(X, nrow(X) / 2)",
        functions="f = function(matrix[double] A, int k) return (matrix[double] B) {\n B = A\n if (sum(A) > -1e9) { B = A * k } }"),
    row("a number that an integer result may be", "Y = X * f(X)",
        functions="f = function(matrix[double] A) return (integer r) {\n found = FALSE\n i = 1\n"
                  " while (i <= ncol(A) & !found) { if (as.scalar(A[1, i]) > -9) { r = as.scalar(A[1, i])\n found = TRUE }\n i = i + 1 }\n"
                  " if (!found) { r = -1 } }"),
    *(row(f"{name} as an integer", "Y = X * as.integer(as.scalar(K))", inputs={**X, "K": np.array([[k]])})
      for name, k in {"NaN": np.nan, "infinity": np.inf, "its opposite": -np.inf, "a large number": 1e30}.items()),
    row("stop with a computed message", 'if (sum(X) > 1e9) { stop("bad: " + min(X)) }\nY = X'),
    row("items of a list replaced", "L = list(X, 1, 2, 3)\nL[2:4] = list(5, 6, 7)\nY = X * as.scalar(L[2]) + as.scalar(L[4])"),
    row("items of a list that get other names",
        'L = list(a=X, b=2, c=3)\nL[1] = list(f=4)\nZ = X + 1\nL["f"] = Z\nL["c"] = 7\nY = as.matrix(L[1]) * as.scalar(L["b"]) + as.scalar(L["c"])'),
    row("strings joined", 's = "# sizes"\nfor (i in 1:2) { s = append(s, "size " + i) }\nY = rbind(cbind(s, "a"), "b")'),
    row("numbers in strings", 't = 0\nif ("x" + 0.0005 == "x5.0E-4") { t = t + 1 }\nif ("x" + 12345678.0 == "x1.2345678E7") { t = t + 2 }\n'
        'if ("x" + 0.001 + 9999999.0 == "x0.0019999999.0") { t = t + 4 }\nif ("x" + (-1.5e-10) + 1e7 == "x-1.5E-101.0E7") { t = t + 8 }\n'
        'if ("0.0005" == 0.0005) { t = t + 16 }\nY = X + t'),
    row("arguments by name and by place", "Y = f(2, b=X, 3)",
        functions="f = function(double a, matrix[double] b, double c) return (matrix[double] r) { r = a * b + c }"),
    row("one by a number", "Y = cbind((seq(1, 1) / sum(X)) %*% (seq(1, 1) > seq(1, 1)), X[1, ])"),
    row("recursion", "Y = X * f(5)",
        functions="f = function(int n) return (int r) { r = 1\n if (n > 1) { q = f(n - 1)\n r = n * q } }"),
    row("list", 'L = list(a=X, b=2)\nZ = X + 1\nL = append(L, list(c=Z))\nY = as.matrix(L["a"]) * as.scalar(L["b"]) + as.matrix(L[3])'),
    row("an item of a list that the run chooses", "L = list(X, X * 2, -X, X / 2)\nk = as.integer(as.scalar(rowIndexMax(X[1, ])))\n"
        "N = list(5, 0.5, -2, 7)\nT = list(TRUE, FALSE, TRUE, TRUE)\nY = as.matrix(L[k]) * as.double(as.scalar(N[k]))\nif (as.scalar(T[k])) { Y = Y + 1 }"),
    row("an item for each row", "L = list(matrix(1, 4, 1), matrix(\"1 2 3 4\", 4, 1), matrix(-1, 4, 1), matrix(0.5, 4, 1))\nY = matrix(0, nrow(X), 1)\n"
        "for (i in 1:nrow(X)) {\n k = as.scalar(rowIndexMax(X[i, ]))\n Y[i, ] = X[i, ] %*% as.matrix(L[k])\n}"),
    row("items of a loop that the run ends", "L = list(matrix(1, 4, 1), matrix(2, 4, 1), matrix(3, 4, 1))\ni = 1\nY = matrix(0, nrow(X), 1)\n"
        "while (i <= 3 & sum(Y) < 9) {\n Y = Y + abs(X) %*% as.matrix(L[i])\n i = i + 1\n}"),
    row("lists joined", "L = list(a=X)\nL = rbind(L, list(c=X + 1))\nL = cbind(L, list(d=X * 2))\n"
        'Y = as.matrix(L["a"]) - as.matrix(L["c"]) + as.matrix(L[3])'),
    row("eval", 'Y = eval("f", list(X))', functions="f = function(matrix[double] A) return (matrix[double] B) { B = A * 2 }"),
    row("evalList", 'L = evalList("normalize", X)\n[L, Z] = remove(L, 1)\nL = append(L, list(X=X * 2))\nY = eval("normalizeApply", L)'),
    row("assert of what cannot be exported", 'assert(toString(X) == "a" | nrow(X) > 0)\nY = X'),
    row("scaleApply", "Y = scaleApply(X, colMeans(X), colSds(X))"),
    row("lmPredict", "Y = lmPredict(X=X, B=B, icpt=1)", inputs={**X, "B": numbers(5, 1)}, bound=["B"]),
    row("dbscan", "[Y, M] = dbscan(X=X, eps=1.5, minPts=2)", sizes=[{"X": numbers(9, 4) / 2}]),
    row("powers that overflow in float32", 'Y = glmPredict(X=X * 200, B=matrix("1 1 1 1", 4, 1), dfam=2, link=2)'),
    row("infinite factors beside products", "Y = (X / 0) %*% t(X)\nZ = (X %*% t(X)) / 0\nV = (X %*% t(X)) * (1 / 0) + 1", outputs=["Y", "Z", "V"]),
    row("arguments", "Y = X * $k", arguments={"k": 3}),
    row("strings as booleans", 'Y = X\nif (as.logical("true")) { Y = Y + 1 }\nif (as.logical("True") | as.logical("1")) { Y = Y + 2 }\n'
        'if (as.logical("TRUE") & as.logical($b)) { Y = Y + 4 }', arguments={"b": "true"}),
    row("arguments as Java reads them", 'Y = X\nif ($a == "1_0") { Y = Y + 1 }\nif ($b == "x y") { Y = Y + 2 }\n'
        'if ($c == "inf") { Y = Y + 4 }\nif ($d + "" == "7.0") { Y = Y + 8 }\nif ($e * 2 == 5) { Y = Y + 16 }\nif ($t) { Y = Y + 32 }',
        arguments={"a": "1_0", "b": "'x y'", "c": "inf", "d": " 7", "e": "2.5f", "t": "TRUE"}),
]


@pytest.mark.parametrize("case", OPERATORS + INDEXING + CONTROL + FUNCTIONS, ids=str)
def test_exported_script_agrees_with_the_engine(case: ExportCase) -> None:
    check_export(case)


SELECTING = [
    row("rows that are selected", 'Z = removeEmpty(target=X, margin="rows", select=X[, 1] > -9)\nY = Z * nrow(Z)'),
    row("rows with content", 'Z = removeEmpty(target=X * (X[, 1] > 0), margin="rows")\nY = rbind(Z, Z)'),
    row("columns with content", 'Y = removeEmpty(target=X * (colSums(X) > 0), margin="cols")'),
    row("nothing left", 'Y = removeEmpty(target=X, margin="rows", select=X[, 1] > 99)'),
    row("sorted", "Y = order(target=X, by=2)"),
    row("sorted by rounded numbers", "Y = order(target=round(X), by=1, decreasing=TRUE) + order(target=X, by=3, index.return=TRUE)"),
    row("sorted, or the places", "Z = order(target=X, by=2, index.return=sum(X) > 0, decreasing=sum(X) > 0)\nY = rowSums(Z) + ncol(Z)",
        sizes=[{"X": np.abs(numbers(3, 4))}, {"X": -np.abs(numbers(4, 4))}]),
    row("contains", "Y = X\nif (contains(target=X, pattern=NaN)) { Y = X * 2 }"),
    row("columns by a table", 'Z = X\nZ[1, 2] = 0 / 0\nY = Z %*% table(matrix("3 1 2 4 3", rows=5, cols=1), seq(1, 5))', sizes=()),
    row("table", "Y = table(seq(1, nrow(X)), rowIndexMax(X), nrow(X), 4) %*% t(X)"),
    row("table of all elements", "Y = table(X, 1)", {"X": np.array([[2.0, 1], [2, 4]])}, {"X": ["N", "M"]},
        [{"X": np.array([[3.0], [1], [3]])}]),
    *(row(f"{text} of rows that count", f"M = rowIndexMax(X)\nr = t(M[1:3, ])\nY = {text}")
      for text in ("table(t(seq(1, 3)), t(seq(1, 3)))", "table(r, t(seq(1, 3)))", "table(t(seq(1, 3)), r, r)", "table(t(seq(1, 3)), 2)",
                   "X[1:2, 1:3] %*% table(t(seq(1, 3)), r, 3, 4)", "table(matrix(\"1 2 3 4\", 2, 2), matrix(sum(r), 2, 2))")),
    row("table of counts", "Y = table(rowIndexMax(X), rowIndexMin(X), 4, 4)"),
]


@pytest.mark.parametrize("case", SELECTING, ids=str)
def test_selected_rows_agree_with_the_engine(case: ExportCase) -> None:
    check_export(case)


BRANCHES = {
    "both": 'if (sum(X) > 0) { Y = X + 1\nwrite(Y, "./Y") } else { Y = X[1:2,]\nwrite(Y, "./Y") }',
    "nested": 'if (sum(X) > 0) { if (as.scalar(X[1, 1]) > 0) { Y = X\nwrite(Y, "./Y") } else { Y = X * 3\nwrite(Y, "./Y") } }\n'
              'else { Y = -X\nwrite(Y, "./Y") }',
}


@pytest.mark.parametrize("body", BRANCHES.values(), ids=BRANCHES)
def test_what_branches_write_is_one_output(body: str) -> None:
    """JMLC, by which the engine runs here, sees outputs in no branch."""
    text, write = f'X = read("./X")\n{body}\n', 'write(Y, "./Y")'
    model = export_script(text)
    prepared = engine().prepare(text.replace(write, "") + write + "\n", ["X"], ["Y"])
    for x in (np.abs(numbers(3, 2)), -np.abs(numbers(3, 2)), np.array([[-1.0, 0], [2, 1], [5, 6]])):
        np.testing.assert_allclose(run_model(model, {"X": x})["Y"], prepared({"X": x})["Y"], rtol=1e-6)


ONLY_MESSAGES = {
    "otherwise": 'if (sum(X) == 0) { print("nothing in X") } else { Y = X / sum(X)\nwrite(Y, "Y") }',
    "then": 'if (sum(X) != 0) { Y = X / sum(X)\nwrite(Y, "Y") } else { print("nothing in X")\nstop("no result") }',
    "nested": 'if (sum(X) == 0) { stop("nothing in X") } else { if (nrow(X) > 0) { Y = X / sum(X) }\nwrite(Y, "Y") }',
}


@pytest.mark.parametrize("body", ONLY_MESSAGES.values(), ids=ONLY_MESSAGES)
def test_what_is_written_beside_messages_alone_is_written_in_every_run(body: str) -> None:
    notes: list[str] = []
    model = export_script(f'X = read("X")\n{body}\n', notes=notes)
    x = np.abs(numbers(3, 2))
    np.testing.assert_allclose(run_model(model, {"X": x})["Y"], x / x.sum(), rtol=1e-6)
    assert any("the other branch only says why there are none" in note for note in notes)


@pytest.mark.parametrize(
    ("body", "wanted", "expected"),
    {
        "by the run": ('n = nrow(X)\nname = "o/" + sum(X) + ".csv"\nwrite(X, name)\nwrite(n, "n_" + sum(X), format="csv")\nwrite(X, "Y")', None,
                       {"X_out": 4, "n": 2, "Y": 4}),
        "not wanted": ('name = "o/" + sum(X)\nwrite(X, name)\nwrite(X * 2, name)\nwrite(toString(X), "log")\nwrite(X, "Y")', ["Y"], {"Y": 4}),
        "wanted": ('Z = X * 3\nwrite(Z, "o/" + min(X))\nwrite(X, "Y")', ["Z"], {"Z": 12}),
        "a number": ("write(X, 7)\nA = read(7)\nwrite(A, $o)", None, {"7": 4, "0.5": 4}),
    }.values(),
)
def test_files_whose_names_only_the_run_knows_are_outputs_called_like_variables(
    body: str, wanted: list[str] | None, expected: dict[str, float]
) -> None:
    notes: list[str] = []
    model = export_script(f'X = read("X")\n{body}\n', outputs=wanted, arguments={"o": "0.5"}, notes=notes)
    assert {name: array.sum() for name, array in run_model(model, {"X": np.ones((2, 2))}).items()} == expected
    is_told = any("its output is called" in note for note in notes)
    assert is_told == any(name in expected for name in ("n", "Z"))


def test_short_loops_write_an_output_in_each_trip() -> None:
    model = export_script('X = read("X")\nfor (i in 1:3) { write(X * i, "Y" + i) }\n')
    found = run_model(model, {"X": np.ones((2, 2))})
    assert {name: array.sum() for name, array in found.items()} == {"Y1": 4, "Y2": 8, "Y3": 12}


def test_functions_that_one_of_systemds_is_given() -> None:
    """gridSearch calls both by their names. JMLC, by which the engine runs here, does not find them."""
    call = ('[B, best] = gridSearch(X=X, y=X[, 1], train="fit", predict="loss", numB=ncol(X), params=list("reg"), '
            'paramValues=list(matrix("0.1 0.5 0.3", 3, 1)), verbose=FALSE)')
    model = export_script(f'{SEARCHED}\nX = read("X")\n{call}\nwrite(B, "B")\n', inputs={"X": "double[5,3]"})
    x = numbers(5, 3)
    fits = [x.T @ x[:, :1] * reg for reg in (0.1, 0.5, 0.3)]
    best = min(fits, key=lambda fit: np.sum((x[:, :1] - x @ fit) ** 2))
    np.testing.assert_allclose(run_model(model, {"X": x})["B"], best, rtol=1e-4)


def test_a_file_that_the_script_has_written_is_no_input() -> None:
    text = 'X = read("X")\nwrite(X * 2, "kept.csv", format="csv", sep=";")\nA = read("kept.csv", sep=";")\nY = A + 1\nwrite(Y, "Y")\n'
    found = run_model(export_script(text), {"X": np.ones((2, 2))})
    assert {name: array.sum() for name, array in found.items()} == {"kept": 8, "Y": 12}


@pytest.mark.parametrize(
    "body, expected",
    {
        "again": ('write(X, "k")\nA = read("k")\nB = A * 2\nwrite(B, "k")\nC = read("k")\nwrite(C, "l")', {"k": 2, "l": 2}),
        "in a loop": ('for (i in 1:3) { A = X * i\nwrite(A, "k.csv", format="csv") }\nwrite(X, "l")', {"k": 3, "l": 1}),
        "a list": ('L = list(a=X, b=X)\nwrite(L, "k")\nA = X * 2\nL["b"] = A\nwrite(L, "k")', {"k_a": 1, "k_b": 2}),
    }.values(),
)
def test_a_file_that_is_written_again_holds_what_it_got_last(body: str, expected: dict[str, float]) -> None:
    """As in the engine."""
    found = run_model(export_script(f'X = read("X")\n{body}\n', inputs={"X": "double[1,1]"}), {"X": np.ones((1, 1))})
    assert {name: array.item() for name, array in found.items()} == expected


def test_only_what_says_the_format_of_a_file_is_left_out_of_the_name_of_its_output() -> None:
    paths = ["o/category.means", "o/category.counts", "Y.1", "Y.2", "a.csv", "b.mtx", "c.binary", "dominant.eigen.values", ".x",
             "Z.Rows", "Z.Cols", "m/model.w", "m/model.b"]
    found = run_model(export_script('X = read("X")\n' + "".join(f'write(X, "{path}")\n' for path in paths)), {"X": np.ones((2, 2))})
    assert list(found) == ["category.means", "category.counts", "Y.1", "Y.2", "a", "b", "c", "dominant.eigen.values", ".x",
                           "Z.Rows", "Z.Cols", "model", "model.b"]


LOGGED = """X = read("X")
B = colMeans(X)
log = "means: " + as.scalar(B[1, 1])
L = list(means=B, sums=colSums(X))
write(log, "o/log.txt")
write(B * 2, "o/twice.csv")
if (sum(X) > 0) { write(toString(X), "kept") }
A = read("o/twice.csv")
for (i in 1:nrow(X)) { write(X[i, ], "row") }
write(L, "model")
write(A + B, "Y")
"""


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(["Y"], {"Y": 6}), (["model", "Y"], {"model_means": 2, "model_sums": 4, "Y": 6}), (["model_sums"], {"model_sums": 4})],
)
def test_only_wanted_results_of_a_script_are_exported(wanted: list[str], expected: dict[str, float]) -> None:
    x = np.ones((2, 2))
    found = run_model(export_script(LOGGED, outputs=wanted), {"X": x})
    assert {name: array.sum() for name, array in found.items()} == expected


def test_results_that_are_wanted_and_not_written_are_named_with_those_that_are() -> None:
    with pytest.raises(TranspileError, match='the script writes no result "Z"') as error:
        export_script(LOGGED, outputs=["Y", "Z"])
    assert "its results: Y, log, twice, kept, row, model" in str(error.value)


@pytest.mark.parametrize("how", [
    'format="hdf5", dataset="D"', 'format="csv", fill=TRUE, default=-1, naStrings=["NA", "?"]', "rows_in_block=9, cols_in_block=9",
])
def test_how_a_file_is_divided_is_no_matter_of_a_model(how: str) -> None:
    text = f'X = read("X", {how})\nwrite(X, "Y", format="binary", rows_in_block=2, cols_in_block=3)\n'
    assert run_model(export_script(text), {"X": np.ones((2, 2))})["Y"].sum() == 4


def test_a_number_that_is_chosen_fills_the_matrix_in_whose_place_it_stands() -> None:
    text = 'X = read("X")\nY = ifelse(ncol(X) == 2, 5, X)\nY = Y + nrow(Y) + rowSums(ifelse(ncol(X) == 2, X, 9))\nwrite(Y, "Y")\n'
    np.testing.assert_array_equal(run_model(export_script(text, inputs={"X": "double[N,2]"}), {"X": np.ones((3, 2))})["Y"], np.full((3, 2), 10))


@pytest.mark.parametrize(("read", "reason"), [
    ('read("k", naStrings=["9"])', "naStrings says what is missing in"),
    ('as.matrix(read("F", data_type="frame", naStrings=["9"], schema="double"))', "texts that are missing in"),
    ('as.matrix(read("F", data_type="frame", naStrings=list("9", X)))', "which texts are missing must be known"),
])
def test_missing_cells_are_not_looked_for_in_what_holds_no_texts(read: str, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        export_script(f'X = read("X")\nwrite(X, "k", format="csv")\nA = {read}\nwrite(A, "Y")\n')


@pytest.mark.parametrize(("items", "reason"), [
    ("X, X[, 1]", "the items of L have different sizes, and only the run knows which is meant"),
    ('X, "a"', "an item of L is a matrix on one path and a string on another"),
])
def test_items_of_which_the_run_chooses_one_are_of_one_form(items: str, reason: str) -> None:
    text = f'X = read("X")\nL = list({items})\nk = as.integer(sum(X))\nY = as.matrix(L[k])\nwrite(Y, "Y")\n'
    with pytest.raises(TranspileError, match=reason):
        export_script(text, inputs={"X": "double[2,2]"})


def test_a_list_that_is_written_is_an_output_for_each_item() -> None:
    text = 'X = read("X")\nL = list(a=X, b=2, c=list(X + 1, 3))\nif (sum(X) > 0) { L["b"] = 5 }\nwrite(L, "found")\n'
    found = run_model(export_script(text), {"X": np.ones((2, 2))})
    assert {name: array.sum() for name, array in found.items()} == {"found_a": 4, "found_b": 5, "found_c_1": 8, "found_c_2": 3}


@pytest.mark.parametrize("body", [
    "Y = X[i, ]", "Y = X[, i + 1] + as.scalar(X[i, i])", "Y = X\nY[i, ] = X[2, ] * 2", "Y = X\nY[, i] = X[, 2] * 2", "Y = X\nY[i, 2] = 7",
    "Y = X[, 1]\nfor (j in 1:4) { p = i + 0 * as.scalar(X[j, 2])\n Y[j, 1] = as.scalar(X[p, 1]) }",
    "Y = X\nfor (j in 1:4) { if (as.scalar(X[j, 1]) < 9) { Y[j, ] = X[i, ] + X[j, ] } }",
    "Y = X\nwhile (sum(Y) < 500) { Y[i, ] = Y[i, ] + 7 }",
    "Y = X[i:(i + 1), ]", "Y = X\nY[i:(i + 1), ] = X[3:4, ] * 2", "Y = X\nY[2:3, (i - 1):i] = X[1:2, 1:2]",
    "Y = matrix(0, 2, 4)\nfor (j in 1:2) { Y[j, ] = X[i, ] + colSums(X[(j + i - 1):(j + i), ]) }",
    "Y = X\nfor (j in 1:2) { Y[j + i, ] = X[j, ] }\nY[i, ] = X[1, ]", "Y = X[1, ]\nfor (j in 1:3) { Y = (Y + X[j + i - 2, ]) ^ 2 + X[i, ] }",
])
def test_a_computed_place_outside_of_a_matrix_stops_the_model_as_it_stops_the_engine(body: str) -> None:
    case = ExportCase("place", f"i = as.integer(as.scalar(k))\n{body}", {"X": np.arange(16.0).reshape(4, 4), "k": np.full((1, 1), 2.0)})
    check_export(case)
    model = model_of(case, "float32")
    for place in (0, -1, 5):
        outside = {**case.inputs, "k": np.full((1, 1), float(place))}
        with pytest.raises(ScriptRuntimeError):
            run_engine(case, outside)
        with pytest.raises(Exception, match="out of data bounds|out of bounds"):
            run_model(model, outside)


def test_a_computed_range_ends_no_place_before_it_begins() -> None:
    case = ExportCase("range", "i = as.integer(as.scalar(k))\nY = X[2:i, ]", {"X": np.arange(16.0).reshape(4, 4), "k": np.full((1, 1), 3.0)})
    model = model_of(case, "float32")
    assert run_model(model, case.inputs)["Y"].tolist() == case.inputs["X"][1:3].tolist()
    assert run_model(model, {**case.inputs, "k": np.full((1, 1), -1.0)})["Y"].shape == (0, 4)


@pytest.mark.parametrize("body", [
    "Y[1:i, ] = X[1:2, ] * 2", "Y[1:3, ] = removeEmpty(target=X, margin=\"rows\", select=X[, 1] < 4 * i)",
    "Y[2, ] = removeEmpty(target=X, margin=\"rows\", select=X[, 1] < 4 * i)",
])
def test_a_part_of_another_size_than_its_range_stops_the_model(body: str) -> None:
    case = ExportCase("part", f"i = as.integer(as.scalar(k))\nY = X\n{body}", {"X": np.arange(16.0).reshape(4, 4), "k": np.full((1, 1), 2.0)})
    model = model_of(case, "float32")
    fits = next(size for size in (1, 2, 3) if _rows_written(model, {**case.inputs, "k": np.full((1, 1), float(size))}))
    for size in {1, 2, 3, 4} - {fits}:
        assert not _rows_written(model, {**case.inputs, "k": np.full((1, 1), float(size))})


def _rows_written(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> bool:
    try:
        return run_model(model, inputs)["Y"].shape == (4, 4)
    except Exception as error:
        assert "invalid expand shape" in str(error) or "dimensions differ" in str(error), error
        return False


CHECKED = {
    "if (ncol(X) != 4) { stop(\"columns\") }": [["X_rows", "4"], ["B_rows", "B_cols"]],
    "n = nrow(X) if (3 != ncol(X) | nrow(B) != n) stop(\"sizes\")": [["X_rows", "3"], ["X_rows", "B_cols"]],
    "if ((nrow(B) != 1) | (ncol(B) != ncol(X))) { if (nrow(B) != 1) { stop(\"a\") } if (ncol(B) != ncol(X)) { stop(\"b\") } }":
        [["X_rows", "X_cols"], ["1", "X_cols"]],
    "if (ncol(X) != 4 & ncol(B) != 4) { stop(\"one of them\") }": [["X_rows", "X_cols"], ["B_rows", "B_cols"]],
    "if (ncol(X) != 4 | ncol(B) != 4) { if (ncol(B) != 4) { stop(\"B\") } }": [["X_rows", "X_cols"], ["B_rows", "4"]],
    "if (ncol(X) != 4 | ncol(B) != 4) { X = t(X) if (ncol(X) != 4) { stop(\"X\") } }": [["X_rows", "X_cols"], ["B_rows", "B_cols"]],
    "X = t(X) if (ncol(X) != 4) { stop(\"rows\") }": [["X_rows", "X_cols"], ["B_rows", "B_cols"]],
    "n = ncol(X) n = n + 1 if (ncol(B) != n) { stop(\"one more\") }": [["X_rows", "X_cols"], ["B_rows", "B_cols"]],
}


@pytest.mark.parametrize("check", CHECKED)
def test_inputs_have_the_sizes_that_a_function_checks(check: str) -> None:
    text = "f = function(matrix[double] X, matrix[double] B) return (double y) {\n" + check + "\ny = sum(X) + sum(B) }"
    inputs = export_script(text, "f").graph.input
    assert [[dim.dim_param or str(dim.dim_value) for dim in given.type.tensor_type.shape.dim] for given in inputs] == CHECKED[check]


def test_given_dims_say_what_a_checked_size_is_called() -> None:
    text = "f = function(matrix[double] X, matrix[double] B) return (double y) {\nif (ncol(X) != nrow(B)) stop(\"x\")\ny = sum(X %*% B) }"
    model = export_script(text, "f", inputs={"B": "double[K,3]"})
    assert [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["X_rows", "K"]
    model = export_script(text, "f", bindings={"B": np.ones((5, 2))})
    assert model.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 5
