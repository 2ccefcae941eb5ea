"""Images and matrices that converted models interpolate: the products with weights are a Resize again.

NaN and infinities are those of Resize, which multiplies neighbours by weights that may be 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from onnx_systemds.exporting.builtins.api import Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.graph.nodes import Array
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.operators.onnx.interpolation import Resampling, positions, weights

_COORDINATES = ("half_pixel", "align_corners", "asymmetric")
_CUBIC = (-0.75, -0.5)
_WHOLE = (0.0, 1.0)
_EXACT = 1e-9
_AXES_SINCE = 18
_LARGEST = 1 << 20


@template_function("interpolated_planes")
def interpolated_planes(ctx: Context, X: Matrix, A: Matrix, B: Matrix) -> Value | None:
    """Each plane resized, where the weights are those of a Resize."""
    height, width = (_way(weight) for weight in (A, B))
    count = _quotient(X.rows, A.rows)
    if count is None or height is None or width is None:
        return None
    for how in height:
        if how in width:
            image = _planes(ctx, X, count, (A.rows, B.rows))
            resized = _resized(ctx, image, (*image.dims[:2], A.cols, B.cols), how)
            return None if resized is None else Matrix(resized, count, product((A.cols, B.cols)))
    return None


@template_function("interpolated_columns")
def interpolated_columns(ctx: Context, X: Matrix, W: Matrix) -> Value | None:
    """The elements of each row resized, where the weights are those of a Resize."""
    return _matrix(ctx, X, W, (X.rows, W.cols))


@template_function("interpolated_rows")
def interpolated_rows(ctx: Context, X: Matrix, W: Matrix) -> Value | None:
    """The elements of each column resized, where the weights are those of a Resize."""
    return _matrix(ctx, X, W, (W.cols, X.cols))


def _matrix(ctx: Context, x: Matrix, weight: Matrix, dims: tuple[Dim, Dim]) -> Matrix | None:
    """Return a matrix resized to these dims, one of which is its own; None where these are no weights of a Resize."""
    found = _way(weight)
    if not found or as_ints(x.dims) is None:
        return None
    resized = _resized(ctx, ctx.viewed(x, (1, 1, *x.dims)), (1, 1, *dims), found[0])
    return None if resized is None else Matrix(resized, *dims)


def _planes(ctx: Context, x: Matrix, count: Dim, size: Dims) -> Tensor:
    """Return planes as images, those of the matrix where it has such."""
    dims = x.tensor.dims
    if len(dims) == 4 and dims[2:] == size:
        return ctx.floats(x)
    return ctx.viewed(x, (1, count, *size) if isinstance(count, int) else (count, 1, *size))


def _resized(ctx: Context, image: Tensor, dims: Dims, how: Resampling) -> Tensor | None:
    g, sizes = ctx.g, as_ints(image.dims[2:])
    if g.dtype == "float64" or sizes is None:
        return None
    attributes: dict[str, Any] = {"mode": how.mode, "coordinate_transformation_mode": how.coordinates}
    if how.mode == "cubic":
        attributes["cubic_coeff_a"] = how.cubic_coeff_a
    if as_ints(dims) is None and g.opset >= _AXES_SINCE:
        return g.node("Resize", [image, None, None, g.sizes_tensor(dims[2:])], dims, **attributes, axes=(2, 3))
    return g.node("Resize", [image, None, None, g.sizes_tensor(dims)], dims, **attributes)


def _quotient(rows: Dim, height: Dim) -> Dim | None:
    """Return how many planes there are, None where that is not known."""
    if not isinstance(height, int) or not height:
        return None
    count = rows // height
    return count if count * height == rows else None


def _way(weight: Matrix) -> list[Resampling] | None:
    """Return the ways to resize whose weights these are; None where they are not known."""
    known, sizes = weight.tensor.constant, as_ints(weight.dims)
    if known is None or sizes is None or not 0 < known.size <= _LARGEST or 1 in sizes:
        return None
    table = known.reshape(sizes)
    return [how for how in _ways() if np.allclose(_weights(how, *sizes), table, 0.0, _EXACT)]


def _ways() -> Iterator[Resampling]:
    for coordinates in _COORDINATES:
        yield Resampling("linear", coordinates)
        for coefficient in _CUBIC:
            yield Resampling("cubic", coordinates, cubic_coeff_a=coefficient)


@cache
def _weights(how: Resampling, size: int, count: int) -> Array:
    """Return the weights of a Resize to that many elements, as the importer writes them."""
    scale = count / size
    at = positions(how, size, count, scale, _WHOLE)
    if how.mode == "linear":
        at = np.clip(at, 0, size - 1)
    return weights(how, at, size, scale)
