"""Formulas of tensors, beside what Python's operators make of these."""

from __future__ import annotations

from onnx_systemds.exporting.graph.nodes import Operand, Tensor


def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """Return `a` where the condition holds, else `b`; one of them is no number of Python."""
    found: Tensor = condition.graph.where(condition, a, b)
    return found


def polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Return a polynomial, its highest coefficient first."""
    found = x.of(coefficients[0])
    for coefficient in coefficients[1:]:
        found = found * x + coefficient
    return found
