"""Forms of statements that are faster where sizes are known: products.

Depthwise convolutions become products with one sparse matrix, which is made once. The engine's `conv2d` copies each
window for it, and of one image takes one thread; with a native BLAS it makes the sparse filters of a depthwise
convolution dense. The matrix has an entry for each number that a result depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, rewritten
from onnx_systemds.dml.scopes import assignment_counts, is_call, name_counts
from onnx_systemds.importing.passes.convolution_sizes import Convolution, convolution_of
from onnx_systemds.importing.passes.matrix_sizes import integer_lookup

MOST_ENTRIES = 40_000_000
"""Of all such matrices of a script; an entry takes 12 bytes."""

FILTERS, MATRIX = "grouped_filters", "depthwise_matrix"  # library functions


def with_sparse_products(body: tree.Block, constant: frozenset[int]) -> tuple[tree.Block, Mapping[str, Convolution]]:
    """The statements of a function with products for those depthwise convolutions that have constant filters.

    constant: the numbers of the constant statements. Convolutions of sizes that are not known stay, and so do those
    that have no matrix or would exceed `MOST_ENTRIES`. Also gives the convolutions, by the names of their matrices.
    """
    counts = assignment_counts(body)
    seen = name_counts(body)
    integer_of = integer_lookup(body)
    filters = {  # the number of the statement, and of groups
        statement.target.name: (number, integer_of(statement.value.arguments[1].value))
        for number, statement in enumerate(body)
        if number in constant
        and isinstance(statement, tree.Assign)
        and isinstance(statement.value, tree.Call)
        and statement.value.function == FILTERS
        and counts[statement.target.name] == 1
        and seen[statement.target.name] == 2  # here, and where it is read
    }
    found: dict[str, Convolution] = {}
    left = MOST_ENTRIES

    def change(node: tree.Node) -> tree.Node:
        nonlocal left
        if not is_call(node, "conv2d"):
            return node
        images, weight = (argument.value for argument in node.arguments[:2])
        convolution = convolution_of(node, integer_of)
        if not isinstance(weight, tree.Name) or weight.name not in filters or convolution is None:
            return node
        is_depthwise = filters[weight.name][1] == convolution.images[1]
        if not is_depthwise or not convolution.has_matrix or convolution.entries > left:
            return node
        left -= convolution.entries
        found[weight.name] = convolution
        return transposed(tree.Binary("%*%", weight, transposed(images)))

    changed: list[Any] = list(rewritten(body, change))
    for name, convolution in found.items():
        statement = changed[filters[name][0]]
        numbers = [*convolution.images[1:], *convolution.filters[2:], *convolution.stride, *convolution.padding]
        made = call(MATRIX, statement.value.arguments[0].value, *map(tree.IntLiteral, numbers))
        changed[filters[name][0]] = replace(statement, value=made)
    return tuple(changed), found


def transposed(operand: tree.Expression) -> tree.Call:
    """``t(operand)``."""
    return call("t", operand)
