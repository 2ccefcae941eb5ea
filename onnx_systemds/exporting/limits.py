"""What one export may take: steps of the evaluation, sizes of what it makes. Beyond them a script is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable

from onnx_systemds.errors import ScriptError, UnsupportedCase
from onnx_systemds.inference.dims import Dim, Expression, Operation

MOST_STEPS = 40_000
"""Statements and calls that are evaluated, each time again; some seconds."""
MOST_ELEMENTS = 1 << 26
"""Elements of matrices that are calculated when the script is exported, all of them together; 512 MB."""
LARGEST_MATRIX = 1 << 40
"""Elements of one matrix of the model, where its size is known: more fit into no machine."""
LARGEST_BATCH = 1 << 26
"""Most elements of a matrix for all iterations of a loop at once; a larger one takes memory and saves no time."""
SIZE_OF_THE_RUN = 64
"""For how many a size counts that only the run knows, where it is asked about how large a matrix will be."""
MOST_PARTS = 1 << 8
"""Matrices that one Concat joins; joined ones are joined again beyond."""
LONGEST_TEXT = 1 << 20
"""Characters of a string."""
MOST_ITEMS = 20_000
"""Items of a list, those of its lists included."""
LARGEST_INTEGER = 1 << 53
"""Integers that scripts calculate with: every one up to here is a double."""
LARGEST_SIZE_EXPRESSION = 100
"""Symbols and numbers of the expression of a size; longer ones are calculated by the model and get a name."""

DEEPEST_GRAPH = 31
"""Graphs of branches and bodies around each other: protobuf reads messages 100 levels deep, and each takes three."""


class BudgetExceeded(ScriptError):
    """The evaluation takes too long; it ends at once, whatever a statement that fails would be good for."""


def check_elements(dims: Iterable[Dim]) -> None:
    """Raise UnsupportedCase where a matrix of these dims is larger than any can be, as far as its size is known."""
    total = 1
    shown = tuple(dims)
    for dim in shown:
        total *= dim if isinstance(dim, int) else max((abs(factor) for _, factor in dim.terms), default=1)
    if total > LARGEST_MATRIX:
        size = " x ".join(map(str, shown))
        raise UnsupportedCase(f"a matrix of {size} has {total} elements or more, and {LARGEST_MATRIX} are possible")


def estimated_elements(dims: Iterable[Dim]) -> int:
    """Return about how many elements a matrix of these dims has."""
    return math.prod(dim if isinstance(dim, int) else
                     max(1, sum(factor * SIZE_OF_THE_RUN ** len(monomial) for monomial, factor in dim.terms))
                     for dim in dims)


def check_depth(graphs: int) -> None:
    """Raise UnsupportedCase for so many graphs of branches and bodies around each other."""
    if graphs > DEEPEST_GRAPH:
        hint = ("merge the conditions, or put the inner statements in front of the outer ones; "
                "a function that calls itself must end by what is known")
        raise UnsupportedCase(
            f"{graphs} branches and loops around each other, and a model can hold {DEEPEST_GRAPH}", hint=hint
        )


def complexity(dim: Dim) -> int:
    """Return how many symbols and numbers the expression of a size holds."""
    if not isinstance(dim, Expression):
        return 1
    return sum(1 + sum(1 + complexity(atom.left) + complexity(atom.right) if isinstance(atom, Operation) else 1
                       for atom in monomial) for monomial, _ in dim.terms)
