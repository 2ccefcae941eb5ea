"""Functions have a copy for each size that they are called with, which the engine compiles once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_systemds import import_model
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.specialisation import specialise
from onnx_systemds.importing.passes.specialisation.size_copies import (
    separately_compiled,
    with_copy_per_size,
    with_own_copies,
)
from tests.command_line import run_dml
from tests.plain_engine import PlainCall, sourced

FUNCTIONS = """
inner = function(matrix[double] X) return (matrix[double] Y) { Y = X\n for (i in 1:2) { Y = Y + i } }
halves = function(matrix[double] X) return (matrix[double] Y) { if (sum(X) > 0) { X = X / 2 }\n Y = X }
outer = function(matrix[double] X, integer n) return (matrix[double] Y) { Y = inner(X) + n }
straight = function(matrix[double] X) return (matrix[double] Y) { Y = X + 1 }
"""


def copied(body: str, names: set[str] | None = None) -> tuple[list[str], set[str]]:
    """The statements of a function of X, 3 x 4, and Z, of an unknown size, with what further functions there are."""
    main = f"f = function(matrix[double] X, matrix[double] Z) return (matrix[double] Y) {{\n{body}\n}}"
    functions = dict(parse_script(FUNCTIONS + main).functions)
    function = functions.pop("f")
    names = set(separately_compiled(functions, loops=True)) if names is None else names
    changed, found = with_copy_per_size(function, functions, {"X": (3, 4)}, names)
    return print_block(changed.body).splitlines(), found.keys() - functions.keys()


@pytest.mark.parametrize(
    ("body", "expected", "copies"),
    [
        ("A = halves(X)\nB = halves(t(X))\nY = halves(A)", "A = halves(X)\nB = halves_2(t(X))\nY = halves(A)", {"halves_2"}),
        ("Y = halves(halves(X) + 1)", "Y = halves(halves(X) + 1)", set()),
        ("A = halves(X)\nY = halves(Z)", "A = halves(X)\nY = halves(Z)", set()),
        ("A = straight(X)\nY = straight(t(X))", "A = straight(X)\nY = straight(t(X))", set()),
        ("A = outer(X, 1)\nY = outer(X, 2)", "A = outer(X, 1)\nY = outer_2(X, 2)", {"outer_2", "inner_2"}),
        ("Y = t(halves(X)) + halves(t(halves(X)))", "Y = t(halves(X)) + halves_2(t(halves(X)))", {"halves_2"}),
        ("Y = X\nif (sum(X) > 0) { Y = halves(t(X)) }", "Y = X\nif (sum(X) > 0) {\n  Y = halves(t(X))\n}", set()),
    ],
)
def test_calls_of_other_sizes(body: str, expected: str, copies: set[str]) -> None:
    assert copied(body) == (expected.splitlines(), copies)


def test_no_function_has_copies_without_end() -> None:
    body = "\n".join(f"A{n} = halves(X[1:{n}, ])" for n in (1, 2, 3))
    assert copied(body)[1] == {"halves_2", "halves_3"}
    calls = [f"A{n} = halves(matrix(0, rows={n}, cols=2))" for n in range(1, 99)]
    assert copied("\n".join(calls))[1] == set()
    others = [f"B{n} = X + {n}" for n in range(1200)]
    assert copied("\n".join(calls + others))[1] == {f"halves_{n}" for n in range(2, 99)}


@pytest.mark.parametrize(("loops", "names"), [(True, {"inner", "halves", "outer"}), (False, {"halves"})])
def test_functions_that_are_compiled_apart(loops: bool, names: set[str]) -> None:
    assert separately_compiled(parse_script(FUNCTIONS).functions, loops=loops) == names


@pytest.mark.parametrize("most", [0, specialise.LARGEST_EARLY])
def test_scripts_with_large_weights_have_copies_too(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their weights are not taken out of the list at once, but loads tell sizes wherever they are."""
    monkeypatch.setattr(specialise, "LARGEST_EARLY", most)
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[n, 6] X) => (float[n, 2, 3, 3] Y)
        <float[6, 32] W = {0.5}, float[4] a = {1, 1, 1.5, 1.5}, float[4] b = {1, 1, 0.5, 0.5}, int64[4] s = {0, 2, 4, 4}> {
          wide = MatMul(X, W) images = Reshape(wide, s) larger = Resize<mode = "linear">(images, , a)
          active = Relu(larger) Y = Resize<mode = "linear">(active, , b) }""".replace("{0.5}", f"{{{', '.join(['0.5'] * 192)}}}")
    )
    text = import_model(model, weights="files").text
    assert re.findall(r"= matrix\((interpolated\w+)\(", text) == ["interpolated_planes", "interpolated_planes_2"]


@pytest.mark.engine
@pytest.mark.parametrize("dims", [{}, {"n": 2}])
def test_images_of_two_sizes_are_resized_without_compiling_again(dims: Mapping[str, int], tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[n, 2, 8, 8] X) => (float[n, 2, 6, 7] Y)
        <float[4] a = {1, 1, 1.5, 1.5}, float[4] b = {1, 1, 0.5, 0.6}> {
          larger = Resize<mode = "linear">(X, , a) active = Relu(larger) Y = Resize<mode = "linear">(active, , b) }"""
    )
    script = import_model(model, dims=dims, weights="inline")
    assert re.findall(r"= matrix\((interpolated\w+)\(", script.text) == ["interpolated_planes", "interpolated_planes_2"]
    images = np.random.default_rng(0).normal(size=(2, 2, 8, 8)).astype(np.float32)
    call = PlainCall(script, {"X": images}, tmp_path, "", "model")
    loop = ["for (trip in 1:10) {", call.call(), 'print("called")', "}"]
    program = [*sourced(script, tmp_path, "model"), *call.readings(), *loop, *call.writings()]
    output = run_dml("\n".join(program) + "\n", tmp_path, options=["-stats"])
    compiled = re.search(r"HOP DAGs recompiled \(PRED, SB\):\s*\d+/(\d+)", output)
    assert compiled is not None and int(compiled[1]) <= 2 and output.count("called\n") == 10


def test_functions_do_not_share_what_has_a_loop() -> None:
    """The engine would compile it anew at each call: those of two functions are never alike for it."""
    functions = dict(parse_script(FUNCTIONS).functions)
    block = parse_script("b = function(matrix[double] X) return (matrix[double] Y) { Y = inner(halves(X)) + straight(X) }")
    blocks = {name: replace(block.functions["b"], name=name) for name in ("first", "second")}
    body = parse_script("f = function(matrix[double] X) return (matrix[double] Y) { Y = first(inner(X)) + second(X) }")
    made, copies = with_own_copies(blocks, functions, body.functions["f"].body, "f")
    assert [print_block(function.body).strip() for function in made.values()] == [
        "Y = inner_2(halves(X)) + straight(X)", "Y = inner_3(halves(X)) + straight(X)"]
    assert [*copies] == ["inner_2", "inner_3"]
