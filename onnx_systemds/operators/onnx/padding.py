"""Pad and CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.assumptions import Relation, axis_words
from onnx_systemds.inference.dims import (
    Dim,
    Dims,
    is_non_negative,
    is_non_negative_from_one,
    maximum,
    may_be_zero,
    minimum,
    product,
)
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import Moves
from onnx_systemds.inference.registry import batch_rule, fold, generator, gradient, integer_rule, shape_rule, takes_text
from onnx_systemds.model.texts import EMPTY
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.api.layout import split_view
from onnx_systemds.operators.onnx.selecting import Steps
from onnx_systemds.operators.support.empty_outputs import where_elements
from onnx_systemds.operators.support.integer_rules import moved_beside_zeros
from onnx_systemds.operators.support.movement import (
    Amounts,
    Moved,
    Source,
    cropped,
    input_source,
    padded_constant,
    padded_from_inside,
    positive_parts,
)
from onnx_systemds.operators.support.selection_products import is_finite

takes_text("CenterCropPad", "Pad")
fold("Pad", since=13)(by_reference)
integer_rule("CenterCropPad")(moved_beside_zeros)
integer_rule("Pad")(lambda node: Moves((0, 2), has_zeros=True))


@shape_rule("Pad")
def pad_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Each axis grows by what is added before and after it."""
    dims: list[Dim] = []
    every = pad_amounts(node)
    depends_on_run = _are_of_run(every)
    for axis, (dim, amounts) in enumerate(zip(node.dims("data"), every)):
        size = sum(amounts, dim)
        if isinstance(size, int) and size < 0:
            raise InvalidModel(f"the pads {list(amounts)} of axis {axis} take more than its {dim} elements")
        dims.append(node.computed("", size, hint=f"size{axis}") if may_be_zero(amounts) else size)
        if depends_on_run and (node.attribute("mode") or "constant") == "constant":
            if not isinstance(size, int) and not is_non_negative_from_one(size):
                node.assume(dims[-1], Relation.AT_LEAST, 0, axis_words(node.node.outputs[0], axis))
            continue
        remaining = sum((minimum(amount, 0) for amount in amounts), dim)
        may_end = not isinstance(remaining, int) and not is_non_negative_from_one(remaining - 1)
        if remaining != dim and may_end and (depends_on_run or not may_be_zero(dim)):
            node.assume(remaining, Relation.AT_LEAST, 1, f"what is left of {node.axis_words('data', axis)}")
    return (node.tensor(dims),)


def pad_amounts(node: NodeFacts) -> list[tuple[Dim, Dim]]:
    """What is added to each axis: by attribute ``paddings``, since opset 2 ``pads``, since opset 11 by input.

    Since opset 18 an input says which axes are meant. Negative amounts crop. Raises UnsupportedCase.
    """
    rank = node.rank("data")
    pads: Sequence[Dim]
    if node.version < 11:
        pads = tuple(node.attribute("paddings" if node.version < 2 else "pads"))
    else:
        pads = node.sizes(1, "the pads", signed=True)
    axes = list(range(rank))
    if node.has(3):
        axes = [node.normalize_axis(int(axis), rank) for axis in node.require_constant(3, "the axes").ravel()]
    if len(pads) != 2 * len(axes):
        raise UnsupportedCase(f"{len(pads)} pads for {len(axes)} axes")
    amounts: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    for position, axis in enumerate(axes):
        amounts[axis] = (pads[position], pads[position + len(axes)])
    return amounts


@batch_rule("Pad")
def _pad_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Only axes that are padded."""
    return position != 0 or pad_amounts(node)[axis] != (0, 0)


@generator("Pad", since=(1, 2, 11, 18))
def pad(node: NodeView) -> Fragment:
    """Crop what is negative, then add: a number (mode constant), or the axis's own elements."""
    return padded(node, pad_amounts(node))


@gradient("Pad", untrained=(2,))
def _pad_gradient(n: Backward) -> Sequence[str]:
    """What was padded is cut off, or added to the elements that it repeats; by the number that pads it is the rest."""
    if n.attribute("mode") != "constant":
        return [_added_to_repeated(n)]
    pads = n.known(n.attribute("paddings" if n.version < 2 else "pads")) if n.version < 11 else n.node.inputs[1]
    own = n.emit("Pad", n.grad, n.emit("Neg", pads), "", *n.node.inputs[3:4])

    def by_number() -> str:
        return n.shaped(n.emit("Sub", *(n.emit("ReduceSum", part, keepdims=0) for part in (n.grad, own))), 2)

    return n.needed([lambda: own, lambda: "", by_number])


def _added_to_repeated(n: Backward) -> str:
    """The derivative, where elements of the axes are repeated: along each, the sums of those that are the same one."""
    found, mode = n.grad, str(n.attribute("mode"))
    for axis, (size, amounts) in enumerate(zip(n.dims(0), pad_amounts(n))):
        if amounts == (0, 0):
            continue
        known = [it for it in (size, *amounts) if isinstance(it, int)]
        if len(known) != 3:
            raise UnsupportedCase(f"the derivative of a Pad of an open axis by {mode}")
        count, before, after = known
        left = np.arange(count)[max(0, -before) : count - max(0, -after)]
        taken = np.pad(left, (max(0, before), max(0, after)), mode)  # type: ignore[call-overload]
        found = n.along(found, axis, np.eye(count)[taken])
    return found


def _are_of_run(amounts: Amounts) -> bool:
    """Whether only the run knows what crops and what pads."""
    return any(not is_non_negative(amount) and not is_non_negative(-1 * amount) for pair in amounts for amount in pair)


def padded(node: NodeView, amounts: Amounts) -> Fragment:
    """The first input with ``amounts`` added to, or taken from, the ends of its axes."""
    if _are_of_run(amounts):
        return _run_time_padded(node, amounts)
    is_constant = (node.attribute("mode") or "constant") == "constant"
    if is_constant and _leaves_nothing(node.dims(0), amounts):
        return _of_fill(node)
    source = input_source(node, 0)
    cut, dims = cropped(node, source, node.dims(0), amounts)
    added = positive_parts(amounts)
    if all(amount == (0, 0) for amount in added):
        return node.same_elements() if cut is None else node.result(cut.text, cut.view)
    moved = _padded(node, source if cut is None else cut.source(node), dims, added)
    fragment = node.result(moved.text, moved.view)
    left = [size for size in dims if may_be_zero(size)]
    if cut is None or not is_constant or not left:
        return fragment
    return where_elements(node, fragment, reduce(minimum, left), nothing=_of_fill(node))


def _of_fill(node: NodeView) -> Fragment:
    view = split_view(node.output_dims(), 1)
    return node.result(node.full(_fill(node), view), view)


def _leaves_nothing(dims: Dims, amounts: Amounts) -> bool:
    """Whether an axis has no elements, or all of them are cropped: all of the result is padding."""
    left = (dim + minimum(before, 0) + minimum(after, 0) for dim, (before, after) in zip(dims, amounts))
    return any(isinstance(size, int) and size <= 0 for size in left)


def _padded(node: NodeView, source: Source, dims: Dims, added: Amounts) -> Moved:
    mode = node.attribute("mode") or "constant"
    if mode == "constant":
        return padded_constant(node, source, dims, added, _fill(node))
    if mode not in ("edge", "reflect", "wrap"):
        raise UnsupportedCase(f"pad mode {mode!r}")
    if product(dims) == 0:
        raise UnsupportedCase("there are no elements to continue by")
    return padded_from_inside(node, source, dims, added, mode, finite=is_finite(node, 0))


def _run_time_padded(node: NodeView, amounts: Amounts) -> Fragment:
    """As `padded`, where only the run knows what crops and what pads: axis by axis, the last first."""
    steps = Steps(node)
    mode = node.attribute("mode") or "constant"
    for axis, (before, after) in reversed(list(enumerate(amounts))):
        if (before, after) == (0, 0):
            continue
        prefix, size, suffix = steps.around(axis)
        count = node.output_dims()[axis]
        if mode == "constant":
            x = steps.matrix(View(prefix, size * suffix))
            text = node.call("pad_cols", x, node.dim(before * suffix), node.dim(after * suffix), _fill(node))
            steps.set(text, View(prefix, count * suffix), axis, count)
        else:
            remaining = size + minimum(before, 0) + minimum(after, 0)
            added = [node.dim(maximum(amount, 0)) for amount in (before, after)]
            positions = node.call(f"{mode}_positions", added[0], node.dim(remaining), added[1])
            steps.take(axis, f"{positions} + {node.factor(1 - minimum(before, 0))}", count)
    return steps.fragment()


def _fill(node: NodeView) -> str:
    """The number to add: by attribute, since opset 11 by input; to text the code of the empty string."""
    if node.version < 11:
        return literal(node.attribute("value"))
    if node.has(2):
        return node.scalar(2)
    return str(EMPTY) if node.dtype(0) == "string" else "0"


@shape_rule("CenterCropPad")
def center_crop_pad_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The wanted sizes on the axes."""
    return (
        node.tensor([before + dim + after for dim, (before, after) in zip(node.dims("input_data"), _centred(node))]),
    )


@generator("CenterCropPad", since=18)
def center_crop_pad(node: NodeView) -> Fragment:
    """Crop or pad by zeros on both ends; of an odd difference the end has one more."""
    return padded(node, _centred(node))


def _centred(node: NodeFacts) -> Amounts:
    dims = node.dims("input_data")
    wanted = node.sizes("shape", "the shape")
    given = node.attribute("axes")
    axes = range(len(dims)) if given is None else [node.normalize_axis(int(axis), len(dims)) for axis in given]
    amounts: list[tuple[Dim, Dim]] = [(0, 0)] * len(dims)
    for axis, size in zip(axes, wanted):
        added = size - dims[axis]
        if is_non_negative(added):
            amounts[axis] = (added // 2, added - added // 2)
        elif is_non_negative(-1 * added):
            cropped = -1 * added
            amounts[axis] = (-1 * (cropped // 2), -1 * (cropped - cropped // 2))
        else:
            before = node.computed("half_towards_zero", added, hint=f"before{axis}", signed=True)
            amounts[axis] = (before, added - before)
    return amounts
