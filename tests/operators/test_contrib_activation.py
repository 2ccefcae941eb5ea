"""Activations of onnxruntime's optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random


def gelu(x: Array) -> Array:
    """Gelu by the error function, in the type of x."""
    return (x * 0.5 * (1 + erf(x.astype(np.float64) / np.sqrt(2)))).astype(x.dtype)


def split_gelu(x: Array, bias: Array) -> Array:
    """No kernel for CPUs: by numpy."""
    left, right = np.split(x + bias, 2, axis=-1)
    return left * gelu(right)


X = random(2, 3, 4)
BIAS = random(4, seed=1)


def resized(case: Case) -> Case:
    """The case at several numbers of rows."""
    names = [name for name in ("x", "skip") if name in case.inputs]
    return at_sizes(case, {name: ["batch", "seq", 4] for name in names}, {name: random(3, 5, 4, seed=3) for name in names})


CASES = [
    contrib("Gelu", {"x": X}),
    contrib("Gelu", {"x": random(2, 3, 4, 5)}),
    contrib("FastGelu", {"x": X}),
    contrib("FastGelu", {"x": X, "bias": BIAS}),
    contrib("BiasGelu", {"x": X, "bias": BIAS}),
    contrib("QuickGelu", {"x": X}),
    contrib("QuickGelu", {"x": random(5)}, attributes={"alpha": -0.7}),
    contrib("BiasSplitGelu", {"x": X, "bias": BIAS}, expected=split_gelu),
    contrib("BiasAdd", {"x": X, "bias": BIAS, "skip": random(2, 3, 4, seed=2)},
            expected=lambda x, bias, skip: x + bias + skip),
    *[resized(case) for case in (
        contrib("Gelu", {"x": X}),
        contrib("FastGelu", {"x": X, "bias": BIAS}),
        contrib("BiasGelu", {"x": X, "bias": BIAS}),
        contrib("QuickGelu", {"x": X}),
        contrib("BiasSplitGelu", {"x": X, "bias": BIAS}, expected=split_gelu),
        contrib("BiasAdd", {"x": X, "bias": BIAS, "skip": random(2, 3, 4, seed=2)},
                expected=lambda x, bias, skip: x + bias + skip),
    )],
    contrib("ScaledSiLU", {"x": X}, attributes={"alpha": 1.7}),
    contrib("ScaledSiLU", {"x": X, "scale": np.array(-0.5, np.float32)}),
    contrib("GatedAdd", {"x": X, "y": random(2, 3, 4, seed=2), "gate": random(2, 3, 1, seed=3)}),
    contrib("BiasDropout", {"x": X, "bias": BIAS}, expected=lambda x, bias: [x + bias, x == x], outputs=2,
            output_dtypes=["float", "bool"]),
    contrib("BiasDropout", {"x": X, "bias": X, "skip": random(2, 3, 4, seed=2), "ratio": np.array(0.5, np.float32)},
            expected=lambda x, bias, skip, ratio: x + bias + skip, constants=["ratio"]),
    *[resized(case) for case in (
        contrib("ScaledSiLU", {"x": X}),
        contrib("BiasDropout", {"x": X, "bias": BIAS, "skip": random(2, 3, 4, seed=2)},
                expected=lambda x, bias, skip: x + bias + skip),
    )],
    at_sizes(contrib("GatedAdd", {"x": X, "y": random(2, 3, 4, seed=2), "gate": random(2, 3, 1, seed=3)}),
             {"x": ["batch", "seq", 4], "y": ["batch", "seq", 4], "gate": ["batch", "seq", 1]},
             {"x": random(3, 5, 4), "y": random(3, 5, 4, seed=2), "gate": random(3, 5, 1, seed=3)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
