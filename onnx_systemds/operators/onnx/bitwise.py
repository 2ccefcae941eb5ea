"""Integers as patterns of bits: BitShift, BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitCast.

The engine's bitwAnd and similar builtins work on 32-bit words in two's complement. A library function splits numbers
that do not fit such a word. Numbers are exact as far as FP64 holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.integer_spans import EXACT, LIMIT, Computes, Span, joined
from onnx_systemds.inference.registry import batch_rule, generator, integer_rule, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.inference.wide_integers import TYPES
from onnx_systemds.model.protos import bit_width, element_name
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.api.layout import in_form
from onnx_systemds.operators.onnx.combining import finish, infix, replicated, wrapped
from onnx_systemds.operators.onnx.elementwise import broadcast_rule, same_dims, unary
from onnx_systemds.operators.onnx.wrapping import WORDS
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned
from onnx_systemds.operators.support.broadcasting import COLUMN, FULL, ROW, SINGLE, Operand, Operands, operands

batch_rule("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor")(mixes_unless_aligned)
integer_rule("BitCast")(lambda node: Computes(lambda spans: EXACT, is_rounded=False))
integer_rule("BitwiseNot")(lambda node: Computes(lambda s: Span(-1 - s[0].high, -1 - s[0].low), largest=LIMIT - 1))


@integer_rule("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def as_many_bits(node: NodeFacts) -> Computes:
    """Numbers of no more bits than the operands have."""

    def span(spans: Sequence[Span]) -> Span:
        reach = 1 << joined(spans).reach.bit_length()
        return Span(0 if min(span.low for span in spans) >= 0 else -reach, reach - 1)

    return Computes(span, largest=LIMIT - 1)


@integer_rule("BitShift")
def shifted(node: NodeFacts) -> Computes:
    """Numbers times powers of two, which are exact."""
    if node.attribute("direction") == "RIGHT":
        return Computes(lambda spans: joined([spans[0], Span(0, 0)]), is_rounded=False)
    return Computes(lambda spans: Span(*TYPES[node.dtype(0)]), is_rounded=False)


# by operator: the builtin for words, and (sum, both) with: result = sum * (x + y) + both * (x and y)
_OPERATIONS = {"BitwiseAnd": ("bitwAnd", (0, 1)), "BitwiseOr": ("bitwOr", (1, -1)), "BitwiseXor": ("bitwXor", (1, -2))}
_WIDE = frozenset(["uint32", "int64", "uint64"])  # types with numbers beyond a signed word of 32 bits


# --- and, or, xor, not -------------------------------------------------------------------------------------------


def _bitwise(node: NodeView, builtin: str, weights: tuple[int, int]) -> Fragment:
    given = operands(node, [0, 1], node.output_dims())
    if node.dtype(0) in _WIDE:
        return _wide(node, given, weights)
    left, right = _vector_last(node, given)
    kind = FULL if FULL in (left.kind, right.kind) else left.kind
    if kind == SINGLE:
        words = [f"as.integer({operand.text})" for operand in (left, right)]
        return finish(node, Operand(f"as.double({builtin}({', '.join(words)}))", SINGLE), given)
    return finish(node, Operand(f"{builtin}({left.text}, {right.text})", kind), given)


def _vector_last(node: NodeView, given: Operands) -> tuple[Operand, Operand]:
    """Both operands, a vector or a single number as the right one."""
    left, right = given.items
    if {left.kind, right.kind} == {ROW, COLUMN}:
        left = replicated(node, left, given.form)
    if right.kind == FULL or left.kind == SINGLE:
        left, right = right, left
    return left, right


def _wide(node: NodeView, given: Operands, weights: tuple[int, int]) -> Fragment:
    """Numbers of two words, by a library function of full matrices."""

    def matrix(operand: Operand) -> str:
        if given.form is SCALAR:
            return f"as.matrix({operand.text})"
        if operand.kind == SINGLE:
            return node.filled(operand.text, given.form)
        return replicated(node, operand, given.form).text

    top = 1 << 32 if node.dtype(0) == "uint64" else 0  # what the upper word's sign stands for
    text = node.call("wide_bits", *map(matrix, given.items), *weights, top)
    return node.result(in_form(text, given.form), given.form)


for _name, (_builtin, _weights) in _OPERATIONS.items():
    generator(_name, 18)(partial(_bitwise, builtin=_builtin, weights=_weights))
    shape_rule(_name)(broadcast_rule())


@generator("BitwiseNot", since=18)
def bitwise_not(node: NodeView) -> Fragment:
    """All bits turned: -1 - x, of unsigned numbers the largest one less x."""
    dtype = node.dtype("X")
    if dtype == "uint64":
        raise UnsupportedCase("BitwiseNot of uint64: small numbers become such as FP64 cannot hold")
    largest = (1 << bit_width(dtype)) - 1 if dtype.startswith("u") else -1
    return unary(node, lambda x: f"{largest} - {x}")


shape_rule("BitwiseNot")(same_dims)
shape_rule("BitShift")(broadcast_rule())


# --- shifts ------------------------------------------------------------------------------------------------------


@generator("BitShift", since=(11, 28))
def bit_shift(node: NodeView) -> Fragment:
    """x * 2^y without the bits that fall out on the left, or floor(x / 2^y); opset 28 adds signed types and
    says what negative amounts and those beyond the width give: nothing but the sign.

    FP64 scales by powers of two exactly, so both are exact even for 64 bits.
    """
    given = operands(node, [0, 1], node.output_dims())
    x, y = given.items
    dtype = node.dtype("X")
    bits = bit_width(dtype)
    amount = y.text
    if not dtype.startswith("u"):
        below = f"as.double({amount} < 0)" if y.kind == SINGLE else f"({amount} < 0)"
        amount = f"{amount} + {2 << bits}.0 * {below}"  # negative amounts shift everything out
    power = Operand(f"(2 ^ min({amount}, {bits}))", y.kind)
    if node.attribute("direction") == "RIGHT":
        quotient = infix(node, "/", x, power, given.form)
        return finish(node, Operand(f"floor{quotient.text}", quotient.kind), given)
    scaled = infix(node, "*", x, power, given.form)
    name = node.named("shifted", scaled.text)
    if dtype == "int64":  # to add the half would round
        turns = node.named("turns", f"{name} / {1 << bits}.0")
        whole = node.named("whole_turns", f"floor({turns})")
        above = f"{turns} - {whole} >= 0.5"
        above = f"as.double({above})" if scaled.kind == SINGLE else f"({above})"
        return finish(node, Operand(f"({name} - {1 << bits}.0 * ({whole} + {above}))", scaled.kind), given)
    half = "" if dtype.startswith("u") else f" + {1 << bits - 1}.0"
    offset = f"({name}{half})" if half else name
    text = f"({name} - {1 << bits}.0 * floor({offset} / {1 << bits}.0))"
    return finish(node, Operand(text, scaled.kind), given)


# --- BitCast -----------------------------------------------------------------------------------------------------


@shape_rule("BitCast")
def bit_cast_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The dims stay, the type is the attribute's."""
    return (node.tensor(node.dims("input"), _target(node)),)


def _target(node: NodeFacts) -> str:
    return element_name(int(node.attribute("to")))


@generator("BitCast", since=26)
def bit_cast(node: NodeView) -> Fragment:
    """Integers of the same width wrap around; those of 32 bits and floats go by a library function.

    A NaN has no pattern of its own in FP64: all of them are taken to be the usual one.
    """
    source, target = node.dtype("input"), _target(node)
    if source == target or (source, target) == ("bool", "uint8"):
        return node.same_elements()
    if source == "float" and target in WORDS:
        return _patterns(node, "float_to_bits", target)
    if source in WORDS and target == "float":
        return _patterns(node, "bits_to_float", target)
    if "double" in (source, target):
        raise UnsupportedCase(
            f"the bits of {source} as {target}: as integers they have 64 bits, of which the engine's numbers hold 53"
        )
    if not {source, target} <= INTEGER_DTYPES or bit_width(source) != bit_width(target) or source.endswith("64"):
        raise UnsupportedCase(
            f"the bits of {source} as {target}: only integers of up to 32 bits and floats are reinterpreted"
        )
    convert: Callable[[str], str] = lambda x: wrapped(target, x)  # noqa: E731
    return unary(node, convert)


def _patterns(node: NodeView, function: str, target: str) -> Fragment:
    form = node.wanted_form()
    x = f"as.matrix({node.scalar('input')})" if form is SCALAR else node.view("input", form)
    text = node.call(function, x)
    if form is SCALAR:
        text = f"as.scalar({text})"
    if target != "uint32":
        return node.result(text, form)
    return node.result(wrapped(target, node.named("bits", text)), form)
