"""``--gradient``: the functions of derivatives by weights and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.cli.commands import main
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.dml.scopes import called_in
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.passes.kept_values import in_two
from tests.command_line import run_dml
from tests.derivative_programs import derivatives

Array = np.ndarray[Any, np.dtype[Any]]


def near(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, dims).astype(np.float32)


def model(
    nodes: list[onnx.NodeProto], inputs: dict[str, Any], weights: dict[str, Array], outputs: list[str], opset: int = 20
) -> onnx.ModelProto:
    """inputs: by name their dims, of float; or (dtype, dims)."""
    given = [helper.make_tensor_value_info(name, *(kind if isinstance(kind, tuple) else (TensorProto.FLOAT, kind)))
             for name, kind in inputs.items()]
    graph = helper.make_graph(nodes, "net", given, [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(","), outputs.split(","), **attributes)


@dataclass(frozen=True)
class Row:
    """A model, sizes of its symbols, what it is derived by, and how many derivatives there are."""

    model: onnx.ModelProto
    sizes: Mapping[str, int] = field(default_factory=dict)
    words: tuple[str, ...] = ("weights", "inputs")
    count: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


PERCEPTRON = model(
    [node("Gemm", "x,w1,b1", "h", transB=1), node("Relu", "h", "a"), node("MatMul", "a,w2", "s"), node("Softmax", "s", "y")],
    {"x": ["n", 4]}, {"w1": near(5, 4), "b1": near(5), "w2": near(5, 3)}, ["y"])
ALIKE = model(
    [node("Add", "x,b1", "h"), node("Tanh", "h", "t"), node("Mul", "t,s1", "m"), node("Add", "m,b2", "y")],
    {"x": ["n", 70]}, {"b1": np.zeros(70, np.float32), "b2": np.zeros(70, np.float32), "s1": np.ones(70, np.float32)}, ["y"])
GELUS = model([node("MatMul", "x,w", "h"), node("Gelu", "h", "a"), node("Gelu", "a", "y", approximate="tanh")],
              {"x": ["n", 4]}, {"w": 3 * near(4, 5)}, ["y"])
ATTENTION = model(
    [node("Gather", "table,ids", "e"), node("LayerNormalization", "e,g,c", "x", axis=-1, epsilon=1e-3),
     node("MatMul", "x,wq", "q"), node("MatMul", "x,wk", "k"), node("Transpose", "k", "kt", perm=[0, 2, 1]),
     node("MatMul", "q,kt", "s"), node("Softmax", "s", "p"), node("MatMul", "p,x", "o"), node("Gelu", "o", "a"),
     node("Add", "a,x", "r"), node("ReduceMean", "r,axes", "y", keepdims=0)],
    {"ids": (TensorProto.INT64, ["n", "t"])},
    {"table": near(9, 6), "g": near(6), "c": near(6, seed=1), "wq": near(6, 6, seed=2), "wk": near(6, 6, seed=3),
     "axes": np.array([1])}, ["y"])
NORMALIZED = model(
    [node("Conv", "x,w,b", "c", pads=[1, 1, 1, 1]), node("BatchNormalization", "c,s,o,m,v", "n"), node("Relu", "n", "r"),
     node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]), node("Pow", "p,e", "q"),
     node("GlobalAveragePool", "q", "g"), node("Flatten", "g", "y")],
    {"x": [3, 2, 6, 6]},
    {"w": near(4, 2, 3, 3), "b": near(4), "s": near(4), "o": near(4, seed=1), "m": near(4, seed=2),
     "v": np.abs(near(4, seed=3)) + 1, "e": np.array([2, 3, 2], np.float32).reshape(3, 1, 1, 1)}, ["y"])
MOBILE = model(
    [node("Conv", "x,w1,b1", "c1", strides=[2, 2], pads=[1, 1, 1, 1]), node("Tanh", "c1", "a1"),
     node("Conv", "a1,w2", "c2", group=4, strides=[2, 1], pads=[1, 0, 1, 2]), node("HardSwish", "c2", "a2"),
     node("Conv", "a2,w3", "c3", group=2, dilations=[1, 2]), node("MaxPool", "c3", "m", kernel_shape=[2, 2], pads=[1, 0, 0, 0]),
     node("AveragePool", "m", "p", kernel_shape=[2, 1]), node("ConvTranspose", "p,w4", "y", strides=[2, 2])],
    {"x": ["n", 3, 12, 12]},
    {"w1": near(4, 3, 3, 3), "b1": near(4), "w2": near(4, 1, 3, 3), "w3": near(6, 2, 1, 2), "w4": near(6, 2, 2, 2)}, ["y"])
SIGNAL = model(
    [node("Conv", "x,w", "c", strides=[2]), node("LeakyRelu", "c", "a"), node("MaxPool", "a", "m", kernel_shape=[2], strides=[3]),
     node("InstanceNormalization", "m,s,b", "y")],
    {"x": ["n", 2, 19]}, {"w": near(3, 2, 3), "s": near(3), "b": near(3, seed=1)}, ["y"])
TWO_BIASES = model([node("MatMul", "x,w", "p"), node("Add", "p,a", "q"), node("Add", "q,b", "y")],
                   {"x": ["n", 4]}, {"w": near(4, 3), "a": near(3), "b": near(3, seed=1)}, ["y"])


NAMED_APART = model(
    [node("MatMul", "x,w", "h"), node("Add", "h,m", "s"), node("Mul", "s,m", "z"), node("MatMul", "z,other", "y")],
    {"x": ["n", "t", 4], "m": ["k", "s", 3], "other": ["j", 3, 2]}, {"w": near(4, 3)}, ["y"])
OPEN_PRODUCT = model(
    [node("Add", "x,b", "h"), node("Slice", "h,zero,four,two", "l"), node("Sin", "l", "y")],
    {"x": ["n", "s", "t"]}, {"b": near(8), "zero": np.array([0]), "four": np.array([4]), "two": np.array([2])}, ["y"])
CROPPED = model([node("Crop", "x", "c", border=[0, 1, 0, 2]), node("Sin", "c", "y")], {"x": ["n", "c", "h", "w"]}, {}, ["y"], opset=9)
FOUND_PLACES = model(
    [node("ReduceSum", "x,one", "s", keepdims=0), node("Greater", "s,low", "b"), node("NonZero", "b", "i"),
     node("Squeeze", "i,zero", "p"), node("Gather", "x,p", "y")],
    {"x": ["n", 3]}, {"low": np.array(-0.5, np.float32), "one": np.array([1]), "zero": np.array([0])}, ["y"])
COMPUTED_PLACES = model(
    [node("Shape", "x", "count", start=1, end=2), node("Sub", "five,count", "first"), node("Add", "five,count", "end"),
     node("Slice", "table,first,end,zero", "around"), node("MatMul", "x,w", "h"), node("Transpose", "around", "turned"),
     node("MatMul", "h,turned", "p"), node("Slice", "p,last,far,minus", "q"), node("Sub", "zero,count", "back"),
     node("Slice", "p,back,far,minus", "r"), node("Concat", "q,r", "y", axis=2)],
    {"x": ["n", "t", 4]}, {"w": near(4, 3), "table": near(12, 3), "five": np.array([5]), "zero": np.array([0]),
                           "last": np.array([-1]), "minus": np.array([-1]), "far": np.array([2**31 - 1])}, ["y"])
STEPS = model(
    [node("MatMul", "x,w", "h"), node("Slice", "h,one,far,one,two", "odd"), node("Slice", "h,last,low,one,back", "turned"),
     node("Slice", "h,both,ends,places,both_steps", "corners"), node("Sin", "odd", "a"), node("Tanh", "turned", "b"),
     node("Mul", "corners,corners", "c"), node("ReduceSum", "a,one", "d"), node("ReduceSum", "b,one", "e"),
     node("ReduceSum", "c,one", "f"), node("Concat", "d,e,f", "y", axis=2)],
    {"x": ["n", "t", 4]},
    {"w": near(4, 5), **{name: np.array(numbers) for name, numbers in {
        "one": [1], "two": [2], "far": [2**31 - 1], "last": [-1], "low": [-(2**31)], "back": [-3], "both": [0, -2],
        "ends": [2**31 - 1, -(2**31)], "places": [1, 2], "both_steps": [3, -2]}.items()}}, ["y"])
RUNS = model(
    [node("MatMul", "x,w", "h"), node("Slice", "h,zero,two,last", "a"), node("Slice", "h,two,five,last", "b"),
     node("Slice", "h,five,far,last", "c"), node("Slice", "h,zero,two,last", "again"), node("Slice", "b,zero,last,last", "inner"),
     node("Gather", "h,end", "newest", axis=1), node("Gather", "h,first_two", "oldest", axis=1),
     *[node("ReduceSum", f"{name},places", f"of_{name}", keepdims=0) for name in ("sin", "b_b", "tanh", "exp", "inner", "squares")],
     node("Sin", "a", "sin"), node("Mul", "b,b", "b_b"), node("Tanh", "c", "tanh"), node("Exp", "again", "exp"),
     node("Mul", "oldest,oldest", "squares"), node("ReduceSum", "newest,one", "of_newest", keepdims=0),
     node("Sum", "of_sin,of_b_b,of_tanh,of_exp,of_inner,of_squares,of_newest", "y")],
    {"x": ["n", "t", 4]},
    {"w": near(4, 7), "zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "five": np.array([5]),
     "far": np.array([2**31 - 1]), "last": np.array([-1]), "end": np.array(-1), "first_two": np.array([0, 1]),
     "places": np.array([1, 2])}, ["y"])
GIVEN_PLACES = model(
    [node("Add", "k,two", "end"), node("Slice", "table,k,end,zero", "part"), node("MatMul", "x,part", "y")],
    {"x": ["n", 2], "k": (TensorProto.INT64, [1])},
    {"table": near(9, 3), "two": np.array([2]), "zero": np.array([0])}, ["y"])


TILED = model(
    [node("Shape", "z", "count"), node("Concat", "count,one,one", "times", axis=0), node("Tile", "w,times", "many"),
     node("MatMul", "x,many", "y")],
    {"x": ["m", 3, 2], "z": ["n"]}, {"w": near(2, 2, 3), "one": np.array([1])}, ["y"])


def fused_products() -> onnx.ModelProto:
    """Products of factors that are transposed, of equal batches and of one for all."""
    nodes = [helper.make_node("FusedMatMul", [*given], [made], domain="com.microsoft", **attributes) for given, made, attributes in (
        (("x", "a"), "p", {"transB": 1, "alpha": 0.5}), (("p", "x"), "q", {"transA": 1}),
        (("b", "q"), "r", {"transA": 1, "transB": 1, "alpha": -2.0}), (("r", "c"), "y", {}))]
    found = model(nodes, {"x": ["n", 3, 4]}, {"a": near(5, 4), "b": near(4, 2), "c": near(1, 5, 2)}, ["y"])
    found.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return found


def optimised() -> onnx.ModelProto:
    """What onnxruntime's optimiser makes of a normalization and an activation."""
    nodes = [node("SimplifiedLayerNormalization", "x,s", "h", axis=-1, epsilon=1e-3), node("MatMul", "h,w", "p"),
             helper.make_node("QuickGelu", ["p"], ["y"], domain="com.microsoft", alpha=1.7)]
    found = model(nodes, {"x": ["n", 3, 4]}, {"s": near(4), "w": near(4, 2)}, ["y"])
    found.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return found


def with_function() -> onnx.ModelProto:
    """Two calls of a function of the model, with weights of their own."""
    layer = helper.make_function(
        "own", "Layer", ["x", "w", "b"], ["y"],
        [node("MatMul", "x,w", "p"), node("Add", "p,b", "s"), node("Tanh", "s", "t"), node("Add", "t,x", "r"), node("Exp", "r", "y")],
        [helper.make_opsetid("", 20)])
    calls = [helper.make_node("Layer", ["x", "w1", "b1"], ["h"], domain="own"),
             helper.make_node("Layer", ["h", "w2", "b2"], ["y"], domain="own")]
    weights = {"w1": near(3, 3), "b1": near(3), "w2": near(3, 3, seed=1), "b2": near(3, seed=2)}
    found = model(calls, {"x": ["n", 3]}, weights, ["y"])
    found.functions.append(layer)
    found.opset_import.append(helper.make_opsetid("own", 1))
    return found


def classifier(kind: str, columns: int, norm: str) -> onnx.ModelProto:
    """Scaled and normalized features, three or two classes."""
    classes = max(columns, 2)
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=near(4).tolist(), scale=near(4, seed=1).tolist()),
        helper.make_node("Normalizer", ["s"], ["z"], domain="ai.onnx.ml", norm=norm),
        helper.make_node("LinearClassifier", ["z"], ["label", "y"], domain="ai.onnx.ml", post_transform=kind,
                         classlabels_ints=list(range(classes)), coefficients=near(4 * columns, seed=2).tolist(),
                         intercepts=near(columns, seed=3).tolist()),
        helper.make_node("LinearRegressor", ["z"], ["r"], domain="ai.onnx.ml", targets=2, coefficients=near(8).tolist())]
    found = model(nodes, {"x": ["n", 4]}, {}, ["label", "y", "r"])
    found.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return found


def recurrent(op_type: str, gates: int, states: str, **attributes: Any) -> onnx.ModelProto:
    """Two directions of five units over sequences of three numbers, from initial states; all results are read."""
    outputs = ["all", "last", "cell"][: 3 if op_type == "LSTM" else 2]
    weights = {"w": near(2, gates * 5, 3), "r": near(2, gates * 5, 5, seed=1), "b": near(2, gates * 10, seed=2)}
    inputs = {"x": ["t", "n", 3], **{name: [2, "n", 5] for name in states.split(",") if name}}
    layer = node(op_type, f"x,w,r,b,,{states}" if states else "x,w,r,b", ",".join(outputs), hidden_size=5,
                 direction="bidirectional", **attributes)
    return model([layer, *[node("Sin", name, f"y_{name}") for name in outputs]], inputs, weights, [f"y_{name}" for name in outputs])


SCALED = model(
    [node("Mul", "x,f", "h"), node("Div", "h,q", "d"), node("Gemm", "d,w,b", "y")],
    {"x": ["n", 4]}, {"f": np.array([2], np.float32), "q": np.array([[3]], np.float32), "w": near(4, 1), "b": near(1)}, ["y"])
TWO_OUTPUTS = model(
    [node("MatMul", "x,w", "h"), node("Sigmoid", "h", "y"), node("ArgMax", "y", "label", axis=1), node("Mul", "h,f", "z"),
     node("ReduceSum", "z", "total", keepdims=0)],
    {"x": ["n", 4]}, {"w": near(4, 3), "f": np.array(3, np.float32)}, ["label", "y", "z"])


def layers(count: int) -> onnx.ModelProto:
    """Residual layers of five units, alike."""
    nodes = [node for number in range(count) for node in (
        helper.make_node("MatMul", [f"h{number}", f"w{number}"], [f"p{number}"]),
        helper.make_node("Tanh", [f"p{number}"], [f"t{number}"]),
        helper.make_node("Add", [f"t{number}", f"h{number}"], [f"r{number}"]),
        helper.make_node("LayerNormalization", [f"r{number}", f"g{number}"], [f"h{number + 1}"], epsilon=1e-3))]
    weights = {name: near(*dims, seed=number) for number in range(count)
               for name, dims in ((f"w{number}", (5, 5)), (f"g{number}", (5,)))}
    return model(nodes, {"h0": ["n", 5]}, weights, [f"h{count}"])


LAYERS = layers(6)
REPEATING = model(
    [node("MatMul", "x,w", "h"), node("Pad", "h,first", "a", mode="reflect"), node("Pad", "a,other", "b", mode="edge"),
     node("Sin", "b", "y")],
    {"x": ["n", 5, 4]}, {"w": near(4, 3), "first": np.array([0, 2, 1, 0, 3, 2]), "other": np.array([0, -2, 1, 0, 2, -3])}, ["y"])
ROWS = {
    "a perceptron": Row(PERCEPTRON, {"n": 7}, count=4),
    "by its weights": Row(PERCEPTRON, {"n": 7}, ("weights",), count=3),
    "by its input": Row(PERCEPTRON, {"n": 7}, ("inputs",), count=1),
    "by names": Row(PERCEPTRON, {"n": 7}, ("b1", "x"), count=2),
    "layers of SystemDS": Row(PERCEPTRON, {"n": 7}, count=4, options={"style": "nn"}),
    "a size that is known": Row(PERCEPTRON, {"n": 7}, count=4, options={"dims": {"n": 7}}),
    "both kinds of Gelu": Row(GELUS, {"n": 5}, count=2),
    "weights that are alike at the start": Row(ALIKE, {"n": 3}, count=4),
    "an attention after a table": Row(ATTENTION, {"n": 2, "t": 3}, count=5),
    "a convolution, statistics and exponents": Row(NORMALIZED, count=5),
    "convolutions in groups, of any number of images": Row(MOBILE, {"n": 3}, count=6),
    "a signal": Row(SIGNAL, {"n": 3}, count=4),
    "numbers that scale are no weights": Row(SCALED, {"n": 3}, ("weights",), count=2),
    "but where they are named": Row(SCALED, {"n": 3}, ("weights", "f", "q"), count=4),
    "two biases of one sum": Row(TWO_BIASES, {"n": 3}, count=4),
    "sizes whose names do not tell that they are equal": Row(NAMED_APART, {name: 2 if name in "nkj" else 3 for name in "ntksj"}, count=4),
    "sizes that only the derivative by the result would tell": Row(OPEN_PRODUCT, {"n": 2, "s": 3, "t": 8}, count=2),
    "sizes that the run decides": Row(CROPPED, {"n": 2, "c": 3, "h": 4, "w": 5}, ("inputs",), count=1),
    "rows that the run finds": Row(FOUND_PLACES, {"n": 6}, ("x",), count=1),
    "parts of computed places": Row(COMPUTED_PLACES, {"n": 2, "t": 3}, count=3),
    "every second, from the last one, and of two axes": Row(STEPS, {"n": 2, "t": 7}, count=2),
    "the same of other sizes": Row(STEPS, {"n": 2, "t": 4}, count=2),
    "parts of places that are given": Row(GIVEN_PLACES, {"n": 3}, count=2),
    "runs of elements, some of which are all of an axis": Row(RUNS, {"n": 2, "t": 4}, count=2),
    "elements that are repeated, or cut off": Row(REPEATING, {"n": 2}, count=2),
    "as many copies as there are samples": Row(TILED, {"n": 2, "m": 4}, ("x", "w"), count=2),
    "a norm and an activation of onnxruntime's optimiser": Row(optimised(), {"n": 2}, count=3),
    "products of onnxruntime's optimiser": Row(fused_products(), {"n": 3}, count=4),
    "functions of the model": Row(with_function(), {"n": 2}, count=5, options={"functions": "keep"}),
    "a classifier of three classes": Row(classifier("SOFTMAX", 3, "L2"), {"n": 3}, ("inputs",), count=1),
    "one of three truths": Row(classifier("LOGISTIC", 3, "L1"), {"n": 3}, ("x",), count=1),
    "one of two classes": Row(classifier("LOGISTIC", 1, "L2"), {"n": 3}, ("x",), count=1),
    "scores": Row(classifier("NONE", 3, "L1"), {"n": 3}, ("x",), count=1),
    "an LSTM": Row(recurrent("LSTM", 4, "h,c"), {"n": 2, "t": 4}, count=6),
    "an LSTM from zeros": Row(recurrent("LSTM", 4, ""), {"n": 3, "t": 2}, count=4),
    "a GRU": Row(recurrent("GRU", 3, "h"), {"n": 2, "t": 4}, count=5),
    "a GRU that multiplies first": Row(recurrent("GRU", 3, "h", linear_before_reset=1), {"n": 2, "t": 4}, count=5),
    "a recurrent layer": Row(recurrent("RNN", 1, "h"), {"n": 2, "t": 4}, count=5),
    "two outputs of three, a number": Row(TWO_OUTPUTS, {"n": 3}, ("w", "f"), count=2),
    "blocks": Row(LAYERS, {"n": 3}, count=13, options={"functions": "blocks"}),
    "all in one function": Row(LAYERS, {"n": 3}, count=13, options={"functions": "flat"}),
}


@pytest.mark.engine
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_derivatives_are_differences(row: Row, tmp_path: Path) -> None:
    script = import_model(row.model, gradients=row.words, **row.options)
    assert script.derivatives is not None
    assert not {*script.derivatives.forward.results} & {*script.derivatives.backward.results}
    found = derivatives(script, row.sizes, tmp_path)
    assert len(found) == row.count
    for name, derivative, difference in found:
        assert derivative == pytest.approx(difference, rel=1e-5, abs=1e-7), name


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_no_function_with_numbers_has_callers_of_two_functions_of_a_program(row: Row) -> None:
    """The engine would compile the numbers of one into what the other one calls (decision 11)."""
    script = import_model(row.model, gradients=row.words, **row.options)
    assert script.derivatives is not None
    functions, met = script.callable_functions, set[str]()
    for entry in (script.function, script.derivatives.forward.function, script.derivatives.backward.function):
        found, waiting = set[str](), [entry]
        while waiting:
            called = {name for name in called_in(functions[waiting.pop()]) if name in functions} - found
            found |= called
            waiting += called
        taking = {name for name in found if any(it.type.kind == "scalar" for it in functions[name].parameters)}
        assert taking.isdisjoint(met)
        met |= taking


def test_derivatives_by_all_runs_of_an_axis_stand_side_by_side() -> None:
    parts = [node("MatMul", "x,w", "h"), node("Slice", "h,zero,two,last", "a"), node("Slice", "h,two,far,last", "b"),
             node("Sin", "a", "c"), node("Concat", "c,b,c", "y", axis=1)]
    script = import_model(model(parts, {"x": ["n", 4]}, {"w": near(4, 5), **{name: np.array([number]) for name, number in (
        ("zero", 0), ("two", 2), ("far", 9), ("last", -1))}}, ["y"]), gradients=["w"])
    assert "t(x) %*% cbind((d_y[, 1:2] + d_y[, 6:7]) * cos(a), d_y[, 3:5])" in script.text


def test_script() -> None:
    lines = import_model(PERCEPTRON, gradients=["weights", "inputs"]).text.splitlines()
    start = lines.index("gen_net = function(matrix[double] x, list[unknown] weights) return (matrix[double] y) {")
    end = lines.index("# Loads the weights, once; pass the list to gen_net.")
    assert "\n".join(lines[start:end]) == """\
gen_net = function(matrix[double] x, list[unknown] weights) return (matrix[double] y) {
  b1 = matrix(as.matrix(weights["b1"]), rows=1, cols=5)
  w1 = matrix(as.matrix(weights["w1"]), rows=5, cols=4)
  w2 = matrix(as.matrix(weights["w2"]), rows=5, cols=3)
  if (time() < 0) { print("never") }  # cuts the block: from here on all sizes are known
  if ((ncol(x) != 4) | (nrow(x) == 0)) {
    if (ncol(x) != 4) { stop("x has " + ncol(x) + " columns, not 4") }
    if (nrow(x) == 0) { stop("x has no rows") }
  }
  s = max(x %*% t(w1) + b1, 0) %*% w2
  y_exp = exp(s - rowMaxs(s))
  y = y_exp / rowSums(y_exp)
}

gen_net_forward = function(matrix[double] x, matrix[double] parameters) return (matrix[double] y, matrix[double] a) {
  b1 = matrix(parameters[1:5, ], rows=1, cols=5)
  w1 = matrix(parameters[6:25, ], rows=5, cols=4)
  w2 = matrix(parameters[26:40, ], rows=5, cols=3)
  if (time() < 0) { print("never") }  # cuts the block: from here on all sizes are known
  if ((ncol(x) != 4) | (nrow(x) == 0)) {
    if (ncol(x) != 4) { stop("x has " + ncol(x) + " columns, not 4") }
    if (nrow(x) == 0) { stop("x has no rows") }
  }
  a = max(x %*% t(w1) + b1, 0)
  s = a %*% w2
  y_exp = exp(s - rowMaxs(s))
  y = y_exp / rowSums(y_exp)
}

gen_net_backward = function(matrix[double] d_y, matrix[double] a, matrix[double] y, matrix[double] x,
    matrix[double] parameters)
    return (matrix[double] d_x, matrix[double] gradient) {
  never = time() < 0
  w1 = matrix(parameters[6:25, ], rows=5, cols=4)
  w2 = matrix(parameters[26:40, ], rows=5, cols=3)
  n = nrow(x)
  if (never) { print("never") }  # cuts the block: from here on all sizes are known
  d_s_Transpose = t(a)
  if (nrow(d_y) != n) { stop("d_y has " + nrow(d_y) + " rows, not n = " + n) }
  if ((ncol(x) != 4) | (ncol(d_y) != 3) | (nrow(x) == 0)) {
    if (ncol(x) != 4) { stop("x has " + ncol(x) + " columns, not 4") }
    if (ncol(d_y) != 3) { stop("d_y has " + ncol(d_y) + " columns, not 3") }
    if (nrow(x) == 0) { stop("x has no rows") }
  }
  d_s = (d_y + -((d_y * y) %*% matrix(1, rows=3, cols=1))) * y
  d_a = d_s %*% t(w2)
  d_w2 = matrix(product_of_few_rows(d_s_Transpose, d_s), rows=15, cols=1)
  if (never) { print("never") }  # cuts the block: W * f(A %*% B) is 0 where W is 0, for NaN as well
  d_h = (a > 0) * d_a
  d_x = d_h %*% w1
  d_w1 = matrix(product_of_few_rows_2(t(d_h), x), rows=20, cols=1)
  gradient = rbind(matrix(matrix(1, rows=1, cols=n) %*% d_h, rows=5, cols=1), d_w1, d_w2)
}

# The weights that are trained, one below the other.
gen_net_parameters = function(list[unknown] weights) return (matrix[double] parameters) {
  parameters = rbind(matrix(as.matrix(weights["b1"]), rows=5, cols=1),
      matrix(as.matrix(weights["w1"]), rows=20, cols=1), matrix(as.matrix(weights["w2"]), rows=15, cols=1))
}

# The list of weights with those of a column; as.matrix(list(..)) hides sizes, which the compiler takes for the list's.
gen_net_trained = function(matrix[double] parameters, list[unknown] weights) return (list[unknown] trained) {
  trained = weights
  value = matrix(parameters[1:5, ], rows=1, cols=5)
  trained["b1"] = as.matrix(list(value))
  value = matrix(parameters[6:25, ], rows=5, cols=4)
  trained["w1"] = as.matrix(list(value))
  value = matrix(parameters[26:40, ], rows=5, cols=3)
  trained["w2"] = as.matrix(list(value))
}
"""


TRAINING = """
source("net.dml") as net
X = rand(rows=200, cols=4, min=-1, max=1, seed=1)
Y = table(seq(1, 200), 1 + (X[, 1] > 0) + (X[, 2] > 0), 200, 3)
weights = net::gen_net_init()
y = net::gen_net(X, weights)
print("before " + sum(Y * log(y)))
parameters = net::gen_net_parameters(weights)
for (epoch in 1:50) {
  [y, a] = net::gen_net_forward(X, parameters)
  gradient = net::gen_net_backward(-Y / y / 200, a, y, X, parameters)
  parameters = parameters - 2 * gradient
}
weights = net::gen_net_trained(parameters, weights)
y = net::gen_net(X, weights)
print("after " + sum(Y * log(y)))
"""


@pytest.mark.engine
def test_training(tmp_path: Path) -> None:
    import_model(PERCEPTRON, gradients=["weights"]).save(tmp_path / "net.dml")
    lines = dict(line.split() for line in run_dml(TRAINING, tmp_path).splitlines() if line.startswith(("before", "after")))
    assert float(lines["before"]) < -200
    assert float(lines["after"]) > -60


# A weight of n x 1, where the list has n entries: the weights and a mark.
LISTS = {
    "two weights": model(
        [node("MatMul", "x,w1", "h"), node("Tanh", "h", "t"), node("MatMul", "t,w2", "y")],
        {"x": ["n", 2]}, {"w1": near(2, 3), "w2": near(3, 1)}, ["y"]),
    "one weight": model([node("MatMul", "x,w", "y")], {"x": ["n", 2]}, {"w": near(2, 1)}, ["y"]),
}


@pytest.mark.engine
@pytest.mark.parametrize("network", LISTS.values(), ids=LISTS)
def test_list_of_what_was_trained(network: onnx.ModelProto, tmp_path: Path) -> None:
    import_model(network, gradients=["weights"]).save(tmp_path / "net.dml")
    program = """
source("net.dml") as net
X = rand(rows=5, cols=2, min=-1, max=1, seed=1)
weights = net::gen_net_init()
parameters = net::gen_net_parameters(weights)
before = net::gen_net(X, weights)
weights = net::gen_net_trained(2 * parameters, weights)
y = net::gen_net(X, weights)
print("apart " + max(abs(y - before)))
weights = net::gen_net_trained(parameters, weights)
y = net::gen_net(X, weights)
print("apart " + max(abs(y - before)))
"""
    output = run_dml(program, tmp_path)
    doubled, same = (float(line.split()[1]) for line in output.splitlines() if line.startswith("apart"))
    assert doubled > 0.1
    assert same == 0


REFUSED = {
    "an unknown name": (PERCEPTRON, ["w3"], "'w3' is no input and no weight of floating-point numbers"),
    "no weights": (model([node("Relu", "x", "y")], {"x": ["n"]}, {}, ["y"]), ["weights"],
                   "the model has no weights of floating-point numbers"),
    "no inputs of numbers": (ATTENTION, ["inputs"], "the model has no inputs of floating-point numbers"),
    "no output of numbers": (model([node("ArgMax", "x", "y")], {"x": ["n", 2]}, {}, ["y"]), ["x"],
                             "no output of floating-point numbers depends on 'x'"),
    "an operator without a rule": (model([node("Det", "x", "y")], {"x": ["n", 2, 2]}, {}, ["y"]), ["x"],
                                   "the derivative of Det (node '#0') is not supported yet"),
    "weights that only choose": (
        model([node("Ceil", "w", "c"), node("Mul", "x,c", "y")], {"x": (TensorProto.FLOAT, ["n", 2])}, {"w": near(2)}, ["y"]),
        ["weights"], "the derivatives by 'w' are zero"),
    "an item of a list, by a number of the run": (
        model([node("SequenceConstruct", "x,z", "s"), node("SequenceAt", "s,k", "y")],
              {"x": ["n", 2], "z": ["n", 2], "k": (TensorProto.INT64, [])}, {}, ["y"]), ["x"],
        "the derivative of SequenceConstruct (node '#0') is not supported yet"),
}


@pytest.mark.parametrize(("refused", "words", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(refused: onnx.ModelProto, words: list[str], message: str) -> None:
    with pytest.raises(TranspileError, match="derivative|weights|inputs|output") as caught:
        import_model(refused, gradients=words)
    assert message in str(caught.value).replace('"', "'")


def test_weights_that_are_trained_are_no_part_of_the_script() -> None:
    with pytest.raises(TranspileError, match="weights that are trained are in files"):
        import_model(PERCEPTRON, gradients=["weights"], weights="inline")


def test_command_line(tmp_path: Path) -> None:
    onnx.save(PERCEPTRON, tmp_path / "net.onnx")
    found = CliRunner().invoke(main, [str(tmp_path / "net.onnx"), "--gradient", "weights"])
    assert found.exit_code == 0, found.output
    text = (tmp_path / "net.dml").read_text()
    for statement in ("parameters = net::gen_net_parameters(weights)", "[y, a] = net::gen_net_forward(x, parameters)",
                      "gradient = net::gen_net_backward(d_y, a, y, x, parameters)",
                      "weights = net::gen_net_trained(parameters, weights)"):
        assert f"# {statement}\n" in text


def test_long_calls_are_not_printed(tmp_path: Path) -> None:
    onnx.save(layers(20), tmp_path / "net.onnx")
    found = CliRunner().invoke(main, [str(tmp_path / "net.onnx"), "--gradient", "weights"])
    assert found.exit_code == 0 and "  the calls of both passes stand at the head of " in found.output
    assert "gen_net_forward" not in found.output
    assert "# gradient = net::gen_net_backward(" in (tmp_path / "net.dml").read_text()


BOTH = """
both = function(matrix[double] x, matrix[double] d_y, list[unknown] weights) return (matrix[double] y, matrix[double] d_x) {
  n = nrow(x)
  w = matrix(as.matrix(weights["w"]), rows=1, cols=3)
  a = exp(x)
  s = sum(a)
  y = a * w + s
  d_a = d_y * a * w
  a = a * 2
  b = a + matrix(1, rows=n, cols=3)
  if (s > 1) {
    d_b = d_a
  } else {
    d_b = d_a * 2
  }
  d_x = d_b * b / s
}
"""


def test_two_passes() -> None:
    """What is read before it changes, changes in the backward pass, which computes sizes and takes weights itself."""
    (function,) = (item for item in parse_script(BOTH).items if isinstance(item, tree.Function))
    forward, backward, kept = in_two(function, {}, ["d_y"], replace(function, name="f"), 1, 0)
    assert [parameter.name for parameter in kept] == ["a", "s"]
    assert print_statement(forward) == """\
f_forward = function(matrix[double] x, list[unknown] weights) return (matrix[double] y, matrix[double] a, double s) {
  w = matrix(as.matrix(weights["w"]), rows=1, cols=3)
  a = exp(x)
  s = sum(a)
  y = a * w + s
}
"""
    assert print_statement(backward) == """\
both = function(matrix[double] d_y, matrix[double] a, double s, matrix[double] x, list[unknown] weights)
    return (matrix[double] d_x) {
  never = time() < 0
  n = nrow(x)
  w = matrix(as.matrix(weights["w"]), rows=1, cols=3)
  if (never) { print("never") }  # cuts the block: from here on all sizes are known
  d_a = d_y * a * w
  a = a * 2
  b = a + matrix(1, rows=n, cols=3)
  if (s > 1) {
    d_b = d_a
  } else {
    d_b = d_a * 2
  }
  d_x = d_b * b / s
}
"""
