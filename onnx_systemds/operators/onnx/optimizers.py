"""Adagrad, Adam and Momentum of ai.onnx.preview.training: one step for any number of tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.registry import generator, shape_rule
from onnx_systemds.model.ir import TRAINING
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.api.layout import Form

GROUPS = {"Adagrad": 3, "Momentum": 3, "Adam": 4}  # inputs per tensor: itself, its gradient, its accumulators


def tensor_count(node: NodeFacts) -> int:
    """Number of tensors that a node updates. Raises UnsupportedCase when the inputs do not come in full groups."""
    groups = GROUPS[node.node.op_type]
    count, rest = divmod(node.input_count - 2, groups)
    if rest or count < 1:
        raise UnsupportedCase(f"{node.input_count} inputs: two and {groups} for each tensor are needed")
    return count


@shape_rule("Adagrad", "Adam", "Momentum", domain=TRAINING)
def optimizer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The new tensors and the new accumulators, each as the old one."""
    count = tensor_count(node)
    positions = [2 + position for position in range(count)]
    positions += list(range(2 + 2 * count, node.input_count))  # a gradient has no successor
    for position in range(2 + count, node.input_count):
        tensor = 2 + (position - 2) % count
        if node.rank(position) != node.rank(tensor):
            raise UnsupportedCase(f"inputs {tensor} and {position}, of one tensor, have different ranks")
        for axis in range(node.rank(tensor)):
            node.assume_same_size((tensor, axis), (position, axis))
            node.assume_elements(tensor, axis)
    return tuple(Value(node.dtype(position), node.dims(position)) for position in positions)


class _Step:
    """The step of one tensor: its inputs in one form, and its results."""

    def __init__(self, node: NodeView, number: int, count: int) -> None:
        self.node = node
        self.number = number
        self.count = count
        self.form: Form = node.known_form(2 + number)

    def old(self, group: int) -> str:
        """Input of the given group: 0 the tensor, 1 its gradient, further ones its accumulators."""
        position = 2 + group * self.count + self.number
        return self.node.scalar(position) if self.form is SCALAR else self.node.view(position, self.form)

    def gradient(self) -> str:
        """The gradient with that of the regularization."""
        factor = float(self.node.attribute("norm_coefficient"))
        if factor == 0:
            return self.old(1)
        return self.node.named("gradient", f"{literal(factor)} * {self.old(0)} + {self.old(1)}")

    def fragment(self, *results: str) -> Fragment:
        """The new tensor and accumulators."""
        return reduce(Fragment.__add__, (self.node.result(text, self.form, group * self.count + self.number)
                                         for group, text in enumerate(results)))


def _updated(node: NodeView, new: Callable[[_Step, str], tuple[str, ...]]) -> Fragment:
    """All new tensors and accumulators. new: those of a step, by its gradient."""
    count, total = tensor_count(node), Fragment()
    for number in range(count):
        step = _Step(node, number, count)
        total += step.fragment(*new(step, step.gradient()))
    return total


def _number(node: NodeView, name: str) -> str:
    return literal(float(node.attribute(name)))


@generator("Adagrad", since=1, domain=TRAINING)
def adagrad(node: NodeView) -> Fragment:
    """The rate decays with the step's number, and for each element with its squared gradients so far."""
    decay = f"(1 + {node.scalar('T')} * {_number(node, 'decay_factor')})"
    rate = node.named("rate", f"{node.scalar('R')} / {decay}")

    def new(step: _Step, gradient: str) -> tuple[str, ...]:
        squares = node.named("squares", f"{step.old(2)} + {gradient} ^ 2")
        return f"{step.old(0)} - {rate} * {gradient} / (sqrt({squares}) + {_number(node, 'epsilon')})", squares

    return _updated(node, new)


@generator("Adam", since=1, domain=TRAINING)
def adam(node: NodeView) -> Fragment:
    """Means of the gradient and of its square, corrected for their start at zero after the first step."""
    alpha, beta = _number(node, "alpha"), _number(node, "beta")
    time, given = node.scalar("T"), node.scalar("R")
    rate = node.named("rate", given)
    node.write(f"if ({time} > 0) {{\n  {rate} = {given} * sqrt(1 - {beta} ^ {time}) / (1 - {alpha} ^ {time})\n}}")
    keep = 1 - float(node.attribute("norm_coefficient_post"))

    def new(step: _Step, gradient: str) -> tuple[str, ...]:
        mean = node.named("mean", f"{alpha} * {step.old(2)} + (1 - {alpha}) * {gradient}")
        squares = node.named("squares", f"{beta} * {step.old(3)} + (1 - {beta}) * {gradient} ^ 2")
        moved = f"{step.old(0)} - {rate} * {mean} / (sqrt({squares}) + {_number(node, 'epsilon')})"
        return moved if keep == 1 else f"{literal(keep)} * ({moved})", mean, squares

    return _updated(node, new)


@generator("Momentum", since=1, domain=TRAINING)
def momentum(node: NodeView) -> Fragment:
    """The gradient's weight is 1 in the first step (number 0); mode nesterov looks a step ahead."""
    mode = str(node.attribute("mode"))
    if mode not in ("standard", "nesterov"):
        raise UnsupportedCase(f"mode {mode}")
    alpha = _number(node, "alpha")
    weight = node.named("weight", f"ifelse({node.scalar('T')} > 0, {_number(node, 'beta')}, 1.0)")

    def new(step: _Step, gradient: str) -> tuple[str, ...]:
        speed = node.named("speed", f"{alpha} * {step.old(2)} + {weight} * {gradient}")
        change = speed if mode == "standard" else f"({gradient} + {alpha} * {speed})"
        return f"{step.old(0)} - {node.scalar('R')} * {change}", speed

    return _updated(node, new)
