"""Comparisons, logic, and the choice between two tensors, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from onnx_systemds.correspondence import COMPARISONS
from onnx_systemds.dml.literals import literal
from onnx_systemds.inference.dims import Dim, is_non_negative, product
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import Moves
from onnx_systemds.inference.registry import (
    batch_rule,
    fold,
    generator,
    gradient,
    integer_rule,
    shape_rule,
    size_rule,
    takes_text,
)
from onnx_systemds.inference.values import Elements
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.onnx.combining import choice, finish, infix
from onnx_systemds.operators.onnx.elementwise import binary_of, broadcast_rule, same_dims, two_operands, unary
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned
from onnx_systemds.operators.support.broadcasting import Operand, Operands, broadcast, operands
from onnx_systemds.operators.support.integer_rules import read
from onnx_systemds.operators.support.size_rules import of_pairs

shape_rule(*COMPARISONS, "And", "Or", "Xor")(broadcast_rule("bool"))
shape_rule("Not")(same_dims)
shape_rule("IsNaN", "IsInf")(lambda node: (node.tensor(node.dims(0), "bool"),))
takes_text("Equal", "Where")
batch_rule(*COMPARISONS, "And", "Or", "Xor", "Not", "IsNaN", "IsInf", "Where")(mixes_unless_aligned)
fold("Not")(by_reference)
fold("And", "Equal", "Greater", "Less", "Or", "Xor", since=7)(by_reference)
fold("IsNaN", "Where", since=9)(by_reference)
fold("GreaterOrEqual", "LessOrEqual", since=12)(by_reference)
integer_rule(*COMPARISONS)(read)
integer_rule("Where")(lambda node: Moves((1, 2)))


def _compared(node: NodeView, operator: str) -> Fragment:
    given = two_operands(node)
    return finish(node, infix(node, operator, given.items[0], given.items[1], given.form), given, logical=True)


for _name, _operator in COMPARISONS.items():
    _since = (12,) if _name in ("GreaterOrEqual", "LessOrEqual") else (1, 7)
    generator(_name, _since)(partial(_compared, operator=_operator))


@generator("Not", since=1)
def not_1(node: NodeView) -> Fragment:
    """Logical negation of 0 and 1."""
    return unary(node, lambda x: f"1 - {x}")


@generator("IsNaN", since=9)
def is_nan(node: NodeView) -> Fragment:
    """A NaN is the only number that differs from itself."""
    return unary(node, lambda x: f"{x} != {x}", logical=True)


@generator("IsInf", since=10)
def is_inf(node: NodeView) -> Fragment:
    """Infinities of the wanted signs."""
    positive, negative = node.attribute("detect_positive"), node.attribute("detect_negative")
    if positive and negative:
        return unary(node, lambda x: f"abs({x}) == Inf", logical=True)
    if positive or negative:
        return unary(node, lambda x: f"{x} == {'Inf' if positive else '(-Inf)'}", logical=True)
    return unary(node, lambda x: f"({x} != {x}) & ({x} == {x})", logical=True)


def _logical(node: NodeView, operator: str) -> Fragment:
    return binary_of(node, lambda given: infix(node, operator, given.items[0], given.items[1], given.form))


for _name, _operator in {"And": "*", "Or": "max"}.items():  # of 0 and 1; the engine's & is wrong with a scalar
    generator(_name, (1, 7))(partial(_logical, operator=_operator))


@generator("Xor", since=(1, 7))
def xor(node: NodeView) -> Fragment:
    """Logical exclusive or of 0 and 1: they differ."""

    def combine(given: Operands) -> Operand:
        equal = infix(node, "==", given.items[0], given.items[1], given.form)
        return Operand(f"(1 - as.double{equal.text})" if given.form is SCALAR else f"(1 - {equal.text})", equal.kind)

    return binary_of(node, combine)


@shape_rule("Where")
def where_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Broadcast dims of all three, dtype of the branches."""
    return (node.tensor(broadcast(node, {position: node.dims(position) for position in range(3)}), node.dtype("X")),)


@generator("Where", since=9)
def where(node: NodeView) -> Fragment:
    """Elements of two tensors; ifelse takes full matrices and scalars only."""
    known = node.constant(0)
    if known is not None and known.size and (known.all() or not known.any()):
        position = 1 if known.all() else 2
        if node.dims(position) == node.output_dims():
            return node.same_elements(position)
    return _without_gaps(node) or _chosen(node)


def _without_gaps(node: NodeView) -> Fragment | None:
    """``Where(IsNaN(x), number, x)``: x with the number for each NaN."""
    number, dims = node.constant(1), node.output_dims()
    if number is None or number.size != 1 or node.dims(2) != dims or product(dims) == 1:
        return None
    test = node.computing(0)
    if test is None or test.identity != ("", "IsNaN") or test.inputs[0] != node.name(2) or np.isnan(number.item()):
        return None
    view = node.wanted_form()
    x = node.view(2, view)
    return node.result(f"replace(target={x}, pattern=NaN, replacement={literal(number.item())})", view)


def _chosen(node: NodeView) -> Fragment:
    given = operands(node, [0, 1, 2], node.output_dims(), full=True)
    condition, chosen, other = given.items
    return choice(node, condition, chosen, other, given.form)


@gradient("Where")
def _where_gradient(n: Backward) -> Sequence[str]:
    condition = n.node.inputs[0]
    zero = n.number(0.0)
    return n.fitted([
        lambda: "",
        lambda: n.emit("Where", condition, n.grad, zero),
        lambda: n.emit("Where", condition, zero, n.grad),
    ])


# --- sizes -----------------------------------------------------------------------------------------------------


def _equal(left: Dim, right: Dim) -> Dim | None:
    difference = left - right
    if isinstance(difference, int):
        return int(difference == 0)
    # symbols are sizes: seq - (-1) >= 1, so they differ
    if is_non_negative(difference - 1) or is_non_negative(-1 * difference - 1):
        return 0
    return None


size_rule("Equal", since=7)(of_pairs(_equal))


@size_rule("Where")
def _chosen_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    condition, chosen, other = inputs
    if not all(isinstance(element, int) for element in condition.ravel()):
        return None
    return np.where(condition.astype(bool), chosen, other)
