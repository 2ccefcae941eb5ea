"""Positions along an axis that only the run knows: whether one may lie before the first."""

from __future__ import annotations

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import INT, Tensor, made_by
from onnx_systemds.inference.dims import Dim, Operation, from_terms, has_signed_symbols, is_non_negative

BEYOND = 1 << 62
"""More positions than any axis has."""


def may_be_negative(dim: Dim) -> bool:
    """Whether an integer may be negative: ``max(a, b) + c`` where both ``a + c`` and ``b + c`` may be."""
    if isinstance(dim, int) or not has_signed_symbols(dim):
        return isinstance(dim, int) and dim < 0
    for monomial, coefficient in dim.terms:
        atom = monomial[0] if coefficient == len(monomial) == 1 else None
        if isinstance(atom, Operation) and atom.operator == "max":
            rest = from_terms({other: factor for other, factor in dim.terms if other != monomial})
            return all(may_be_negative(side + rest) for side in (atom.left, atom.right))
    return not is_non_negative(dim)


def position_tensor(graph: GraphBuilder, position: Dim) -> Tensor:
    """Return a position as a size; a computed one before the first lies after the last, where Gather stops."""
    found = graph.size_tensor(position)
    if not may_be_negative(position):
        return found
    checked = graph.node("Mod", [found, graph.constant([BEYOND])], (1,), INT)
    graph.sizes.setdefault(checked, position)
    return checked


def is_guarded_position(tensor: Tensor) -> bool:
    """Whether a tensor is a position of `position_tensor` that lies after the last instead of before the first."""
    node = made_by(tensor, "Mod")
    divisor = None if node is None else node.operand(1).constant
    return divisor is not None and divisor.tolist() == [BEYOND]
