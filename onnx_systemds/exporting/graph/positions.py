"""Positions along an axis that only the run knows: whether one may lie before the first, where it must not be read."""

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
    checked = _guarded(graph, found)
    graph.sizes.setdefault(checked, position)
    return checked


def read_positions(graph: GraphBuilder, positions: Tensor) -> Tensor:
    """Return computed positions, from 0 on; those before the first lie after the last, where Gather stops."""
    return positions if positions.constant is not None or _are_found(positions) else _guarded(graph, positions)


def _guarded(graph: GraphBuilder, positions: Tensor) -> Tensor:
    return graph.node("Mod", [positions, graph.constant([BEYOND])], positions.dims, INT)


def _are_found(positions: Tensor) -> bool:
    """Whether an operator has found positions, to which no number was added that would make one negative."""
    moved, node = 0.0, positions.node
    while node is not None and node.op in ("Add", "Cast", "Reshape", "Sub"):
        if node.op in ("Add", "Sub"):
            number = node.operand(1).only_element
            if number is None:
                return False
            moved += number if node.op == "Add" else -number
        positions = node.operand()
        node = positions.node
    if node is not None and node.op == "Gather":  # one of known numbers
        known = node.operand().constant
        return known is not None and known.size > 0 and bool(known.min() + moved >= 0)
    if node is None or moved < 0:
        return False
    return node.op in ("ArgMax", "ArgMin") or (node.op == "TopK" and positions is node.outputs[1])


def is_guarded_position(tensor: Tensor) -> bool:
    """Whether a tensor is a position of `position_tensor` that lies after the last instead of before the first."""
    node = made_by(tensor, "Mod")
    divisor = None if node is None else node.operand(1).constant
    return divisor is not None and divisor.tolist() == [BEYOND]
