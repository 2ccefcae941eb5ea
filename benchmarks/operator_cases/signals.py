"""Transforms, sampling, boxes and the rest."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.operator_cases.bench import Array, Bench, indices, integers, make_boxes, normal
from benchmarks.operator_cases.computations import bilinear, suppressed


def signals() -> list[Bench]:
    """Transforms, sampling, boxes and the rest."""
    n = 1024
    angles = np.outer(np.arange(n), np.arange(n)) % n * (2 * np.pi / n)
    full = np.stack([np.cos(angles), -np.sin(angles)], 2).reshape(n, 2 * n)
    half = full[:, : n + 2]
    window, frame = np.hanning(256).astype(np.float32), 256
    turn = np.outer(np.arange(frame), np.arange(129)) % frame * (2 * np.pi / frame)
    short = np.stack([np.cos(turn), -np.sin(turn)], 2).reshape(frame, -1) * window[:, None].astype(np.float64)
    signal = {"X": normal(64, n, 1)}

    def parts(F: Array) -> Array:
        return np.stack([F.real, F.imag], -1)

    def stft(S: Array, **_: Array) -> Array:
        cut = sliding_window_view(S[..., 0], 256, axis=1)[:, ::128] * window
        return parts(np.fft.rfft(cut))

    frames = 127
    grid = (np.random.default_rng(3).random((2, 40, 40, 2)) * 2 - 1).astype(np.float32)
    boxes = {"boxes": make_boxes(500), "scores": np.abs(normal(1, 1, 500)), "most": integers(100),
             "overlap": np.array([0.5], np.float32)}
    nms = """B = boxes
            B = matrix(B, rows=500, cols=4)
            O = order(target=cbind(t(matrix(scores, rows=1, cols=500)), seq(0, 499), B), by=1, decreasing=TRUE)
            P = O[, 3:6]
            A = (P[, 3] - P[, 1]) * (P[, 4] - P[, 2])
            H = outer(P[, 3], t(P[, 3]), "min") - outer(P[, 1], t(P[, 1]), "max")
            V = outer(P[, 4], t(P[, 4]), "min") - outer(P[, 2], t(P[, 2]), "max")
            I = max(H, 0) * max(V, 0)
            C = I > 0.5 * (outer(A, t(A), "+") - I)
            gone = matrix(0, 500, 1)
            kept = matrix(0, 500, 1)
            count = 0
            i = 1
            while (i <= 500 & count < 100) {
              if (as.scalar(gone[i, 1]) == 0) {
                kept[i, 1] = 1
                gone = max(gone, C[, i])
                count = count + 1
              }
              i = i + 1
            }
            K = removeEmpty(target=O[, 2], margin="rows", select=kept)
            Y = cbind(matrix(0, 100, 2), K)"""
    return [
        Bench("transform", "DFT", "real, 1024", signal, {"axis": 1}, "Y = X %*% F", lambda X: parts(np.fft.fft(X[..., 0])),
              opset=17, given={"F": full}),
        Bench("transform", "DFT", "onesided, 1024", signal, {"axis": 1, "onesided": 1}, "Y = X %*% F",
              lambda X: parts(np.fft.rfft(X[..., 0])), opset=17, given={"F": half}),
        Bench("transform", "DFT", "middle axis", {"X": normal(64, 64, 64, 1)}, {"axis": 1}, """Z = matrix(0, 64, 4096)
            for (n in seq(1, 64, 1)) {
              k = n
              Z[k, ] = matrix(t(matrix(X[k, ], rows=64, cols=64)), rows=1, cols=4096)
            }
            Z = matrix(Z, rows=4096, cols=64) %*% F
            S = seq(0, 262143)
            Z = matrix(Z, rows=64, cols=8192)
            Y = matrix(0, 64, 8192)
            for (n in seq(1, 64, 1)) {
              k = n
              A = matrix(Z[k, ], rows=4096, cols=2)
              B = matrix(t(matrix(A[, 1], rows=64, cols=64)), rows=4096, cols=1)
              D = matrix(t(matrix(A[, 2], rows=64, cols=64)), rows=4096, cols=1)
              Y[k, ] = matrix(cbind(B, D), rows=1, cols=8192)
            }""", lambda X: parts(np.fft.fft(X[..., 0], axis=1)), opset=17, given={"F": np.stack(
                [np.cos(np.outer(np.arange(64), np.arange(64)) * np.pi / 32),
                 -np.sin(np.outer(np.arange(64), np.arange(64)) * np.pi / 32)], 2).reshape(64, 128)}),
        Bench("transform", "STFT", "256 by 128", {"S": normal(4, 16384, 1), "t": np.int64(128), "w": window}, {},
              f"""A = matrix(S, rows=512, cols=128)
            H = A[2:512, ]
            P = cbind(A[1:511, ], H) %*% F
            P = rbind(P, matrix(0, 1, 258))
            P = matrix(P, rows=4, cols=33024)
            Y = P[, 1:{frames * 258}]""", stft, ["t", "w"], opset=17, given={"F": short}),
        Bench("sampling", "GridSample", "bilinear", {"X": normal(2, 32, 40, 40), "grid": grid}, {"mode": "linear"},
              """Y = matrix(0, 2, 51200)
            for (n in seq(1, 2, 1)) {
              k = n
              G = matrix(grid[k, ], rows=1600, cols=2)
              P = (G + 1) * 20 - 0.5
              F = floor(P)
              T = P - F
              x = F[, 1]
              y = F[, 2]
              u = T[, 1]
              v = T[, 2]
              R = rbind(y, y, y + 1, y + 1)
              Q = rbind(x, x + 1, x, x + 1)
              M = rbind((1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u)
              M = M * (R >= 0) * (R < 40) * (Q >= 0) * (Q < 40)
              I = min(max(R, 0), 39) * 40 + min(max(Q, 0), 39) + 1
              W = table(I, (seq(0, 6399) %% 1600) + 1, M, 1600, 1600)
              Y[k, ] = matrix(matrix(X[k, ], rows=32, cols=1600) %*% W, rows=1, cols=51200)
            }""", bilinear, opset=20, tolerance=1e-3),
        Bench("detection", "NonMaxSuppression", "500 boxes", boxes, {}, nms, suppressed, ["most", "overlap"], opset=11),
        Bench("construction", "OneHot", "last axis", {"I": indices(4096, 256), "d": integers(256),
              "v": np.array([0, 1], np.float32)}, {}, 'Y = outer(I + 256 * (I < 0), t(seq(0, 255)), "==")',
              lambda I, d, v: np.eye(256)[I], ["d", "v"]),
        Bench("construction", "Trilu", "lower", {"X": normal(1024, 1024)}, {"upper": 0},
              "Y = lower.tri(target=X, diag=TRUE, values=TRUE)", lambda X: np.tril(X)),
        Bench("construction", "Trilu", "batched upper", {"X": normal(64, 128, 128)}, {"upper": 1},
              "M = upper.tri(target=matrix(1, 128, 128), diag=TRUE, values=TRUE)\n"
              "Y = ifelse(matrix(1, 64, 1) %*% matrix(M, rows=1, cols=16384), X, 0)",
              lambda X: np.triu(X)),
    ]
