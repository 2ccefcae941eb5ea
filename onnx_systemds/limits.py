"""What a conversion may cost: its budgets, and the error where a model asks for more.

A hostile model of a few bytes can ask for work without end: sizes whose expressions double at each node, functions
that call each other twice, a result of 10^20 elements. It is refused with the figure; the driver adds the place.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx_systemds.errors import UnsupportedCase

MOST_ATOMS = 1_000
"""Symbols and operations in the expression of one size. Real models stay below 100, but for the sum of the anchors of
five maps (Mask R-CNN), which the run computes."""

MOST_FACTORS = 200
"""Factors of a product in it: the statement that writes it nests as deeply."""

LARGEST_SIZE = 1 << 63
"""Integers that sizes are calculated with stay below: ONNX's have 64 bits."""

LARGEST_RESULT = 1 << 33
"""Elements of a result that is larger than all of its node's inputs."""

LARGEST_TABLE = 1 << 25
"""Elements of a matrix that is made at conversion, besides the weights of the model."""

MOST_PARTS = 5_000
"""Parts of a statement, or statements of a node, that are written one by one."""

LOOP_STEPS = 32
"""What a step of a loop of Python's costs, in elements of a table."""

NODES_AT_LEAST = 4_000
NODES_FOR_EACH = 50
"""Nodes that are typed, for a model at all and for each node written in it: bodies and functions count at each use."""


class OverBudget(UnsupportedCase):
    """The model asks for more work or memory than a conversion may take."""


class TooLong(OverBudget):
    """A size is too long an expression: what carries it may be left to the run."""


def exhausted(error: MemoryError | RecursionError, place: object) -> OverBudget:
    """What to raise for a node at which Python's memory or stack came to its end."""
    if isinstance(error, MemoryError):
        return OverBudget("the node needs more memory than available", place)
    return OverBudget("its sizes are nested too deeply", place, "fix the dims by --dim")


class TooManyNodes(OverBudget):
    """Nodes become too many: nothing more of the model is looked at."""


def check_atoms(count: int) -> None:
    """Raise TooLong for an expression of so many symbols and operations."""
    if count > MOST_ATOMS:
        raise TooLong(
            f"a size is an expression of more than {MOST_ATOMS} symbols and operations", hint="fix the dims by --dim"
        )


def check_factors(count: int) -> None:
    """Raise TooLong for a product of so many sizes."""
    if count > MOST_FACTORS:
        raise TooLong(f"a size is a product of more than {MOST_FACTORS} sizes", hint="fix the dims by --dim")


def check_integer(value: int) -> None:
    """Raise OverBudget for an integer that no size can be."""
    if not -LARGEST_SIZE <= value < LARGEST_SIZE:
        raise OverBudget("a size is calculated with integers of more than 64 bits")


def check_table(elements: int, what: str) -> None:
    """Raise OverBudget for a matrix of so many elements, which would be made at conversion."""
    if elements > LARGEST_TABLE:
        raise OverBudget(f"{what} would have {elements} elements, at most {LARGEST_TABLE} are made at conversion")


def check_parts(count: int, what: str) -> None:
    """Raise OverBudget for so many parts that would be written one by one."""
    if count > MOST_PARTS:
        raise OverBudget(f"{what}: {count} parts, at most {MOST_PARTS} are written")


def check_results(given: Iterable[object], results: Iterable[object]) -> None:
    """Raise OverBudget for results that blow up: numbers of elements of a node's inputs and outputs, where known."""
    largest = max((size for size in results if isinstance(size, int)), default=0)
    if largest > LARGEST_RESULT and largest > sum(size for size in given if isinstance(size, int)):
        raise OverBudget(f"the result has {largest} elements, at most {LARGEST_RESULT} where its inputs have fewer")


def check_nodes(typed: int, written: int) -> None:
    """Raise OverBudget for so many nodes that have been typed, of a model in which so many are written."""
    most = NODES_AT_LEAST + NODES_FOR_EACH * written
    if typed > most:
        raise TooManyNodes(f"{written} nodes become more than {most} where functions and bodies are used")
