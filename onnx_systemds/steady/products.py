"""Forms of statements that are faster where sizes are known: products.

Depthwise convolutions become products with one sparse matrix, which is made once. The engine's `conv2d` copies each
window for it, and of one image takes one thread; with a native BLAS it makes the sparse filters of a depthwise
convolution dense. The matrix has an entry for each number that a result depends on. Sums and means of rows become
products with a column, which do not correct the rounding of each addition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from onnx_systemds.exporting import syntax as tree
from onnx_systemds.exporting.scopes import assigned
from onnx_systemds.steady.trees import known_sizes, rewritten, whole_number

MOST_ENTRIES = 16_000_000
"""Of all such matrices of a script; an entry takes 12 bytes."""

FILTERS, MATRIX = "depthwise_filters", "depthwise_matrix"  # library functions
ROW_AGGREGATES = {"rowSums": "row_sums", "rowMeans": "row_means"}  # library functions instead of builtins
_SHAPES = ("input_shape", "filter_shape", "stride", "padding")


def with_plain_sums(body: tree.Block) -> tree.Block:
    """The statements with products for the sums and means of rows; sums of squares are fast as they are."""

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call) or node.function not in ROW_AGGREGATES:
            return node
        operand = node.arguments[0].value
        if node.function == "rowSums" and isinstance(operand, tree.Binary) and operand.operator == "^":
            return node
        return replace(node, function=ROW_AGGREGATES[node.function])

    changed: tree.Block = rewritten(body, change)
    return changed


def with_sparse_products(body: tree.Block, constant: frozenset[int]) -> tree.Block:
    """The statements of a function with products for those depthwise convolutions that have constant filters.

    constant: the numbers of the constant statements. Convolutions of sizes that are not known stay, and so do those
    that would exceed `MOST_ENTRIES`.
    """
    counts = Counter(name for statement in body for name in assigned((statement,)))
    read = Counter(
        node.name
        for statement in body
        for node in tree.walk(statement.value if isinstance(statement, tree.Assign) else statement)
        if isinstance(node, tree.Name)
    )
    sizes = known_sizes(body)
    filters = {
        statement.target.name: number
        for number, statement in enumerate(body)
        if number in constant
        and isinstance(statement, tree.Assign)
        and isinstance(statement.value, tree.Call)
        and statement.value.function == FILTERS
        and counts[statement.target.name] == read[statement.target.name] == 1
    }
    matrices: dict[str, list[int]] = {}  # by the name of the filters: the arguments of `MATRIX` behind them
    left = MOST_ENTRIES

    def change(node: tree.Node) -> tree.Node:
        nonlocal left
        if not isinstance(node, tree.Call) or node.function != "conv2d":
            return node
        images, weight = (argument.value for argument in node.arguments[:2])
        shape = _shape(node, sizes)
        if not isinstance(weight, tree.Name) or weight.name not in filters or shape is None:
            return node
        entries = _entries(shape)
        if entries > left:
            return node
        left -= entries
        (_, *image), (_, _, *kernel), stride, padding = shape
        matrices[weight.name] = [*image, *kernel, *stride, *padding]
        return _transposed(tree.Binary("%*%", weight, _transposed(images)))

    changed = list(rewritten(body, change))
    for name, arguments in matrices.items():
        statement = changed[filters[name]]
        given = (statement.value.arguments[0], *(tree.CallArgument(None, tree.IntLiteral(n)) for n in arguments))
        changed[filters[name]] = replace(statement, value=tree.Call(MATRIX, given))
    return tuple(changed)


def _shape(call: tree.Call, sizes: Mapping[str, int]) -> list[list[int]] | None:
    """The lists of a convolution (`_SHAPES`), where all numbers in them are known."""
    given = {argument.name: argument.value for argument in call.arguments}
    shape: list[list[int]] = []
    for name in _SHAPES:
        value = given.get(name)
        numbers = [whole_number(item, sizes) for item in value.items] if isinstance(value, tree.ListExpression) else []
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            return None
        shape.append(known)
    return shape


def _entries(shape: list[list[int]]) -> int:
    """Non-zeros of the matrix of a depthwise convolution, at most."""
    (_, _, height, width), (filters, _, kh, kw), (sh, sw), (ph, pw) = shape
    return filters * kh * kw * ((height + 2 * ph - kh) // sh + 1) * ((width + 2 * pw - kw) // sw + 1)


def _transposed(operand: tree.Expression) -> tree.Call:
    return tree.Call("t", (tree.CallArgument(None, operand),))
