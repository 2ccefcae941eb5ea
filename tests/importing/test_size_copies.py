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
from onnx_systemds.importing.passes.matrix_sizes import Symbolic
from onnx_systemds.importing.passes.specialisation import specialise
from onnx_systemds.importing.passes.specialisation.constant_sizes import with_constant_sizes
from onnx_systemds.importing.passes.specialisation.size_copies import (
    MOST_SIZES,
    separately_compiled,
    with_copy_per_size,
    with_own_copies,
)
from onnx_systemds.inference.dims import symbol
from tests.command_line import run_dml
from tests.plain_engine import PlainCall, sourced

N, M = symbol("n"), symbol("m")
FUNCTIONS = """
inner = function(matrix[double] X) return (matrix[double] Y) { Y = X\n for (i in 1:2) { Y = Y + i } }
halves = function(matrix[double] X) return (matrix[double] Y) { if (sum(X) > 0) { X = X / 2 }\n Y = X }
outer = function(matrix[double] X, integer n) return (matrix[double] Y) { Y = inner(X) + n }
long = function(matrix[double] X) return (matrix[double] Y) { for (i in 1:2) { X = X + i }\nLONG Y = X }
straight = function(matrix[double] X) return (matrix[double] Y) { Y = X + 1 }
""".replace("LONG", "X = X / 2\n" * 58)


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
    calls = [f"A{n} = halves(matrix(0, rows={n}, cols=2))" for n in range(1, MOST_SIZES + 1)]
    assert copied("\n".join(calls))[1] == {f"halves_{n}" for n in range(2, MOST_SIZES + 1)}
    assert copied("\n".join([*calls, "B = halves(X)"]))[1] == set()
    long = "\n".join(f"B{n} = long(matrix(0, rows={n}, cols=2))" for n in (1, 2, 3))
    assert copied(long)[1] == set()
    assert copied("\n".join([long, *(f"C{n} = X + {n}" for n in range(1200))]))[1] == {"long_2", "long_3"}


@pytest.mark.parametrize(
    ("body", "given", "expected"),
    [
        ("rows = nrow(X)\nn = rows * 2\nY = matrix(X, rows=n, cols=ncol(X) %/% 2)", {"X": (3, 4)}, "Y = matrix(X, rows=6, cols=2)"),
        ("m = nrow(X) %/% n\nY = matrix(X, rows=n, cols=m * ncol(X))", {"X": (6 * N, 4), "n": N}, "Y = matrix(X, rows=n, cols=24)"),
        ("m = nrow(X) %/% n\nY = matrix(X, rows=n, cols=m)", {"X": (M, 4), "n": N}, "m = nrow(X) %/% n\nY = matrix(X, rows=n, cols=m)"),
        ("if (ncol(X) > 8) { Y = X } else if (ncol(X) > 2 & n > 1) { Y = X + n } else { Y = -X }", {"X": (N, 4), "n": N},
         "if (n > 1) {\n  Y = X + n\n} else {\n  Y = -X\n}"),
        ("Y = X\nif (n > 0 | ncol(X) == 4) { Y = X[, 1:ncol(X)] }", {"X": (N, 4), "n": N}, "Y = X[, 1:4]"),
        ("Y = matrix(0, rows=nrow(X), cols=8)\nfor (i in 1:ncol(X)) { Y[, i] = X[, i] * ncol(Y) }", {"X": (2, 4)},
         "Y = matrix(0, rows=2, cols=8)\nfor (i in 1:4) {\n  Y[, i] = X[, i] * 8\n}"),
        ("Y = X\nm = ncol(X)\nfor (i in 1:2) { Y = cbind(Y, X); Y[, 1] = X[, m]; m = m - 1 }", {"X": (2, 4)},
         "Y = X\nm = 4\nfor (i in 1:2) {\n  Y = cbind(Y, X)\n  Y[, 1] = X[, m]\n  m = m - 1\n}"),
        ("m = 0\nwhile (m < ncol(X)) { m = m + 1 }\nY = X + m", {"X": (2, 4)}, "m = 0\nwhile (m < 4) {\n  m = m + 1\n}\nY = X + m"),
        ("m = 1\nif (sum(X) > 0) { m = ncol(X) }\nY = X * m", {"X": (2, 4)}, "m = 1\nif (sum(X) > 0) {\n  m = 4\n}\nY = X * m"),
        ("Y = X * 3 * nrow(X) * ncol(X)", {"X": (2, 4)}, "Y = X * 3 * 2 * 4"),
        ("Y = matrix(X, rows=n * nrow(X) * 3, cols=1)", {"X": (2, 4), "n": N}, "Y = matrix(X, rows=n * 6, cols=1)"),
        ("Y = X\nif (!(n * ncol(X) >= 16 / nrow(X))) { Y = X + 1 }", {"X": (2, 4), "n": 1}, "Y = X + 1"),
        ("unused = sum(X)\nprinted = ncol(X)\nprint(printed)\nY = X", {"X": (2, 4)}, "unused = sum(X)\nprint(4)\nY = X"),
        ("m = (n - 5) %/% 2\nY = X * m", {"X": (N, 4), "n": N}, "m = (n - 5) %/% 2\nY = X * m"),
        ("m = (n - 5) %/% 2\nY = matrix(X, rows=n, cols=m - (n - 5) %/% 2 + 4)", {"X": (N, 4), "n": N}, "Y = matrix(X, rows=n, cols=4)"),
        ("m = (n - 5) %/% 2\nY = X * m", {"X": (2, 4), "n": 2}, "m = (2 - 5) %/% 2\nY = X * m"),
    ],
)
def test_functions_have_their_sizes_as_numbers(body: str, given: Mapping[str, Symbolic], expected: str) -> None:
    function = parse_script(f"f = function(matrix[double] X, integer n) return (matrix[double] Y) {{\n{body}\n}}").functions["f"]
    assert print_block(with_constant_sizes(function, {}, given).body).strip() == expected


@pytest.mark.parametrize(("loops", "names"), [(True, {"inner", "halves", "outer", "long"}), (False, {"halves"})])
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
