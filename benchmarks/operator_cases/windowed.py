"""Convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.operator_cases.bench import Array, Bench, normal
from benchmarks.operator_cases.computations import conv, windows


def windowed() -> list[Bench]:
    """Convolutions and pools."""

    def convolution(note: str, X: Array, W: Array, strides: list[int], pads: list[int], groups: int, idiom: str) -> Bench:
        attributes = {"strides": strides, "pads": [*pads, *pads], "group": groups}
        return Bench("convolution", "Conv", note, {"X": X, "W": W}, attributes, idiom,
                     lambda X, W: conv(X, W, strides, pads, groups), ["W"])

    call = "conv2d({}, {}, input_shape=[{}], filter_shape=[{}], stride=[{}, {}], padding=[{}, {}])"
    image1, image = normal(1, 64, 56, 56), normal(4, 64, 28, 28)
    grouped = "\n".join(
        [f"G{g} = X[, {g * 12544 + 1}:{g * 12544 + 12544}]\nF{g} = W[{g * 16 + 1}:{g * 16 + 16}, ]\n"
         + f"Y{g} = " + call.format(f"G{g}", f"F{g}", "4, 16, 28, 28", "16, 16, 3, 3", 1, 1, 1, 1) for g in range(4)]
        + ["Y = cbind(Y0, Y1, Y2, Y3)"])
    depthwise = """P = matrix(X, rows={0}, cols=56)
            A = matrix(0, {0}, 1)
            P = matrix(cbind(A, P, A), rows={1}, cols=3248)
            B = matrix(0, {1}, 58)
            P = cbind(B, P, B, matrix(0, {1}, 2))
            Y = P[, 1:3248] * V[, 1]
            """
    depthwise += "\n".join(
        f"Y = Y + P[, {i * 58 + j + 1}:{i * 58 + j + 3248}] * V[, {i * 3 + j + 1}]"
        for i in range(3) for j in range(3) if i + j
    )
    depthwise += "\nZ = matrix(Y, rows={0}, cols=58)\nY = matrix(Z[, 1:56], rows={2}, cols={3})"
    wide = normal(1, 128, 56, 56)
    filters = normal(128, 1, 3, 3)
    four, four_filters = normal(4, 64, 56, 56), normal(64, 1, 3, 3)
    volume = normal(2, 8, 16, 28, 28)
    volume_filter = normal(16, 8, 3, 3, 3)
    conv3d = """S = seq(0, 671)
            d = (S %/% 24) %% 14 + S %% 3
            I = (S %/% 336) * 128 + ((S %/% 3) %% 8) * 16 + d + 1
            P = matrix(table(seq(1, 672), I, 672, 256) %*% matrix(X, rows=256, cols=784), rows=28, cols=18816)
            """ + "Z = " + call.format("P", "W", "28, 24, 28, 28", "16, 24, 3, 3", 1, 1, 1, 1) + """
            Q = seq(0, 447)
            J = (Q %/% 224) * 224 + (Q %% 14) * 16 + (Q %/% 14) %% 16 + 1
            Y = matrix(table(seq(1, 448), J, 448, 448) %*% matrix(Z, rows=448, cols=784), rows=2, cols=175616)"""
    pool = "input_shape=[{}], pool_size=[{k}, {k}], stride=[2, 2], padding=[{p}, {p}])"
    pooled = {"X": normal(4, 64, 56, 56)}

    def pooling(op_type: str, note: str, attributes: dict[str, Any], idiom: str, run: Callable[..., Any]) -> Bench:
        return Bench("pool", op_type, note, pooled, attributes, idiom, run)

    def slices(X: Array, value: float, p: int, k: int) -> list[Array]:
        cut = windows(X, (k, k), (2, 2), (p, p), value)
        return [cut[..., i, j] for i in range(k) for j in range(k)]

    three = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    upwards = {"X": normal(2, 32, 28, 28), "W": normal(32, 16, 3, 3)}

    def upward(X: Array, W: Array) -> Array:
        Z = np.zeros((2, 16, 57, 57))
        G = np.tensordot(X, W, (1, 0))
        for i in range(3):
            for j in range(3):
                Z[:, :, i : i + 55 : 2, j : j + 55 : 2] += np.moveaxis(G[..., i, j], -1, 1)
        return Z[:, :, 1:57, 1:57]

    return [
        convolution("1x1, batch 1", image1, normal(256, 64, 1, 1), [1, 1], [0, 0], 1,
                    "Y = matrix(W %*% matrix(X, rows=64, cols=3136), rows=1, cols=802816)"),
        convolution("1x1, batch 4", image, normal(128, 64, 1, 1), [1, 1], [0, 0], 1,
                    "Y = " + call.format("X", "W", "4, 64, 28, 28", "128, 64, 1, 1", 1, 1, 0, 0)),
        convolution("3x3, batch 1", image1, normal(64, 64, 3, 3), [1, 1], [1, 1], 1,
                    "Y = " + call.format("X", "W", "1, 64, 56, 56", "64, 64, 3, 3", 1, 1, 1, 1)),
        convolution("3x3, batch 4", image, normal(64, 64, 3, 3), [1, 1], [1, 1], 1,
                    "Y = " + call.format("X", "W", "4, 64, 28, 28", "64, 64, 3, 3", 1, 1, 1, 1)),
        convolution("7x7 stride 2", normal(1, 3, 112, 112), normal(64, 3, 7, 7), [2, 2], [3, 3], 1,
                    "Y = " + call.format("X", "W", "1, 3, 112, 112", "64, 3, 7, 7", 2, 2, 3, 3)),
        convolution("4 groups", image, normal(64, 16, 3, 3), [1, 1], [1, 1], 4, grouped),
        Bench("convolution", "Conv", "depthwise, batch 1", {"X": wide, "W": filters},
              {"group": 128, "pads": [1, 1, 1, 1]}, "V = W\n" + depthwise.format(7168, 128, 1, 401408),
              lambda X, W: np.einsum("nchwij,cij->nchw", windows(X, (3, 3), (1, 1), (1, 1)), W[:, 0]), ["W"]),
        Bench("convolution", "Conv", "depthwise, batch 4", {"X": four, "W": four_filters},
              {"group": 64, "pads": [1, 1, 1, 1]}, "V = rbind(W, W, W, W)\n" + depthwise.format(14336, 256, 4, 200704),
              lambda X, W: np.einsum("nchwij,cij->nchw", windows(X, (3, 3), (1, 1), (1, 1)), W[:, 0]), ["W"]),
        Bench("convolution", "Conv", "1-D", {"X": normal(8, 64, 512), "W": normal(64, 64, 5)}, {"pads": [2, 2]},
              "Y = " + call.format("X", "W", "8, 64, 1, 512", "64, 64, 1, 5", 1, 1, 0, 2),
              lambda X, W: conv(X, W, [1], [2]), ["W"]),
        Bench("convolution", "Conv", "3-D", {"X": volume, "W": volume_filter}, {"pads": [0, 1, 1, 0, 1, 1]},
              conv3d, lambda X, W: conv(X, W, [1, 1, 1], [0, 1, 1]), ["W"]),
        Bench("convolution", "ConvTranspose", "3x3 stride 2", upwards,
              {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, """
            Y = conv2d_backward_data(W, X, input_shape=[2, 16, 56, 56], filter_shape=[32, 16, 3, 3], stride=[2, 2],
              padding=[1, 1])""", upward, ["W"]),
        pooling("MaxPool", "3x3 stride 2", three, "Y = max_pool(X, " + pool.format("4, 64, 56, 56", k=3, p=1),
                lambda X: np.maximum.reduce(slices(X, -np.inf, 1, 3))),
        pooling("AveragePool", "2x2 stride 2", {"kernel_shape": [2, 2], "strides": [2, 2]},
                "Y = avg_pool(X, " + pool.format("4, 64, 56, 56", k=2, p=0), lambda X: sum(slices(X, 0, 0, 2)) / 4),
        pooling("AveragePool", "3x3, padding left out", three,
                "K = avg_pool(matrix(1, 1, 3136), " + pool.format("1, 1, 56, 56", k=3, p=1)
                + "\nY = matrix(avg_pool(X, " + pool.format("4, 64, 56, 56", k=3, p=1)
                + ", rows=256, cols=784) / K\nY = matrix(Y, rows=4, cols=50176)",
                lambda X: sum(slices(X, 0, 1, 3)) / sum(slices(np.ones((1, 1, 56, 56)), 0, 1, 3))),
        pooling("GlobalAveragePool", "", {}, "Y = matrix(rowMeans(matrix(X, rows=256, cols=3136)), rows=4, cols=64)",
                lambda X: X.mean((2, 3), keepdims=True)),
        pooling("GlobalMaxPool", "", {}, "Y = matrix(rowMaxs(matrix(X, rows=256, cols=3136)), rows=4, cols=64)",
                lambda X: X.max((2, 3), keepdims=True)),
    ]
