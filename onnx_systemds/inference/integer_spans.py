"""Between which numbers the results of 64-bit integer operators lie, from what is known of their inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from onnx_systemds.inference.dims import Dim, Operation, Symbol, divide_exactly, has_any_sign, is_non_negative, product
from onnx_systemds.inference.facts import NodeFacts

LIMIT = 2**53
"""Up to here FP64 holds every integer."""
MOST_ELEMENTS = 2**31
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
INDEX = Span(0, MOST_ELEMENTS)
UNBOUNDED = Span(-_UNBOUNDED, _UNBOUNDED)
Rule = Callable[[NodeFacts, Sequence[Span]], Span]


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
    reach = LIMIT if has_any_sign(size) else min(_size_reach(size), LIMIT)
    return Span(0 if is_non_negative(size) else -reach, reach)


def _size_reach(size: Dim) -> int:
    if isinstance(size, int):
        return abs(size)
    return sum(abs(factor) * prod(map(_atom_reach, atoms)) for atoms, factor in size.terms)


def _atom_reach(atom: Symbol | Operation) -> int:
    if isinstance(atom, Symbol):
        return MOST_ELEMENTS
    if atom.operator == "mod":
        return _size_reach(atom.right)
    return max(_size_reach(atom.left), _size_reach(atom.right) if atom.operator in ("min", "max") else 0)


def _corners(left: Span, right: Span) -> Span:
    products = [a * b for a, b in itertools.product(left[:2], right[:2])]
    return Span(min(products), max(products))


def _quotient(_: NodeFacts, spans: Sequence[Span]) -> Span:
    if min(spans[0].low, spans[1].low) >= 0:
        return Span(0, spans[0].high)
    return symmetric(spans[0].reach)


def _remainder(node: NodeFacts, spans: Sequence[Span]) -> Span:
    divisor = spans[1]
    if divisor.low > 0 and (spans[0].low >= 0 or not node.attribute("fmod")):
        return Span(0, divisor.high - 1)
    return symmetric(divisor.reach)


def _power(node: NodeFacts, spans: Sequence[Span]) -> Span:
    exponent = node.constant(1)
    if exponent is None or exponent.size == 0 or float(exponent.max()) > 63:
        return UNBOUNDED
    reach = spans[0].reach ** max(int(-(-float(exponent.max()) // 1)), 1)
    return Span(0 if spans[0].low >= 0 else -reach, reach)


def _bits(_: NodeFacts, spans: Sequence[Span]) -> Span:
    """Numbers of no more bits than the operands have."""
    reach = 1 << joined(spans).reach.bit_length()
    return Span(0 if min(span.low for span in spans) >= 0 else -reach, reach - 1)


def _cumulative_sum(node: NodeFacts, spans: Sequence[Span]) -> Span:
    size = product(node.dims(0))
    count = size if isinstance(size, int) else MOST_ELEMENTS
    return Span(min(spans[0].low * count, 0), max(spans[0].high * count, 0))


def _product_of_many(_: NodeFacts, spans: Sequence[Span]) -> Span:
    return Span(-1, 1) if spans[0].reach <= 1 else UNBOUNDED


def _steps(_: NodeFacts, spans: Sequence[Span]) -> Span:
    return Span(min(span.low for span in spans[:2]), max(span.high for span in spans[:2]))


COMPUTED: dict[str, Rule] = {
    "Abs": lambda node, s: Span(0, s[0].reach),
    "Add": lambda node, s: Span(s[0].low + s[1].low, s[0].high + s[1].high),
    "BitwiseAnd": _bits,
    "BitwiseNot": lambda node, s: Span(-1 - s[0].high, -1 - s[0].low),
    "BitwiseOr": _bits,
    "BitwiseXor": _bits,
    "CumProd": _product_of_many,
    "CumSum": _cumulative_sum,
    "Div": _quotient,
    "Mod": _remainder,
    "Mul": lambda node, s: _corners(s[0], s[1]),
    "Neg": lambda node, s: Span(-s[0].high, -s[0].low),
    "PRelu": lambda node, s: joined([s[0], _corners(s[0], s[1])]),
    "Pow": _power,
    "Range": _steps,
    "ReduceProd": _product_of_many,
    "Shrink": lambda node, s: symmetric(2 * s[0].reach),
    "Sub": lambda node, s: Span(s[0].low - s[1].high, s[0].high - s[1].low),
}
"""By operator: where results lie when nothing is rounded."""


class Terms(NamedTuple):
    """Sums of ``number`` products of an element of each of some inputs, whose parts have to be exact, too."""

    positions: tuple[int, ...]
    number: Dim


def _reduced(node: NodeFacts, factors: int) -> Terms:
    total = product(node.dims(0))
    output = node.values[node.node.outputs[0]].dims
    count = None if output is None or product(output) == 0 else divide_exactly(total, product(output))
    return Terms((0,) * factors, total if count is None else count)


def _contracted(node: NodeFacts) -> Terms:
    return Terms((0, 1), node.dims(0)[-1] if node.rank(0) else 1)


def _gemm(node: NodeFacts) -> Terms:
    return Terms((0, 1), node.dims(0)[0 if node.attribute("transA") else -1])


def _einsum(node: NodeFacts) -> Terms:
    equation = str(node.attribute("equation")).replace(" ", "")
    inputs, _, output = equation.partition("->")
    sizes: dict[str, Dim] = {}
    for position, labels in enumerate(inputs.split(",")):
        if "." in labels or len(labels) != node.rank(position):
            return Terms(tuple(range(node.input_count)), MOST_ELEMENTS)
        sizes |= dict(zip(labels, node.dims(position)))
    result = output if "->" in equation else [label for label in sizes if inputs.count(label) == 1]
    return Terms(tuple(range(node.input_count)), product(size for label, size in sizes.items() if label not in result))


SUMS: dict[str, Callable[[NodeFacts], Terms]] = {
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _contracted,
    "ReduceL1": lambda node: _reduced(node, 1),
    "ReduceL2": lambda node: _reduced(node, 2),
    "ReduceMean": lambda node: _reduced(node, 1),
    "ReduceSum": lambda node: _reduced(node, 1),
    "ReduceSumSquare": lambda node: _reduced(node, 2),
}
"""By operator: what it sums. A sum that is exact in the end may have been rounded in between."""


def sum_bound(terms: Terms, spans: Sequence[Span]) -> int:
    """The largest magnitude that a sum can have on its way."""
    bound = terms.number if isinstance(terms.number, int) else MOST_ELEMENTS
    for position in terms.positions:
        bound *= spans[position].reach
    return bound
