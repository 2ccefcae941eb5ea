"""Texts: compared, joined, and what the engine prints of scalars."""

from __future__ import annotations

import math
import re

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import BOOL, FLOAT, Context, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.graph.nodes import TEXT
from onnx_systemds.exporting.values import BOOLEAN, DOUBLE, scalar_text

EQUAL_TEXTS, _JOINED_TEXTS = 19, 20
"""The opsets from which on texts can be compared, and joined."""

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers by what the engine prints of them."""


_NUMBER = re.compile(r"\s*([-+]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?))[dDfF]?\s*")


def number_in(content: str) -> float | None:
    """Return the number that Java reads in a text, None for others."""
    found = _NUMBER.fullmatch(content)
    return None if found is None else float(found[1])


def text(ctx: Context, content: str) -> Tensor:
    """Return a text as a tensor of rank 0."""
    return ctx.g.constant(np.array(content, object), TEXT)


def equal_texts(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Return whether texts are the same. Raises UnsupportedCase."""
    ctx.check_opset(EQUAL_TEXTS, f"texts are compared, which ONNX does from opset {EQUAL_TEXTS} on")
    return a.equals(b)


def compare_texts(ctx: Context, operator: str, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a == b`` or ``a != b`` for texts. Raises UnsupportedCase for any other operator."""
    if operator not in ("==", "!=") or a.kind != b.kind:
        raise UnsupportedCase(f"'{operator}' with a string whose content only the run knows")
    same = equal_texts(ctx, a, b)
    return same if operator == "==" else ~same


def compare_printed(operator: str, a: Tensor, b: Tensor) -> Tensor | None:
    """Return ``x == "NaN"``, or the like, of a number, which is what the engine prints of it; None for all else."""
    for number, known in ((a, b), (b, a)):
        meant = _NOT_FINITE.get(known.only_element) if known.kind == TEXT else None
        if meant is not None and number.kind == FLOAT and operator in ("==", "!="):
            same = number.apply("IsNaN") if math.isnan(meant) else number.equals(meant)
            return same if operator == "==" else ~same
    return None


def printed_text(ctx: Context, value: Scalar) -> Tensor:
    """Return a scalar as the engine prints it. Raises UnsupportedCase for a double that only the run knows."""
    if isinstance(value.known, float):
        return text(ctx, scalar_text(value.known))
    if value.type == DOUBLE:
        reason = "a double that only the run knows becomes part of a string, and ONNX writes doubles in another form"
        raise UnsupportedCase(reason, hint="write the number as an output of its own")
    found = ctx.tensor(value)
    return ctx.g.where(found, text(ctx, "TRUE"), text(ctx, "FALSE")) if found.kind == BOOL else ctx.g.cast(found, TEXT)


@builtin("toString")
def printed(
    ctx: Context, target: Value, sparse: Value | None = None, rows: Value | None = None, cols: Value | None = None,
    decimal: Value | None = None, sep: Value | None = None, linesep: Value | None = None,
) -> Value:
    """A scalar as the engine prints it. Matrices are refused, so the arguments for them have no effect."""
    if not isinstance(target, Scalar) or target.type == BOOLEAN:  # which is true or TRUE
        raise UnsupportedCase("toString has no counterpart in ONNX: it gives a text",
                              hint="write the value as an output")
    return ctx.scalar(printed_text(ctx, target))


def join_texts(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Return one text after the other. Raises UnsupportedCase."""
    ctx.check_opset(_JOINED_TEXTS, f"texts are joined, which ONNX does from opset {_JOINED_TEXTS} on")
    return ctx.g.node("StringConcat", [a, b], (), TEXT)
