"""Builtins on the bits of integers, which are words of 32 bits with a sign."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import and_, or_, xor

import numpy as np

from onnx_systemds.exporting.builtins.api import BOOL, INT, Context, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.operators import elementwise
from onnx_systemds.exporting.values import known_numbers, known_scalar

_WORD = 1 << 32
_HALF = 1 << 31
_BITWISE_SINCE = 18


def _register(name: str, op: str, operation: Callable[[int, int], int], meaning: str) -> None:
    @builtin(name, meaning=meaning)
    def function(ctx: Context, a: Value, b: Value, /) -> Value:
        known = known_numbers(a, b)
        if known is not None:
            return known_scalar(operation(*map(_known_word, known)))
        ctx.check_opset(_BITWISE_SINCE, f"{op} is no operator of opset {ctx.g.opset}")
        return elementwise(ctx, lambda x, y: ctx.g.floating(ctx.g.binary(op, _word(ctx, x), _word(ctx, y))), a, b)


_register("bitwAnd", "BitwiseAnd", and_, "The bitwise and, in 32 bits.")
_register("bitwOr", "BitwiseOr", or_, "The bitwise or, in 32 bits.")
_register("bitwXor", "BitwiseXor", xor, "The bitwise exclusive or, in 32 bits.")


@builtin("bitwShiftL")
def shifted_left(ctx: Context, a: Value, b: Value, /) -> Value:
    """The shift to the left in 32 bits; NaN where only the sign bit remains."""
    g = ctx.g

    def shifted(x: Tensor, places: Tensor) -> Tensor:
        whole = _word(ctx, x) * _power(ctx, places)
        # Mod has the sign of the divisor: from -2^31 up to 2^31
        moved = (whole + _HALF) % _WORD
        found = g.floating(moved - _HALF)
        return g.where(moved.equals(0), math.nan, found)

    return elementwise(ctx, shifted, a, b)


@builtin("bitwShiftR")
def shifted_right(ctx: Context, a: Value, b: Value, /) -> Value:
    """The arithmetic shift to the right in 32 bits."""
    g = ctx.g

    def shifted(x: Tensor, places: Tensor) -> Tensor:
        word, power = _word(ctx, x), _power(ctx, places)
        rest = word % power  # never negative, so the quotient is rounded down
        return g.floating((word - rest) / power)

    return elementwise(ctx, shifted, a, b)


def _power(ctx: Context, places: Tensor) -> Tensor:
    """Return two to as many positions as the lowest five bits say."""
    g = ctx.g
    return g.constant(2) ** (_word(ctx, places) % 32)


def _word(ctx: Context, x: Tensor) -> Tensor:
    """Return numbers as ints: cut off after the point, held within 32 bits, NaN as 0."""
    g = ctx.g
    if x.kind == BOOL:
        return g.cast(x, INT)
    x = g.floating(x)
    defined = g.where(x.apply("IsNaN"), 0.0, x)
    held = g.node("Clip", [defined, g.number(-_HALF), g.number(_HALF)], x.dims)
    whole, largest = g.cast(held, INT), g.constant(_HALF - 1)  # which float32 does not hold
    # onnxruntime's Min of int64 compares in float32
    return g.where(whole > largest, largest, whole)


def _known_word(value: float) -> int:
    return 0 if np.isnan(value) else int(np.clip(value, -_HALF, _HALF - 1))
