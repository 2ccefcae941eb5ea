"""Joins nodes of a finished graph where nothing else uses what lies between them: `fuse`, by the rules of a table.

MatMul + Add is Gemm, Conv and per-channel constants after it are one Conv, exp / rowSums(exp) is Softmax.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnx_systemds.exporting.float_rounding import rounded
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import INT, TEXT, Node, Scope, Tensor, made_by, pairs
from onnx_systemds.exporting.graph.operators import TO_THE_END, Operators
from onnx_systemds.exporting.graph.positions import BEYOND, is_guarded_position, may_be_negative
from onnx_systemds.exporting.passes import (
    activations,
    arg_extremes,
    convolution_joins,
    extreme_factors,
    idioms,
    moved_windows,
    simplifications,
    stacks,
    views,
)
from onnx_systemds.exporting.passes.fusing import Fusing, Rule, kept_axes, number_of, only_axis
from onnx_systemds.exporting.passes.plugin_joins import joined


def fuse(builder: Operators) -> None:
    """Join nodes in the whole graph."""
    uses: Counter[Tensor] = Counter(tensor for _, tensor in builder.outputs)
    scopes = list(_counted(builder.main, [tensor for _, tensor in builder.outputs], uses))
    for scope, needed in scopes:
        fusing = Fusing(builder, scope, uses)
        for node in needed:
            _visit(fusing, node)


def _counted(scope: Scope, outputs: Iterable[Tensor], uses: Counter[Tensor]) -> Iterable[tuple[Scope, list[Node]]]:
    """Yield the scopes with their needed nodes, and count how often each tensor is used."""
    needed = needed_nodes(scope, outputs)
    yield scope, needed
    for node in needed:
        uses.update(node.given())
        for body in node.subgraphs():
            uses.update(body.outputs)
            yield from list(_counted(body.scope, body.outputs, uses))


def _visit(fusing: Fusing, node: Node) -> None:
    """Turn `node` into what it is together with the nodes before it."""
    before = node.op
    found = joined(fusing, node) or any(rule(fusing, node) for rule in RULES.get(before, ()))
    if found and node.op != before:
        _visit(fusing, node)  # which may be part of a further pattern


def gemm(fusing: Fusing, node: Node) -> bool:
    """``A %*% B + row``."""
    for summand, bias in pairs(node):
        product, factor = _multiplied(fusing, summand)
        made = fusing.single(product, "MatMul")
        if made is None or product.rank != 2 or bias.rank not in (0, 2):
            continue
        if product.dims != node.outputs[0].dims or (bias.rank == 2 and bias.dims not in (
            (1, product.dims[1]), (product.dims[0], 1), product.dims, (1, 1)
        )):
            continue
        factors = [_transposed(operand) for operand in made.inputs]
        flags: dict[str, Any] = {n: 1 for n, (_, flag) in zip(("transA", "transB"), factors) if flag}
        if factor != 1:
            flags["alpha"] = factor
        return fusing.become(node, "Gemm", [operand for operand, _ in factors] + [bias], **flags)
    return False


def _multiplied(fusing: Fusing, x: Tensor) -> tuple[Tensor, float]:
    """Return what a number is multiplied with, and that number if an attribute holds it exactly; else `x` and 1."""
    for one, other in pairs(fusing.single(x, "Mul")):
        number = number_of(other)
        if number is not None and not other.dims and 0 < abs(number) < math.inf and _is_float32(number):
            return one, number
    return x, 1.0


def _is_float32(number: float) -> bool:
    return float(rounded(np.array(number), np.dtype(np.float32))) == number


def _transposed(operand: Tensor | None) -> tuple[Tensor | None, bool]:
    """Return what a transposition is made of, and whether there is one."""
    node = made_by(operand, "Transpose")
    return (operand, False) if node is None else (node.inputs[0], True)


def reshaped(fusing: Fusing, node: Node) -> bool:
    """A Reshape of a Reshape."""
    before = made_by(node.inputs[0], "Reshape")
    if before is None or before.scope is not fusing.scope:
        return False
    made = before.operand().node
    if before.operand().dims == node.outputs[0].dims and made is not None and len(made.outputs) == 1:
        is_own = fusing.single(node.inputs[0], "Reshape", made.op) is made and not made.subgraphs()
        if is_own:
            return fusing.become(node, made.op, made.inputs, **made.attributes)
    target = fusing.builder.target(before.operand(), node.outputs[0].dims)
    return target.constant is not None and fusing.become(node, "Reshape", [before.operand(), target])


def chosen(fusing: Fusing, node: Node) -> bool:
    """A Slice from a computed position to the next one, or between positions outside, which Gather refuses."""
    start, stop, axes = node.inputs[1:4]
    if len(node.inputs) > 4 or start is None or stop is None or axes is None or axes.constant is None:
        return False
    builder, axis = fusing.builder, int(axes.constant.item())
    size = node.outputs[0].dims[axis]

    def found(places: Tensor) -> bool:
        return fusing.become(node, "Gather", [node.operand(), places], axis=axis)

    one = next((other.constant for same, other in pairs(made_by(stop, "Add")) if same is start), None)
    is_checked = is_guarded_position(start)
    if is_checked and size == 1:
        return found(start)
    if is_checked and isinstance(size, int):
        steps = builder.constant(np.arange(size))
        return found(fusing.inserted(node, "Add", [start, steps], Tensor(INT, (size,))))
    if one is not None and one.tolist() == [1] and start.constant is None:
        return found(start)
    if stop.constant is not None and stop.constant.item() == TO_THE_END:  # from what is a size: no range of a script
        return False
    if not any(may_be_negative(end) for end in map(builder.size_of, (start, stop)) if end is not None):
        return False
    ends = [builder.constant(end.constant.item()) if end.constant is not None else fusing.viewed(end, (), node)
            for end in (start, stop)]
    places = fusing.inserted(node, "Range", [*ends, builder.constant(1)], Tensor(INT, (size,)))
    return found(fusing.inserted(node, "Mod", [places, builder.constant([BEYOND])], Tensor(INT, (size,))))


def texts(fusing: Fusing, node: Node) -> bool:
    """Rows of texts, of which onnxruntime takes by Gather the first text alone, are right by GatherND."""
    x, places, axis = node.operand(0), node.operand(1), node.integer("axis")
    if x.kind != TEXT or all(dim == 1 for dim in x.dims[axis + 1 :]):
        return False
    column = Tensor(INT, (*places.dims, 1))
    fusing.inserted(node, "Unsqueeze", [places, fusing.builder.constant([-1])], column)
    if not axis:
        return fusing.become(node, "GatherND", [x, column])
    others = [*range(axis), *range(axis + 1, x.rank)]
    sizes = tuple(x.dims[i] for i in others)
    rows = fusing.inserted(node, "Transpose", [x], Tensor(TEXT, (x.dims[axis], *sizes)), {"perm": (axis, *others)})
    chosen = fusing.inserted(node, "GatherND", [rows, column], Tensor(TEXT, (*places.dims, *sizes)))
    order = list(range(chosen.rank))
    back = (*order[places.rank :][:axis], *order[: places.rank], *order[places.rank + axis :])
    return fusing.become(node, "Transpose", [chosen], perm=back)


def softmax(fusing: Fusing, node: Node) -> bool:
    """``E / sum(E)`` along axes, with ``E = exp(S)`` or ``E = exp(S - max(S))``."""
    powers, total = node.operand(0), node.operand(1)
    summed = fusing.single(total, "ReduceSum")
    axes = kept_axes(summed)
    if summed is None or summed.inputs[0] is not powers or fusing.uses[powers] != 2 or not axes:
        return False
    scores = _exponents(fusing, powers, node)
    if scores is None:
        return False
    source = activations.unlowered(scores, axes)
    lowered = scores.node if source is not scores else None
    if lowered is not None and fusing.uses[scores] == fusing.uses[lowered.operand(1)] == 1:
        fusing.uses[source] -= 1  # once for both
    return fusing.become_along(node, "Softmax", source, axes)


def softmax_of_product(fusing: Fusing, node: Node) -> bool:
    """``E %*% V / rowSums(E)`` with ``E = exp(S - rowMaxs(S))``, also where E and the product are seen as stacks."""
    product, total = node.operand(0), node.operand(1)
    shape, summed = fusing.single(product, "Reshape"), fusing.single(total, "ReduceSum")
    made = fusing.single(product if shape is None else shape.inputs[0], "MatMul")
    axis = only_axis(summed)
    if made is None or summed is None or axis is None:
        return False
    powers, view = summed.operand(), fusing.single(made.inputs[0], "Reshape")
    if (made.operand() if view is None else view.inputs[0]) is not powers or fusing.uses[powers] != 2:
        return False
    raised = made_by(powers, "Exp")
    source = powers if raised is None else activations.unlowered(raised.operand(), (axis,))
    is_by_rows = axis == powers.rank - 1 and made.operand().dims[-1] == powers.dims[-1]
    is_by_rows = is_by_rows and product.dims == (*powers.dims[:-1], made.outputs[0].dims[-1]) == node.outputs[0].dims
    if raised is None or source is raised.inputs[0] or not is_by_rows:
        return False
    shares = fusing.inserted(node, "Softmax", [source], Tensor(powers.kind, powers.dims), {"axis": axis})
    if view is not None:
        stack = Tensor(powers.kind, made.operand().dims)
        shares = fusing.inserted(node, "Reshape", [shares, view.inputs[1]], stack, view.attributes)
    if shape is None:
        return fusing.become(node, "MatMul", [shares, made.inputs[1]])
    products = fusing.inserted(node, "MatMul", [shares, made.inputs[1]], Tensor(product.kind, made.outputs[0].dims))
    return fusing.become(node, "Reshape", [products, shape.inputs[1]], **shape.attributes)


def _exponents(fusing: Fusing, powers: Tensor, place: Node) -> Tensor | None:
    """Return S of ``exp(S)``, also with constants beside it, as of a class whose scores are 0; else None."""
    made = powers.node
    if made is None or made.op == "Exp":
        return None if made is None else made.inputs[0]
    if made.op == "Pad" and not made.attributes and len(made.inputs) == 3:
        inputs = [_logarithm(fusing, made.inputs[0]), made.inputs[1], _logarithm(fusing, made.inputs[2])]
    elif made.op == "Concat":
        inputs = [_logarithm(fusing, part) for part in made.inputs]
    else:
        return None
    if None in inputs:
        return None
    scores = fusing.inserted(place, made.op, inputs, Tensor(powers.kind, powers.dims), made.attributes)
    fusing.uses[scores] = 1
    return scores


def _logarithm(fusing: Fusing, powers: Tensor | None) -> Tensor | None:
    """Return the logarithm of what is a power, or a constant; None for anything else."""
    exponent = fusing.source(powers, "Exp")
    if exponent is not None or powers is None or powers.constant is None:
        return exponent
    known = powers.constant
    return fusing.builder.constant(np.log(known), powers.kind) if (known > 0).all() else None


def transposed_softmax(fusing: Fusing, node: Node) -> bool:
    """A Softmax of a transposed matrix that is transposed back."""
    made = fusing.single(node.inputs[0], "Softmax")
    before = None if made is None else made_by(made.inputs[0], "Transpose")
    if made is None or before is None:
        return False
    one, other = before.integers("perm"), node.integers("perm")
    if [one[place] for place in other] != list(range(len(one))):
        return False
    return fusing.become(node, "Softmax", before.inputs, axis=one[made.integer("axis")])


RULES: Mapping[str, tuple[Rule, ...]] = {
    "Add": (gemm, views.offset_of_view, convolution_joins.shifted, idioms.batch_normalization,
            idioms.normalized_shifted, idioms.missing_filled, simplifications.based, activations.rectified,
            activations.lowered_by_logarithm, extreme_factors.almost_neutral),
    "Sub": (convolution_joins.lowered, activations.normalized_logarithm, activations.doubled_sigmoid,
            extreme_factors.almost_neutral),
    "Clip": (activations.hard_sigmoid, simplifications.clipped_relu),
    "Mul": (convolution_joins.scaled, activations.hard_swish, idioms.gelu, idioms.normalized_scaled,
            simplifications.moved_back, extreme_factors.scaled_product, extreme_factors.almost_neutral),
    "Div": (simplifications.inverse, views.mean, convolution_joins.divided, activations.hard_swish, softmax,
            softmax_of_product, idioms.layer_normalization, idioms.unit_rows, activations.hyperbolic_tangent,
            extreme_factors.scaled_product, extreme_factors.almost_neutral),
    "MatMul": (extreme_factors.product_of_scaled,),
    "Log": (activations.log_softmax, activations.log_sigmoid, activations.softplus, activations.log_cosh),
    "Where": (simplifications.chosen_truths, activations.rectified),
    "If": (idioms.missing_replaced,),
    "Transpose": (transposed_softmax,),
    "Gather": (texts, arg_extremes.arg_extreme_of_product),
    "ArgMax": (arg_extremes.arg_extreme_of_mask,),
    "Concat": (convolution_joins.grouped, stacks.stacked, stacks.joined_parts),
    "Reshape": (reshaped, simplifications.pooled, simplifications.without_axes, stacks.exchanged,
                views.unviewed),
    "Slice": (moved_windows.convolved_lines, chosen, simplifications.counted_back, simplifications.cell),
    "Softmax": (simplifications.classified,),
    "Max": (simplifications.clipped, activations.leaky_relu),
    "ReduceSum": (simplifications.summed,),
    **dict.fromkeys(("Min", "Relu"), (simplifications.clipped,)),
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool"), (convolution_joins.padded, moved_windows.bordered)),
}
"""By the last node of their patterns."""
