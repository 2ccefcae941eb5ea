"""Fourier transforms and complex products of onnxruntime: its CPU package has no kernels, numpy judges."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random


def parts(spectrum: Array) -> Array:
    """Real and imaginary parts in a last axis."""
    return np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)


def whole(x: Array) -> Array:
    return np.asarray(x[..., 0] + 1j * x[..., 1])


def forward(x: Array, signal_ndim: int = 1, **_: object) -> Array:
    return parts(np.fft.rfftn(x, axes=range(-signal_ndim, 0)))


def backward(x: Array, signal_ndim: int = 1, **_: object) -> Array:
    return np.asarray(np.fft.irfftn(whole(x), axes=range(-signal_ndim, 0)), np.float32)


A, B = random(2, 3, 4, 2), random(3, 4, 2, seed=1)
CASES = [
    *[contrib("Rfft", {"x": random(*dims)}, expected=forward) for dims in ((8,), (3, 6), (2, 3, 10))],
    *[contrib("Rfft", {"x": random(*dims)}, attributes={"signal_ndim": axes}, expected=forward)
      for dims, axes in (((4, 6), 2), ((2, 3, 4, 6), 2), ((2, 4, 2, 6), 3))],
    *[contrib("Irfft", {"x": forward(random(*dims))}, attributes={"signal_ndim": 1}, expected=backward)
      for dims in ((8,), (3, 6), (2, 3, 10))],
    *[contrib("Irfft", {"x": forward(random(*dims), axes)}, attributes={"signal_ndim": axes}, expected=backward)
      for dims, axes in (((4, 6), 2), ((2, 4, 2, 6), 3))],
    contrib("ComplexMul", {"a": A, "b": B}, expected=lambda a, b: parts(whole(a) * whole(b))),
    contrib("ComplexMulConj", {"a": A, "b": B}, expected=lambda a, b: parts(whole(a) * whole(b).conj())),
    at_sizes(contrib("Rfft", {"x": random(3, 6)}, expected=forward), {"x": ["batch", 6]}, {"x": random(5, 6)}),
    at_sizes(contrib("Irfft", {"x": forward(random(3, 6))}, attributes={"signal_ndim": 1}, expected=backward),
             {"x": ["batch", 4, 2]}, {"x": forward(random(5, 6))}),
    *[at_sizes(contrib(name, {"a": A, "b": B}, expected=product), {"a": ["batch", 3, 4, 2]}, {"a": random(5, 3, 4, 2)})
      for name, product in (("ComplexMul", lambda a, b: parts(whole(a) * whole(b))),
                            ("ComplexMulConj", lambda a, b: parts(whole(a) * whole(b).conj())))],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
