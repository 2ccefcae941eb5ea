"""Maxima and minima with a number, as they are faster where scripts use several operations.

The engine's `max` and `min` of a matrix and a number share their loop with all operations of a matrix and a number.
Once the JVM has seen more than two of these there, it calls each for every element, for three times the time. Those
of three operands have a loop of their own, at the price of some calls for each row, so a matrix is made one row.
There the mistake of that loop, which takes the rows of sparse matrices for the first, is none. For matrices of less
than some 4,000 elements the further operations cost more than what that saves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from onnx_systemds.exporting import syntax as tree
from onnx_systemds.steady.trees import rewritten

FLAT = {"max": "flat_max", "min": "flat_min"}  # library functions instead of builtins

# The engine makes one operation of `max` and `max_pool`. Products with sparse matrices (see `products`) read
# transposed matrices; `max` alone makes those sparse that are mostly zeros, which they pass over.
_BEST_AFTER = {"max_pool", "t"}

_GIVE_MATRICES = {
    "as.matrix", "avg_pool", "bias_add", "bias_multiply", "cbind", "conv2d", "conv2d_backward_data", "diag",
    "matrix", "max_pool", "outer", "rbind", "rowMeans", "rowSums", "t",
}  # fmt: skip
_OF_ELEMENTS = {"abs", "ceil", "exp", "floor", "log", "round", "sign", "sqrt", *FLAT}


def with_flat_extremes(main: tree.Function, functions: Mapping[str, tree.Function]) -> tree.Block:
    """The statements of a function with library functions for `max` and `min` of a matrix and a literal number.

    functions: of the script, by name. Results that only a pooling or a transposition reads stay (see `_BEST_AFTER`).
    """
    matrices = _matrices(main, functions)
    left = _read_once(main.body)

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call) or node.function not in FLAT or len(node.arguments) != 2:
            return node
        operands = [argument.value for argument in node.arguments]
        matrix, number = sorted(operands, key=_is_number)
        if not _is_number(number) or not _is_matrix(matrix, matrices, functions):
            return node
        return tree.Call(FLAT[node.function], (tree.CallArgument(None, matrix), tree.CallArgument(None, number)))

    def is_left(statement: tree.Statement) -> bool:
        if not isinstance(statement, tree.Assign) or statement.target.name not in left:
            return False
        return isinstance(statement.value, tree.Call) and statement.value.function in FLAT

    return tuple(statement if is_left(statement) else rewritten(statement, change) for statement in main.body)


def _matrices(main: tree.Function, functions: Mapping[str, tree.Function]) -> set[str]:
    """The variables that are always matrices."""
    others = {parameter.name for parameter in main.parameters if parameter.type.kind != "matrix"}
    nodes = [node for statement in main.body for node in tree.walk(statement)]
    while True:
        found = {parameter.name for parameter in main.parameters} - others
        known = len(others)
        for node in nodes:
            if isinstance(node, tree.Assign) and isinstance(node.target, tree.Name):
                name = node.target.name
                if name not in others:
                    (found if _is_matrix(node.value, found, functions) else others).add(name)
            elif isinstance(node, tree.MultiAssign):
                others |= {target.name for target in node.targets}
            elif isinstance(node, tree.For):
                others.add(node.variable)
        found -= others
        if len(others) == known:
            return found


def _is_matrix(node: tree.Expression, matrices: set[str], functions: Mapping[str, tree.Function]) -> bool:
    """Whether an expression surely gives a matrix; matrices: variables that do."""
    while isinstance(node, tree.Binary) and node.operator != "%*%":
        if _is_matrix(node.right, matrices, functions):
            return True
        node = node.left
    if isinstance(node, (tree.Name, tree.Indexed)):
        return node.name in matrices
    if isinstance(node, tree.Unary):
        return _is_matrix(node.operand, matrices, functions)
    if not isinstance(node, tree.Call):
        return isinstance(node, tree.Binary)
    if node.function in functions:
        results = functions[node.function].results
        return len(results) == 1 and results[0].type.kind == "matrix"
    if node.function in FLAT and len(node.arguments) < 2:  # of all elements
        return False
    if node.function in _OF_ELEMENTS:
        return any(_is_matrix(argument.value, matrices, functions) for argument in node.arguments)
    return node.function in _GIVE_MATRICES


def _is_number(node: tree.Expression) -> bool:
    operand = node.operand if isinstance(node, tree.Unary) and node.operator == "-" else node
    return isinstance(operand, (tree.IntLiteral, tree.DoubleLiteral))


def _read_once(body: tree.Block) -> set[str]:
    """The variables that are read once, as the first operand of one of `_BEST_AFTER`."""
    read = Counter(node.name for statement in body for node in tree.walk(statement) if isinstance(node, tree.Name))
    calls = (node for statement in body for node in tree.walk(statement) if isinstance(node, tree.Call))
    operands = [call.arguments[0].value for call in calls if call.function in _BEST_AFTER]
    # a name counts twice: where it is assigned and where it is read
    return {operand.name for operand in operands if isinstance(operand, tree.Name) and read[operand.name] == 2}
