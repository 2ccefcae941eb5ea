"""Scoring again and again: a script is specialised for the sizes of its calls, and goes on to serve all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.library import function_of
from onnx_systemds.engine import EngineError, Session, shared_session
from onnx_systemds.engine.errors import EngineClosed, EngineTimeout
from onnx_systemds.importing.batching import Batch
from onnx_systemds.importing.passes.specialisation import products
from onnx_systemds.runtime import scoring
from onnx_systemds.runtime.autotune import Autotuner
from onnx_systemds.runtime.scoring import ScoringFunction

SPECIALISED = 20
WEIGHTS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def scoring_function() -> ScoringFunction:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "scored", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 30])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
                              [numpy_helper.from_array(WEIGHTS, "w")])
    return ScoringFunction(import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))


def check(function: ScoringFunction, rows: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(rows, 30)).astype(np.float32)
    expected = np.exp(x @ WEIGHTS)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(function({"x": x})["y"], expected, rtol=1e-4, atol=1e-6)


def test_a_script_is_specialised_for_its_sizes_and_others_are_served() -> None:
    with scoring_function() as function:
        for seed in range(SPECIALISED + 2):
            check(function, 3, seed)
        assert function._specialised is not None and function._specialised.shapes["in0"] == (3, 30)
        for rows in (5, 1, 3, 0, 3):
            check(function, rows, rows)
        for seed in range(SPECIALISED + 2):
            check(function, 7, seed)
        assert function._specialised.shapes["in0"] == (7, 30)
        check(function, 3, 0)


def test_sizes_without_elements_are_served_as_they_come() -> None:
    with scoring_function() as function:
        for seed in range(SPECIALISED + 2):
            check(function, 0, seed)
        assert function._specialised is None


def test_a_closed_function_stays_closed() -> None:
    function = scoring_function()
    check(function, 3, 0)
    function.close()
    for _ in range(SPECIALISED + 2):
        with pytest.raises(EngineClosed):
            function({"x": np.zeros((3, 30), np.float32)})


def convolution(group: int) -> ModelProto:
    weight = np.ones((8, 8 // group, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=group, pads=[1] * 4)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8, 6, 6]) for name in "xy")
    graph = helper.make_graph([node], "convolution", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("dims", [{}, {"n": 2}], ids=["open", "known"])
@pytest.mark.parametrize("entries", [0, products.MOST_ENTRIES])
@pytest.mark.parametrize("group", [1, 8])
def test_sparse_filters_are_kept_from_a_native_blas(
    monkeypatch: pytest.MonkeyPatch, group: int, entries: int, dims: dict[str, int]
) -> None:
    """Unless they have become sparse matrices, which it leaves alone."""
    asked: list[tuple[bool, bool]] = []
    prepare = Session.prepare

    def recorded(session: Session, text: str, *arguments: Any, **options: Any) -> Any:
        scores = "conv2d(" in text and "out0" in arguments[1]  # rather than computing constants
        asked.append((scores, options.get("native_blas", True)))
        return prepare(session, text, *arguments, **options)

    monkeypatch.setattr(products, "MOST_ENTRIES", entries)
    monkeypatch.setattr(Session, "prepare", recorded)
    with ScoringFunction(import_model(convolution(group), dims=dims, weights="files"), specialise_after=2, parts=1) as function:
        for _ in range(3):
            function({"x": np.ones((2, 8, 6, 6), np.float32)})
        (specialised,) = function._specialised.tuner.next()
        assert specialised._native_blas == (group == 1 or entries > 0)
    assert {allowed for convolves, allowed in asked if convolves} <= {group == 1}
    assert any(convolves for convolves, _ in asked) or (group == 8 and entries > 0)


@pytest.mark.parametrize("dims", [{}, {"n": 2}], ids=["open", "known"])
def test_nan_stays_in_its_channel_in_a_session_with_a_native_blas(
    monkeypatch: pytest.MonkeyPatch, dims: dict[str, int]
) -> None:
    monkeypatch.setattr(products, "MOST_ENTRIES", 0)
    x = np.ones((2, 8, 6, 6), np.float32)
    x[:, 3, 2, 2] = np.nan
    with Session(max_heap="400m", native_blas="openblas") as session:
        try:
            product = session.prepare('X = read("./X"); Y = X %*% X; write(Y, "./Y")', ["X"], ["Y"])
        except EngineError as error:
            assert "is not found" in str(error)
            pytest.skip("no OpenBLAS on this machine")
        with ScoringFunction(import_model(convolution(8), dims=dims, weights="files"), session) as function:
            for _ in range(2):
                found = np.isnan(function({"x": x})["y"]).any(axis=(0, 2, 3))
                assert found.tolist() == [channel == 3 for channel in range(8)]
                assert not session._native.isNativeLibraryLoaded()
                np.testing.assert_array_equal(product({"X": np.eye(300)})["Y"], np.eye(300))
                assert session._native.isNativeLibraryLoaded()


def by_columns() -> ModelProto:
    """Samples on the second axis, and a second output that does not depend on them."""
    nodes = [
        helper.make_node("MatMul", ["w", "x"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["y"]),
        helper.make_node("Relu", ["shift"], ["z"]),
    ]
    given = [("x", [30, "n"]), ("shift", [4, 1])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in given]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in
               [("y", [4, "n"]), ("z", [4, 1])]]
    weights = [numpy_helper.from_array(WEIGHTS.T.copy(), "w")]
    graph = helper.make_graph(nodes, "samples", infos, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("parts", [2, 3, 20])
def test_samples_are_divided_and_put_together_again(parts: int) -> None:
    script, random = import_model(by_columns()), np.random.default_rng(parts)
    assert script.batch == Batch("n", (1, None), (1, None))
    with ScoringFunction(script, specialise_after=2, parts=parts) as function:
        for samples in (7, 7, 7, 5, 5, 7, 1, 1):
            x, shift = (random.normal(size=size).astype(np.float32) for size in ((30, samples), (4, 1)))
            actual = function({"x": x, "shift": shift})
            np.testing.assert_allclose(actual["y"], WEIGHTS.T @ x + shift, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(actual["z"], np.maximum(shift, 0))
            assert actual["y"].shape == (4, samples)
            if samples == 5 and function._repeats == 2:
                assert function._specialised is not None and len(scripts := function._specialised.tuner.next()) == min(parts, 5)
                assert sum(script._shapes["out0"][1] for script in scripts) == 5
                assert {script._shapes["out1"] for script in scripts} == {(4, 1)}


def test_short_calls_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "LONG_CALL", 1e3)
    with scoring_function() as function:
        for seed in range(SPECIALISED + 2):
            check(function, 3, seed)
        assert function._specialised is not None and len(function._specialised.tuner.next()) == 1


@pytest.mark.parametrize("loop", ["for", "parfor"])
def test_long_calls_are_divided_if_that_is_faster(monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    monkeypatch.setattr(scoring, "LONG_CALL", 0.0)
    script = import_model(by_columns())
    function = f"f = function(matrix[double] X) return (matrix[double] Y) {{ {loop} (i in 1:2) {{ Y = X }} }}"
    script = replace(script, library=(*script.library, function_of(function)))
    with ScoringFunction(script, specialise_after=2) as function:
        for _ in range(2):
            function({"x": np.ones((30, 6), np.float32), "shift": np.ones((4, 1), np.float32)})
        parts = min(function._session.processors, 6)
        assert function._specialised is not None
        counts = [len(scripts) for scripts in function._specialised.tuner.candidates]
        assert counts == sorted(counts) and set(counts) == {1, parts}


def test_a_form_that_the_engine_refuses_is_dropped() -> None:
    with scoring_function() as function:
        for seed in range(SPECIALISED):
            check(function, 3, seed)
        assert function._specialised is not None
        text = 'X = read("./in0", rows=3, cols=30)\nstop("refused")\nwrite(X, "./out0")'
        refused = [function._session.prepare(text, ["in0"], ["out0"])]
        good = function._specialised.tuner.candidates[0]
        function._specialised = function._specialised._replace(tuner=Autotuner([refused, good]))
        check(function, 3, 0)
        assert function._specialised.tuner.candidates == [good]
        function._specialised = function._specialised._replace(tuner=Autotuner([refused]))
        check(function, 3, 1)
        assert function._specialised.tuner.candidates == [[function._prepared]]


def test_forms_stay_where_inputs_are_at_fault() -> None:
    nodes = [helper.make_node("Add", ["x", "x"], ["d"]), helper.make_node("Gather", ["d", "i"], ["y"])]
    infos = [helper.make_tensor_value_info(name, kind, ["n"]) for name, kind in (("x", 1), ("i", 7), ("y", 1))]
    graph = helper.make_graph(nodes, "gathered", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(3, dtype=np.float32)
    with ScoringFunction(import_model(model), specialise_after=1) as function:
        function({"x": x, "i": np.array([2, 0, 1])})
        assert function._specialised is not None
        forms = function._specialised.tuner.candidates
        for _ in range(3):
            with pytest.raises(EngineError):
                function({"x": x, "i": np.array([2, 7, 1])})
        assert function._specialised.tuner.candidates is forms and forms[0][0] is not function._prepared
        np.testing.assert_array_equal(function({"x": x, "i": np.array([-1, 0, 1])})["y"], [4, 0, 2])


def test_an_error_in_a_part_is_raised_and_leaves_the_session_usable() -> None:
    text = 'X = read("./X", rows=1, cols=1)\nif (as.scalar(X) > 1) {\n stop("too large")\n}\nY = X + 1\nwrite(Y, "./Y")\n'
    session = shared_session()
    scripts = [session.prepare(text, ["X"], ["Y"], single_threaded=True) for _ in range(3)]
    ones = [{"X": np.ones((1, 1))} for _ in scripts]
    assert [float(result["Y"].item()) for result in session.run_together(scripts, ones)] == [2.0, 2.0, 2.0]
    with pytest.raises(EngineError, match="too large"):
        session.run_together(scripts, [ones[0], {"X": np.full((1, 1), 2.0)}, ones[2]])
    assert [float(result["Y"].item()) for result in session.run_together(scripts, ones)] == [2.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="beside itself"):
        session.run_together([scripts[0], scripts[0]], ones[:2])


def test_scripts_that_run_too_long_together_are_ended() -> None:
    text = 'X = read("./X", rows=1, cols=1)\ni = 0\nwhile (i >= 0) {\n i = i + 1\n}\nY = X + i\nwrite(Y, "./Y")\n'
    with Session(max_heap="512m") as session:
        scripts = [session.prepare(text, ["X"], ["Y"], single_threaded=True) for _ in range(2)]
        with pytest.raises(EngineTimeout):
            session.run_together(scripts, [{"X": np.ones((1, 1))}] * 2, timeout=1.0)
        assert session.closed


def test_sparse_weights_are_copied_for_scripts_that_run_together() -> None:
    text = 'X = read("./X", rows=1, cols=400)\nW = read("./W", rows=400, cols=300)\nY = X %*% W\nwrite(Y, "./Y")\n'
    session, weight = shared_session(), np.zeros((400, 300))
    weight[::7, ::11] = 3.0
    first, second = (session.prepare(text, ["X", "W"], ["Y"], single_threaded=True) for _ in range(2))
    first.pin("W", weight)
    second.pin_as(first)
    blocks = [script._pinned["W"][1] for script in (first, second)]
    assert all(block.isInSparseFormat() for block in blocks)
    assert blocks[0]._get_object_id() != blocks[1]._get_object_id()
    for result in session.run_together([first, second], [{"X": np.ones((1, 400))}] * 2):
        np.testing.assert_allclose(result["Y"], np.ones((1, 400)) @ weight)


def test_large_matrices_are_sent_and_received_side_by_side() -> None:
    text = 'X = read("./X", rows=3, cols=300000)\nY = X + 1\nwrite(Y, "./Y")\n'
    session = shared_session()
    scripts = [session.prepare(text, ["X"], ["Y"], single_threaded=True) for _ in range(3)]
    for turn in range(4):
        given = [np.random.default_rng(10 * turn + i).normal(size=(3, 300_000)) for i, _ in enumerate(scripts)]
        for x, result in zip(given, session.run_together(scripts, [{"X": x} for x in given]), strict=True):
            np.testing.assert_array_equal(result["Y"], x + 1)
