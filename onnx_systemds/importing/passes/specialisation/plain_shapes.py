"""Matrices in their last shape at once, where passes have given them one after the other.

A single sample in a column, transposed, is the same numbers in a row: the engine copies them for it.
"""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import reshaped, rewritten
from onnx_systemds.dml.scopes import is_call

_ONE = tree.IntLiteral(1)
_FILLS = (tree.IntLiteral, tree.DoubleLiteral, tree.StringLiteral, tree.Unary, tree.Constant)


def with_plain_shapes(body: tree.Block) -> tree.Block:
    """The statements without shapes that other shapes follow."""
    return rewritten(body, _plain)


def _plain(node: tree.Node) -> tree.Node:
    """An expression whose operands are plain already."""
    if not isinstance(node, tree.Call):
        return node
    if node.function == "t" and len(node.arguments) == 1:
        value, rows, cols = _parts(node.arguments[0].value)
        return reshaped(value, cols, rows) if rows is not None and cols is not None and _ONE in (rows, cols) else node
    given, rows, cols = _parts(node)
    if rows is None or cols is None:
        return node
    value, inner_rows, inner_cols = _parts(given)
    if inner_rows is not None:
        return _plain(reshaped(value, rows, cols))
    if isinstance(given, tree.Binary) and given.operator in "+-*/":  # the left operand has the size of the result
        _, inner_rows, inner_cols = _parts(given.left)
        return given if (inner_rows, inner_cols) == (rows, cols) else node
    return node


def _parts(node: tree.Expression) -> tuple[tree.Expression, tree.Expression | None, tree.Expression | None]:
    """The matrix that gets a shape, its rows and its columns; the expression alone, if it is none such."""
    if is_call(node, "matrix") and len(node.arguments) == 3:
        value, *sizes = node.arguments
        is_shaped = value.name is None and [size.name for size in sizes] == ["rows", "cols"]
        if is_shaped and not isinstance(value.value, _FILLS):
            return value.value, sizes[0].value, sizes[1].value
    return node, None, None
