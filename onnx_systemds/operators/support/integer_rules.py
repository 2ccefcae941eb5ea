"""What operators make of 64-bit integers: what they have in common, for `registry.integer_rule`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.integer_spans import UNBOUNDED, Computes, Moves, Reads, Span, Sums, Terms


def moved(node: NodeFacts) -> Moves:
    """Elements of the first input; the others say which."""
    return Moves()


def moved_beside_zeros(node: NodeFacts) -> Moves:
    """Elements of the first input, and zeros."""
    return Moves(has_zeros=True)


def chosen(node: NodeFacts) -> Moves:
    """Elements of the first input, which are compared."""
    return Moves(is_compared=True)


def chosen_of_all(node: NodeFacts) -> Moves:
    """Elements of all inputs, which are compared."""
    return Moves(None, is_compared=True)


def read(node: NodeFacts) -> Reads:
    """Comparisons, positions and counts."""
    return Reads()


def computed(span: Callable[[NodeFacts, Sequence[Span]], Span]) -> Callable[[NodeFacts], Computes]:
    """Numbers that lie where ``span`` says."""
    return lambda node: Computes(lambda spans: span(node, spans))


def summed(terms: Callable[[NodeFacts], Terms]) -> Callable[[NodeFacts], Sums]:
    """Sums."""
    return lambda node: Sums(lambda: terms(node))


def span_of_products(left: Span, right: Span) -> Span:
    """Where the product of two numbers lies."""
    products = [a * b for a, b in itertools.product(left[:2], right[:2])]
    return Span(min(products), max(products))


def span_of_many_factors(_: NodeFacts, spans: Sequence[Span]) -> Span:
    """Where the product of many numbers lies."""
    return Span(-1, 1) if spans[0].reach <= 1 else UNBOUNDED
