"""Assumptions about sizes that only the run knows, and the statements that check them.

Two sizes with different names are assumed to be equal if an operator needs them to be, or would broadcast one of them
if it were 1. An axis of unknown size is assumed not to have size 1. Shape rules note assumptions
(`NodeFacts.assume_equal`), and the script stops with a message if one is broken: at the start of the function, if the
sizes are known there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from onnx_systemds.dml.literals import message_literal
from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.errors import escaped, quoted
from onnx_systemds.inference.dims import Dim, Expression, Operation, is_non_negative, substitute, symbols
from onnx_systemds.limits import OverBudget
from onnx_systemds.model.ir import Node

DimText = Callable[[Dim], str]

_LONGEST_BEGINNING = 105
"""The most characters of a check on one line, up to the end of the first part of its message."""


class Relation(Enum):
    """An assumed relation of two sizes: the DML comparison that breaks it, and the end of the message."""

    EQUAL = "!=", "the script takes them to be equal"
    BROADCAST = "!=", "the script takes them to be equal (a 1 that is to broadcast is fixed by --dim)"
    OTHER = "==", "the script takes it to be another size (fix it by --dim)"
    AT_LEAST = "<", "the script takes it to be larger (fix the dims by --dim)"
    AT_MOST = ">", "the script takes it to be within"

    @property
    def is_equality(self) -> bool:
        """Whether the sizes are assumed to be equal."""
        return self.value[0] == "!="

    def is_broken(self, left: int, right: int) -> bool:
        """Whether two sizes break the relation."""
        return COMPARED[self.value[0]](left, right)


@dataclass(frozen=True, slots=True)
class Assumption:
    """An assumed relation of two sizes of a node. left_words, right_words: what they are, "" to omit one."""

    left: Dim
    right: Dim
    relation: Relation
    left_words: str
    right_words: str
    node: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of both sizes."""
        return symbols((self.left, self.right))

    @property
    def divisors(self) -> tuple[str, ...]:
        """The symbols in divisors of both sizes."""
        found: list[Dim] = []
        stack = [size for size in (self.left, self.right) if isinstance(size, Expression)]
        while stack:
            atoms = {atom for monomial, _ in stack.pop().terms for atom in monomial if isinstance(atom, Operation)}
            found += [atom.right for atom in atoms if atom.operator in ("floordiv", "mod")]
            stack += [size for atom in atoms for size in (atom.left, atom.right) if isinstance(size, Expression)]
        return symbols(found)

    def statement(self, dim_text: DimText, factor_text: DimText) -> str:
        """The statement that stops the run if the assumption is broken."""
        end = f"; {self.relation.value[1]}"
        found = [message_literal(f"{self.node}: {self.left_words} is "), factor_text(self.left)]
        if self.right_words and isinstance(self.right, int):
            end = f", {self.right_words} is {self.right}{end}"
        elif self.right_words:
            found += [message_literal(f", {self.right_words} is "), factor_text(self.right)]
        message = " + ".join([*found, message_literal(end)])
        condition = f"if ({self.broken(dim_text)}) {{"
        if len(condition) + len(found[0]) > _LONGEST_BEGINNING:
            return f"{condition}\n  stop({message})\n}}"
        return f"{condition} stop({message}) }}"

    def complaint(self, sizes: Mapping[str, int]) -> str | None:
        """The message for these sizes; None if the assumption holds, or if a size is missing."""
        left, right = substitute(self.left, sizes), substitute(self.right, sizes)
        if not (isinstance(left, int) and isinstance(right, int)) or not self.relation.is_broken(left, right):
            return None
        other = f", {self.right_words} is {right}" if self.right_words else ""
        return f"{self.node}: {self.left_words} is {left}{other}; {self.relation.value[1]}"

    def broken(self, dim_text: DimText) -> str:
        """The DML condition under which the assumption is broken."""
        return f"{dim_text(self.left)} {self.relation.value[0]} {dim_text(self.right)}"

    @property
    def bound(self) -> tuple[Dim, int] | None:
        """A simplified size and its lower bound, if this is an AT_LEAST: h and 4 for h // 2 >= 2."""
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
    """A node in messages."""
    return f"node {quoted(node.label)} ({escaped(node.op_type)})"


def axis_words(value: str, axis: int) -> str:
    """An axis of a value in messages of a script."""
    return f"axis {axis} of {quoted(value)}"


def certainly_differ(left: Dim, right: Dim) -> bool:
    """Whether two sizes differ for all values of the symbols; False if the difference is too long to decide."""
    try:
        difference = left - right
    except OverBudget:
        return False
    if isinstance(difference, int):
        return difference != 0
    return is_non_negative(difference - 1) or is_non_negative(-1 * difference - 1)
