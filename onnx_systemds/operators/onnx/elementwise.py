"""Functions of one number, element by element, and what all elementwise operators share: dims, forms, operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from onnx_systemds.correspondence import UNARY_BUILTINS
from onnx_systemds.dml.literals import literal
from onnx_systemds.inference.backward import by_factor, flat
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import Span
from onnx_systemds.inference.registry import batch_rule, fold, generator, gradient, integer_rule, nn_layer, shape_rule
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.onnx.alignment import Aligned
from onnx_systemds.operators.onnx.combining import finish, wrapped
from onnx_systemds.operators.onnx.precision import as_float, stepwise
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned
from onnx_systemds.operators.support.broadcasting import Operand, Operands, broadcast, operands
from onnx_systemds.operators.support.integer_rules import chosen_of_all, computed, read

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
        return (node.tensor(broadcast(node, dims, by_operands=True), dtype),)

    return rule


# --- two inputs ------------------------------------------------------------------------------------------------


def two_operands(node: NodeView) -> Operands:
    """Both inputs in one view; before opset 7 the second one is broadcast by attribute."""
    if node.version < 7:
        return _legacy_operands(node)
    return operands(node, [0, 1], node.output_dims())


def _legacy_start(node: NodeFacts) -> int:
    """The axis of the first input at which the dims of the second one start."""
    axis = node.attribute("axis") if node.attribute("broadcast") else None
    return node.rank(0) - node.rank(1) if axis is None else node.normalize_axis(int(axis), node.rank(0))


def _legacy_operands(node: NodeView) -> Operands:
    """Opset 1 to 6: with broadcast=1 the second input's dims are a run of the first one's, from ``axis`` on."""
    dims, other = node.dims(0), node.dims(1)
    if not node.attribute("broadcast"):
        return operands(node, [0, 1], dims)
    aligned: Dims = (*other, *[1] * (len(dims) - _legacy_start(node) - len(other)))
    return operands(Aligned(node, {1: aligned}), [0, 1], dims)


def binary_of(node: NodeView, combine: Callable[[Operands], Operand], *, source: NodeView | None = None) -> Fragment:
    """A combination of two operands that gives numbers; ``source`` sees the operands in other dims."""
    given = two_operands(node) if source is None else operands(source, [0, 1], node.output_dims())
    return finish(node, combine(given), given)


# --- one input -------------------------------------------------------------------------------------------------


_OF_ONE_INPUT = (*UNARY_BUILTINS, "Neg", "Reciprocal", "Clip", "Round")
shape_rule(*_OF_ONE_INPUT)(same_dims)
batch_rule(*_OF_ONE_INPUT)(mixes_unless_aligned)
fold("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Sqrt", since=6)(by_reference)
fold("Cos", "Sin", since=7)(by_reference)
fold("Sign", since=9)(by_reference)
fold("Clip", "Round", since=11)(by_reference)
integer_rule("Abs")(computed(lambda node, s: Span(0, s[0].reach)))
integer_rule("Neg")(computed(lambda node, s: Span(-s[0].high, -s[0].low)))
integer_rule("Clip")(chosen_of_all)
integer_rule("Sign")(read)


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


def zero_beside(node: NodeView) -> str:
    """0 beside the matrix or the scalar that `unary` computes with."""
    return node.filled(0, SCALAR if is_single(node) else node.wanted_form())


def of_matrix(node: NodeView, function: str, x: str, *arguments: object) -> str:
    """A call of a library function of a matrix for what `unary` computes with, which may be a scalar."""
    return node.call_on(function, x, *arguments, single=is_single(node))


def as_layer(layer: str, fits: Callable[[NodeView], bool] = lambda node: True) -> Callable[[NodeView], Fragment | None]:
    """What writes an operator of one number as a layer, which takes a matrix of any rows and columns."""

    def write(node: NodeView) -> Fragment | None:
        return None if is_single(node) or not fits(node) else unary(node, lambda x: node.layer(layer, x))

    return write


nn_layer("Tanh")(as_layer("tanh"))


def _builtin_of_each(node: NodeView, builtin: str) -> Fragment:
    return unary(node, lambda x: f"{builtin}({x})")


_FIRST = {"Acos": 7, "Asin": 7, "Atan": 7, "Cos": 7, "Sin": 7, "Tan": 7, "Cosh": 9, "Sinh": 9, "Sign": 9}
for _name, _builtin in UNARY_BUILTINS.items():
    # opset 6 removed the attribute consumed_inputs
    if _name not in ("Abs", "Floor", "Ceil"):  # below: one may wrap around, the others jump
        generator(_name, _FIRST.get(_name, (1, 6)))(partial(_builtin_of_each, builtin=_builtin))


@generator("Abs", since=(1, 6))
def absolute(node: NodeView) -> Fragment:
    """The magnitude; the most negative integer of a narrow type stays itself."""
    wraps = node.dtype("X").startswith("int")
    return unary(node, lambda x: wrapped(node.dtype("X"), f"abs({x})") if wraps else f"abs({x})")


@generator("Neg", since=(1, 6))
def neg(node: NodeView) -> Fragment:
    """Negation; the most negative integer of a narrow type stays itself."""
    return unary(node, lambda x: wrapped(node.dtype("X"), f"(-{x})"))


@generator("Reciprocal", since=(1, 6))
def reciprocal(node: NodeView) -> Fragment:
    """1 / x."""
    return unary(node, lambda x: stepwise(node, f"1 / {x}", single=is_single(node)))


@generator("Clip", since=(1, 6, 11))
def clip(node: NodeView) -> Fragment:
    """Limits by attribute, since opset 11 by input; the upper one wins where they cross."""
    low, high = _limit(node, "min"), _limit(node, "max")

    def clipped(x: str) -> str:
        text = x if low is None else f"max({x}, {low})"
        return text if high is None else f"min({text}, {high})"

    return unary(node, clipped)


def _limit(node: NodeView, name: str) -> str | None:
    if node.version < 11:
        limit = node.attribute(name)
        return None if limit is None else literal(limit)
    return node.scalar(name) if node.has(name) else None


@generator("Round", since=11)
def round_11(node: NodeView) -> Fragment:
    """Half to even; the engine's round is half up and loses infinities."""
    return unary(node, lambda x: of_matrix(node, "round_half_even", _as_float(node, x)))


def _as_float(node: NodeView, x: str) -> str:
    return as_float(node, x, single=is_single(node))


def _builtin_that_jumps(node: NodeView, builtin: str) -> Fragment:
    return unary(node, lambda x: f"{builtin}({_as_float(node, x)})")


for _name in ("Ceil", "Floor"):
    generator(_name, (1, 6))(partial(_builtin_that_jumps, builtin=UNARY_BUILTINS[_name]))


# --- derivatives -----------------------------------------------------------------------------------------------


_FACTORS: dict[str, Callable[[Backward], str]] = {
    "Abs": lambda n: n.emit("Sign", n.x),
    "Acos": lambda n: n.emit("Neg", n.inverse_root(n.one_minus(n.squared(n.x)))),
    "Asin": lambda n: n.inverse_root(n.one_minus(n.squared(n.x))),
    "Atan": lambda n: n.emit("Reciprocal", n.one_plus(n.squared(n.x))),
    "Cos": lambda n: n.emit("Neg", n.emit("Sin", n.x)),
    "Cosh": lambda n: n.emit("Sinh", n.x),
    "Exp": lambda n: n.out,
    "Log": lambda n: n.emit("Reciprocal", n.x),
    "Reciprocal": lambda n: n.emit("Neg", n.squared(n.out)),
    "Sin": lambda n: n.emit("Cos", n.x),
    "Sinh": lambda n: n.emit("Cosh", n.x),
    "Sqrt": lambda n: n.emit("Div", n.number(0.5), n.out),
    "Tan": lambda n: n.one_plus(n.squared(n.out)),
    "Tanh": lambda n: n.one_minus(n.squared(n.out)),
}
for _name, _factor in _FACTORS.items():
    gradient(_name)(by_factor(_factor))
gradient("Ceil", "Floor", "Round", "Sign")(flat)


@gradient("Neg")
def _neg_gradient(n: Backward) -> Sequence[str]:
    return [n.emit("Neg", n.grad)]


@gradient("Clip", untrained=(1, 2))
def _clip_gradient(n: Backward) -> Sequence[str]:
    """By a bound the sum of what it holds back."""
    is_kept = n.emit("Equal", n.x, n.out)

    def by_bound(position: int) -> str:
        is_held = n.emit("And", n.emit("Not", is_kept), n.emit("Equal", n.out, n.node.inputs[position]))
        return n.fit(n.where(is_held, n.grad), position)

    return n.needed([lambda: n.where(is_kept, n.grad), lambda: by_bound(1), lambda: by_bound(2)])
