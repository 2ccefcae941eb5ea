"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import plus
from onnx_systemds.engine.safe_forms import counted
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.backward import by_factor
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import Moves, joined, symmetric
from onnx_systemds.inference.registry import batch_rule, fold, generator, gradient, integer_rule, nn_layer, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model.ir import DERIVATIVES
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.alignment import Aligned
from onnx_systemds.operators.onnx.combining import IMAGE_RANK, choice, increased, infix, truncated, wrapped
from onnx_systemds.operators.onnx.elementwise import (
    as_layer,
    binary_of,
    is_single,
    of_matrix,
    same_dims,
    unary,
    zero_beside,
)
from onnx_systemds.operators.onnx.precision import limit_text
from onnx_systemds.operators.onnx.wrapping import may_exceed, wrapped_products
from onnx_systemds.operators.support.batch_rules import mixes_unless_aligned
from onnx_systemds.operators.support.broadcasting import FULL, SINGLE, Operand, Operands, broadcast, operands
from onnx_systemds.operators.support.integer_rules import computed, span_of_products

_CUBIC, _ROOT = 0.044715, math.sqrt(2 / math.pi)
"""Of Gelu by tanh."""
_OF_ONE_INPUT = (
    "Asinh", "Acosh", "Atanh", "Celu", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu",
    "Selu", "Shrink", "Sigmoid", "Softplus", "Softsign", "Swish", "ThresholdedRelu",
)
shape_rule(*_OF_ONE_INPUT)(same_dims)
batch_rule(*_OF_ONE_INPUT, "PRelu")(mixes_unless_aligned)
fold("Relu", since=6)(by_reference)
nn_layer("Relu")(as_layer("relu"))
nn_layer("Sigmoid")(as_layer("sigmoid"))
nn_layer("LeakyRelu")(as_layer("leaky_relu", lambda node: round(float(node.attribute("alpha")), 8) == 0.01))
nn_layer("Gelu")(as_layer("gelu", lambda node: node.attribute("approximate") == "tanh"))
integer_rule("Relu")(lambda node: Moves(is_compared=True, has_zeros=True))
integer_rule("PRelu")(computed(lambda node, s: joined([s[0], span_of_products(s[0], s[1])])))
integer_rule("Shrink")(computed(lambda node, s: symmetric(2 * s[0].reach)))


def by_function(node: NodeView, function: str, *arguments: object) -> Fragment:
    """Apply a library function of one matrix (and further arguments) to the first input."""
    return unary(node, lambda x: of_matrix(node, function, x, *arguments))


for _name, _version, _function in (("Acosh", 9, "area_cosh"), ("Asinh", 9, "area_sinh"), ("Atanh", 9, "area_tanh"),
                                   ("Erf", 9, "erf"), ("Softplus", 1, "softplus")):
    generator(_name, _version)(partial(by_function, function=_function))


def _register(op_type: str, versions: int | Sequence[int], expression: Callable[[NodeView, str], str]) -> None:
    generator(op_type, versions)(lambda node: unary(node, lambda x: expression(node, x)))


def _number(node: NodeView, name: str) -> str:
    return literal(node.attribute(name))


def _plus(node: NodeView, text: str, number: str) -> str:
    """A text plus a number; of images by bias_add."""
    is_image = node.rank(0) >= IMAGE_RANK and not is_single(node)
    return increased(Operand(text, FULL), number).text if is_image else plus(text, number)


def _exponential(node: NodeView, x: str) -> str:
    """exp(x) - 1 of the negative part."""
    return of_matrix(node, "exp_less_one", f"min({x}, 0)")


def _leaky(node: NodeView, x: str) -> str:
    alpha = float(node.attribute("alpha"))
    if 0 <= alpha <= 1:
        return f"max({x}, {literal(alpha)} * {x})"
    return f"max({x}, 0) + {literal(alpha)} * min({x}, 0)"


def _elu(node: NodeView, x: str) -> str:
    if node.attribute("alpha") == 1:
        # exp(x) - 1 between x and x + x^2, as in exp_less_one; above zero all of them are x or more
        return f"min(max({_plus(node, f'exp(min({x}, 0))', '(-1)')}, {x}), {x} * ({_plus(node, x, '1')}))"
    return f"max({x}, 0) + {_number(node, 'alpha')} * {_exponential(node, x)}"


def _celu(node: NodeView, x: str) -> str:
    alpha = _number(node, "alpha")
    if node.attribute("alpha") == 1:
        return _elu(node, x)
    if node.attribute("alpha") > 0:
        return f"max({x}, 0) + {alpha} * {_exponential(node, f'{x} / {alpha}')}"
    return f"max({x}, 0) + min({alpha} * (exp({x} / {alpha}) - 1), 0)"


def _thresholded(node: NodeView, x: str) -> str:
    return counted(f"ifelse({x} > {limit_text(node, node.attribute('alpha'))}, {x}, {zero_beside(node)})")


def _shrink(node: NodeView, x: str) -> str:
    lambd, bias = float(node.attribute("lambd")), float(node.attribute("bias"))
    above = f"{x} - {literal(bias)}" if bias else x
    below = f"{x} + {literal(bias)}" if bias else x
    zero = zero_beside(node)
    # the first condition first: with a negative lambd both may hold
    low, high = limit_text(node, -lambd, below=True), limit_text(node, lambd)
    text = counted(f"ifelse({x} < {low}, {below}, ifelse({x} > {high}, {above}, {zero}))")
    return truncated(text) if node.dtype(0) in INTEGER_DTYPES and not bias.is_integer() else text


# opset 6 removed the attribute consumed_inputs, and gave Selu other defaults
_register("Relu", (1, 6), lambda node, x: f"max({x}, 0)")
_register("Sigmoid", (1, 6), lambda node, x: f"1 / (1 + exp(-{x}))")
_register("Elu", (1, 6), _elu)
_register("Selu", (1, 6), lambda node, x: f"{_number(node, 'gamma')} * ({_elu(node, x)})")
_register("Celu", 12, _celu)
_register("LeakyRelu", (1, 6), _leaky)
_register("ThresholdedRelu", 10, _thresholded)
_register("HardSigmoid", (1, 6),
          lambda node, x: f"max(min({_plus(node, _number(node, 'alpha') + ' * ' + x, _number(node, 'beta'))}, 1), 0)")
# x * HardSigmoid(x); three factors are one operation of the engine
_register("HardSwish", 14, lambda node, x: f"{x} * {1 / 6} * max(min({_plus(node, x, '3')}, 6), 0)")
# x / (1 + |x|); of zeros the engine would divide the number 0 by a matrix full of 1 (zero-beside-filled-matrix)
_register("Softsign", 1, lambda node, x: f"{x} * (1 / (1 + abs({x})))")
# x * tanh(softplus(x)), of which this is what is left without a logarithm
_register("Mish", 18, lambda node, x: f"{x} / (1 + 2 / (exp({x}) * (exp({x}) + 2)))")
_register("Swish", 24, lambda node, x: f"{x} / (1 + exp({literal(-float(node.attribute('alpha')))} * {x}))")
_register("Shrink", 9, _shrink)


def _slope_dims(node: NodeFacts) -> Dims:
    """Dims of PRelu's slopes as they are broadcast: before opset 7 there is one number or one for each channel."""
    slope = node.dims("slope")
    return (*slope, *[1] * (node.rank("X") - 2)) if node.version < 7 and len(slope) == 1 else slope


@shape_rule("PRelu")
def prelu_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of the input, to which the slopes are broadcast, and not the other way round."""
    own, slope = node.dims("X"), _slope_dims(node)
    for back, size in enumerate(reversed(slope), 1):
        if size != 1 and (back > len(own) or own[-back] == 1):
            whole = "its axis of the input" if back <= len(own) else "the input, which has no such axis,"
            node.assume_equal(size, 1, f"axis {len(slope) - back} of the slope", whole)
    return (node.tensor(broadcast(node, {0: node.dims("X"), 1: _slope_dims(node)})),)


@generator("PRelu", since=(1, 6, 7))
def prelu(node: NodeView) -> Fragment:
    """x, and slope * x below zero."""
    source = Aligned(node, {1: _slope_dims(node)})
    slopes = node.constant("slope")
    is_finite = slopes is not None and bool(np.isfinite(slopes).all())
    if node.dtype("X") not in INTEGER_DTYPES and not is_finite:  # zero times them may be NaN
        given = operands(source, [0, 1], node.output_dims())
        x, slope = given.items
        return choice(node, Operand(f"({x.text} < 0)", x.kind), infix(node, "*", x, slope, given.form), x, given.form)

    def combine(given: Operands) -> Operand:
        x, slope = given.items
        below = Operand(f"min({x.text}, 0)", x.kind)
        if may_exceed(node):
            scaled = wrapped_products(node, Operands((below, slope), given.form))
        else:
            scaled = infix(node, "*", below, slope, given.form)
            scaled = Operand(wrapped(node.dtype("X"), scaled.text), scaled.kind)
        return Operand(f"(max({x.text}, 0) + {scaled.text})", SINGLE if x.kind == SINGLE else scaled.kind)

    return binary_of(node, combine, source=source)


@generator("Gelu", since=20)
def gelu(node: NodeView) -> Fragment:
    """x times the normal distribution's probability below x, or its approximation by tanh."""
    if node.attribute("approximate") == "none":
        return by_function(node, "gelu")
    if node.attribute("approximate") != "tanh":
        raise UnsupportedCase(f"Gelu knows the approximations none and tanh, not {node.attribute('approximate')!r}")
    # 0.5 * (1 + tanh(u)) = 1 / (1 + exp(-2u))
    return unary(node, lambda x: f"{x} / (1 + exp(({x} + {_CUBIC} * {x} * {x} * {x}) * ({-2 * _ROOT})))")


MOST_DRAWN = 65_536  # random numbers that are drawn at conversion


@shape_rule("Dropout")
def dropout_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Result and mask are like the input; the mask is boolean since opset 10."""
    mask = "bool" if node.version >= 10 else node.dtype("data")
    return node.tensor(node.dims("data")), node.tensor(node.dims("data"), mask)


@batch_rule("Dropout")
def _dropout_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Random numbers are drawn for all samples at once."""
    return position != 0 or node.has(2) or (node.version < 7 and not node.attribute("is_test"))


@generator("Dropout", since=(1, 6))
def dropout_1(node: NodeView) -> Fragment:
    """Nothing is dropped where is_test is set."""
    if node.attribute("is_test"):
        return kept(node)
    return _dropped(node, literal(node.attribute("ratio")))


@generator("Dropout", since=12)
def dropout_12(node: NodeView) -> Fragment:
    """Ratio and training_mode by input; both may be known only when the model runs."""
    mode, ratio = node.constant("training_mode"), node.constant("ratio")
    is_off = (mode is not None and not mode.any()) or (ratio is not None and not ratio.any())
    if is_off or not node.has("training_mode"):
        return kept(node)
    share = node.scalar("ratio") if node.has("ratio") else "0.5"
    return _dropped(node, share if mode is not None else f"({share} * {node.scalar('training_mode')})")


@generator("Dropout", since=(7, 10))
def kept(node: NodeView) -> Fragment:
    """The input, and a mask of ones: nothing is dropped, as these versions only infer."""
    fragment = node.same_elements() if node.wants(0) else node.fragment()
    if not node.wants(1):
        return fragment
    form = node.wanted_form(1)
    return fragment + node.result(node.filled(1, form), form, 1)


def _dropped(node: NodeView, share: str) -> Fragment:
    """A random share of the elements becomes zero, the others are scaled up."""
    form = node.wanted_form(0) if node.wants(0) else node.wanted_form(1)
    view = View(1, 1) if form is SCALAR else form
    mask = node.named("kept", f"{_drawn(node, view)} >= {share}")
    x = f"as.matrix({node.scalar('data')})" if node.dims("data") == () else node.view("data", view)
    return node.result(f"{x} * {mask} / (1 - {share})", view) + node.result(mask, view, 1)


def _drawn(node: NodeView, view: View) -> str:
    """A uniform random number for each element.

    With a seed and few elements of known number they are numpy's, drawn at conversion: those of ONNX's reference.
    """
    seed, count = node.attribute("seed"), node.size("data")
    if seed is None:
        return f"rand(rows={node.dim(view.rows)}, cols={node.dim(view.cols)}, min=0, max=1)"
    if not isinstance(count, int) or count > MOST_DRAWN:
        return f"rand(rows={node.dim(view.rows)}, cols={node.dim(view.cols)}, min=0, max=1, seed={int(seed)})"
    numbers = np.random.RandomState(int(seed) % 2**32).uniform(0, 1, count)
    return node.constant_matrix(numbers.reshape(view.known), "drawn")


# --- derivatives -----------------------------------------------------------------------------------------------


_FACTORS: dict[str, Callable[[Backward], str]] = {
    "Acosh": lambda n: n.inverse_root(n.emit("Sub", n.squared(n.x), n.number(1.0))),
    "Asinh": lambda n: n.inverse_root(n.one_plus(n.squared(n.x))),
    "Atanh": lambda n: n.emit("Reciprocal", n.one_minus(n.squared(n.x))),
    "Erf": lambda n: n.times(n.emit("Exp", n.emit("Neg", n.squared(n.x))), 2 / math.sqrt(math.pi)),
    "Sigmoid": lambda n: n.times(n.out, n.one_minus(n.out)),
    "Softplus": lambda n: n.emit("Sigmoid", n.x),
    "Softsign": lambda n: n.emit("Reciprocal", n.squared(n.one_plus(n.emit("Abs", n.x)))),
}
for _name, _factor in _FACTORS.items():
    gradient(_name)(by_factor(_factor))


@gradient("Relu")
def _relu_gradient(n: Backward) -> Sequence[str]:
    return [n.emit("ReluGradient", n.out, n.grad, domain=DERIVATIVES)]


@gradient("LeakyRelu")
def _leaky_relu_gradient(n: Backward) -> Sequence[str]:
    falling = n.times(n.grad, float(n.attribute("alpha")))
    return [n.emit("Where", n.emit("Greater", n.x, n.number(0.0)), n.grad, falling)]


@gradient("Elu")
def _elu_gradient(n: Backward) -> Sequence[str]:
    falling = n.times(n.grad, n.emit("Add", n.out, n.number(float(n.attribute("alpha")))))
    return [n.emit("Where", n.emit("Greater", n.x, n.number(0.0)), n.grad, falling)]


@gradient("Celu")
def _celu_gradient(n: Backward) -> Sequence[str]:
    """For a negative alpha, too, for which ONNX's definition by Elu is another function than its words."""
    slope = n.one_plus(n.emit("Div", n.out, n.number(float(n.attribute("alpha")))))
    return [n.emit("Where", n.emit("Greater", n.x, n.number(0.0)), n.grad, n.times(n.grad, slope))]


@gradient("Selu")
def _selu_gradient(n: Backward) -> Sequence[str]:
    alpha, gamma = float(n.attribute("alpha")), float(n.attribute("gamma"))
    falling = n.times(n.grad, n.emit("Add", n.out, n.number(alpha * gamma)))
    return [n.emit("Where", n.emit("Greater", n.x, n.number(0.0)), n.times(n.grad, gamma), falling)]


@gradient("HardSigmoid")
def _hard_sigmoid_gradient(n: Backward) -> Sequence[str]:
    between = n.emit("And", n.emit("Greater", n.out, n.number(0.0)), n.emit("Less", n.out, n.number(1.0)))
    return [n.where(between, n.times(n.grad, float(n.attribute("alpha"))))]


@gradient("HardSwish")
def _hard_swish_gradient(n: Backward) -> Sequence[str]:
    """(2 x + 3) / 6 from -3 to 3, beyond which it is 0 or 1."""
    share = n.emit("Add", n.times(n.x, 1 / 3), n.number(0.5))
    above = n.where(n.emit("Greater", n.x, n.number(-3.0)), n.times(n.grad, share))
    return [n.emit("Where", n.emit("Less", n.x, n.number(3.0)), above, n.grad)]


@gradient("Swish")
def _swish_gradient(n: Backward) -> Sequence[str]:
    """The product rule: x times its share, the sigmoid of alpha x."""
    alpha = float(n.attribute("alpha"))
    share = n.emit("Sigmoid", n.times(n.x, alpha))
    return n.chain(n.emit("Add", share, n.times(n.times(n.out, n.one_minus(share)), alpha)))


@gradient("Shrink")
def _shrink_gradient(n: Backward) -> Sequence[str]:
    limit = float(n.attribute("lambd"))
    outside = n.emit("Or", n.emit("Less", n.x, n.number(-limit)), n.emit("Greater", n.x, n.number(limit)))
    return [n.where(outside, n.grad)]


@gradient("Dropout")
def _dropout_gradient(n: Backward) -> Sequence[str]:
    training = n.constant(2)
    if n.version >= 12 and n.has(2) and (training is None or bool(training.ravel()[0])):
        raise UnsupportedCase("the derivative of a Dropout that trains")
    if n.version < 7 and not n.attribute("is_test"):
        raise UnsupportedCase("the derivative of a Dropout that trains")
    return [n.grad]


@gradient("Gelu")
def _gelu_gradient(n: Backward) -> Sequence[str]:
    """x times the probability that a normal number is below it: the product rule."""
    if n.attribute("approximate") != "tanh":
        return n.chain(n.emit("GeluGradient", n.x, domain=DERIVATIVES))
    square = n.squared(n.x)
    inner = n.times(n.x, n.one_plus(n.times(square, _CUBIC)))
    bend = n.emit("Tanh", n.times(inner, _ROOT))
    below = n.times(n.one_plus(bend), 0.5)
    density = n.times(n.one_minus(n.squared(bend)), n.times(n.one_plus(n.times(square, 3 * _CUBIC)), _ROOT / 2))
    return n.chain(n.emit("Add", below, n.times(n.x, density)))
