"""Nodes that are one with other attributes or inputs: limits, sums and parts of their like, trees, pooled views."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, WIDE, Node, Tensor, cut_of, made_by, pairs, source_of
from onnx_systemds.exporting.graph.operators import TO_THE_END, broadcast
from onnx_systemds.exporting.passes.fusing import Fusing, number_of, reduced_axes

_EXACT = 2.0**22
"""Integers up to here, and their sums, are exact in float32."""


def clipped(fusing: Fusing, node: Node) -> bool:
    """The least of a number and what is at least another number, or the other way round; at least 0 by a Relu, too."""
    inner = "Max" if node.op == "Min" else "Min"
    if len(node.inputs) > 2 or node.outputs[0].kind not in (FLOAT, WIDE):
        return False
    ends: Iterable[tuple[Tensor, float | None]] = [(node.operand(), 0.0)]
    if node.op != "Relu":
        ends = ((limited, number_of(bound)) for limited, bound in pairs(node))
    for limited, outer in ends:
        made = fusing.single(limited, inner)
        if outer is None or limited.dims != node.outputs[0].dims:
            continue
        found: tuple[Tensor | None, float | None] = (None, None)
        if made is not None and len(made.inputs) == 2:
            found = next(((x, number_of(other)) for x, other in pairs(made) if number_of(other) is not None), found)
        elif inner == "Max" and (relu := fusing.single(limited, "Relu")) is not None:
            found = relu.inputs[0], 0.0
        x, number = found
        if x is None or number is None or x.dims != limited.dims or x.kind != limited.kind:
            continue
        low, high = (number, outer) if inner == "Max" else (outer, number)
        if low <= high:
            limits = [fusing.builder.constant(np.float64(limit), x.kind) for limit in (low, high)]
            return fusing.become(node, "Clip", [x, *limits])
    return False


def clipped_relu(fusing: Fusing, node: Node) -> bool:
    """A Relu between limits, which onnxruntime itself would join, and refuse in float64."""
    relu, limits = fusing.single(node.operand(), "Relu"), [number_of(limit) for limit in node.inputs[1:]]
    if relu is None or len(limits) < 2 or limits[0] is None or limits[1] is None:
        return False
    lowest = fusing.builder.constant(np.float64(min(max(limits[0], 0.0), limits[1])), node.outputs[0].kind)
    return fusing.become(node, "Clip", [relu.operand(), lowest, node.operand(2)])


def chosen_truths(fusing: Fusing, node: Node) -> bool:
    """Booleans of which a condition chooses one: onnxruntime has no Where for them."""
    condition, yes, no = (node.operand(place) for place in range(3))
    if node.outputs[0].kind != BOOL:
        return False
    fusing.uses[condition] += 1
    otherwise = fusing.inserted(node, "Not", (condition,), Tensor(BOOL, condition.dims))
    ways = (("And", condition, yes, no, False), ("And", otherwise, no, yes, False), ("Or", condition, no, yes, True),
            ("Or", otherwise, yes, no, True))
    for operator, test, side, other, end in ways:
        known = other.constant
        if known is not None and (known == end).all() and broadcast(test.dims, side.dims) == node.outputs[0].dims:
            return fusing.become(node, operator, [test, side])
    sides = [fusing.inserted(node, "And", (test, side), Tensor(BOOL, broadcast(test.dims, side.dims)))
             for test, side in ((condition, yes), (otherwise, no))]
    return fusing.become(node, "Or", sides)


def counted_back(fusing: Fusing, node: Node) -> bool:
    """A Slice whose bounds are the end of an axis, or known positions before it: its size need not be known."""
    x, *bounds = node.inputs[:3]
    axes = node.inputs[3] if len(node.inputs) == 4 else None
    axis = None if axes is None else axes.only_element
    if x is None or axis is None:
        return False
    known = list(bounds)
    for place, bound in enumerate(bounds):
        size = None if bound is None or bound.constant is not None else fusing.builder.size_of(bound)
        back = -1 if size is None else x.dims[axis] - size
        if isinstance(back, int) and back >= 1 - place:
            known[place] = fusing.builder.constant([-back or TO_THE_END])
    return known != bounds and fusing.become(node, "Slice", [x, *known, axes])


def moved_back(fusing: Fusing, node: Node) -> bool:
    """A product with integers of a known range that are moved by a number, and back by it."""
    for moved, factor in pairs(node):
        for other, number in pairs(fusing.single(moved, "Add")):
            for whole, shift in pairs(fusing.single(other, "Add")):
                first, second = number_of(shift), number_of(number)
                if first is None or second is None or not first.is_integer() or first + second:
                    continue
                small = abs(first) <= _EXACT and _is_small_whole(whole)
                if small and whole.dims == node.outputs[0].dims:
                    return fusing.become(node, "Mul", [whole, factor])
    return False


def _is_small_whole(tensor: Tensor) -> bool:
    """Whether all numbers of a tensor are whole, and small or NaN."""
    limited = made_by(source_of(tensor, "Round"), "Clip")
    if limited is None:
        return False
    limits = [number_of(limit) for limit in limited.inputs[1:]]
    return all(limit is not None and abs(limit) <= _EXACT for limit in limits)


def summed(fusing: Fusing, node: Node) -> bool:
    """A sum of sums along other axes."""
    before = fusing.single(node.inputs[0], "ReduceSum")
    axes, own = reduced_axes(before), reduced_axes(node)
    if before is None or axes is None or own is None:
        return False
    if not node.attributes.get("keepdims") or not before.attributes.get("keepdims"):
        return False
    both = fusing.builder.constant(np.array(sorted({*axes, *own}), np.int64), INT)
    return fusing.become(node, "ReduceSum", [before.inputs[0], both], keepdims=1)


def without_axes(fusing: Fusing, node: Node) -> bool:
    """The sum of a whole tensor as one number, which has no axes."""
    before = fusing.single(node.inputs[0], "ReduceSum")
    axes = reduced_axes(before)
    if before is None or node.outputs[0].dims or axes is None:
        return False
    source = before.operand()
    if any(dim != 1 for i, dim in enumerate(source.dims) if i not in axes):
        return False
    every = fusing.builder.constant(np.arange(source.rank), INT)
    return fusing.become(node, "ReduceSum", [source, every], keepdims=0)


def based(fusing: Fusing, node: Node) -> bool:
    """Known numbers added to what trees give."""
    for scores, added in pairs(node):
        trees = fusing.single(scores, "TreeEnsembleRegressor")
        known = added.constant
        if trees is None or known is None or "base_values" in trees.attributes or not np.isfinite(known).all():
            continue
        targets = trees.integer("n_targets")
        if "aggregate_function" in trees.attributes or known.shape not in ((), (1, 1), (1, targets)):
            continue
        base = tuple(np.broadcast_to(known.ravel(), (targets,)).tolist())
        return fusing.become(node, trees.op, list(trees.inputs), **trees.attributes, base_values=base)
    return False


def pooled(fusing: Fusing, node: Node) -> bool:
    """Channels pooled as images of their own, one per sample, which come back as channels."""
    made = fusing.single(node.inputs[0], "AveragePool") or fusing.single(node.inputs[0], "MaxPool")
    view = None if made is None else fusing.single(made.inputs[0], "Reshape")
    if made is None or made.outputs != (node.inputs[0],):  # it may be the places of maxima
        return False
    if view is None or view.operand().rank != 4 or view.outputs[0].rank != 4:
        return False
    source = view.operand()
    if source.dims[2:] != view.outputs[0].dims[2:]:
        return False
    dims = (*source.dims[:2], *made.outputs[0].dims[2:])
    return fusing.become_reshaped(node, made.op, [source], Tensor(FLOAT, dims), made.attributes)


def classified(fusing: Fusing, node: Node) -> bool:
    """The Softmax of the scores that a classifier gives, which it can give itself."""
    scores = node.inputs[0]
    made = fusing.single(scores, "LinearClassifier")
    if made is None or node.attributes.get("axis") != 1 or made.attributes.get("post_transform") != "NONE":
        return False
    made.attributes = {**made.attributes, "post_transform": "SOFTMAX"}
    shares = node.outputs[0]
    made.outputs, shares.node = (made.outputs[0], shares), made
    node.outputs = ()  # so that nothing needs it
    return True


def inverse(fusing: Fusing, node: Node) -> bool:
    """A matrix of 1 divided by what has fewer axes: onnxruntime loses axes of the 1 where a product follows."""
    one, divisor = node.operand(0), node.operand(1)
    if one.only_element != 1 or one.rank <= divisor.rank:
        return False
    viewed = fusing.viewed(divisor, node.outputs[0].dims, node)
    return viewed is not None and fusing.become(node, "Div", [fusing.builder.constant(np.ones(()), one.kind), viewed])


def cell(fusing: Fusing, node: Node) -> bool:
    """A Slice along one axis of a Slice along another one, at known positions."""
    before = fusing.single(node.inputs[0], "Slice")
    cuts = None if before is None else (cut_of(before), cut_of(node))
    if before is None or cuts is None or cuts[0] is None or cuts[1] is None or cuts[0][2] == cuts[1][2]:
        return False
    bounds = [fusing.builder.constant(list(pair)) for pair in zip(cuts[0], cuts[1])]
    return fusing.become(node, "Slice", [before.operand(), *bounds])
