"""Rows that are divided by their sums on the way into a product are divided after it, where its result is narrower.

So is what Softmax gives to the product of an attention: a row of it has a number for each token, and the result one for
each feature of a head. Its exponentials are 1 at the most, so that the product is not beyond all numbers before it is
divided; one that is no number makes the whole row NaN either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import (
    assignment_counts,
    assigns_variable,
    is_call,
    is_operation,
    name_counts,
    operand_of,
    read_in,
)
from onnx_systemds.importing.passes.specialisation.matrix_sizes import Known, Shape, followed
from onnx_systemds.importing.passes.specialisation.products import ROW_AGGREGATES

_BATCHED = "batch_matmul"  # whose rows are those of its first operand
_ROW_SUMS = {"rowSums", ROW_AGGREGATES["rowSums"]}


@dataclass(frozen=True)
class _Quotient:
    """An exponential and its row sums, which it is divided by."""

    exponential: tree.Name
    sums: tree.Expression
    size: Shape


def with_late_quotients(
    body: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Known]
) -> tree.Block:
    """The statements of a function with quotients after products.

    functions: of the script, by name. given: sizes of parameters. What a branch or a loop assigns or reads stays, and
    so does what several statements read.
    """
    read = name_counts(body)
    counts = assignment_counts(body)
    exponentials: set[str] = set()
    quotients: dict[str, tuple[int, _Quotient]] = {}
    changed: list[tree.Statement | None] = []
    for statement, size_of in followed(body, functions, given):

        def change(node: tree.Node) -> tree.Node:
            if not isinstance(node, (tree.Binary, tree.Call)):
                return node
            found = quotients.get(_first_factor(node, functions))
            if found is None:
                return node
            place, quotient = found
            size = size_of(node)  # noqa: B023 - called in this turn
            if not isinstance(size, tuple) or size[0] != quotient.size[0] or size[1] >= quotient.size[1]:
                return node
            changed[place] = None
            return tree.Binary("/", _with_first_factor(node, quotient.exponential), quotient.sums)

        if assigns_variable(statement):
            name, value = statement.target.name, statement.value
            statement = rewritten(statement, change)
            if counts[name] == 1 and _is_one_at_most(value):
                exponentials.add(name)
            # a name counts twice: where it is assigned and where it is read
            if counts[name] == 1 and read[name] == 2 and (exponential := _divided(value)) is not None:
                size = size_of(exponential)
                if exponential.name in exponentials and isinstance(size, tuple):
                    assert isinstance(value, tree.Binary)
                    quotients[name] = len(changed), _Quotient(exponential, value.right, size)
        changed.append(statement)
    return tuple(statement for statement in changed if statement is not None)


def _is_one_at_most(value: tree.Expression) -> bool:
    """Whether a value is exp(X - rowMaxs(X))."""
    exponent = operand_of(value, "exp")
    return is_operation(exponent, "-") and operand_of(exponent.right, "rowMaxs") == exponent.left


def _divided(value: tree.Expression) -> tree.Name | None:
    """The matrix that is divided by its row sums."""
    if not is_operation(value, "/") or not isinstance(value.left, tree.Name):
        return None
    return value.left if any(operand_of(value.right, sums) == value.left for sums in _ROW_SUMS) else None


def _first_factor(node: tree.Binary | tree.Call, functions: Mapping[str, tree.Function]) -> str:
    """The variable whose rows are those of a product of matrices, or of products of many pairs, or nothing."""
    factor: tree.Expression
    if is_operation(node, "%*%"):
        factor = node.left
    elif isinstance(node, tree.Call) and (node.function == _BATCHED or _is_batched(functions.get(node.function))):
        factor = node.arguments[0].value
    else:
        return ""
    return factor.name if isinstance(factor, tree.Name) else ""


def _is_batched(function: tree.Function | None) -> bool:
    """Whether a function joins the products of rows of its first parameter and others of its second one."""
    if function is None or len(function.parameters) != 2 or len(function.body) != 1:
        return False
    (statement,), (first, second) = function.body, (parameter.name for parameter in function.parameters)
    joined = statement.value if isinstance(statement, tree.Assign) else None
    if not is_call(joined, "rbind"):
        return False
    below = 1
    for argument in joined.arguments:
        product = argument.value
        if not is_operation(product, "%*%") or read_in(product.right) != {second}:
            return False
        rows = product.left
        if not isinstance(rows, tree.Indexed) or rows.name != first or rows.columns != tree.Span():
            return False
        lower, upper = rows.rows.lower, rows.rows.upper
        if lower != tree.IntLiteral(below) or not isinstance(upper, tree.IntLiteral):
            return False
        below = upper.value + 1
    return True


def _with_first_factor(node: tree.Binary | tree.Call, factor: tree.Expression) -> tree.Expression:
    if isinstance(node, tree.Binary):
        return replace(node, left=factor)
    return replace(node, arguments=(replace(node.arguments[0], value=factor), *node.arguments[1:]))
