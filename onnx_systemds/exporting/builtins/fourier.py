"""Fourier transforms of matrices of known sizes: products with matrices of sines and cosines."""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Tensor, Value, builtin, refuse
from onnx_systemds.inference.dims import Dim

_Pair = tuple[Tensor, Tensor]


@builtin("fft")
def transform(ctx: Context, re: Matrix) -> tuple[Value, ...]:
    """The 2-D discrete Fourier transform: real and imaginary parts."""
    return _transformed(ctx, re, None, both=True, inverse=False)


@builtin("ifft")
def inverse_transform(ctx: Context, re: Matrix, im: Value | None = None) -> tuple[Value, ...]:
    """The inverse of the 2-D discrete Fourier transform."""
    return _transformed(ctx, re, im, both=True, inverse=True)


@builtin("fft_linearized")
def transform_of_rows(ctx: Context, re: Matrix) -> tuple[Value, ...]:
    """The discrete Fourier transform of each row: real and imaginary parts."""
    return _transformed(ctx, re, None, both=False, inverse=False)


@builtin("ifft_linearized")
def inverse_transform_of_rows(ctx: Context, re: Matrix, im: Value | None = None) -> tuple[Value, ...]:
    """The inverse of the discrete Fourier transform of each row."""
    return _transformed(ctx, re, im, both=False, inverse=True)


def _transformed(ctx: Context, re: Matrix, im: Value | None, *, both: bool, inverse: bool) -> tuple[Value, ...]:
    parts = ctx.flat(re), ctx.flat(im) if isinstance(im, Matrix) else None
    found = _along_rows(ctx, *parts, inverse)
    if both:
        found = _transposed(ctx, _along_rows(ctx, *_transposed(ctx, found), inverse))
    return tuple(ctx.matrix(part) for part in found)


def _along_rows(ctx: Context, re: Tensor, im: Tensor | None, inverse: bool) -> _Pair:
    """Return the transform of each row."""
    g, size = ctx.g, _power_of_two(re.dims[1])
    waves = np.exp((2j if inverse else -2j) * np.pi * np.outer(np.arange(size), np.arange(size)) / size)
    waves = waves / size if inverse else waves
    cosines, sines = (g.constant(part, FLOAT) for part in (waves.real, waves.imag))
    found = g.matmul(re, cosines), g.matmul(re, sines)
    if im is None:
        return found
    return found[0] - g.matmul(im, sines), found[1] + g.matmul(im, cosines)


def _transposed(ctx: Context, parts: _Pair) -> _Pair:
    return ctx.g.transpose(parts[0], (1, 0)), ctx.g.transpose(parts[1], (1, 0))


def _power_of_two(size: Dim) -> int:
    if not isinstance(size, int) or size < 1 or size & (size - 1):
        raise UnsupportedCase(f"the Fourier transform along {size} elements",
                              hint="their number must be known, and a power of 2")
    return size


refuse("stft", reason="it cuts out windows that overlap", hint="cut them by ranges, and use fft_linearized")
