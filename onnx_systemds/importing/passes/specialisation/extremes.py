"""Rewrites `max` and `min` of a matrix and a number to a faster form with three operands on one row.

In the engine all operations of a matrix and a number share one loop. Once the JVM has seen more than two of them there,
it calls each for every element, which takes three times as long. `max` and `min` of three operands have a loop of their
own, with some calls per row; so the matrix is reshaped to one row. (That loop takes all rows of a sparse matrix for the
first one, which is correct for one row.) For fewer than some 4,000 elements the reshapes cost more than they save.
Many rows are shared among the engine's threads anyway, which is faster if maxima are all that the loop computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import is_finite_number
from onnx_systemds.dml.rewrite import call, rewritten
from onnx_systemds.dml.scopes import is_call, name_counts
from onnx_systemds.importing.passes.convolution_sizes import POOLINGS
from onnx_systemds.importing.passes.matrix_sizes import Known, statements_with_sizes

FLAT = {"max": "flat_max", "min": "flat_min"}  # library functions instead of builtins
_FEWEST, _MOST_ROWS = 16_384, 255


def is_large(rows: int, cols: int) -> bool:
    """Whether extremes of such a matrix are usually faster on one row: many rows are shared among threads."""
    return rows * cols >= _FEWEST and rows <= _MOST_ROWS


def is_long(rows: int, cols: int) -> bool:
    """The same in scripts that take both maxima and minima: then threads that share the rows are slower, too."""
    return rows * cols >= _FEWEST


def has_elements(rows: int, cols: int) -> bool:
    """Whether a matrix is not empty, so that it can be reshaped to one row."""
    return rows > 0 and cols > 0


def with_flat_extremes(
    body: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Known],
    is_wanted: Callable[[int, int], bool],
) -> tree.Block:
    """The statements of a function with library functions for `max` and `min` of a matrix and a literal number.

    functions: of the script, by name. given: sizes of parameters. is_wanted: whether to change it for a matrix of these
    rows and columns; where they are not known it stays. Results that only a pooling reads stay: the engine makes one
    operation of `max` and `max_pool`, and refuses some poolings of what comes back from one row (it takes its columns
    for none).
    """
    left = _read_once(body)
    changed: list[tree.Statement] = []
    for statement, size_of in statements_with_sizes(body, functions, given):

        def change(node: tree.Node) -> tree.Node:
            if not is_call(node, *FLAT) or len(node.arguments) != 2:
                return node
            matrix, number = sorted((argument.value for argument in node.arguments), key=is_finite_number)
            shape = size_of(matrix) if is_finite_number(number) else None  # noqa: B023 - called in this turn
            if not isinstance(shape, tuple) or not is_wanted(*shape):
                return node
            return call(FLAT[node.function], matrix, number, *map(tree.IntLiteral, shape))

        is_left = (isinstance(statement, tree.Assign) and statement.target.name in left
                   and is_call(statement.value, *FLAT))
        changed.append(statement if is_left else rewritten(statement, change))
    return tuple(changed)


def takes_both(body: tree.Block) -> bool:
    """Whether a function takes both maxima and minima of matrices and literal numbers."""
    calls = (node for node in tree.walk(*body) if isinstance(node, tree.Call) and len(node.arguments) == 2)
    flat = {call.function for call in calls if any(is_finite_number(given.value) for given in call.arguments)}
    return flat >= FLAT.keys()


def _read_once(body: tree.Block) -> set[str]:
    """The variables that are read only once, as the first operand of a pooling."""
    read = name_counts(body)
    calls = (node for node in tree.walk(*body) if isinstance(node, tree.Call))
    operands = [call.arguments[0].value for call in calls if call.function in POOLINGS]
    # a name counts twice: where it is assigned and where it is read
    return {operand.name for operand in operands if isinstance(operand, tree.Name) and read[operand.name] == 2}
