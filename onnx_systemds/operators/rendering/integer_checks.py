"""The statements of a script that look at 64-bit integers: see `wide_integers` for where they are needed."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.dml.literals import message_literal
from onnx_systemds.errors import quoted
from onnx_systemds.inference.integer_spans import LIMIT
from onnx_systemds.inference.wide_integers import GraphIntegers
from onnx_systemds.operators.api.layout import SCALAR, Form


def range_checks(integers: GraphIntegers, name: str, identifier: str, form: Form) -> list[str]:
    """Statements that stop the run where a value is larger than is exact, or than its users let it be."""
    if name not in integers.checks:
        return []
    low, high = integers.checks[name]
    if low == 0:
        least, most = (identifier, identifier) if form is SCALAR else (f"min({identifier})", f"max({identifier})")
        return [f"if ({least} < 0 | {most} > {high}) {{ stop({_message(name, 'negative, or beyond 2^53')}) }}"]
    return [f"if ({_magnitude(identifier, form)} > {high}) {{ stop({_message(name, 'beyond 2^53')}) }}"]


def sum_check(name: str, factors: Sequence[tuple[str, Form]], count: str) -> str:
    """The statement that stops the run where a sum of ``count`` products may get too large on its way."""
    product = " * ".join([_magnitude(text, form) for text, form in factors] + ([count] if count else []))
    return f"if ({product} > {LIMIT}) {{ stop({_message(name, 'beyond 2^53')}) }}"


def _magnitude(text: str, form: Form) -> str:
    return f"abs({text})" if form is SCALAR else f"max(abs({text}))"


def _message(name: str, what: str) -> str:
    return message_literal(f"integers of {quoted(name)} get {what}, where FP64 does not hold them")
