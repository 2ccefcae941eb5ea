"""Reductions, searches, sorting, sums down an axis."""

from __future__ import annotations

import numpy as np

from benchmarks.operator_cases.bench import FLAT, IMAGE, ROWS, Bench, indices, integers, normal


def reductions() -> list[Bench]:
    """Reductions, searches, sorting, sums down an axis."""
    image = {"X": IMAGE}
    table12k = {"X": normal(12288, 128)}
    small = normal(1024, 1000)
    return [
        Bench("reduction", "ReduceMean", "last axes", {**image, "axes": integers(2, 3)}, {},
              f"Y = matrix(rowMeans({FLAT}), rows=8, cols=64)", lambda X, axes: X.mean((2, 3), keepdims=True),
              ["axes"]),
        Bench("reduction", "ReduceSum", "first axis", {"X": ROWS, "axes": integers(0)}, {}, "Y = colSums(X)",
              lambda X, axes: X.sum(0, keepdims=True), ["axes"]),
        Bench("reduction", "ReduceSum", "middle axis", {**image, "axes": integers(1)}, {},
              f"Y = table(((seq(1, 512) - 1) %/% 64) + 1, seq(1, 512)) %*% {FLAT}",
              lambda X, axes: X.sum(1, keepdims=True), ["axes"]),
        Bench("reduction", "ReduceMax", "middle axis", {**image, "axes": integers(1)}, {}, """Y = matrix(0, 8, 3136)
            for (n in seq(1, 8, 1)) {
              k = n
              Y[k, ] = colMaxs(matrix(X[k, ], rows=64, cols=3136))
            }""", lambda X, axes: X.max(1, keepdims=True), ["axes"]),
        Bench("reduction", "ReduceMin", "middle axis, short", {"X": normal(512, 4, 512), "axes": integers(1)}, {},
              "Y = min(min(X[, 1:512], X[, 513:1024]), min(X[, 1025:1536], X[, 1537:2048]))",
              lambda X, axes: X.min(1, keepdims=True), ["axes"]),
        Bench("reduction", "ReduceSum", "first and last axis", {"X": ROWS, "axes": integers(0, 2)}, {},
              "Y = t(rowSums(matrix(colSums(X), rows=128, cols=256)))",
              lambda X, axes: X.sum((0, 2), keepdims=True), ["axes"]),
        Bench("reduction", "ReduceL2", "last axis", {"X": ROWS, "axes": integers(2)}, {},
              "Y = sqrt(rowSums(matrix(X, rows=8192, cols=256) ^ 2))",
              lambda X, axes: np.sqrt((X * X).sum(2, keepdims=True)), ["axes"]),
        Bench("reduction", "ReduceLogSumExp", "last axis", {"X": ROWS, "axes": integers(2)}, {},
              """Z = matrix(X, rows=8192, cols=256)
            M = rowMaxs(Z)
            Y = log(rowSums(exp(Z - M))) + M""",
              lambda X, axes: np.log(np.exp(X - X.max(2, keepdims=True)).sum(2, keepdims=True))
              + X.max(2, keepdims=True), ["axes"]),
        Bench("search", "ArgMax", "last axis", table12k, {"axis": 1},
              "Y = 128 - rowMaxs((X == rowMaxs(X)) * t(seq(128, 1, -1)))",
              lambda X: X.argmax(1).reshape(-1, 1)),
        Bench("search", "ArgMax", "middle axis", {"X": normal(8, 19, 128, 128)}, {"axis": 1}, """Y = matrix(0, 8, 16384)
            S = seq(19, 1, -1) %*% matrix(1, rows=1, cols=16384)
            for (n in seq(1, 8, 1)) {
              k = n
              Z = matrix(X[k, ], rows=19, cols=16384)
              Y[k, ] = 19 - colMaxs((Z == colMaxs(Z)) * S)
            }""", lambda X: X.argmax(1).reshape(8, -1)),
        Bench("search", "TopK", "5 of 1000", {"X": small, "k": integers(5)}, {}, """Y = matrix(0, 1024, 5)
            Z = matrix(0, 1024, 5)
            K = X
            s = t(seq(1000, 1, -1))
            for (i in seq(1, 5, 1)) {
              j = i
              m = rowMaxs(K)
              p = rowMaxs((K == m) * s)
              Y[, j] = m
              Z[, j] = 1000 - p
              K = ifelse(outer(p, s, "=="), -Inf, K)
            }""", lambda X, k: [-np.sort(-X, 1)[:, :5], np.argsort(-X, 1)[:, :5]], ["k"], outputs=["Y", "Z"]),
        Bench("search", "TopK", "full sort", {"X": normal(256, 1000), "k": integers(1000)}, {},
              """r = ((seq(1, 256000) - 1) %/% 1000)
            S = order(target=cbind(r, matrix(-X, rows=256000, cols=1), seq(0, 255999)), by=matrix("1 2 3", 1, 3))
            Y = matrix(-S[, 2], rows=256, cols=1000)
            Z = matrix(S[, 3] - r * 1000, rows=256, cols=1000)""",
              lambda X, k: [-np.sort(-X, 1), np.argsort(-X, 1, kind="stable")], ["k"], outputs=["Y", "Z"]),
        Bench("selection", "Unique", "sorted", {"X": indices(100_000, 5000)}, {}, "Y = order(target=unique(X), by=1)",
              lambda X: np.unique(X)),
        Bench("selection", "NonZero", "rank 2", {"X": (IMAGE.reshape(512, -1)[:, :512] > 0)}, {},
              """v = matrix(X, rows=262144, cols=1)
            J = removeEmpty(target=seq(1, 262144) * v, margin="rows", empty.return=FALSE) - 1
            R = J %/% 512
            Y = t(cbind(R, J - R * 512))""", lambda X: np.array(np.nonzero(X))),
        Bench("selection", "Compress", "rows", {"X": normal(4096, 512), "K": normal(4096) > 0}, {"axis": 0},
              'Y = removeEmpty(target=X, margin="rows", select=K)', lambda X, K: X[K]),
        Bench("cumulative", "CumSum", "last axis", {"X": normal(4096, 512), "axis": np.int64(1)}, {}, "Y = rowcumsum(X)",
              lambda X, axis: X.cumsum(1), ["axis"]),
        Bench("cumulative", "CumSum", "first axis", {"X": normal(4096, 512), "axis": np.int64(0)}, {}, "Y = cumsum(X)",
              lambda X, axis: X.cumsum(0), ["axis"]),
        Bench("cumulative", "CumSum", "middle axis", {"X": ROWS, "axis": np.int64(1)}, {}, """Y = matrix(0, 64, 32768)
            for (n in seq(1, 64, 1)) {
              k = n
              Y[k, ] = matrix(cumsum(matrix(X[k, ], rows=128, cols=256)), rows=1, cols=32768)
            }""", lambda X, axis: X.cumsum(1), ["axis"]),
    ]
