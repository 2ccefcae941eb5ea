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

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import assigned
from onnx_systemds.importing.passes.specialisation.products import MATRIX
from onnx_systemds.importing.passes.specialisation.trees import call, is_number
from onnx_systemds.operators.rendering.weight_loads import is_load

FLAT = {"max": "flat_max", "min": "flat_min"}  # library functions instead of builtins

# The engine makes one operation of `max` and `max_pool`, and refuses some poolings of what comes back from one row (it
# takes its columns for none).
_BEST_AFTER = {"avg_pool", "max_pool"}

_IMAGES = {"avg_pool", "conv2d", "max_pool", MATRIX}  # sizes are among the arguments
_AS_THE_FIRST = {
    "abs", "bias_add", "bias_multiply", "ceil", "exp", "floor", "log", "matrix", "round", "sign", "sqrt", "t",
    *FLAT.values(),
}  # fmt: skip


def with_flat_extremes(main: tree.Function, functions: Mapping[str, tree.Function]) -> tree.Block:
    """The statements of a function with library functions for `max` and `min` of a matrix and a literal number.

    functions: of the script, by name. Matrices whose sizes the engine may not know stay (see `_sized`), and results
    that only a pooling reads (see `_BEST_AFTER`).
    """
    sized = _sized(main, functions)
    left = _read_once(main.body)

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call) or node.function not in FLAT or len(node.arguments) != 2:
            return node
        operands = [argument.value for argument in node.arguments]
        matrix, number = sorted(operands, key=is_number)
        if not is_number(number) or not _is_sized(matrix, sized, functions):
            return node
        return call(FLAT[node.function], matrix, number)

    def is_left(statement: tree.Statement) -> bool:
        if not isinstance(statement, tree.Assign) or statement.target.name not in left:
            return False
        return isinstance(statement.value, tree.Call) and statement.value.function in FLAT

    return tuple(statement if is_left(statement) else rewritten(statement, change) for statement in main.body)


def _sized(main: tree.Function, functions: Mapping[str, tree.Function]) -> set[str]:
    """The variables that are matrices of sizes which the engine knows.

    What it takes for known after branches and loops may be wrong, which would break the ways to one row and back.
    """
    counts = Counter(name for statement in main.body for name in assigned((statement,)))
    found = {
        parameter.name
        for parameter in main.parameters
        if parameter.type.kind == "matrix" and not counts[parameter.name]
    }
    for statement in main.body:
        if isinstance(statement, tree.Assign) and _is_sized(statement.value, found, functions):
            name = statement.target.name
            counts[name] -= 1
            if not counts[name]:  # all that is assigned to it is such
                found.add(name)
    return found


def _is_sized(node: tree.Expression, sized: set[str], functions: Mapping[str, tree.Function]) -> bool:
    """Whether an expression gives a matrix of sizes which the engine knows; sized: variables that are such."""
    while isinstance(node, tree.Binary) and node.operator != "%*%":
        if _is_sized(node.right, sized, functions):
            return True
        node = node.left
    if isinstance(node, tree.Binary):
        return _is_sized(node.left, sized, functions) and _is_sized(node.right, sized, functions)
    if isinstance(node, tree.Name):
        return node.name in sized
    if isinstance(node, tree.Unary):
        return _is_sized(node.operand, sized, functions)
    if isinstance(node, tree.Indexed):
        spans = [node.rows, node.columns]
        bounds = [bound for span in spans if span is not None for bound in (span.lower, span.upper)]
        return len(bounds) == 4 and all(isinstance(bound, tree.IntLiteral) for bound in bounds)
    if not isinstance(node, tree.Call):
        return False
    if node.function in _IMAGES or is_load(node):
        return True
    of_operands = [_is_sized(argument.value, sized, functions) for argument in node.arguments]
    if node.function in FLAT:
        return len(of_operands) > 1 and any(of_operands)  # of one operand it is a number
    if node.function in ("cbind", "rbind"):
        return all(of_operands)
    if node.function in functions and node.function not in FLAT.values():
        return _is_of_matrices(functions[node.function]) and all(of_operands)
    return node.function in _AS_THE_FIRST and of_operands[:1] == [True]


def _is_of_matrices(function: tree.Function) -> bool:
    """Whether a function makes one matrix of matrices, without branches and loops."""
    is_straight = all(isinstance(statement, tree.Assign) for statement in function.body)
    values = [*function.parameters, *function.results]
    return is_straight and len(function.results) == 1 and all(value.type.kind == "matrix" for value in values)


def _read_once(body: tree.Block) -> set[str]:
    """The variables that are read once, as the first operand of one of `_BEST_AFTER`."""
    read = Counter(node.name for statement in body for node in tree.walk(statement) if isinstance(node, tree.Name))
    calls = (node for statement in body for node in tree.walk(statement) if isinstance(node, tree.Call))
    operands = [call.arguments[0].value for call in calls if call.function in _BEST_AFTER]
    # a name counts twice: where it is assigned and where it is read
    return {operand.name for operand in operands if isinstance(operand, tree.Name) and read[operand.name] == 2}
