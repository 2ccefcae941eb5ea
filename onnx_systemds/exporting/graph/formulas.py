"""Formulas as Python writes them: operators on a `Number` make nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

import numpy as np

from onnx_systemds.exporting.graph.nodes import Tensor
from onnx_systemds.exporting.graph.operators import Operators

Operand = Union["Number", float]


@dataclass(frozen=True, eq=False, slots=True)
class Number:
    """A tensor in a formula. What Python's numbers become beside it are constants of its kind."""

    g: Operators
    tensor: Tensor

    def of(self, value: Operand) -> Number:
        """Return a number of Python as a constant of the same kind, any other as it is."""
        return value if isinstance(value, Number) else self._made(self.g.constant(np.float64(value), self.tensor.kind))

    def _made(self, tensor: Tensor) -> Number:
        return Number(self.g, tensor)

    def _with(self, op: str, other: Operand) -> Number:
        return self._made(self.g.binary(op, self.tensor, self.of(other).tensor))

    def apply(self, op: str) -> Number:
        """Return what an operator of one input gives."""
        return self._made(self.g.unary(op, self.tensor))

    def __add__(self, other: Operand) -> Number:
        return self._with("Add", other)

    def __radd__(self, other: float) -> Number:
        return self.of(other) + self

    def __sub__(self, other: Operand) -> Number:
        return self._with("Sub", other)

    def __rsub__(self, other: float) -> Number:
        return self.of(other) - self

    def __mul__(self, other: Operand) -> Number:
        return self._with("Mul", other)

    def __rmul__(self, other: float) -> Number:
        return self.of(other) * self

    def __truediv__(self, other: Operand) -> Number:
        return self._with("Div", other)

    def __rtruediv__(self, other: float) -> Number:
        return self.of(other) / self

    def __pow__(self, other: Operand) -> Number:
        return self._with("Pow", other)

    def __and__(self, other: Number) -> Number:
        return self._with("And", other)

    def __lt__(self, other: Operand) -> Number:
        return self._with("Less", other)

    def __le__(self, other: Operand) -> Number:
        return self._with("LessOrEqual", other)

    def __gt__(self, other: Operand) -> Number:
        return self._with("Greater", other)

    def __ge__(self, other: Operand) -> Number:
        return self._with("GreaterOrEqual", other)

    def __neg__(self) -> Number:
        return self.apply("Neg")

    def __abs__(self) -> Number:
        return self.apply("Abs")

    def equals(self, other: Operand) -> Number:
        """Return whether it is equal to another number; `==` compares Python's objects."""
        return self._with("Equal", other)

    def at_least(self, other: Operand) -> Number:
        """Return the larger of both."""
        return self._with("Max", other)

    def at_most(self, other: Operand) -> Number:
        """Return the smaller of both."""
        return self._with("Min", other)

    def exp(self) -> Number:
        """Return the power of e."""
        return self.apply("Exp")

    def log(self) -> Number:
        """Return the natural logarithm."""
        return self.apply("Log")

    def root(self) -> Number:
        """Return the square root."""
        return self.apply("Sqrt")

    def sign(self) -> Number:
        """Return -1, 0 or 1."""
        return self.apply("Sign")


def where(condition: Number, a: Operand, b: Operand) -> Number:
    """Return `a` where the condition holds, else `b`; one of them is no number of Python."""
    known = a if isinstance(a, Number) else b
    assert isinstance(known, Number)
    return Number(known.g, known.g.where(condition.tensor, known.of(a).tensor, known.of(b).tensor))


def polynomial(x: Number, coefficients: tuple[float, ...]) -> Number:
    """Return a polynomial, its highest coefficient first."""
    found = x.of(coefficients[0])
    for coefficient in coefficients[1:]:
        found = found * x + coefficient
    return found
