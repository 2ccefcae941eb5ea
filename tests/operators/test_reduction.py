"""Reductions: every operator, version, axes combination and way of naming the axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import AXIS_1, POSITIVE, Derivative, near
from tests.operators.harness import Case, check_case, ints, random

OPERATORS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
             "ReduceLogSumExp", "ReduceSumSquare"]
X = np.abs(random(2, 3, 4, 5)) + np.float32(0.1)
WORDS = np.random.default_rng(0).integers(0, 2**32, (3, 5, 4)) | 1
ALL_AXES = [axes for count in (1, 2, 3, 4) for axes in itertools.combinations(range(4), count)]


def by_input(op: str, axes: list[int] | None, opset: int = 18, **attributes: int) -> Case:
    """The axes as a constant input."""
    given = None if axes is None else np.array(axes, np.int64)
    return Case(op, opset, {"x": X, "axes": given}, attributes, constants=["axes"], note=f"{axes}-{attributes}")


def beside_zeros(op: str, size: int) -> Case:
    """An extreme along a short axis, of which one place holds zeros only."""
    x = np.abs(random(4, size, 3)) * (1 if op == "ReduceMin" else -1)
    x[:, size // 2] = 0
    return Case(op, 18, {"x": x, "axes": np.array([1], np.int64)}, constants=["axes"], note=f"one of {size} zeros",
                symbols={"x": ["n", size, 3]}, sizes=[{"x": x[:1]}])


CASES = [
    *[beside_zeros(op, size) for op in ("ReduceMin", "ReduceMax") for size in (3, 4, 5, 8)],
    *[by_input(op, list(axes)) for op in ("ReduceMax", "ReduceMean", "ReduceLogSumExp") for axes in ALL_AXES],
    *[by_input(op, [-2], keepdims=0) for op in OPERATORS],
    *[by_input(op, [0, 2], keepdims=0) for op in OPERATORS],
    *[by_input(op, None) for op in OPERATORS],
    *[by_input(op, None, noop_with_empty_axes=1) for op in ("ReduceSum", "ReduceMax")],
    by_input("ReduceSum", [1], 13, keepdims=0),
    *[Case(op, opset, {"x": X}, {"axes": [1, -1], "keepdims": 0}) for op in OPERATORS for opset in (11, 12)],
    *[Case(op, 1, {"x": X}, {"axes": [1]}) for op in OPERATORS],
    *[Case(op, 13, {"x": X}, {"axes": [0]}) for op in OPERATORS if op != "ReduceSum"],
    *[Case(op, 18, {"x": np.array(-2.5, np.float32)}) for op in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceMax")],
    *[Case("ReduceSum", 13, {"x": random(*dims), "axes": np.array([1], np.int64)}, constants=["axes"])
      for dims in [(40, 3, 2), (20, 3, 2), (1, 3, 2), (3, 1, 2)]],
    *[Case(op, 20, {"x": random(3, 4, 2, dtype="bool"), "axes": np.array([1], np.int64)}, {"keepdims": 0},
           constants=["axes"], expected=lambda x, _, keepdims, f=f: f(x, axis=1))
      for op, f in (("ReduceMax", np.max), ("ReduceMin", np.min))],
    Case("ReduceSum", 13, {"x": np.full((2, 3), 2**31 - 1, np.int32), "axes": np.array([1], np.int64)},
         constants=["axes"], expected=lambda x, _: x.sum(axis=1, keepdims=True, dtype=np.int32), note="wraps"),
    *[Case(op, 18, {"x": WORDS.astype(dtype), "axes": np.array(axes)}, constants=["axes"], note=f"{dtype} wraps {axes}",
           expected=lambda x, axes, f=f: f(x, tuple(axes)))
      for op, f in (("ReduceProd", lambda x, axes: x.prod(axes, x.dtype, keepdims=True)),
                    ("ReduceSumSquare", lambda x, axes: (x * x).sum(axes, x.dtype, keepdims=True)))
      for dtype in ("int32", "uint32") for axes in ([0], [1], [2], [0, 2], [0, 1, 2])],
    *[Case("ReduceSumSquare", 13, {"x": np.full(dims, 1 - 2**31, np.int32)}, note=f"one element wraps {dims}",
           expected=lambda x: x * x) for dims in ((), (1, 1))],
    Case("ReduceMean", 18, {"x": np.array([[-3, -4], [3, 4]], np.int32), "axes": np.array([1], np.int64)},
         constants=["axes"], expected=lambda x, _: np.array([[-3], [3]], np.int32)),
    Case("ReduceLogSumExp", 18, {"x": np.array([[1e4, 1e4], [-np.inf, -np.inf], [-np.inf, 1], [np.inf, 1]], np.float32),
         "axes": np.array([1], np.int64)}, constants=["axes"], expected=lambda x, _: np.logaddexp(x[:, :1], x[:, 1:])),
    Case("ReduceSum", 13, {"x": np.array([[[1, np.nan], [2, 3]], [[4, np.inf], [5, 6]]], np.float32),
         "axes": np.array([1], np.int64)}, constants=["axes"], note="not finite"),
    *[Case(op, 18, {"x": np.abs(random(2, 3, 4)), "axes": np.array(axes, np.int64)}, constants=["axes"], note=str(axes),
           symbols={"x": ["batch", "seq", 4]}, sizes=[{"x": np.abs(random(5, 1, 4))}])
      for op in ("ReduceSum", "ReduceMax", "ReduceLogSumExp") for axes in [[1], [0, 2], [-1], [0], [0, 1, 2]]],
    *[Case(op, 18, {"x": X, "axes": np.array([1, -1], np.int64)}, {"keepdims": 0}, constants=["axes"],
           symbols={"x": ["batch", "channels", 4, "width"]}, sizes=[{"x": np.abs(random(1, 2, 4, 7))}])
      for op in OPERATORS],
    *[Case(op, 18, {"x": random(2, 3, 4), "axes": np.array([0, 1], np.int64)}, constants=["axes"], note="one row",
           symbols={"x": ["n", "m", 4]}, sizes=[{"x": random(1, 1, 4, seed=1)}]) for op in ("ReduceSumSquare", "ReduceL2")],
]


def test_the_sum_of_squares_of_one_row() -> None:
    nodes = [helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("ReduceSum", ["s", "axes"], ["y"], keepdims=0)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", ["n", "m", 4]), ("y", [4]))]
    graph = helper.make_graph(nodes, "squares", infos[:1], infos[1:], [numpy_helper.from_array(np.array([0, 1]), "axes")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with ScoringFunction(import_model(model)) as function:
        for x in (random(1, 1, 4), random(2, 3, 4)):
            np.testing.assert_allclose(function({"x": x})["y"], (x * x).sum((0, 1)), rtol=1e-6)


SOME_ZEROS = np.where(np.arange(24).reshape(2, 3, 4) % 7 == 2, 0, near(2, 3, 4))  # one, two and none along an axis
DERIVATIVES = [
    *[Derivative("ReduceProd", {"x": x, "a": axes}, {"keepdims": keepdims}, fixed=["a"])
      for x in (near(2, 3, 4), SOME_ZEROS) for axes, keepdims in [(AXIS_1, 1), (ints(0, -1), 0)]],
    *[Derivative(op, {"x": near(2, 3, 4), "a": axes}, {"keepdims": keepdims}, fixed=["a"])
      for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp")
      for axes, keepdims in [(AXIS_1, 1), (AXIS_1, 0), (ints(0, -1), 0)]],
    Derivative("ReduceLogSum", {"x": POSITIVE, "a": AXIS_1}, fixed=["a"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
