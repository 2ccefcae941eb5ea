"""Scoring again and again: a script is compiled for sizes that stay, and goes on to serve all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError, Session
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


def convolution(group: int) -> ModelProto:
    weight = np.ones((8, 8 // group, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=group, pads=[1] * 4)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8, 6, 6]) for name in "xy")
    graph = helper.make_graph([node], "convolution", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("group", "native_blas"), [(1, True), (8, False)])
def test_sparse_filters_are_kept_from_a_native_blas(
    monkeypatch: pytest.MonkeyPatch, group: int, native_blas: bool
) -> None:
    asked, prepare = [], Session.prepare

    def recorded(*arguments: Any, **options: Any) -> Any:
        asked.append(options["native_blas"])
        return prepare(*arguments, **options)

    monkeypatch.setattr(Session, "prepare", recorded)
    with ScoringFunction(import_model(convolution(group)), steady_after=2) as function:
        for _ in range(3):
            function({"x": np.ones((2, 8, 6, 6), np.float32)})
    assert asked == [native_blas, native_blas]


def test_nan_stays_in_its_channel_in_a_session_with_a_native_blas() -> None:
    x = np.ones((2, 8, 6, 6), np.float32)
    x[:, 3, 2, 2] = np.nan
    with Session(max_heap="400m", native_blas="openblas") as session:
        try:
            product = session.prepare('X = read("./X"); Y = X %*% X; write(Y, "./Y")', ["X"], ["Y"])
        except EngineError as error:
            assert "is not found" in str(error)
            pytest.skip("no OpenBLAS on this machine")
        with ScoringFunction(import_model(convolution(8)), session) as function:
            for _ in range(2):
                found = np.isnan(function({"x": x})["y"]).any(axis=(0, 2, 3))
                assert found.tolist() == [channel == 3 for channel in range(8)]
                assert not session._native.isNativeLibraryLoaded()
                np.testing.assert_array_equal(product({"X": np.eye(300)})["Y"], np.eye(300))
                assert session._native.isNativeLibraryLoaded()
