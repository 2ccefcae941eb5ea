"""ArgMax, ArgMin, CumSum, CumProd, TopK, Unique, NonZero and ReverseSequence in every version."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, random

X = random(3, 4, 5, seed=1)
TIES = random(3, 4, 5, dtype="int64").astype(np.float32) % 3
BAD = np.array([[1, np.nan, np.inf, np.nan], [-np.inf, -np.inf, 2, -np.inf], [3, 3, 1, 3]], np.float32)
WITH_NAN = np.array([2, np.nan, 1, -3, 5, np.nan, 0, 2, np.inf, np.nan, -np.inf], np.float32)
WORDS = np.random.default_rng(0).integers(0, 2**32, (3, 4, 5)) | 1
AXES = (0, 1, -1)


def arg(function: object, x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    if select_last_index:
        return x.shape[axis] - 1 - arg(function, np.flip(x, axis), axis, keepdims)
    return function(x, axis=axis, keepdims=bool(keepdims))  # type: ignore[operator]


def cumulated(function: object, neutral: int, x: Array, axis: Array, exclusive: int = 0, reverse: int = 0) -> Array:
    at = int(axis)
    x = np.flip(x, at) if reverse else x
    result = function(x, axis=at).astype(x.dtype)  # type: ignore[operator]
    if exclusive:
        shape = list(x.shape)
        shape[at] = 1
        result = np.concatenate([np.full(shape, neutral, x.dtype), np.delete(result, -1, at)], at)
    return np.flip(result, at) if reverse else result


def different_slices(x: Array, axis: int | None = None, sorted: int = 1) -> tuple[Array, ...]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    places = np.arange(first.size) if sorted else np.argsort(first)
    return values.take(places, 0), first[places], np.argsort(places)[inverse.reshape(-1)], counts[places]


def largest_by_numpy(x: Array, k: Array) -> tuple[Array, Array]:
    """TopK along the last axis of a matrix; NaN is more than infinity."""
    keys = -np.where(np.isnan(x), np.inf, x)
    places = np.array([np.lexsort((np.arange(row.size), key, ~np.isnan(row))) for row, key in zip(x, keys)])[:, : k[0]]
    return np.take_along_axis(x, places, 1), places


def k(count: int) -> Array:
    return np.array([count], np.int64)


CASES = [
    *[Case(op, opset, {"x": TIES}, {"axis": axis, "keepdims": keepdims}, note=f"{axis} {keepdims}",
           expected=lambda x, op=op, **kw: arg(np.argmax if op == "ArgMax" else np.argmin, x, **kw))
      for op in ("ArgMax", "ArgMin") for opset, axis, keepdims in [(1, 0, 1), (11, 1, 0), (13, -1, 1), (13, 2, 0)]],
    *[Case(op, 12, {"x": x}, {"axis": axis, "select_last_index": 1}, note=f"last {axis}",
           expected=lambda x, op=op, **kw: arg(np.argmax if op == "ArgMax" else np.argmin, x, **kw))
      for op in ("ArgMax", "ArgMin") for axis, x in [(1, TIES), (1, BAD)]],
    *[Case(op, 13, {"x": BAD}, {"axis": 1}, note="infinite",
           expected=lambda x, op=op, **kw: arg(np.argmax if op == "ArgMax" else np.argmin, x, **kw))
      for op in ("ArgMax", "ArgMin")],
    Case("ArgMax", 13, {"x": random(6)}, {"keepdims": 0}),
    *[Case("CumSum", opset, {"x": X, "a": np.array(axis)}, attributes, constants=["a"], note=f"{axis} {attributes}")
      for opset, attributes in [(11, {}), (14, {"exclusive": 1}), (14, {"reverse": 1}),
                                (14, {"exclusive": 1, "reverse": 1})] for axis in AXES],
    Case("CumSum", 14, {"x": np.array([[np.nan, np.inf, 1], [np.inf, -np.inf, 1], [-np.inf, 2, 1]], np.float32),
                        "a": np.array(1)}, constants=["a"], note="infinite"),
    *[Case(op, opset, {"x": np.vstack([BAD, -BAD]), "a": np.array(axis)}, {"reverse": axis}, constants=["a"], note=f"infinite {axis}",
           expected=lambda x, a, f=f, **kw: cumulated(f, int(f is np.cumprod), x, a, **kw))
      for op, opset, f in (("CumSum", 14, np.cumsum), ("CumProd", 26, np.cumprod)) for axis in (0, 1)],
    Case("CumSum", 14, {"x": random(3, 4, dtype="int32"), "a": np.array(0)}, constants=["a"]),
    *[Case(op, opset, {"x": WORDS.astype(dtype), "a": np.array(axis)}, attributes, constants=["a"],
           note=f"{dtype} wraps {axis}", expected=lambda x, a, f=f, **kw: cumulated(f, int(f is np.cumprod), x, a, **kw))
      for op, opset, f in (("CumSum", 14, np.cumsum), ("CumProd", 26, np.cumprod)) for dtype in ("int32", "uint32")
      for axis, attributes in [(0, {}), (1, {"reverse": 1, "exclusive": 1}), (-1, {"exclusive": 1})]],
    Case("CumSum", 14, {"x": WORDS, "a": np.array(1)}, constants=["a"], note="int64",
         expected=lambda x, a: np.cumsum(x, 1)),
    Case("CumSum", 14, {"x": random(2, 3, 4), "a": np.array(-1)}, {"exclusive": 1}, constants=["a"]),
    Case("CumSum", 14, {"x": random(3, 4, dtype="int32"), "a": np.array(1)}, {"exclusive": 1}, constants=["a"]),
    at_sizes(Case("CumSum", 14, {"x": random(3, 4), "a": np.array(1)}, {"exclusive": 1}, constants=["a"], note="of one"),
             {"x": ["n", "m"]}, {"x": random(2, 1)}),
    *[Case("CumProd", 26, {"x": X, "a": np.array(axis)}, attributes, constants=["a"], note=f"{axis} {attributes}",
           expected=lambda x, a, **kw: cumulated(np.cumprod, 1, x, a, **kw))
      for axis, attributes in [(0, {}), (1, {"exclusive": 1}), (-1, {"reverse": 1, "exclusive": 1})]],
    Case("TopK", 1, {"x": X}, {"k": 2, "axis": 1}, outputs=2,
         expected=lambda x, k, axis: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2])),
    Case("TopK", 10, {"x": X, "k": k(3)}, constants=["k"], outputs=2),
    *[Case("TopK", 11, {"x": TIES, "k": k(3)}, {"axis": axis, "largest": largest}, constants=["k"], outputs=2,
           note=f"{axis} {largest}") for axis in AXES for largest in (0, 1)],
    *[Case("TopK", 11, {"x": random(3, 40, dtype="int64").astype(np.float32), "k": k(20)}, {"largest": largest},
           constants=["k"], outputs=2, note=f"sorted {largest}") for largest in (0, 1)],
    Case("TopK", 24, {"x": BAD[1:], "k": k(3)}, constants=["k"], outputs=2,
         expected=lambda x, k: (np.array([[2, -np.inf, -np.inf], [3, 3, 3]], np.float32),
                                np.array([[2, 0, 1], [0, 1, 3]]))),
    *[Case("TopK", 24, {"x": np.resize(np.array([np.inf, np.nan, 1, np.inf, 2], np.float32), (3, size)), "k": k(count)}, constants=["k"],
           outputs=2, note=f"NaN above infinity {count}", expected=largest_by_numpy) for size, count in [(4, 2), (40, 20)]],
    *[Case("NonZero", opset, {"x": x}, note=str(x.shape))
      for opset, x in [(9, TIES), (13, random(4, 5, dtype="bool")), (13, np.array([0, 3, 0, np.nan], np.float32))]],
    *[Case("Unique", 11, {"x": TIES}, attributes, outputs=4, note=str(attributes))
      for attributes in [{}, {"sorted": 0}, {"axis": 0}, {"axis": 1}, {"axis": -1, "sorted": 0}]],
    Case("Unique", 11, {"x": np.array([[[1, 2], [1, 2]], [[1, 2], [1, 3]]], np.float32)}, {"axis": 1}, outputs=4,
         note="order of columns"),
    Case("Unique", 11, {"x": random(9, dtype="int64")}, outputs=["y", "", "", "counts"]),
    *[Case("Unique", 11, {"x": np.resize(WITH_NAN, (60, *size))}, attributes, outputs=4, note=f"NaN {size} {attributes}",
           expected=different_slices)
      for size, attributes in [((), {}), ((), {"sorted": 0}), ((2,), {"axis": 0}), ((2,), {"axis": 0, "sorted": 0}), ((2,), {})]],
    *[Case("ReverseSequence", 10, {"x": random(4, 3, 2), "n": np.array(n)},
           {"time_axis": time, "batch_axis": 1 - time}, note=str(time))
      for time, n in [(0, [4, 1, 3]), (1, [1, 3, 2, 3])]],
]

SMALL, LARGE, SYMBOLS = random(2, 3, 4), random(5, 3, 7), {"x": ["batch", 3, "seq"]}
CASES += [at_sizes(case, SYMBOLS, {"x": LARGE}) for case in [
    *[Case(op, 13, {"x": SMALL}, {"axis": axis}) for op in ("ArgMax", "ArgMin") for axis in AXES],
    *[Case("CumSum", 14, {"x": SMALL, "a": np.array(axis)}, {"reverse": 1}, ["a"], note=f"{axis}") for axis in AXES],
    *[Case("CumSum", 14, {"x": SMALL, "a": np.array(axis)}, {"exclusive": 1}, ["a"], note=f"exclusive {axis}") for axis in AXES],
    *[Case("CumProd", 26, {"x": SMALL, "a": np.array(axis)}, {"exclusive": 1}, ["a"], note=f"{axis}",
           expected=lambda x, a, **kw: cumulated(np.cumprod, 1, x, a, **kw)) for axis in AXES],
    *[Case("TopK", 11, {"x": SMALL, "k": k(2)}, {"axis": axis}, ["k"], outputs=2, note=f"{axis}") for axis in AXES],
    Case("NonZero", 13, {"x": SMALL}),
    *[Case("Unique", 11, {"x": np.round(SMALL)}, attributes, outputs=4, note=str(attributes))
      for attributes in [{}, {"sorted": 0}, {"axis": 0}, {"axis": -1}]],
]]
CASES += [at_sizes(Case("ReverseSequence", 10, {"x": random(4, 3, 2, 2), "n": np.array([4, 1, 3])},
                        {"time_axis": 0, "batch_axis": 1}),
                   {"x": ["time", "batch", 2, 2], "n": ["batch"]}, {"x": random(5, 2, 2, 2), "n": np.array([2, 5])})]


SOME_ZEROS = np.array([[1.5, 0, -2, 0.5], [0.7, 2, 0, 0], [0.3, -1, 2, 3]])
DERIVATIVES = [
    *[Derivative("CumProd", {"x": SOME_ZEROS, "a": np.array(1)}, {"reverse": reverse, "exclusive": exclusive}, 26, fixed=["a"])
      for reverse in (0, 1) for exclusive in (0, 1)],
    Derivative("TopK", {"x": near(3, 5), "k": np.array([2])}, {"axis": 1, "largest": 0}, fixed=["k"], outputs=2),
    Derivative("ReverseSequence", {"x": near(4, 2, 3), "l": np.array([4, 2])}, fixed=["l"]),
    *[Derivative("CumSum", {"x": near(2, 3), "a": np.array(1)}, {"reverse": reverse, "exclusive": exclusive}, fixed=["a"])
      for reverse, exclusive in ((0, 0), (1, 0), (0, 1), (1, 1))],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_counts_that_only_the_run_knows() -> None:
    """One script serves every k."""
    x = random(2, 3, 4)
    for axis in AXES:
        sizes = [{"x": x, "k": k(count)} for count in (1, 0)]
        check_case(Case("TopK", 11, {"x": x, "k": k(2)}, {"axis": axis}, outputs=2, sizes=sizes))


@pytest.mark.parametrize("lengths", [[2, 4], [-1, 3]])
def test_lengths_beyond_the_axis_are_refused(lengths: list[int]) -> None:
    case = Case("ReverseSequence", 10, {"x": random(2, 3, 2), "n": np.array(lengths)}, {"batch_axis": 0, "time_axis": 1})
    with (
        ScoringFunction(import_model(case_model(case))) as function,
        pytest.raises(ScriptRuntimeError, match="the lengths of sequences are .* the axis is 3; the script takes them to be within"),
    ):
        function(case.inputs)
