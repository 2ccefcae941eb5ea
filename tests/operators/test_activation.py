"""Activation functions in every version, with scalars, special values and symbolic dims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import NARROW, NEAR, POSITIVE, Derivative, near
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, random

X = random(2, 3, 4) * np.float32(3)
SPECIAL = np.array([0, 1e-6, -1e-6, 1e-3, -2, 3, -20, 90, -90, np.inf, -np.inf, np.nan], np.float32)
UNIT = np.array([0, 1e-7, -1e-7, 0.25, -0.5, 0.9999, 1, -1], np.float32)


def everywhere(op: str, opset: int, expected: Any = None, **attributes: Any) -> list[Case]:
    """An operator on rank 3, rank 4, a single element and rank 0."""
    inputs = [X, random(2, 3, 1, 2), random(1, 1), np.array(-0.7, np.float32)]
    return [Case(op, opset, {"x": x}, attributes, expected=expected) for x in inputs]


def numpy_erf(x: Array) -> Array:
    """Elementwise error function."""
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def numpy_gelu(x: Array) -> Array:
    """Gelu, in FP64."""
    return x * np.vectorize(math.erfc)(-x / 2**0.5) / 2


def numpy_elu(x: Array, alpha: float = 1.0, **_: Any) -> Array:
    """Elu."""
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1)).astype(x.dtype)


def numpy_selu(x: Array, alpha: float = 1.6732, gamma: float = 1.0507) -> Array:
    """Selu with the defaults of opset 1."""
    return (gamma * numpy_elu(x, alpha)).astype(x.dtype)


def numpy_prelu(x: Array, slope: Array) -> Array:
    """PRelu with one slope for each channel."""
    return np.where(x > 0, x, slope.reshape(-1, *[1] * (x.ndim - 2)) * x).astype(x.dtype)


def numpy_leaky(x: Array, alpha: float = 0.01) -> Array:
    """LeakyRelu."""
    return np.where(x > 0, x, np.float32(alpha) * x).astype(x.dtype)


def numpy_mish(x: Array) -> Array:
    """Mish."""
    return (x * np.tanh(np.logaddexp(0, x))).astype(x.dtype)


def numpy_swish(x: Array, alpha: float = 1.0) -> Array:
    """Swish."""
    return (x / (1 + np.exp(-alpha * x))).astype(x.dtype)


def numpy_hardswish(x: Array) -> Array:
    """HardSwish."""
    return (x * np.clip(x / 6 + 0.5, 0, 1)).astype(x.dtype)


def kept(x: Array, *_: Any, **__: Any) -> tuple[Array, Array]:
    """Dropout at inference."""
    return x, np.ones(x.shape, bool)


CASES = [
    *everywhere("Erf", 9, numpy_erf), *everywhere("Erf", 13, numpy_erf),
    Case("Erf", 13, {"x": SPECIAL}, expected=numpy_erf, tolerance=1e-7),
    *everywhere("Gelu", 20), *everywhere("Gelu", 20, approximate="tanh"),
    Case("Gelu", 20, {"x": np.linspace(-4, 4, 801)}, expected=numpy_gelu, tolerance=4e-9),
    Case("Gelu", 20, {"x": SPECIAL}), Case("Celu", 12, {"x": SPECIAL}, {"alpha": -0.5}), Case("Elu", 6, {"x": SPECIAL}),
    Case("Celu", 12, {"x": SPECIAL}), Case("Selu", 6, {"x": SPECIAL}),
    *everywhere("Relu", 6), *everywhere("Sigmoid", 6), *everywhere("Sigmoid", 13), *everywhere("Relu", 14),
    *everywhere("Elu", 1, numpy_elu, alpha=0.5), *everywhere("Elu", 6, alpha=2.0),
    *everywhere("Selu", 1, numpy_selu), *everywhere("Selu", 6), *everywhere("Celu", 12, alpha=0.5),
    *everywhere("LeakyRelu", 1, numpy_leaky), *everywhere("LeakyRelu", 6, alpha=0.2),
    *everywhere("LeakyRelu", 16, alpha=1.5), *everywhere("LeakyRelu", 16, alpha=-0.5),
    *everywhere("ThresholdedRelu", 10, alpha=0.3), *everywhere("HardSigmoid", 6, alpha=0.3, beta=0.4),
    *everywhere("HardSigmoid", 1, lambda x: np.clip(0.2 * x + 0.5, 0, 1).astype(np.float32)),
    *everywhere("HardSwish", 14, numpy_hardswish), *everywhere("Softplus", 1), *everywhere("Softsign", 1),
    *everywhere("Mish", 18, numpy_mish), *everywhere("Swish", 24, numpy_swish, alpha=1.5),
    *everywhere("Shrink", 9, lambd=0.4, bias=0.1), *everywhere("Asinh", 9),
    Case("Shrink", 9, {"x": random(3, 4, dtype="int32")}, {"lambd": 2.0, "bias": 1.0}),
    *everywhere("Shrink", 9, lambd=-0.5, bias=0.25),
    Case("Softplus", 1, {"x": SPECIAL}), Case("ThresholdedRelu", 10, {"x": SPECIAL}, {"alpha": 1.0}, expected=lambda
         x, alpha: np.where(x > alpha, x, 0).astype(np.float32)),
    Case("Asinh", 9, {"x": SPECIAL}, expected=np.arcsinh, tolerance=1e-6),
    # small and large results, each apart: what is tolerated goes by the largest one
    *[Case(op, 22, {"x": np.array(numbers, np.float32)}, note=f"of {numbers[0]}") for op, several in [
        ("Asinh", [(1e-10, -1e-9), (1e10, -3e38, 3e8)]), ("Acosh", [(1 + 2**-23, 1 + 2**-22)]), ("Atanh", [(1e-10, -1e-9), (1 - 2**-24, 0.9999)])]
      for numbers in several],
    Case("Acosh", 9, {"x": np.array([1, 1.0001, 2, 1e20, np.inf, 0.5], np.float32)}, expected=np.arccosh),
    *[Case("Acosh", 22, {"x": np.array([-3, -1e9, -2e16, -1e30, -np.inf, 0, 1], dtype)}, expected=np.arccosh, note=dtype)
      for dtype in ("float32", "float64")],
    Case("PRelu", 9, {"x": np.array([-(2**31), -5, 7, -70000], np.int32), "slope": np.array([2**30, 3, 4, 70000], np.int32)},
         expected=lambda x, slope: np.where(x < 0, x * slope, x), note="wraps"),
    Case("PRelu", 16, {"x": np.array(-70000, np.int32), "slope": np.array(70000, np.int32)}, constants=["slope"],
         expected=lambda x, slope: np.where(x < 0, np.multiply(x, slope, dtype=np.int32), x), note="wraps"),
    at_sizes(Case("PRelu", 16, {"x": random(2, 3, dtype="int32") * 2**27, "slope": np.array([9, -99, 7], np.int32)},
                  expected=lambda x, slope: np.where(x < 0, x * slope, x), note="wraps"),
             {"x": ["n", 3]}, {"x": random(1, 3, dtype="int32") * 2**28}),
    Case("Acosh", 22, {"x": np.array(3, np.float32)}, expected=np.arccosh),
    Case("Atanh", 9, {"x": UNIT}, expected=np.arctanh), Case("Atanh", 22, {"x": np.array(0.5, np.float32)}),
    Case("PRelu", 1, {"x": X, "slope": random(3)}, expected=numpy_prelu),
    Case("PRelu", 6, {"x": X, "slope": random(1)}, expected=numpy_prelu),
    *[Case("PRelu", opset, {"x": random(2, 3, 4, 5), "slope": random(*dims, seed=1)})
      for opset in (7, 9, 16) for dims in [(3, 1, 1), (5,), (1,), (2, 3, 4, 5), (4, 1)]],
    Case("Dropout", 6, {"x": X}, {"is_test": 1}, outputs=2, expected=lambda x, is_test: (x, np.ones_like(x))),
    Case("Dropout", 7, {"x": X}, {"ratio": 0.3}), Case("Dropout", 10, {"x": X}, outputs=2, expected=kept),
    Case("Dropout", 12, {"x": X}, outputs=2, expected=kept),
    Case("Dropout", 13, {"x": X, "ratio": np.array(0.0, np.float32), "training": np.array(True)},
         outputs=2, expected=kept),
    Case("Dropout", 22, {"x": X, "ratio": np.array(0.5, np.float32), "training": np.array(False)},
         constants=["training"], outputs=2, expected=kept),
    *[Case("Dropout", opset, {"x": x}, {"is_test": 1, "ratio": 0.4, **more}, outputs=2, note=f"{x.shape}",
           expected=lambda x, **_: (x, np.ones_like(x)))
      for opset, more in [(1, {"consumed_inputs": [0]}), (6, {})] for x in (X, random(2, 3, 4, 5), np.array(2, np.float32))],
    *[case for op, expected in [("Relu", lambda x, **_: np.maximum(x, 0)),
                                ("Sigmoid", lambda x, **_: (1 / (1 + np.exp(-x))).astype(np.float32))]
      for case in everywhere(op, 1, expected, consumed_inputs=[0])],
    *[Case(op, opset, {"x": np.zeros((2, 0, 3), np.float32)}, expected=lambda x: x) for op, opset in
      [("Relu", 14), ("Sigmoid", 13), ("Erf", 13), ("Elu", 6), ("Softplus", 1), ("HardSwish", 14), ("Asinh", 9)]],
    *[at_sizes(Case(op, opset, {"x": X}, attributes, expected=expected), {"x": ["batch", "seq", 4]}, {"x": random(1, 5, 4)})
      for op, opset, attributes, expected in [
          ("Erf", 20, {}, None), ("Gelu", 20, {}, None), ("Gelu", 20, {"approximate": "tanh"}, None), ("Elu", 20, {}, None),
          ("Relu", 14, {}, None), ("Sigmoid", 13, {}, None), ("Selu", 6, {}, None), ("Celu", 12, {"alpha": 0.5}, None),
          ("LeakyRelu", 16, {"alpha": 0.2}, None), ("ThresholdedRelu", 10, {"alpha": 0.3}, None),
          ("HardSigmoid", 6, {}, None), ("HardSwish", 14, {}, numpy_hardswish), ("Softplus", 1, {}, None),
          ("Softsign", 1, {}, None), ("Mish", 18, {}, numpy_mish), ("Swish", 24, {"alpha": 1.5}, numpy_swish),
          ("Shrink", 9, {"lambd": 0.4, "bias": 0.1}, None), ("Asinh", 9, {}, None), ("Dropout", 7, {}, None)]],
    *[at_sizes(Case(op, 22, {"x": x}, expected=expected), {"x": ["n", 3, "h", "w"]}, {"x": x[:1, :, :1, 2:]})
      for op, x, expected in [("Acosh", np.abs(random(2, 3, 4, 5)) + np.float32(1), np.arccosh),
                              ("Atanh", np.tanh(random(2, 3, 4, 5)), np.arctanh)]],
    at_sizes(Case("Dropout", 22, {"x": X, "ratio": np.array(0.5, np.float32), "training": np.array(False)}, outputs=2,
                  expected=kept), {"x": ["batch", "seq", 4]}, {"x": random(1, 5, 4)}),
    at_sizes(Case("PRelu", 16, {"x": random(2, 3, 4, 5), "slope": random(3, 1, 1)}), {"x": ["n", 3, "h", "w"]},
             {"x": random(1, 3, 6, 2)}),
    at_sizes(Case("PRelu", 6, {"x": X, "slope": random(3)}, expected=numpy_prelu), {"x": ["n", 3, "w"]},
             {"x": random(1, 3, 6)}),
]


DERIVATIVES = [
    *[Derivative(op, {"x": NEAR}) for op in ("Sigmoid", "Softplus", "Softsign", "Asinh", "Relu", "LeakyRelu", "Elu", "Dropout")],
    Derivative("Atanh", {"x": NARROW}),
    Derivative("Acosh", {"x": POSITIVE + 1}),
    Derivative("LeakyRelu", {"x": NEAR}, {"alpha": 0.3}),
    Derivative("Elu", {"x": NEAR}, {"alpha": 0.7}),
    *[Derivative("Celu", {"x": NEAR}, {"alpha": alpha}) for alpha in (1.0, 0.7, -0.7)],
    Derivative("HardSwish", {"x": near(2, 3, low=-4, high=4)}),
    Derivative("Gelu", {"x": NEAR}, opset=20, step=2e-3),
    Derivative("Gelu", {"x": NEAR}, {"approximate": "tanh"}, opset=20),
    Derivative("Erf", {"x": NEAR}, step=2e-3),
    Derivative("Selu", {"x": NEAR}),
    Derivative("Selu", {"x": NEAR}, {"alpha": 1.2, "gamma": 0.7}),
    *[Derivative("HardSigmoid", {"x": near(2, 3, low=-4, high=4)}, attributes) for attributes in ({}, {"alpha": -0.3, "beta": 0.4})],
    *[Derivative("Swish", {"x": NEAR}, {"alpha": alpha}, opset=24) for alpha in (1.0, -1.5)],
    *[Derivative("Shrink", {"x": NEAR}, {"lambd": limit, "bias": 0.1}) for limit in (0.5, -0.5)],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    with np.errstate(all="ignore"):
        check_case(case)


def test_training_dropout_scales_what_it_keeps() -> None:
    """Every element is 0 or doubled, as the mask says; both happen."""

    def check(x: Array, ratio: Array, training: Array, **_: Any) -> tuple[Array]:
        return (x,)

    x = np.ones((20, 30), np.float32)
    case = Case("Dropout", 13, {"x": x, "ratio": np.array(0.5, np.float32), "training": np.array(True)},
                {"seed": 7}, outputs=2, constants=["training"], expected=check)
    with ScoringFunction(import_model(case_model(case))) as function:
        found = function({"x": x, "ratio": np.array(0.5, np.float32)})
    np.testing.assert_array_equal(found["out0"], 2 * found["out1"])
    assert 0.3 < found["out1"].mean() < 0.7


FAR_LEFT = -np.array([0, 1, 15, 17.5, 19, 30, 36, 38, 80])
TINY = -np.array([0, 1e-7, 1e-9, 3e-12, 1e-14, 2e-17, 1e-30])


@pytest.mark.parametrize(
    ("op", "opset", "x", "attributes", "expected"),
    [
        *[("Elu", 6, TINY, {"alpha": alpha}, alpha * np.expm1(TINY)) for alpha in (1.0, 1.5)],
        ("Elu", 6, TINY.reshape(1, 1, 1, -1), {}, np.expm1(TINY).reshape(1, 1, 1, -1)),
        ("Celu", 12, TINY, {}, np.expm1(TINY)),
        ("Softplus", 1, FAR_LEFT, {}, np.log1p(np.exp(FAR_LEFT))),
        ("Erf", 13, TINY, {}, 2 / math.sqrt(math.pi) * TINY),
        ("Celu", 12, TINY, {"alpha": 0.5}, 0.5 * np.expm1(TINY / 0.5)),
        ("Selu", 6, TINY, {"alpha": 1.5, "gamma": 0.5}, 0.75 * np.expm1(TINY)),
        ("Gelu", 20, np.linspace(-14, 0, 57), {}, numpy_gelu(np.linspace(-14, 0, 57))),
    ],
)
def test_small_results_keep_their_digits(op: str, opset: int, x: Array, attributes: Any, expected: Array) -> None:
    model = case_model(Case(op, opset, {"x": x.astype(np.float32)}, attributes))
    with ScoringFunction(import_model(model)) as function:
        found = function({"x": x.astype(np.float32)})["out0"]
    np.testing.assert_allclose(found, expected.astype(np.float32), 1e-5, 0)
