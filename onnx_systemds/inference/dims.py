"""Dimensions: integers, or integer expressions over named symbols.

An expression is a polynomial with integer coefficients over atoms; an atom is a symbol (``batch``) or an operation that
a polynomial cannot hold (floor division, modulo, minimum, maximum of two expressions). The form is canonical, so equal
polynomials compare equal. Symbols stand for sizes, which are not negative, except those named with `SIGNED_PREFIX`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import chain
from math import gcd
from typing import Union

from onnx_systemds.inference.dim_text import text
from onnx_systemds.limits import check_atoms, check_factors, check_integer

Atom = Union["Symbol", "Operation"]
Monomial = tuple[Atom, ...]

RUN_PREFIX = "?"  # first character of the symbols of sizes that only the run decides
RUN_SIZE_PREFIX = "?="  # of those that may be 0
SIGNED_PREFIX = "?-"  # of those that may also be negative
_LONGEST_QUOTIENT = 64  # terms; a longer division is treated as inexact
_REMEMBERED = 4096  # entries of a cache: few different sizes occur in a graph


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named size that is known only when the script runs."""

    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """``left operator right`` for the operators ``floordiv``, ``mod``, ``min``, ``max``."""

    operator: str
    left: Dim
    right: Dim
    atoms: int = field(default=1, compare=False)  # symbols and operations in it


@dataclass(frozen=True, slots=True)
class Expression:
    """Sum of ``coefficient * product of atoms``; built by the functions of this module only."""

    terms: tuple[tuple[Monomial, int], ...]
    atoms: int = field(default=1, compare=False)  # symbols and operations in it
    _hash: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expression) and self.terms == other.terms)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        return add(self, other)

    __radd__ = __add__

    def __mul__(self, other: Dim) -> Dim:
        return multiply(self, other)

    __rmul__ = __mul__

    def __sub__(self, other: Dim) -> Dim:
        return add(self, multiply(-1, other))

    def __rsub__(self, other: Dim) -> Dim:
        return add(other, multiply(-1, self))

    def __floordiv__(self, other: Dim) -> Dim:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floor_divide(other, self)

    def __str__(self) -> str:
        return text(self, lambda name: name)


Dim = Union[int, Expression]
Dims = tuple[Dim, ...]


@lru_cache(maxsize=_REMEMBERED)
def symbol(name: str) -> Expression:
    """The dimension that is called ``name``."""
    return Expression(((((Symbol(name)),), 1),))


def add(left: Dim, right: Dim) -> Dim:
    """``left + right``."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    total = dict(terms(left))
    for monomial, coefficient in terms(right):
        total[monomial] = total.get(monomial, 0) + coefficient
    return from_terms(total)


def multiply(left: Dim, right: Dim) -> Dim:
    """``left * right``."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if isinstance(left, int):
        return right if left == 1 else _multiplied(left, right)
    return left if isinstance(right, int) and right == 1 else _multiplied(left, right)


@lru_cache(maxsize=_REMEMBERED)
def _multiplied(left: Dim, right: Dim) -> Dim:
    left_terms, right_terms = terms(left), terms(right)
    check_atoms(_atoms(left) * len(right_terms) + _atoms(right) * len(left_terms))
    total: dict[Monomial, int] = {}
    for left_monomial, left_coefficient in left_terms:
        for right_monomial, right_coefficient in right_terms:
            check_factors(len(left_monomial) + len(right_monomial))
            monomial = tuple(sorted(left_monomial + right_monomial, key=_atom_key))
            total[monomial] = total.get(monomial, 0) + left_coefficient * right_coefficient
    return from_terms(total)


def product(dims: Iterable[Dim]) -> Dim:
    """Product of all dimensions, 1 for none."""
    known = 1
    rest: Dim | None = None
    for dim in dims:
        if isinstance(dim, int):
            known *= dim
        else:
            rest = dim if rest is None else multiply(rest, dim)
    return known if rest is None else multiply(known, rest)


def floor_divide(left: Dim, right: Dim) -> Dim:
    """``floor(left / right)``; exact where the division has no remainder. Raises ZeroDivisionError."""
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if right == 1:
        return left
    exact = divide_exactly(left, right)
    if exact is not None:
        return exact
    if isinstance(right, int) and isinstance(left, Expression):
        match _lone_atom(left):
            case Operation("floordiv", whole_size, int(inner)) if min(inner, right) > 0:  # rounded down or towards 0
                return floor_divide(whole_size, inner * right)
        # floor((k*right*a + b) / right) = k*a + floor(b / right), of a b that is not negative: DML cuts off towards 0
        whole = {m: c for m, c in left.terms if c % right == 0}
        rest = from_terms({m: c for m, c in left.terms if c % right != 0})
        if whole and (isinstance(rest, int) or is_non_negative_from_one(rest)):
            return add(from_terms({m: c // right for m, c in whole.items()}), floor_divide(rest, right))
    if (common := _common_factor(left, right)) is not None:
        return floor_divide(*(divide_exactly(dim, common) or 0 for dim in (left, right)))
    return _operation("floordiv", left, right)


def _common_factor(left: Dim, right: Dim) -> Dim | None:
    """What all terms of two dimensions are multiples of, a number times symbols; None if that is 1."""
    both = (*terms(left), *terms(right))
    number = gcd(*(coefficient for _, coefficient in both))
    atoms = reduce(operator.and_, (Counter(monomial) for monomial, _ in both))
    return from_terms({tuple(sorted(atoms.elements(), key=_atom_key)): number}) if number > 1 or atoms else None


def divide_exactly(left: Dim, right: Dim) -> Dim | None:
    """``left / right`` if the division of the polynomials is exact, else None."""
    if isinstance(left, int) and isinstance(right, int):
        return left // right if right != 0 and left % right == 0 else None
    if left == right:
        return 1
    return None if right == 0 else _quotient(left, right)


@lru_cache(maxsize=_REMEMBERED)
def _quotient(left: Dim, right: Dim) -> Dim | None:
    """Long division of polynomials; monomials are ordered by the powers of their atoms."""
    atoms = sorted({atom for dim in (left, right) for monomial, _ in terms(dim) for atom in monomial}, key=_atom_key)
    rest, divisor = (
        {tuple(map(monomial.count, atoms)): coefficient for monomial, coefficient in terms(dim)}
        for dim in (left, right)
    )
    highest = max(divisor)
    quotient: dict[Monomial, int] = {}
    while rest:
        high = max(rest)
        coefficient, remainder = divmod(rest[high], divisor[highest])
        powers = tuple(power - least for power, least in zip(high, highest))
        if remainder or min(powers) < 0 or len(quotient) == _LONGEST_QUOTIENT:
            return None
        quotient[tuple(atom for atom, power in zip(atoms, powers) for _ in range(power))] = coefficient
        for factors, multiple in divisor.items():
            place = tuple(power + factor for power, factor in zip(powers, factors))
            rest[place] = rest.get(place, 0) - multiple * coefficient
            if rest[place] == 0:
                del rest[place]
    return from_terms(quotient)


def modulo(left: Dim, right: Dim) -> Dim:
    """``left - floor(left / right) * right``."""
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if divide_exactly(left, right) is not None:
        return 0
    return _operation("mod", left, right)


def minimum(left: Dim, right: Dim) -> Dim:
    """The smaller of two dimensions."""
    known = _ordered(left, right)
    return _operation("min", *sorted((left, right), key=str)) if known is None else known[0]


def maximum(left: Dim, right: Dim) -> Dim:
    """The larger of two dimensions."""
    known = _ordered(left, right)
    return _operation("max", *sorted((left, right), key=str)) if known is None else known[1]


def _ordered(left: Dim, right: Dim) -> tuple[Dim, Dim] | None:
    """The smaller and the larger of two dimensions, None where only the run can tell."""
    difference = add(left, multiply(-1, right))
    if is_non_negative(difference):
        return right, left
    return (left, right) if is_non_negative(multiply(-1, difference)) else None


def is_non_negative(dim: Dim) -> bool:
    """Whether the dimension is certainly >= 0, if all symbols (except those with `SIGNED_PREFIX`) and quotients are."""
    return _is_sum_of_sizes(dim) or any(map(_is_sum_of_sizes, _lower_bounds(dim)))


def _is_sum_of_sizes(dim: Dim) -> bool:
    return all(coefficient >= 0 and all(map(_is_size, monomial)) for monomial, coefficient in terms(dim))


def _lower_bounds(dim: Dim) -> list[Dim]:
    """Dimensions that are at most this one: k times a quotient by k lies between what is divided - k + 1 and that."""
    bounds = [dim, dim]
    for monomial, coefficient in terms(dim):
        found = next((it for it in monomial if isinstance(it, Operation) and it.operator == "floordiv"), None)
        if found is None or not isinstance(found.right, int) or coefficient % found.right or found.right < 1:
            continue
        if is_non_negative(found.left) and all(map(_is_size, monomial)):
            term = from_terms({monomial: coefficient})
            times = floor_divide(term, from_terms({(found,): found.right}))
            least = times * (found.left if coefficient < 0 else found.left - found.right + 1)
            bounds = [bounds[0] - (term - least if coefficient < 0 else 0), bounds[1] - term + least]
    return bounds


def is_non_negative_from_one(dim: Dim) -> bool:
    """As `is_non_negative`, if symbols are at least 1 (except those that the run may decide to be 0)."""
    at_least_one = {name: symbol(name) + 1 for name in symbols(dim) if not may_be_zero(symbol(name))}
    return is_non_negative(substitute(dim, at_least_one))


def _is_size(atom: Atom) -> bool:
    """Whether an atom is certainly >= 0."""
    if isinstance(atom, Symbol):
        return not atom.name.startswith(SIGNED_PREFIX)
    sides, is_largest = (atom.left, atom.right), atom.operator == "max"
    if atom.operator == "min" and any(isinstance(side, int) and side <= 0 for side in sides):
        return False  # a minimum with a number that is not positive
    # a maximum with a negative number is a position, which may be before the first
    is_position = is_largest and any(isinstance(side, int) and side < 0 for side in sides)
    if not is_position and not has_signed_symbols(sides):
        return True
    return (any if is_largest else all)(map(is_non_negative, sides))


def has_signed_symbols(dims: Dim | Iterable[Dim]) -> bool:
    """Whether symbols occur that may be negative."""
    return any(name.startswith(SIGNED_PREFIX) for name in symbols(dims))


def may_be_zero(dims: Dim | Iterable[Dim]) -> bool:
    """Whether symbols occur that may be 0 at run time; other symbols are at least 1."""
    return any(name.startswith((RUN_SIZE_PREFIX, SIGNED_PREFIX)) for name in symbols(dims))


def depends_on_run(dims: Dim | Iterable[Dim]) -> bool:
    """Whether symbols occur that only the run decides."""
    return any(name.startswith(RUN_PREFIX) for name in symbols(dims))


def lone_symbol(dim: Dim) -> str | None:
    """The name of the symbol if the dimension is a single symbol, else None."""
    atom = _lone_atom(dim)
    return atom.name if isinstance(atom, Symbol) else None


def symbols(dims: Dim | Iterable[Dim]) -> tuple[str, ...]:
    """Names of all symbols, in order of first appearance."""
    if isinstance(dims, int):
        return ()
    if isinstance(dims, Expression):
        return _symbols(dims)
    found = [_symbols(dim) for dim in dims if not isinstance(dim, int)]
    if len(found) < 2:
        return found[0] if found else ()
    return tuple(dict.fromkeys(chain.from_iterable(found)))


@lru_cache(maxsize=_REMEMBERED)
def _symbols(expression: Expression) -> tuple[str, ...]:
    found: dict[str, None] = {}
    stack: list[Dim] = [expression]
    while stack:
        dim = stack.pop()
        if isinstance(dim, int):
            continue
        for monomial, _ in dim.terms:
            for atom in monomial:
                if isinstance(atom, Symbol):
                    found.setdefault(atom.name)
                else:
                    stack += [atom.right, atom.left]
    return tuple(found)


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Replace symbols by dimensions; symbols that are not in ``values`` stay."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom in monomial:
            if isinstance(atom, Symbol):
                factor: Dim = values.get(atom.name, Expression((((atom,), 1),)))
            else:
                left, right = substitute(atom.left, values), substitute(atom.right, values)
                factor = _OPERATIONS[atom.operator](left, right)
            term = multiply(term, factor)
        total = add(total, term)
    return total


def _lone_atom(dim: Dim) -> Atom | None:
    """The atom if the dimension is a single one, else None."""
    found = terms(dim)
    return found[0][0][0] if len(found) == 1 and found[0][1] == len(found[0][0]) == 1 else None


def terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    """The monomials of a dimension with their coefficients: that of its constant is empty."""
    if isinstance(dim, int):
        return (((), dim),) if dim else ()
    return dim.terms


def from_terms(total: Mapping[Monomial, int]) -> Dim:
    """The sum of monomials with their coefficients."""
    terms = [(monomial, coefficient) for monomial, coefficient in total.items() if coefficient]
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    # higher degrees first, the constant last: 2*seq + 1
    terms.sort(key=lambda term: (-len(term[0]), [_atom_key(atom) for atom in term[0]]))
    atoms = sum(1 if isinstance(atom, Symbol) else atom.atoms for monomial, _ in terms for atom in monomial)
    check_atoms(atoms)
    for _, coefficient in terms:
        check_integer(coefficient)
    return Expression(tuple(terms), atoms)


def _operation(operator: str, left: Dim, right: Dim) -> Expression:
    atoms = 1 + _atoms(left) + _atoms(right)
    check_atoms(atoms)
    return Expression((((Operation(operator, left, right, atoms),), 1),), atoms)


def _atoms(dim: Dim) -> int:
    return 0 if isinstance(dim, int) else dim.atoms


@lru_cache(maxsize=_REMEMBERED)
def _atom_key(atom: Atom) -> str:
    """Text that orders atoms."""
    return atom.name if isinstance(atom, Symbol) else f"{atom.operator}({atom.left},{atom.right})"


_OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floor_divide, "mod": modulo, "min": minimum, "max": maximum
}
