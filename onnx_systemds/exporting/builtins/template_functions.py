"""Functions of ``templates/library`` as the operators that they stand for, so that a model comes back as it was.

Those with a fitted polynomial serve in float32, to whose precision it is fitted.
"""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.exporting.builtins.aggregates import cumulated, reduced
from onnx_systemds.exporting.builtins.api import Context, Matrix, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.builtins.linear import matrix_product

_LARGEST = float(np.finfo(np.float32).max)


def _register_fitted(name: str, op: str) -> None:
    """Register a function of one matrix that is one operator in float32."""

    @template_function(name, meaning=f"{op} of each element, in float32.")
    def function(ctx: Context, X: Matrix) -> Value | None:
        if ctx.g.dtype == "float64" or not ctx.g.knows(op):
            return None
        return Matrix(ctx.g.unary(op, ctx.g.floating(X.tensor)), X.rows, X.cols)


_register_fitted("gelu", "Gelu")
_register_fitted("erf", "Erf")
_register_fitted("softplus", "Softplus")
_register_fitted("area_cosh", "Acosh")
_register_fitted("area_sinh", "Asinh")
_register_fitted("area_tanh", "Atanh")


def _register_log_sum_exp(name: str, axis: int, what: str) -> None:
    @template_function(name, meaning=f"The logarithm of the sum of exp(x) of each {what}.")
    def function(ctx: Context, X: Matrix) -> Value | None:
        return ctx.matrix(ctx.g.reduce("ReduceLogSumExp", ctx.flat(X), (axis,)))


_register_log_sum_exp("col_log_sum_exp", 0, "column")
_register_log_sum_exp("row_log_sum_exp", 1, "row")


def _register_running_sum(name: str, axis: int, what: str) -> None:
    meaning = f"The running sum of each {what}, NaN from where a NaN, or infinities of both signs, came in."

    @template_function(name, meaning=meaning)
    def function(ctx: Context, X: Matrix) -> Value:
        return cumulated(ctx, X, axis)


_register_running_sum("cumulative_sum", 0, "column")
_register_running_sum("cumulative_row_sum", 1, "row")


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


@template_function("row_sums")
def row_sums(ctx: Context, X: Matrix) -> Value:
    """The row sums."""
    return reduced(ctx, X, "ReduceSum", 1)


@template_function("row_means")
def row_means(ctx: Context, X: Matrix) -> Value:
    """The row means."""
    return reduced(ctx, X, "ReduceMean", 1)


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
