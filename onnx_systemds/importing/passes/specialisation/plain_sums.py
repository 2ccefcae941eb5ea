"""Sums and means of rows by products with a column of ones, which do not correct the rounding of each addition.

The engine's own take four times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import reshaped, rewritten
from onnx_systemds.dml.scopes import called_in, is_operation
from onnx_systemds.importing.passes.matrix_sizes import Known, statements_with_sizes

FUNCTIONS = {"rowSums": "row_sums", "rowMeans": "row_means"}
"""Those of the library, for matrices of which only the run knows the columns."""


def with_plain_sums(
    body: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Known]
) -> tree.Block:
    """The statements of a function with products for the sums and means of rows; sums of squares are fast as they are.

    functions: those of the script, by name. given: sizes of parameters.
    """
    if FUNCTIONS.keys().isdisjoint(name for statement in body for name in called_in(statement)):
        return body
    made: list[tree.Statement] = []
    for statement, size_of in statements_with_sizes(body, functions, given):

        def change(node: tree.Node) -> tree.Node:
            if not isinstance(node, tree.Call) or node.function not in FUNCTIONS:
                return node
            operand = node.arguments[0].value
            if node.function == "rowSums" and is_operation(operand, "^"):
                return node
            size = size_of(operand)  # noqa: B023 - called in this turn
            if not isinstance(size, tuple):
                return replace(node, function=FUNCTIONS[node.function])
            sums = tree.Binary("%*%", operand, reshaped(tree.IntLiteral(1), size[1], 1))
            return tree.Binary("/", sums, tree.IntLiteral(size[1])) if node.function == "rowMeans" else sums

        made.append(rewritten(statement, change))
    return tuple(made)
