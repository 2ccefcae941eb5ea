"""Images with a sample in each column after depthwise convolutions as products; onnxruntime judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_script
from onnx_systemds.dml.syntax import Script
from onnx_systemds.importing.passes.convolution_sizes import Convolution
from onnx_systemds.importing.passes.matrix_sizes import integer_lookup
from onnx_systemds.importing.passes.specialisation.merged_reshapes import with_merged_reshapes
from onnx_systemds.importing.passes.specialisation.sample_columns import with_sample_columns
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import check_all_forms
from tests.runtime.recording import recorded

RANDOM = np.random.default_rng(11)
CHANNELS, SIZE = 6, 5
node = helper.make_node


def conv(
    given: str, result: str, filters: int = CHANNELS, planes: int = CHANNELS, kernel: int = 1, dilation: int = 1
) -> list[NodeProto]:
    """A convolution of these sizes with weights and a bias; of single planes it is depthwise."""
    weight = (RANDOM.normal(size=(filters, planes, kernel, kernel)) / planes).astype(np.float32)
    bias = RANDOM.normal(size=filters).astype(np.float32)
    constants = [
        node("Constant", [], [f"{result}_{name}"], value=numpy_helper.from_array(array))
        for name, array in (("w", weight), ("b", bias))
    ]
    group, pad = CHANNELS if planes == 1 else 1, kernel // 2 * dilation
    inputs = [given, f"{result}_w", f"{result}_b"]
    return [*constants, node("Conv", inputs, [result], group=group, pads=[pad] * 4, dilations=[dilation] * 2)]


def depthwise(given: str, result: str, filters: int = CHANNELS) -> list[NodeProto]:
    return conv(given, result, filters, planes=1, kernel=3)


def constant(name: str, *values: float) -> NodeProto:
    array = np.array(values if len(values) > 1 else values[0], np.float32)
    return node("Constant", [], [name], value=numpy_helper.from_array(array))


def model_of(nodes: Sequence[NodeProto], results: Sequence[str] = ("y",), batch: Any = "n") -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, CHANNELS, SIZE, SIZE])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in results]
    graph = helper.make_graph(nodes, "columns", [x], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# Nodes from "x" to "y", and how often a matrix is transposed then.
NETWORKS = {
    "relu": ([*depthwise("x", "a"), node("Relu", ["a"], ["y"])], 2),
    "pointwise": ([*depthwise("x", "a"), node("Relu", ["a"], ["b"]), *conv("b", "c", 9), node("Relu", ["c"], ["y"])], 2),
    "two products": ([*depthwise("x", "a"), *conv("a", "b"), node("Relu", ["b"], ["c"]), *depthwise("c", "y", 12)], 2),
    "hard swish": ([*depthwise("x", "a"), node("HardSwish", ["a"], ["b"]), *conv("b", "y")], 2),
    "sigmoid": ([*depthwise("x", "a"), node("Sigmoid", ["a"], ["b"]), node("Mul", ["a", "b"], ["c"]), *conv("c", "y")], 2),
    "clip": (
        [*depthwise("x", "a"), constant("low", 0), constant("high", 1), node("Clip", ["a", "low", "high"], ["b"]),
         *conv("b", "y")],
        2,
    ),
    "a sum of both": ([*depthwise("x", "a"), *conv("a", "b"), node("Add", ["a", "b"], ["c"]), *depthwise("c", "y")], 2),
    "a sum the other way": ([*depthwise("x", "a"), *conv("a", "b"), node("Sub", ["b", "a"], ["y"])], 2),
    "a sum with other images": ([*depthwise("x", "a"), *conv("a", "b"), node("Add", ["b", "x"], ["y"])], 2),
    "numbers": (
        [*depthwise("x", "a"), constant("two", 2.5), node("Sub", ["two", "a"], ["b"]), node("Abs", ["b"], ["c"]),
         node("Sqrt", ["c"], ["d"]), node("Neg", ["d"], ["e"]), *conv("e", "y")],
        2,
    ),
    "a pooling": ([*depthwise("x", "a"), *conv("a", "b"), node("MaxPool", ["b"], ["y"], kernel_shape=[2, 2])], 2),
    "a wider kernel": ([*depthwise("x", "a"), *conv("a", "b"), *conv("b", "y", kernel=3)], 2),
    "read by two": (
        [*depthwise("x", "a"), node("GlobalAveragePool", ["a"], ["b"]), node("Mul", ["a", "b"], ["c"]), *conv("c", "y")],
        2,
    ),
    "dilated": ([*conv("x", "a", 4, kernel=3, dilation=2), node("Relu", ["a"], ["y"])], 4),
    "dilated twice": ([*conv("x", "a", kernel=3, dilation=2), *conv("a", "y", 9, kernel=3, dilation=3)], 6),
    "dilated between products": ([*depthwise("x", "a"), *conv("a", "b", kernel=3, dilation=2), *depthwise("b", "y")], 4),
    "dilated and convolved": (
        [*conv("x", "a", kernel=3, dilation=2), node("Relu", ["a"], ["b"]), *conv("b", "c"), *conv("c", "y", kernel=3)], 4
    ),
    "branches": (
        [*depthwise("x", "a"), *conv("a", "b", 4), *conv("a", "c", kernel=3, dilation=2), *depthwise("a", "d", 12),
         node("Concat", ["b", "c", "d"], ["e"], axis=1), *conv("e", "f", planes=22), node("Add", ["a", "f"], ["y"])],
        4,
    ),
    "a branch in rows": ([*depthwise("x", "a"), node("Concat", ["a", "x"], ["b"], axis=1), *conv("b", "y", planes=12)], 2),
    "branches of other sizes": (
        [*depthwise("x", "a"), node("MaxPool", ["a"], ["b"], kernel_shape=[2, 1]),
         *[part for i in "ab" for part in depthwise(i, f"{i}d")], node("Concat", ["ad", "bd"], ["y"], axis=2)],
        5,
    ),
}


def check(model: ModelProto, x: np.ndarray[Any, Any], parts: int, **further: np.ndarray[Any, Any]) -> list[str]:
    """All forms against onnxruntime; the texts of specialised scripts."""
    with ScoringFunction(import_model(model), specialise_after=1, parts=parts) as function:
        texts = recorded(function)
        check_all_forms(function, model, {"x": x, **further})
    mains = [text[text.index("gen_columns = function") :] for text in texts if "write(" in text]
    return [text for text in mains if "depthwise_matrix(" not in text]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("batch", "parts"), [(1, 1), (3, 1), (4, 2)])
def test_networks_give_what_onnxruntime_gives(network: str, batch: int, parts: int) -> None:
    nodes, transpositions = NETWORKS[network]
    if batch == 1:  # what comes back into rows is a column that gets another shape
        transpositions -= 3 if network == "branches of other sizes" else 1
    x = RANDOM.normal(size=(batch, CHANNELS, SIZE, SIZE)).astype(np.float32)
    texts = check(model_of(nodes), x, parts)
    assert texts
    for text in texts:
        assert "_columns" in text and text.count(" t(") + text.count("(t(") == transpositions


def test_results_that_are_also_read_by_others_come_back() -> None:
    nodes = [*depthwise("x", "a"), *conv("a", "b"), node("Relu", ["b"], ["c"]), *depthwise("c", "d")]
    x = RANDOM.normal(size=(2, CHANNELS, SIZE, SIZE)).astype(np.float32)
    check(model_of(nodes, ["a", "b", "d"], batch=2), x, 1)


@pytest.mark.parametrize("further", [[node("Identity", ["b"], ["y"])], conv("b", "y")])
def test_nan_and_infinity_stay_where_they_are(further: list[NodeProto]) -> None:
    nodes = [*depthwise("x", "a"), node("Relu", ["a"], ["b"]), *further]
    x = np.ones((3, CHANNELS, SIZE, SIZE), np.float32)
    x[0, 1, 2, 2], x[1, 3, 0, 0], x[2, 0, 4, 4] = np.nan, np.inf, -np.inf
    check(model_of(nodes), x, 1)


# --- biases that are joined to the weights after them ---------------------------------------------------------------------

CLIPPED = [constant("low", 0.25), constant("high", 1.5)]
READ_BY = {
    "a convolution": ([node("Relu", ["a"], ["b"]), *conv("b", "y", 9)], True),
    "a convolution without a bias": (
        [node("Relu", ["a"], ["b"]), *conv("b", "c", 9)[:1], node("Conv", ["b", "c_w"], ["y"])], True
    ),
    "bounds of both kinds": ([*CLIPPED, node("Clip", ["a", "low", "high"], ["b"]), *conv("b", "y")], True),
    "two convolutions": ([node("Relu", ["a"], ["b"]), *conv("b", "c"), *conv("b", "y", 9)], True),
    "another product": ([node("Relu", ["a"], ["b"]), *conv("b", "c"), node("Relu", ["c"], ["d"]), *depthwise("d", "y")],
                        True),
    "no maximum": ([*CLIPPED, node("Clip", ["a", "", "high"], ["b"]), *conv("b", "y")], False),
    "a wider kernel": ([node("Relu", ["a"], ["b"]), *conv("b", "y", kernel=3)], False),
    "a sum": ([node("Relu", ["a"], ["b"]), *conv("b", "c"), node("Add", ["b", "c"], ["y"])], False),
    "another maximum": ([node("Relu", ["a"], ["b"]), *conv("b", "c"), node("Max", ["a", "c"], ["y"])], False),
}


@pytest.mark.parametrize("reader", READ_BY)
@pytest.mark.parametrize(("batch", "parts"), [(1, 1), (4, 2)])
def test_biases_are_joined_where_only_products_read_what_a_maximum_gives(reader: str, batch: int, parts: int) -> None:
    further, is_joined = READ_BY[reader]
    results = ["y", "c"] if reader == "two convolutions" else ["y"]
    x = RANDOM.normal(size=(batch, CHANNELS, SIZE, SIZE)).astype(np.float32)
    texts = check(model_of([*depthwise("x", "a"), *further], results), x, parts)
    assert texts
    for text in texts:
        assert ("_columns_bound" in text) is ("_columns_weights" in text) is is_joined


@pytest.mark.parametrize("bias", [-1e20, 3e7, np.inf, np.nan])
def test_large_biases_are_not_taken_away_to_be_added_again(bias: float) -> None:
    nodes = [*depthwise("x", "a"), node("Relu", ["a"], ["b"]), *conv("b", "y")]
    biases = nodes[1].attribute[0].t
    array = numpy_helper.to_array(biases).copy()
    array[2] = bias
    changed = [nodes[0], node("Constant", [], ["a_b"], value=numpy_helper.from_array(array)), *nodes[2:]]
    x = RANDOM.normal(size=(2, CHANNELS, SIZE, SIZE)).astype(np.float32)
    texts = check(model_of(changed), x, 1)
    assert texts and not any("_columns_bound" in text for text in texts)


def test_biases_that_are_inputs_are_not_joined() -> None:
    nodes = [part for part in depthwise("x", "a") if part.output[0] != "a_b"]
    model = model_of([*nodes, node("Relu", ["a"], ["b"]), *conv("b", "y")])
    model.graph.input.append(helper.make_tensor_value_info("a_b", TensorProto.FLOAT, [CHANNELS]))
    x = RANDOM.normal(size=(2, CHANNELS, SIZE, SIZE)).astype(np.float32)
    a_b = RANDOM.normal(size=CHANNELS).astype(np.float32)
    texts = check(model, x, 1, a_b=a_b)
    assert texts and not any("_columns_bound" in text for text in texts)


# --- statements ------------------------------------------------------------------------------------------------------

PRODUCTS = {"M": Convolution((2, 3, 4, 4), (3, 3, 3, 3), (1, 1), (1, 1))}
POINTWISE = "input_shape=[2, 3, 4, 4], filter_shape=[5, 3, 1, 1], stride=[1, 1], padding=[0, 0]"


def rewritten(*statements: str) -> str:
    body = parse_script("\n".join(statements)).statements
    return print_script(Script(with_sample_columns(body, PRODUCTS, integer_lookup(body), ["y"]).body))


ROOM = ("M = depthwise_matrix(F, 3, 4, 4, 3, 3, 1, 1, 1, 1)", "z = bias_add(t(M %*% t(x)), b)")


def test_a_product_gets_an_empty_channel_for_the_ones() -> None:
    text = rewritten(*ROOM, "a = max(0, z)", f"y = bias_add(conv2d(a, W, {POINTWISE}), c)")
    assert text == """M = rbind(depthwise_matrix(F, 3, 4, 4, 3, 3, 1, 1, 1, 1), matrix(0, rows=16, cols=48))
z_columns = matrix(M %*% t(x), rows=4, cols=32)
a_columns_bound = rbind(0 - b, matrix(1, rows=1, cols=1))
a_columns = max(z_columns, a_columns_bound)
y_columns_weights = cbind(W, W %*% b + c)
y_columns = y_columns_weights %*% a_columns
y = t(matrix(y_columns, rows=80, cols=2))
"""


def test_what_has_an_empty_channel_is_cut_where_it_is_read_otherwise() -> None:
    text = rewritten(*ROOM, "a = max(z, 0)", f"y = rowSums(conv2d(a, W, {POINTWISE}))")
    assert "a = t(matrix(a_columns[1:3, ] + b, rows=48, cols=2))" in text
    text = rewritten(ROOM[0], ROOM[1] + " * 2", "a = max(z, 0)", f"y = conv2d(a, W, {POINTWISE})")
    assert "z_columns_room = matrix(M %*% t(x), rows=4, cols=32)" in text
    assert "z_columns = (z_columns_room[1:3, ] + b) * 2" in text


def test_no_channel_is_added_to_a_product_that_stays() -> None:
    statements = [ROOM[0], f"{ROOM[1]} + r", "a = max(z, 0)", f"y = conv2d(a, W, {POINTWISE})"]
    assert rewritten(*statements) == print_script(parse_script("\n".join(statements)))


@pytest.mark.parametrize(
    "statement",
    [
        "y = a + b",  # what b is, nobody knows
        "y = bias_add(a, b)",  # how many channels b takes
        "y = max(a, b)",
        "y = a %*% b",
        "y = a == 0",
        "y = matrix(a, rows=6, cols=16)",
        f"y = conv2d(b, W, {POINTWISE})",
        f"y = conv2d(a, W, {POINTWISE.replace('stride=[1', 'stride=[2')})",
        f"y = conv2d(a, W, {POINTWISE.replace('[2, 3', '[1, 6')})",  # other samples than those of a
        "y = rowSums(a)",
        "y = t(a)",
        "y = a[1, ]",
    ],
)
def test_other_statements_read_a_sample_per_row(statement: str) -> None:
    text = rewritten("a = t(M %*% t(x))", statement)
    assert print_script(parse_script(statement)) in text and "y_columns" not in text
    assert ("a = t(a_columns)" in text) is ("conv2d(b" not in statement)


def test_products_that_the_engine_ends_in_an_error_stay() -> None:
    """Of 5 filters by 4 pixels (product-of-few-rows)."""
    convolution = Convolution((2, 2048, 1, 2), (2048, 1, 3, 3), (1, 1), (1, 1))
    call = f"y = conv2d(a, W, {POINTWISE.replace('3, 4, 4]', '2048, 1, 2]').replace('5, 3', '5, 2048')})"
    body = parse_script(f"a = t(M %*% t(x))\n{call}").statements
    assert call in print_script(Script(with_sample_columns(body, {"M": convolution}, integer_lookup(body), ["y"]).body))


TAPS = (
    "S = tap_shifts(4, 4, 3, 3, 2, 2, 2, 2, 4, 4)",
    "T = bias_add(conv2d(x, W, input_shape=[2, 3, 4, 4], filter_shape=[45, 3, 1, 1], stride=[1, 1], padding=[0, 0]), "
    "matrix(0, rows=45, cols=1))",
)
SUMMED = "y = matrix(t(S %*% t(matrix(T, rows=10, cols=144))), rows=2, cols=80)"


def test_taps_are_summed_for_all_samples_at_once() -> None:
    assert rewritten(*TAPS, SUMMED) == """S = sample_tap_shifts(2, 4, 4, 3, 3, 2, 2, 2, 2, 4, 4)
y_columns_weights = t(swapped_rows(W, 1, 5, 9))
y_columns = t(S %*% matrix(t(matrix(t(x), rows=3, cols=32)) %*% y_columns_weights, rows=288, cols=5))
y = t(matrix(y_columns, rows=80, cols=2))
"""


@pytest.mark.parametrize(
    "others",
    [
        [*TAPS, SUMMED.replace("y", "z"), "y = z + sum(T)"],  # read by others
        [*TAPS, SUMMED.replace("y", "z"), "y = z + sum(S)"],
        [TAPS[0].replace("tap_shifts", "f"), TAPS[1], SUMMED],
        [*TAPS, SUMMED.replace("t(S %*% t(matrix(T, rows=10, cols=144)))", "S %*% t(matrix(T, rows=10, cols=144))")],
        [*TAPS, SUMMED.replace("rows=10", "rows=n")],
        [*TAPS, SUMMED.replace("rows=10", "rows=9")],
        ["S = 1", *TAPS, SUMMED],
        [*TAPS, SUMMED + " + z"],  # images in rows
        [*TAPS, SUMMED.replace("rows=10, cols=144", "rows=20, cols=72").replace("cols=80", "cols=160")],  # filters
    ],
)
def test_other_sums_stay(others: list[str]) -> None:
    assert rewritten(*others) == print_script(parse_script("\n".join(others)))


def test_variables_with_several_values_stay() -> None:
    text = rewritten("a = t(M %*% t(x))", "y = max(a, 0)", "if (b) { y = a }")
    assert "y_columns" not in text and "a = t(a_columns)" in text


def test_names_are_new() -> None:
    text = rewritten("a = t(M %*% t(x))", "a_columns = 3", "y = max(a, 0)")
    assert "a_columns_ = M %*% t(x)" in text and "a_columns = 3" in text


def test_long_sums_are_no_recursion() -> None:
    text = rewritten("a = t(M %*% t(x))", "y = a" + " + a" * 3000)
    assert text.count("a_columns") == 3002 and "y = t(y_columns)" in text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("matrix(t(matrix(matrix(F %*% t(x), rows=2, cols=9) + b, rows=18, cols=1)), rows=2, cols=9)",
         "matrix(F %*% t(x), rows=2, cols=9) + b"),
        ("t(matrix(x, rows=1, cols=n))", "matrix(x, rows=n, cols=1)"),
        ("matrix(matrix(x, rows=2, cols=9), rows=6, cols=3)", "matrix(x, rows=6, cols=3)"),
        ("matrix(matrix(x, rows=2, cols=9) + b, rows=6, cols=3)", None),
        ("matrix(x + b, rows=2, cols=9)", None),
        ("t(matrix(x, rows=2, cols=9))", None),
        ("t(matrix(0, rows=9, cols=1))", None),
        ("t(matrix(x, rows=9, cols=1, byrow=FALSE))", None),
    ],
)
def test_shapes_that_another_one_follows(value: str, expected: str | None) -> None:
    body = with_merged_reshapes(parse_script(f"y = {value}").statements)  # type: ignore[arg-type]
    assert print_script(Script(body)) == print_script(parse_script(f"y = {expected or value}"))
