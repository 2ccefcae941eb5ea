"""Loops that count: a while to a bound becomes a for loop (`counted`), other counters need no state (`counters`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from onnx_systemds.correspondence import MIRRORED
from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.words import SIZE_FUNCTIONS
from onnx_systemds.exporting.evaluating.loop_ranges import is_replaced

_CALCULATED = ("min", "max", "floor", "ceil", "as.integer", "as.double")
_RISING, _FALLING = ("<", "<="), (">", ">=")


class Counted(NamedTuple):
    """A for loop of the same iterations, after which `variable` is a step further; `stop` is where they end."""

    loop: tree.For
    variable: str
    stop: tree.Expression
    step: int


@scopes.once
def counted(loop: tree.While) -> Counted | None:
    """Return the equivalent for loop of ``while (i <= n) { ...; i = i + 1 }``; None for other loops."""
    if not loop.body or not isinstance(loop.condition, tree.Binary):
        return None
    operator, place, stop = loop.condition.operator, loop.condition.left, loop.condition.right
    is_first = _step(loop.body[0]) is not None
    body, counting = (loop.body[1:], loop.body[0]) if is_first else (loop.body[:-1], loop.body[-1])
    step = _step(counting)
    if step is None or not scopes.assigns_variable(counting) or operator not in MIRRORED:
        return None
    variable = counting.target
    if stop == variable:
        operator, place, stop = MIRRORED[operator], stop, place
    if place != variable or operator not in (_RISING if step > 0 else _FALLING):
        return None
    if variable.name in scopes.assigned(body) or not _is_same(stop, loop.body):
        return None
    before = step if is_first else 0  # what the body finds added already
    beyond = 0 if operator in ("<=", ">=") else -1 if step > 0 else 1
    numbers = tree.LoopRange(_plus(variable, before), _plus(stop, before + beyond), _number(step))
    return Counted(tree.For(variable.name, numbers, body, position=loop.position), variable.name, stop, step)


@scopes.once
def counters(loop: tree.For) -> Mapping[str, int]:
    """Return the variables that each iteration of a loop adds a number to, and does not set in another way."""
    found: dict[str, int] = {}
    for place, statement in enumerate(loop.body):
        step = _step(statement)
        if step is not None and scopes.assigns_variable(statement):
            others = (*loop.body[:place], *loop.body[place + 1 :])
            if statement.target.name not in (loop.variable, *scopes.assigned(others)):
                found[statement.target.name] = step
    return found


def _step(statement: tree.Statement) -> int | None:
    """Return the number that a statement adds to a variable; None for other statements and for 0."""
    if not scopes.assigns_variable(statement):
        return None
    added, sign = statement.value, 1
    if not statement.accumulate:
        if not isinstance(added, tree.Binary) or added.operator not in ("+", "-"):
            return None
        one, other, sign = added.left, added.right, 1 if added.operator == "+" else -1
        if other == statement.target and sign > 0:
            one, other = other, one
        if one != statement.target:
            return None
        added = other
    return sign * added.value or None if isinstance(added, tree.IntLiteral) else None


def _plus(expression: tree.Expression, value: int) -> tree.Expression:
    return tree.Binary("+", expression, _number(value)) if value else expression


def _number(value: int) -> tree.Expression:
    number = tree.IntLiteral(abs(value))
    return number if value >= 0 else tree.Unary("-", number)


def _is_same(node: tree.Node, body: tree.Block) -> bool:
    """Whether an expression has the same value before each iteration."""
    if isinstance(node, tree.Call):
        arguments = [argument.value for argument in node.arguments]
        if node.function in SIZE_FUNCTIONS and len(arguments) == 1 and isinstance(arguments[0], tree.Name):
            return not is_replaced(arguments[0].name, body)
        return node.function in _CALCULATED and all(_is_same(argument, body) for argument in arguments)
    if isinstance(node, tree.Binary):
        return _is_same(node.left, body) and _is_same(node.right, body)
    if isinstance(node, tree.Unary):
        return _is_same(node.operand, body)
    if isinstance(node, tree.Name):
        return node.name not in scopes.assigned(body)
    return isinstance(node, (tree.IntLiteral, tree.DoubleLiteral, tree.Argument))
