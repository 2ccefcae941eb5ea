"""Determinants, inverses, solutions and factors: elimination or reflection column by column in a Loop.

The engine stops at a matrix without inverse or factor; the model gives infinite numbers and NaN there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Tensor, Value, builtin, refuse
from onnx_systemds.exporting.builtins.blocked_solving import SMALLEST, solved_in_blocks
from onnx_systemds.exporting.graph.nodes import Array
from onnx_systemds.inference.dims import Dim, minimum
from onnx_systemds.inference.known_dims import differ


@builtin("det")
def determinant(ctx: Context, target: Matrix) -> Value:
    """The determinant; in float64 by elimination, because onnxruntime has no kernel of Det for it."""
    g, x = ctx.g, checked_square(ctx, target, "det")
    if x.constant is not None:
        return ctx.scalar(g.number(float(np.linalg.det(x.constant))))
    if g.dtype == "float32":
        return ctx.scalar(g.node("Det", [x], ()))
    places = g.count(0, x.dims[0])

    def step(k: Tensor, rows: Tensor, found: Tensor) -> list[Tensor]:
        rows, moved = _with_pivot(ctx, rows, k, places)
        row = g.gather(rows, k, 0)
        pivot = g.gather(row, k, 0)
        turned = g.where(moved.equals(k), pivot, -pivot)
        # where no pivot is left the product is 0, whatever comes
        divisor = g.where(pivot.equals(0.0), 1.0, pivot)
        return [_eliminated(ctx, rows, k, row / divisor, places), found * turned]

    return ctx.scalar(repeated(ctx, x.dims[0], [x, g.number(1.0)], step)[1])


@builtin("inv", "inverse")
def inverse(ctx: Context, target: Matrix) -> Value:
    """The inverse of a square matrix."""
    x = checked_square(ctx, target, "inv")
    if x.constant is not None:
        return ctx.matrix(ctx.g.constant(computed("inv", np.linalg.inv, x.constant), FLOAT))
    return ctx.matrix(_solved(ctx, x, ctx.g.node("EyeLike", [x], x.dims)))


@builtin("solve")
def linear_solution(ctx: Context, a: Matrix, b: Matrix, /) -> Value:
    """The solution of ``a %*% x = b`` for a square matrix a."""
    x, y = checked_square(ctx, a, "solve"), ctx.flat(b)
    if differ(a.rows, b.rows):
        raise UnsupportedCase(f"solve of {a} and {b}: their rows differ")
    if x.constant is not None and y.constant is not None:
        return ctx.matrix(ctx.g.constant(computed("solve", np.linalg.solve, x.constant, y.constant), FLOAT))
    return ctx.matrix(_solved(ctx, x, y))


@builtin("cholesky")
def cholesky_factor(ctx: Context, target: Matrix) -> Value:
    """The Cholesky factor: the lower triangle L with ``L %*% t(L) = target``."""
    g, x = ctx.g, checked_square(ctx, target, "cholesky")
    if x.constant is not None:
        return ctx.matrix(g.constant(computed("cholesky", np.linalg.cholesky, x.constant), FLOAT))
    size = x.dims[0]
    places = g.count(0, size)

    def step(k: Tensor, rest: Tensor, found: Tensor) -> list[Tensor]:
        column = g.gather(rest, k, 1)
        scaled = column / g.gather(column, k, 0).root()
        own = g.reshape(g.where(places < k, 0.0, scaled), (size, 1))
        less = rest - g.matmul(own, g.reshape(own, (1, size)))
        here = g.reshape(places.equals(k), (1, size))
        return [less, g.where(here, own, found)]

    return ctx.matrix(repeated(ctx, size, [x, g.filled(0.0, x.dims)], step)[1])


@builtin("lu")
def lu_decomposition(ctx: Context, target: Matrix) -> tuple[Value, ...]:
    """The LU decomposition with pivoting: ``P %*% A = L %*% U``."""
    g, x = ctx.g, checked_square(ctx, target, "lu")
    size = x.dims[0]
    places, columns = g.count(0, size), g.count(0, size * 2)
    eye = g.node("EyeLike", [x], x.dims)

    def step(k: Tensor, rows: Tensor) -> list[Tensor]:
        rows, _ = _with_pivot(ctx, rows, k, places)
        row, column = g.gather(rows, k, 0), g.gather(rows, k, 1)
        under = g.reshape(places > k, (size, 1))
        factors = g.reshape(column / g.gather(row, k, 0), (size, 1))
        beside = (columns > k) & (columns < g.size_tensor(size))
        less = rows - factors * g.where(beside, row, 0.0)
        found = g.where(columns.equals(k), factors, less)
        return [g.where(under, found, rows)]

    both = repeated(ctx, size, [g.concat([x, eye], 1)], step)[0]
    factors = g.slice(both, 1, 0, size)
    lower = g.reshape(places, (size, 1)) > places
    triangles = g.where(lower, factors, eye), g.where(lower, 0.0, factors)
    return tuple(ctx.matrix(each) for each in (g.slice(both, 1, size, None), *triangles))


@builtin("qr")
def qr_decomposition(ctx: Context, target: Matrix) -> tuple[Value, ...]:
    """The QR decomposition as the engine returns it: the Householder vectors H and the upper triangle R."""
    return tuple(map(ctx.matrix, householder_qr(ctx, ctx.flat(target))))


def householder_qr(ctx: Context, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the vectors of reflections, scaled as the engine has them, and the triangle that they make of `x`.

    A column of zeros is not reflected; its vector is NaN, or infinite where only its squares are 0, as the engine's.
    """
    g, (rows, cols) = ctx.g, x.dims
    places, columns = g.count(0, rows), g.reshape(g.count(0, cols), (1, cols))

    def step(k: Tensor, rest: Tensor, found: Tensor) -> list[Tensor]:
        column = g.gather(rest, k, 1)
        below = g.where(places < k, 0.0, column)
        norm = g.reduce("ReduceSum", below * below, (0,), keepdims=False).root()
        pivot = g.gather(column, k, 0)
        turned = g.where(pivot > 0.0, -norm, norm)
        here = places.equals(k)
        vector = g.where(here, pivot - turned, below)
        reduced = g.where(here, turned, g.where(places > k, 0.0, column))
        scaled = vector / -turned
        own = g.reshape(g.where(places < k, 0.0, scaled), (rows, 1))
        less = g.where(turned.equals(0.0), rest, reflected_by(ctx, own, g.gather(own, k, 0), rest))
        at_k = columns.equals(k)
        return [g.where(at_k, g.reshape(reduced, (rows, 1)), less), g.where(at_k, own, found)]

    triangle, vectors = repeated(ctx, minimum(rows, cols), [x, g.filled(0.0, x.dims)], step)
    return vectors, triangle


def reflected_by(ctx: Context, vector: Tensor, own: Tensor, matrix: Tensor) -> Tensor:
    """Return what the reflection at a vector, whose element on the diagonal is `own`, makes of a matrix."""
    g = ctx.g
    shares = g.matmul(g.transpose(vector, (1, 0)), matrix)
    return matrix - g.matmul(vector, shares / own)


def checked_square(ctx: Context, matrix: Matrix, function: str) -> Tensor:
    """Return a square matrix. Raises UnsupportedCase for one that is known not to be square."""
    rows, cols = matrix.dims
    if differ(rows, cols):
        hint = "least squares are solve(t(A) %*% A, t(A) %*% b)" if function == "solve" else ""
        raise UnsupportedCase(f"{function} of {matrix}, which is not square", hint=hint)
    size = rows if isinstance(rows, int) else cols
    return ctx.viewed(matrix, (size, size))


def computed(function: str, operation: Callable[..., Array], *matrices: Array) -> Array:
    """Return the result for known matrices. Raises UnsupportedCase where there is none."""
    try:
        return operation(*matrices)
    except np.linalg.LinAlgError as error:
        raise UnsupportedCase(f"{function} of a known matrix: {error}") from None


def _solved(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Return what the elimination of `a` makes of `b`; the pivots are the largest of their columns."""
    g, (size, _), width = ctx.g, a.dims, a.dims[0] + b.dims[1]
    if isinstance(size, int) and size >= SMALLEST:
        return solved_in_blocks(ctx, a, b, size, _solved)
    places = g.count(0, size)

    def step(k: Tensor, rows: Tensor) -> list[Tensor]:
        rows, _ = _with_pivot(ctx, rows, k, places)
        row = g.gather(rows, k, 0)
        shares = g.gather(rows, k, 1) / g.gather(row, k, 0)
        shares = g.where(places.equals(k), 0.0, shares)
        return [rows - g.reshape(shares, (size, 1)) * g.reshape(row, (1, width))]

    both = repeated(ctx, size, [g.concat([a, b], 1)], step)[0]
    diagonal = g.reduce("ReduceSum", g.slice(both, 1, 0, size) * g.node("EyeLike", [a], a.dims), (1,))
    return g.slice(both, 1, size, None) / diagonal


def _with_pivot(ctx: Context, rows: Tensor, k: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Exchange row `k` for the one below with the largest element in column `k`; return the rows and its place."""
    g = ctx.g
    sizes = abs(g.gather(rows, k, 1))
    left = g.where(places < k, -1.0, sizes)
    largest = g.node("ArgMax", [left], (), INT, axis=0, keepdims=0)
    order = g.where(places.equals(largest), k, places)
    order = g.where(places.equals(k), largest, order)
    return g.gather(rows, order, 0), largest


def _eliminated(ctx: Context, rows: Tensor, k: Tensor, scaled: Tensor, places: Tensor) -> Tensor:
    """Return the rows with zeros in column `k`, and in row `k` the scaled one."""
    g, (size, width) = ctx.g, rows.dims
    factors = g.reshape(g.gather(rows, k, 1), (size, 1))
    row = g.reshape(scaled, (1, width))
    here = g.reshape(places.equals(k), (size, 1))
    return g.where(here, row, rows - factors * row)


def repeated(ctx: Context, count: Dim, start: list[Tensor], step: Callable[..., list[Tensor]]) -> tuple[Tensor, ...]:
    """Return what `count` runs of a step make of tensors: it takes the number of the run and the tensors."""
    trips = ctx.g.size_number(count)
    return ctx.g.loop(trips, start, lambda k, going, *states: [going, *step(k, *states)])


refuse("sqrtMatrixJava", reason="ONNX has no operator that decomposes a matrix", hint="bind the root")
