"""The operators in numpy that need more than an expression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.operator_cases.bench import Array


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
    order = np.argsort(-s, kind="stable")
    kept: list[tuple[int, int, int]] = []
    while order.size and len(kept) < 100:
        first, order = order[0], order[1:]
        kept.append((0, 0, first))
        low = np.maximum(B[first, :2], B[order, :2])
        high = np.minimum(B[first, 2:], B[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), 1)
        order = order[shared <= 0.5 * (area[first] + area[order] - shared)]
    return np.array(kept)


def bilinear(X: Array, grid: Array) -> Array:
    """Samples of square images at the positions of a grid from -1 to 1, zeros outside."""
    size = X.shape[2]
    P = ((grid + 1) * size - 1) / 2
    low = np.floor(P).astype(np.int64)
    T = P - low
    padded = np.pad(X, [(0, 0), (0, 0), (1, 1), (1, 1)])
    samples = np.arange(len(X))[:, None, None]
    Y = np.zeros((X.shape[0], *grid.shape[1:3], X.shape[1]))
    for down in (0, 1):
        for right in (0, 1):
            weight = np.where(right, T[..., 0], 1 - T[..., 0]) * np.where(down, T[..., 1], 1 - T[..., 1])
            at = np.clip(low + np.array([right, down]) + 1, 0, size + 1)
            Y += weight[..., None] * padded[samples, :, at[..., 1], at[..., 0]]
    return np.moveaxis(Y, -1, 1)
