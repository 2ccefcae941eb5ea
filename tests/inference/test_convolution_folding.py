"""What scales and shifts a convolution goes into its weights; activations written as several nodes become one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.importing.origins import split_joined
from onnx_systemds.runtime.scoring import ScoringFunction

NUMBERS = np.random.default_rng(0)
X = NUMBERS.normal(size=(2, 4, 6, 5)).astype(np.float32)
CONSTANTS = {
    "W": NUMBERS.normal(size=(6, 4, 3, 2)), "D": NUMBERS.normal(size=(4, 1, 3, 2)), "b": NUMBERS.normal(size=6),
    "two": 2.5, "list": [0.7], "zero": 0.0, "infinite": np.inf, "three": 3.0, "six": 6.0, "sixth": 1 / 6, "nought": 0.0,
    "slight": 1e-42, "six in brackets": [[[[[6.0]]]]],
    "channels": NUMBERS.normal(size=(6, 1, 1)), "whole": NUMBERS.normal(size=(1, 6, 1, 1)), "row": NUMBERS.normal(size=5),
    "V": NUMBERS.normal(size=(6, 5)), "T": NUMBERS.normal(size=(5, 6)), "k": NUMBERS.normal(size=(1, 6)), "root": 1.41421354, "reciprocal": 0.70710677, "one": 1.0, "half": 0.5,
    "double": 2.0, "bend": 0.044715, "slope": (2 / np.pi) ** 0.5,
    "lines": NUMBERS.normal(size=(6, 1)), "five": NUMBERS.normal(size=(1, 1, 6, 1, 1)),
    "scale": NUMBERS.normal(size=6), "shift": NUMBERS.normal(size=6), "mean": NUMBERS.normal(size=6),
    "variance": NUMBERS.random(6),
}


def node(op_type: str, *inputs: str, to: str, **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs, [to], **attributes)


CONV = node("Conv", "X", "W", "b", to="c", pads=[1, 0, 1, 1])


def check(
    nodes: list[Any], outputs: tuple[str, ...] = ("y",), rtol: float = 1e-4, opset: int = 15,
    contents: Mapping[str, Any] = CONSTANTS,
) -> str:
    """Compare with onnxruntime, which does not optimise; the statements of the script, one on a line."""
    used = {name for made in nodes for name in made.input}
    constants = [numpy_helper.from_array(np.asarray(value, np.int64 if name.startswith("shape") else np.float32), name)
                 for name, value in contents.items() if name in used]
    graph = helper.make_graph(
        nodes, "folded", [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 4, 6, 5])],
        [onnx.ValueInfoProto(name=name) for name in outputs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"X": X})
    script = import_model(model, weights="inline")
    with ScoringFunction(script) as function:
        found = function({"X": X})
    for name, array in zip(outputs, expected):
        np.testing.assert_allclose(found[name], array, rtol=rtol, atol=1e-5)
    main = print_statement(replace(script.main, body=tuple(split_joined(script.main.body))))
    return re.sub(r"\n {6,}", " ", main)


@pytest.mark.parametrize("after", [
    ("Mul", "c", "two"), ("Mul", "list", "c"), ("Add", "channels", "c"), ("Sub", "c", "whole"), ("Div", "c", "whole"),
    ("BatchNormalization", "c", "scale", "shift", "mean", "variance"),
])
def test_after_a_convolution(after: tuple[str, ...]) -> None:
    folded = check([CONV, node(*after, to="y")]).splitlines()
    assert sum("conv2d" in line for line in folded) == 1
    assert folded[-2].startswith("  y = bias_add(conv2d(")


def test_a_chain_after_a_depthwise_convolution() -> None:
    depthwise = node("Conv", "X", "D", to="c", group=4)
    text = check([depthwise, node("Mul", "c", "two", to="d"), node("Add", "list", "d", to="e"),
                  node("Div", "e", "three", to="y")])
    assert text.splitlines()[-2].startswith("  y = bias_add(conv2d(")


@pytest.mark.parametrize("after", [
    ("Add", "c", "row"), ("Mul", "c", "lines"), ("Div", "c", "zero"), ("Mul", "c", "infinite"), ("Sub", "two", "c"),
    ("Div", "two", "c"), ("Add", "c", "c"), ("Add", "c", "five"), ("Mul", "c", "slight"),
])
def test_what_does_not_fold_after(after: tuple[str, ...]) -> None:
    assert "y = bias_add(conv2d(" not in check([CONV, node(*after, to="y")], rtol=1e-2)


def test_weights_of_float16_stay_where_others_are_too_large() -> None:
    nodes = [node("Conv", "x", "w", to="c"), node("Mul", "c", "k", to="y")]
    wide = [numpy_helper.from_array(np.full(dims, 300, np.float16), name) for name, dims in (("w", (1, 1, 1, 1)), ("k", ()))]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT16, ["n", 1, 1, 2])] for name in "xy"]
    graph = helper.make_graph(nodes, "folded", *ports, wide)
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8))
    with ScoringFunction(script) as function:
        found = function({"x": np.full((1, 1, 1, 2), 2**-7, np.float16)})
    np.testing.assert_array_equal(found["y"], np.full((1, 1, 1, 2), 90000 / 128, np.float16))


def test_a_result_that_others_read_does_not_fold() -> None:
    text = check([CONV, node("Mul", "c", "two", to="y"), node("Neg", "c", to="z")], ("y", "z"))
    assert text.count("conv2d(") == 1
    check([CONV, node("Mul", "c", "two", to="y")], ("y", "c"))


@pytest.mark.parametrize(("pads", "folds"), [([0] * 4, True), ([1, 0, 0, 0], False)])
def test_in_front_of_a_convolution(pads: list[int], folds: bool) -> None:
    nodes = [node("Mul", "X", "two", to="m"), node("Sub", "m", "list", to="s"), node("Div", "s", "three", to="d")]
    text = check([*nodes, node("Conv", "d", "W", "b", to="y", pads=pads)])
    assert ("conv2d(X, " in text) == folds
    text = check([nodes[0], node("Conv", "m", "W", "b", to="y", pads=pads)])
    assert "  m = " not in text


def test_same_padding_and_vectors_in_front() -> None:
    check([node("Add", "X", "two", to="m"), node("Conv", "m", "W", to="y", auto_pad="SAME_UPPER")])
    check([node("Mul", "X", "lines", to="m"), node("Conv", "m", "W", to="y")])
    check([node("Sub", "two", "X", to="m"), node("Conv", "m", "W", to="y")])


ROWS = node("Reshape", "X", "shape", to="x")
GEMM = node("Gemm", "x", "V", "b", to="c", transB=1)
CONSTANTS["shape"] = np.array([-1, 5])


@pytest.mark.parametrize("after", [
    [("Mul", "c", "two")], [("Add", "k", "c")], [("Div", "c", "b")], [("Mul", "scale", "c"), ("Sub", "y0", "shift")],
    [("BatchNormalization", "c", "scale", "shift", "mean", "variance")],
])
def test_after_a_gemm(after: list[tuple[str, ...]]) -> None:
    for gemm in (GEMM, node("Gemm", "x", "V", to="c", transB=1)):
        nodes = [node(*made, to=f"y{i}" if i + 1 < len(after) else "y") for i, made in enumerate(after)]
        assert check([ROWS, gemm, *nodes]).count(" %*% ") == 1
        assert check([ROWS, gemm, *nodes]).splitlines()[-2].startswith("  y = X_by_5 %*% ")


@pytest.mark.parametrize("gemm", [
    node("Gemm", "x", "T", "b", to="c"), node("Gemm", "x", "V", "b", to="c", transB=1, alpha=0.5),
    node("Gemm", "x", "V", "k", to="c", transB=1), node("Gemm", "x", "V", "two", to="c", transB=1),
])
def test_what_does_not_fold_after_a_gemm(gemm: Any) -> None:
    assert "  y = c " in check([ROWS, gemm, node("Mul", "c", "scale", to="y")])


def test_a_gemm_leaves_what_is_before_it() -> None:
    check([ROWS, node("Sub", "x", "two", to="m"), node("Gemm", "m", "V", "b", to="y", transB=1)])


SUM = [node("Add", "X", "three", to="a"), node("Clip", "a", "nought", "six", to="c")]
HARD_SWISHES = {
    "divided last": [*SUM, node("Mul", "X", "c", to="m"), node("Div", "m", "six", to="y")],
    "multiplied": [*SUM, node("Mul", "c", "X", to="m"), node("Mul", "sixth", "m", to="y")],
    "divided first": [*SUM, node("Div", "c", "six", to="d"), node("Mul", "X", "d", to="y")],
}


@pytest.mark.parametrize("name", HARD_SWISHES)
def test_hard_swish(name: str) -> None:
    nodes = [made for made in HARD_SWISHES[name] if made.op_type != "Clip"]
    clip = node("Clip", "a", "nought", "limit", to="c")
    CONSTANTS["limit"] = 6.0
    nodes.insert(1, clip)
    assert len(check(nodes).splitlines()) == 3
    CONSTANTS["limit"] = 5.0
    assert len(check(nodes).splitlines()) > 3


def test_other_things_than_a_hard_swish() -> None:
    check([node("Relu", "X", to="r"), node("Add", "r", "three", to="a"), node("Clip", "a", "nought", "three", to="c"),
           node("Mul", "X", "c", to="m"), node("Div", "m", "six", to="y")])
    check([*HARD_SWISHES["divided last"][:-1], node("Div", "m", "three", to="y")])
    check([*HARD_SWISHES["divided last"][:-1], node("Div", "m", "six in brackets", to="y")])


PROBABILITY = [node("Erf", "d", to="e"), node("Add", "e", "one", to="a")]
GELUS = {
    "divided": [node("Div", "X", "root", to="d"), *PROBABILITY, node("Mul", "X", "a", to="m"), node("Mul", "m", "half", to="y")],
    "multiplied": [node("Mul", "reciprocal", "X", to="d"), *PROBABILITY, node("Mul", "a", "X", to="m"), node("Mul", "half", "m", to="y")],
    "half of x": [node("Div", "X", "root", to="d"), *PROBABILITY, node("Mul", "half", "X", to="m"), node("Mul", "m", "a", to="y")],
    "half of the sum": [node("Div", "X", "root", to="d"), *PROBABILITY, node("Mul", "a", "half", to="m"), node("Mul", "X", "m", to="y")],
}


@pytest.mark.parametrize(("digits", "is_joined"), [(np.float64, True), (np.float32, False)])
@pytest.mark.parametrize("rule", ["hard-swish", "gelu"])
def test_constants_in_double_have_its_digits(rule: str, digits: Any, is_joined: bool) -> None:
    numbers = {"three": 3, "nought": 0, "six": 6, "sixth": digits(1 / 6), "root": digits(2**0.5), "one": 1, "half": 0.5}
    ports = [[helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["n"])] for name in "Xy"]
    constants = [numpy_helper.from_array(np.float64(value), name) for name, value in numbers.items()]
    nodes = HARD_SWISHES["multiplied"] if rule == "hard-swish" else GELUS["divided"]
    graph = helper.make_graph(nodes, "folded", *ports, constants)
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8))
    assert any(note.rule == rule and note.fired for note in script.notes) == is_joined


@pytest.mark.parametrize("name", GELUS)
def test_gelu(name: str) -> None:
    assert "y = gelu(" in check(GELUS[name])


BENT = [node("Mul", "bend", "p", to="q"), node("Add", "X", "q", to="u"), node("Mul", "u", "slope", to="v"),
        node("Tanh", "v", to="f"), node("Add", "f", "one", to="a")]
GELUS_BY_TANH = {
    "power": [node("Pow", "X", "three", to="p"), *BENT, node("Mul", "X", "half", to="h"), node("Mul", "h", "a", to="y")],
    "products": [node("Mul", "X", "X", to="s"), node("Mul", "s", "X", to="p"), *BENT, node("Mul", "a", "X", to="h"),
                 node("Mul", "half", "h", to="y")],
    "quotient": [node("Pow", "X", "three", to="p"), *BENT, node("Div", "a", "double", to="h"), node("Mul", "h", "X", to="y")],
    "a factor": [node("Mul", "X", "bend", to="p"), node("Mul", "p", "X", to="q"), node("Add", "one", "q", to="u"),
                 node("Mul", "X", "slope", to="s"), node("Mul", "s", "u", to="v"), *BENT[3:], node("Mul", "X", "half", to="h"),
                 node("Mul", "h", "a", to="y")],
}


@pytest.mark.parametrize("name", GELUS_BY_TANH)
def test_gelu_by_tanh(name: str) -> None:
    text = check(GELUS_BY_TANH[name])
    assert "tanh(" not in text
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize(("name", "constant", "value"), [
    *(("power", *other) for other in (("half", 0.6), ("one", 1.1), ("bend", 0.05), ("slope", 0.75), ("three", 2.0),
                                      ("half", [0.5]))),
    *(("a factor", *other) for other in (("half", 0.6), ("one", 1.1), ("bend", 0.05), ("slope", 0.75))),
])
def test_other_things_than_a_gelu_by_tanh(name: str, constant: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONSTANTS, constant, value)
    assert "tanh(" in check(GELUS_BY_TANH[name])


def test_a_gelu_by_tanh_of_which_others_read_a_part() -> None:
    assert "tanh(" in check(GELUS_BY_TANH["power"], ("y", "a"))


def test_other_things_than_a_gelu() -> None:
    divided, last = GELUS["divided"][0], GELUS["divided"][-1]
    rest = GELUS["divided"][:-1]
    others = [
        [*rest, node("Mul", "m", "two", to="y")],
        [node("Div", "X", "two", to="d"), *rest[1:], last],
        [*rest[:-2], node("Add", "e", "two", to="a"), rest[-1], last],
        [divided, *PROBABILITY, node("Mul", "d", "a", to="m"), last],
        [node("Abs", "X", to="x"), *rest[:-1], node("Mul", "x", "a", to="m"), last],
    ]
    for nodes in others:
        assert "gelu(" not in check(nodes)
    assert "gelu(" not in check([*rest, last], ("y", "a"))
