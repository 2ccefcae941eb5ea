"""What operators make of 64-bit integers: which of their inputs they take as they are, and where results lie.

An operator says it by a function of the node, registered by `registry.integer_rule`, that gives a `Moves`, `Reads`,
`Computes` or `Sums`. Of one that says nothing it is taken that inputs up to 2^53 give results up to 2^53.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, Union

from onnx_systemds.inference.dims import Dim, Operation, Symbol, has_signed_symbols, is_non_negative

LIMIT = 2**53
"""Up to here FP64 holds every integer."""
LONGEST_AXIS = 2**31
"""No axis and no index is longer: the engine's matrices have fewer rows and columns."""
_UNBOUNDED = 1 << 200


class Span(NamedTuple):
    """All numbers from ``low`` to ``high``. doubtful: those beyond 2^53 may be rounded."""

    low: int
    high: int
    doubtful: bool = False

    @property
    def reach(self) -> int:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    def within(self, low: int, high: int) -> bool:
        """Whether all numbers lie between two others."""
        return low <= self.low and self.high <= high


EXACT = Span(-LIMIT, LIMIT)
INDEX = Span(0, LONGEST_AXIS)
UNBOUNDED = Span(-_UNBOUNDED, _UNBOUNDED)
COUNT = Span(-LONGEST_AXIS, LONGEST_AXIS)
Find = Callable[[Sequence[Span]], Span]
"""Where results lie when nothing is rounded, from the spans of all inputs."""


def joined(spans: Sequence[Span]) -> Span:
    """A span with all numbers of several."""
    return Span(min(s.low for s in spans), max(s.high for s in spans), any(s.doubtful for s in spans))


def symmetric(reach: int) -> Span:
    """All numbers up to a magnitude."""
    return Span(-reach, reach)


def size_span(size: Dim) -> Span:
    """Where a size lies, or a number that is made of sizes; what is read from inputs may be all that is exact."""
    if isinstance(size, int):
        return Span(size, size)
    reach = LIMIT if has_signed_symbols(size) else min(_size_reach(size), LIMIT)
    return Span(0 if is_non_negative(size) else -reach, reach)


def _size_reach(size: Dim) -> int:
    if isinstance(size, int):
        return abs(size)
    return sum(abs(factor) * prod(map(_atom_reach, atoms)) for atoms, factor in size.terms)


def _atom_reach(atom: Symbol | Operation) -> int:
    if isinstance(atom, Symbol):
        return LONGEST_AXIS
    if atom.operator == "mod":
        return _size_reach(atom.right)
    return max(_size_reach(atom.left), _size_reach(atom.right) if atom.operator in ("min", "max") else 0)


class Terms(NamedTuple):
    """Sums of ``number`` products of an element of each of some inputs, whose parts have to be exact, too."""

    positions: tuple[int, ...]
    number: Dim


@dataclass(frozen=True, slots=True)
class Moves:
    """Results are elements of inputs as they are; other inputs are read, and outputs after the first are indices.

    inputs: those whose elements are moved; None: all. is_compared: which elements are taken depends on their size, so
    that rounded ones would not do. has_zeros: zeros are put in. is_parted: all outputs are parts of the input.
    """

    inputs: tuple[int, ...] | None = (0,)
    is_compared: bool = False
    has_zeros: bool = False
    is_parted: bool = False


@dataclass(frozen=True, slots=True)
class Reads:
    """Inputs of any size are compared or looked at; the results lie in ``span``."""

    span: Span = COUNT


@dataclass(frozen=True, slots=True)
class Computes:
    """Results are computed from inputs up to ``largest``. is_rounded: they are rounded where they get beyond 2^53.

    is_sum: the result is the sum of the inputs. read: inputs that are only read.
    """

    find: Find
    is_rounded: bool = True
    largest: int = LIMIT
    is_sum: bool = False
    read: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sums:
    """Results are sums. read: inputs that are only read. total: where results lie that are made of sums and inputs.

    largest: of inputs that get a factor, how large they may be.
    """

    terms: Callable[[], Terms]
    read: tuple[int, ...] = ()
    total: Callable[[Span, Sequence[Span]], Span] | None = None
    largest: Mapping[int, int] = field(default_factory=dict)


IntegerUse = Union[Moves, Reads, Computes, Sums]


def sum_bound(terms: Terms, spans: Sequence[Span]) -> int:
    """The largest magnitude that a sum can have on its way."""
    bound = terms.number if isinstance(terms.number, int) else LONGEST_AXIS
    for position in terms.positions:
        bound *= spans[position].reach
    return bound
