"""Sinks the division of a softmax below the matrix product that follows, if the result of the product is narrower.

``(E / rowSums(E)) %*% V`` becomes ``(E %*% V) / rowSums(E)``, as in attention: a row of E has a number per token, a row
of the result one per feature of a head. The exponentials are at most 1, so the product cannot overflow before it is
divided. A NaN makes the whole row NaN either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten, unchanged, with_first
from onnx_systemds.dml.scopes import (
    assignment_counts,
    assigns_variable,
    is_operation,
    is_reshape,
    name_counts,
    results,
)
from onnx_systemds.importing.passes.matrix_sizes import Known, Shape, statements_with_sizes
from onnx_systemds.importing.passes.softmax_forms import powers_of_shares, scores_of_powers
from onnx_systemds.operators.support.products import pairs_of

_BATCHED = "batch_matmul"  # whose rows are those of its first operand


@dataclass(frozen=True)
class _Quotient:
    """An exponential and its row sums, which it is divided by."""

    exponential: tree.Name
    sums: tree.Expression
    size: Shape


def with_sunk_divisions(
    function: tree.Function, functions: Mapping[str, tree.Function], given: Mapping[str, Known]
) -> tree.Function:
    """A function with divisions after products.

    functions: those of the script, by name. given: sizes of parameters. Variables that a branch or a loop assigns or
    reads stay as they are, and so do results and those that several statements read.
    """
    body, kept = function.body, results(function)
    read = name_counts(body)
    counts = assignment_counts(body)
    exponentials: set[str] = set()
    quotients: dict[str, tuple[int, _Quotient]] = {}
    changed: list[tree.Statement | None] = []
    for statement, size_of in statements_with_sizes(body, functions, given):

        def sunk(node: tree.Node) -> tree.Expression | None:
            """The quotient of a product, which may have been given its size."""
            product = node.arguments[0].value if is_reshape(node) else node
            if not isinstance(node, (tree.Binary, tree.Call)) or not isinstance(product, (tree.Binary, tree.Call)):
                return None
            found = quotients.get(_first_operand(product))
            if found is None or not _is_product(product, functions):
                return None
            place, quotient = found
            size = size_of(node)  # noqa: B023 - called in this turn
            if not isinstance(size, tuple) or size[0] != quotient.size[0] or size[1] >= quotient.size[1]:
                return None
            changed[place] = None
            dividend = _with_first_factor(product, quotient.exponential)
            return tree.Binary("/", with_first(node, dividend) if is_reshape(node) else dividend, quotient.sums)

        if assigns_variable(statement):
            name, value = statement.target.name, statement.value
            statement = rewritten(statement, unchanged, sunk)
            if counts[name] == 1 and scores_of_powers(value) is not None:
                exponentials.add(name)
            exponential = powers_of_shares(value)
            # a name counts twice: where it is assigned and where it is read
            is_read_once = counts[name] == 1 and read[name] == 2 and name not in kept
            if is_read_once and isinstance(exponential, tree.Name):
                size = size_of(exponential)
                if exponential.name in exponentials and isinstance(size, tuple):
                    assert isinstance(value, tree.Binary)
                    quotients[name] = len(changed), _Quotient(exponential, value.right, size)
        changed.append(statement)
    return replace(function, body=tuple(statement for statement in changed if statement is not None))


def _first_operand(node: tree.Binary | tree.Call) -> str:
    """The variable that is the first operand; "" for another expression."""
    if isinstance(node, tree.Binary):
        operand = node.left
    else:
        operand = node.arguments[0].value if node.arguments else node
    return operand.name if isinstance(operand, tree.Name) else ""


def _is_product(node: tree.Binary | tree.Call, functions: Mapping[str, tree.Function]) -> bool:
    """Whether an expression is a product, or a batched product."""
    if isinstance(node, tree.Binary):
        return is_operation(node, "%*%")
    return node.function == _BATCHED or _is_batched(functions.get(node.function))


def _is_batched(function: tree.Function | None) -> bool:
    """Whether a function is a batched product; of those with a loop, one of matrices as they are."""
    found = None if function is None else pairs_of(function)
    return function is not None and found is not None and (len(function.body) == 1 or not found.transposed)


def _with_first_factor(node: tree.Binary | tree.Call, factor: tree.Expression) -> tree.Expression:
    return replace(node, left=factor) if isinstance(node, tree.Binary) else with_first(node, factor)
