"""Expressions without calls: literals, variables, arguments of the script, operators, lists."""

from __future__ import annotations

import re
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import CONSTANTS
from onnx_systemds.dml.rewrite import left_operands
from onnx_systemds.dml.scopes import is_call
from onnx_systemds.dml.tokens import LARGEST_INT
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins import operators
from onnx_systemds.exporting.builtins.registry import BUILTINS
from onnx_systemds.exporting.builtins.texts import number_in
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.values import BOOLEAN, DOUBLE, INTEGER, ListValue, Matrix, Scalar, Value, known_scalar

_ARITHMETIC = ("+", "-", "*", "/", "^", "%%", "%/%")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_AS_NUMBER = "write as.integer(..) around the boolean: it is 1 for TRUE and 0 for FALSE"


def literal(
    _: Evaluator, node: tree.IntLiteral | tree.DoubleLiteral | tree.StringLiteral | tree.BooleanLiteral
) -> Scalar:
    """Return a number, text or boolean as it is written."""
    return known_scalar(node.value)


def constant(_: Evaluator, node: tree.Constant) -> Scalar:
    """Return ``Inf``, ``NaN`` or ``pi``."""
    return known_scalar(CONSTANTS[node.name])


def variable(evaluator: Evaluator, node: tree.Name) -> Value:
    """Return a variable. Raises UnsupportedCase where it is not defined, Poisoned where it was refused."""
    return evaluator.variable(node.name, node)


def argument(evaluator: Evaluator, node: tree.Argument) -> Scalar:
    """Return ``$name``. Raises UnsupportedCase where it is not given."""
    if node.name not in evaluator.arguments:
        hint = f"give it: --arg {node.name}=VALUE"
        interface = evaluator.context.interface
        if node.name in interface.specs or node.name in interface.bindings:
            hint = f"what a file holds is given; its name may be any, and need not exist: --arg {node.name}=NAME"
        with evaluator.at(node):
            raise UnsupportedCase(f"the argument ${node.name} is not given", hint=hint)
    evaluator.context.asked.add(node.name)
    return _argument_value(evaluator.arguments[node.name])


def if_defined(evaluator: Evaluator, node: tree.IfDefined) -> Value:
    """Return ``ifdef($name, default)``."""
    if node.argument.name in evaluator.arguments:
        return argument(evaluator, node.argument)
    return evaluator.value(node.default)


def list_of(evaluator: Evaluator, node: tree.ListExpression) -> ListValue:
    """Return ``[a, b]``."""
    return ListValue(tuple(map(evaluator.value, node.items)))


def unary(evaluator: Evaluator, node: tree.Unary) -> Value:
    """Return ``-x``, ``+x`` or ``!x``. Raises UnsupportedCase."""
    operand = evaluator.value(node.operand)
    with evaluator.at(node):
        if node.operator == "-" and _is_boolean(node.operand, operand):
            raise UnsupportedCase("'-' of a boolean", hint=_AS_NUMBER)
        return operators.unary(evaluator.context, node.operator, operand)


def binary(evaluator: Evaluator, node: tree.Binary) -> Value:
    """Return ``left operator right``."""
    if _is_never(node):
        return known_scalar(False)
    first, chain = left_operands(node)
    left = evaluator.value(first)
    for part in chain:
        right = evaluator.value(part.right)
        with evaluator.at(part):
            _check_operands(part, left, right)
            left = _operated(evaluator, part.operator, left, right)
    return left


def _check_operands(node: tree.Binary, left: Value, right: Value) -> None:
    """Raise UnsupportedCase for operators and operands that the engine does not compile."""
    if node.operator in ("&&", "||"):
        raise UnsupportedCase(f"the engine has no '{node.operator}'", hint=f"write {node.operator[0]}")
    if node.operator in _ARITHMETIC:
        for operand, value, other in ((node.left, left, right), (node.right, right, left)):
            if _is_boolean(operand, value) and _is_number(other):
                raise UnsupportedCase(f"'{node.operator}' of a boolean and a number", hint=_AS_NUMBER)


def _is_boolean(node: tree.Expression, value: Value) -> bool:
    """Whether an expression is surely a boolean for the engine, too, which has rules of its own for variables."""
    return isinstance(node, (tree.BooleanLiteral, tree.Binary, tree.Unary)) and _has_type(value, BOOLEAN)


def _is_number(value: Value) -> bool:
    return isinstance(value, Matrix) or _has_type(value, INTEGER, DOUBLE)


def _has_type(value: Value, *types: str) -> bool:
    return isinstance(value, Scalar) and value.type in types


def _operated(evaluator: Evaluator, operator: str, left: Value, right: Value) -> Value:
    if operator == "%*%":
        product: Value = BUILTINS["%*%"](evaluator.context, [left, right], {})
        return product
    return operators.binary(evaluator.context, operator, left, right)


def _is_never(node: tree.Binary) -> bool:
    """Whether an expression is ``time() < 0``, by which scripts hide from the engine that a branch is never taken."""
    return node.operator == "<" and is_call(node.left, "time") and node.right == tree.IntLiteral(0)


def _argument_value(content: Any) -> Scalar:
    """Return the value of an argument of the command line: text that Java reads as a number, or a boolean, is one."""
    if not isinstance(content, str):
        return known_scalar(content.item() if hasattr(content, "item") else content)
    if content in ("TRUE", "FALSE"):
        return known_scalar(content == "TRUE")
    if _WHOLE.fullmatch(content) and abs(int(content)) <= LARGEST_INT:
        return known_scalar(int(content))
    if (number := number_in(content)) is not None:
        return known_scalar(number)
    is_quoted = len(content) > 1 and content[0] == content[-1] and content[0] in "\"'"
    return known_scalar(content[1:-1] if is_quoted else content)
