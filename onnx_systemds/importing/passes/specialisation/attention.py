"""Products of many pairs of matrices, Softmax of their rows, and products of that: one function, triple by triple.

A script for any size joins the scores of all heads and takes them apart again, four passes over the largest matrix of
an attention. ``batch_attention`` does so only where the matrices of a head are small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, rewritten
from onnx_systemds.dml.scopes import assignment_counts, assigns_variable, is_call, name_counts, operand_of, read_in
from onnx_systemds.importing.passes.specialisation.late_quotients import divided_by_sums, is_one_at_most
from onnx_systemds.importing.passes.specialisation.matrix_sizes import Known, followed

ATTENTION = "batch_attention"  # a library function
_PRODUCTS, _SCORES = "batch_matmul", "batch_matmul_transposed"


def with_batch_attention(
    function: tree.Function, functions: Mapping[str, tree.Function], given: Mapping[str, Known]
) -> tree.Function:
    """The function with one call for both products and the Softmax between them.

    functions: of the script, by name. given: sizes of parameters, which differ where they may. What a branch or a loop
    assigns or reads stays, and so does what other statements read, or callers.
    """
    body = function.body
    if not any(is_call(node, _SCORES) for node in tree.walk(*body)):
        return function
    read, counts = name_counts(body), assignment_counts(body)
    read.update(result.name for result in function.results)
    counts.update(parameter.name for parameter in function.parameters)
    scores: dict[str, tuple[int, tree.Call]] = {}
    exponentials: dict[str, tuple[int, str]] = {}
    shares: dict[str, tuple[int, str]] = {}
    changed: list[tree.Statement | None] = []
    for statement, size_of in followed(body, functions, given):

        def change(node: tree.Node) -> tree.Node:
            if not is_call(node, _PRODUCTS) or not isinstance(node.arguments[0].value, tree.Name):
                return node
            quotient = shares.get(node.arguments[0].value.name)
            if quotient is None:
                return node
            third, exponential = quotient
            second, name = exponentials[exponential]
            first, product = scores[name]
            x, y, count = (argument.value for argument in product.arguments)
            if node.arguments[2].value != count:
                return node
            for place in (first, second, third):
                changed[place] = None
            return call(ATTENTION, x, y, node.arguments[1].value, count)

        if assigns_variable(statement):
            name, value = statement.target.name, statement.value
            statement = rewritten(statement, change)
            place = len(changed)
            # a name counts twice: where it is assigned and where it is read
            if counts[name] == 1 and read[name] == 3:
                product = _scores(value, size_of)
                if product is not None and all(counts[operand] == 1 for operand in read_in(product)):
                    scores[name] = place, product
                if is_one_at_most(value) and (exponent := operand_of(value, "exp")) is not None:
                    taken = exponent.left if isinstance(exponent, tree.Binary) else None
                    if isinstance(taken, tree.Name) and taken.name in scores:
                        exponentials[name] = place, taken.name
            if counts[name] == 1 and read[name] == 2:
                exponential = divided_by_sums(value)
                if exponential is not None and exponential.name in exponentials:
                    shares[name] = place, exponential.name
        changed.append(statement)
    return replace(function, body=tuple(statement for statement in changed if statement is not None))


def _scores(value: tree.Expression, size_of: Callable[[tree.Expression], Known | None]) -> tree.Call | None:
    """The call whose products a value is, one below the other, be it in a reshape to their rows and columns."""
    product = operand_of(value, "matrix") or value
    if not is_call(product, _SCORES):
        return None
    x, y, count = (size_of(argument.value) for argument in product.arguments)
    if not isinstance(x, tuple) or not isinstance(y, tuple) or not isinstance(count, int) or count < 1:
        return None
    return product if size_of(value) == (x[0], y[0] // count) else None
