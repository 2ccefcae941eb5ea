"""The rows of ``benchmarks.operators``: operators, inputs, hand-written DML and numpy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Bench:
    """One operator: the idiom reads the inputs under their names (as the boundary matrices) and assigns the outputs.

    given: further matrices for the idiom that a conversion would have prepared. numpy: called with the inputs by name;
    None takes ONNX's reference implementation. arguments: the node's inputs where they are not simply all inputs;
    names that begin with "absent" are left out.
    """

    family: str
    op_type: str
    note: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    idiom: str = ""
    numpy: Callable[..., Any] | None = None
    constants: Sequence[str] = ()
    opset: int = 18
    given: Mapping[str, Array] = field(default_factory=dict)
    outputs: Sequence[str] = ("Y",)
    arguments: Sequence[str] = ()
    domain: str = ""
    tolerance: float = 1e-4

    def __str__(self) -> str:
        return f"{self.family}: {self.op_type} {self.note}"

    def words(self) -> set[str]:
        """The identifiers in the idiom."""
        return set(re.findall(r"[A-Za-z]\w*", self.idiom))

    def shapes(self) -> str:
        """The dims of the first inputs."""
        shown = [name for name in self.inputs if name not in self.constants or self.inputs[name].size > 64]
        return " ".join("x".join(map(str, self.inputs[name].shape)) or "scalar" for name in shown[:3])


def normal(*dims: int, seed: int = 0) -> Array:
    """Reproducible float32 numbers."""
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def positive(*dims: int, seed: int = 0) -> Array:
    """Reproducible float32 numbers from 0.5 to 1.5."""
    return (np.random.default_rng(seed).random(dims) + 0.5).astype(np.float32)


def indices(count: int | tuple[int, ...], below: int, seed: int = 1) -> Array:
    """Reproducible int64 numbers from 0."""
    return np.random.default_rng(seed).integers(0, below, count)


def permutation(count: int) -> Array:
    """The numbers below count in a reproducible order."""
    return np.random.default_rng(3).permutation(count)


def integers(*values: int) -> Array:
    """An int64 vector."""
    return np.array(values, np.int64)


def sigmoid(X: Array) -> Array:
    return 1 / (1 + np.exp(-X))


def windows(X: Array, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], value: float = 0.0) -> Array:
    """[N, C, output..., kernel...] of X padded symmetrically."""
    k = len(kernel)
    X = np.pad(X, [(0, 0), (0, 0), *((p, p) for p in pads)], constant_values=value)
    cut = sliding_window_view(X, kernel, axis=tuple(range(2, 2 + k)))
    return cut[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]


def conv(X: Array, W: Array, strides: Sequence[int], pads: Sequence[int], groups: int = 1) -> Array:
    """Convolution as one product for each group."""
    parts = []
    for x, w in zip(np.split(X, groups, 1), np.split(W, groups, 0)):
        cut = windows(x, w.shape[2:], strides, pads)
        k = w.ndim - 2
        axes = [1, *range(2 + k, 2 + 2 * k)]
        parts.append(np.moveaxis(np.tensordot(cut, w, (axes, list(range(1, w.ndim)))), -1, 1))
    return np.concatenate(parts, 1)


def normalized(X: Array, axes: tuple[int, ...]) -> Array:
    """Mean 0 and variance 1 over the axes."""
    D = X - X.mean(axes, keepdims=True)
    return D / np.sqrt((D * D).mean(axes, keepdims=True) + 1e-5)


def lrn(X: Array) -> Array:
    """Local response normalization over 5 channels."""
    S = np.pad(X * X, [(0, 0), (2, 2), (0, 0), (0, 0)])
    total = sum(S[:, i : i + X.shape[1]] for i in range(5))
    return X / (1 + 1e-4 / 5 * total) ** 0.75


def replaced(X: Array, I: Array, U: Array) -> Array:
    """The rows I replaced."""
    Y = X.copy()
    Y[I[:, 0]] = U
    return Y


def softmax(X: Array, axis: int) -> Array:
    E = np.exp(X - X.max(axis, keepdims=True))
    return E / E.sum(axis, keepdims=True)


def lstm(X: Array, W: Array, R: Array, **_: Array) -> Array:
    """Hidden states [steps, 1, batch, hidden] without bias."""
    m = R.shape[2]
    h = c = np.zeros((X.shape[1], m))
    G = X @ W[0].T
    out = []
    for g in G:
        i, o, f, t = np.split(g + h @ R[0].T, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(t)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out)[:, None]


def gru(X: Array, W: Array, R: Array, **_: Array) -> Array:
    """Hidden states of a GRU with linear_before_reset=0, without bias."""
    m = R.shape[2]
    h = np.zeros((X.shape[1], m))
    G = X @ W[0].T
    out = []
    for g in G:
        z, r = np.split(sigmoid(g[:, : 2 * m] + h @ R[0, : 2 * m].T), 2, 1)
        n = np.tanh(g[:, 2 * m :] + (r * h) @ R[0, 2 * m :].T)
        h = (1 - z) * n + z * h
        out.append(h)
    return np.stack(out)[:, None]


def rnn(X: Array, W: Array, R: Array, **_: Array) -> Array:
    """Hidden states of a plain RNN with tanh, without bias."""
    h = np.zeros((X.shape[1], R.shape[2]))
    G = X @ W[0].T
    out = []
    for g in G:
        h = np.tanh(g + h @ R[0].T)
        out.append(h)
    return np.stack(out)[:, None]


def suppressed(boxes: Array, scores: Array, **_: Array) -> Array:
    """Greedy suppression at 0.5, one class."""
    B, s = boxes[0], scores[0, 0]
    area = (B[:, 2] - B[:, 0]) * (B[:, 3] - B[:, 1])
    order, kept = np.argsort(-s, kind="stable"), []
    while order.size and len(kept) < 100:
        first, order = order[0], order[1:]
        kept.append((0, 0, first))
        low = np.maximum(B[first, :2], B[order, :2])
        high = np.minimum(B[first, 2:], B[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), 1)
        order = order[shared <= 0.5 * (area[first] + area[order] - shared)]
    return np.array(kept)


def make_boxes(n: int) -> Array:
    """Boxes of a fifth of a unit square."""
    corner = np.random.default_rng(5).random((1, n, 2))
    return np.concatenate([corner, corner + 0.2], 2).astype(np.float32)


N, C, H, L = 8, 64, 56, 3136
IMAGE = normal(N, C, H, H)
ROWS = normal(64, 128, 256)
FLAT = "matrix(X, rows=512, cols=3136)"
BACK = "rows=8, cols=200704"


def elementwise() -> list[Bench]:
    """Broadcasting, unary mathematics, comparisons."""
    image, rows = {"X": IMAGE}, {"X": ROWS}
    mask = normal(8, 1, 128, 128, seed=2)
    scores = normal(8, 8, 128, 128)
    repeat = "M = matrix({0}, rows=8, cols=16384)\nM = matrix(cbind(M, M, M, M, M, M, M, M), rows=64, cols=16384)\n"
    erf = """A = abs(X)
        T = 1 / (1 + 0.3275911 * A)
        P = ((((1.061405429 * T - 1.453152027) * T + 1.421413741) * T - 0.284496736) * T + 0.254829592) * T
        Y = sign(X) * (1 - P * exp(-A * A))"""
    return [
        Bench("broadcasting", "Add", "same dims", {"X": IMAGE, "B": normal(N, C, H, H, seed=1)}, {}, "Y = X + B",
              lambda X, B: X + B),
        Bench("broadcasting", "Add", "row", {"X": ROWS, "B": normal(256)}, {},
              "Y = matrix(matrix(X, rows=8192, cols=256) + t(B), rows=64, cols=32768)", lambda X, B: X + B),
        Bench("broadcasting", "Sub", "row on the left", {"B": normal(256), "X": ROWS}, {},
              "Y = matrix((-matrix(X, rows=8192, cols=256)) + t(B), rows=64, cols=32768)", lambda X, B: B - X),
        Bench("broadcasting", "Mul", "column, channels", {"X": IMAGE, "B": normal(C, 1, 1)}, {},
              f"Y = matrix({FLAT} * matrix(matrix(1, rows=8, cols=1) %*% t(B), rows=512, cols=1), {BACK})",
              lambda X, B: X * B),
        Bench("broadcasting", "Div", "column, rows", {"X": ROWS, "B": positive(64, 128, 1)}, {},
              "Y = matrix(matrix(X, rows=8192, cols=256) / matrix(B, rows=8192, cols=1), rows=64, cols=32768)",
              lambda X, B: X / B),
        Bench("broadcasting", "Add", "middle, mask", {"X": scores, "B": mask}, {},
              repeat.format("B") + "Y = matrix(matrix(X, rows=64, cols=16384) + M, rows=8, cols=131072)",
              lambda X, B: X + B),
        Bench("broadcasting", "Mul", "outer", {"X": normal(2048, 1), "B": normal(1, 1024)}, {},
              'Y = outer(X, B, "*")', lambda X, B: X * B),
        Bench("broadcasting", "Pow", "square", {**image, "B": np.float32(2)}, {}, "Y = X ^ 2", lambda X, B: X * X,
              ["B"]),
        Bench("unary", "Exp", "", image, {}, "Y = exp(X)", lambda X: np.exp(X)),
        Bench("unary", "Sqrt", "", {"X": positive(N, C, H, H)}, {}, "Y = sqrt(X)", lambda X: np.sqrt(X)),
        Bench("unary", "Tanh", "", image, {}, "Y = tanh(X)", lambda X: np.tanh(X)),
        Bench("unary", "Erf", "", image, {}, erf, None),
        Bench("unary", "Round", "", image, {}, """F = floor(X)
            D = X - F
            Y = F + (D > 0.5) + (D == 0.5) * ((F %% 2) != 0)""", lambda X: np.rint(X)),
        Bench("activation", "Relu", "", image, {}, "Y = max(X, 0)", lambda X: np.maximum(X, 0)),
        Bench("activation", "LeakyRelu", "", image, {}, "Y = max(X, 0.01 * X)", lambda X: np.maximum(X, 0.01 * X)),
        Bench("activation", "Sigmoid", "", image, {}, "Y = 1 / (1 + exp(-X))", sigmoid),
        Bench("activation", "HardSwish", "", image, {}, "Y = X * max(min(X / 6 + 0.5, 1), 0)",
              lambda X: X * np.clip(X / 6 + 0.5, 0, 1)),
        Bench("activation", "Softplus", "", image, {}, "Y = max(X, 0) + log(1 + exp(-abs(X)))",
              lambda X: np.logaddexp(X, 0)),
        Bench("activation", "Elu", "", image, {}, "Y = max(X, 0) + min(exp(X) - 1, 0)",
              lambda X: np.where(X > 0, X, np.expm1(X))),
        Bench("activation", "Gelu", "tanh", image, {"approximate": "tanh"},
              "Y = X * 0.5 * (1 + tanh(0.7978845608028654 * (X + 0.044715 * X ^ 3)))",
              lambda X: X * 0.5 * (1 + np.tanh(0.7978845608028654 * (X + 0.044715 * X**3))), opset=20),
        Bench("activation", "Gelu", "erf", image, {}, """Z = X * 0.7071067811865476
            A = abs(Z)
            T = 1 / (1 + 0.3275911 * A)
            P = ((((1.061405429 * T - 1.453152027) * T + 1.421413741) * T - 0.284496736) * T + 0.254829592) * T
            Y = X * (0.5 + 0.5 * sign(Z) * (1 - P * exp(-A * A)))""", None, opset=20),
        Bench("activation", "Clip", "", {**image, "low": np.float32(-1), "high": np.float32(1)}, {},
              "Y = min(max(X, -1), 1)", lambda X, low, high: np.clip(X, low, high), ["low", "high"]),
        Bench("comparison", "Greater", "", {"X": IMAGE, "B": normal(N, C, H, H, seed=1)}, {}, "Y = X > B",
              lambda X, B: X > B),
        Bench("comparison", "And", "", {"X": IMAGE > 0, "B": IMAGE > 1}, {}, "Y = X & B", lambda X, B: X & B),
        Bench("comparison", "Where", "", {"K": IMAGE > 0, "X": IMAGE, "B": normal(N, C, H, H, seed=1)}, {},
              "Y = ifelse(K, X, B)", lambda K, X, B: np.where(K, X, B)),
        Bench("comparison", "Where", "mask, scalar", {"K": mask > 1, "X": np.float32(-10), "B": scores}, {},
              repeat.format("K") + "Y = matrix(ifelse(M, -10, matrix(B, rows=64, cols=16384)), rows=8, cols=131072)",
              lambda K, X, B: np.where(K, X, B), ["X"]),
    ]  # fmt: skip


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
    ]  # fmt: skip


def movement() -> list[Bench]:
    """Transposes, cuts, joins, gathers, scatters, paddings, resizing."""
    rows, image = {"X": ROWS}, {"X": IMAGE}

    def transposed(note: str, array: Array, perm: list[int], idiom: str) -> Bench:
        return Bench("transpose", "Transpose", note, {"X": array}, {"perm": perm}, idiom,
                     lambda X: np.ascontiguousarray(X.transpose(perm)))  # fmt: skip

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
        Bench("resize", "Resize", "linear 2x, one product", resize, {"mode": "linear"}, both,
              lambda X, scales: weights_linear.T @ (X @ weights_linear), ["scales"],
              given={"W": np.kron(weights_linear, weights_linear)}, arguments=["X", "absent", "scales"]),
        Bench("resize", "Resize", "cubic 2x", resize, {"mode": "cubic"}, separable,
              lambda X, scales: weights_cubic.T @ (X @ weights_cubic), ["scales"], given={"W": weights_cubic},
              arguments=["X", "absent", "scales"]),
    ]  # fmt: skip



def windowed() -> list[Bench]:
    """Convolutions and pools."""

    def convolution(note: str, X: Array, W: Array, strides: list[int], pads: list[int], groups: int, idiom: str) -> Bench:
        attributes = {"strides": strides, "pads": [*pads, *pads], "group": groups}
        return Bench("convolution", "Conv", note, {"X": X, "W": W}, attributes, idiom,
                     lambda X, W: conv(X, W, strides, pads, groups), ["W"])  # fmt: skip

    call = "conv2d({}, {}, input_shape=[{}], filter_shape=[{}], stride=[{}, {}], padding=[{}, {}])"
    image1, image = normal(1, 64, 56, 56), normal(4, 64, 28, 28)
    grouped = "\n".join(
        [f"G{g} = X[, {g * 12544 + 1}:{g * 12544 + 12544}]\nF{g} = W[{g * 16 + 1}:{g * 16 + 16}, ]\n"
         + f"Y{g} = " + call.format(f"G{g}", f"F{g}", "4, 16, 28, 28", "16, 16, 3, 3", 1, 1, 1, 1) for g in range(4)]
        + ["Y = cbind(Y0, Y1, Y2, Y3)"])  # fmt: skip
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
    )  # fmt: skip
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
    ]  # fmt: skip


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
                  "R": normal(1, gates * width, width, seed=1) / 8}  # fmt: skip
        return Bench("recurrent", op_type, "32 steps, batch 16", inputs, {"hidden_size": width}, idiom, run, ["W", "R"],
                     given=given, opset=14, tolerance=1e-3)  # fmt: skip

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
    ]  # fmt: skip


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
             "overlap": np.array([0.5], np.float32)}  # fmt: skip
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
            }""", None, opset=20, tolerance=1e-3),
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
    ]  # fmt: skip


CASES = [
    *elementwise(), *reductions(), *movement(), *windowed(), *networks(), *signals()
]  # fmt: skip
