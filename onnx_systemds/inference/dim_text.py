"""Dimensions as text: the expressions of integers that scripts compute. `dims` shows its own by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Terms(Protocol):
    """A sum, as `dims.Expression` is one: of each term the atoms, and the number.

    Atoms are symbols, which have a ``name``, and operations, which have an ``operator``, ``left`` and ``right``.
    """

    @property
    def terms(self) -> tuple[tuple[tuple[Any, ...], int], ...]:
        """The terms in their order."""


def text(dim: int | Terms, symbol_text: Callable[[str], str]) -> str:
    """The dimension as a DML integer expression; ``symbol_text`` names a symbol.

    The result binds weaker than ``*`` where it has several terms: embed it with :func:`factor_text`.
    """
    if isinstance(dim, int):
        return str(dim)
    parts: list[str] = []
    for monomial, coefficient in dim.terms:
        factors = [_atom_text(atom, symbol_text) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        parts.append(f" {sign} " + " * ".join(factors))
    joined = "".join(parts)
    return "(" + joined[1:].replace("- ", "-", 1) + ")" if joined.startswith(" -") else joined[3:]


def factor_text(dim: int | Terms, symbol_text: Callable[[str], str]) -> str:
    """As :func:`text`, in parentheses where an operator stands in it."""
    plain = text(dim, symbol_text)
    return plain if plain.isdigit() or plain.isidentifier() or _is_operation(dim) else f"({plain})"


def _is_operation(dim: int | Terms) -> bool:
    """Whether it is a single operation, whose text has parentheses."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return False
    ((monomial, coefficient),) = dim.terms
    return coefficient == len(monomial) == 1 and hasattr(monomial[0], "operator")


def _atom_text(atom: Any, symbol_text: Callable[[str], str]) -> str:
    if not hasattr(atom, "operator"):
        return symbol_text(atom.name)
    if atom.operator in ("min", "max"):
        return f"{atom.operator}({text(atom.left, symbol_text)}, {text(atom.right, symbol_text)})"
    sign = "%/%" if atom.operator == "floordiv" else "%%"
    return f"({factor_text(atom.left, symbol_text)} {sign} {factor_text(atom.right, symbol_text)})"
