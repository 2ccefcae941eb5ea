"""Rows that are selected only to be counted are counted by what selects them.

The engine makes that of ``nrow(removeEmpty(target=X, margin="rows", select=S))`` itself, but for one reader alone
(``count-of-selected-rows`` in `engine.faults`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, rewritten
from onnx_systemds.dml.scopes import assigns_variable, is_call, is_operation, operand_of, results, statements_in
from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.importing.passes.aliases import without_aliases_in

_ROWS_ALONE = {"margin": tree.StringLiteral("rows"), "empty.return": tree.BooleanLiteral(False)}
"""Without the latter there is one row of zeros where none is selected."""


def with_counted_rows(function: tree.Function) -> tree.Function:
    """The function that selects no rows only to count them; the same object where it does not."""
    if not any(_selections(function)):
        return function
    plain = without_aliases_in(function)
    mentions: Counter[str] = Counter()
    for node in tree.walk(*plain.body):
        if isinstance(node, (tree.Name, tree.Indexed)):
            mentions[node.name] += 1
        elif (name := _counted(node)) is not None:
            mentions[name] -= 1
    # one mention is left: where it is assigned
    kept = results(plain)
    counts = {name: _count(by) for name, by in _selections(plain).items() if mentions[name] == 1 and name not in kept}

    def change(node: tree.Node) -> tree.Node:
        if assigns_variable(node) and node.target.name in counts:
            return replace(node, value=counts[node.target.name])
        name = _counted(node)
        return tree.Name(name) if name in counts else node

    if not counts:
        return function
    body = rewritten(plain.body, change)
    return replace(plain, body=(body[0], *(it for before, it in pairwise(body) if not _is_repeated(it, before))))


def _is_repeated(statement: tree.Statement, before: tree.Statement) -> bool:
    """Whether a statement copies a variable as the one before it does: generators and sizes define the same."""
    return assigns_variable(statement) and isinstance(statement.value, tree.Name) and statement == before


def _selections(function: tree.Function) -> dict[str, tree.Expression]:
    """By variable the matrix that selects its rows from another one."""
    found: dict[str, tree.Expression] = {}
    for statement in statements_in(function.body):
        if assigns_variable(statement) and is_call(statement.value, "removeEmpty"):
            arguments = {argument.name: argument.value for argument in statement.value.arguments}
            if "select" in arguments and _ROWS_ALONE.items() <= arguments.items():
                found[statement.target.name] = arguments["select"]
    return found


def _count(selection: tree.Expression) -> tree.Call:
    """How many rows are selected."""
    chosen = selection if is_operation(selection, *COMPARED) else tree.Binary("!=", selection, tree.IntLiteral(0))
    return call("as.integer", call("sum", chosen))


def _counted(node: tree.Node) -> str | None:
    """The variable whose rows an expression counts."""
    counted = operand_of(node, "nrow")
    return counted.name if isinstance(counted, tree.Name) else None
