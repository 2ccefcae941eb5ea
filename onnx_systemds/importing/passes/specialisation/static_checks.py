"""Drops size checks that cannot fail because the sizes are known."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import ends_run, is_call
from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.importing.passes.convolution_sizes import IntegerOf
from onnx_systemds.importing.passes.matrix_sizes import integer_lookup


def without_static_checks(body: tree.Block) -> tree.Block:
    """The statements without the checks whose conditions are known to be false.

    Each check would end a basic block of the engine: some percent of the run time of a small network.
    """
    integer_of = integer_lookup(body)
    return tuple(statement for statement in body if not _never_stops(statement, integer_of))


def _never_stops(statement: tree.Statement, integer_of: IntegerOf) -> bool:
    """Whether a statement is a check that cannot fail."""
    return isinstance(statement, tree.If) and _only_stops(statement) and _never(statement.condition, integer_of)


def _only_stops(statement: tree.Statement) -> bool:
    """Whether a statement can do nothing but stop the run."""
    if isinstance(statement, tree.If):
        return not statement.otherwise and all(map(_only_stops, statement.body))
    return ends_run(statement)


def _never(condition: tree.Expression, integer_of: IntegerOf) -> bool:
    """Whether a condition over sizes is known to be false."""
    if not isinstance(condition, tree.Binary):
        return False
    if condition.operator == "|":
        return _never(condition.left, integer_of) and _never(condition.right, integer_of)
    left, right = _size(condition.left, integer_of), _size(condition.right, integer_of)
    if left is None or right is None or condition.operator not in COMPARED:
        return False
    return not COMPARED[condition.operator](left, right)


def _size(node: tree.Expression, integer_of: IntegerOf) -> int | None:
    """The value of a size expression, also of ``min`` and ``max`` of several; None if it is unknown."""
    if not is_call(node, "min", "max"):
        return integer_of(node)
    sizes = [_size(argument.value, integer_of) for argument in node.arguments]
    found = [size for size in sizes if size is not None]
    return None if len(found) < len(sizes) else min(found) if node.function == "min" else max(found)
