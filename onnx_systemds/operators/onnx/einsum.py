"""Einsum, as permutations, sums and matrix products."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from onnx_systemds.engine.safe_forms import col_sums, row_sums
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.integer_spans import Terms
from onnx_systemds.inference.known_dims import differ
from onnx_systemds.inference.registry import batch_rule, generator, gradient, integer_rule, shape_rule
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.onnx.combining import wrapped, wraps
from onnx_systemds.operators.onnx.indexing import along_axes, strides
from onnx_systemds.operators.onnx.wrapping import WORDS, wrapped_matmul
from onnx_systemds.operators.support.integer_rules import summed
from onnx_systemds.operators.support.movement import Moved, Source, input_source, permuted
from onnx_systemds.operators.support.products import batch_product, single_product
from onnx_systemds.operators.support.selection_products import gather_rows_text, is_finite

Labels = tuple[str, ...]  # letters; the axes of an ellipsis are "0", "1" ... counted from the last one


@dataclass(frozen=True)
class Equation:
    """The labels of the operands and of the result, and the size of each label."""

    operands: tuple[Labels, ...]
    result: Labels
    sizes: dict[str, Dim]


def equation_of(node: NodeFacts) -> Equation:
    """The node's equation, implicit result and ellipses resolved. Raises UnsupportedCase when it does not fit."""
    text = "".join(str(node.attribute("equation")).split())
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != node.input_count:
        raise UnsupportedCase(f"the equation {quoted(text)} has {len(terms)} operands, the node {node.input_count}")
    operands = tuple(_labels(term, node.rank(position), text) for position, term in enumerate(terms))
    sizes: dict[str, Dim] = {}
    for position, labels in enumerate(operands):
        for label, size in zip(labels, node.dims(position)):
            known = sizes.get(label, 1)
            if differ(known, size) and 1 not in (known, size):
                raise UnsupportedCase(f"label {label} of {quoted(text)} has the sizes {known} and {size}")
            if known == 1 or (isinstance(size, int) and size != 1):
                sizes[label] = size
    open_axes = sorted((label for label in sizes if label.isdigit()), key=int, reverse=True)
    if not arrow:
        single = [label for label in sizes if sum(term.count(label) for term in terms) == 1 and label.isalpha()]
        result: Labels = (*open_axes, *sorted(single))
    else:
        ellipsis = right.count("...")
        result = _expanded(right, open_axes if ellipsis else [], text)
    if len(set(result)) != len(result) or not set(result) <= set(sizes):
        raise UnsupportedCase(f"the result of the equation {quoted(text)} is not one of its operands' labels")
    return Equation(operands, result, sizes)


def _labels(term: str, rank: int, text: str) -> Labels:
    open_rank = rank - len(term.replace("...", ""))
    if open_rank < 0 or (open_rank > 0 and "..." not in term):
        raise UnsupportedCase(f"operand {quoted(term)} of the equation {quoted(text)} has rank {rank}")
    return _expanded(term, [str(axis) for axis in range(open_rank - 1, -1, -1)], text)


def _expanded(term: str, open_axes: Sequence[str], text: str) -> Labels:
    before, ellipsis, after = term.partition("...")
    letters = before + after
    if any(letter not in string.ascii_letters for letter in letters):
        raise UnsupportedCase(f"the equation {quoted(text)} is not valid")
    return (*before, *(open_axes if ellipsis else ()), *after)


@integer_rule("Einsum")
@summed
def terms_of_einsum(node: NodeFacts) -> Terms:
    """Sums over the labels that the result has not."""
    equation = equation_of(node)
    summed_size = product(size for label, size in equation.sizes.items() if label not in equation.result)
    return Terms(tuple(range(node.input_count)), summed_size)


@shape_rule("Einsum")
def einsum_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The sizes of the result's labels."""
    equation = equation_of(node)
    words: dict[str, str] = {}  # by label the words for an axis that has its size
    axes = [(label, position, axis) for position, labels in enumerate(equation.operands)
            for axis, label in enumerate(labels)]
    for label, position, axis in axes:
        if node.dims(position)[axis] == equation.sizes[label]:
            words.setdefault(label, node.axis_words(position, axis))
    for label, position, axis in axes:
        size = node.dims(position)[axis]
        if size != 1:
            other_words = node.axis_words(position, axis)
            node.assume_equal(equation.sizes[label], size, words[label], other_words, Relation.BROADCAST)
    return (node.tensor([equation.sizes[label] for label in equation.result]),)


@batch_rule("Einsum")
def _einsum_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Where the result has not the label of the axis, or an operand has it twice, or of another size."""
    equation = equation_of(node)
    label, size = equation.operands[position][axis], node.dims(position)[axis]
    having = [(labels, node.dims(at)) for at, labels in enumerate(equation.operands) if label in labels]
    are_alike = all(labels.count(label) == 1 and dims[labels.index(label)] == size for labels, dims in having)
    return label not in equation.result or not are_alike


@generator("Einsum", since=12)
def einsum(node: NodeView) -> Fragment:
    """Operands are contracted from left to right."""
    return _Contraction(node, equation_of(node)).fragment()


@gradient("Einsum")
def _einsum_gradient(n: Backward) -> Sequence[str]:
    """For each operand the einsum of the other ones and the derivative, repeated along what it alone has.

    Where it took a diagonal of the operand, all elements beside that have none.
    """
    equation = equation_of(n)
    letters = dict(zip(equation.sizes, string.ascii_letters))

    def by_operand(position: int) -> str:
        others = [place for place in range(n.input_count) if place != position]
        own, terms = equation.operands[position], [equation.result, *(equation.operands[place] for place in others)]
        # what an axis of size 1 says of others is a sum, what these have of size 1 is repeated
        wide = {label for place in others for label, size in zip(equation.operands[place], n.dims(place)) if size != 1}
        sizes = dict(zip(own, n.dims(position)))
        if any(sizes[label] != size for label, size in zip(own, n.dims(position))):
            raise UnsupportedCase("the derivative of an Einsum that takes a diagonal of axes of different sizes")
        left = [label for label, size in sizes.items()
                if (label in wide or label in equation.result) and (size != 1 or equation.sizes[label] == 1)]
        texts = ["".join(letters[label] for label in term) for term in (*terms, left)]
        found = n.emit("Einsum", n.grad, *(n.node.inputs[place] for place in others),
                       equation=f"{','.join(texts[:-1])}->{texts[-1]}")
        first = {label: axis for axis, label in reversed([*enumerate(own)])}
        if alone := [axis for axis, label in enumerate(own) if label not in left or axis != first[label]]:
            found = n.unsqueeze(found, *alone)
            found = n.emit("Expand", found, n.emit("Shape", n.node.inputs[position]))
        for axis, label in enumerate(own):
            if axis != first[label]:
                found = n.times(found, _diagonal(n, sizes[label], first[label], axis, len(own)))
        return found

    return n.needed([partial(by_operand, position) for position in range(n.input_count)])


def _diagonal(n: Backward, size: Dim, first: int, second: int, rank: int) -> str:
    """Emit ones where two axes have the same place, zeros elsewhere; others have the size 1. Raises UnsupportedCase."""
    if not isinstance(size, int):
        reason = "the derivative of an Einsum that takes a diagonal of an open size"
        raise UnsupportedCase(reason, hint="fix it by --dim")
    dims = [size if axis in (first, second) else 1 for axis in range(rank)]
    return n.known(np.eye(size).reshape(dims), n.values[n.out].dtype)


@dataclass(frozen=True)
class _Term:
    """An operand or intermediate result: its elements, and a label for each axis, none twice."""

    source: Source
    labels: Labels
    finite: bool


class _Contraction:
    """The statements of one Einsum."""

    def __init__(self, node: NodeView, equation: Equation) -> None:
        self.node = node
        self.equation = equation

    def fragment(self) -> Fragment:
        node, equation = self.node, self.equation
        terms = [self._operand(position) for position in range(len(equation.operands))]
        result = self._summed(terms[0], self._needed(terms[1:]))
        for position, term in enumerate(terms[1:], 2):
            needed = self._needed(terms[position:])
            term = self._summed(term, needed | set(result.labels))
            result = self._product(result, term, needed)
        moved = self._moved(result, equation.result)
        if node.output_dims() == () and node.wanted_form() is SCALAR:
            text = f"as.scalar({moved.seen(node, View(1, 1))})"
            return node.result(text, SCALAR)
        return node.result(moved.text, moved.view)

    def _size(self, labels: Sequence[str]) -> Dim:
        return product(self.equation.sizes[label] for label in labels)

    def _needed(self, later: Sequence[_Term]) -> set[str]:
        return {*self.equation.result, *(label for term in later for label in term.labels)}

    def _operand(self, position: int) -> _Term:
        """An input without axes that are repeated (their diagonal is taken) or of size 1 and broadcast."""
        node, sizes = self.node, self.equation.sizes
        dims = node.dims(position)
        labels = self.equation.operands[position]
        finite = is_finite(node, position)
        own_axes = [axis for axis, label in enumerate(labels) if not (dims[axis] == 1 and sizes[label] != 1)]
        labels, dims = tuple(labels[axis] for axis in own_axes), tuple(dims[axis] for axis in own_axes)
        source = input_source(node, position)
        if len(set(labels)) == len(labels):
            return _Term(source, labels, finite)
        unique = tuple(dict.fromkeys(labels))
        rows, count = product(dims), self._size(unique)
        index = _diagonal_positions(node, labels, dims, unique, sizes)
        text = gather_rows_text(node, source(View(rows, 1)), index, rows, count, 1, finite=finite)
        return self._bound(text, View(count, 1), unique, "diagonal", finite=finite)

    def _bound(self, text: str, view: View, labels: Labels, hint: str, *, finite: bool = False) -> _Term:
        """A new intermediate result; narrow integers are wrapped at each step, before they get beyond FP64."""
        name, dtype = self.node.named(hint, text), self.node.output_dtype()
        if wraps(dtype):
            name = self.node.named(hint, wrapped(dtype, name))
        return _Term(Moved(name, view).source(self.node), labels, finite)

    def _moved(self, term: _Term, labels: Labels) -> Moved:
        """The term's elements with its axes in another order."""
        dims = tuple(self.equation.sizes[label] for label in term.labels)
        perm = tuple(term.labels.index(label) for label in labels)
        if perm == tuple(range(len(perm))):
            view = split_view(dims, 1)
            return Moved(term.source(view), view)
        return permuted(self.node, term.source, dims, perm, finite=term.finite)

    def _as(self, term: _Term, labels: Labels, view: View) -> str:
        if labels == term.labels:
            return term.source(view)
        return self._moved(term, labels).seen(self.node, view)

    def _summed(self, term: _Term, needed: set[str]) -> _Term:
        """The term summed over the labels that nothing else needs."""
        free = tuple(label for label in term.labels if label in needed)
        summed = tuple(label for label in term.labels if label not in needed)
        if not summed:
            return term
        if term.labels == (*summed, *free):
            view = View(self._size(summed), self._size(free))
            text = col_sums(term.source(view), self.node.dim(view.rows))
            return self._bound(text, View(1, view.cols), free, "sum")
        view = View(self._size(free), self._size(summed))
        text = row_sums(self._as(term, (*free, *summed), view), self.node.dim(view.cols))
        return self._bound(text, View(view.rows, 1), free, "sum")

    def _product(self, left: _Term, right: _Term, needed: set[str]) -> _Term:
        """Both terms multiplied, and summed over the labels that only they have."""
        shared = [label for label in left.labels if label in right.labels]
        batch = tuple(label for label in shared if label in needed)
        inner = tuple(label for label in shared if label not in needed)
        rows = tuple(label for label in left.labels if label not in shared)
        cols = tuple(label for label in right.labels if label not in shared)
        count, depth = self._size(batch), self._size(inner)
        m, n = self._size(rows), self._size(cols)
        if not inner and batch and not (rows and cols):
            if cols:
                left, right, rows, cols, m, n = right, left, cols, rows, n, m
            # the right operand is a column beside the matrix of the left one
            x, y = self._as(left, batch + rows, View(count, m)), self._as(right, batch, View(count, 1))
            text = self._multiplied(x, y, lambda left, right: f"{left} * {right}")
            return self._bound(text, View(count, m), batch + rows, "product")
        x = self._as(left, batch + rows + inner, View(count * m, depth))
        products = partial(batch_product, self.node, count=count, sizes=(m, depth, n))
        if count != 1 and right.labels == batch + cols + inner and cols and inner:
            y = self._as(right, batch + cols + inner, View(count * n, depth))
            text = self._multiplied(x, y, partial(products, transposed=True))
            return self._bound(text, View(count * m, n), batch + rows + cols, "product")
        y = self._as(right, batch + inner + cols, View(count * depth, n))
        single = partial(single_product, self.node, sizes=(m, depth, n))
        text = self._multiplied(x, y, single if count == 1 else products)
        return self._bound(text, View(count * m, n), batch + rows + cols, "product")

    def _multiplied(self, x: str, y: str, multiply: Callable[[str, str], str]) -> str:
        """The product of two operands; that of 32-bit integers by halves, as it has 64 bits."""
        if self.node.output_dtype() in WORDS:
            return wrapped_matmul(self.node, x, y, multiply)
        return multiply(x, y)


def _diagonal_positions(node: NodeView, labels: Labels, dims: Dims, unique: Labels, sizes: dict[str, Dim]) -> str:
    """1-based positions, among all elements, of those whose repeated labels agree; the unique labels vary in order."""
    steps: dict[str, Dim] = {}
    for label, step in zip(labels, strides(dims)):
        steps[label] = steps.get(label, 0) + step
    inner = tuple(sizes[label] for label in unique)
    coordinates = along_axes(node, f"seq(0, {node.dim(product(inner) - 1)})", inner)
    parts = [f"{coordinate} * {node.factor(steps[label])}" for coordinate, label in zip(coordinates, unique)]
    return " + ".join([*parts, "1"])
