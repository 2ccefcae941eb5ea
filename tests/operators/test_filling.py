"""Tensors made from sizes and constants, in every version."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, parser

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import (
    Array,
    Case,
    at_sizes,
    case_model,
    check_case,
    compare,
    ints,
    number,
    random,
    run_reference,
)
from tests.plain_engine import calls_plainly

X = random(2, 3, 4, 5)


def filler(value: float, dtype: str) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array([value], dtype))


def one_hot_9(indices: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """Before opset 11 a negative index is out of range."""
    steps = np.arange(int(np.ravel(depth)[0]))
    hot = np.moveaxis(indices[..., None] == steps, -1, axis)
    return np.where(hot, values[1], values[0]).astype(values.dtype)


def ranges(
    dtype: str, *rows: tuple[float, float, float], known: bool = False, version: int = 11
) -> list[Case]:
    names = ("start", "limit", "delta")
    return [
        Case("Range", version, {name: number(value, dtype) for name, value in zip(names, row)}, {},
             names if known else (), expected=lambda start, limit, delta: np.arange(start, limit, delta, dtype),
             note=f"{dtype} {row}")
        for row in rows
    ]


def rounded_range(start: Array, limit: Array, delta: Array, **_: int) -> Array:
    """Each element is start + i * delta, rounded once."""
    first, last, step = (item.astype(np.float64) for item in (start, limit, delta))
    return (first + np.arange(np.ceil((last - first) / step)) * step).astype(start.dtype)


SIXTEEN_BITS = [
    Case("Range", 27, {"start": number(0.1, dtype), "limit": number(limit, dtype), "delta": number(0.3, dtype)},
         constants=constants, expected=rounded_range, tolerance=0, note=str(np.dtype(dtype)))
    for dtype, limit in (("float16", 3), (ml_dtypes.bfloat16, 5)) for constants in ((), ("start", "limit", "delta"))
]

SHAPES = [
    *[Case("Shape", version, {"x": X}) for version in (1, 13, 15, 25)],
    Case("Shape", 15, {"x": X}, {"start": 1, "end": -1}),
    Case("Shape", 15, {"x": X}, {"start": -2}),
    Case("Shape", 15, {"x": random()}, note="rank 0"),
    *[Case("Size", version, {"x": X}) for version in (1, 13, 25)],
    Case("ConstantOfShape", 9, {"s": ints(2, 3, 4)}, {"value": filler(1.5, "float32")}, ("s",)),
    Case("ConstantOfShape", 25, {"s": ints(4)}, {}, ("s",), expected=lambda s: np.zeros(s, np.float32)),
    Case("ConstantOfShape", 9, {"s": ints(300, 300)}, {"value": filler(7, "int64")}, ("s",)),
    Case("ConstantOfShape", 20, {"s": ints(300, 300)}, {"value": filler(1, "bool")}, ("s",)),
    Case("ConstantOfShape", 9, {"s": ints()}, {"value": filler(2, "int32")}, ("s",)),
]

RANGES = [
    *ranges("float32", (0, 5, 1), (1, 2, 0.25), (10, 4, -2.5), (5, 1, 1), (1, 1, 1), (0, 1, 0.3)),
    *ranges("int32", (2, 9, 3), (9, 2, -3), (4, 4, 1), (0, 1, 1), (-3, 3, 2)),
    *ranges("int64", (0, 7, 1), version=27),
    *ranges("float32", (0, 70000, 1), (3, 1, -0.5), known=True),
]

MATRICES = [
    *[Case("EyeLike", 9, {"x": random(*dims)}, {"k": k, "dtype": 1}, note=f"{k}")
      for dims in ((4, 4), (3, 5), (5, 3)) for k in (0, 1, -2)],
    Case("EyeLike", 22, {"x": random(3, 3, dtype="int32")}),
    *[Case("Trilu", 14, {"x": random(*dims), "k": number(k, "int64")}, {"upper": upper}, note=f"{upper} {k}")
      for dims in ((4, 5), (2, 3, 4, 4), (3, 5, 2)) for k in (0, 2, -1) for upper in (0, 1)],
    Case("Trilu", 14, {"x": np.full((2, 3, 3), np.nan, np.float32)}),
    *[Case("Trilu", 14, {"x": random(*dims, dtype="int64"), "k": number(k, "int64")}, {"upper": upper}, ("k",), note=f"one row {upper} {k}")
      for dims in ((1, 3), (1, 1), (2, 1, 3)) for upper, k in ((0, 1), (1, 1), (0, -1))],
    Case("Trilu", 14, {"x": random(2, 3, 3, dtype="int64"), "k": number(1, "int64")}, {"upper": 0}, ("k",)),
    Case("Trilu", 14, {"x": random(3, 3), "k": number(-9, "int64")}, {"upper": 0}, ("k",)),
]

INDICES = np.array([[0, 2, -1], [4, 7, -5]], np.int64)
DEPTH, VALUES = number(5, "int64"), np.array([0, 1], np.float32)
ONE_HOT = [
    *[Case("OneHot", 11, {"i": INDICES, "d": DEPTH, "v": VALUES}, {"axis": axis}, ("d", "v"))
      for axis in (-1, 0, 1, 2, -2)],
    *[Case("OneHot", 9, {"i": INDICES, "d": DEPTH, "v": VALUES}, {"axis": axis}, ("d", "v"), expected=one_hot_9)
      for axis in (-1, 0, 1)],
    *[Case("OneHot", 11, {"i": INDICES, "d": DEPTH, "v": np.array([-1, np.inf], np.float32)}, {"axis": axis},
           note=f"all at run time {axis}") for axis in (-1, 0, 1)],
    Case("OneHot", 11, {"i": number(2, "int64"), "d": number(3, "int64"), "v": ints(0, 1)}, {}, ("d",),
         expected=one_hot_9, note="rank 0"),
    Case("OneHot", 11, {"i": INDICES.astype(np.float32), "d": number(6), "v": ints(3, -4)}, {}, ("d", "v"),
         expected=lambda i, d, v: one_hot_9(np.where(i < 0, i + d, i), d, v)),
]


SYMBOLIC = [
    *[Case("EyeLike", 9, {"x": random(4, 5)}, {"k": k}, symbols={"x": ["n", "m"]}, sizes=[{"x": random(3, 2)}], note=str(k))
      for k in (1, -1)],
    *[Case("Trilu", 14, {"x": random(2, 4, 4)}, attributes, symbols={"x": ["n", "s", "s"]},
           sizes=[{"x": random(3, 2, 2)}]) for attributes in ({}, {"upper": 0})],
    *[at_sizes(Case("Trilu", 14, {"x": np.full((5, 1, 4, 1), np.inf, np.float32), "k": number(k, "int64")}, {"upper": upper},
                    note=f"one column {upper} {k}"), {"x": ["a", "b", "c", 1]},
               {"x": np.full((2, 3, 2, 1), np.inf, np.float32)}, {"x": np.zeros((0, 2, 3, 1), np.float32)}) for k in (2, -1) for upper in (0, 1)],
    Case("OneHot", 11, {"i": INDICES, "d": DEPTH, "v": VALUES}, {"axis": 1}, ("d", "v"), symbols={"i": ["n", "s"]},
         sizes=[{"i": INDICES.reshape(3, 2)}]),
    *[Case(op, 13, {"x": X}, symbols={"x": ["n", 3, "h", "w"]}, sizes=[{"x": random(1, 3, 2, 2)}])
      for op in ("Shape", "Size")],
]

CASES = SHAPES + SIXTEEN_BITS + RANGES + MATRICES + ONE_HOT + SYMBOLIC


DERIVATIVES = [
    *[Derivative("OneHot", {"i": ints([0, 2, -1], [1, 5, 0]), "d": np.array(3), "v": near(2)}, {"axis": axis}, fixed=["i", "d"])
      for axis in (-1, 0)],
    Derivative("OneHot", {"i": ints(0, 2, 1, 5), "d": np.array(3), "v": near(2)}, opset=9, fixed=["i", "d"]),
    Derivative("Trilu", {"x": near(3, 4), "k": np.array(1)}, {"upper": 0}, fixed=["k"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_positions_of_a_sequence() -> None:
    """Shape -> Gather -> Range, and the dims that the run decides are handed on."""
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["positions"]),
        helper.make_node("Range", ["zero", "limit", "one"], ["free"]),
        helper.make_node("Shape", ["free"], ["count"]),
        helper.make_node("Unsqueeze", ["free", "axes"], ["row"]),
        helper.make_node("Concat", ["row", "row"], ["rows"], axis=0),
        helper.make_node("ConstantOfShape", ["count"], ["zeros"]),
        helper.make_node("Sub", ["length", "four"], ["less"]),  # fewer than no places are none
        helper.make_node("Range", ["zero", "less", "two"], ["few"]),
        helper.make_node("Size", ["few"], ["number"]),
        helper.make_node("Range", ["length", "zero", "minus"], ["back"]),
    ]
    constants = {name: number(value, "int64") for name, value in (("zero", 0), ("one", 1), ("two", 2), ("four", 4), ("minus", -2))}
    constants["axes"] = ints(0)
    infos = [
        helper.make_tensor_value_info("x", 1, ["n", "seq"]),
        helper.make_tensor_value_info("limit", 7, []),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("positions", "count", "rows", "zeros", "number", "back")]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "positions", infos, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ScoringFunction(import_model(onnx.shape_inference.infer_shapes(model))) as function:
        for seq, limit in [(5, 4), (1, 6)]:
            got = function({"x": random(2, seq), "limit": number(limit, "int64")})
            np.testing.assert_array_equal(got["positions"], np.arange(seq))
            np.testing.assert_array_equal(got["back"], np.arange(seq, 0, -2))
            np.testing.assert_array_equal(got["count"], [limit])
            np.testing.assert_array_equal(got["number"], len(range(0, seq - 4, 2)))
            np.testing.assert_array_equal(got["rows"], np.tile(np.arange(limit), (2, 1)))
            np.testing.assert_array_equal(got["zeros"], np.zeros(limit, np.float32))


def test_contents_that_only_the_run_knows() -> None:
    """One script serves all shapes, depths, diagonals and limits."""
    shapes = [{"s": ints(*shape)} for shape in [(2, 3, 4), (1, 3, 2), (4, 1, 1)]]
    check_case(Case("ConstantOfShape", 9, shapes[0], sizes=shapes[1:]))
    check_case(Case("ConstantOfShape", 9, {"s": ints(2, 3)}, sizes=[{"s": ints(0, 3)}, {"s": ints(4, 0)}]))
    depths = [{"i": INDICES, "d": number(depth, "int64"), "v": VALUES} for depth in (3, 7)]
    check_case(Case("OneHot", 11, depths[0], {"axis": 1}, sizes=depths[1:]))
    diagonals = [{"x": X, "k": number(k, "int64")} for k in (1, -2)]
    check_case(Case("Trilu", 14, diagonals[0], {"upper": 0}, sizes=diagonals[1:]))
    limits = [{"a": number(1, "int64"), "b": number(b, "int64"), "c": number(c, "int64")} for b, c in [(9, 2), (-5, -2), (0, 1)]]
    check_case(Case("Range", 11, limits[0], sizes=limits[1:]))


def test_zeros_read_as_such() -> None:
    text = import_model(case_model(Case("ConstantOfShape", 9, {"s": ints(2, 3)}))).text
    assert "out0 = zeros(s_0, s_1)" in text and "zeros = function(integer rows, integer cols)" in text


@pytest.mark.parametrize("follows", ["m = Softmax(l)", "e = Equal(l, s) w = Where(e, s, low) m = Softmax(w)"])
def test_triangles_of_two_sizes_by_the_command_line(follows: str) -> None:
    """A function of one matrix that is called twice: the engine tries it with 3333 columns, and must not keep these."""
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[n, m] x) => (float[n, m, 1] y) <int64[1] two = {{2}}, float low = {{-10000.0}}> {{
          v = Unsqueeze(x, two) t = Transpose<perm = [0, 2, 1]>(v) s = MatMul(v, t) l = Trilu<upper = 0>(s)
          {follows} y = MatMul(m, v)
        }}""")
    calls = [{"x": random(2, 3)}, {"x": random(3, 5)}]
    for call, found in zip(calls, calls_plainly(import_model(onnx.shape_inference.infer_shapes(model)), calls), strict=True):
        compare(found["y"], np.asarray(run_reference(model, call)[0]), 1e-5, str(call["x"].shape))
