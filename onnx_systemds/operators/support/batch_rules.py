"""Whether a node mixes elements along an axis: what operators have in common, for `registry.batch_rule`.

Each function takes a node and an axis of one of its inputs (by position), and says whether elements along that axis are
mixed or counted: whether parts of it give other numbers than the whole. That an axis vanishes need not be said; the
dims of the outputs tell it.
"""

from __future__ import annotations

from onnx_systemds.inference.dims import Dim, Dims, Operation
from onnx_systemds.inference.facts import NodeFacts

LARGEST = 10**9
"""Samples that are ever scored at once: exporters slice up to such a number to say that they slice to the end."""


def mixes_nothing(node: NodeFacts, position: int, axis: int) -> bool:
    """Each result has one element, or whatever would be mixed is gone from the dims."""
    return False


def mixes_all(node: NodeFacts, position: int, axis: int) -> bool:
    """No input may have the axis."""
    return True


def mixes_unless_aligned(node: NodeFacts, position: int, axis: int) -> bool:
    """Where inputs are broadcast, all of them have the axis at the same place, or do not have it."""
    dims = node.dims(position)
    size, from_right = unlimited(dims[axis]), len(dims) - axis
    given = [other for other in range(node.input_count) if other != position and node.has(other)]
    at = [size_from_right(node.dims(other), from_right) for other in given]
    return output_size(node, from_right) != size or any(other not in (1, size) for other in at)


def mixes_all_but_first(node: NodeFacts, position: int, axis: int) -> bool:
    """The rows of the first input are samples."""
    return position != 0 or axis != 0 or node.rank(0) < 2


def mixes_other_inputs(node: NodeFacts, position: int, axis: int) -> bool:
    """The first input may have the axis anywhere."""
    return position != 0


def mixes_at_axis(node: NodeFacts, position: int, axis: int) -> bool:
    """Along the attribute ``axis``."""
    return position != 0 or axis == node.axis()


def mixes_at_axis_input(node: NodeFacts, position: int, axis: int) -> bool:
    """Along the axis that the second input says."""
    given = int(node.require_constant(1, "the axis").item())
    return position != 0 or axis == node.normalize_axis(given, node.rank(0))


def mixes_from_axis(node: NodeFacts, position: int, axis: int) -> bool:
    """Along all axes from the attribute ``axis`` on; what they are scaled by has no others."""
    is_longer = any(node.has(other) and node.rank(other) > node.rank(0) - node.axis() for other in (1, 2))
    return position != 0 or axis >= node.axis() or is_longer


def mixes_in_product(node: NodeFacts, position: int, axis: int) -> bool:
    """Rows of the left and columns of the right matrix; axes before them are broadcast."""
    return _mixes_in_product(node, (0, 1), position, axis)


def mixes_in_quantized_product(node: NodeFacts, position: int, axis: int) -> bool:
    """As `mixes_in_product`; the matrices are the first and the fourth input."""
    return _mixes_in_product(node, (0, 3), position, axis)


def _mixes_in_product(node: NodeFacts, factors: tuple[int, int], position: int, axis: int) -> bool:
    if position not in factors or node.attribute("transBatchA") or node.attribute("transBatchB"):
        return True
    size, from_right = unlimited(node.dims(position)[axis]), node.rank(position) - axis
    beside = node.dims(factors[position == 0])
    place = from_right - (len(beside) == 1 and from_right > 1)  # in the product, which has no axis for a vector
    if from_right <= 2:
        return from_right != (2 if position == 0 else 1) or output_size(node, place) != size
    other = size_from_right(beside, from_right)
    return other not in (1, size) or output_size(node, place) != size


def output_size(node: NodeFacts, place: int) -> Dim:
    """Size of an axis of the first output, counted from the right from 1 on."""
    return size_from_right(node.values[next(filter(None, node.node.outputs))].dims or (), place)


def size_from_right(dims: Dims, place: int) -> Dim:
    """Size of an axis, counted from the right from 1 on; 1 where there is none."""
    return unlimited(dims[len(dims) - place]) if place <= len(dims) else 1


def unlimited(size: Dim) -> Dim:
    """A size without a minimum that it never reaches."""
    if isinstance(size, int) or len(size.terms) != 1:
        return size
    ((atoms, coefficient),) = size.terms
    if coefficient != 1 or len(atoms) != 1 or not isinstance(atoms[0], Operation) or atoms[0].operator != "min":
        return size
    limits = (atoms[0].left, atoms[0].right)
    rest = [limit for limit in limits if not (isinstance(limit, int) and limit >= LARGEST)]
    return rest[0] if len(rest) == 1 else size
