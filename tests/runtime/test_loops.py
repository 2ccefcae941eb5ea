"""Loops without threads and in the place of calls, in specialised scripts; onnxruntime judges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_script
from onnx_systemds.dml.rewrite import without_threads
from onnx_systemds.dml.syntax import For, Script, walk
from onnx_systemds.engine import shared_session
from onnx_systemds.importing.passes.specialisation.loops import (
    MOST_COPIES,
    called_with_loops,
    with_copies,
    with_inlined_calls,
    with_unrolled_loops,
)
from onnx_systemds.runtime.driver import Program
from onnx_systemds.runtime.forms import Engine, SpecialisedScript, specialised_script
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import check_all_forms
from tests.plain_engine import score_plainly
from tests.runtime.recording import recorded

FUNCTIONS = """
doubled = function(matrix[double] X, int times) return (matrix[double] Y, int count) {
  Y = X
  count = 0
  for (i in 1:times) {
    Y[i, ] = 2 * Y[i, ]
    count = count + i
  }
}
sums = function(matrix[double] X) return (matrix[double] Y) {
  Y = matrix(0, rows=1, cols=ncol(X))
  parfor (i in 1:ncol(X), check=0) {
    Y[1, i] = sum(X[, i])
  }
}
straight = function(matrix[double] X) return (matrix[double] Y) {
  Y = X + 1
}
"""


def main_of(body: str) -> Script:
    return parse_script(f"{FUNCTIONS}f = function(matrix[double] X) return (matrix[double] Y) {{\n{body}\n}}")


def placed(body: str, names: Collection[str] = ("doubled", "sums")) -> str:
    script = main_of(body)
    main = with_inlined_calls(script.functions["f"], [script.functions[name] for name in names])
    return print_script(Script((main,))).partition("{\n")[2]


def test_bodies_take_the_place_of_calls_with_names_of_their_own() -> None:
    assert placed("[Z, n] = doubled(X + 1, 3)\nY = Z * n").split("\n")[:11] == [
        "  doubled1_X = X + 1",
        "  doubled1_times = 3",
        "  doubled1_Y = doubled1_X",
        "  doubled1_count = 0",
        "  for (doubled1_i in 1:doubled1_times) {",
        "    doubled1_Y[doubled1_i, ] = 2 * doubled1_Y[doubled1_i, ]",
        "    doubled1_count = doubled1_count + doubled1_i",
        "  }",
        "  Z = doubled1_Y",
        "  n = doubled1_count",
        "  Y = Z * n",
    ]


def test_names_that_are_taken_are_not_used_again() -> None:
    text = placed("sums1_Y = X\nif (nrow(X) > 1) {\n  sums1_Y = sums(X)\n}\nY = sums1_Y")
    assert "    sums1__Y = matrix(0, rows=1, cols=ncol(sums1__X))" in text and "    sums1_Y = sums1__Y" in text


@pytest.mark.parametrize(
    "body",
    [
        "Y = X\nwhile (sum(sums(Y)) < 10) {\n  Y = Y + 1\n}",
        "Y = X\nif (sum(sums(Y)) < 10) {\n  Y = Y + 1\n}",
        "Y = X\nfor (i in 1:sum(sums(X))) {\n  Y = Y + 1\n}",
        "Y = sums(X=X)",
        "never = time() < 0\nif (never) {\n  print(sum(sums(X)))\n}\nY = X",
    ],
)
def test_calls_that_stay(body: str) -> None:
    text = placed(body)
    assert text.count("sums(") == 1 and "sums1" not in text


def test_which_functions_are_placed() -> None:
    script = main_of("A = sums(X) + sums(t(X))\n[B, n] = doubled(X, 2)\nY = straight(straight(X)) + sum(A) + sum(B)")
    assert called_with_loops(script.functions["f"], script.functions) == {"sums"}


BODIES = [
    "Y = sums(rbind(sums(X), X + 1)) * sums(X)",
    "[A, n] = doubled(X, 2)\n[B, m] = doubled(sums(A), 1)\nY = A * n + B * m",
    "Y = X\nfor (k in 1:3) {\n  [Y, n] = doubled(Y, k)\n  if (k > 1) {\n    Y = Y + sums(Y)\n  }\n}",
    "A = X\nparfor (k in 1:3, check=0) {\n  A[k, ] = sums(X * k)\n}\nY = A",
]


@pytest.mark.parametrize("body", BODIES)
def test_bodies_and_loops_without_threads_give_the_same(body: str) -> None:
    script = main_of(body)
    functions, main = script.functions, script.functions["f"]
    placed_main = with_inlined_calls(main, [functions["doubled"], functions["sums"]])
    changed = without_threads(Script((placed_main,))).functions["f"]
    assert "parfor" not in print_script(Script((changed,))) and "sums(" not in print_script(Script((changed,)))
    x = np.random.default_rng(5).normal(size=(3, 4))
    results = []
    for function in (main, changed):
        others = [value for name, value in functions.items() if name != "f"]
        text = print_script(Script((*others, function)))
        text += '\nX = read("./X", rows=3, cols=4)\nY = f(X)\nwrite(Y, "./Y")'
        results.append(shared_session().prepare(text, ["X"], ["Y"])({"X": x})["Y"])
    np.testing.assert_array_equal(results[0], results[1])


def test_the_engine_tells_which_functions_it_compiles_at_each_call() -> None:
    script = print_script(main_of("[A, n] = doubled(X, 2)\n[B, m] = doubled(t(X), 2)\nY = A + sum(B)"))
    script += '\nX = read("./X", rows=3, cols=4)\nY = f(X)\nwrite(Y, "./Y")'
    assert shared_session().prepare(script, ["X"], ["Y"]).recompiled_functions() == {"doubled"}


def test_each_call_has_a_copy_for_whose_sizes_it_is_compiled_once() -> None:
    before = main_of("[A, n] = doubled(X, 2)\n[B, m] = doubled(t(X), 3)\nY = A + sum(B) * n + straight(X)")
    main, functions = with_copies(before.functions["f"], before.functions)
    text = print_script(Script((main,)))
    assert "doubled_1(X, 2)" in text and "doubled_2(t(X), 3)" in text and "straight(X)" in text
    assert functions.keys() - before.functions.keys() == {"doubled_1", "doubled_2"}
    others = [function for name, function in functions.items() if name not in ("f", "doubled")]
    results = []
    for script in (before, Script((*others, main))):
        text = print_script(script) + '\nX = read("./X", rows=3, cols=4)\nY = f(X)\nwrite(Y, "./Y")'
        prepared = shared_session().prepare(text, ["X"], ["Y"])
        assert prepared.recompiled_functions() == ({"doubled"} if script is before else set())
        results.append(prepared({"X": np.arange(12.0).reshape(3, 4)})["Y"])
    np.testing.assert_array_equal(results[0], results[1])


def test_copies_have_names_that_are_free() -> None:
    before = main_of("Y = sums(X) + sums(X)\nfor (i in 1:2) {\n  Y = Y + sums(X)\n}")
    taken = {"sums_2": before.functions["straight"], **before.functions}
    main, functions = with_copies(before.functions["f"], taken)
    assert functions.keys() - taken.keys() == {"sums_1", "sums_3", "sums_4"}
    assert "sums_1(X) + sums_3(X)" in print_script(Script((main,)))
    assert functions["sums_2"] is taken["sums_2"]


@pytest.mark.parametrize(
    "body",
    [
        "Y = sums(X)",
        "Y = straight(straight(X))",
        "Y = X\n" + "Y = Y + sums(X)\n" * (MOST_COPIES + 1),
    ],
)
def test_calls_that_have_no_copy(body: str) -> None:
    before = main_of(body)
    assert with_copies(before.functions["f"], before.functions) == (before.functions["f"], before.functions)


def test_calls_that_never_run_have_no_copy() -> None:
    before = main_of("never = time() < 0\nif (never) {\n  print(sum(sums(X)))\n}\nY = sums(X) + sums(2 * X)")
    main, functions = with_copies(before.functions["f"], before.functions)
    text = print_script(Script((main,)))
    assert "print(sum(sums(X)))" in text and "sums_1(X) + sums_2(2 * X)" in text and "sums_3" not in functions


NESTED = """
outer = function(matrix[double] X) return (matrix[double] Y) {
  if (nrow(X) > 1000) {
    X = straight(X)
  }
  Y = X + sums(X)
}
again = function(matrix[double] X, int n) return (matrix[double] Y) {
  Y = sums(X)
  if (n > 0) {
    Y = Y + again(X, n - 1)
  }
}
"""


def test_functions_that_call_one_with_a_loop_have_copies_with_copies() -> None:
    before = parse_script(NESTED + print_script(main_of("A = outer(X)\nB = outer(t(X))\nY = A + sum(B) + sum(again(X, 2)) + sum(again(X, 1))")))
    _, functions = with_copies(before.functions["f"], before.functions)
    assert functions.keys() - before.functions.keys() == {"outer_1", "outer_2", "sums_1", "sums_2"}
    assert "sums_1(X)" in print_script(Script((functions["outer_1"],)))
    assert "sums_2(X)" in print_script(Script((functions["outer_2"],)))


def test_what_is_called_once_has_no_copy_in_functions_either() -> None:
    before = parse_script(NESTED + print_script(main_of("Y = outer(X)")))
    assert with_copies(before.functions["f"], before.functions) == (before.functions["f"], before.functions)


@pytest.mark.parametrize(
    ("loop", "is_written_out"),
    [
        ("parfor (k in 1:2) {\n  if (k == 1) {\n    A = X + 1\n  } else {\n    A = X * 2\n  }\n  Y[k, ] = A[k, ]\n}", True),
        ("parfor (k in 1:3) {\n  Y[k, ] = X[k, ] + k\n}", False),
        ("parfor (k in seq(1, 2, 1)) {\n  Y[k, ] = X[k, ] + k\n}", False),
        ("for (k in 1:2) {\n  Y[k, ] = X[k, ] + k\n}", False),
        ("parfor (k in 1:2) {\n  Y[k, ] = X[k, ] + k\n}\nY = Y + k", False),
        ("parfor (k in 1:nrow(X)) {\n  Y[k, ] = X[k, ] + k\n}", False),
    ],
)
def test_turns_that_are_written_out(loop: str, is_written_out: bool) -> None:
    main = main_of(f"Y = X\n{loop}").functions["f"]
    found = with_unrolled_loops(main)
    assert (found != main) == is_written_out
    if is_written_out:
        text = print_script(Script((found,)))
        assert "A = X + 1\n  Y[1, ] = A[1, ]\n  A = X * 2\n  Y[2, ] = A[2, ]" in text and "if" not in text


# --- in scripts ----------------------------------------------------------------------------------------------------


def stacked_layers(hidden: Sequence[int], direction: str) -> ModelProto:
    """LSTM layers one after the other, the hidden states of both directions side by side."""
    random, nodes, weights = np.random.default_rng(3), [], []
    directions, width, given = 1 + (direction == "bidirectional"), 5, "x"
    for number, size in enumerate(hidden):
        shapes = {"w": (directions, 4 * size, width), "r": (directions, 4 * size, size), "b": (directions, 8 * size)}
        names = {name: f"{name}{number}" for name in shapes}
        weights += [numpy_helper.from_array(random.normal(size=shape).astype(np.float32) / 4, names[name])
                    for name, shape in shapes.items()]
        width = directions * size
        weights.append(numpy_helper.from_array(np.array([0, 0, width], np.int64), f"s{number}"))
        nodes += [
            helper.make_node("LSTM", [given, *names.values()], [f"h{number}"], direction=direction, hidden_size=size),
            helper.make_node("Transpose", [f"h{number}"], [f"t{number}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"t{number}", f"s{number}"], [f"y{number}"]),
        ]
        given = f"y{number}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", "batch", 5])
    y = helper.make_tensor_value_info(given, TensorProto.FLOAT, ["steps", "batch", width])
    graph = helper.make_graph(nodes, "layers", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(function: ScoringFunction, model: ModelProto, batch: int) -> None:
    """The results of the script as it is, and of all forms for its sizes, are those of onnxruntime."""
    random = np.random.default_rng(batch)
    for _ in range(2):
        check_all_forms(function, model, {"x": random.normal(size=(34, batch, 5)).astype(np.float32)}, rtol=1e-4)


def test_both_directions_run_in_turn_where_samples_run_in_parts() -> None:
    model = stacked_layers([64, 66], "bidirectional")
    with ScoringFunction(import_model(model), specialise_after=2, parts=2) as function:
        texts = recorded(function)
        check(function, model, batch=3)
        assert [len(parts) for parts in function._specialised.tuner.candidates] == [1, 2]  # type: ignore[index]
        *_, whole, _, _, first, second = texts  # between them those of which the engine is asked
        assert "parfor" in whole and "parfor" not in first + second
        check(function, model, batch=1)  # which has no parts
        assert [len(parts) for parts in function._specialised.tuner.candidates] == [1, 1]  # type: ignore[index]


@pytest.mark.parametrize(("hidden", "is_placed"), [([6, 8], True), ([6, 6, 8], True), ([5], False), ([6], False)])
def test_functions_that_are_compiled_at_each_call_are_placed(hidden: Sequence[int], is_placed: bool) -> None:
    model = stacked_layers(hidden, "forward")
    with ScoringFunction(import_model(model), specialise_after=2, parts=1) as function:
        texts = recorded(function)
        check(function, model, batch=2)
        assert len(function._specialised.tuner.candidates) == 1  # type: ignore[index]
    assert ("lstm_layer(" in texts[-1]) == (not is_placed) and "parfor" not in texts[-1]


def specialised(model: ModelProto, recompiled: Any, **options: bool) -> SpecialisedScript:
    script = import_model(model)
    sizes, shapes = {"batch": 2, "steps": 34}, {"in0": (34, 10)}
    options = {"is_open": True, "is_long": False, "is_part": False, **options}
    engine = Engine(lambda script: {}, lambda matrix: np.array(matrix.block), recompiled)
    return specialised_script(script, shapes, sizes, engine, **options)


def texts_of(script: SpecialisedScript) -> list[str | None]:
    return [None if program is None else program.text for program in script.programs]


def test_no_body_is_placed_where_the_whole_function_would_be_compiled_at_each_call() -> None:
    model = stacked_layers([6, 8], "forward")
    main = import_model(model).function
    asked: list[str] = []

    def recompiled(program: Program, constants: Sequence[str]) -> Collection[str]:
        asked.append(program.text)
        return {main} if "lstm_layer(" not in program.text else {"lstm_layer"}

    (text,) = texts_of(specialised(model, recompiled))
    assert text is not None and text.count("= lstm_layer(") == 2 and len(asked) == 2
    (text,) = texts_of(specialised(model, lambda text, constants: {"lstm_layer"}))
    assert text is not None and "lstm_layer(" not in text
    (text,) = texts_of(specialised(model, lambda text, constants: set()))
    assert text is not None and text.count("= lstm_layer(") == 2


def test_parts_start_no_threads() -> None:
    model = stacked_layers([64], "bidirectional")
    with_threads, serial = texts_of(specialised(model, lambda text, constants: set()))
    assert with_threads is not None and "parfor" in with_threads
    assert texts_of(specialised(model, lambda text, constants: set(), is_part=True)) == [serial]
    assert serial is not None and "parfor" not in serial


def test_in_a_script_on_its_own_calls_of_other_sizes_have_a_copy() -> None:
    model = stacked_layers([6, 8], "bidirectional")
    script = import_model(model, dims={"steps": 34, "batch": 2})
    assert [script.text.count(f"lstm_layer{end}(") for end in ("", "_1", "_2", "_3")] == [2, 0, 2, 0]
    assert "lstm_layer = function(" in script.text and "lstm_layer_2 = function(" in script.text
    feeds = {"x": np.random.default_rng(7).normal(size=(34, 2, 5)).astype(np.float32)}
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = runtime.run(None, feeds)
    (given,) = score_plainly(script, feeds).values()
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)


def test_directions_are_no_loop_in_a_script_on_its_own() -> None:
    model = stacked_layers([64, 66], "bidirectional")
    script = import_model(model, dims={"steps": 34, "batch": 2})
    assert not any(isinstance(node, For) for node in walk(script.main))
    opened = import_model(model)  # in which a function has them, compiled once, as the main one would not be
    assert "parfor" in opened.text and not any(isinstance(node, For) for node in walk(opened.main))
    feeds = {"x": np.random.default_rng(7).normal(size=(34, 2, 5)).astype(np.float32)}
    with ScoringFunction(script) as function:
        assert not function._prepared.recompiled_functions()
        check_all_forms(function, model, feeds, rtol=1e-4)
