"""Propagates known sizes through a function: as numbers, without the branches that are never taken with them.

What is left is what an author would write for these sizes: a third of the statements of a library function that has
a form for each range of sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import Part, rewritten
from onnx_systemds.dml.scopes import (
    assigns_variable,
    called_in,
    is_call,
    is_operation,
    results,
    statements_in,
)
from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.importing.passes.block_cuts import is_never
from onnx_systemds.importing.passes.matrix_sizes import SizeAnalysis, Symbolic, is_dim
from onnx_systemds.importing.passes.unread import without_unread

_WITHOUT_EFFECT = {"as.integer", "matrix", "max", "min", "ncol", "nrow", "seq", "t"}


def with_constant_sizes(
    function: tree.Function, functions: Mapping[str, tree.Function], given: Mapping[str, Symbolic]
) -> tree.Function:
    """The function for the sizes ``given`` of its parameters, which all calls of it must have.

    functions: those that it calls, by name.
    """
    body = _propagated(function.body, SizeAnalysis(functions, dict(given)))
    return replace(function, body=tuple(without_unread(body, results(function), _is_pure)))


def _propagated(block: tree.Block, sizes: SizeAnalysis) -> list[tree.Statement]:
    """The statements of a block with numbers for known sizes; ``sizes`` are those before it, and after it then."""
    found: list[tree.Statement] = []
    for statement in block:
        if isinstance(statement, tree.If) and not is_never(statement):
            condition = _with_numbers(statement.condition, sizes)
            if isinstance(condition, tree.BooleanLiteral):
                found += _propagated(statement.body if condition.value else statement.otherwise, sizes)
                continue
        changed = _changed(statement, sizes)
        found.append(changed)
        sizes.run((changed,))
    return found


def _changed(statement: tree.Statement, sizes: SizeAnalysis) -> tree.Statement:
    """A statement with numbers for known sizes."""
    if is_never(statement):
        return statement
    if isinstance(statement, tree.If):
        branches = (tuple(_propagated(block, _inside(sizes))) for block in (statement.body, statement.otherwise))
        body, otherwise = branches
        return replace(statement, condition=_with_numbers(statement.condition, sizes), body=body, otherwise=otherwise)
    if isinstance(statement, tree.For):
        body = tuple(_propagated(statement.body, _inside(sizes, _changing(statement))))
        return replace(statement, range=_with_numbers(statement.range, sizes), body=body)
    if isinstance(statement, tree.While):
        inner = _inside(sizes, _changing(statement))
        condition = _with_numbers(statement.condition, inner)
        return replace(statement, condition=condition, body=tuple(_propagated(statement.body, inner)))
    if isinstance(statement, tree.Assign):
        target = statement.target
        if isinstance(target, tree.Indexed):
            spans = _with_numbers((target.rows, target.columns), sizes)
            target = replace(target, rows=spans[0], columns=spans[1])
        return replace(statement, target=target, value=_with_numbers(statement.value, sizes))
    if isinstance(statement, (tree.MultiAssign, tree.CallStatement)):
        return replace(statement, call=_with_numbers(statement.call, sizes))
    return statement


def _changing(loop: tree.For | tree.While) -> set[str]:
    """The variables whose sizes a loop may change: not those of which it assigns parts alone."""
    found: set[str] = set()
    for statement in statements_in((loop,)):
        if isinstance(statement, tree.For):
            found.add(statement.variable)
        elif assigns_variable(statement):
            found.add(statement.target.name)
        elif isinstance(statement, tree.MultiAssign):
            found.update(target.name for target in statement.targets)
    return found


def _inside(sizes: SizeAnalysis, changing: Collection[str] = ()) -> SizeAnalysis:
    """What is known where a branch begins, or the body of a loop that changes these variables."""
    known = {name: size for name, size in sizes.known.items() if name not in changing}
    return SizeAnalysis(sizes.functions, known)


def _with_numbers(part: Part, sizes: SizeAnalysis) -> Part:
    """Expressions with numbers for known sizes, and with numbers that are computed from others."""

    def change(node: tree.Node) -> Any:
        if isinstance(node, (tree.Name, tree.Binary, tree.Unary)) or is_call(node, "nrow", "ncol"):
            number = sizes.of(node)
            if isinstance(number, int) and number >= 0:
                return tree.IntLiteral(number)
            if is_dim(number) and isinstance(node, tree.Binary):
                return _joined_factors(node)
        if isinstance(node, tree.Unary) and node.operator == "!" and isinstance(node.operand, tree.BooleanLiteral):
            return tree.BooleanLiteral(not node.operand.value)
        return _simplified(node) if isinstance(node, tree.Binary) else node

    return rewritten(part, change)


def _simplified(node: tree.Binary) -> tree.Expression:
    """An operation without what its operands decide."""
    left, right = node.left, node.right
    if node.operator in ("&", "|"):
        for side, other in ((left, right), (right, left)):
            if isinstance(side, tree.BooleanLiteral):
                return other if side.value == (node.operator == "&") else side
    if isinstance(left, tree.StringLiteral) and isinstance(right, tree.StringLiteral) and node.operator in ("==", "!="):
        return tree.BooleanLiteral((left.value == right.value) == (node.operator == "=="))
    if not isinstance(right, tree.IntLiteral):
        return node
    if isinstance(left, tree.IntLiteral):
        if node.operator in COMPARED:
            return tree.BooleanLiteral(COMPARED[node.operator](left.value, right.value))
        if node.operator == "/" and right.value and left.value % right.value == 0:
            return tree.IntLiteral(left.value // right.value)
    return node


def _joined_factors(node: tree.Binary) -> tree.Binary:
    """A product of integers with one number instead of two."""
    left, right = node.left, node.right
    if not is_operation(left, "*") or node.operator != "*":
        return node
    if not isinstance(left.right, tree.IntLiteral) or not isinstance(right, tree.IntLiteral):
        return node
    return replace(node, left=left.left, right=tree.IntLiteral(left.right.value * right.value))


def _is_pure(statement: tree.Statement) -> bool:
    """Whether a statement does nothing but give a variable a value, which always succeeds."""
    is_plain = assigns_variable(statement) and not statement.accumulate
    return is_plain and _WITHOUT_EFFECT.issuperset(called_in(statement))
