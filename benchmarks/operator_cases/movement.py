"""Transposes, cuts, joins, gathers, scatters, paddings, resizing."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.operator_cases.bench import IMAGE, ROWS, Array, Bench, indices, integers, normal, permutation
from benchmarks.operator_cases.computations import replaced


def movement() -> list[Bench]:
    """Transposes, cuts, joins, gathers, scatters, paddings, resizing."""
    rows, image = {"X": ROWS}, {"X": IMAGE}

    def transposed(note: str, array: Array, perm: list[int], idiom: str) -> Bench:
        return Bench("transpose", "Transpose", note, {"X": array}, {"perm": perm}, idiom,
                     lambda X: np.ascontiguousarray(X.transpose(perm)))

    heads = normal(8, 128, 12, 64)
    per_image = """Y = matrix(0, {0}, {1})
            for (n in seq(1, {0}, 1)) {{
              k = n
              Y[k, ] = matrix(t(matrix(X[k, ], rows={2}, cols={3})), rows=1, cols={1})
            }}"""
    padded = """A = matrix(0, 28672, 1)
            Z = cbind(A, matrix(X, rows=28672, cols=56), A)
            Z = matrix(Z, rows=512, cols=3248)
            B = matrix(0, 512, 58)
            Y = matrix(cbind(B, Z, B), rows=8, cols=215296)"""
    depth = normal(4, 64, 32, 32)
    low = normal(4, 32, 28, 28)
    weights_linear = np.zeros((28, 56))
    for i in range(56):
        at = min(max((i + 0.5) / 2 - 0.5, 0), 27)
        weights_linear[int(at), i] += 1 - (at - int(at))
        weights_linear[min(int(at) + 1, 27), i] += at - int(at)
    weights_cubic = np.zeros((28, 56))
    for i in range(56):
        at = (i + 0.5) / 2 - 0.5
        base = math.floor(at)
        for k in range(-1, 3):
            d = abs(at - base - k)
            w = 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
            weights_cubic[min(max(base + k, 0), 27), i] += w
    separable = """Z = matrix(X, rows=3584, cols=28) %*% W
            Z = matrix(t(matrix(Z, rows=128, cols=1568)), rows=28, cols=7168)
            Z = t(W) %*% Z
            Y = matrix(t(matrix(Z, rows=3136, cols=128)), rows=4, cols=100352)"""
    both = "Y = matrix(matrix(X, rows=128, cols=784) %*% W, rows=4, cols=100352)"
    nearest = np.kron(np.repeat(np.eye(28), 2, 1), np.repeat(np.eye(28), 2, 1))
    scales = np.array([1, 1, 2, 2], np.float32)
    resize = {"X": low, "scales": scales}
    embed = {"X": normal(8192, 256), "I": indices((16, 128), 8192)}
    return [
        transposed("2-D", normal(1024, 2048), [1, 0], "Y = t(X)"),
        transposed("0 2 1", ROWS, [0, 2, 1], per_image.format(64, 32768, 128, 256)),
        transposed("1 0 2", ROWS, [1, 0, 2], """S = seq(0, 8191)
            Z = table(seq(1, 8192), (S %% 64) * 128 + S %/% 64 + 1, 8192, 8192) %*% matrix(X, rows=8192, cols=256)
            Y = matrix(Z, rows=128, cols=16384)"""),
        transposed("2 0 1", ROWS, [2, 0, 1], "Y = t(matrix(X, rows=8192, cols=256))"),
        transposed("1 2 0", ROWS, [1, 2, 0], "Y = matrix(t(X), rows=128, cols=16384)"),
        transposed("0 2 3 1, to NHWC", IMAGE, [0, 2, 3, 1], per_image.format(8, 200704, 64, 3136)),
        transposed("0 3 1 2, to NCHW", normal(8, 56, 56, 64), [0, 3, 1, 2], per_image.format(8, 200704, 3136, 64)),
        transposed("0 2 1 3, heads", heads, [0, 2, 1, 3], """S = seq(0, 12287)
            I = (S %/% 1536) * 1536 + (S %% 128) * 12 + (S %/% 128) %% 12 + 1
            Z = table(seq(1, 12288), I, 12288, 12288) %*% matrix(X, rows=12288, cols=64)
            Y = matrix(Z, rows=8, cols=98304)"""),
        transposed("0 2 3 1, keys", heads, [0, 2, 3, 1], """S = seq(0, 12287)
            I = (S %/% 1536) * 1536 + (S %% 128) * 12 + (S %/% 128) %% 12 + 1
            Z = table(seq(1, 12288), I, 12288, 12288) %*% matrix(X, rows=12288, cols=64)
            Z = matrix(Z, rows=96, cols=8192)
            Y = matrix(0, 96, 8192)
            for (n in seq(1, 96, 1)) {
              k = n
              Y[k, ] = matrix(t(matrix(Z[k, ], rows=128, cols=64)), rows=1, cols=8192)
            }
            Y = matrix(Y, rows=8, cols=98304)"""),
        transposed("3 2 1 0", normal(8, 16, 32, 64), [3, 2, 1, 0], """T = seq(0, 32767)
            K = (T %/% 512) + ((T %% 512) %/% 16) * 64 + (T %% 16) * 2048 + 1
            Y = matrix(table(seq(1, 32768), K, 32768, 32768) %*% t(X), rows=64, cols=4096)"""),
        Bench("slice", "Slice", "last axes", {**image, "a": integers(10, 5), "b": integers(40, 50), "c": integers(2, 3)},
              {}, """Z = matrix(X, rows=512, cols=3136)
            Z = Z[, 561:2240]
            Z = matrix(Z, rows=15360, cols=56)
            Y = matrix(Z[, 6:50], rows=8, cols=86400)""",
              lambda X, a, b, c: np.ascontiguousarray(X[:, :, 10:40, 5:50]), ["a", "b", "c"]),
        Bench("slice", "Slice", "middle axis", {**rows, "a": integers(10), "b": integers(100), "c": integers(1)}, {},
              "Y = X[, 2561:25600]", lambda X, a, b, c: np.ascontiguousarray(X[:, 10:100]), ["a", "b", "c"]),
        Bench("slice", "Slice", "step 2, last axes",
              {**image, "a": integers(0, 0), "b": integers(56, 56), "c": integers(2, 3), "d": integers(2, 2)}, {},
              """Y = max_pool(matrix(X, rows=512, cols=3136), input_shape=[512, 1, 56, 56], pool_size=[1, 1],
              stride=[2, 2], padding=[0, 0])
            Y = matrix(Y, rows=8, cols=50176)""",
              lambda X, a, b, c, d: np.ascontiguousarray(X[:, :, ::2, ::2]), ["a", "b", "c", "d"]),
        Bench("slice", "Slice", "reverse, middle axis",
              {**rows, "a": integers(-1), "b": integers(-1000), "c": integers(1), "d": integers(-1)}, {},
              """S = seq(0, 8191)
            P = table(seq(1, 8192), (S %/% 128) * 128 + 128 - S %% 128, 8192, 8192)
            Y = matrix(P %*% matrix(X, rows=8192, cols=256), rows=64, cols=32768)""",
              lambda X, a, b, c, d: np.ascontiguousarray(X[:, ::-1]), ["a", "b", "c", "d"]),
        Bench("slice", "Slice", "reverse, last axis",
              {**rows, "a": integers(-1), "b": integers(-1000), "c": integers(2), "d": integers(-1)}, {},
              """P = table(seq(256, 1, -1), seq(1, 256), 256, 256)
            Y = matrix(matrix(X, rows=8192, cols=256) %*% P, rows=64, cols=32768)""",
              lambda X, a, b, c, d: np.ascontiguousarray(X[:, :, ::-1]), ["a", "b", "c", "d"]),
        Bench("join", "Concat", "channels", {"X": IMAGE, "B": IMAGE}, {"axis": 1}, "Y = cbind(X, B)",
              lambda X, B: np.concatenate([X, B], 1)),
        Bench("join", "Concat", "last axis", {"X": ROWS, "B": ROWS}, {"axis": 2},
              "Y = matrix(cbind(matrix(X, rows=8192, cols=256), matrix(B, rows=8192, cols=256)), rows=64, cols=65536)",
              lambda X, B: np.concatenate([X, B], 2)),
        Bench("join", "Split", "channels", {**image}, {"axis": 1, "num_outputs": 2},
              "Y = X[, 1:100352]\nZ = X[, 100353:200704]",
              lambda X: [np.ascontiguousarray(part) for part in np.split(X, 2, 1)], outputs=["Y", "Z"]),
        Bench("join", "Split", "last axis", {**rows}, {"axis": 2, "num_outputs": 2},
              """R = matrix(X, rows=8192, cols=256)
            Y = matrix(R[, 1:128], rows=64, cols=16384)
            Z = matrix(R[, 129:256], rows=64, cols=16384)""",
              lambda X: [np.ascontiguousarray(part) for part in np.split(X, 2, 2)], outputs=["Y", "Z"]),
        Bench("gather", "Gather", "rows, embedding", embed, {},
              "Y = matrix(table(seq(1, 2048), matrix(I, rows=2048, cols=1) + 1, 2048, 8192) %*% X, rows=16, cols=32768)",
              lambda X, I: X[I]),
        Bench("gather", "Gather", "columns", {"X": normal(4096, 512), "I": indices(256, 512)}, {"axis": 1},
              "Y = X %*% table(I + 1, seq(1, 256), 512, 256)", lambda X, I: X[:, I]),
        Bench("gather", "Gather", "middle axis", {"X": ROWS, "I": indices(64, 128)}, {"axis": 1},
              """S = seq(0, 4095)
            J = table(seq(1, 4096), (S %% 64) + 1, 4096, 64) %*% I + (S %/% 64) * 128 + 1
            Y = matrix(table(seq(1, 4096), J, 4096, 8192) %*% matrix(X, rows=8192, cols=256), rows=64, cols=16384)""",
              lambda X, I: X[:, I]),
        Bench("gather", "GatherElements", "last axis", {"X": normal(1024, 256), "I": indices((1024, 64), 256)},
              {"axis": 1}, """J = matrix(I + 256 * (I < 0) + seq(0, 1023) * 256 + 1, rows=65536, cols=1)
            Y = matrix(table(seq(1, 65536), J, 65536, 262144) %*% matrix(X, rows=262144, cols=1), rows=1024, cols=64)""",
              lambda X, I: np.take_along_axis(X, I, 1)),
        Bench("gather", "GatherND", "pairs", {"X": ROWS, "I": np.stack([indices(2048, 64), indices(2048, 128)], 1)}, {},
              """J = I[, 1] * 128 + I[, 2] + 1
            Y = table(seq(1, 2048), J, 2048, 8192) %*% matrix(X, rows=8192, cols=256)""",
              lambda X, I: X[I[:, 0], I[:, 1]]),
        Bench("scatter", "ScatterND", "rows", {"X": normal(8192, 256), "I": permutation(8192)[:1024].reshape(-1, 1),
              "U": normal(1024, 256, seed=4)}, {}, """M = table(I + 1, seq(1, 1024), 8192, 1024)
            R = rowSums(M)
            J = ifelse(R > 0, 8192 + M %*% seq(1, 1024), seq(1, 8192))
            Y = table(seq(1, 8192), J, 8192, 9248) %*% rbind(X, U, matrix(0, 32, 256))""",
              replaced),
        Bench("scatter", "ScatterElements", "add, last axis", {"X": normal(1024, 256), "I": indices((1024, 64), 256),
              "U": normal(1024, 64, seed=4)}, {"axis": 1, "reduction": "add"},
              """J = matrix(I + 256 * (I < 0) + seq(0, 1023) * 256 + 1, rows=65536, cols=1)
            D = table(J, seq(1, 65536), 262144, 65536) %*% matrix(U, rows=65536, cols=1)
            Y = X + matrix(D, rows=1024, cols=256)""", None),
        Bench("pad", "Pad", "constant", {**image, "p": integers(0, 0, 1, 1, 0, 0, 1, 1)}, {}, padded,
              lambda X, p: np.pad(X, [(0, 0), (0, 0), (1, 1), (1, 1)]), ["p"]),
        Bench("pad", "Pad", "reflect", {**image, "p": integers(0, 0, 1, 1, 0, 0, 1, 1)}, {"mode": "reflect"},
              """R = matrix(X, rows=28672, cols=56)
            Z = matrix(cbind(R[, 2], R, R[, 55]), rows=512, cols=3248)
            Y = matrix(cbind(Z[, 59:116], Z, Z[, 3133:3190]), rows=8, cols=215296)""",
              lambda X, p: np.pad(X, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="reflect"), ["p"]),
        Bench("expand", "Tile", "last axis", {**rows, "r": integers(1, 1, 3)}, {},
              """R = matrix(X, rows=8192, cols=256)
            Y = matrix(cbind(R, R, R), rows=64, cols=98304)""", lambda X, r: np.tile(X, r), ["r"]),
        Bench("expand", "Tile", "first axis", {"X": normal(256, 1024), "r": integers(8, 1)}, {},
              "Y = rbind(X, X, X, X, X, X, X, X)", lambda X, r: np.tile(X, r), ["r"]),
        Bench("expand", "Expand", "middle", {"X": normal(64, 1, 256), "s": integers(64, 128, 256)}, {},
              "Y = matrix(table(seq(1, 8192), ((seq(1, 8192) - 1) %/% 128) + 1, 8192, 64) %*% X, rows=64, cols=32768)",
              lambda X, s: np.ascontiguousarray(np.broadcast_to(X, s)), ["s"]),
        Bench("space", "DepthToSpace", "2", {"X": depth}, {"blocksize": 2},
              """S = seq(0, 8191)
            I = ((S %/% 2048) * 64 + (S %% 2) * 16 + ((S %/% 2) %% 2) * 32 + (S %/% 128) %% 16) * 32 + (S %/% 4) %% 32
            Z = table(seq(1, 8192), I + 1, 8192, 8192) %*% matrix(X, rows=8192, cols=32)
            P = table(((seq(0, 63) %% 2) * 32 + seq(0, 63) %/% 2) + 1, seq(1, 64), 64, 64)
            Y = matrix(matrix(Z, rows=4096, cols=64) %*% P, rows=4, cols=65536)""",
              lambda X: X.reshape(4, 2, 2, 16, 32, 32).transpose(0, 3, 4, 1, 5, 2).reshape(4, 16, 64, 64)),
        Bench("resize", "Resize", "nearest 2x", resize, {"mode": "nearest"}, both,
              lambda X, scales: X.repeat(2, 2).repeat(2, 3), ["scales"], given={"W": nearest},
              arguments=["X", "absent", "scales"]),
        Bench("resize", "Resize", "linear 2x, separable", resize, {"mode": "linear"}, separable,
              lambda X, scales: weights_linear.T @ (X @ weights_linear), ["scales"], given={"W": weights_linear},
              arguments=["X", "absent", "scales"]),
        # One product with a Kronecker matrix is no idiom to compare with: the matrix (784 x 3136, 20 MB, from two of
        # 28 x 56) would have to be stored with the model, and building it in the script costs what the product saves.
        Bench("resize", "Resize", "cubic 2x", resize, {"mode": "cubic"}, separable,
              lambda X, scales: weights_cubic.T @ (X @ weights_cubic), ["scales"], given={"W": weights_cubic},
              arguments=["X", "absent", "scales"]),
    ]
