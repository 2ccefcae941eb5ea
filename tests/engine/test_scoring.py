"""Scoring again and again: a script is compiled for sizes that stay, and goes on to serve all others."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.engine.errors import EngineClosed
from onnx_systemds.scoring import ScoringFunction

STEADY = 20
WEIGHTS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def scoring_function() -> ScoringFunction:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "scored", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 30])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
                              [numpy_helper.from_array(WEIGHTS, "w")])  # fmt: skip
    return ScoringFunction(import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))


def check(function: ScoringFunction, rows: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(rows, 30)).astype(np.float32)
    expected = np.exp(x @ WEIGHTS)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(function({"x": x})["y"], expected, rtol=1e-4, atol=1e-6)


def test_sizes_that_stay_are_compiled_for_and_others_served() -> None:
    with scoring_function() as function:
        for seed in range(STEADY + 2):
            check(function, 3, seed)
        assert function._steady is not None and function._steady[0] == {"in0": (3, 30)}
        for rows in (5, 1, 3, 0, 3):
            check(function, rows, rows)
        for seed in range(STEADY + 2):
            check(function, 7, seed)
        assert function._steady[0] == {"in0": (7, 30)}
        check(function, 3, 0)


def test_sizes_without_elements_are_served_as_they_come() -> None:
    with scoring_function() as function:
        for seed in range(STEADY + 2):
            check(function, 0, seed)
        assert function._steady is None


def test_a_closed_function_stays_closed() -> None:
    function = scoring_function()
    check(function, 3, 0)
    function.close()
    for _ in range(STEADY + 2):
        with pytest.raises(EngineClosed):
            function({"x": np.zeros((3, 30), np.float32)})
