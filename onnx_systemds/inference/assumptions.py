"""What a conversion takes for granted of sizes that only the run knows, and the statements that check it there.

Two sizes that differ in name are taken to be equal where an operator needs them to be, or would broadcast one of them
if it were 1; an axis of unknown size is not taken for one of size 1. Shape rules note it (`NodeFacts.assume_equal`),
and the script stops in words where it isn't so: at the start of the function, where the sizes are known there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import eq, gt, lt, ne

from onnx_systemds.dml.literals import message_literal
from onnx_systemds.errors import escaped, quoted
from onnx_systemds.inference.dims import Dim, Expression, Operation, is_non_negative, substitute, symbols
from onnx_systemds.limits import OverBudget
from onnx_systemds.model.ir import Node

DimText = Callable[[Dim], str]

_LONGEST_BEGINNING = 105
"""Characters of a check in one line, up to the end of the first words of its message, which are not broken."""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {"!=": ne, "==": eq, "<": lt, ">": gt}


class Relation(Enum):
    """How two sizes are taken to be: the comparison where it is not so, and what a message says."""

    EQUAL = "!=", "the script takes them to be equal (a 1 that is to broadcast is fixed by --dim)"
    OTHER = "==", "the script takes it to be another size (fix it by --dim)"
    AT_LEAST = "<", "the script takes it to be larger (fix the dims by --dim)"
    AT_MOST = ">", "the script takes it to be within"

    def is_broken(self, left: int, right: int) -> bool:
        """Whether two sizes are not so."""
        return _COMPARISONS[self.value[0]](left, right)


@dataclass(frozen=True, slots=True)
class Assumption:
    """How two sizes are taken to be, what they are ("" for a number that says nothing), and at which node."""

    left: Dim
    right: Dim
    relation: Relation
    left_words: str
    right_words: str
    node: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes of the run that decide it."""
        return symbols((self.left, self.right))

    @property
    def divisors(self) -> tuple[str, ...]:
        """The sizes of the run by which it divides."""
        found: list[Dim] = []
        stack = [size for size in (self.left, self.right) if isinstance(size, Expression)]
        while stack:
            atoms = {atom for monomial, _ in stack.pop().terms for atom in monomial if isinstance(atom, Operation)}
            found += [atom.right for atom in atoms if atom.operator in ("floordiv", "mod")]
            stack += [size for atom in atoms for size in (atom.left, atom.right) if isinstance(size, Expression)]
        return symbols(found)

    def statement(self, dim_text: DimText, factor_text: DimText) -> str:
        """The statement that stops the run where it is not so."""
        consequence = self.relation.value[1]
        found = [message_literal(f"{self.node}: {self.left_words} is "), factor_text(self.left)]
        if self.right_words:
            found += [message_literal(f", {self.right_words} is "), factor_text(self.right)]
        message = " + ".join([*found, message_literal(f"; {consequence}")])
        condition = f"if ({self.broken(dim_text)}) {{"
        if len(condition) + len(found[0]) > _LONGEST_BEGINNING:
            return f"{condition}\n  stop({message})\n}}"
        return f"{condition} stop({message}) }}"

    def complaint(self, sizes: Mapping[str, int]) -> str | None:
        """What is said of these sizes where it is not so; None where it is, or where some size is missing."""
        left, right = substitute(self.left, sizes), substitute(self.right, sizes)
        if not (isinstance(left, int) and isinstance(right, int)) or not self.relation.is_broken(left, right):
            return None
        other = f", {self.right_words} is {right}" if self.right_words else ""
        return f"{self.node}: {self.left_words} is {left}{other}; {self.relation.value[1]}"

    def broken(self, dim_text: DimText) -> str:
        """The condition under which it is not so."""
        return f"{dim_text(self.left)} {self.relation.value[0]} {dim_text(self.right)}"

    @property
    def bound(self) -> tuple[Dim, int] | None:
        """A size and its least value, as simple as may be, where that is all that it says: h and 4 for h // 2 >= 2."""
        if self.relation is not Relation.AT_LEAST or not isinstance(self.right, int):
            return None
        size, least = self.left, self.right
        while isinstance(size, Expression):
            constant = sum(coefficient for atoms, coefficient in size.terms if not atoms)
            (atoms, coefficient), *others = (term for term in size.terms if term[0])
            if others or coefficient < 1:
                return size - constant, least - constant
            size, least = (size - constant) // coefficient, -((constant - least) // coefficient)
            quotient = atoms[0]
            if len(atoms) > 1 or not isinstance(quotient, Operation) or quotient.operator != "floordiv":
                break
            if not isinstance(quotient.right, int) or quotient.right < 1:
                break
            size, least = quotient.left, least * quotient.right
        return size, least


def node_words(node: Node) -> str:
    """The node in a message."""
    return f"node {quoted(node.label)} ({escaped(node.op_type)})"


def axis_words(value: str, axis: int) -> str:
    """An axis of a value in a message of a script."""
    return f"axis {axis} of {quoted(value)}"


def certainly_differ(left: Dim, right: Dim) -> bool:
    """Whether two sizes differ whatever the symbols are, so far as their difference is not too long to tell."""
    try:
        difference = left - right
    except OverBudget:
        return False
    if isinstance(difference, int):
        return difference != 0
    return is_non_negative(difference - 1) or is_non_negative(-1 * difference - 1)
