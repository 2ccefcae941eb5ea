"""Products and convolutions of onnxruntime's optimisers."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random

A, B = random(2, 3, 4, 5), random(2, 3, 5, 6, seed=1)
IMAGE, FILTERS = random(2, 3, 7, 6), random(4, 3, 3, 3, seed=1)


def matmul(a: tuple[int, ...], b: tuple[int, ...], **attributes: object) -> Case:
    """A product of two random factors of the given dims."""
    return contrib("FusedMatMul", {"a": random(*a), "b": random(*b, seed=1)}, attributes=attributes)


def gemm(activation: str, **attributes: float) -> Case:
    return contrib("FusedGemm", {"a": random(3, 4), "b": random(4, 5, seed=1), "c": random(5, seed=2)},
                   attributes={"activation": activation, **attributes})


def fast_gelu_of_sum(x: Array, _: Array, bias: Array) -> Array:
    """No kernel for CPUs: by numpy, for a product with the identity."""
    total = x + bias
    return (total / (1 + np.exp(-np.sqrt(8 / np.pi) * (total + 0.044715 * total**3)))).astype(x.dtype)


SIZED = [
    at_sizes(matmul((2, 3, 4, 5), (2, 3, 6, 5), transB=1, alpha=0.5),
             {"a": ["batch", 3, "seq", 5], "b": ["batch", 3, "past", 5]}, {"a": random(3, 3, 2, 5), "b": random(3, 3, 7, 5)}),
    *[at_sizes(case, {"a": ["batch", 3, "seq", 5], "b": ["batch", 3, 5, 6]},
               {"a": random(1, 3, 2, 5), "b": random(1, 3, 5, 6)}) for case in (
        contrib("TransposeMatMul", {"a": A, "b": B}, attributes={"alpha": 0.5}),
        contrib("FusedMatMulActivation", {"a": A, "b": B}, attributes={"activation": "Relu"},
                expected=lambda a, b, **_: np.maximum(a @ b, 0)))],
    at_sizes(gemm("Relu"), {"a": ["batch", 4]}, {"a": random(5, 4)}),
    at_sizes(contrib("GemmFastGelu", {"x": random(2, 3, 4), "w": np.eye(4, dtype=np.float32), "bias": random(4, seed=1)},
                     expected=fast_gelu_of_sum), {"x": ["batch", "seq", 4]}, {"x": random(1, 5, 4)}),
    at_sizes(contrib("FusedConv", {"x": IMAGE, "w": FILTERS, "b": random(4, seed=2)}, attributes={"activation": "Relu"}),
             {"x": ["batch", 3, 7, 6]}, {"x": random(3, 3, 7, 6)}),
]
CASES = [
    matmul((3, 4), (4, 5)),
    matmul((4, 3), (4, 5), transA=1, alpha=0.5),
    matmul((3, 4), (5, 4), transB=1),
    matmul((4, 3), (5, 4), transA=1, transB=1),
    matmul((2, 4, 3), (4, 5), transA=1, alpha=-2.0),
    matmul((2, 3, 4), (5, 4), transB=1),
    matmul((2, 3, 4), (2, 5, 4), transB=1, alpha=0.125),
    matmul((2, 3, 4, 5), (2, 3, 6, 5), transB=1),
    matmul((2, 3, 5, 4), (2, 3, 6, 5), transA=1, transB=1),
    matmul((2, 1, 4, 5), (1, 3, 6, 5), transB=1),
    matmul((4, 5), (2, 3, 6, 5), transB=1),
    matmul((5, 4), (2, 3, 5, 6), transA=1),
    matmul((5,), (2, 6, 5), transB=1),
    matmul((2, 4, 5), (5,), transA=0),
    matmul((4, 2, 5), (2, 5, 6), transBatchA=1),
    matmul((4, 2, 3, 5), (6, 2, 3, 5), transBatchA=1, transBatchB=1, transB=1),
    matmul((5, 2, 3, 4), (2, 3, 5, 6), transBatchA=1, transA=1),
    matmul((2, 3, 4, 5), (5, 2, 3, 6), transBatchB=1),
    contrib("TransposeMatMul", {"a": A, "b": B}, attributes={"alpha": 0.5}),
    contrib("FusedMatMulActivation", {"a": A, "b": B}, attributes={"activation": "Relu", "alpha": 2.0},
            expected=lambda a, b, **_: np.maximum(2 * (a @ b), 0)),
    contrib("FusedMatMul", {"a": random(2, 3, 4), "w": random(5, 4, seed=1)}, attributes={"transB": 1}, constants=["w"]),
    matmul((4, 3000), (2, 3000), transB=1),  # few long rows
    matmul((2, 4, 3000), (2, 2, 3000), transB=1),
    gemm("Relu"),
    gemm("Sigmoid"),
    gemm("Tanh", alpha=0.5, beta=2.0),
    gemm("LeakyRelu", activation_alpha=0.3),
    gemm("Elu", activation_alpha=0.7),
    gemm("HardSigmoid", activation_alpha=0.3, activation_beta=0.4),
    gemm("Selu", activation_alpha=1.5, activation_gamma=1.1),
    gemm("ThresholdedRelu", activation_alpha=0.3),
    contrib("FusedGemm", {"a": random(4, 3), "b": random(5, 4, seed=1)},
            attributes={"activation": "Relu", "transA": 1, "transB": 1}),
    contrib("GemmFastGelu", {"x": random(2, 3, 4), "w": np.eye(4, dtype=np.float32), "bias": random(4, seed=1)},
            expected=fast_gelu_of_sum),
    contrib("FusedConv", {"x": IMAGE, "w": FILTERS, "b": random(4, seed=2)}, attributes={"activation": "Relu"}),
    contrib("FusedConv", {"x": IMAGE, "w": FILTERS}, attributes={"activation": "Tanh", "pads": [1, 1, 1, 1],
                                                                "strides": [2, 1]}),
    contrib("FusedConv", {"x": IMAGE, "w": FILTERS, "b": random(4, seed=2), "z": random(2, 4, 7, 6, seed=3)},
            attributes={"activation": "Relu", "auto_pad": "SAME_UPPER"}),
    contrib("FusedConv", {"x": IMAGE, "w": FILTERS, "b": None, "z": random(2, 4, 5, 4, seed=3)}),
    contrib("FusedConv", {"x": IMAGE, "w": FILTERS}, attributes={"activation": "LeakyRelu", "activation_params": [0.2]}),
    contrib("FusedConv", {"x": IMAGE, "w": FILTERS},
            attributes={"activation": "Clip", "activation_params": [-0.5, 0.75]}),
    contrib("FusedConv", {"x": IMAGE, "w": FILTERS},
            attributes={"activation": "HardSigmoid", "activation_params": [0.3, 0.6]}),
    contrib("FusedConv", {"x": random(2, 4, 9), "w": random(4, 2, 3, seed=1)},
            attributes={"activation": "Sigmoid", "group": 2, "dilations": [2]}),
    *SIZED,
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_unknown_activations_are_refused() -> None:
    with pytest.raises(TranspileError, match="activation"):
        check_case(gemm("Mystery"))
