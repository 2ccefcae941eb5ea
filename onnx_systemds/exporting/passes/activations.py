"""Activations that scripts spell out: Elu, Selu, LeakyRelu, HardSigmoid, HardSwish, Softplus, Tanh and LogSoftmax,
and logarithms of Sigmoid and of cosh.

They are finite where the powers of the formula are beyond the type, which for float32 is at 89 already. onnxruntime
knows the operators for float32 alone, but Tanh and LogSoftmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from onnx_systemds.exporting.graph.nodes import FLOAT, TEXT, Node, Tensor, first_found, made_by, pairs, source_of
from onnx_systemds.exporting.passes.fusing import Fusing, is_number, kept_axes, number_of

_ABOVE, _BELOW = ("Greater", "GreaterOrEqual"), ("Less", "LessOrEqual")


class _Part(NamedTuple):
    """What an activation is on one side of 0: a number times `x`, or times ``exp(x) - 1``."""

    x: Tensor
    positive: bool
    powers: bool
    factor: float


def unlowered(scores: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return what is lowered by its maximum along axes, which no Softmax sees; else the scores themselves."""
    lowered = made_by(scores, "Sub")
    highest = None if lowered is None else made_by(lowered.operand(1), "ReduceMax")
    if lowered is None or highest is None or highest.inputs[0] is not lowered.inputs[0] or kept_axes(highest) != axes:
        return scores
    return lowered.operand()


def log_softmax(fusing: Fusing, node: Node) -> bool:
    """The logarithm of a Softmax, also of one that serves elsewhere: it is finite where float32 holds no such share."""
    made = made_by(node.inputs[0], "Softmax")
    return made is not None and fusing.become(node, "LogSoftmax", made.inputs, **made.attributes)


def normalized_logarithm(fusing: Fusing, node: Node) -> bool:
    """``S - log(sum(exp(S)))`` along axes, also of what is lowered by its maximum."""
    return _normalized(fusing, node, node.operand(0), node.operand(1))


def lowered_by_logarithm(fusing: Fusing, node: Node) -> bool:
    """``S + (-log(sum(exp(S))))``."""
    for scores, other in pairs(node):
        turned = fusing.single(other, "Neg")
        if turned is not None and _normalized(fusing, node, scores, turned.operand()):
            return True
    return False


def _normalized(fusing: Fusing, node: Node, scores: Tensor, total: Tensor) -> bool:
    """Make a node a LogSoftmax of scores if `total` is the logarithm of the sum of their powers."""
    powers = fusing.single(total, "Log", "ReduceSum", "Exp")
    axes = kept_axes(fusing.single(total, "Log", "ReduceSum"))
    if powers is None or powers.inputs[0] is not scores or not axes or scores.dims != node.outputs[0].dims:
        return False
    return fusing.become_along(node, "LogSoftmax", unlowered(scores, axes), axes)


def softplus(fusing: Fusing, node: Node) -> bool:
    """``log(1 + exp(X))``."""
    x = fusing.source(fusing.beside_number(node.inputs[0], "Add", 1.0), "Exp")
    return _fits(fusing, node, x) and fusing.become(node, "Softplus", [x])


def log_sigmoid(fusing: Fusing, node: Node) -> bool:
    """``log(1 / (1 + exp(-X)))``, and in float32 ``log(1 - 1 / (1 + exp(-X)))``.

    onnxruntime's Sigmoid is 0 below -18 in float32 and below -37 in float64.
    """
    rest = made_by(node.inputs[0], "Sub")
    is_rest = rest is not None and is_number(rest.inputs[0], 1.0)
    made = made_by(rest.inputs[1] if rest is not None and is_rest else node.inputs[0], "Sigmoid")
    x = None if made is None else made.operand()
    in_doubles = fusing.builder.dtype == "float64"
    if x is None or x.kind != FLOAT or x.dims != node.outputs[0].dims or (is_rest and in_doubles):
        return False

    step = _steps(fusing, node)
    turned = made_by(x, "Neg")
    power = x if is_rest else step("Neg", x) if turned is None else turned.operand()
    if in_doubles:
        return fusing.become(node, "Neg", [step("Log", step("Add", step("Exp", power), fusing.builder.number(1.0)))])
    return fusing.become(node, "Neg", [step("Softplus", power)])


def log_cosh(fusing: Fusing, node: Node) -> bool:
    """``log(cosh(X))``, also spelled by powers: ``|X| + log(1 + exp(-2 |X|)) - log(2)``."""
    made = fusing.single(node.inputs[0], "Cosh")
    x = _mean_of_powers(fusing, node.inputs[0]) if made is None else made.inputs[0]
    if x is None or not _fits(fusing, node, x):
        return False

    step = _steps(fusing, node)
    size = step("Abs", x)
    rest = step("Softplus", step("Mul", size, fusing.builder.number(-2.0)))
    return fusing.become(node, "Sub", [step("Add", size, rest), fusing.builder.number(math.log(2))])


def _steps(fusing: Fusing, node: Node) -> Callable[..., Tensor]:
    """Return what puts an operator with the dims of a node's result before the node."""
    return lambda op, *inputs: fusing.inserted(node, op, inputs, Tensor(FLOAT, node.outputs[0].dims))


def hyperbolic_tangent(fusing: Fusing, node: Node) -> bool:
    """``(exp(X) - exp(-X)) / (exp(X) + exp(-X))``."""
    difference, total = fusing.single(node.inputs[0], "Sub"), fusing.single(node.inputs[1], "Add")
    if difference is None or total is None:
        return False
    one, other = difference.operand(0), difference.operand(1)
    x = _of_opposite_powers(one, other)
    if x is None or not any(a is one and b is other for a, b in pairs(total)):
        return False
    return fusing.become(node, "Tanh", [x])


def _mean_of_powers(fusing: Fusing, tensor: Tensor | None) -> Tensor | None:
    """Return X of ``(exp(X) + exp(-X)) / 2``, None for anything else."""
    divided = fusing.single(tensor, "Div")
    halved = divided.inputs[0] if divided is not None and is_number(divided.inputs[1], 2.0) else None
    total = fusing.single(fusing.beside_number(tensor, "Mul", 0.5) if halved is None else halved, "Add")
    return first_found(_of_opposite_powers(one, other) for one, other in pairs(total))


def _of_opposite_powers(one: Tensor, other: Tensor) -> Tensor | None:
    """Return X of ``exp(X)`` and ``exp(-X)``, None for anything else."""
    raised = made_by(one, "Exp")
    negated = made_by(source_of(other, "Exp"), "Neg")
    return raised.operand() if raised is not None and negated is not None and negated.inputs == raised.inputs else None


def doubled_sigmoid(fusing: Fusing, node: Node) -> bool:
    """``2 * sigmoid(2 * X) - 1``, which is the hyperbolic tangent."""
    doubled = fusing.source(fusing.beside_number(node.inputs[0], "Mul", 2.0), "Sigmoid")
    x = fusing.beside_number(doubled, "Mul", 2.0)
    if x is None or x.dims != node.outputs[0].dims or not is_number(node.inputs[1], 1.0):
        return False
    return fusing.become(node, "Tanh", [x])


def hard_sigmoid(fusing: Fusing, node: Node) -> bool:
    """``min(max(a * X + b, 0), 1)``."""
    if not _is_from_zero_to(node, 1.0):
        return False
    for line, shift in pairs(fusing.single(node.inputs[0], "Add")):
        offset, (slope, factors) = number_of(shift), _factors(fusing, line)
        if offset is not None and math.isfinite(offset) and len(factors) == 1 and slope and line is not factors[0]:
            x = factors[0]
            if _fits(fusing, node, x):
                return fusing.become(node, "HardSigmoid", [x], alpha=slope, beta=offset)
    return False


def hard_swish(fusing: Fusing, node: Node) -> bool:
    """``X * min(max(X + 3, 0), 6) / 6``, the factors in any order."""
    if not fusing.builder.knows("HardSwish"):
        return False
    divisor = number_of(node.inputs[1]) if node.op == "Div" else None
    parts = [_factors(fusing, tensor) for tensor in (node.inputs if node.op == "Mul" else node.inputs[:1])]
    factor = math.prod(number for number, _ in parts) / (divisor or 1.0)
    factors = [tensor for _, tensors in parts for tensor in tensors]
    if len(factors) != 2 or (node.op == "Div" and not divisor):
        return False
    for x, gate in (factors, factors[::-1]):
        if _fits(fusing, node, x) and math.isclose(factor * _gate(fusing, x, gate), 1 / 6, rel_tol=1e-7):
            fusing.uses[x] -= 1  # once for both
            return fusing.become(node, "HardSwish", [x])
    return False


def _gate(fusing: Fusing, x: Tensor, gate: Tensor) -> float:
    """Return by what ``min(max(X + 3, 0), 6)`` is multiplied; 0 for anything else."""
    hard = fusing.single(gate, "HardSigmoid")
    if hard is not None and hard.inputs[0] is x:
        slope, offset = hard.attributes["alpha"], hard.attributes["beta"]
        fits = isinstance(slope, float) and math.isclose(slope, 1 / 6, rel_tol=1e-7) and offset == 0.5
        return 1 / 6 if fits else 0.0
    limited = fusing.single(gate, "Clip")
    if limited is None or not _is_from_zero_to(limited, 6.0):
        return 0.0
    return 1.0 if fusing.beside_number(limited.inputs[0], "Add", 3.0) is x else 0.0


def _is_from_zero_to(clip: Node, high: float) -> bool:
    """Whether the limits of a Clip are 0 and a number."""
    return [number_of(limit) for limit in clip.inputs[1:]] == [0.0, high]


def leaky_relu(fusing: Fusing, node: Node) -> bool:
    """``max(X, 0.01 * X)``."""
    for x, lowered in pairs(node) if len(node.inputs) == 2 else ():
        slope, factors = _factors(fusing, lowered)
        if factors == [x] and 0 < slope < 1 and _fits(fusing, node, x):
            return fusing.become(node, "LeakyRelu", [x], alpha=slope)
    return False


def rectified(fusing: Fusing, node: Node) -> bool:
    """A number times X where that is positive, and a number times X or ``exp(X) - 1`` elsewhere."""
    for above, below in _sides(fusing, node):
        if above is None or below is None or above.x is not below.x or not above.positive or below.positive:
            continue
        if above.powers or not above.factor or not _fits(fusing, node, above.x):
            continue
        if above.factor == 1:
            return fusing.become(node, "Elu" if below.powers else "LeakyRelu", [above.x], alpha=below.factor)
        if below.powers:
            alpha = below.factor / above.factor
            return fusing.become(node, "Selu", [above.x], alpha=alpha, gamma=above.factor)
    return False


def _fits(fusing: Fusing, node: Node, x: Tensor | None) -> bool:
    """Whether a node may become one of X alone that onnxruntime knows for float32."""
    return fusing.builder.dtype == "float32" and x is not None and x.kind == FLOAT and x.dims == node.outputs[0].dims


def _sides(fusing: Fusing, node: Node) -> Iterator[tuple[_Part | None, _Part | None]]:
    """Yield what a node may be where X is positive, and elsewhere."""
    if node.op == "Add":
        for one, other in pairs(node):
            yield _summand(fusing, one), _summand(fusing, other)
        return
    condition, then, otherwise = node.inputs
    side = _side(condition)
    if side is not None:
        x, positive = side
        sides = _half(fusing, then, x, positive), _half(fusing, otherwise, x, not positive)
        yield sides if positive else sides[::-1]


def _side(condition: Tensor | None) -> tuple[Tensor, bool] | None:
    """Return X and whether a condition is that X is positive, or that it is negative; 0 may be on either side."""
    made = made_by(condition, *_ABOVE, *_BELOW)
    for (x, zero), is_swapped in zip(pairs(made), (False, True)):
        if made is not None and is_number(zero, 0.0):
            return x, (made.op in _ABOVE) != is_swapped
    return None


def _half(fusing: Fusing, tensor: Tensor | None, x: Tensor, positive: bool) -> _Part | None:
    """Return what is chosen on one side of 0."""
    factor, factors = _factors(fusing, tensor)
    return _of(fusing, factors[0], x, positive, factor) if len(factors) == 1 else None


def _of(fusing: Fusing, tensor: Tensor, x: Tensor, positive: bool, factor: float) -> _Part | None:
    if tensor is x:
        return _Part(x, positive, False, factor)
    return _Part(x, positive, True, factor) if _powers(fusing, tensor) is x else None


def _summand(fusing: Fusing, tensor: Tensor | None) -> _Part | None:
    """Return what is 0 on one side of 0: times a boolean, or cut off there."""
    factor, factors = _factors(fusing, tensor)
    if len(factors) == 2:
        for truth, other in (factors, factors[::-1]):
            side = _side(fusing.source(truth, "Cast"))
            if side is not None:
                return _of(fusing, other, *side, factor)
    if len(factors) != 1:
        return None
    only = factors[0]
    relu = fusing.single(only, "Relu")
    if relu is not None:
        return _Part(relu.operand(), True, False, factor)
    x = fusing.beside_number(_powers(fusing, only), "Min", 0.0)
    if x is not None:
        return _Part(x, False, True, factor)
    inner, within = _factors(fusing, fusing.beside_number(only, "Min", 0.0))
    if len(within) != 1 or inner <= 0:
        return None
    raised = _powers(fusing, within[0])
    return _Part(within[0] if raised is None else raised, False, raised is not None, factor * inner)


def _powers(fusing: Fusing, tensor: Tensor | None) -> Tensor | None:
    """Return X of ``exp(X) - 1``, None for anything else."""
    lowered = fusing.single(tensor, "Sub")
    if lowered is None or not is_number(lowered.inputs[1], 1.0):
        return None
    return fusing.source(lowered.inputs[0], "Exp")


def _factors(fusing: Fusing, tensor: Tensor | None) -> tuple[float, list[Tensor]]:
    """Return the known number and the other tensors that a product is made of."""
    number, found, stack = 1.0, [], [tensor]
    while stack:
        factor = stack.pop()
        made = fusing.single(factor, "Mul")
        if made is not None:
            stack += made.inputs
        elif factor is not None:
            known = factor.only_element
            if known is None or factor.kind == TEXT:
                found.append(factor)
            else:
                number *= float(known)
    return (number if math.isfinite(number) else 0.0), found
