"""Products of many pairs of matrices, as DML text."""

from __future__ import annotations

from onnx_systemds.engine.safe_forms import matrix_product
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.operators.api import NodeView, View

MOST_WRITTEN_OUT = 32  # pairs: a loop over few small matrices takes longer than their products
# sizes of products that the engine ends in an error (product-of-few-rows), with two processors
_ROWS, _INNER, _COLS = range(3, 16), range(2049, 10923), range(2, 15)


def may_have_few_rows(sizes: tuple[Dim, Dim, Dim]) -> bool:
    """Whether a product, sizes as in `single_product`, may be of such sizes."""
    rows, inner, cols = sizes
    fits = [size in span for size, span in zip(sizes, (_ROWS, _INNER, _COLS)) if isinstance(size, int)]
    if not all(fits) or rows == cols or inner in (rows, cols):
        return False
    return not (isinstance(rows, int) and isinstance(cols, int)) or cols < rows


def single_product(node: NodeView, left: str, right: str, sizes: tuple[Dim, Dim, Dim]) -> str:
    """The product of two matrices.

    sizes: rows of the first one, its columns, and columns of the product.
    """
    if may_have_few_rows(sizes):
        return node.call("product_of_few_rows", left, right)
    return matrix_product(left, right)


def batch_product(
    node: NodeView, x: str, y: str, count: Dim, sizes: tuple[Dim, Dim, Dim], *, transposed: bool = False
) -> str:
    """The products of ``count`` pairs of matrices, one below the other as they are in ``x`` and ``y``.

    sizes: rows of a matrix of ``x``, its columns, and columns of a product. transposed: whether the matrices of ``y``
    are. Where the run decides about sizes the result gets its own: of that of a call the engine knows none, and would
    recompile what is made of it.
    """
    rows, inner, cols = sizes
    adds_rows = may_have_few_rows(sizes)
    if adds_rows:
        x = node.call("rows_added", x, node.dim(count), node.dim(cols))
    if isinstance(count, int) and 1 < count <= MOST_WRITTEN_OUT:
        lengths = (None if adds_rows else rows, cols if transposed else inner)
        text = f"{_written_out(node, count, lengths, transposed=transposed)}({x}, {y})"
    else:
        text = node.call("batch_matmul_transposed" if transposed else "batch_matmul", x, y, node.dim(count))
    if adds_rows:
        text = node.call("added_rows_removed", text, node.dim(count), node.dim(rows))
    if all_known((count, rows, cols)):
        return text
    return node.reshape(text, View(count * rows, cols))


def _written_out(node: NodeView, count: int, lengths: tuple[Dim | None, Dim], *, transposed: bool) -> str:
    """The name of a function of its own, which has no loop. lengths: rows of the factors, None where they vary."""
    before: list[str] = []
    left, right = (_spans(name, count, size, before) for name, size in zip("XY", lengths))
    spans = list(zip(left, right))
    names: dict[str, object] = {"count": count, "transposed": transposed, "before": before, "spans": spans}
    return node.own_function(
        f"products_of_{count}", f"{count} {left[0]} {right[0]} {transposed}",
        lambda name: node.render("batch_product", name=name, **names)[0],
    )


def _spans(name: str, count: int, length: Dim | None, before: list[str]) -> list[str]:
    """The rows of each matrix of ``name``; a length that only the run knows is computed there."""
    if isinstance(length, int):
        return [f"{index * length + 1}:{(index + 1) * length}" for index in range(count)]
    size = f"size{name}"
    before.append(f"{size} = nrow({name}) %/% {count}")
    return [f"({index} * {size} + 1):({index + 1} * {size})" for index in range(count)]
