"""Facts that passes share: what a statement reads and calls, and known sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.scopes import assignment_counts, assigns_variable, called_in, read_in


def reads(statement: tree.Statement) -> frozenset[str]:
    """The variables that a statement reads; for a branch or a loop, also those that it may leave unchanged."""
    if assigns_variable(statement) and not statement.accumulate:
        return read_in(statement.value)
    return read_in(statement)


def calls(node: tree.Node) -> set[str]:
    """The names of all functions called in a part of a script."""
    return {*called_in(node)}


def callees(functions: Mapping[str, tree.Function], roots: Iterable[tree.Node]) -> dict[str, tree.Function]:
    """The functions that ``roots`` call, directly or not, in the order in which they are given."""
    wanted: set[str] = set()
    stack = list(roots)
    while stack:
        for name in calls(stack.pop()) & functions.keys() - wanted:
            wanted.add(name)
            stack.append(functions[name])
    return {name: function for name, function in functions.items() if name in wanted}


def callers(
    functions: Iterable[tree.Function],
    names: Iterable[str],
    calls_of: Callable[[tree.Function], Set[str]] = calls,
) -> frozenset[str]:
    """The names of functions and of their callers, direct or not; ``calls_of`` says what a function calls."""
    called = {function.name: calls_of(function) for function in functions}
    found = set(names)
    while more := {name for name, others in called.items() if name not in found and not others.isdisjoint(found)}:
        found |= more
    return frozenset(found)


def is_number(node: tree.Expression) -> bool:
    """Whether an expression is a finite literal number; with others a result may be NaN."""
    number = number_of(node)
    return number is not None and math.isfinite(number)


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
