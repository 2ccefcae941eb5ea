"""Activations of onnxruntime's optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

from tests.operators.contrib_cases import contrib
from tests.operators.harness import Array, Case, check_case, random


def gelu(x: Array) -> Array:
    """Gelu by the error function, in the type of x."""
    return (x * 0.5 * (1 + erf(x.astype(np.float64) / np.sqrt(2)))).astype(x.dtype)


def split_gelu(x: Array, bias: Array) -> Array:
    """No kernel for CPUs: by numpy."""
    left, right = np.split(x + bias, 2, axis=-1)
    return left * gelu(right)


X = random(2, 3, 4)

CASES = [
    contrib("Gelu", {"x": X}),
    contrib("Gelu", {"x": random(2, 3, 4, 5)}),
    contrib("FastGelu", {"x": X}),
    contrib("FastGelu", {"x": X, "bias": random(4, seed=1)}),
    contrib("BiasGelu", {"a": X, "b": random(4, seed=1)}),
    contrib("QuickGelu", {"x": X}),
    contrib("QuickGelu", {"x": random(5)}, attributes={"alpha": -0.7}),
    contrib("BiasSplitGelu", {"x": X, "bias": random(4, seed=1)}, expected=split_gelu),
    contrib("BiasAdd", {"x": X, "bias": random(4, seed=1), "skip": random(2, 3, 4, seed=2)},
            expected=lambda x, bias, skip: x + bias + skip),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_activation(case: Case) -> None:
    check_case(case)


def test_symbolic_sizes() -> None:
    case = contrib("FastGelu", {"x": X, "bias": random(4, seed=1)}, symbols={"x": ["batch", "seq", 4]})
    check_case(case, sizes=[{"x": random(3, 5, 4), "bias": random(4, seed=2)}])
