"""Elementwise operators on quantised numbers, and those that work element by element but for a rescaling.

As onnxruntime's kernels do, with their order of roundings: whether the zero point of the result is added before or
after the rounding to integers decides the ties.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx_systemds.dml.literals import literal
from onnx_systemds.inference.broadcast_dims import of_rank
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.protos import integer_range
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, View, bind
from onnx_systemds.operators.api.layout import around
from onnx_systemds.operators.onnx.combining import choice, finish, infix
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.onnx.joining import concatenated
from onnx_systemds.operators.onnx.requantizing import (
    Number,
    Parameters,
    applied,
    requantized,
    saturated,
    single,
    unshifted,
)
from onnx_systemds.operators.onnx.softmax import Columns, flattened, normalized_along
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned
from onnx_systemds.operators.support.broadcasting import FULL, Operand, broadcast, operands

batch_rule("QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", domain=CONTRIB)(mixes_unless_aligned)

# --- two operands ------------------------------------------------------------------------------------------------


@shape_rule("QLinearAdd", "QLinearMul", domain=CONTRIB)
def binary_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Broadcast dims of both operands."""
    return (node.tensor(broadcast(node, {0: node.dims("A"), 3: node.dims("B")})),)


@generator("QLinearAdd", since=1, domain=CONTRIB)
def qlinear_add(node: NodeView) -> Fragment:
    """a * (scale of A / scale of C) + b * (scale of B / scale of C) + what all zero points make together."""
    steps = Parameters(node)
    own, other = (0, 3) if _is_repeated_inside(node.dims("A"), node.output_dims()) else (3, 0)
    goal = steps.number(6)
    ratio, zero = steps.combined(steps.number(own + 1), "/", goal), steps.number(own + 2)
    other_ratio, other_zero = steps.combined(steps.number(other + 1), "/", goal), steps.number(other + 2)
    left, right = (ratio, zero), (other_ratio, other_zero)
    inner = steps.fused(*right, steps.combined(left[0], "*", left[1]))
    fixed = steps.combined(steps.number(7), "-", inner)
    given = operands(node, [own, other], node.output_dims())
    text = single(node, _shifted(given.items[0], ratio, fixed))
    scaled = Operand(f"({given.items[1].text} * {other_ratio.text})", given.items[1].kind)
    total = single(node, infix(node, "+", scaled, text, given.form))
    return finish(node, _whole(node, total), given)


def _shifted(operand: Operand, ratio: Number, fixed: Number) -> Operand:
    return Operand(f"({operand.text} * {ratio.text} + {fixed.text})", operand.kind)


def _is_repeated_inside(own: Dims, result: Dims) -> bool:
    """Whether an operand is repeated along the last axis that the result has: onnxruntime adds it first."""
    padded = of_rank(own, len(result))
    last = next((axis for axis in reversed(range(len(result))) if result[axis] != 1), None)
    return last is not None and padded[last] == 1


def _whole(node: NodeView, total: Operand) -> Operand:
    return Operand(saturated(applied(node, "nearest_integer", total).text, node.output_dtype()), total.kind)


@generator("QLinearMul", since=1, domain=CONTRIB)
def qlinear_mul(node: NodeView) -> Fragment:
    """The product of the shifted operands by the ratio of all scales, the zero point added before it is rounded."""
    steps = Parameters(node)
    scales = steps.combined(steps.number(1), "*", steps.number(4))
    ratio = steps.combined(scales, "/", steps.number(6))
    given = operands(node, [0, 3], node.output_dims())
    left, right = (Operand(unshifted(item.text, steps.number(zero)), item.kind)
                   for item, zero in zip(given.items, (2, 5)))
    factors = infix(node, "*", left, right, given.form)
    scaled = single(node, Operand(f"({factors.text} * {ratio.text})", factors.kind))
    total = single(node, Operand(f"({scaled.text} + {steps.number(7).text})", scaled.kind))
    return finish(node, _whole(node, total), given)


# --- one operand -------------------------------------------------------------------------------------------------

for _name in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"):
    shape_rule(_name, domain=CONTRIB)(same_dims)


def _activated(node: NodeView, activation: Callable[[str], str]) -> Fragment:
    """Dequantised in FP32, activated, and quantised again."""
    steps = Parameters(node)
    form = node.wanted_form()
    view = View(1, 1) if form is SCALAR or node.size("X") == 1 else form
    x = f"as.matrix({node.scalar('X')})" if view == View(1, 1) else node.view("X", view)
    shifted = unshifted(x, steps.number(2))
    value = node.named("value", node.call("single_precision", f"{shifted} * {steps.number(1).text}"))
    active = node.call("single_precision", activation(value))
    text = requantized(node, f"{active} / {steps.number(3).text}", steps.number(4), node.dtype("X"))
    return node.result(text, view)


@generator("QLinearSigmoid", since=1, domain=CONTRIB)
def qlinear_sigmoid(node: NodeView) -> Fragment:
    """1 / (1 + exp(-x))."""
    return _activated(node, lambda x: f"1 / (1 + exp(-{x}))")


@generator("QLinearLeakyRelu", since=1, domain=CONTRIB)
def qlinear_leaky_relu(node: NodeView) -> Fragment:
    """x, and alpha * x below zero."""
    alpha = literal(float(node.attribute("alpha")))
    return _activated(node, lambda x: f"max({x}, 0) + min({x}, 0) * {alpha}")


@generator("QLinearSoftmax", since=1, domain=CONTRIB)
def qlinear_softmax(node: NodeView) -> Fragment:
    """Softmax along an axis; its attribute ``opset`` gives the meaning: below 13 all axes from ``axis`` on are one."""
    if int(node.attribute("opset")) >= 13:
        return normalized_along(node, _normalized)
    return flattened(node, _normalized)


def _normalized(node: NodeView, x: str, columns: Columns) -> str:
    """Powers over the whole range of FP32, their shares in whole steps of the result's scale."""
    steps = Parameters(node)
    side = "col" if columns else "row"
    exponent = f"({x} - {side}Maxs({x})) * {steps.number(1).text}"
    whole = steps.combined(Number.of(1.0), "/", steps.number(3))
    powers = node.named("exp", node.call("single_precision", f"exp({exponent})"))
    scaled = node.call("single_precision", f"{powers} * floor({whole.text})")
    return requantized(node, f"{scaled} / {side}Sums({powers})", steps.number(4), node.dtype("X"))


# --- rescaled operands -------------------------------------------------------------------------------------------


def _rescaled(node: NodeView, operand: Operand, own: tuple[Number, Number], goal: tuple[Number, Number]) -> Operand:
    """An operand with its scale and zero point in those of the result; as it is where these are the same."""
    if None not in (own[0].known, own[1].known) and own == goal:
        return operand
    low, high = map(literal, integer_range(node.output_dtype()))
    return applied(node, "rescaled", operand, *(number.text for number in (*own, *goal)), low, high)


@shape_rule("QLinearWhere", domain=CONTRIB)
def where_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Broadcast dims of the condition and both branches."""
    return (node.tensor(broadcast(node, {position: node.dims(position) for position in (0, 1, 4)}), node.dtype("X")),)


@generator("QLinearWhere", since=1, domain=CONTRIB)
def qlinear_where(node: NodeView) -> Fragment:
    """A choice between rescaled operands."""
    steps = Parameters(node)
    given = operands(node, [0, 1, 4], node.output_dims(), full=True)
    goal = (steps.number(7), steps.number(8))
    condition, chosen, other = given.items
    chosen = _rescaled(node, chosen, (steps.number(2), steps.number(3)), goal)
    other = _rescaled(node, other, (steps.number(5), steps.number(6)), goal)
    return choice(node, condition, chosen, other, given.form)


@shape_rule("QLinearConcat", domain=CONTRIB)
def concat_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The inputs' dims, joined; the type is that of the result's zero point."""
    dims = concatenated(node, range(2, node.input_count, 3), node.axis(rank=node.rank(2)))
    return (node.tensor(dims, node.dtype("Y_zero_point")),)


@generator("QLinearConcat", since=1, domain=CONTRIB)
def qlinear_concat(node: NodeView) -> Fragment:
    """Inputs come in threes (numbers, scale, zero point) after the result's scale and zero point."""
    steps = Parameters(node)
    axis, dims = node.axis(rank=node.rank(2)), node.output_dims()
    prefix, _, suffix = around(dims, axis)
    goal = (steps.number(0), steps.number(1))
    parts = []
    for position in range(2, node.input_count, 3):
        size = node.dims(position)[axis]
        if size != 0:
            part = Operand(node.view(position, View(prefix, size * suffix)), FULL)
            own = (steps.number(position + 1), steps.number(position + 2))
            parts.append(_rescaled(node, part, own, goal).text)
    return node.result(bind("cbind", parts), View(prefix, dims[axis] * suffix))
