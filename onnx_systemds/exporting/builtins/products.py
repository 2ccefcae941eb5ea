"""Products of matrices that need none: with one number everywhere, with ones beside, with a sparse matrix."""

from __future__ import annotations

import numpy as np

from onnx_systemds.exporting.builtins.api import INT, Tensor
from onnx_systemds.exporting.graph.nodes import Convolution, Entries, first_found, made_by
from onnx_systemds.exporting.graph.operators import Operators, pieces
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.known_dims import as_ints

SCATTER_SINCE = 16
"""The opset from which on rows can be added where they belong."""


def product(g: Operators, a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices."""
    if a.row_choice is None and b.column_choice is None:
        simpler = first_found(form(g, a, b) for form in (_sparse, _repeated, _with_offset))
        if simpler is not None:
            return simpler
    return g.matmul(a, b)


def _repeated(g: Operators, a: Tensor, b: Tensor) -> Tensor | None:
    """Return the product of a column and a row of which one holds a single number everywhere, or the sums of rows.

    None for others.
    """
    if a.dims[1] != 1:
        for ones, x, axis in ((b, a, 1), (a, b, 0)):
            if ones.dims[axis] == 1 and x.constant is None and g.filling(ones) is g.number(1.0):
                return g.reduce("ReduceSum", g.floating(x), (axis,))
        return None
    for column, row in ((a, b), (b, a)):
        number = g.filling(column)
        if number is not None:
            return g.expand(row if number.constant == 1 else row * number, (a.dims[0], b.dims[1]))
    return None


def _with_offset(g: Operators, a: Tensor, b: Tensor) -> Tensor | None:
    """Return ``cbind(X, 1) %*% B`` for a known B as a product and an offset."""
    found = _without_last(g, a) if b.constant is not None else None
    if found is None or b.constant is None:
        return None
    (x, number), width = found, b.constant.shape[0] - 1
    offset = g.slice(b, 0, width, width + 1)
    return product(g, x, g.slice(b, 0, 0, width)) + offset * number


def _without_last(g: Operators, a: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return a matrix without its last column, and the number that this holds everywhere; None for others."""
    node, parts = made_by(a, "Pad"), pieces(a, 1)
    if node is not None and len(node.inputs) == 3:
        x, widths, number = node.inputs
        if x is not None and widths is not None and widths.constant is not None and number is not None:
            return (x, number) if widths.constant.tolist() == [0, 0, 0, 1] else None
    filling = g.filling(parts[-1]) if len(parts) == 2 and parts[-1].dims[1] == 1 else None
    return None if filling is None else (parts[0], filling)


def _sparse(g: Operators, a: Tensor, b: Tensor) -> Tensor | None:
    """Return the product with a matrix whose entries are known by their positions; None for others."""
    if g.opset < SCATTER_SINCE:
        return None
    if a.entries is not None:
        convolution = a.entries.convolution
        if convolution is not None:
            return _convolved(g, a.dims[0], convolution, g.floating(b))
        return scattered(g, a.dims[0], a.entries, g.floating(b))
    if b.entries is not None:  # the same of the transposed matrices
        transposed = g.transpose(g.floating(a), (1, 0))
        return g.transpose(scattered(g, b.dims[1], b.entries.transposed, transposed), (1, 0))
    return None


def _convolved(g: Operators, height: Dim, convolution: Convolution, x: Tensor) -> Tensor:
    """Return the results of a convolution, each in a column, of the images in the columns."""
    count, kernels = x.dims[1], convolution.kernels
    images = g.reshape(g.transpose(x, (1, 0)), (count, *convolution.image))
    dims = (count, kernels.dims[0], *convolution.result)
    made = g.node("Conv", [images, kernels], dims, **convolution.attributes)
    return g.transpose(g.reshape(made, (count, height)), (1, 0))


def scattered(g: Operators, height: Dim, entries: Entries, x: Tensor) -> Tensor:
    """Return rows of a matrix, weighted, added up where they belong."""
    chosen, valid = x, None
    if entries.cols is not None:
        places, valid = _limited(g, entries.cols, x.dims[0])
        chosen = g.gather(x, places, 0)
    if entries.weights is not None:
        chosen = chosen * g.reshape(entries.weights, (*entries.weights.dims, 1))
    if valid is not None:
        chosen = g.where(valid, chosen, 0.0)
    if entries.rows is None:
        return chosen
    places, inside = _limited(g, entries.rows, height)
    if inside is not None:
        chosen = g.where(inside, chosen, 0.0)
    return added_up(g, chosen, places, height)


def with_places_moved(g: Operators, x: Tensor, rows: Dim, cols: Dim) -> Tensor:
    """Return a matrix with other rows and columns; if its entries are known, with these at their new positions."""
    known = x.entries
    if known is None or x.dims == (rows, cols) or not (isinstance(rows, int) and isinstance(cols, int)):
        return x
    sizes = as_ints(x.dims)
    if sizes is None:
        return x
    places, outside = [], []
    for part, size in zip((known.rows, known.cols), sizes):
        place, inside = _limited(g, g.constant(np.arange(size)) if part is None else part, size)
        places.append(place)
        outside += [] if inside is None else [~g.reshape(inside, place.dims)]
    flat, length = places[0] * g.constant(sizes[1]) + places[1], g.constant(cols)
    row = flat / length
    for none in outside:
        row = g.where(none, g.constant(-1), row)
    found = g.reshape(x, (rows, cols))
    found.entries = Entries(row, g.node("Mod", [flat, length], flat.dims, INT), known.weights)
    return found


def added_up(
    g: Operators, rows: Tensor, places: Tensor, height: Dim, reduction: str = "add", initial: float = 0.0
) -> Tensor:
    """Return the sum of the rows for each place, of which all are below `height`; from opset 16 on.

    reduction, initial: from opset 18 on "min" or "max", and what there is where no row belongs.
    """
    dims = (height, *rows.dims[1:])
    inputs = [g.filled(initial, dims), g.reshape(places, (*places.dims, 1)), rows]
    return g.node("ScatterND", inputs, dims, reduction=reduction)


def _limited(g: Operators, places: Tensor, size: Dim) -> tuple[Tensor, Tensor | None]:
    """Return positions that are all inside of a size, and (bool, a column) which were; None: all of them."""
    known = places.constant
    if known is not None and isinstance(size, int) and ((known >= 0) & (known < size)).all():
        return places, None
    last = g.size_number(size)
    inside = (places >= 0) & (places < last)
    return g.where(inside, places, g.constant(0)), g.reshape(inside, (*places.dims, 1))
