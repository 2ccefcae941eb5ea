"""Sequences of numbers: `seq`."""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.scalar_operators import direction, distance
from onnx_systemds.exporting.graph.nodes import TEXT, WIDE
from onnx_systemds.exporting.values import DOUBLE, integer, known_numbers, known_of
from onnx_systemds.inference.dims import Dim

_ROUNDED = 2.0**-22
"""By how much of it a sequence may go beyond its end in float32, which has rounded that number, its start and step."""


@builtin("seq")
def sequence(ctx: Context, from_: Value, to: Value, incr: Value | None = None, /) -> Value:
    """A column of numbers from `from` to `to`, both included."""
    given = [from_, to] if incr is None else [from_, to, incr]
    known = known_numbers(*given)
    if known is not None:
        return _known(ctx, *map(float, known))
    first = from_.dim if isinstance(from_, Scalar) else None
    last = to.dim if isinstance(to, Scalar) else None
    step_size = 1 if incr is None else incr.dim if isinstance(incr, Scalar) else None
    if step_size == 0:
        raise UnsupportedCase("a sequence whose step is 0")
    if first is None or last is None or not isinstance(step_size, int):
        return _computed(ctx, *given)
    if step_size != 1:
        return _counted(ctx, first, step_size, (last - first + step_size) // step_size)
    way = direction(ctx, first, last)  # the engine goes down also where the step 1 is given
    return _counted(ctx, first, way, distance(first, last, way))


def _known(ctx: Context, start: float, stop: float, step: float = 1.0) -> Matrix:
    """Return a known sequence: as many numbers as the engine counts, and each one added to the last as there."""
    if step == 1 and start > stop:
        step = -1.0
    count = 0
    if step and all(map(math.isfinite, (start, stop, step))):
        whole = math.floor(stop / step - start / step) + 1
        count = whole + int((start + whole * step - stop) * math.copysign(1.0, step) <= 0)
    if count < 1:
        raise UnsupportedCase(f"the sequence from {start:g} to {stop:g} by {step:g} is empty")
    ctx.g.reserve(count)
    numbers = np.add.accumulate(np.concatenate([[start], np.full(count - 1, step)]))
    return ctx.matrix(ctx.g.constant(numbers.reshape(count, 1), FLOAT))


def _counted(ctx: Context, first: Dim, step: Dim, size: Dim) -> Matrix:
    """Return the integers from `first` on in steps as a column."""
    counted = ctx.g.floating(ctx.g.reshape(ctx.g.count(0, size), (size, 1)))
    if step != 1:
        counted = counted * ctx.floats(integer(step))
    if first == 1 and step == 1:
        counted = counted + 1.0
        counted.counts = True
    elif first != 0:
        counted = counted + ctx.floats(integer(first))
    return ctx.matrix(counted)


def _computed(ctx: Context, from_: Value, to: Value, incr: Value | None = None) -> Matrix:
    """Return the sequence between numbers that the model computes; counted in float64, as the engine counts."""
    g = ctx.g
    start, stop = (_wide(ctx, value) for value in (from_, to))
    step: Tensor = g.constant(np.float64(1), WIDE) if incr is None else _wide(ctx, incr)
    if step.constant is None or step.constant == 1:
        step = g.where((start <= stop) | ~step.equals(1.0), step, g.constant(np.float64(-1), WIDE))
    way, end = step.apply("Sign"), stop
    if g.dtype == "float32" and any(_is_rounded(value) for value in (from_, to, incr)):
        spread = (start.apply("Abs") + stop.apply("Abs")) * _ROUNDED
        end = stop + spread.at_most(step.apply("Abs") / 4) * way
    whole = (end / step - start / step).apply("Floor") + 1
    beyond = ((start + whole * step - end) * way) > 0
    size = g.integer_symbol(g.cast(whole, INT) + g.cast(~beyond, INT), "steps")
    counted = g.floating(g.reshape(g.count(0, size), (size, 1)))
    return ctx.matrix(counted * g.floating(step) + ctx.floats(from_))


def _is_rounded(value: Value | None) -> bool:
    """Whether a number is a float that the model calculates or is given."""
    if isinstance(value, Scalar):
        return value.type == DOUBLE and value.known is None and value.dim is None
    return isinstance(value, Matrix)


def _wide(ctx: Context, value: Value) -> Tensor:
    """Return a scalar as float64, a known one without rounding it to the floats of the model."""
    known = known_of(value)
    if isinstance(known, (bool, int, float)):
        return ctx.g.constant(np.float64(known), WIDE)
    if isinstance(value, Matrix) and value.dims != (1, 1):
        raise UnsupportedCase(f"{value} where a number is needed")
    tensor = ctx.tensor(value)
    if tensor.kind == TEXT:
        raise UnsupportedCase("a string where a number is needed")
    return ctx.g.cast(ctx.g.reshape(tensor, ()), WIDE)
