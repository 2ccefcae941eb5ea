"""Functions of ``templates/library`` as the operators that they stand for, so that a model comes back as it was.

Those with a fitted polynomial serve in float32, to whose precision it is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from onnx_systemds.exporting.builtins.aggregates import cumulated, reduced
from onnx_systemds.exporting.builtins.api import Context, Matrix, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.builtins.linear import matrix_product

_LARGEST = float(np.finfo(np.float32).max)


def _register(name: str, meaning: str, made: Callable[[Context, Matrix], Value | None]) -> None:
    """Register a function of one matrix."""

    @template_function(name, meaning=meaning)
    def function(ctx: Context, X: Matrix) -> Value | None:
        return made(ctx, X)


def _fitted(ctx: Context, x: Matrix, op: str) -> Value | None:
    """One operator, in float32."""
    if ctx.g.dtype == "float64" or not ctx.g.knows(op):
        return None
    return Matrix(ctx.g.unary(op, ctx.g.floating(x.tensor)), x.rows, x.cols)


def _log_sum_exp(ctx: Context, x: Matrix, axis: int) -> Value:
    return ctx.matrix(ctx.g.reduce("ReduceLogSumExp", ctx.flat(x), (axis,)))


for _name, _op in (("gelu", "Gelu"), ("erf", "Erf"), ("softplus", "Softplus"), ("area_cosh", "Acosh"),
                   ("area_sinh", "Asinh"), ("area_tanh", "Atanh")):
    _register(_name, f"{_op} of each element, in float32.", partial(_fitted, op=_op))
for _axis, (_part, _logarithm, _running) in enumerate((("column", "col_log_sum_exp", "cumulative_sum"),
                                                       ("row", "row_log_sum_exp", "cumulative_row_sum"))):
    _register(_logarithm, f"The logarithm of the sum of exp(x) of each {_part}.", partial(_log_sum_exp, axis=_axis))
    _register(_running, f"The running sum of each {_part}, NaN from where a NaN, or infinities of both signs, came in.",
              partial(cumulated, axis=_axis))
_register("row_sums", "The row sums.", partial(reduced, op="ReduceSum", axis=1))
_register("row_means", "The row means.", partial(reduced, op="ReduceMean", axis=1))


@template_function("nearest_integer", "round_half_even")
def rounded(ctx: Context, X: Matrix) -> Value:
    """The nearest integers; halves are rounded to even."""
    return Matrix(ctx.g.floating(X.tensor).apply("Round"), X.rows, X.cols)


@template_function("product_of_few_rows")
def product_of_few_rows(ctx: Context, X: Matrix, W: Matrix) -> Value:
    """The product of two matrices."""
    found: Value = matrix_product(ctx, X, W)
    return found


@template_function("rows_added")
def rows_added(ctx: Context, X: Matrix, count: Value, cols: Value) -> Value:
    """The matrices themselves; a model needs no padding rows."""
    return X


@template_function("added_rows_removed")
def added_rows_removed(ctx: Context, Z: Matrix, count: Value, rows: Value) -> Value:
    """The products without padding rows; in a model there are none."""
    return Z


@template_function("scaled_rows")
def scaled_rows(ctx: Context, V: Matrix, w: Matrix) -> Value:
    """Each row times a number; 0 times NaN or an infinity is NaN, as in Mul."""
    return ctx.matrix(ctx.flat(V) * ctx.flat(w))


@template_function("nearest_integer_plus")
def nearest_integer_plus(ctx: Context, X: Matrix, shift: float) -> Value:
    """The nearest integers (halves to even) plus an integer."""
    whole = ctx.g.floating(X.tensor).apply("Round")
    return Matrix(whole + shift, X.rows, X.cols)


@template_function("nearest_float", "single_precision")
def single_precision(ctx: Context, X: Matrix) -> Value | None:
    """The numbers as they are: in float32 they are rounded already."""
    return None if ctx.g.dtype == "float64" else Matrix(ctx.g.floating(X.tensor), X.rows, X.cols)


@template_function("round_to_float")
def round_to_float(ctx: Context, X: Matrix, bits: int, smallest: int, largest: float, beyond: float) -> Value | None:
    """The numbers rounded to float32; larger ones are infinite."""
    if ctx.g.dtype == "float64" or (bits, smallest, largest, beyond) != (24, -126, _LARGEST, math.inf):
        return None
    return Matrix(ctx.g.floating(X.tensor), X.rows, X.cols)
