"""Eigenvalues and singular values by Jacobi's rotations, on request: a fixed number of steps in a Loop.

Each step rotates the columns of one half against those of the other, pair by pair, and then permutes the columns, so
that after a sweep each pair has been rotated. An odd number of columns is padded by a column of zeros.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.ranks import ascending
from onnx_systemds.exporting.builtins.solving import checked_square, householder_qr, reflected_by, repeated
from onnx_systemds.exporting.graph.formulas import where
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.known_dims import as_int, as_ints

LARGEST = 64
"""The most columns of a matrix that is decomposed."""
_SWEEPS = {"float32": 8, "float64": 10}


@builtin("eigen")
def eigenvalues(ctx: Context, target: Matrix) -> tuple[Value, ...]:
    """Ascending eigenvalues and their eigenvectors of a symmetric matrix; NaN for others. Only with `--iterative`."""
    g, x = ctx.g, checked_square(ctx, target, "eigen")
    if x.constant is not None:
        if not np.allclose(x.constant, x.constant.T):
            raise UnsupportedCase("eigen of a known matrix that is not symmetric")
        return tuple(ctx.matrix(g.constant(each.reshape(len(each), -1), FLOAT)) for each in np.linalg.eigh(x.constant))
    size = _rotated_columns(ctx, "eigen", x.dims[0])
    even = size + size % 2
    diagonal = g.constant(np.eye(even, dtype=bool))
    pairs = g.constant(np.eye(even, k=even // 2, dtype=bool))

    def step(_: Tensor, rest: Tensor, vectors: Tensor) -> list[Tensor]:
        own, shared = (_picked(ctx, rest, places) for places in (diagonal, pairs))
        rotated = _rotation(ctx, own, g.slice(shared, 1, even // 2, None))
        return [rotated(g.transpose(rotated(rest), (1, 0))), rotated(vectors)]

    padded = _with_zeros(ctx, _with_zeros(ctx, x, even - size, 1), even - size, 0)
    rest, vectors = repeated(ctx, _steps(ctx, even), [padded, g.constant(np.eye(even), FLOAT)], step)
    values, order = ascending(ctx, g.reshape(g.slice(_picked(ctx, rest, diagonal), 1, 0, size), (size,)), 0)
    found = g.reshape(values, (size, 1)), g.gather(g.slice(vectors, 0, 0, size), order, 1)
    symmetric = _is_symmetric(ctx, x)
    return tuple(ctx.matrix(g.where(symmetric, each, np.nan)) for each in found)


@builtin("svd")
def singular_values(ctx: Context, target: Matrix) -> tuple[Value, ...]:
    """The SVD ``A = U %*% S %*% t(V)``, with descending singular values. Only with `--iterative`."""
    g, x = ctx.g, ctx.flat(target)
    if x.constant is not None:
        u, s, v = np.linalg.svd(x.constant, full_matrices=False)
        return tuple(ctx.matrix(g.constant(each, FLOAT)) for each in (u, np.diag(s), v.T))
    size = _rotated_columns(ctx, "svd", *x.dims)
    if x.dims[1] == size:
        return tuple(map(ctx.matrix, _of_columns(ctx, x, size)))
    return tuple(map(ctx.matrix, reversed(_of_columns(ctx, g.transpose(x, (1, 0)), size))))


def _of_columns(ctx: Context, x: Tensor, size: int) -> tuple[Tensor, ...]:
    """Return U, S and V of a matrix that has no more columns than rows."""
    g, even = ctx.g, size + size % 2

    def step(_: Tensor, rest: Tensor, vectors: Tensor) -> list[Tensor]:
        left, right = (g.slice(rest, 1, *ends) for ends in ((0, even // 2), (even // 2, None)))
        rotated = _rotation(ctx, _sums(ctx, rest, rest), _sums(ctx, left, right))
        return [rotated(rest), rotated(vectors)]

    start = [_with_zeros(ctx, x, even - size, 1), g.constant(np.eye(even), FLOAT)]
    rest, vectors = repeated(ctx, _steps(ctx, even), start, step)
    rest, vectors = g.slice(rest, 1, 0, size), g.slice(g.slice(vectors, 0, 0, size), 1, 0, size)
    _, order = ascending(ctx, g.reshape(_sums(ctx, rest, rest), (size,)), 0, turned=True)
    # by reflections, so that the columns of U are orthonormal also where singular values are 0
    mirrors, triangle = householder_qr(ctx, g.gather(rest, order, 1))
    diagonal = g.constant(np.eye(size, dtype=bool))
    signed = _picked(ctx, g.slice(triangle, 0, 0, size), diagonal)
    signs = g.where(signed < 0.0, -1.0, signed.of(1.0))
    u = _orthonormal(ctx, mirrors, size) * signs
    s = g.where(diagonal, abs(signed), 0.0)
    return u, s, g.gather(vectors, order, 1)


def _orthonormal(ctx: Context, mirrors: Tensor, size: int) -> Tensor:
    """Return the first columns of the product of reflections."""
    g = ctx.g

    def step(k: Tensor, found: Tensor) -> list[Tensor]:
        place = g.constant(size - 1) - k
        vector = g.gather(mirrors, place, 1)
        own = g.gather(vector, place, 0)
        reflected = reflected_by(ctx, g.reshape(vector, (mirrors.dims[0], 1)), own, found)
        # a column of zeros was not reflected
        return [g.where(abs(own) < np.inf, reflected, found)]

    return repeated(ctx, size, [g.node("EyeLike", [mirrors], mirrors.dims)], step)[0]


def _rotation(ctx: Context, own: Tensor, shared: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function that makes the pairs of columns orthogonal and moves each column to its next position.

    own: products of all columns with themselves. shared: those of the first half with the second half.
    """
    g, half = ctx.g, as_int(own.dims[1]) // 2
    both, second, first = shared, g.slice(own, 1, half, None), g.slice(own, 1, 0, half)
    slope = (second - first) / (both + both)
    root = (1.0 + slope * slope).root()
    tangent = 1.0 / (abs(slope) + root)
    tangent = where(slope < 0.0, -tangent, tangent)
    tangent = where(both.equals(0.0), 0.0, tangent)
    cosine = 1.0 / (1.0 + tangent * tangent).root()
    sine = tangent * cosine
    positions = g.constant(_next_positions(half))

    def rotated(matrix: Tensor) -> Tensor:
        left, right = (g.slice(matrix, 1, *ends) for ends in ((0, half), (half, None)))
        parts = left * cosine - right * sine, left * sine + right * cosine
        return g.gather(g.concat(parts, 1), positions, 1)

    return rotated


def _next_positions(half: int) -> list[int]:
    """Return the permutation of a round-robin tournament: all columns but the first move on by one position."""
    top, bottom = list(range(half)), list(range(half, 2 * half))
    return [top[0], *([bottom[0], *top[1:-1], *bottom[1:], top[-1]] if half > 1 else bottom)]


def _steps(ctx: Context, even: int) -> int:
    """Return the number of steps of all sweeps."""
    return _SWEEPS[ctx.g.dtype] * (even - 1)


def _sums(ctx: Context, left: Tensor, right: Tensor) -> Tensor:
    """Return the dot products of the columns as a row."""
    return ctx.g.reduce("ReduceSum", left * right, (0,))


def _picked(ctx: Context, x: Tensor, places: Tensor) -> Tensor:
    """Return the element of each column that `places` (bool) marks, 0 if there is none."""
    return ctx.g.reduce("ReduceSum", ctx.g.where(places, x, 0.0), (0,))


def _with_zeros(ctx: Context, x: Tensor, count: int, axis: int) -> Tensor:
    """Return a matrix padded with zeros at the end of an axis."""
    dims = x.dims_with(axis, count)
    return ctx.g.concat([x, ctx.g.filled(0.0, dims)], axis) if count else x


def _is_symmetric(ctx: Context, x: Tensor) -> Tensor:
    """Return whether a matrix equals its transpose up to rounding (bool)."""
    g = ctx.g
    difference = abs(x - g.transpose(x, (1, 0)))
    largest, most = (g.reduce("ReduceMax", each, (0, 1), keepdims=False) for each in (difference, abs(x)))
    allowed = 100 * LARGEST * float(np.finfo(g.dtype).eps)
    return largest <= most * allowed


def _rotated_columns(ctx: Context, function: str, *dims: Dim) -> int:
    """Return the number of columns to rotate, the smallest of the sizes.

    Raises UnsupportedCase without `--iterative`, for unknown sizes, and for more than `LARGEST` columns.
    """
    if not ctx.iterative:
        raise UnsupportedCase(f"{function} is no operator of ONNX and needs an iterative algorithm",
                              hint="give --iterative to export it by rotations, or bind its results")
    sizes = as_ints(dims)
    if sizes is None:
        raise UnsupportedCase(f"{function} of a matrix of which only the run knows the size",
                              hint="give its sizes: --input NAME=double[8,8]")
    size = min(sizes)
    if size > LARGEST:
        raise UnsupportedCase(f"{function} of {size} columns, and {LARGEST} are possible", hint="bind its results")
    return size
