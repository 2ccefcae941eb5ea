"""Tensors of zeros with a few other elements, which the engine stores as sparse matrices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def scattered(rng: np.random.Generator, dims: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """Zeros and a few other numbers, all ordinary, whole, halves, large, tiny or not finite, or some of each."""
    if kind.kind in "iu":
        numbers = _integers(rng, dims, kind)
    else:
        limits = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
        numbers = _reals(rng, dims, float(limits.max), float(limits.smallest_normal))
    with np.errstate(over="ignore"):
        return np.asarray(np.where(_places(rng, dims), numbers, np.zeros((), numbers.dtype)), kind)


def _places(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    """Where elements differ from zero: at random, on some rows or columns, once a row, once, or nowhere."""
    rows = dims[0] if dims else 1
    matrix = np.zeros((rows, int(np.prod(dims[1:]))), bool)
    drawn = rng.random()
    if drawn < 0.5:
        matrix[:] = rng.random(matrix.shape) < rng.choice([0.01, 0.05, 0.05, 0.2, 0.35])
    elif drawn < 0.6:
        matrix[rng.random(rows) < 0.2] = True
    elif drawn < 0.7:
        matrix[:, rng.random(matrix.shape[1]) < 0.1] = True
    elif drawn < 0.85 and matrix.size:
        matrix[np.arange(rows), rng.integers(0, matrix.shape[1], rows)] = True
    elif drawn < 0.95 and matrix.size:
        matrix.flat[rng.integers(matrix.size)] = True
    return matrix.reshape(dims)


def _reals(rng: np.random.Generator, dims: tuple[int, ...], most: float, least: float) -> Array:
    ordinary = np.asarray(rng.standard_normal(dims))
    drawn = rng.random()
    if drawn < 0.3:
        return ordinary
    if drawn < 0.4:
        return np.asarray(np.round(ordinary * 3) * rng.choice([1.0, 0.5]))
    edges = np.asarray(
        [np.nan, np.inf, -np.inf, -0.0, most, -most, least, least / 4, 0.5, 1.5, 2.5, 2.0**31, -(2.0**53) + 1]
    )
    chosen = edges[
        rng.choice([[0, 1, 2], [0, 0, 0], [1, 1, 2], [3, 3, 3], [4, 5, 5], [6, 7, 3], [8, 9, 10], [11, 11, 12]])
    ]
    return np.where(rng.random(dims) < rng.choice([0.3, 1.0]), rng.choice(chosen, dims), ordinary)


def _integers(rng: np.random.Generator, dims: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    limits = np.iinfo(kind)
    edges = [limits.max, limits.min, 2**31, 2**53 - 1, -(2**53) + 1]
    fitting = np.asarray([edge for edge in edges if abs(edge) <= 2**53 and limits.min <= edge <= limits.max], np.int64)
    small = rng.integers(0 if limits.min == 0 else -9, 10, dims)
    is_large = rng.random(dims) < (0.5 if rng.random() < 0.3 else 0)
    return np.where(is_large, rng.choice(fitting, dims), small)
