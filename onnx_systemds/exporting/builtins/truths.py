"""Comparisons of truths with numbers: a truth again, or its opposite."""

from __future__ import annotations

from collections.abc import Callable

from onnx_systemds.exporting.graph.nodes import BOOL, Tensor, source_of
from onnx_systemds.exporting.graph.operators import Operators


def compared_truth(g: Operators, compare: Callable[[float, float], bool], x: Tensor, number: Tensor) -> Tensor | None:
    """Return how truths as numbers compare with a known number, None for other tensors."""
    truth, known = source_of(x, "Cast"), number.only_element
    if truth is None or truth.kind != BOOL or not g.visible(truth) or known is None or number.rank > x.rank:
        return None
    no, yes = (bool(compare(value, float(known))) for value in (0.0, 1.0))
    return None if no == yes else truth if yes else ~truth
