"""Normalizations, softmax, products, recurrence, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.operator_cases.bench import ROWS, Array, Bench, indices, normal, positive
from benchmarks.operator_cases.computations import conv, gru, lrn, lstm, normalized, rnn, softmax


def networks() -> list[Bench]:
    """Normalizations, softmax, products, recurrence, attention."""
    image, rows = {"X": normal(4, 64, 56, 56)}, {"X": ROWS}
    scale, shift = positive(64), normal(64)
    column = "matrix(matrix(1, 4, 1) %*% t({}), rows=256, cols=1)"
    flat = "matrix(X, rows=256, cols=3136)"
    batch = {**image, "g": scale, "b": shift, "m": normal(64, seed=1), "v": positive(64, seed=2)}
    wide, affine = "matrix(X, rows=8192, cols=256)", {"g": positive(256), "b": normal(256)}
    norm = """M = rowMeans(Z)
            D = Z - M
            S = rowMeans(D ^ 2)
            """

    def broadcast(v: Array) -> Array:
        return v.reshape(-1, 1, 1)

    def grouped(X: Array, g: Array, b: Array) -> Array:
        return normalized(X.reshape(4, 8, -1), (2,)).reshape(X.shape) * broadcast(g) + broadcast(b)

    q, k = normal(2, 12, 128, 64), normal(2, 12, 128, 64, seed=1)
    keys = normal(2, 12, 64, 128, seed=1)

    def products(left: str, right: str, each: int, transposed: bool) -> str:
        text = ""
        for g in range(24):
            text += f"L{g} = {left}[{g * 128 + 1}:{g * 128 + 128}, ]\nR{g} = {right}[{g * each + 1}:{g * each + each}, ]\n"
        right_text = "t(R{0})" if transposed else "R{0}"
        return text + "Z = rbind(" + ", ".join(f"L{g} %*% " + right_text.format(g) for g in range(24)) + ")\n"

    batched = "A = matrix(X, rows=3072, cols=64)\nB = matrix(K, rows={}, cols={})\n"
    attention = (
        "A = matrix(Q, rows=3072, cols=64) * 0.125\nB = matrix(K, rows=3072, cols=64)\nC = matrix(V, rows=3072, cols=64)\n"
        + products("A", "B", 128, True)
        + "E = exp(Z - rowMaxs(Z))\nP = E / rowSums(E)\n"
        + products("P", "C", 128, False)
        + "Y = matrix(Z, rows=2, cols=98304)"
    )
    steps, width = 32, 128
    sequence = normal(steps, 16, width)

    def recurrent(op_type: str, gates: int, idiom: str, run: Callable[..., Any], given: Mapping[str, Array]) -> Bench:
        inputs = {"X": sequence, "W": normal(1, gates * width, width) / 8,
                  "R": normal(1, gates * width, width, seed=1) / 8}
        return Bench("recurrent", op_type, "32 steps, batch 16", inputs, {"hidden_size": width}, idiom, run, ["W", "R"],
                     given=given, opset=14, tolerance=1e-3)

    W4, R4 = normal(1, 4 * width, width) / 8, normal(1, 4 * width, width, seed=1) / 8
    W3, R3 = normal(1, 3 * width, width) / 8, normal(1, 3 * width, width, seed=1) / 8
    W1, R1 = normal(1, width, width) / 8, normal(1, width, width, seed=1) / 8

    def builtin_order(W: Array) -> Array:
        i, o, f, c = np.split(W[0], 4)
        return np.concatenate([i, f, o, c]).T

    loop = """G = matrix(X, rows=512, cols=128) %*% A
            h = matrix(0, 16, 128)
            Z = matrix(0, 512, 128)
            for (s in seq(1, 32, 1)) {{
              l = (s - 1) * 16 + 1
              u = s * 16
              g = G[l:u, ]
              {}
              Z[l:u, ] = h
            }}
            Y = matrix(Z, rows=32, cols=2048)"""
    small = normal(256, 512)
    linear = "X %*% W"
    x8, w8 = indices((256, 512), 256).astype(np.uint8), indices((512, 512), 256, 2).astype(np.uint8)
    qx, qw = indices((1, 32, 28, 28), 256).astype(np.uint8), indices((64, 32, 3, 3), 256, 2).astype(np.uint8)
    f = np.float32
    even = """F = floor({0})
            D = {0} - F
            E = F + (D > 0.5) + (D == 0.5) * ((F %% 2) != 0)
            """
    return [
        Bench("normalization", "BatchNormalization", "", batch, {}, f"""A = g / sqrt(v + 0.00001)
            B = b - m * A
            Y = matrix({flat} * {column.format("A")} + {column.format("B")}, rows=4, cols=200704)""",
              lambda X, g, b, m, v: (X - broadcast(m)) / np.sqrt(broadcast(v) + 1e-5) * broadcast(g) + broadcast(b),
              ["g", "b", "m", "v"]),
        Bench("normalization", "LayerNormalization", "", {**rows, **affine}, {}, f"Z = {wide}\n" + norm
              + "Y = matrix(D / sqrt(S + 0.00001) * t(g) + t(b), rows=64, cols=32768)",
              lambda X, g, b: normalized(X, (2,)) * g + b, ["g", "b"]),
        Bench("normalization", "InstanceNormalization", "", {**image, "g": scale, "b": shift}, {}, f"Z = {flat}\n" + norm
              + f"Y = matrix(D * ({column.format('g')} / sqrt(S + 0.00001)) + {column.format('b')}, rows=4, cols=200704)",
              lambda X, g, b: normalized(X, (2, 3)) * broadcast(g) + broadcast(b), ["g", "b"]),
        Bench("normalization", "GroupNormalization", "8 groups", {**image, "g": scale, "b": shift}, {"num_groups": 8},
              "Z = matrix(X, rows=32, cols=25088)\n" + norm
              + f"D = matrix(D / sqrt(S + 0.00001), rows=256, cols=3136)\n"
              f"Y = matrix(D * {column.format('g')} + {column.format('b')}, rows=4, cols=200704)",
              grouped, ["g", "b"], opset=21),
        Bench("normalization", "LRN", "5 channels", image, {"size": 5}, """Z = X ^ 2
            P = cbind(matrix(0, 4, 6272), Z, matrix(0, 4, 6272))
            T = P[, 1:200704] + P[, 3137:203840] + P[, 6273:206976] + P[, 9409:210112] + P[, 12545:213248]
            Y = X * exp(log(1 + T * 0.00002) * (-0.75))""", lrn),
        Bench("softmax", "Softmax", "last axis", rows, {"axis": -1}, f"""Z = {wide}
            E = exp(Z - rowMaxs(Z))
            Y = matrix(E / rowSums(E), rows=64, cols=32768)""", lambda X: softmax(X, -1)),
        Bench("softmax", "Softmax", "middle axis", rows, {"axis": 1}, """Y = matrix(0, 64, 32768)
            for (n in seq(1, 64, 1)) {
              k = n
              Z = matrix(X[k, ], rows=128, cols=256)
              E = exp(Z - colMaxs(Z))
              Y[k, ] = matrix(E / colSums(E), rows=1, cols=32768)
            }""", lambda X: softmax(X, 1)),
        Bench("softmax", "LogSoftmax", "last axis", rows, {"axis": -1}, f"""Z = {wide}
            D = Z - rowMaxs(Z)
            Y = matrix(D - log(rowSums(exp(D))), rows=64, cols=32768)""",
              lambda X: X - X.max(-1, keepdims=True) - np.log(np.exp(X - X.max(-1, keepdims=True)).sum(-1, keepdims=True))),
        Bench("product", "MatMul", "rank 2", {"X": small, "W": normal(512, 1024)}, {}, "Y = " + linear,
              lambda X, W: X @ W, ["W"]),
        Bench("product", "MatMul", "rank 3, weight", {"X": normal(8, 64, 256), "W": normal(256, 512)}, {},
              "Y = matrix(matrix(X, rows=512, cols=256) %*% W, rows=8, cols=32768)", lambda X, W: X @ W, ["W"]),
        Bench("product", "MatMul", "batched rank 3", {"X": normal(24, 128, 64), "K": normal(24, 64, 128, seed=1)}, {},
              batched.format(1536, 128) + products("A", "B", 64, False) + "Y = matrix(Z, rows=24, cols=16384)",
              lambda X, K: X @ K, outputs=["Y"]),
        Bench("product", "MatMul", "batched rank 4", {"X": q, "K": keys}, {},
              batched.format(1536, 128) + products("A", "B", 64, False) + "Y = matrix(Z, rows=2, cols=196608)",
              lambda X, K: X @ K),
        Bench("product", "Gemm", "transB, bias", {"X": small, "W": normal(1024, 512), "b": normal(1024)}, {"transB": 1},
              "Y = X %*% t(W) + t(b)", lambda X, W, b: X @ W.T + b, ["W", "b"]),
        Bench("product", "Einsum", "bhid,bhjd->bhij", {"X": q, "K": k}, {"equation": "bhid,bhjd->bhij"},
              batched.format(3072, 64) + products("A", "B", 128, True) + "Y = matrix(Z, rows=2, cols=196608)",
              lambda X, K: X @ K.swapaxes(2, 3)),
        recurrent("LSTM", 4, """P = matrix(0, 16, 4096)
            for (s in seq(1, 32, 1)) {
              l = (s - 1) * 128 + 1
              u = s * 128
              P[, l:u] = matrix(X[s, ], rows=16, cols=128)
            }
            H = matrix(0, 16, 128)
            [O, c, c1, c2, c3] = lstm(P, A, matrix(0, 1, 512), H, H, TRUE)
            S = seq(0, 511)
            I = table(seq(1, 512), (S %% 16) * 32 + S %/% 16 + 1, 512, 512)
            Y = matrix(I %*% matrix(O, rows=512, cols=128), rows=32, cols=2048)""", lstm,
                  {"A": np.concatenate([builtin_order(W4), builtin_order(R4)])}),
        recurrent("GRU", 3, loop.format("""a = g[, 1:256] + h %*% B
              a = 1 / (1 + exp(-a))
              z = a[, 1:128]
              n = tanh(g[, 257:384] + (a[, 129:256] * h) %*% C)
              h = n + z * (h - n)"""), gru, {"A": W3[0].T, "B": R3[0, :256].T, "C": R3[0, 256:].T}),
        recurrent("RNN", 1, loop.format("h = tanh(g + h %*% B)"), rnn, {"A": W1[0].T, "B": R1[0].T}),
        Bench("attention", "Attention", "12 heads", {"Q": q, "K": k, "V": normal(2, 12, 128, 64, seed=2)}, {},
              attention, lambda Q, K, V: softmax(Q @ K.swapaxes(2, 3) / 8, -1) @ V, opset=23),
        Bench("quantized", "QuantizeLinear", "", {"X": normal(4, 64, 56, 56), "s": f(0.02), "z": np.uint8(128)}, {},
              even.format("(X / 0.02)").replace("F = ", "Q = X / 0.02\nF = ", 1).replace("(X / 0.02)", "Q")
              + "Y = min(max(E + 128, 0), 255)", lambda X, s, z: np.clip(np.rint(X / s) + 128, 0, 255), ["s", "z"],
              tolerance=0.005),
        Bench("quantized", "DequantizeLinear", "", {"X": indices((4, 64, 56, 56), 256).astype(np.uint8),
              "s": f(0.02), "z": np.uint8(128)}, {}, "Y = (X - 128) * 0.02", lambda X, s, z: (X - 128.0) * s, ["s", "z"]),
        Bench("quantized", "MatMulInteger", "", {"X": x8, "W": w8, "a": np.uint8(3), "b": np.uint8(120)}, {},
              "Y = (X - 3) %*% V", lambda X, W, a, b: (X - 3.0) @ (W - 120.0), ["W", "a", "b"], opset=10,
              given={"V": w8 - 120.0}),
        Bench("quantized", "QLinearMatMul", "", {"X": x8, "a": f(0.02), "b": np.uint8(3), "W": w8, "c": f(0.03),
              "d": np.uint8(120), "e": f(2.0), "g": np.uint8(100)}, {}, "P = ((X - 3) %*% V) * 0.0003\n" + even.format("P")
              + "Y = min(max(E + 100, 0), 255)",
              lambda X, W, **_: np.clip(np.rint((X - 3.0) @ (W - 120.0) * 0.0003) + 100, 0, 255),
              ["a", "b", "W", "c", "d", "e", "g"], opset=10, given={"V": w8 - 120.0}, tolerance=0.01),
        Bench("quantized", "QLinearConv", "3x3", {"X": qx, "a": f(0.02), "b": np.uint8(3), "W": qw, "c": f(0.03),
              "d": np.uint8(120), "e": f(2.0), "g": np.uint8(100)}, {"pads": [1, 1, 1, 1]}, """P = conv2d(X - 3, V,
              input_shape=[1, 32, 28, 28], filter_shape=[64, 32, 3, 3], stride=[1, 1], padding=[1, 1]) * 0.0003
            """ + even.format("P") + "Y = min(max(E + 100, 0), 255)",
              lambda X, W, **_: np.clip(np.rint(conv(X - 3.0, W - 120.0, [1, 1], [1, 1]) * 0.0003) + 100, 0, 255),
              ["a", "b", "W", "c", "d", "e", "g"], opset=10, given={"V": (qw - 120.0).reshape(64, -1)}, tolerance=0.01),
    ]
