"""Slice, Gather, Compress and the scatter family in every version."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.operators.support.selection_products import sparse_padding
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, ints, random

X = random(3, 4, 5)
Y = random(2, 3, 4, 5)
BAD = np.array([[np.nan, 1, np.inf], [2, 3, 4], [-np.inf, 5, 6]], np.float32)


def sliced(x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None, *,
           note: str = "", opset: int = 13) -> Case:
    inputs = {"x": x, "starts": starts, "ends": ends, "axes": axes, "steps": steps}
    return Case("Slice", opset, inputs, constants=["starts", "ends", "axes", "steps"], note=note)


def indexed(op: str, opset: int, x: Array, i: Array, constant: bool, **attributes: int) -> Case:
    return Case(op, opset, {"x": x, "i": i}, attributes, constants=["i"] if constant else [],
                note=f"{'constant' if constant else 'run'} {attributes}")


GATHERS = [
    *[indexed("Gather", opset, Y, ints(2, 0, 1), c, axis=1) for c in (True, False) for opset in (1, 11)],
    *[indexed("Gather", 13, Y, i, c, axis=axis) for c in (True, False)
      for axis, i in [(0, ints(-1, 0, 1)), (-1, np.array([[0, -1], [4, 2]])), (2, np.array(-2)), (3, np.array(1)),
                      (1, ints(1, 2)), (-2, np.arange(40) % 4)]],
    *[indexed("Gather", 13, BAD, ints(2, 1), False, axis=axis) for axis in (0, 1)],
    *[indexed("Gather", 13, BAD[:, 1:], np.arange(140) % 2, c, axis=1) for c in (True, False)],
    *[indexed("Gather", 13, random(5), i, False) for i in (np.array(-2), ints(3, 3, -5))],
    *[indexed("GatherElements", opset, X, random(3, 4, 5, dtype="int64", seed=2) % 3, False, axis=axis)
      for opset, axis in [(11, 0), (13, 1), (13, -1)]],
    indexed("GatherElements", 13, X, np.array([[[0, -1], [2, 1]]]), False, axis=2),
    indexed("GatherElements", 13, X, np.array([[[0, -1], [2, 1]]]), True, axis=1),
    indexed("GatherElements", 13, BAD, np.array([[0, 2], [1, 0], [-1, -1]]), False, axis=1),
    indexed("GatherND", 11, X, np.array([[0, 1], [2, -1]]), False),
    indexed("GatherND", 12, Y, np.array([[[1]], [[-1]]]), False, batch_dims=1),
    indexed("GatherND", 13, Y, random(2, 3, 4, 1, dtype="int64") % 4, False, batch_dims=2),
    indexed("GatherND", 13, BAD, np.array([[0, 1], [2, 2]]), True),
]

SCATTERS = [
    *[Case(op, opset, {"x": X, "i": np.array([[[0, -1, 2, 0, 1]]]), "u": random(1, 1, 5, seed=3)}, {"axis": 0},
           note="axis 0") for op, opset in (("Scatter", 9), ("ScatterElements", 11), ("ScatterElements", 13))],
    Case("ScatterElements", 18, {"x": BAD, "i": np.array([[1, 0]]), "u": np.array([[np.nan, 7]], np.float32)},
         {"axis": 1}),
    *[Case("ScatterElements", opset, {"x": X, "i": random(3, 4, 5, dtype="int64") % 4, "u": random(3, 4, 5, seed=3)},
           {"axis": 1, "reduction": reduction}, note=reduction)
      for opset, reduction in [(16, "add"), (16, "mul"), (18, "add"), (18, "mul"), (18, "max"), (18, "min")]],
    *[Case("ScatterElements", 18, {"x": np.array([[np.iinfo(dtype).max, 5, 3]], dtype), "i": ints([0, 0, 1]),
                                   "u": np.array([[2, np.iinfo(dtype).max, 100]], dtype)},
           {"axis": 1, "reduction": reduction}, note=f"{dtype} wraps") for dtype in ("int32", "uint8") for reduction in ("add", "mul")],
    Case("ScatterElements", 18, {"x": BAD, "i": np.array([[1, 1]]), "u": np.array([[np.inf, 7]], np.float32)},
         {"axis": 1, "reduction": "add"}, note="infinite"),
    *[Case("ScatterND", opset, {"x": X, "i": np.array([[2], [0]]), "u": random(2, 4, 5, seed=3)}) for opset in (11, 13)],
    Case("ScatterND", 13, {"x": X, "i": np.array([[[2, -1], [0, 1]]]), "u": random(1, 2, 5, seed=3)}),
    *[Case("ScatterND", opset, {"x": X, "i": np.array([[2, 1], [0, 0], [2, 1]]), "u": random(3, 5, seed=3)},
           {"reduction": reduction}, note=reduction)
      for opset, reduction in [(16, "add"), (16, "mul"), (18, "max"), (18, "min"), (18, "mul")]],
]

PRIMES = [1999999973, 1999999943, -1999999927, 1999999913, 1999999873, 1999999871]
CASES = [
    *[Case("Slice", 1, {"x": Y}, {"starts": [1, -3], "ends": [3, 2**31 - 1], "axes": axes}, note=str(axes),
           expected=expected)
      for axes, expected in [([1, 3], lambda x, **_: x[:, 1:3, :, -3:]), ([2, 0], lambda x, **_: x[-3:, :, 1:3])]],
    Case("Slice", 1, {"x": Y}, {"starts": [1, -3], "ends": [2, 9]}, expected=lambda x, **_: x[1:2, -3:9]),
    sliced(Y, ints(1, 0, 0, 0), ints(2, 3, 2, -1), opset=10),
    sliced(Y, ints(-2, 1), ints(9, 4), ints(-1, 2), note="clip", opset=11),
    sliced(Y, ints(0, -1, 3), ints(2**62, -(2**62), 0), ints(1, 2, 3), ints(2, -1, -2), note="steps"),
    sliced(X, ints(-1), ints(-100), ints(0), ints(-1), note="reverse rows"),
    *[sliced(X, ints(-9), ints(end), ints(axis), ints(-1), note=f"from before the first {axis} {end}")
      for axis in (0, 1) for end in (-(2**63), -9)],
    at_sizes(sliced(random(5), ints(9), ints(-3), ints(0), ints(-2), note="backwards in twos"), {"x": ["n"]}, {"x": random(8)}),
    *[at_sizes(sliced(random(3), ints(start), ints(end), ints(0), ints(-1), note=f"backwards {start} {end}"), {"x": ["n"]},
               *({"x": x} for x in sizes))
      for start, end, *sizes in [(0, -9, random(1), random(8)), (-9, -9, random(8)), (-9, -(2**63), random(1), random(12))]],
    sliced(random(3, 50), ints(-1), ints(-100), ints(1), ints(-1), note="reverse columns"),
    sliced(random(2, 60, 3), ints(1), ints(100), ints(1), ints(3), note="many steps"),
    sliced(random(2, 300_001), ints(1), ints(300_001), ints(1), ints(2), note="more steps than are written out"),
    sliced(random(300_001), ints(-1), ints(-(2**40)), ints(0), ints(-2), note="more steps than are written out"),
    sliced(BAD, ints(0), ints(9), ints(1), ints(2), note="infinite"),
    sliced(random(7, dtype="int64"), ints(2), ints(-1), note="one axis"),
    *GATHERS,
    *SCATTERS,
    *[Case("Compress", opset, {"x": X, "c": np.array([False, True, True])}, attributes, constants=constants,
           note=f"{attributes} {constants}")
      for opset, attributes, constants in [(9, {}, []), (11, {"axis": 0}, []), (11, {"axis": 1}, []),
                                           (11, {"axis": -1}, ["c"]), (11, {"axis": 2}, [])]],
    *[Case("TensorScatter", 24, {"x": random(2, 3, 6, 4), "u": random(2, 3, 2, 4, seed=1), "w": w},
           {"axis": -2, "mode": mode}, note=mode, expected=lambda x, u, w, axis, mode: cached(x, u, w))
      for mode, w in [("linear", ints(0, 3)), ("circular", ints(5, 1))]],
]


def scattered(x: Array, i: Array, u: Array, axis: int) -> Array:
    result = x.copy()
    np.put_along_axis(result, i, u, axis)
    return result


CERTAINLY_EMPTY = [(2, 0, 1), (5, 3, 1), (-1, -3, 1), (-2, 0, 2), (2, 5, -1), (0, 0, -1), (0, -1, -1), (-3, -1, -2), (2, 2, 1)]
TALL = {"x": random(2, 3, 4), "i": random(2, 3, 4, dtype="int64") % 3}
CASES += [
    *[at_sizes(case, {"x": [2, "seq", 3]}, {"x": random(2, 8, 3, seed=5)}) for case in [
        sliced(random(2, 5, 3), ints(1), ints(-1), ints(1)), sliced(random(2, 5, 3), ints(-1), ints(2**62), ints(1)),
        sliced(random(2, 5, 3), ints(0), ints(6), ints(1)),
        sliced(random(2, 5, 3), ints(-1), ints(-(2**62)), ints(1), ints(-2)),
        *[sliced(random(2, 5, 3), ints(start), ints(end), ints(1), ints(step), note="nothing") for start, end, step in CERTAINLY_EMPTY],
        indexed("Gather", 13, random(2, 5, 3), ints(-1, 0), True, axis=1),
        indexed("Gather", 13, random(2, 5, 3), ints(-1, 0), False, axis=1)]],
    *[Case(op, 13, inputs, {"axis": 1}, symbols={name: ["n", 3, 4] for name in inputs},
           sizes=[{name: np.concatenate([array] * 3, axis=0) for name, array in inputs.items()}])
      for op, inputs in [("GatherElements", TALL), ("ScatterElements", {**TALL, "u": random(2, 3, 4)})]],
    *[at_sizes(Case("GatherND", 13, {"x": Y, "i": i}, {"batch_dims": batch}, note=f"batch_dims {batch}"), symbols, more)
      for batch, i, symbols, more in [
          (0, np.array([[0, 1], [1, -1]]), {"x": ["n", 3, "h", 5], "i": ["k", 2]},
           {"x": random(3, 3, 2, 5), "i": np.array([[0, 1], [2, -1], [-3, 0]])}),
          (1, np.array([[[1, 3]], [[-1, 0]]]), {"x": ["n", "c", "h", 5], "i": ["n", 1, 2]},
           {"x": random(1, 4, 2, 5), "i": np.array([[[3, 1]]])})]],
    *[at_sizes(Case("ScatterND", 18, {"x": X, "i": np.array([[2], [0]]), "u": random(2, 4, 5, seed=3)},
                    {"reduction": reduction}, note=reduction),
               {"x": ["n", 4, "w"], "i": ["k", 1], "u": ["k", 4, "w"]},
               {"x": random(5, 4, 2), "i": np.array([[4], [-2], [0]]), "u": random(3, 4, 2, seed=3)})
      for reduction in ("none", "add", "max")],
    *[at_sizes(Case("Scatter", opset, {"x": X, "i": random(3, 2, 5, dtype="int64") % 2, "u": random(3, 2, 5)}, {"axis": 1},
                    expected=scattered),
               {"x": ["n", 4, 5], "i": ["n", 2, 5], "u": ["n", 2, 5]},
               {"x": random(2, 4, 5), "i": random(2, 2, 5, dtype="int64") % 2, "u": random(2, 2, 5)})
      for opset in (9,)],
    *[at_sizes(Case("Compress", 11, {"x": Y, "c": np.array([False, True, True])}, attributes, constants=constants,
                    note=f"{attributes} {constants}"), {"x": ["n", 3, "h", 5]}, {"x": random(1, 3, 2, 5)})
      for attributes, constants in [({}, []), ({"axis": 1}, []), ({"axis": -3}, ["c"])]],
    at_sizes(sliced(random(7), ints(2), ints(0), ints(0), note="no element"), {"x": ["n"]}, {"x": random(2)}),
    at_sizes(Case("Compress", 11, {"x": np.zeros((1, 1, 0, 1, 2), np.float32), "c": np.zeros(0, bool)}, {"axis": 2}),
             {"x": ["n", 1, 0, "h", "w"], "c": ["c"]}, {"x": np.zeros((3, 1, 0, 2, 2), np.float32)}),
    *[Case("ScatterElements", 18, {"x": np.zeros((rows, 2), np.float32), "i": np.zeros((1, 2), np.int64),
                                   "u": np.array([[0, update]], np.float32)}, {"reduction": "mul"}, note=f"{rows} {update}")
      for rows in (1, 2) for update in (np.nan, np.inf)],
    *[Case("ScatterElements", 18, {"x": np.array([3, 5, 7], dtype), "i": np.array([0, 1, 1, 0, 0, 1]),
                                   "u": np.array(PRIMES, np.int64).astype(dtype)}, {"reduction": "mul"}, note=dtype)
      for dtype in ("int32", "uint32", "int8")],
    at_sizes(Case("Compress", 11, {"x": Y, "c": np.array([False, True])}, {"axis": 0}), {"x": ["n", 3, "h", 5], "c": ["n"]},
             {"x": random(4, 3, 2, 5), "c": np.array([True, False, True, True])}),
    at_sizes(Case("Compress", 11, {"x": np.array([["a", "b"]]), "c": np.array([False])}, {"axis": 1}, constants=["x"], note="text"),
             {"c": ["c"]}, {"c": np.array([False, True])}),
    *[at_sizes(Case("TensorScatter", 24, {"x": random(2, 3, 6, 4), "u": random(2, 3, 2, 4, seed=1), "w": w},
                    {"axis": -2, "mode": mode}, note=mode, expected=lambda x, u, w, axis, mode: cached(x, u, w)),
               {"x": ["n", 3, "length", 4], "u": ["n", 3, "new", 4], "w": ["n"]},
               {"x": random(1, 3, 8, 4), "u": random(1, 3, 3, 4, seed=1), "w": more})
      for mode, w, more in [("linear", ints(0, 3), ints(5)), ("circular", ints(5, 1), ints(6))]],
    Case("TensorScatter", 24, {"x": random(2, 3, 6, 4), "u": random(2, 3, 2, 4, seed=1)}, note="without indices",
         expected=lambda x, u: cached(x, u, ints(0, 0))),
]


def cached(x: Array, u: Array, w: Array) -> Array:
    result = x.copy()
    for batch, start in enumerate(w):
        for step in range(u.shape[2]):
            result[batch, :, (start + step) % x.shape[2]] = u[batch, :, step]
    return result


DERIVATIVES = [
    Derivative("ScatterND", {"x": near(4, 2), "i": np.array([[1], [3]]), "u": near(2, 2, seed=1)}, fixed=["i"]),
    Derivative("ScatterND", {"x": near(4), "i": np.array([[1], [3], [1]]), "u": near(3, seed=1)}, {"reduction": "add"}, fixed=["i"]),
    *[Derivative("ScatterElements", {"x": near(3, 4), "i": np.array([[1, 3], [0, 2]]), "u": near(2, 2, seed=1)},
                 {"axis": 1, "reduction": reduction}, fixed=["i"]) for reduction in ("none", "add")],
    *[Derivative("Slice", {"x": near(4, 5), "s": ints(*s), "e": ints(*e), "a": ints(*a), "t": ints(*t)}, fixed=["s", "e", "a", "t"])
      for s, e, a, t in [([1], [-1], [0], [1]), ([0, 1], [9, 5], [0, 1], [2, 3]), ([-1], [-99], [1], [-2]), ([3], [0], [0], [-1])]],
    *[Derivative("Gather", {"x": near(4, 3, 2), "i": i}, {"axis": axis}, fixed=["i"])
      for axis in (0, 1, -1) for i in (ints(1, 0, 1), ints([0, 1], [-1, 0]), np.array(1))],
    *[Derivative("Compress", {"x": near(3, 4), "c": np.array(condition)}, {"axis": axis} if axis is not None else {}, fixed=["c"])
      for axis, condition in ((0, [True, False, True]), (1, [False, True]), (-1, [True, False, False, True]), (None, [True, False, False, True, True]))],
    Derivative("GatherElements", {"x": near(3, 4), "i": ints([0, 0, 2, 1])}, {"axis": 0}, fixed=["i"]),
    Derivative("GatherND", {"x": near(3, 4, 2), "i": ints([0, 1], [2, 3], [0, 1])}, fixed=["i"]),
    *[Derivative("GatherND", {"x": near(2, 3, 4), "i": i}, {"batch_dims": batch}, fixed=["i"])
      for batch, i in [(1, ints([2], [0])), (1, ints([[2, 1], [-1, -3]], [[0, 3], [0, 3]])), (2, ints([[1], [3], [0]], [[2], [2], [-1]]))]],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("index", [5, -6])
def test_index_out_of_range_raises(index: int) -> None:
    for count in (1, 3):
        case = Case("Gather", 13, {"x": random(5, 2), "i": np.full(count, index)})
        with ScoringFunction(import_model(case_model(case))) as function, pytest.raises(EngineError):
            function(case.inputs)


def test_last_update_wins() -> None:
    case = Case("ScatterElements", 11, {"x": random(4), "i": ints(1, 1, 1), "u": random(3, seed=1)},
                expected=lambda x, i, u: np.array([x[0], u[2], x[2], x[3]]))
    check_case(case)


def bounds(starts: Array, ends: Array, steps: Array | None = None) -> dict[str, Array | None]:
    return {"x": X, "s": starts, "e": ends, "a": ints(0, 1, 2)[: len(starts)], "t": steps}


@pytest.mark.parametrize(
    "contents",
    [
        [bounds(ints(0), ints(2)), bounds(ints(-2), ints(2**63 - 1)), bounds(ints(-9), ints(-1)), bounds(ints(2), ints(1))],
        [bounds(ints(0, 1, 1), ints(2, 3, 4)), bounds(ints(1, 0, -3), ints(3, 2, -1)), bounds(ints(1, 2, 0), ints(3, 2, 2))],
        [
            bounds(ints(0, 1, 1), ints(2, 3, 4), ints(1, 1, 2)),
            bounds(ints(-1, -1, -1), ints(-9, -(2**63), -9), ints(-1, -2, -3)),
            bounds(ints(-9, 3, 1), ints(-9, 9, 0), ints(-1, 1, 2)),
        ],
    ],
    ids=["one axis", "three axes", "steps"],
)
def test_slices_that_only_the_run_bounds(contents: list[dict[str, Array | None]]) -> None:
    """One script serves all bounds, those that leave nothing among them."""
    check_case(Case("Slice", 13, contents[0], constants=["a"], sizes=contents[1:]))
    symbols = {"x": ["n", "m", "k"]}
    check_case(Case("Slice", 10, contents[0], constants=["a"], symbols=symbols, sizes=contents[1:]))


def test_slices_to_an_end_behind_all_axes() -> None:
    """JAX writes 10^9 for "to the end": the sizes are those of the axes, and longer ones are refused."""
    ends = {"x": X, "s": ints(0, 1), "e": ints(10**9, 10**9)}
    case = Case("Slice", 13, ends, constants=["s", "e"], symbols={"x": ["n", "m", 5]}, sizes=[{"x": random(2, 7, 5)}])
    script = import_model(case_model(case))
    assert "min(" not in script.text and 'if (n > 1000000000)' in script.text
    check_case(case)


def test_slices_backwards_of_no_rows_that_only_the_run_bounds() -> None:
    none = np.zeros((0, 3), np.float32)
    contents = [{"x": x, "s": ints(start), "e": ints(end)} for x in (random(4, 3), none) for start, end in ((-1, -9), (0, -9), (-9, 5))]
    contents = [{**content, "a": ints(0), "t": ints(-1)} for content in contents]
    check_case(Case("Slice", 13, contents[0], constants=["a", "t"], symbols={"x": ["n", 3]}, sizes=contents[1:]))
    contents = [{**content, "e": ints(-(2**63))} for content in contents]
    check_case(Case("Slice", 13, contents[0], constants=["e", "a", "t"], symbols={"x": ["n", 3]}, sizes=contents[1:]))


def test_slice_from_after_the_last_row_to_where_the_run_says() -> None:
    ends = [{"x": X, "s": ints(4), "e": ints(end)} for end in (9, -1, 2)]
    check_case(Case("Slice", 13, ends[0], constants=["s"], sizes=ends[1:]))


@pytest.mark.parametrize("count, padding", [(0, 32), (5, 27), (32, 0), (1000, 0), (1005, 27), (2032, 0)])
def test_no_block_of_a_selection_is_dense(count: int, padding: int) -> None:
    assert sparse_padding(count) == padding
