"""Solves a number of rows or columns, an expression over symbols, for a symbol; and follows what is equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from onnx_systemds.inference.dim_text import factor_text
from onnx_systemds.inference.dims import Dim, Monomial, Operation, Symbol, from_terms, symbols

Key = TypeVar("Key")


def solve(dim: Dim, name: str, total: str, symbol_text: Callable[[str], str]) -> str | None:
    """DML text of symbol ``name`` from the known value ``total`` of ``dim``; None if it is not determined.

    Only ``a * name + b`` is solved, with ``a`` and ``b`` free of the symbol.
    """
    if isinstance(dim, int):
        return None
    slopes: dict[Monomial, int] = {}
    offsets: dict[Monomial, int] = {}
    for monomial, coefficient in dim.terms:
        rest = tuple(atom for atom in monomial if atom != Symbol(name))
        powers = len(monomial) - len(rest)
        if powers > 1 or any(name in symbols((atom.left, atom.right)) for atom in rest if isinstance(atom, Operation)):
            return None
        (slopes if powers else offsets)[rest] = coefficient
    slope, offset = from_terms(slopes), from_terms(offsets)
    if slope == 0:
        return None
    numerator = total if offset == 0 else f"({total} - {factor_text(offset, symbol_text)})"
    return numerator if slope == 1 else f"{numerator} %/% {factor_text(slope, symbol_text)}"


def last_equal(equal: Mapping[Key, Key], key: Key) -> Key:
    """What a key is equal to, and that, and so on, up to what nothing else is noted for."""
    while key in equal:
        key = equal[key]
    return key
