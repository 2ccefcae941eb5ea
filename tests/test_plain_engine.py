"""The harness that scores scripts on the plain command line: all kinds of inputs and outputs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from tests.all_failures import all_failures
from tests.plain_engine import score_plainly, scored_together


def _model(node_or_nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto],
           constants: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    held = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(node_or_nodes, "plain", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _info(name: str, dtype: int, dims: list[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def test_texts_of_any_characters() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0]), helper.make_node("Identity", ["s"], ["t"])]
    inputs = [_info("x", TensorProto.STRING, ["n", 2]), _info("s", TensorProto.STRING, [])]
    outputs = [_info("y", TensorProto.STRING, [2, "n"]), _info("t", TensorProto.STRING, [])]
    texts = np.array([["a b", 'quo"te'], ["", "line\nline, comma"], ["\U0001f600é", "nul\x00"]], dtype=object)
    given = {"x": texts, "s": np.array("one", dtype=object)}
    results = score_plainly(import_model(_model(nodes, inputs, outputs)), given)
    assert results["y"].tolist() == texts.T.tolist() and results["t"].tolist() == "one"


@pytest.mark.parametrize("open_sizes", [False, True])
def test_weights_scalars_and_sizes_that_are_arguments(open_sizes: bool) -> None:
    weight = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Mul", ["p", "k"], ["y"]),
        helper.make_node("Not", ["f"], ["g"]),
        helper.make_node("Transpose", ["x"], ["z"], perm=[2, 0, 1]),
    ]
    inputs = [_info("x", TensorProto.FLOAT, ["a", "b", 40]), _info("k", TensorProto.FLOAT, []),
              _info("f", TensorProto.BOOL, [])]
    outputs = [_info("y", TensorProto.FLOAT, ["a", "b", 30]), _info("g", TensorProto.BOOL, []),
               _info("z", TensorProto.FLOAT, [40, "a", "b"])]
    script = import_model(_model(nodes, inputs, outputs, {"w": weight}))
    x = np.random.default_rng(1).normal(size=(2, 3, 40)).astype(np.float32)
    results = score_plainly(script, {"x": x, "k": np.float32(0.5), "f": np.bool_(True)}, open_sizes=open_sizes)
    np.testing.assert_allclose(results["y"], x @ weight * 0.5, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(results["z"], x.transpose(2, 0, 1))
    assert results["g"].dtype == bool and not results["g"]


def test_lists() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["n", 2])
    nodes = [helper.make_node("SequenceAt", ["s", "i"], ["y"]), helper.make_node("SequenceInsert", ["s", "y"], ["t"])]
    outputs = [_info("y", TensorProto.FLOAT, ["m", 2]), helper.make_tensor_sequence_value_info("t", 1, ["k", 2])]
    model = _model(nodes, [sequence, _info("i", TensorProto.INT64, [])], outputs)
    items = [np.arange(4, dtype=np.float32).reshape(2, 2), np.ones((1, 2), np.float32)]
    results = score_plainly(import_model(model), {"s": items, "i": np.int64(1)})
    np.testing.assert_array_equal(results["y"], items[1])
    for actual, expected in zip(results["t"], [*items, items[1]], strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_tensors_without_elements() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"]), helper.make_node("Concat", ["e", "x"], ["z"], axis=0)]
    inputs = [_info("x", TensorProto.FLOAT, ["n", 2]), _info("e", TensorProto.FLOAT, ["m", 2])]
    outputs = [_info("y", TensorProto.INT64, [2, "k"]), _info("z", TensorProto.FLOAT, ["l", 2])]
    script = import_model(_model(nodes, inputs, outputs))
    results = score_plainly(script, {"x": np.zeros((3, 2), np.float32), "e": np.zeros((0, 2), np.float32)})
    assert results["y"].shape == (2, 0) and results["z"].tolist() == [[0.0, 0.0]] * 3


def test_of_scripts_in_one_program_the_failing_one_is_named() -> None:
    x = np.ones((3, 2), np.float32)
    ports = [_info("x", TensorProto.FLOAT, ["n", 2])], [_info("y", TensorProto.FLOAT, ["n", 2])]
    erf, exp = (import_model(_model([helper.make_node(name, ["x"], ["y"])], *ports)) for name in ("Erf", "Exp"))
    cases = {"erf": (erf, [{"x": x}]), "exp": (exp, [{"x": x}, {"x": 2 * x}])}
    results = {name: [float(call["y"][0, 0]) for call in calls] for name, calls in scored_together(cases).items()}
    assert results == {"erf": [pytest.approx(math.erf(1))], "exp": [pytest.approx(math.exp(1)), pytest.approx(math.exp(2))]}
    with pytest.raises(AssertionError, match="^broken: "):
        scored_together({"erf": cases["erf"], "broken": (replace(erf, library=()), [{"x": x}]), "exp": cases["exp"]})


def test_of_cases_in_one_test_each_that_fails_is_named() -> None:
    compared = []
    with pytest.raises(AssertionError) as error, all_failures() as case:
        for name, failure in {"a": None, "b": AssertionError("1, not 2"), "c": KeyError("y"), "d": None}.items():
            with case(name):
                compared.append(name)
                if failure is not None:
                    raise failure
    assert compared == ["a", "b", "c", "d"]
    text = str(error.value)
    assert "2 failed" in text and "b: 1, not 2" in text and "c: Traceback" in text and "KeyError: 'y'" in text
    assert "\n\na: " not in text and "\n\nd: " not in text
    with all_failures() as case, case("a"):
        assert compared
