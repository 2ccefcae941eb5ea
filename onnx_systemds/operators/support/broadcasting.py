"""Numpy-style broadcasting on matrices.

The engine broadcasts a row or column vector over a matrix, as the *right* operand only. So an operand whose dims are
a suffix of the result's becomes a row vector, a prefix a column vector; what is repeated in between is replicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import element_literal, is_uniform
from onnx_systemds.dml.operands import called, expression_of
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.broadcast_dims import broadcast_dims, of_rank
from onnx_systemds.inference.dims import Dim, Dims, Operation, maximum, minimum, product
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import SCALAR, NodeFacts, NodeView, View, split_view
from onnx_systemds.operators.api.layout import Form
from onnx_systemds.operators.support.selection_products import (
    each_repeated,
    gather_rows_text,
    is_finite,
    repeated_column,
    repeated_row,
)

FULL, ROW, COLUMN, SINGLE = "full", "row", "column", "single"
MOST_COPIES = 12  # up to here what is repeated is written side by side with itself


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand in the common view: its DML text and how much of the view it covers."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Operands:
    """All operands of an elementwise operator in one view of the result."""

    items: tuple[Operand, ...]
    form: Form


def varies(own: Dims, result: Dims) -> list[bool]:
    """For each axis of the result whether an operand has it; else it is repeated there, unless an open size is 1."""
    return [size != 1 or whole == 1 for size, whole in zip(of_rank(own, len(result)), result)]


def broadcast(node: NodeFacts, given: Mapping[int, Dims], *, by_operands: bool = False) -> Dims:
    """Dims of the result of inputs, by position, each with those of its first axes that are broadcast.

    Of two sizes of the run neither is taken to be a 1 that is repeated: the script checks it. by_operands: whether the
    generator takes its inputs by `operands`, which repeat axes of at most one element. Raises UnsupportedCase.
    """
    result = broadcast_dims(list(given.values()))
    if by_operands:
        result = tuple(_all_of(size, place, given.values()) for place, size in enumerate(result, -len(result)))
    for position, dims in given.items():
        for axis, dim in enumerate(dims):
            place = axis - len(dims)
            if by_operands and _is_one_of(dim, result[place]):
                continue
            if by_operands and _is_repeated(dim, result[place]):
                node.assume_equal(dim, 1, node.axis_words(position, axis), "what is repeated")
            elif dim not in (1, result[place]):
                words = next(
                    node.axis_words(other, len(sizes) + place)
                    for other, sizes in given.items()
                    if len(sizes) >= -place and sizes[place] == result[place]
                )
                other_words = node.axis_words(position, axis)
                node.assume_equal(result[place], dim, words, other_words, Relation.BROADCAST)
    return result


def _all_of(size: Dim, place: int, given: Iterable[Dims]) -> Dim:
    """The size of which ``size`` is one element, if any operand has it at that place from the end; else ``size``."""
    others = (dims[place] for dims in given if len(dims) >= -place)
    return next((other for other in others if _is_one_of(size, other)), size)


def _is_one_of(dim: Dim, size: Dim) -> bool:
    """Whether it is 1 where the size is not 0, else 0, as the last of so many elements is: ``x[-1:]`` beside ``x``."""
    if isinstance(dim, int) or isinstance(size, int) or dim == size:
        return False
    return dim in (minimum(size, 1), size - maximum(0, size - 1))


def _is_repeated(dim: Dim, size: Dim) -> bool:
    """Whether an axis of at most one element, as ``x[i:i+1]`` has it, meets a size that is known to be another."""
    if not isinstance(size, int) or size < 2 or isinstance(dim, int) or len(dim.terms) != 1:
        return False
    atoms, coefficient = dim.terms[0]
    found = atoms[0] if coefficient == len(atoms) == 1 else None
    return isinstance(found, Operation) and found.operator == "min" and 1 in (found.left, found.right)


def operands(node: NodeView, positions: Sequence[int], result: Dims, *, full: bool = False) -> Operands:
    """The node's inputs at ``positions`` as operands in one view of ``result``.

    With ``full`` vectors are replicated, for operations that cannot broadcast them (ifelse).
    """
    form = node.wanted_form() if node.output_dims() == result else None
    # axes of size 1 do not change where an element lies
    axes = tuple(axis for axis, dim in enumerate(result) if dim != 1)
    if not axes:
        return Operands(tuple(Operand(node.scalar(position), SINGLE) for position in positions), SCALAR)
    dims = tuple(result[axis] for axis in axes)
    patterns = [_pattern(node.dims(position), result, axes) for position in positions]
    literals = _uniform_literals(node, positions, patterns)
    patterns = [() if text else pattern for pattern, text in zip(patterns, literals)]
    split = _common_split(patterns, form, dims)
    has_vectors = any(any(pattern) and not all(pattern) for pattern in patterns)
    view = split_view(dims, split) if has_vectors or form is SCALAR else form
    # of zeros and a vector the engine may make the vector (zeros-and-a-vector-of-unknown-size)
    full = full or any(all(pattern) and _is_known_zero(node.constant(position))
                       for position, pattern in zip(positions, patterns))
    items = tuple(
        Operand(text, SINGLE) if text else _operand(node, position, pattern, dims, split, view, full)
        for position, pattern, text in zip(positions, patterns, literals)
    )
    return Operands(items, view)


def _uniform_literals(
    node: NodeView, positions: Sequence[int], patterns: Sequence[tuple[bool, ...]]
) -> list[str | None]:
    """For each operand its literal, if it is a constant of equal elements and another operand gives the dims."""
    constants = [node.constant(position) for position in positions]
    if not any(all(pattern) and constant is None for constant, pattern in zip(constants, patterns)):
        return [None] * len(positions)
    texts: list[str | None] = []
    for constant in constants:
        uniform = constant is not None and constant.size > 1 and is_uniform(constant)
        texts.append(element_literal(constant.ravel()[:1]) if constant is not None and uniform else None)
    return texts


@lru_cache(maxsize=4096)
def _pattern(dims: Dims, result: Dims, axes: tuple[int, ...]) -> tuple[bool, ...]:
    """For each kept axis of the result whether the operand varies along it."""
    aligned = of_rank(dims, len(result))
    pairs = [(aligned[axis], result[axis]) for axis in axes]
    return tuple(dim != 1 and not _is_repeated(dim, size) and not _is_one_of(dim, size) for dim, size in pairs)


def _common_split(patterns: Sequence[tuple[bool, ...]], form: Form, dims: Dims) -> int:
    """The split that makes the most operands vectors; where all are full, the one the consumers want."""
    votes: dict[int, int] = {}
    for pattern in patterns:
        for split in _splits_of(pattern):
            votes[split] = votes.get(split, 0) + 1
    if votes:
        return max(votes, key=lambda split: (votes[split], -split))
    for split in range(len(dims) + 1):
        if form == split_view(dims, split):
            return split
    return min(1, len(dims))


def _splits_of(pattern: tuple[bool, ...]) -> list[int]:
    """Splits in which an operand is a row or column vector, or becomes one by repeating its rows."""
    if all(pattern) or not any(pattern):
        return []
    first = pattern.index(True)
    last = len(pattern) - 1 - pattern[::-1].index(True)
    if not all(pattern[first : last + 1]):
        return []
    if last == len(pattern) - 1:
        return [first]
    return [last + 1]


def _operand(
    node: NodeView, position: int, pattern: tuple[bool, ...], dims: Dims, split: int, view: View, full: bool
) -> Operand:
    if not any(pattern):
        alone = _alone(node, position, dims)
        single = node.scalar(position) if alone == 1 else f"as.scalar({node.view(position, View(alone, 1))})"
        return Operand(single, SINGLE)
    if all(pattern):
        return Operand(node.view(position, view), FULL)
    rows, cols = pattern[:split], pattern[split:]
    if not any(rows) and all(cols) and not full:
        return Operand(node.view(position, View(_alone(node, position, dims), view.cols)), ROW)
    if all(rows) and not any(cols) and not full:
        return Operand(node.view(position, View(view.rows, _alone(node, position, dims))), COLUMN)
    if not any(cols) and not full:
        column = _expanded(node, position, rows, dims[:split], View(view.rows, 1))
        return Operand(column, COLUMN)
    return Operand(_expanded(node, position, pattern, dims, view), FULL)


def _is_known_zero(constant: Array | None) -> bool:
    return constant is not None and constant.dtype != object and not constant.any()


def _alone(node: NodeView, position: int, dims: Dims) -> Dim:
    """The number of elements along the axes that are repeated: 1, or 0 of nothing, which runs nowhere."""
    return product([dim for dim in node.dims(position) if any(_is_one_of(dim, size) for size in dims)])


def _expanded(node: NodeView, position: int, pattern: tuple[bool, ...], dims: Dims, view: View) -> str:
    """Text of an input repeated along the axes where ``pattern`` is false."""
    own = tuple(dim for dim, varies in zip(dims, pattern) if varies)
    text = node.view(position, View(_alone(node, position, dims), product(own)))
    form = View(1, product(own))
    return expand_text(node, text, form, pattern, dims, view, finite=is_finite(node, position))


def expand_text(
    node: NodeView, text: str, form: View, pattern: Sequence[bool], dims: Dims, view: View, *, finite: bool
) -> str:
    """Text of the row-major elements of the varying axes, repeated to all ``dims`` and laid out as ``view``.

    Works from the last axis to the first: each run of repeated axes is a replication of rows or of a row.
    """
    runs: list[tuple[bool, Dim]] = []
    for varies, dim in zip(pattern, dims):
        if runs and runs[-1][0] == varies:
            runs[-1] = (varies, runs[-1][1] * dim)
        else:
            runs.append((varies, dim))
    done: Dim = 1  # elements of the part after that is already expanded
    left = product(dim for varies, dim in runs if varies)  # elements of the part in front, not expanded
    for varies, count in reversed(runs):
        if varies:
            done = done * count
            left = left // count if left != count else 1
            continue
        if count == 1:
            continue
        if isinstance(count, int) and count <= MOST_COPIES and done != 1 and _is_short(text):
            matrix = node.converted(text, form, View(left, done))
            text = f"cbind({', '.join([matrix] * count)})"
            form = View(left, count * done)
        elif left == 1:
            text = repeated_row(node.converted(text, form, View(1, done)), node.dim(count))
            form = View(count, done)
        elif done == 1:
            text = repeated_column(node.converted(text, form, View(left, 1)), node.dim(count))
            form = View(left, count)
        else:
            matrix = node.converted(text, form, View(left, done))
            index = each_repeated(node, left * count, count)
            text = gather_rows_text(node, matrix, index, left, left * count, done, finite=finite)
            form = View(left * count, done)
        done = done * count
    return node.converted(text, form, view)


def _is_short(text: str) -> bool:
    """Whether a text is an identifier, or the reshape of one: it may be written several times."""
    return isinstance(called(text, "matrix") or expression_of(text), tree.Name)
