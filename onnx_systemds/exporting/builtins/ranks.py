"""Elements by their rank or place: quantiles, medians, triangles."""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import builtin
from onnx_systemds.exporting.graph.nodes import FLOAT, INT, Tensor
from onnx_systemds.exporting.values import Matrix, Scalar, Value
from onnx_systemds.inference.dims import Dim


def _sorted(ctx: Context, key: Tensor) -> Tensor:
    """Return the elements of a tensor of rank 1 in order."""
    g, size = ctx.g, key.dims[0]
    if key.constant is not None:
        return g.constant(np.sort(key.constant), FLOAT)
    outputs: list[tuple[str, tuple[Dim, ...]]] = [(FLOAT, (size,)), (INT, (size,))]
    return g.nodes("TopK", [key, g.size_tensor(size)], outputs, axis=0, largest=0, sorted=1)[0]


@builtin("quantile")
def quantile(ctx: Context, x: Matrix, p: Value, q: Value | None = None) -> Value:
    """The element of a column at a share of its sorted elements; for one share of an even number the middle of two."""
    if q is not None:
        raise UnsupportedCase("a quantile with weights", hint="repeat the elements instead")
    if isinstance(p, Matrix) and p.constant is not None:
        picked = [_picked(ctx, x, float(share), middle=False) for share in p.constant.ravel()]
        return ctx.matrix(ctx.g.concat([ctx.g.reshape(t, (1, 1)) for t in picked], 0))
    if not isinstance(p, Scalar) or not isinstance(p.known, (bool, int, float)):
        raise UnsupportedCase("the share of a quantile must be known when the script is exported")
    return ctx.scalar(_picked(ctx, x, float(p.known), middle=True))


@builtin("median")
def median(ctx: Context, x: Matrix, w: Value | None = None) -> Value:
    """The middle element of a column, or the middle of the two there."""
    if w is not None:
        raise UnsupportedCase("a median with weights", hint="repeat the elements instead")
    return ctx.scalar(_picked(ctx, x, 0.5, middle=True))


@builtin("interQuartileMean")
def interquartile_mean(ctx: Context, x: Matrix, w: Value | None = None) -> Value:
    """The mean of the middle half of a column; the elements at its ends count in part."""
    if w is not None:
        raise UnsupportedCase("a mean with weights", hint="repeat the elements instead")
    size = _known_size(x)
    first, last = math.ceil(0.25 * size), math.ceil(0.75 * size)
    shares = np.zeros(size)
    shares[first:last] = 1
    shares[first - 1] += first - 0.25 * size
    shares[last - 1] -= last - 0.75 * size
    g = ctx.g
    weighted = g.binary("Mul", _sorted(ctx, ctx.column(x)), g.constant(shares / (0.5 * size), FLOAT))
    return ctx.scalar(g.reduce("ReduceSum", weighted, (0,), keepdims=False))


def _known_size(x: Matrix) -> int:
    if not isinstance(x.rows, int):
        hint = "give the input a number of rows"
        raise UnsupportedCase(f"a quantile of {x.rows} elements: their number must be known", hint=hint)
    return x.rows


def _picked(ctx: Context, x: Matrix, share: float, middle: bool) -> Tensor:
    """Return the element at a share, with the next one if `middle` and the number of elements is even."""
    g, size = ctx.g, _known_size(x)
    place = math.ceil(share * size)
    ordered = _sorted(ctx, ctx.column(x))
    found = g.slice(ordered, 0, max(place, 1) - 1, max(place, 1))
    if not middle or size % 2 or not 1 <= place < size:
        return found
    both = g.binary("Mul", g.binary("Add", found, g.slice(ordered, 0, place, place + 1)), g.number(0.5))
    # the engine sorts all zeros into one row, and takes the middle only before the last row
    filled = g.reduce("ReduceSum", g.cast(g.truth(ordered), INT), (0,))
    return g.where(g.binary("Greater", filled, g.constant([place])), both, found)


@builtin("lower.tri")
def lower_triangle(ctx: Context, target: Matrix, diag: bool = False, values: bool = False) -> Value:
    """The elements below the diagonal, or 1 for each of them."""
    return _triangle(ctx, target, 0, diag, values)


@builtin("upper.tri")
def upper_triangle(ctx: Context, target: Matrix, diag: bool = False, values: bool = False) -> Value:
    """The elements above the diagonal, or 1 for each of them."""
    return _triangle(ctx, target, 1, diag, values)


def _triangle(ctx: Context, target: Matrix, upper: int, diag: bool, values: bool) -> Value:
    g = ctx.g
    x = ctx.flat(target) if values else g.filled(1.0, target.dims)
    beside = 0 if diag else 1 if upper else -1
    found = g.node("Trilu", [x, g.constant(np.int64(beside))], x.dims, upper=upper)
    return ctx.matrix(found)
