"""How a script takes a matrix out of the list of weights, and a repeated block out of the list of its own."""

from __future__ import annotations

from math import prod

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, reshaped
from onnx_systemds.dml.scopes import assigns_variable, is_call, operand_of
from onnx_systemds.operators.api.reserved_names import OWN_WEIGHTS, WEIGHTS


def entry(key: str) -> tree.Call:
    """``as.matrix(weights["..."])``."""
    operand = tree.Indexed(WEIGHTS, tree.Span(tree.StringLiteral(key)))
    return call("as.matrix", operand)


def own_load(place: int, rows: int, cols: int) -> tree.Call:
    """``matrix(as.matrix(own_weights[2]), rows=m, cols=n)``: the positions in the list of a block are from 1."""
    operand = tree.Indexed(OWN_WEIGHTS, tree.Span(tree.IntLiteral(place)))
    return reshaped(call("as.matrix", operand), rows, cols)


def is_entry(node: tree.Expression) -> bool:
    """Whether it is an `entry`, or one of a block's own list."""
    operand = operand_of(node, "as.matrix")
    return isinstance(operand, tree.Indexed) and operand.name in (WEIGHTS, OWN_WEIGHTS)


def load(key: str, rows: int, cols: int) -> tree.Call:
    """``matrix(as.matrix(weights["..."]), rows=m, cols=n)``: what comes out of the list has no size without that."""
    return reshaped(entry(key), rows, cols)


def is_load(node: tree.Node) -> bool:
    """Whether it is a `load`, or the statement that assigns one to a variable."""
    if assigns_variable(node):
        return not node.accumulate and is_load(node.value)
    return is_call(node, "matrix") and is_entry(node.arguments[0].value) and all(
        isinstance(size.value, tree.IntLiteral) for size in node.arguments[1:])


def key_of(statement: tree.Statement) -> str | None:
    """The key by which a statement takes a matrix out of the list; None of a statement without a `load`."""
    if not isinstance(statement, tree.Assign) or not is_load(statement):
        return None
    given = next(node for node in tree.walk(statement.value) if isinstance(node, tree.Indexed)).rows.lower
    return given.value if isinstance(given, tree.StringLiteral) else None


def sizes_of(statement: tree.Statement) -> tuple[int, ...]:
    """Rows and columns of the matrix that a statement with a `load` takes; none of another one."""
    if not isinstance(statement, tree.Assign) or not is_load(statement):
        return ()
    assert isinstance(statement.value, tree.Call)
    sizes = (size.value for size in statement.value.arguments[1:])
    return tuple(size.value for size in sizes if isinstance(size, tree.IntLiteral))


def bytes_of(statement: tree.Statement) -> int:
    """The bytes of the matrix that a statement with a `load` takes; 0 for another one."""
    sizes = sizes_of(statement)
    return 8 * prod(sizes) if sizes else 0
