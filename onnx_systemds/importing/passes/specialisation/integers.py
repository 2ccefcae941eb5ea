"""Integers that a function computes of sizes, wherever it stands in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assignment_counts


def whole_number(node: tree.Expression, known: Mapping[str, int]) -> int | None:
    """The integer value of an expression over sizes; None if it is unknown."""
    if isinstance(node, tree.IntLiteral):
        return node.value
    if isinstance(node, tree.Name):
        return known.get(node.name)
    if isinstance(node, tree.Unary) and node.operator == "-":
        operand = whole_number(node.operand, known)
        return None if operand is None else -operand
    if isinstance(node, tree.Binary) and node.operator in _ARITHMETIC:
        left, right = whole_number(node.left, known), whole_number(node.right, known)
        return None if left is None or right is None else _ARITHMETIC[node.operator](left, right)
    return None


def known_sizes(body: tree.Block) -> dict[str, int]:
    """The integers among the variables that are assigned once, and not in a branch or a loop."""
    counts = assignment_counts(body)
    sizes: dict[str, int] = {}
    for statement in body:
        if isinstance(statement, tree.Assign) and counts[statement.target.name] == 1:
            value = whole_number(statement.value, sizes)
            if value is not None:
                sizes[statement.target.name] = value
    return sizes


_ARITHMETIC: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "%/%": lambda a, b: a // b if b else None,
    "%%": lambda a, b: a % b if b else None,
}
