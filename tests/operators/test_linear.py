"""Matrix products in every version, rank and broadcast form."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, check_case, random

A, B = random(3, 4), random(4, 5, seed=1)


def words(dtype: str, *dims: int, seed: int = 0) -> Array:
    """Integers of 32 bits, large ones."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, dims, dtype)


CASES = [
    *[
        Case("MatMul", opset, {"a": random(*left, seed=2), "b": random(*right, seed=3)})
        for opset in (9, 13)
        for left, right in [
            ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 6, 3, 4), (2, 6, 4, 5)),
            ((2, 1, 3, 4), (1, 6, 4, 5)), ((3, 4), (2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)),
            ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((1, 3, 4), (1, 4, 5)), ((2, 3, 4), (1, 4, 5)),
        ]
    ],
    Case("MatMul", 1, {"a": A, "b": B}, expected=np.matmul),
    *[Case("MatMul", 13, {"a": np.zeros(left, np.float32), "b": np.zeros(right, np.float32)}, note="sums of nothing",
           expected=np.matmul) for left, right in [((1, 2, 0), (3, 0, 2)), ((0,), (0,)), ((2, 0), (0,))]],
    Case("MatMul", 13, {"a": random(2, 3, dtype="int32"), "b": random(3, 2, dtype="int32", seed=1)}),
    Case("MatMul", 13, {"a": np.full((1, 2), 2**20, np.int32), "b": np.full((2, 1), 2**11, np.int32)}, note="wraps",
         expected=lambda a, b: (a.astype(np.int64) @ b).astype(np.int32)),
    *[Case("MatMul", 13, {"a": words(dtype, *left), "b": words(dtype, *right, seed=1)}, note=dtype, expected=np.matmul)
      for dtype in ("int32", "uint32") for left, right in [((6, 9), (9, 4)), ((2, 3, 5), (2, 5, 4)), ((9,), (9,))]],
    *[Case("MatMul", 13, {"a": words("int32", 6, 9), "b": words("int32", 9, 4) // divisor}, constants=["b"],
           note=f"constant {divisor}", expected=np.matmul) for divisor in (1, 2**20)],
    Case("Gemm", 13, {"a": words("int32", 9, 6), "b": words("int32", 9, 4), "c": words("int32", 4)}, {"transA": 1},
         expected=lambda a, b, c, **_: a.T @ b + c),
    Case("MatMul", 13, {"a": random(2, 3, 4), "b": B}, constants=["b"]),
    at_sizes(Case("Gemm", 13, {"a": random(4, 3000), "b": random(2, 3000, seed=1), "c": random(2)}, {"transB": 1},
                  constants=["b", "c"], note="few long rows"), {"a": ["n", 3000]},
             {"a": random(1, 3000)}, {"a": random(16, 3000)}),
    at_sizes(Case("MatMul", 13, {"a": random(3, 3000), "b": random(3000, 2)}, note="few long rows"),
             {"a": ["m", "k"], "b": ["k", "n"]}, {"a": random(1, 4), "b": random(4, 5)}),
    Case("MatMul", 13, {"a": random(2, 2, 3000), "b": random(3000, 3)}, note="few long rows"),
    at_sizes(Case("MatMul", 13, {"a": random(2, 5, 3000), "b": random(2, 3000, 3, seed=1)}, note="few long rows"),
             {"a": [2, "q", "k"], "b": [2, "k", 3]}, {"a": random(2, 3, 3), "b": random(2, 3, 3)}),
    *[
        Case("Gemm", opset, {"a": random(*((4, 3) if ta else (3, 4))), "b": random(*((5, 4) if tb else (4, 5)), seed=1),
                             "c": random(*bias, seed=2)},
             {"transA": ta, "transB": tb, "alpha": 0.5, "beta": 2.0}, constants=constants)
        for opset in (7, 9, 11, 13)
        for ta, tb, bias, constants in [(0, 0, (5,), []), (1, 0, (3, 1), []), (0, 1, (3, 5), ["b"]), (1, 1, (1, 5), ["b", "c"])]
    ],
    Case("Gemm", 13, {"a": random(4, 3), "b": random(5, 4, seed=1), "c": random(5)}, {"transA": 1, "transB": 1}, note="no constants"),
    Case("Gemm", 13, {"a": A, "b": B}),
    Case("Gemm", 13, {"a": A, "b": B, "c": np.array(3, np.float32)}, note="scalar bias"),
    *[
        Case("Gemm", opset, {"a": A, "b": B, "c": random(3, 5)}, {"alpha": 2.0}, expected=lambda a, b, c, alpha: alpha * a @ b + c)
        for opset in (1, 6)
    ],
    Case("Gemm", 6, {"a": A, "b": B, "c": random(5)}, {"broadcast": 1}, expected=lambda a, b, c, broadcast: a @ b + c),
    at_sizes(Case("MatMul", 13, {"a": random(2, 3, 4, 5), "b": random(2, 3, 5, 4)}),
             {"a": ["batch", 3, "seq", 5], "b": ["batch", 3, 5, "seq"]},
             {"a": random(3, 3, 7, 5), "b": random(3, 3, 5, 7)}),
    at_sizes(Case("MatMul", 13, {"a": random(2, 3, 5), "b": random(5, 4)}), {"a": ["batch", "seq", 5]},
             {"a": random(4, 6, 5)}),
    *[at_sizes(Case("Gemm", 13, {"a": random(*((4, 3) if ta else (3, 4))), "b": B, "c": random(*bias, seed=2)},
                    {"transA": ta, "alpha": 0.5, "beta": 2.0}, constants=["b"]),
               {"a": [4, "n"] if ta else ["n", 4]}, {"a": random(*((4, 6) if ta else (6, 4)))})
      for ta, bias in [(0, (5,)), (1, (1, 5)), (0, ())]],
]


DERIVATIVES = [
    *[Derivative("MatMul", {"a": near(*left), "b": near(*right, seed=1)}) for left, right in [
        ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 2, 3), (2, 3, 4)), ((2, 3), (2, 3, 4)), ((3,), (3, 4)), ((2, 3), (3,)),
        ((3,), (3,)), ((2, 1, 2, 3), (3, 3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2))]],
    *[Derivative("Gemm", {"a": near(*((3, 2) if ta else (2, 3))), "b": near(*((4, 3) if tb else (3, 4)), seed=1), "c": near(*bias)},
           {"transA": ta, "transB": tb, "alpha": 0.5, "beta": 2.0})
      for ta, tb, bias in ((0, 0, (4,)), (0, 1, (2, 1)), (1, 0, (4,)), (1, 1, (2, 4)))],
    Derivative("Gemm", {"a": near(2, 3), "b": near(3, 4)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_one_computed_cell_times_a_row() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (float[n,1] x) => (float[1,3] y) <float[1,3] w = {1, 2, 3}, int64[1] a = {0}> {
          s = ReduceSum (x, a) y = MatMul (s, w) }""")
    with ScoringFunction(import_model(model)) as function:
        found = function({"x": np.ones((5, 1), np.float32)})["y"]
    np.testing.assert_array_equal(found, [[5, 10, 15]])
