"""Scales and zero points of quantised operators, and numbers rounded to integers as onnxruntime's kernels do it.

These compute in FP32. Where a result lies in the middle between two integers the last bit decides, so every step
is rounded to FP32 here, too: at conversion where the scales are known, else by the script.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.model.protos import integer_range
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.onnx.combining import increased
from onnx_systemds.operators.support.broadcasting import FULL, SINGLE, Operand

_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is known, or the DML operand that stands for it."""

    text: str
    known: float | None = None

    @classmethod
    def of(cls, value: float) -> Number:
        """A known number."""
        return cls(literal(value), value)


class Parameters:
    """The scales and zero points of a node; statements are written that compute what is not known at conversion."""

    def __init__(self, node: NodeView) -> None:
        self.node = node

    def number(self, position: int, default: float = 0.0) -> Number:
        """An input of one element. Raises UnsupportedCase where it has several."""
        if not self.node.has(position):
            return Number.of(default)
        if self.node.size(position) != 1:
            raise UnsupportedCase(f"input {position} holds several scales or zero points, one is needed")
        content = self.node.constant(position)
        if content is not None:
            return Number.of(float(content.ravel()[0]))
        return Number(self.node.scalar(position))

    def combined(self, left: Number, sign: str, right: Number) -> Number:
        """``left sign right`` in FP32."""
        if left.known is not None and right.known is not None and (sign != "/" or right.known != 0):
            return Number.of(float(np.float32(_OPERATIONS[sign](left.known, right.known))))
        return self._computed(f"{left.text} {sign} {right.text}")

    def fused(self, left: Number, right: Number, third: Number) -> Number:
        """``left * right + third``, rounded once."""
        if left.known is not None and right.known is not None and third.known is not None:
            return Number.of(float(np.float32(left.known * right.known + third.known)))
        return self._computed(f"{left.text} * {right.text} + {third.text}")

    def _computed(self, text: str) -> Number:
        return Number(self.node.named("step", self.node.call_on("single_precision", text, single=True)))


def unshifted(text: str, zero: Number) -> str:
    """An operand less its zero point; the operand itself where that is 0."""
    return text if zero.known == 0 else f"({text} - {zero.text})"


def single(node: NodeView, operand: Operand) -> Operand:
    """An operand rounded to FP32."""
    return applied(node, "single_precision", operand)


def applied(node: NodeView, function: str, operand: Operand, *arguments: object) -> Operand:
    """A library function of an operand."""
    return Operand(node.call_on(function, operand.text, *arguments, single=operand.kind == SINGLE), operand.kind)


def saturated(text: str, dtype: str) -> str:
    """Integers within the range of a type."""
    low, high = integer_range(dtype)
    return f"min(max({text}, {literal(low)}), {literal(high)})"


def requantized(node: NodeView, text: str, zero: Number, dtype: str) -> str:
    """A matrix of quotients in FP64 as integers of a type: rounded to FP32, then half to even, then shifted."""
    whole = Operand(node.call("nearest_integer", node.call("single_precision", text)), FULL)
    return saturated(increased(whole, zero.text if zero.known is None else zero.known).text, dtype)
