"""Arithmetic of two and more tensors, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from onnx_systemds.correspondence import INFIX_OPERATORS, VARIADIC_BUILTINS
from onnx_systemds.dml.literals import is_uniform, literal
from onnx_systemds.dml.operands import number_in
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import (
    Dim,
    floor_divide,
    from_terms,
    is_non_negative,
    is_non_negative_from_one,
    maximum,
    minimum,
    modulo,
    terms,
)
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import LIMIT, UNBOUNDED, Computes, Span, symmetric
from onnx_systemds.inference.registry import batch_rule, fold, generator, gradient, integer_rule, shape_rule, size_rule
from onnx_systemds.inference.values import FINITE_DTYPES, INTEGER_DTYPES, Elements
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.api.layout import in_form
from onnx_systemds.operators.onnx.combining import (
    OPERANDS_TOGETHER,
    as_matrix,
    extreme,
    finish,
    infix,
    replicated,
    sum_or_difference,
    truncated,
    wrapped,
)
from onnx_systemds.operators.onnx.elementwise import broadcast_rule, two_operands
from onnx_systemds.operators.onnx.precision import stepwise
from onnx_systemds.operators.onnx.wrapping import may_exceed, wrapped_products
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned
from onnx_systemds.operators.support.broadcasting import FULL, SINGLE, Operand, Operands, operands
from onnx_systemds.operators.support.integer_rules import chosen_of_all, computed, span_of_products
from onnx_systemds.operators.support.size_rules import Compute, of_pairs

_OPERATORS = (*INFIX_OPERATORS, *VARIADIC_BUILTINS, "Pow", "Mod", "Mean", "Sum")
shape_rule(*_OPERATORS)(broadcast_rule())
batch_rule(*_OPERATORS)(mixes_unless_aligned)
fold("Add", "Mul", "Pow", "Sub", since=7)(by_reference)
fold("Max", "Min", "Sum", since=8)(by_reference)
fold("Mod", since=10)(by_reference)
integer_rule("Max", "Min")(chosen_of_all)
integer_rule("Sub")(computed(lambda node, s: Span(s[0].low - s[1].high, s[0].high - s[1].low)))
integer_rule("Mul")(computed(lambda node, s: span_of_products(s[0], s[1])))


_NEUTRAL: Mapping[str, tuple[float, tuple[int, ...]]] = {
    "+": (0, (1, 0)), "-": (0, (1,)), "*": (1, (1, 0)), "/": (1, (1,)),
    "max": (-np.inf, (1, 0)), "min": (np.inf, (1, 0)),
}
"""By operator: a number, and the positions at which it changes nothing: zeros have no sign in the engine."""


def _unchanged(node: NodeView, operator: str) -> Fragment | None:
    """The other input as it is, where an operand is known to change nothing and adds no axes; else None."""
    number, positions = _NEUTRAL[operator]
    for position in positions:
        content = node.constant(position)
        is_neutral = content is not None and content.size > 0 and content.flat[0] == number and is_uniform(content)
        if is_neutral and node.dims(1 - position) == node.output_dims():
            return node.same_elements(1 - position)
    return None


def _binary(node: NodeView, operator: str) -> Fragment:
    """An infix operator of the engine."""
    unchanged = _unchanged(node, operator)
    if unchanged is not None:
        return unchanged
    given = two_operands(node)
    if operator == "*" and may_exceed(node):
        return finish(node, wrapped_products(node, given), given)
    if operator in ("+", "-"):
        combined = sum_or_difference(node, operator, given)
    else:
        combined = _times_zero(node, given) or infix(node, operator, given.items[0], given.items[1], given.form)
    return _finished(node, Operand(wrapped(node.output_dtype(), combined.text), combined.kind), given)


def _finished(node: NodeView, result: Operand, given: Operands) -> Fragment:
    """The fragment of a result, rounded as `stepwise` says."""
    if given.form is SCALAR or result.kind == FULL:
        result = replace(result, text=stepwise(node, result.text, single=given.form is SCALAR))
    return finish(node, result, given)


def _times_zero(node: NodeView, given: Operands) -> Operand | None:
    """Zeros of the other operand, but NaN where it is infinite or NaN, for which the engine has 0 * X = 0, too.

    None where no operand is the number 0, or all elements are finite.
    """
    if node.output_dtype() in FINITE_DTYPES or given.form is SCALAR:
        return None
    for zero, other in (given.items, given.items[::-1]):
        if zero.kind == SINGLE and number_in(zero.text) == 0:
            return Operand(f"(0 / abs(1 / {other.text}))", other.kind)
    return None


for _name in ("Add", "Sub", "Mul"):
    generator(_name, (1, 6, 7))(partial(_binary, operator=INFIX_OPERATORS[_name]))


@generator("Div", since=(1, 6, 7))
def div(node: NodeView) -> Fragment:
    """Division; of integers truncated towards zero."""
    unchanged = _unchanged(node, "/")
    if unchanged is not None:
        return unchanged
    given = two_operands(node)
    quotient = infix(node, "/", given.items[0], given.items[1], given.form)
    if node.dtype("A") in INTEGER_DTYPES:
        text = f"floor{quotient.text}" if node.dtype("A").startswith("u") else truncated(quotient.text)
        quotient = Operand(text, quotient.kind)
    return _finished(node, quotient, given)


@fold("Div", since=7)
def _div_contents(node: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None] | None:
    """Of integers only those that are not negative: ONNX truncates, its reference floors."""
    contents = [node.require_constant(position, "an operand") for position in (0, 1)]
    if node.dtype("A") in INTEGER_DTYPES and any(np.any(content < 0) for content in contents):
        return None
    return by_reference(node, outputs)


@generator("Pow", since=(1, 7))
def pow_(node: NodeView) -> Fragment:
    """x ^ y, in the type of x: integers are truncated and wrap; powers beyond 2^53 are as FP64 rounds them."""
    given = two_operands(node)
    power = _power(node, given)
    if node.dtype("X") in INTEGER_DTYPES:
        text = power.text
        whole = text if node.dtype("Y") in INTEGER_DTYPES else truncated(text)
        return finish(node, Operand(wrapped(node.dtype("X"), whole), power.kind), given)
    return finish(node, power, given)


def _power(node: NodeView, given: Operands) -> Operand:
    """Powers that are right for bases of zero as well, which the engine takes for zeros whatever the exponent is."""
    base, exponent = given.items
    constants, exponents = node.constant("X"), node.constant("Y")
    positive = exponents is not None and bool(np.all(exponents > 0))
    if positive or given.form is SCALAR or (constants is not None and not bool(np.any(np.isin(constants, (0, 1, -1))))):
        return infix(node, "^", base, exponent, given.form)
    if exponents is not None and exponents.size == 1:
        value = float(exponents.item())
        if value == 0:
            return Operand(f"({node.full('1', given.form)})", FULL)
        if value < 0:
            root = base if value == -1 else infix(node, "^", base, Operand(literal(-value), SINGLE), given.form)
            return Operand(f"(1 / {root.text})", root.kind)
    matrices = [as_matrix(node, operand, given.form) for operand in given.items]
    return Operand(node.call("elementwise_power", *matrices), FULL)


@generator("Mod", since=10)
def mod(node: NodeView) -> Fragment:
    """Remainder with the divisor's sign (fmod=0) or the dividend's (fmod=1); the engine's %% truncates."""
    if node.dtype("A") not in INTEGER_DTYPES:  # float32, too, has quotients that FP64 rounds to a whole number
        return _full_matrices(node, "exact_mod" if node.attribute("fmod") else "floor_mod")
    if not node.attribute("fmod") and _is_wide_mod(node):
        return _full_matrices(node, "integer_mod")
    given = two_operands(node)
    x, y = given.items
    view = given.form
    quotient = infix(node, "/", x, y, view)
    whole = truncated(quotient.text) if node.attribute("fmod") else f"floor{quotient.text}"
    product_ = infix(node, "*", Operand(whole, quotient.kind), y, view)
    return finish(node, infix(node, "-", replicated(node, x, view), product_, view), given)


def _is_wide_mod(node: NodeView) -> bool:
    """Whether the multiple of the divisor next below the dividend may lie beyond 2^53."""
    spans = [node.integer_span(position) for position in (0, 1)]
    return min(span.low for span in spans) < 0 and sum(span.reach for span in spans) > LIMIT


def _full_matrices(node: NodeView, function: str) -> Fragment:
    """A library function of both operands as matrices of the result's dims."""
    given = operands(node, [0, 1], node.output_dims(), full=True)
    matrices = [as_matrix(node, operand, given.form) for operand in given.items]
    text = node.call(function, *matrices)
    return node.result(in_form(text, given.form), given.form)


def _fold(node: NodeView, operator: str) -> tuple[Operand, Operands]:
    """All inputs combined, and the inputs; of many operands parts get names."""
    given = operands(node, range(node.input_count), node.output_dims())
    # full matrices first: a vector must be a right operand
    order = sorted(given.items, key=lambda operand: operand.kind != FULL)
    combined = order[0]
    for number, operand in enumerate(order[1:]):
        if operator in ("min", "max") and number % 2 and FULL in (combined.kind, operand.kind):
            combined = Operand(extreme(operator, combined.text, operand.text, repeats=True), FULL)
        else:
            combined = infix(node, operator, combined, operand, given.form)
        if number % OPERANDS_TOGETHER == OPERANDS_TOGETHER - 1 and number < len(order) - 2:
            combined = Operand(node.named("part", combined.text), combined.kind)
    return combined, given


def _variadic(node: NodeView, builtin: str) -> Fragment:
    unchanged = _unchanged(node, builtin) if node.input_count == 2 else None
    if unchanged is not None:
        return unchanged
    return finish(node, *_fold(node, builtin))


for _name, _builtin in {**VARIADIC_BUILTINS, "Sum": "+"}.items():
    generator(_name, (1, 6, 8))(partial(_variadic, builtin=_builtin))


@generator("Mean", since=(1, 6, 8))
def mean(node: NodeView) -> Fragment:
    """Mean of any number of inputs."""
    combined, given = _fold(node, "+")
    return finish(node, Operand(f"({combined.text} / {node.input_count})", combined.kind), given)


# --- derivatives -----------------------------------------------------------------------------------------------


_DERIVATIVES: Mapping[str, Callable[[Backward], Sequence[str]]] = {
    "Add": lambda n: n.fitted([lambda: n.grad] * 2),
    "Sub": lambda n: n.fitted([lambda: n.grad, lambda: n.emit("Neg", n.grad)]),
    "Mul": lambda n: n.fitted([lambda: n.times(n.grad, n.node.inputs[1]), lambda: n.times(n.grad, n.x)]),
    "Sum": lambda n: n.fitted([lambda: n.grad] * n.input_count),
    "Mean": lambda n: n.fitted([lambda: n.times(n.grad, 1 / n.input_count)] * n.input_count),
}
for _name, _rule in _DERIVATIVES.items():
    gradient(_name)(_rule)


@gradient("Div")
def _div_gradient(n: Backward) -> Sequence[str]:
    divisor = n.node.inputs[1]
    return n.fitted([
        lambda: n.emit("Div", n.grad, divisor),
        lambda: n.emit("Neg", n.emit("Div", n.times(n.grad, n.out), divisor)),
    ])


@gradient("Mod")
def _mod_gradient(n: Backward) -> Sequence[str]:
    """By the divisor as often as it was taken off."""

    def times() -> str:
        return n.emit("Round", n.emit("Div", n.emit("Sub", n.x, n.out), n.node.inputs[1]))

    return n.fitted([lambda: n.grad, lambda: n.emit("Neg", n.times(n.grad, times()))])


@gradient("Pow", untrained=(1,))
def _pow_gradient(n: Backward) -> Sequence[str]:
    def by_base() -> str:
        exponent = n.retyped(n.node.inputs[1], n.dtype(0), n.dtype(1))
        power = n.emit("Pow", n.x, n.emit("Sub", exponent, n.number(1.0)))
        # x^0 is 1 everywhere, though 0 * 0^-1 is none
        factor = n.emit("Where", n.emit("Equal", exponent, n.number(0.0)), n.number(0.0), n.times(exponent, power))
        return n.times(n.grad, factor)

    def by_exponent() -> str:
        # 0^y is 0 for all y around a positive one
        log = n.emit("Where", n.emit("Equal", n.x, n.number(0.0)), n.number(0.0), n.emit("Log", n.x))
        return n.retyped(n.times(n.grad, n.times(n.out, log)), n.dtype(1), n.dtype(0))

    return n.fitted([by_base, by_exponent])


@gradient("Max", "Min")
def _extreme_gradient(n: Backward) -> Sequence[str]:
    """Equal inputs share the derivative."""
    hits = [n.emit("CastLike", n.emit("Equal", name, n.out), n.out) for name in n.node.inputs]
    share = n.emit("Div", n.grad, n.emit("Sum", *hits))
    return n.fitted([partial(n.times, share, hit) for hit in hits])


# --- sizes -----------------------------------------------------------------------------------------------------


def _of_sizes(operation: Callable[[Dim, Dim], Dim], left: Dim, right: Dim) -> Dim | None:
    # ONNX truncates; of what is not negative floor is the same
    return operation(left, right) if is_non_negative_from_one(left) and is_non_negative(right) and right != 0 else None


def _divided(operation: Callable[[Dim, Dim], Dim]) -> Compute:
    """The rule of a division. What is negative for an axis of no elements, as size - 1, the script refuses then."""
    of_elements = of_pairs(partial(_of_sizes, operation))

    def rule(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
        found = of_elements(node, inputs)
        for dividend in () if found is None else inputs[0].ravel():
            if not is_non_negative(dividend):
                node.assume(dividend, Relation.AT_LEAST, 0, "what is divided")
        return found

    return rule


def _remainders(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    """The rule of Mod. Of fmod=0 also what is negative has a remainder, as (-s) % 4, which completes blocks of 4."""
    found = None if node.attribute("fmod") else of_pairs(_by_quotient)(node, inputs)
    return _divided(modulo)(node, inputs) if found is None else found


def _by_quotient(left: Dim, right: Dim) -> Dim | None:
    """A remainder as what its quotient leaves, so that s + (-s) % 4 is 4 * ((s + 3) %/% 4); None where that may differ.

    DML cuts quotients off towards 0, so what is divided must not be negative.
    """
    if not isinstance(right, int) or right < 1:
        return None
    rest = from_terms({monomial: coefficient for monomial, coefficient in terms(left) if coefficient % right})
    if is_non_negative(rest):
        return rest - right * floor_divide(rest, right)
    rounded = right - 1 - rest
    return rest + right * floor_divide(rounded, right) if is_non_negative(rounded) else None


# before opset 7 broadcasting was another
size_rule("Add", since=7)(of_pairs(lambda left, right: left + right))
size_rule("Sub", since=7)(of_pairs(lambda left, right: left - right))
size_rule("Mul", since=7)(of_pairs(lambda left, right: left * right))
size_rule("Neg", since=6)(lambda node, inputs: np.array(-1 * inputs[0], dtype=object))
size_rule("Div", since=7)(_divided(floor_divide))
size_rule("Mod")(_remainders)
size_rule("Max", since=7)(of_pairs(maximum))
size_rule("Min", since=7)(of_pairs(minimum))


# --- 64-bit integers -------------------------------------------------------------------------------------------


@integer_rule("Add")
def added(node: NodeFacts) -> Computes:
    """Sums, which the engine may add in another order."""
    return Computes(lambda s: Span(s[0].low + s[1].low, s[0].high + s[1].high), is_sum=True)


@integer_rule("Div")
@computed
def quotient_span(_: NodeFacts, spans: Sequence[Span]) -> Span:
    """No larger than the dividend."""
    if min(spans[0].low, spans[1].low) >= 0:
        return Span(0, spans[0].high)
    return symmetric(spans[0].reach)


@integer_rule("Mod")
@computed
def remainder_span(node: NodeFacts, spans: Sequence[Span]) -> Span:
    """No larger than the divisor, whose sign it has, but for fmod."""
    divisor = spans[1]
    if divisor.low > 0 and (spans[0].low >= 0 or not node.attribute("fmod")):
        return Span(0, divisor.high - 1)
    return symmetric(divisor.reach)


@integer_rule("Pow")
@computed
def power_span(node: NodeFacts, spans: Sequence[Span]) -> Span:
    """Powers with an exponent that is known."""
    exponent = node.constant(1)
    if exponent is None or exponent.size == 0 or float(exponent.max()) > 63:
        return UNBOUNDED
    reach = spans[0].reach ** max(int(-(-float(exponent.max()) // 1)), 1)
    return Span(0 if spans[0].low >= 0 else -reach, reach)
