"""Concat, Split, Tile, Expand and Pad in every version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import AXIS_1, Derivative, near
from tests.operators.harness import Array, Case, at_sizes, check_case, ints, number, random, run_reference
from tests.operators.test_control_flow import Model, check

X = random(2, 3, 4, 5)
HOLES = X.copy()
HOLES[0, 1, 2, 3], HOLES[1, 0, 0, 0], HOLES[1, 2, 3, 4] = np.nan, np.inf, -np.inf


def padded(x: Array, pads: Any, value: Any = None, axes: Any = None, mode: str = "constant") -> Array:
    """Crop, then pad."""
    chosen = range(x.ndim) if axes is None else [int(axis) % x.ndim for axis in axes]
    amounts = [(0, 0)] * x.ndim
    for position, axis in enumerate(chosen):
        amounts[axis] = (int(pads[position]), int(pads[position + len(pads) // 2]))
    x = x[tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, amounts))]
    widths = [(max(a, 0), max(b, 0)) for a, b in amounts]
    if mode == "constant":
        return np.pad(x, widths, constant_values=0 if value is None else value)
    return np.pad(x, widths, mode=mode)


def padded_by_attribute(
    x: Array, mode: str = "constant", value: float = 0, pads: Any = None, paddings: Any = None
) -> Array:
    return padded(x, paddings if pads is None else pads, value, None, mode)


def tiled_axis(x: Array, tiles: Array, axis: Array) -> Array:
    return np.concatenate([x] * int(tiles), axis=int(axis))


CONCAT = [
    *[Case("Concat", 13, {"a": X, "b": random(2, 3, 4, 5, seed=1)}, {"axis": axis}) for axis in (0, 1, 2, 3, -1, -4)],
    Case("Concat", 4, {"a": random(2, 3, 4), "b": random(2, 1, 4), "c": random(2, 2, 4)}, {"axis": 1}),
    Case("Concat", 1, {"a": random(2, 3), "b": random(2, 2)}, expected=lambda a, b: np.concatenate([a, b], 1)),
    Case("Concat", 1, {"a": random(2, 3), "b": random(1, 3)}, {"axis": 0},
         expected=lambda a, b, axis: np.concatenate([a, b], axis)),
    Case("Concat", 11, {"a": random(2, 0, 4), "b": random(2, 3, 4)}, {"axis": 1}, note="empty"),
    Case("Concat", 11, {"a": random(2, 0, 4), "b": random(2, 0, 4)}, {"axis": 1}, note="all empty"),
    Case("Concat", 13, {"a": random(3, dtype="int64"), "b": random(1, dtype="int64")}, {"axis": 0}),
    Case("Concat", 13, {"a": random(1, 1, 3), "b": random(1, 4, 3)}, {"axis": -2}),
    Case("Concat", 13, {"a": X}, {"axis": 2}),
]

SPLIT = [
    Case(
        "Split",
        1,
        {"x": random(4, 6)},
        {"axis": 1, "split": [2, 4]},
        outputs=2,
        expected=lambda x, **_: np.split(x, [2], 1),
    ),
    Case(
        "Split",
        1,
        {"x": random(4, 6), "s": np.array([1, 3], np.float32)},
        {"axis": 0},
        ("s",),
        outputs=2,
        expected=lambda x, *_, axis: np.split(x, [1], 0),
    ),
    Case("Split", 2, {"x": random(2, 6, 3)}, {"axis": 1}, outputs=3),
    Case("Split", 11, {"x": random(2, 6, 3)}, {"axis": -2, "split": [1, 0, 5]}, outputs=3),
    Case("Split", 13, {"x": X, "s": ints(1, 3)}, {"axis": 2}, ("s",), outputs=2),
    Case("Split", 13, {"x": X}, {"axis": 0}, outputs=2),
    Case("Split", 13, {"x": random(6)}, outputs=["", "b", ""], expected=lambda x: [x[2:4]]),
    Case("Split", 18, {"x": random(2, 7)}, {"axis": 1, "num_outputs": 3}, outputs=3),
    Case("Split", 18, {"x": random(3, 4)}, {"axis": -1, "num_outputs": 1}, outputs=1),
    Case("Split", 18, {"x": random(1, 7, 2), "s": ints(2, 1, 4)}, {"axis": 1}, ("s",), outputs=3),
]

EXPAND = [
    *[Case("Expand", 13, {"x": random(*dims), "s": ints(*shape)}, {}, ("s",), note=f"to {shape}")
      for dims, shape in [((3, 1), (3, 4)), ((3, 1), (2, 1, 6)), ((1, 3, 1, 2), (2, 1, 4, 1)), ((2, 3), (2, 3)),
                          ((1, 4), (3, 1)), ((1, 1), (2, 3)), ((5,), (2, 3, 5)), ((2, 1, 3, 1, 2), (2, 4, 3, 3, 2)),
                          ((2, 1), (1, 1, 2, 1))]],
    Case("Expand", 8, {"x": random(), "s": ints(2, 3)}, {}, ("s",)),
    Case("Expand", 8, {"x": random(), "s": ints()}, {}, ("s",), expected=lambda x, s: x, note="rank 0"),
    Case("Expand", 13, {"x": HOLES[:, :, :1], "s": ints(2, 3, 3, 5)}, {}, ("s",)),
    Case("Expand", 13, {"x": random(2, 1), "s": ints(2, 0)}, {}, ("s",), note="empty"),
]

TILE = [
    *[Case("Tile", 13, {"x": random(*dims), "r": ints(*repeats)}, {}, ("r",), note=f"by {repeats}")
      for dims, repeats in [((2, 3), (2, 2)), ((2, 3, 4), (1, 2, 1)), ((2, 3, 4), (3, 1, 2)),
                            ((2, 1, 2, 3), (2, 3, 1, 2)), ((3,), (4,)), ((2, 3), (1, 1)), ((1, 1), (2, 3)),
                            ((2, 3), (0, 2))]],
    Case("Tile", 6, {"x": HOLES, "r": ints(1, 2, 1, 2)}, {}, ("r",)),
    Case("Tile", 1, {"x": random(2, 3), "n": number(3), "axis": number(1)}, {}, ("n", "axis"), expected=tiled_axis),
]

MODES = ["constant", "edge", "reflect", "wrap"]
PAD = [
    Case("Pad", 1, {"x": random(2, 3)}, {"paddings": [0, 1, 2, 0], "value": 1.5}, expected=padded_by_attribute),
    *[Case("Pad", 2, {"x": X}, {"pads": [0, 1, 2, 1, 0, 0, 1, 2], "mode": mode}, expected=padded_by_attribute,
           note=mode) for mode in MODES[:3]],
    Case("Pad", 2, {"x": random(2, 3, 4)}, {"pads": [0, 0, 1, 0, 0, 1], "value": -2.0}),
    *[Case("Pad", version, {"x": HOLES, "p": ints(0, 2, 3, 1, 1, 0, 2, 4)}, {"mode": mode}, ("p",),
           expected=padded, note=mode)
      for version, mode in [(11, "constant"), (13, "edge"), (18, "reflect"), (19, "wrap"), (25, "edge")]],
    *[Case("Pad", 19, {"x": random(1, 3, 4, 5), "p": ints(0, 0, 1, 2, 0, 0, 1, 2)}, {"mode": mode}, ("p",), note=mode)
      for mode in MODES],
    *[Case("Pad", 19, {"x": random(6, 4), "p": ints(-1, 2, 3, -2)}, {"mode": mode}, ("p",), expected=padded,
           note=f"crop {mode}") for mode in MODES],
    Case("Pad", 13, {"x": X, "p": ints(0, 0, -1, 0, 0, -1, -1, 0)}, {}, ("p",), expected=padded, note="crop only"),
    Case("Pad", 13, {"x": X, "p": ints(0, 0, 0, 0, 0, 0, 0, 0)}, {}, ("p",), note="nothing"),
    Case("Pad", 18, {"x": X, "p": ints(1, 2, 0, 3), "v": number(7), "a": ints(-1, 1)}, {}, ("p", "a"), expected=padded),
    Case("Pad", 18, {"x": X, "p": ints(1, 2, 0, 3), "v": None, "a": ints(3, 2)}, {"mode": "reflect"}, ("p", "a"),
         expected=lambda x, p, v, a, mode: padded(x, p, v, a, mode)),
    Case("Pad", 21, {"x": random(3, dtype="int32"), "p": ints(1, 2), "v": number(-3, "int32")}, {}, ("p", "v"),
         expected=padded),
    Case("Pad", 24, {"x": random(2, 3, dtype="bool"), "p": ints(1, 0, 0, 2), "v": np.array(True)}, {}, ("p", "v"),
         expected=padded),
    Case("Pad", 13, {"x": X, "p": ints(0, 0, 1, 1, 0, 0, 1, 1), "v": number(-np.inf)}, {}, ("p", "v"), expected=padded),
    Case("Pad", 13, {"x": random(0, 3), "p": ints(2, 0, 1, 1)}, {}, ("p",), expected=padded, note="empty"),
    Case("Pad", 13, {"x": random(1, 3), "p": ints(1, 2, -1, 0)}, {}, ("p",), expected=lambda x, p: np.zeros((1, 5), np.float32),
         note="all rows cropped"),
    Case("Pad", 13, {"x": random(2, 3), "p": ints(0, -2, 1, 3), "v": number(7)}, {}, ("p", "v"), expected=padded,
         note="columns cropped and more put beside them"),
    Case("Pad", 13, {"x": random(2, 1), "p": ints(0, -1, 0, 4), "v": number(7)}, {}, ("p", "v"),
         expected=lambda x, p, v: np.full((2, 4), 7, np.float32), note="all columns cropped"),
    Case("Pad", 19, {"x": random(3, 2), "p": ints(5, 0, 7, 0)}, {"mode": "wrap"}, ("p",), expected=padded, note="far"),
    Case("Pad", 18, {"x": random(3, 2), "p": ints(5, 0, 7, 3)}, {"mode": "reflect"}, ("p",), expected=padded,
         note="far"),
    Case("CenterCropPad", 18, {"x": random(7, 4, 5), "s": ints(4, 7, 5)}, {}, ("s",),
         expected=lambda x, s: padded(x, [-1, 1, 0, -2, 2, 0])),
    Case("CenterCropPad", 18, {"x": random(7, 4, 5), "s": ints(8, 9)}, {"axes": [-1, 0]}, ("s",),
         expected=lambda x, s, axes: padded(x, [1, 0, 1, 1, 0, 2])),
]


SYMBOLIC = [
    *[at_sizes(Case("Concat", 13, {"a": random(2, 5, 3), "b": random(2, 5, 3, seed=1)}, {"axis": axis}, note=f"{axis}"),
               {"a": ["batch", "seq", 3], "b": ["batch", "seq", 3]},
               *[{"a": random(*dims, 3), "b": random(*dims, 3, seed=1)} for dims in ((3, 1), (1, 4))])
      for axis in (0, 1, 2, -1)],
    *[at_sizes(Case("Split", 13, {"x": random(2, 4, 6)}, {"axis": axis}, outputs=2, note=f"{axis}"),
               {"x": ["batch", "seq", 6]}, {"x": random(4, 2, 6)}) for axis in (0, 1, 2)],
    *[at_sizes(Case("Pad", 19, {"x": random(2, 3, 4, 5), "p": ints(0, 1, 2, 1, 1, 0, 1, 2)}, {"mode": mode}, ("p",),
                    expected=padded, note=mode),
               {"x": ["n", 3, "h", "w"]}, {"x": random(1, 3, 5, 3, seed=2)}) for mode in MODES],
    at_sizes(Case("Tile", 13, {"x": random(2, 4, 3), "r": ints(2, 1, 3)}, {}, ("r",)), {"x": ["n", "s", 3]},
             {"x": random(1, 5, 3)}),
    at_sizes(Case("Expand", 13, {"x": random(2, 4, 1, 3), "s": ints(1, 1, 2, 3)}, {}, ("s",)),
             {"x": ["n", "s", 1, 3]}, {"x": random(1, 5, 1, 3)}),
    at_sizes(Case("CenterCropPad", 18, {"x": random(7, 4, 5), "s": ints(4, 7)}, {"axes": [0, -1]}, ("s",),
                  expected=lambda x, s, axes: padded(x, [-1, 0, 1, -2, 0, 1])), {"x": [7, "c", 5]}, {"x": random(7, 2, 5)}),
    at_sizes(Case("CenterCropPad", 18, {"x": random(2, 7, 4, 5), "s": ints(9)}, {"axes": [1]}, ("s",),
                  expected=lambda x, s, axes: padded(x, [0, 1, 0, 0, 0, 1, 0, 0])), {"x": ["n", 7, "h", 5]},
             {"x": random(1, 7, 3, 5)}),
]

CASES = CONCAT + SPLIT + EXPAND + TILE + PAD + SYMBOLIC


DERIVATIVES = [
    Derivative("Tile", {"x": near(2, 3, 1), "r": np.array([2, 1, 3])}, fixed=["r"]),
    Derivative("Tile", {"x": near(2, 3), "r": np.array([3, 2])}, fixed=["r"]),
    Derivative("Expand", {"x": near(3, 1), "s": ints(2, 1, 4)}, fixed=["s"]),
    *[Derivative("Concat", {"a": near(2, 3), "b": near(2, 3, seed=1)}, {"axis": axis}) for axis in (0, -1)],
    Derivative("Concat", {"a": near(2, 3)}, {"axis": 0}),
    Derivative("Split", {"x": near(2, 5), "s": ints(2, 3)}, {"axis": 1}, fixed=["s"], outputs=2),
    Derivative("Pad", {"x": near(2, 3), "p": ints(1, 0, 0, 2)}, fixed=["p"]),
    *[Derivative("Pad", {"x": near(1, 2, 4, 3), "p": ints(0, 0, 2, 1, 0, 0, 3, 0)}, {"mode": mode}, 19, ["p"])
      for mode in ("edge", "reflect", "wrap")],
    Derivative("Pad", {"x": near(2, 3), "p": ints(1, 2), "v": np.array(1.5), "a": AXIS_1}, fixed=["p", "a"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("mode", MODES)
def test_pads_that_only_the_run_knows(mode: str) -> None:
    """One script pads, crops, or does nothing."""
    contents = [{"x": X[0], "p": ints(*pads)} for pads in [(1, 0, 2, 0, 2, 1), (0, -1, 2, -1, 0, 0), (0, 0, 0, 0, 0, 0)]]
    for symbols in ({}, {"x": ["n", 4, "w"]}):
        check_case(Case("Pad", 19, contents[0], {"mode": mode}, symbols=symbols, sizes=contents[1:]))


def test_crop_and_pad_to_a_shape_of_the_run() -> None:
    contents = [{"x": X[0], "s": ints(*shape)} for shape in [(4, 2, 5), (1, 7, 5), (2, 1, 8)]]
    check_case(Case("CenterCropPad", 18, contents[0], sizes=contents[1:]))


def test_parts_of_sizes_of_the_run() -> None:
    """Parts may be empty."""
    for axis in (0, 2):
        x = np.moveaxis(X[0, :, 0], 1, 0) if axis == 0 else X[0]
        contents = [{"x": x, "s": ints(*sizes)} for sizes in [(1, 2, 2), (0, 4, 1)]]
        check_case(Case("Split", 18, contents[0], {"axis": axis}, outputs=3, sizes=contents[1:]))


def test_repetition_that_only_the_run_knows() -> None:
    repeats = [{"x": X[0], "r": ints(*times)}
               for times in [(2, 1, 3), (1, 2, 2), (1, 1, 1), (0, 2, 1), (2, 0, 3), (1, 1, 0)]]
    check_case(Case("Tile", 13, repeats[0], sizes=repeats[1:]))
    check_case(Case("Tile", 6, repeats[0], symbols={"x": ["n", "m", 5]}, sizes=repeats[1:]))
    shapes = [{"x": X[0, :, :1], "s": ints(*shape)} for shape in [(2, 1, 4, 5), (1, 3, 1, 1), (0, 3, 4, 1)]]
    check_case(Case("Expand", 13, shapes[0], sizes=shapes[1:]))
    ones = [
        {"x": X[0], "s": ints(2, 3, 4, 5)},
        {"x": X[0, :1, :, :1], "s": ints(2, 6, 1, 2)},
        {"x": X[0, :, :1], "s": ints(1, 1, 0, 1)},
    ]
    check_case(Case("Expand", 13, ones[0], symbols={"x": ["a", "b", "c"]}, sizes=ones[1:]))
    one = {"x": random(1, 1, 1)}
    check_case(Case("Tile", 13, {**one, "r": ints(1, 2, 3)}, sizes=[{"r": ints(0, 2, 1)}]))
    inner = [{"x": HOLES[0, :, :1], "s": ints(*shape)} for shape in [(3, 2, 1), (3, 0, 5), (1, 1, 1)]]
    check_case(Case("Expand", 13, inner[0], sizes=inner[1:]))
    check_case(Case("Expand", 13, {**one, "s": ints(2, 1, 3)}, sizes=[{"s": ints(0, 2, 1)}]))


@pytest.mark.parametrize("batch", [2, "n"])
@pytest.mark.parametrize("passing", ["", "Identity", "Cast"])
@pytest.mark.parametrize(
    ("axis", "dims", "width", "op_type", "other"),
    [(1, [1], 3, "Expand", [1, 3]), (1, [1], 3, "Tile", [1, 3]), (0, [4], 4, "Expand", [20, 1]), (1, [1], 3, "Add", [1, 3])],
)
def test_a_repeated_vector_is_joined_as_a_whole(
    axis: int, dims: list[int], width: int, op_type: str, other: list[int], batch: Any, passing: str
) -> None:
    """The engine would join the vector alone."""
    rows = batch if axis == 1 else 1
    second = np.zeros(other, np.float32) if op_type == "Add" else ints(*other)
    nodes = [helper.make_node(op_type, ["C", "other"], ["repeated"])]
    nodes += [helper.make_node(passing, ["repeated"], ["passed"], **({"to": 1} if passing == "Cast" else {}))] if passing else []
    nodes.append(helper.make_node("Concat", ["X", "passed" if passing else "repeated"], ["Y"], axis=axis))
    infos = [helper.make_tensor_value_info(name, 1, size) for name, size in (("X", [batch, 4]), ("C", [rows, *dims]))]
    graph = helper.make_graph(nodes, "joined", infos, [helper.make_tensor_value_info("Y", 1, [None, None])],
                              [numpy_helper.from_array(second, "other")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"X": random(2, 4), "C": random(2 if axis == 1 else 1, *dims)}
    (expected,) = run_reference(model, feeds)
    with ScoringFunction(import_model(model)) as function:
        np.testing.assert_array_equal(function(feeds)["Y"], expected)


@pytest.mark.parametrize("repeated", [
    "e = Constant <value_ints = [1, 3]> () w = Expand(c, e) y = Concat <axis = 1> (x, w)",
    "e = Constant <value_ints = [1, 30]> () w = Tile(c, e) y = Concat <axis = 1> (x, w)",
    "e = Constant <value = float[1, 3] {1, 1, 1}> () w = MatMul(c, e) y = Concat <axis = 1> (x, w)",
    """e = Constant <value_ints = [1, 30]> () w = Expand(c, e) f = Constant <value_ints = [-1, 3]> ()
       v = Reshape(w, f) y = Concat <axis = 0> (x, v)""",
])
def test_a_repeated_column_after_another_operand(repeated: str) -> None:
    """The engine would take the two for operands of arithmetic, in which the column is repeated by itself."""
    text = f"g (float[n,3] x, float[n,1] c) => (float[m,k] y) {{ {repeated} }}"
    check(Model("repeated", text, [{"x": random(n, 3), "c": random(n, 1, seed=1)} for n in (4, 1)]), 13)


def test_axes_of_one_are_repeated_beside_one_that_may_be_empty() -> None:
    text = """g (float[n,1,1,1] x, int64[1] k) => (float[n,b,2,3] y) {
        e = Constant <value_ints = [1]> () t = Constant <value_ints = [2, 3]> () w = Concat <axis = 0> (e, k, t) y = Expand(x, w) }"""
    check(Model("repeated", text, [{"x": random(2, 1, 1, 1), "k": ints(k)} for k in (4, 0)]), 13)
