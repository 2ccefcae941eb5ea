"""Merges reshapes of reshapes, and turns the transposition of a row or column into a reshape.

The engine copies a vector that is transposed; a reshape of it costs nothing.
"""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import reshaped, rewritten
from onnx_systemds.dml.scopes import is_reshape

_ONE = tree.IntLiteral(1)
_FILLS = (tree.IntLiteral, tree.DoubleLiteral, tree.StringLiteral, tree.Unary, tree.Constant)


def with_merged_reshapes(body: tree.Block) -> tree.Block:
    """The statements with one reshape in the place of several."""
    return rewritten(body, _merged)


def _merged(node: tree.Node) -> tree.Node:
    """An expression whose operands have been merged already."""
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
        return _merged(reshaped(value, rows, cols))
    if isinstance(given, tree.Binary) and given.operator in "+-*/":  # the left operand has the size of the result
        _, inner_rows, inner_cols = _parts(given.left)
        return given if (inner_rows, inner_cols) == (rows, cols) else node
    return node


def _parts(node: tree.Expression) -> tuple[tree.Expression, tree.Expression | None, tree.Expression | None]:
    """The operand, rows and columns of a reshape; the expression itself and None, None if it is no reshape."""
    if is_reshape(node):
        value, rows, cols = (argument.value for argument in node.arguments)
        if not isinstance(value, _FILLS):
            return value, rows, cols
    return node, None, None
