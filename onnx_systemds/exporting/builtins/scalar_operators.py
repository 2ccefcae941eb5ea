"""The operators of DML on scalars whose content is known, or an expression over sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting import limits
from onnx_systemds.exporting.builtins.api import Context, Scalar
from onnx_systemds.exporting.values import BOOLEAN, DOUBLE, INTEGER, STRING, known_integer, known_scalar, scalar_text
from onnx_systemds.inference import dims
from onnx_systemds.inference.dims import Dim

LOGICAL = {"&": "And", "|": "Or"}
_INT64_FACTOR = 2**63 // limits.LARGEST_INTEGER


def known_result(operator: str, left: Scalar, right: Scalar) -> Scalar | None:
    """Return the result for two known scalars, or of one that decides it. Raises UnsupportedCase."""
    a, b = left.known, right.known
    if operator in LOGICAL and STRING not in (left.type, right.type):
        decisive = operator == "|"
        if any(known is not None and bool(known) is decisive for known in (a, b)):
            return known_scalar(decisive)
    if a is None or b is None:
        return None
    if isinstance(a, str) or isinstance(b, str):
        return _of_texts(operator, a, b)
    if operator in LOGICAL:
        return known_scalar(bool(a) and bool(b) if operator == "&" else bool(a) or bool(b))
    if operator in COMPARED:
        return known_scalar(_compared(operator, a, b))
    is_of_truths = isinstance(a, bool) and isinstance(b, bool)  # which the engine calculates with as doubles
    whole = not is_of_truths and not isinstance(a, float) and not isinstance(b, float)
    if whole and operator == "%/%" and b == 0:
        raise UnsupportedCase("an integer divided by 0 has no whole quotient",
                              hint="with a double, 7.0 %/% 0, the result is infinite")
    found = _calculated(operator, a if whole else float(a), b if whole else float(b))
    if not whole or operator not in ("+", "-", "*", "%/%", "%%") or not math.isfinite(found):
        return known_scalar(float(found))
    return known_integer(int(found))


def _of_texts(operator: str, a: Any, b: Any) -> Scalar:
    if operator == "+":
        joined = scalar_text(a) + scalar_text(b)
        if len(joined) > limits.LONGEST_TEXT:
            raise UnsupportedCase(f"a string of {len(joined)} characters, and {limits.LONGEST_TEXT} are possible")
        return known_scalar(joined)
    if operator in COMPARED:
        return known_scalar(_compared(operator, scalar_text(a), scalar_text(b)))
    raise UnsupportedCase(f"'{operator}' of strings")


def _compared(operator: str, a: Any, b: Any) -> bool:
    return bool(COMPARED[operator](a, b))


def _calculated(operator: str, a: Any, b: Any) -> Any:
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    if operator == "^":
        with np.errstate(all="ignore"):
            return float(np.power(np.float64(a), np.float64(b)))
    if operator == "%%" and b == 0 and isinstance(a, int) and isinstance(b, int):
        return 0
    if b == 0 and (a == 0 or operator == "%%" or math.isnan(a)):
        return math.nan
    if b == 0:
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    if operator == "/":
        return a / b
    quotient = a / b
    cut = quotient if not math.isfinite(quotient) else math.trunc(quotient)
    return cut if operator == "%/%" else a - cut * b


def size_result(operator: str, left: Scalar, right: Scalar) -> Scalar | None:
    """Return the result for integers of which one at least is an expression over sizes."""
    a, b = left.dim, right.dim
    if a is None or b is None:
        return None
    kind = INTEGER if left.type == right.type == INTEGER else DOUBLE
    found: Dim | None = None
    if operator in ("+", "-", "*"):
        found = {"+": a + b, "-": a - b, "*": a * b}[operator]
    elif operator == "/" and (_sign_of(b) == 1 or _sign_of(-1 * b) == 1):  # 0 / 0 is NaN
        kind, found = DOUBLE, dims.divide_exactly(a, b)
    elif operator in ("%/%", "%%") and dims.is_non_negative(a) and dims.is_non_negative(b) and b != 0:
        # n %% 0 of integers is 0
        found = a // b if operator == "%/%" else dims.modulo(a, dims.maximum(b, 1))
    elif operator in COMPARED:
        known = compared_sizes(operator, a, b)
        return None if known is None else Scalar(BOOLEAN, known)
    if found is None or (kind == DOUBLE and _may_leave_int64(found)):
        return None
    return Scalar(kind, found)


def _may_leave_int64(dim: Dim) -> bool:
    """Whether 64 bits may be too few for a number that is calculated from integers up to 2^53 which are no sizes."""
    for monomial, coefficient in dim.terms if isinstance(dim, dims.Expression) else ():
        signed = sum(dims.has_signed_symbols(dims.from_terms({(atom,): 1})) for atom in monomial)
        if signed > 1 or (signed and abs(coefficient) > _INT64_FACTOR):
            return True
    return False


def compared_sizes(operator: str, a: Dim, b: Dim) -> bool | None:
    """Return whether a comparison of sizes holds, None if only the run can tell; a named size is at least 1."""
    low, high = _sign_of(a - b), _sign_of(b - a)
    if a == b:
        return operator in ("==", "<=", ">=")
    if (low is not None and low > 0) or (high is not None and high > 0):
        above = low is not None and low > 0
        return {"==": False, "!=": True}.get(operator, above == (operator[0] == ">"))
    if operator in (">=", "<") and low == 0:
        return operator == ">="
    if operator in ("<=", ">") and high == 0:
        return operator == "<="
    return None


def direction(ctx: Context, start: Dim, stop: Dim) -> Dim:
    """Return the step of the range ``start:stop``: 1, or -1 where it goes down; computed if only the run can tell."""
    known = compared_sizes("<=", start, stop)
    if known is not None:
        return 1 if known else -1
    g = ctx.g
    rises = g.size_tensor(start) <= g.size_tensor(stop)
    return g.integer_symbol(g.where(rises, g.constant([1]), g.constant([-1])), "step")


def distance(start: Dim, stop: Dim, step: Dim) -> Dim:
    """Return how many integers the range ``start:stop`` holds; `step` is its `direction`."""
    there = stop - start
    whole = step * there if isinstance(step, int) else dims.maximum(there, -1 * there)
    return whole + 1


def _sign_of(dim: Dim) -> int | None:
    """Return 1 if a size is certainly positive, 0 if it is certainly not negative, None otherwise."""
    if isinstance(dim, int):
        return (dim > 0) - (dim < 0) if dim >= 0 else None
    names = {name: dims.symbol(name) + (0 if dims.may_be_zero(dims.symbol(name)) else 1)
             for name in dims.symbols(dim)}
    shifted = dims.substitute(dim, names)
    if dims.is_non_negative(shifted - 1):
        return 1
    return 0 if dims.is_non_negative(shifted) else None
