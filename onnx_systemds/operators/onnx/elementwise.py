"""Elementwise arithmetic, comparison and logic, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_systemds.correspondence import (
    COMPARISONS,
    INFIX_OPERATORS,
    UNARY_BUILTINS,
    VARIADIC_BUILTINS,
)
from onnx_systemds.dml.literals import literal
from onnx_systemds.inference.dims import Dims, all_known
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.integer_spans import LIMIT
from onnx_systemds.inference.registry import generator, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES, Value
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import SCALAR
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.api.scope import is_uniform
from onnx_systemds.operators.onnx.alignment import Aligned
from onnx_systemds.operators.onnx.combining import (
    as_matrix,
    extreme,
    finish,
    infix,
    replicated,
    stripped,
    sum_or_difference,
    truncated,
    wrapped,
)
from onnx_systemds.operators.onnx.precision import as_float
from onnx_systemds.operators.onnx.wrapping import may_exceed, wrapped_products
from onnx_systemds.operators.support.broadcasting import FULL, SINGLE, Operand, Operands, broadcast, operands

# --- shapes ----------------------------------------------------------------------------------------------------


def same_dims(node: NodeFacts) -> tuple[Value, ...]:
    """The output is like the first input."""
    return (node.tensor(node.dims(0)),)


def broadcast_rule(dtype: str | None = None) -> Callable[[NodeFacts], tuple[Value, ...]]:
    """The output has the broadcast dims of all inputs."""

    def rule(node: NodeFacts) -> tuple[Value, ...]:
        dims = {position: node.dims(position) for position in range(node.input_count)}
        if node.version < 7 and node.input_count == 2:
            start = _legacy_start(node)
            for axis, dim in enumerate(node.dims(1)):
                if dim != 1 and 0 <= start + axis < node.rank(0):
                    node.assume_same_size((0, start + axis), (1, axis))
            return (node.tensor(node.dims(0), dtype),)
        return (node.tensor(broadcast(node, dims), dtype),)

    return rule


for _name in [*UNARY_BUILTINS, "Neg", "Reciprocal", "Relu", "Sigmoid", "Softplus", "Softsign", "Elu", "Selu", "Celu",
              "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Clip", "Round", "Erf", "Not", "Gelu",
              "Mish", "Asinh", "Acosh", "Atanh", "Shrink", "Swish"]:  # fmt: skip
    shape_rule(_name)(same_dims)
for _name in [*INFIX_OPERATORS, *VARIADIC_BUILTINS, "Pow", "Mod", "Mean", "Sum", "PRelu", "BitShift"]:
    shape_rule(_name)(broadcast_rule())
for _name in [*COMPARISONS, "And", "Or", "Xor"]:
    shape_rule(_name)(broadcast_rule("bool"))
for _name in ["IsNaN", "IsInf"]:
    shape_rule(_name)(lambda node: (node.tensor(node.dims(0), "bool"),))


# --- one input -------------------------------------------------------------------------------------------------


def is_single(node: NodeView) -> bool:
    """Whether `unary` computes with a scalar."""
    return node.wanted_form() is SCALAR or node.size(0) == 1


def unary(node: NodeView, expression: Callable[[str], str], *, logical: bool = False) -> Fragment:
    """Apply an expression to the input in the form in which the output is wanted."""
    form = node.wanted_form()
    if form is SCALAR or is_single(node):
        text = expression(node.scalar(0))
        return node.result(f"as.double({text})" if logical else text, SCALAR)
    return node.result(expression(node.view(0, form)), form)


def _register_unary(op_type: str, builtin: str, versions: Sequence[int]) -> None:
    def generate(node: NodeView) -> Fragment:
        return unary(node, lambda x: f"{builtin}({x})")

    generate.__name__ = op_type.lower()
    generate.__doc__ = f"{op_type} is DML's {builtin}."
    for since in versions:
        generator(op_type, since)(generate)


_FIRST = {"Acos": 7, "Asin": 7, "Atan": 7, "Cos": 7, "Sin": 7, "Tan": 7, "Cosh": 9, "Sinh": 9, "Sign": 9}
for _name, _builtin in UNARY_BUILTINS.items():
    # opset 6 removed the attribute consumed_inputs
    if _name not in ("Floor", "Ceil"):  # below, as they jump
        _register_unary(_name, _builtin, [_FIRST[_name]] if _name in _FIRST else [1, 6])


@generator("Neg", since=1)
@generator("Neg", since=6)
def neg(node: NodeView) -> Fragment:
    """Negation; the most negative integer of a narrow type stays itself."""
    return unary(node, lambda x: stripped(wrapped(node.dtype(0), f"(-{x})")))


@generator("Reciprocal", since=1)
@generator("Reciprocal", since=6)
def reciprocal(node: NodeView) -> Fragment:
    """1 / x."""
    return unary(node, lambda x: f"1 / {x}")


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


# --- two and more inputs ---------------------------------------------------------------------------------------


def two_operands(node: NodeView) -> Operands:
    """Both inputs in one view; before opset 7 the second one is broadcast by attribute."""
    if node.version < 7:
        return _legacy_operands(node)
    return operands(node, [0, 1], node.output_dims())


def _legacy_start(node: NodeFacts) -> int:
    """The axis of the first input at which the dims of the second one start."""
    if node.node.op_type == "PRelu" and node.rank(0) > 1:
        return 1
    axis = node.attribute("axis") if node.attribute("broadcast") else None
    return node.rank(0) - node.rank(1) if axis is None else node.normalize_axis(int(axis), node.rank(0))


def _legacy_operands(node: NodeView) -> Operands:
    """Opset 1 to 6: with broadcast=1 the second input's dims are a run of the first one's, from ``axis`` on."""
    dims, other = node.dims(0), node.dims(1)
    if not node.attribute("broadcast"):
        return operands(node, [0, 1], dims)
    aligned: Dims = (*other, *[1] * (len(dims) - _legacy_start(node) - len(other)))
    return operands(Aligned(node, {1: aligned}), [0, 1], dims)


def _times_one(node: NodeView, positions: Sequence[int]) -> Fragment | None:
    """The other input as it is, where one of ``positions`` holds ones alone and adds no axes; else None."""
    for position in positions:
        content = node.constant(position)
        is_one = content is not None and content.size > 0 and is_uniform(content) and content.flat[0] == 1
        if is_one and node.dims(1 - position) == node.output_dims():
            return node.same_elements(1 - position)
    return None


def binary(node: NodeView, operator: str, *, logical: bool = False) -> Fragment:
    """An infix operator of the engine."""
    kept = _times_one(node, (1, 0)) if operator == "*" else None
    if kept is not None:
        return kept
    given = two_operands(node)
    if operator == "*" and may_exceed(node):
        return finish(node, wrapped_products(node, given), given)
    if operator in ("+", "-"):
        combined = sum_or_difference(node, operator, given)
    else:
        combined = infix(node, operator, given.items[0], given.items[1], given.form)
    if logical:
        return finish(node, combined, given, logical=True)
    return finish(node, Operand(wrapped(node.output_dtype(), combined.text), combined.kind), given)


def _register_binary(op_type: str, operator: str, versions: Sequence[int], logical: bool) -> None:
    def generate(node: NodeView) -> Fragment:
        return binary(node, operator, logical=logical)

    generate.__name__ = op_type.lower()
    generate.__doc__ = f"{op_type} is DML's {operator}."
    for since in versions:
        generator(op_type, since)(generate)


for _name in ["Add", "Sub", "Mul"]:
    _register_binary(_name, INFIX_OPERATORS[_name], [1, 6, 7], logical=False)
_COMPARISON_VERSIONS = {"Equal": [1, 7], "Greater": [1, 7], "Less": [1, 7], "GreaterOrEqual": [12], "LessOrEqual": [12]}
for _name, _operator in COMPARISONS.items():
    _register_binary(_name, _operator, _COMPARISON_VERSIONS[_name], logical=True)


@generator("Div", since=1)
@generator("Div", since=6)
@generator("Div", since=7)
def div(node: NodeView) -> Fragment:
    """Division; of integers truncated towards zero."""
    kept = _times_one(node, (1,))
    if kept is not None:
        return kept
    given = two_operands(node)
    quotient = infix(node, "/", given.items[0], given.items[1], given.form)
    if node.dtype(0) in INTEGER_DTYPES:
        text = quotient.text
        if node.dtype(0).startswith("u"):
            return finish(node, Operand(f"floor{text}", quotient.kind), given)
        return finish(node, Operand(truncated(text), quotient.kind), given)
    return finish(node, quotient, given)


@generator("And", since=1)
@generator("And", since=7)
def and_(node: NodeView) -> Fragment:
    """Logical and of 0 and 1: their product (the engine's & is wrong with a scalar)."""
    return binary_of(node, lambda given: infix(node, "*", given.items[0], given.items[1], given.form))


@generator("Or", since=1)
@generator("Or", since=7)
def or_(node: NodeView) -> Fragment:
    """Logical or of 0 and 1: their maximum."""
    return binary_of(node, lambda given: infix(node, "max", given.items[0], given.items[1], given.form))


@generator("Xor", since=1)
@generator("Xor", since=7)
def xor(node: NodeView) -> Fragment:
    """Logical exclusive or of 0 and 1: they differ."""

    def combine(given: Operands) -> Operand:
        equal = infix(node, "==", given.items[0], given.items[1], given.form)
        return Operand(f"(1 - as.double{equal.text})" if given.form is SCALAR else f"(1 - {equal.text})", equal.kind)

    return binary_of(node, combine)


def binary_of(
    node: NodeView, combine: Callable[[Operands], Operand], *, source: NodeView | None = None
) -> Fragment:
    """A combination of two operands that gives numbers; ``source`` sees the operands in other dims."""
    given = two_operands(node) if source is None else operands(source, [0, 1], node.output_dims())
    return finish(node, combine(given), given)


@generator("Pow", since=1)
@generator("Pow", since=7)
def pow_(node: NodeView) -> Fragment:
    """x ^ y, in the type of x: integers are truncated and wrap; powers beyond 2^53 are as FP64 rounds them."""
    given = two_operands(node)
    power = _power(node, given)
    if node.dtype(0) in INTEGER_DTYPES:
        text = power.text
        whole = text if node.dtype(1) in INTEGER_DTYPES else truncated(text)
        return finish(node, Operand(wrapped(node.dtype(0), whole), power.kind), given)
    return finish(node, power, given)


def _power(node: NodeView, given: Operands) -> Operand:
    """Powers that are right for bases of zero as well, which the engine takes for zeros whatever the exponent is."""
    base, exponent = given.items
    constants, exponents = node.constant(0), node.constant(1)
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
    divisor = node.constant(1)
    finite = node.dtype(0) in INTEGER_DTYPES or (divisor is not None and bool(np.all(np.abs(divisor) < np.inf)))
    if not finite:
        return _mod_of_infinities(node)
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


def _mod_of_infinities(node: NodeView) -> Fragment:
    """Remainders of floats by divisors that may be infinite."""
    return _full_matrices(node, "trunc_mod" if node.attribute("fmod") else "floor_mod")


def _full_matrices(node: NodeView, function: str) -> Fragment:
    """A library function of both operands as matrices of the result's dims."""
    given = operands(node, [0, 1], node.output_dims(), full=True)
    matrices = [as_matrix(node, operand, given.form) for operand in given.items]
    text = node.call(function, *matrices)
    return node.result(f"as.scalar({text})" if given.form is SCALAR else text, given.form)


def _fold(node: NodeView, operator: str) -> tuple[Operand, Operands]:
    given = operands(node, range(node.input_count), node.output_dims())
    # full matrices first: a vector must be a right operand
    order = sorted(given.items, key=lambda operand: operand.kind != FULL)
    combined = order[0]
    for number, operand in enumerate(order[1:]):
        if operator in ("min", "max") and number % 2 and FULL in (combined.kind, operand.kind):
            combined = Operand(extreme(operator, combined.text, operand.text, repeats=True), FULL)
        else:
            combined = infix(node, operator, combined, operand, given.form)
    return combined, given


def _register_variadic(op_type: str, builtin: str) -> None:
    def generate(node: NodeView) -> Fragment:
        combined, given = _fold(node, builtin)
        return finish(node, combined, given)

    generate.__name__ = op_type.lower()
    generate.__doc__ = f"{op_type} of any number of inputs."
    for since in (1, 6, 8):
        generator(op_type, since)(generate)


for _name, _builtin in VARIADIC_BUILTINS.items():
    _register_variadic(_name, _builtin)
_register_variadic("Sum", "+")


@generator("Mean", since=1)
@generator("Mean", since=6)
@generator("Mean", since=8)
def mean(node: NodeView) -> Fragment:
    """Mean of any number of inputs."""
    combined, given = _fold(node, "+")
    return finish(node, Operand(f"({combined.text} / {node.input_count})", combined.kind), given)


@shape_rule("Where")
def where_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Broadcast dims of all three, dtype of the branches."""
    return (node.tensor(broadcast(node, {position: node.dims(position) for position in range(3)}), node.dtype(1)),)


@generator("Where", since=9)
def where(node: NodeView) -> Fragment:
    """ifelse takes full matrices and scalars only; one condition for all elements of unknown dims is an if."""
    given = operands(node, [0, 1, 2], node.output_dims(), full=True)
    condition, *branches = given.items
    chosen, other = (one.text if one.kind == FULL else node.filled(one.text, given.form) for one in branches)
    true = f"{condition.text} != 0" if condition.kind == SINGLE else condition.text
    if condition.kind == FULL and node.constant(0) is None:
        true += " > 0"  # it takes a matrix filled with a scalar of the run for one without zeros
    if condition.kind == SINGLE and given.form is not SCALAR and not all_known(node.output_dims()):
        # of ifelse the engine takes the dims for 0 x 0, and of a mask of one row of unknown length the first operand
        name = node.temporary("chosen")
        lines = [f"if ({true}) {{", f"  {name} = {chosen}", "} else {", f"  {name} = {other}", "}"]
        return node.result(name, given.form, before=["\n".join(lines)])
    return finish(node, Operand(f"ifelse({true}, {chosen}, {other})", FULL if given.form else SINGLE), given)


@generator("Clip", since=1)
@generator("Clip", since=6)
def clip_1(node: NodeView) -> Fragment:
    """Limits by attribute."""
    low, high = node.attribute("min"), node.attribute("max")
    return unary(node, lambda x: _clipped(x, None if low is None else literal(low),
                                          None if high is None else literal(high)))


@generator("Clip", since=11)
def clip_11(node: NodeView) -> Fragment:
    """Limits by input; the upper one wins where they cross."""
    low = node.scalar(1) if node.has(1) else None
    high = node.scalar(2) if node.has(2) else None
    return unary(node, lambda x: _clipped(x, low, high))


def _clipped(x: str, low: str | None, high: str | None) -> str:
    text = x if low is None else f"max({x}, {low})"
    return text if high is None else f"min({text}, {high})"


@generator("Round", since=11)
def round_11(node: NodeView) -> Fragment:
    """Half to even; the engine's round is half up and loses infinities."""
    if is_single(node):
        return unary(node, lambda x: f"as.scalar({node.call('round_half_even', f'as.matrix({_as_float(node, x)})')})")
    return unary(node, lambda x: node.call("round_half_even", _as_float(node, x)))


def _as_float(node: NodeView, x: str) -> str:
    return as_float(node, x, single=is_single(node))


@generator("Floor", since=1)
@generator("Floor", since=6)
def floor(node: NodeView) -> Fragment:
    """Floor is DML's floor."""
    return unary(node, lambda x: f"floor({_as_float(node, x)})")


@generator("Ceil", since=1)
@generator("Ceil", since=6)
def ceil(node: NodeView) -> Fragment:
    """Ceil is DML's ceil."""
    return unary(node, lambda x: f"ceil({_as_float(node, x)})")
