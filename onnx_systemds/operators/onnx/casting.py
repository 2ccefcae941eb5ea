"""Cast and CastLike: rounding, saturation, NaN rules of every element type.

DML computes in FP64. A cast to a type that holds every number of the source is nothing at all; one to a narrower
type rounds. Of 64-bit integers the engine's matrices hold 53 bits, so casts from those to double are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import EXACT, UNBOUNDED, Computes, IntegerUse, Moves, Reads, Span, symmetric
from onnx_systemds.inference.registry import batch_rule, fold, generator, gradient, integer_rule, shape_rule, size_rule
from onnx_systemds.inference.values import INTEGER_DTYPES, Elements
from onnx_systemds.inference.wide_integers import TYPES
from onnx_systemds.model.ir import Array
from onnx_systemds.model.protos import element_name, integer_range
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.onnx.activation import by_function
from onnx_systemds.operators.onnx.combining import truncated, wrapped
from onnx_systemds.operators.onnx.elementwise import is_single, of_matrix, unary
from onnx_systemds.operators.onnx.precision import as_float, is_computed
from onnx_systemds.operators.onnx.text_casting import number_to_text, text_to_number
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned

batch_rule("Cast")(mixes_unless_aligned)


@integer_rule("Cast")
def cast_integers(node: NodeFacts) -> IntegerUse:
    """The same numbers, but for narrower integers, which wrap."""
    source, target = node.dtype(0), node.values[node.node.outputs[0]].dtype
    if source == target:
        return Moves()
    if target not in TYPES:
        return Reads() if "float" in target or target in ("double", "bool") else Computes(lambda spans: EXACT)
    if source in TYPES or source == "bool":
        return Computes(lambda spans: spans[0], is_rounded=False)
    if source == "string":
        return Computes(lambda spans: UNBOUNDED)
    span = symmetric(2**32) if "int" in source else Span(*TYPES[target])
    return Computes(lambda spans: span, is_rounded=False)


@dataclass(frozen=True)
class FloatFormat:
    """A floating-point type: significant bits, smallest normal exponent, largest number, what lies beyond it.

    beyond: an infinity, NaN, or the largest number where the type has neither.
    always: whether casts saturate by default (float8 and smaller).
    """

    bits: int
    smallest: int
    largest: float
    beyond: float
    always: bool = False

    @property
    def finest(self) -> int:
        """Exponent of the smallest number above zero."""
        return self.smallest - self.bits + 1

    def rounding(self, *, saturates: bool = False) -> tuple[object, ...]:
        """The arguments of the library function round_to_float after the matrix; ``saturates``: where casts may."""
        beyond = self.largest if saturates and self.always else self.beyond
        return self.bits, self.smallest, literal(self.largest), literal(beyond)


_INF, _NAN = float("inf"), float("nan")
FLOAT_FORMATS = {
    "double": FloatFormat(53, -1022, 1.7976931348623157e308, _INF),
    "float": FloatFormat(24, -126, 3.4028234663852886e38, _INF),
    "float16": FloatFormat(11, -14, 65504.0, _INF),
    "bfloat16": FloatFormat(8, -126, 3.3895313892515355e38, _INF),
    "float8e4m3fn": FloatFormat(4, -6, 448.0, _NAN, always=True),
    "float8e4m3fnuz": FloatFormat(4, -7, 240.0, _NAN, always=True),
    "float8e5m2": FloatFormat(3, -14, 57344.0, _INF, always=True),
    "float8e5m2fnuz": FloatFormat(3, -15, 57344.0, _NAN, always=True),
    "float6e2m3": FloatFormat(4, 0, 7.5, 7.5, always=True),
    "float6e3m2": FloatFormat(3, -2, 28.0, 28.0, always=True),
    "float4e2m1": FloatFormat(2, 0, 6.0, 6.0, always=True),
}
_POWERS = "float8e8m0"  # holds powers of two only
_INFINITE = 2**52  # the integer for infinities, of which none is defined: one that sums and comparisons can go on with
NO_NAN = frozenset(["float6e2m3", "float6e3m2", "float4e2m1"])
_NEAREST = frozenset(["int4", "uint4", "int2", "uint2"])  # integers to which fractions are rounded, not cut off


def target_dtype(node: NodeFacts) -> str:
    """The element type to cast to; before opset 6 its name, later its number. Raises UnsupportedCase."""
    to = node.attribute("to")
    if isinstance(to, str):
        return to.lower()
    try:
        return element_name(int(to))
    except ValueError:
        raise UnsupportedCase(f"element type {to} is unknown") from None


@shape_rule("Cast")
def cast_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The dims stay."""
    return (node.tensor(node.dims("input"), target_dtype(node)),)


def needs_rounding(source: str, target: str) -> bool:
    """Whether the floating-point type ``target`` lacks numbers of ``source``."""
    goal = FLOAT_FORMATS[target]
    if source == "bool":
        return False
    if source in INTEGER_DTYPES:
        low, high = integer_range(source)
        return target != "double" and max(-low, high) > min(2**goal.bits, goal.largest)
    if source == _POWERS:
        return target not in ("float", "double", "bfloat16")
    own = FLOAT_FORMATS[source]
    if target == "double":
        return False
    fits = own.bits <= goal.bits and own.finest >= goal.finest and own.largest <= goal.largest
    has_infinities = own.beyond == _INF and goal.beyond != _INF
    return not fits or has_infinities or (target in NO_NAN and source not in NO_NAN)


def rounded(node: NodeView, target: str, saturate: bool) -> Fragment:
    """The first input rounded to a floating-point type."""
    if target == "float" and node.dtype("input") in INTEGER_DTYPES:
        return by_function(node, "single_precision")
    rounding = FLOAT_FORMATS[target].rounding(saturates=saturate)
    if target not in NO_NAN:
        return by_function(node, "round_to_float", *rounding)
    form = SCALAR if is_single(node) else node.wanted_form()

    def number(x: str) -> str:
        return f"ifelse({node.mask(f'{x} != {x}', form)}, {node.filled(0, form)}, {x})"

    return unary(node, lambda x: of_matrix(node, "round_to_float", number(x), *rounding))


def round_text(node: NodeView, dtype: str, text: str) -> str:
    """A matrix computed in a type of 16 bits, rounded to it; of other types as it is."""
    if dtype not in ("float16", "bfloat16"):
        return text
    return node.call("round_to_float", text, *FLOAT_FORMATS[dtype].rounding())


def single_text(node: NodeView, text: str) -> str:
    """A matrix rounded to single precision."""
    return node.call("round_to_float", text, *FLOAT_FORMATS["float"].rounding())


def _power(node: NodeView) -> Fragment:
    """To powers of two; zero and what is too small saturate to 2^-127 or become NaN."""
    mode = node.attribute("round_mode") or "up"
    limits = {"up": 1, "nearest": 1.4999999999999998, "down": 2}
    if mode not in limits:
        raise UnsupportedCase(f"round_mode {mode!r} is none of up, down, nearest")
    saturate = bool(node.attribute("saturate"))
    beyond, below = (literal(2.0**127), literal(2.0**-127)) if saturate else ("NaN", "NaN")
    return by_function(node, "round_to_power", limits[mode], beyond, below)


def _to_integer(node: NodeView, source: str, target: str) -> Fragment:
    """Fractions are cut off, to few bits rounded to the nearest; integers that do not fit lose their higher bits."""
    if source == "bool":
        return node.same_elements()
    if source in INTEGER_DTYPES:
        (low, high), (least, most) = integer_range(source), integer_range(target)
        if least <= low and high <= most:
            return node.same_elements()
        if target in ("int64", "uint64"):  # the script looks at those that would become others
            return unary(node, lambda x: x)
        return unary(node, lambda x: wrapped(target, x))

    def whole(x: str) -> str:
        if is_computed(node):
            x = node.named("float", as_float(node, x, single=is_single(node)))
        if node.is_checked():
            x = node.named("float", x)
            return f"ifelse(abs({x}) == Inf, sign({x}) * {_INFINITE}, {truncated(x)})"
        if target in _NEAREST:
            return wrapped(target, node.named("nearest", of_matrix(node, "nearest_integer", x)))
        # out of range is undefined for floats: the narrow types wrap as numpy does
        is_wide = target in ("int32", "uint32", "int64", "uint64")
        return truncated(x) if is_wide else wrapped(target, truncated(x))

    return unary(node, whole)


def _text(node: NodeView, source: str, target: str) -> Fragment:
    """From or to text; numbers are rounded to their type on the way."""
    number = source if target == "string" else target
    if number in ("bool", "double") or number in INTEGER_DTYPES:
        rounding: tuple[object, ...] = ()
    elif number in FLOAT_FORMATS and number not in NO_NAN:
        rounding = FLOAT_FORMATS[number].rounding(saturates=node.attribute("saturate") != 0)
    else:
        raise UnsupportedCase(f"a cast of {source} to {target}")
    return number_to_text(node, rounding) if target == "string" else text_to_number(node, target, rounding)


@generator("Cast", since=(1, 6, 9, 13, 19, 24))
def cast(node: NodeView) -> Fragment:
    """To another element type; since opset 19 with saturation, since 24 with a rounding mode for float8e8m0."""
    source, target = node.dtype("input"), target_dtype(node)
    if source != target and "string" in (source, target):
        return _text(node, source, target)
    for dtype in (source, target):
        if dtype != "bool" and dtype not in INTEGER_DTYPES and dtype not in FLOAT_FORMATS and dtype != _POWERS:
            raise UnsupportedCase(f"a cast of {source} to {target}: the engine's matrices hold real numbers only")
    if source == target:
        return node.same_elements()
    if target == "bool":
        return unary(node, lambda x: f"{x} != 0", logical=True)
    if target in INTEGER_DTYPES:
        return _to_integer(node, source, target)
    if target == _POWERS:
        return _power(node)
    if not needs_rounding(source, target) or _is_held(node, target):
        return node.same_elements()
    return rounded(node, target, node.attribute("saturate") != 0)


def _is_held(node: NodeView, target: str) -> bool:
    """Whether the input holds 64-bit integers that are known to be small enough, as zeros and ones of OneHot are."""
    reach, goal = node.reach("input"), FLOAT_FORMATS[target]
    return reach is not None and reach <= min(2**goal.bits, goal.largest)


@fold("Cast", since=9)
def _cast_contents(node: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None] | None:
    """Numbers only: ONNX's reference takes any string but "" for true, and cuts off what is to be rounded."""
    source, target = node.dtype("input"), outputs[0].dtype
    is_other = "string" in (source, target) or (target in _NEAREST and source not in INTEGER_DTYPES)
    return None if is_other else by_reference(node, outputs)


@size_rule("Cast", moves=True)
def _cast_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    return inputs[0] if target_dtype(node) in ("int32", "int64", "uint32", "uint64") else None


@gradient("Cast", "CastLike")
def _cast_gradient(n: Backward) -> Sequence[str]:
    """The numbers of the derivative as they are: what the type of x does not hold is no less one."""
    return [n.retyped(n.grad, n.dtype(0))]
