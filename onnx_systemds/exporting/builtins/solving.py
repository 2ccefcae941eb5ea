"""Determinants, inverses, solutions and Cholesky factors: elimination column by column in a Loop.

The engine stops at a matrix without inverse or factor; the model gives infinite numbers and NaN there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin, refuse
from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, Array, SubGraph, Tensor
from onnx_systemds.exporting.values import Matrix, Value
from onnx_systemds.inference.dims import Dim


@builtin("det")
def determinant(ctx: Context, target: Matrix) -> Value:
    """The determinant; by elimination in float64, for which onnxruntime has no kernel of Det."""
    g, x = ctx.g, _square(ctx, target, "det")
    if x.constant is not None:
        return ctx.scalar(g.number(float(np.linalg.det(x.constant))))
    if g.dtype == "float32":
        return ctx.scalar(g.node("Det", [x], ()))
    places = g.count(0, x.dims[0])

    def step(k: Tensor, rows: Tensor, found: Tensor) -> list[Tensor]:
        rows, moved = _with_pivot(ctx, rows, k, places)
        row = g.gather(rows, k, 0)
        pivot = g.gather(row, k, 0)
        turned = g.where(g.binary("Equal", moved, k), pivot, g.unary("Neg", pivot))
        # where no pivot is left the product is 0, whatever comes
        divisor = g.where(g.binary("Equal", pivot, g.number(0.0)), g.number(1.0), pivot)
        return [_eliminated(ctx, rows, k, g.binary("Div", row, divisor), places), g.binary("Mul", found, turned)]

    return ctx.scalar(_looped(ctx, x.dims[0], [x, g.number(1.0)], step)[1])


@builtin("inv", "inverse")
def inverse(ctx: Context, target: Matrix) -> Value:
    """The inverse of a square matrix."""
    x = _square(ctx, target, "inv")
    if x.constant is not None:
        return ctx.matrix(ctx.g.constant(_calculated("inv", np.linalg.inv, x.constant), FLOAT))
    return ctx.matrix(_solved(ctx, x, ctx.g.node("EyeLike", [x], x.dims)))


@builtin("solve")
def solution(ctx: Context, a: Matrix, b: Matrix) -> Value:
    """The solution of ``a %*% x = b`` for a square matrix."""
    x, y = _square(ctx, a, "solve"), ctx.flat(b)
    if isinstance(a.rows, int) and isinstance(b.rows, int) and a.rows != b.rows:
        raise UnsupportedCase(f"solve of {a} and {b}: their rows differ")
    if x.constant is not None and y.constant is not None:
        return ctx.matrix(ctx.g.constant(_calculated("solve", np.linalg.solve, x.constant, y.constant), FLOAT))
    return ctx.matrix(_solved(ctx, x, y))


@builtin("cholesky")
def cholesky_factor(ctx: Context, target: Matrix) -> Value:
    """The lower triangle L for which ``L %*% t(L)`` is a symmetric, positive definite matrix."""
    g, x = ctx.g, _square(ctx, target, "cholesky")
    if x.constant is not None:
        return ctx.matrix(g.constant(_calculated("cholesky", np.linalg.cholesky, x.constant), FLOAT))
    size = x.dims[0]
    places = g.count(0, size)

    def step(k: Tensor, rest: Tensor, found: Tensor) -> list[Tensor]:
        column = g.gather(rest, k, 1)
        scaled = g.binary("Div", column, g.unary("Sqrt", g.gather(column, k, 0)))
        own = g.reshape(g.where(g.binary("Less", places, k), g.number(0.0), scaled), (size, 1))
        less = g.binary("Sub", rest, g.matmul(own, g.reshape(own, (1, size))))
        here = g.reshape(g.binary("Equal", places, k), (1, size))
        return [less, g.where(here, own, found)]

    return ctx.matrix(_looped(ctx, size, [x, g.filled(0.0, x.dims)], step)[1])


def _square(ctx: Context, matrix: Matrix, function: str) -> Tensor:
    rows, cols = matrix.dims
    if isinstance(rows, int) and isinstance(cols, int) and rows != cols:
        hint = "least squares are solve(t(A) %*% A, t(A) %*% b)" if function == "solve" else ""
        raise UnsupportedCase(f"{function} of {matrix}, which is not square", hint=hint)
    size = rows if isinstance(rows, int) else cols
    return ctx.viewed(matrix, (size, size))


def _calculated(function: str, operation: Callable[..., Array], *matrices: Array) -> Array:
    try:
        return operation(*matrices)
    except np.linalg.LinAlgError as error:
        raise UnsupportedCase(f"{function} of a known matrix: {error}") from None


def _solved(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Return what the elimination of `a` makes of `b`; the pivots are the largest of their columns."""
    g, size = ctx.g, a.dims[0]
    places = g.count(0, size)

    def step(k: Tensor, rows: Tensor) -> list[Tensor]:
        rows, _ = _with_pivot(ctx, rows, k, places)
        row = g.gather(rows, k, 0)
        return [_eliminated(ctx, rows, k, g.binary("Div", row, g.gather(row, k, 0)), places)]

    both = _looped(ctx, size, [g.concat([a, b], 1)], step)[0]
    return g.slice(both, 1, size, None)


def _with_pivot(ctx: Context, rows: Tensor, k: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Exchange row `k` for the one below with the largest element in column `k`; return the rows and its place."""
    g = ctx.g
    sizes = g.unary("Abs", g.gather(rows, k, 1))
    left = g.where(g.binary("Less", places, k), g.number(-1.0), sizes)
    largest = g.node("ArgMax", [left], (), INT, axis=0, keepdims=0)
    order = g.where(g.binary("Equal", places, largest), k, places)
    order = g.where(g.binary("Equal", places, k), largest, order)
    return g.gather(rows, order, 0), largest


def _eliminated(ctx: Context, rows: Tensor, k: Tensor, scaled: Tensor, places: Tensor) -> Tensor:
    """Return the rows with zeros in column `k`, and in row `k` the scaled one."""
    g, (size, width) = ctx.g, rows.dims
    factors = g.reshape(g.gather(rows, k, 1), (size, 1))
    row = g.reshape(scaled, (1, width))
    here = g.reshape(g.binary("Equal", places, k), (size, 1))
    return g.where(here, row, g.binary("Sub", rows, g.binary("Mul", factors, row)))


def _looped(
    ctx: Context, count: Dim, start: list[Tensor], step: Callable[..., list[Tensor]]
) -> tuple[Tensor, ...]:
    """Return what `count` runs of a step make of tensors: it takes the number of the run and the tensors."""
    g = ctx.g
    with g.subgraph() as scope:
        k, going = g.state(INT, (), "k"), g.state(BOOL, (), "going")
        states = [g.state(tensor.kind, tensor.dims, tensor.hint) for tensor in start]
        outputs = g.own([going, *step(k, *states)])
    body = SubGraph(scope, (k, going, *states), tuple(outputs))
    trips = g.reshape(g.size_tensor(count), ())
    kinds = [(tensor.kind, tensor.dims) for tensor in start]
    return g.nodes("Loop", [trips, g.constant(True), *start], kinds, body=body)


_FACTORS = "ONNX has no operator that decomposes a matrix"
refuse("eigen", "svd", "lu", "qr", "sqrtMatrixJava", reason=_FACTORS, hint="decompose it before, and bind the factors")
