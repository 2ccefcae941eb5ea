"""Products of many pairs of matrices, as DML text."""

from __future__ import annotations

from typing import NamedTuple

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.dml.scopes import is_call, is_operation, operand_of
from onnx_systemds.dml.templates import render_operator
from onnx_systemds.engine.safe_forms import matrix_product
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.operators.api import NodeView, View

MOST_WRITTEN_OUT = 32  # pairs: a loop over few small matrices takes longer than their products
_TAKEN, _SMALL = 8, 32  # pairs in a turn of a loop, and rows of such: a turn takes longer than a small product
LIBRARY = {False: "batch_matmul", True: "batch_matmul_transposed"}
"""Functions for sizes that the run decides about, by whether the second matrices are transposed."""
_OWN = {False: "matrix_products", True: "matrix_products_transposed"}
"""Names of those for known sizes."""
THREADED = 2**24  # multiplications: fewer are sooner done than threads are started
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
    are. Of what a call of a function with a loop gives the engine knows no size, and would compile what is made of it
    anew at each run: so the result gets its own.
    """
    rows, inner, cols = sizes
    is_looped, adds_rows = False, may_have_few_rows(sizes)
    if adds_rows:
        x = node.call("rows_added", x, node.dim(count), node.dim(cols))
    if isinstance(count, int) and 1 < count <= MOST_WRITTEN_OUT:
        lengths = (None if adds_rows else rows, cols if transposed else inner)
        text = f"{_written_out(node, count, lengths, transposed=transposed)}({x}, {y})"
    elif not adds_rows and (known := _known_sizes(count, sizes)) is not None:
        text, is_looped = f"{_looped(node, *known, transposed=transposed)}({x}, {y})", True
    else:
        text = node.call(LIBRARY[transposed], x, y, node.dim(count))
    if adds_rows:
        text = node.call("added_rows_removed", text, node.dim(count), node.dim(rows))
    if all_known((count, rows, cols)) and not is_looped:
        return text
    return node.reshape(text, View(count * rows, cols))


def _known_sizes(count: Dim, sizes: tuple[Dim, Dim, Dim]) -> tuple[int, tuple[int, int, int]] | None:
    """Both, if they are numbers of several products that are not empty."""
    rows, inner, cols = sizes
    if not (isinstance(count, int) and isinstance(rows, int) and isinstance(inner, int) and isinstance(cols, int)):
        return None
    return (count, (rows, inner, cols)) if count > 1 and rows and inner and cols else None


def _looped(node: NodeView, count: int, sizes: tuple[int, int, int], *, transposed: bool) -> str:
    """The name of a function of its own with a loop."""
    hint = _OWN[transposed]
    return node.own_function(
        hint, f"{hint} {count} {sizes}", lambda name: looped_product(name, count, sizes, transposed=transposed)
    )


def looped_product(name: str, count: int, sizes: tuple[int, int, int], *, transposed: bool = False) -> str:
    """The text of a function with a loop over products whose sizes are known; the arguments are those of
    `batch_product`."""
    rows, inner, cols = sizes
    is_threaded = count * rows * inner * cols >= THREADED
    taken = _TAKEN if rows <= _SMALL and count % _TAKEN == 0 and not is_threaded else 1
    factors = [[f"{at * size + 1}:{(at + 1) * size}" for at in range(taken)]
               for size in (rows, cols if transposed else inner)]
    names = {"count": count, "rows": rows, "inner": inner, "cols": cols, "spans": list(zip(*factors))}
    return render_operator("batch_product_loop", name=name, is_threaded=is_threaded, transposed=transposed, **names)


class Pairs(NamedTuple):
    """How many pairs of matrices a function multiplies, their rows, and whether the second ones are transposed."""

    number: int
    rows: tuple[int, int]
    transposed: bool


def pairs_of(function: tree.Function) -> Pairs | None:
    """What a function for known sizes multiplies, if it is one of `batch_product`; None for other ones."""
    for transposed in (False, True):
        found = _looped_pairs(function, transposed) if len(function.body) > 1 else _written_pairs(function, transposed)
        if found is not None:
            return found
    return None


def _looped_pairs(function: tree.Function, transposed: bool) -> Pairs | None:
    """As `pairs_of`, of a function that is one of `looped_product`."""
    shapes = [_shape(statement) for statement in (*function.body[:2], *function.body[-1:])]
    if len(shapes) < 3 or None in shapes:
        return None
    (left, right, (height, cols)) = (shape for shape in shapes if shape is not None)
    inner = left[0] * left[1] // height
    count = right[0] * right[1] // (inner * cols) if inner else 0
    if not count:
        return None
    text = looped_product(function.name, count, (height // count, inner, cols), transposed=transposed)
    factors = (height // count, cols if transposed else inner)
    return Pairs(count, factors, transposed) if function == function_of(text) else None


def _written_pairs(function: tree.Function, transposed: bool) -> Pairs | None:
    """As `pairs_of`, of a function without a loop."""
    (statement,) = function.body or (None,)
    joined = statement.value if isinstance(statement, tree.Assign) else None
    first = joined.arguments[0].value if is_call(joined, "rbind") else None
    if not is_call(joined, "rbind") or not is_operation(first, "%*%"):
        return None
    count, rows = len(joined.arguments), (_rows(first.left), _rows(operand_of(first.right, "t") or first.right))
    if 0 in rows:
        return None
    text = _written_product(function.name, count, rows, transposed=transposed)
    return Pairs(count, rows, transposed) if function == function_of(text) else None


def _rows(part: tree.Expression) -> int:
    """The number of the first rows of a matrix that a part has; 0 for other parts."""
    upper = part.rows.upper if isinstance(part, tree.Indexed) else None
    return upper.value if isinstance(upper, tree.IntLiteral) else 0


def _shape(statement: tree.Statement) -> tuple[int, int] | None:
    """The rows and columns that a statement gives a matrix, as numbers."""
    value = statement.value if isinstance(statement, tree.Assign) else None
    if not is_call(value, "matrix"):
        return None
    numbers = [argument.value for argument in value.arguments[1:]]
    rows, cols = (item.value if isinstance(item, tree.IntLiteral) else 0 for item in numbers)
    return (rows, cols) if rows and cols else None


def _written_out(node: NodeView, count: int, lengths: tuple[Dim | None, Dim], *, transposed: bool) -> str:
    """The name of a function of its own, which has no loop. lengths: rows of the factors, None where they vary."""
    hint, (left, right) = _OWN[transposed], (size if isinstance(size, int) else None for size in lengths)
    return node.own_function(
        hint, f"{hint} {count} {left} {right}",
        lambda name: _written_product(name, count, (left, right), transposed=transposed),
    )


def _written_product(name: str, count: int, lengths: tuple[int | None, int | None], *, transposed: bool) -> str:
    """The text of a function without a loop. lengths: rows of the factors, None where only the run knows them."""
    before: list[str] = []
    left, right = (_spans(matrix, count, size, before) for matrix, size in zip("XY", lengths))
    names: dict[str, object] = {"count": count, "transposed": transposed, "before": before}
    return render_operator("batch_product", name=name, spans=list(zip(left, right)), **names)


def _spans(name: str, count: int, length: int | None, before: list[str]) -> list[str]:
    """The rows of each matrix of ``name``; a length that only the run knows is computed there."""
    if length is not None:
        return [f"{index * length + 1}:{(index + 1) * length}" for index in range(count)]
    size = f"size{name}"
    before.append(f"{size} = nrow({name}) %/% {count}")
    return [f"({index} * {size} + 1):({index + 1} * {size})" for index in range(count)]
