"""Which parts of a script are found to be constant, and what is left for every call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block, print_statement
from onnx_systemds.engine.matrix_files import Weight
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.passes.specialisation.specialise import specialise
from onnx_systemds.importing.passes.specialisation.work import Form
from onnx_systemds.importing.script import Script
from onnx_systemds.inference.dims import symbol
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.plain_engine import score_plainly

WEIGHT = np.arange(6.0).reshape(3, 2)
PREPARED = Form(is_prepared=True)
LIBRARY = """
twice = function(matrix[double] A) return (matrix[double] B) { B = 2 * A }
noise = function(matrix[double] A) return (matrix[double] B) { B = A + rand(rows=1, cols=1) }
noisier = function(matrix[double] A) return (matrix[double] B) { B = noise(A) }
split = function(matrix[double] A) return (matrix[double] B, matrix[double] C) { B = A; C = 2 * A }
"""


def script_of(body: str, rows: int | str = 2, weight: np.ndarray = WEIGHT) -> Script:
    """A script of these statements, of X with three columns, a number n, and a weight W."""
    head = "f = function(matrix[double] X, integer n, list[unknown] weights)\n    return (matrix[double] Y)\n{\n"
    lines = [*loaded("W", *weight.shape), *body.split("\n")]
    text = head + "".join(f"  {line}\n" for line in lines) + "}"
    main = function_of(text)
    x, y = (Port(name, "double", (symbol(rows) if isinstance(rows, str) else rows, 3)) for name in "XY")
    library = tuple(parse_script(LIBRARY).functions.values())
    return Script("f", (x,), (y,), ("n",), (), (Weight("W", weight),), (), library, (main,))


def without_number(script: Script) -> Script:
    """The script without the number n."""
    x, _, *others = script.main.parameters
    return replace(script, sizes=(), functions=(replace(script.main, parameters=(x, *others)),))


def made(body: str, form: Form = PREPARED) -> Script:
    return specialise(script_of(body), {"n": 4}, form)


def names_of(script: Script) -> list[str]:
    return [] if script.constants is None else [*script.constants.names]


def lines_of(script: Script) -> list[str]:
    """The lines of the main function's statements, without those that load the weight."""
    _, _, text = print_statement(script.main).rstrip("\n").partition(" {\n")
    return [line.strip() for line in text.split("\n")[:-1] if '["W"]' not in line]


def computing(script: Script) -> list[str]:
    """The lines that compute the constants."""
    assert script.constants is not None
    return print_block(script.constants.statements).splitlines()


def loaded(name: str, rows: int, cols: int) -> list[str]:
    return [f'{name} = matrix(as.matrix(weights["{name}"]), rows={rows}, cols={cols})']


@pytest.mark.parametrize(
    ("body", "names", "left"),
    [
        ("V = t(W)\nY = X %*% V", ["V"], [*loaded("V", 2, 3), "Y = X %*% V"]),
        ("V = W\nY = X %*% V", [], None),
        ("m = 2\nY = m * X", [], None),
        ("V = t(W)\nU = V + 1\nY = X %*% U", ["U"], [*loaded("U", 2, 3), "Y = X %*% U"]),
        ("V = t(W)\nY = X %*% V\nV = V + 1\nY = Y %*% V", ["V_2", "V"],
         ['V = matrix(as.matrix(weights["V_2"]), rows=2, cols=3)', "Y = X %*% V", *loaded("V", 2, 3), "Y = Y %*% V"]),
        ("V = matrix(0, rows=2, cols=2)\nV[1, ] = colSums(W)\nY = X %*% V", ["V"], [*loaded("V", 2, 2), "Y = X %*% V"]),
        ("V = twice(W)\nY = X %*% V", ["V"], [*loaded("V", 3, 2), "Y = X %*% V"]),
        ("V = noisier(W)\nY = X %*% V", [], None),
        ("V = t(W) * as.scalar(rand(rows=1, cols=1))\nY = X %*% V", [], None),
        ("[V, U] = split(W)\nV = t(V)\nY = X %*% V", [], None),
        ("V = t(W)\nif (sum(X) > 0) { V = V + 1 }\nU = t(V)\nY = X %*% U", ["V"],
         [*loaded("V", 2, 3), "if (sum(X) > 0) { V = V + 1 }", "U = t(V)", "Y = X %*% U"]),
        ("Y = t(W)\nfor (i in 1:2) { Y[i, ] = X[i, ] }", ["Y"],
         [*loaded("Y", 2, 3), "for (i in 1:2) { Y[i, ] = X[i, ] }"]),
        ("V = seq(1, nrow(X) * n)\nY = X * sum(V)", ["V"], [*loaded("V", 8, 1), "Y = X * sum(V)"]),
        ("V = matrix(-1, rows=nrow(X), cols=n)\nY = t(X) %*% V", [], None),
        ('V = matrix("1 2 3", rows=1, cols=3)\nY = X * V', [], None),
        ("V = matrix(W, rows=2, cols=3)\nY = X * V", ["V"], [*loaded("V", 2, 3), "Y = X * V"]),
        ("Y = t(W)", ["Y"], loaded("Y", 2, 3)),
        ("s = sum(W)\nY = X * s", ["s"], ['s = as.matrix(weights["s"])', "Y = X * s"]),
    ],
)
def test_constants_are_found(body: str, names: list[str], left: list[str] | None) -> None:
    script = made(body)
    assert names_of(script) == names
    if left is not None:
        assert lines_of(script) == left


def test_sizes_that_are_not_known_are_not_constant() -> None:
    body = "V = seq(1, nrow(X) * n)\nY = X * sum(V)"
    assert names_of(made("X = t(X)\n" + body)) == []
    script = specialise(script_of(body, "rows"), {"n": 4})
    assert script.constants is None and script.general is None
    assert [note.words for note in script.notes] == ["not all sizes of the inputs are known"]


def test_what_is_not_hoisted_is_computed_with_all_that_it_needs() -> None:
    body = "V = t(W)\nU = V + 1\nY = X %*% U\nY = Y + sum(U)"
    script = made(body, replace(PREPARED, hoisted=frozenset()))
    assert lines_of(script) == body.split("\n") and script.constants is None


@pytest.mark.parametrize(("body", "names"), [("V = twice(W)\ns = sum(W)\nY = X %*% V * s", ["V"]),
                                             ("V = cumsum(W)\nY = X %*% V", ["V"]),
                                             ('V = removeEmpty(target=W, margin="cols")\nY = X * sum(V)', [])])
def test_plain_scripts_hoist_what_has_known_sizes(body: str, names: list[str]) -> None:
    assert names_of(made(body, Form())) == names


def test_sums_of_rows_become_products_but_for_those_of_squares() -> None:
    script = made("m = rowMeans(X^2)\nY = rowSums(X * m) + rowSums(X^2) + colSums(X) + rowSums(X)")
    ones = "matrix(1, rows=3, cols=1)"
    assert lines_of(script) == [
        f"m = X^2 %*% {ones} / 3", f"Y = (X * m) %*% {ones} + rowSums(X^2) + colSums(X) + X %*% {ones}"]


def test_sums_of_rows_of_any_size_are_functions_of_the_library() -> None:
    script = made("V = removeEmpty(target=X, margin=\"cols\")\nY = rowSums(V) + rowMeans(V)")
    assert lines_of(script)[1:] == ["Y = row_sums(V) + row_means(V)"]
    assert [function.name for function in script.library] == ["row_means", "row_sums"]


def test_functions_that_are_called_no_more_are_left_out() -> None:
    script = made("V = twice(W)\nY = X %*% V")
    assert script.constants is not None and not script.library
    assert [function.name for function in script.constants.library] == ["twice"]
    assert not made("Y = X").library


def test_constants_that_are_numbers_are_computed_at_each_call() -> None:
    script = script_of("V = twice(W)\nV = V + 4\ns = sum(W)\nY = matrix(X, rows=2, cols=3) %*% V * s")
    script = replace(script, outputs=(Port("Y", "double", (2, 2)),), inputs=(Port("X", "double", (symbol("n"), 3)),))
    script = without_number(script)
    given = np.ones((2, 3))
    for score in (ScoringFunction(specialise(script, {"n": 2})), ScoringFunction(script, specialise_after=2)):
        with score:
            for _ in range(3):
                np.testing.assert_allclose(score({"X": given})["Y"], given @ (2 * WEIGHT + 4) * WEIGHT.sum())
            assert score._specialised is None or len(score._specialised.tuner.next()[0]._pinned) == 2


@pytest.mark.parametrize(
    "loop",
    [
        "for (i in 1:2) { Y[i, ] = X[i, ] }",
        "parfor (i in 1:2, check=0, par=2, mode=LOCAL, opt=CONSTRAINED) { Y[i, ] = X[i, ] }",
        "if (sum(X) > -1e9) { Y[1:2, ] = X[1:2, ] }",
    ],
)
@pytest.mark.parametrize("rest", [0.0, 1.0])
@pytest.mark.parametrize("form", [Form(), Form(is_serial=False)])
def test_a_constant_that_is_written_into_stays_what_it_is(loop: str, rest: float, form: Form) -> None:
    script = script_of(f"Y = W %*% matrix({rest}, rows=2, cols=3)\nZ = 0 * X\n{loop}\nY = Y + sum(Z)", 3, WEIGHT * 0 + 1)
    script = without_number(script)
    script = specialise(script, {}, form)
    assert names_of(script) == ["Y"]
    with ScoringFunction(script) as score:
        for seed in range(3):
            x = np.random.default_rng(seed).normal(size=(3, 3))
            np.testing.assert_array_equal(score({"X": x})["Y"], np.vstack([x[:2], np.full((1, 3), 2 * rest)]))


def test_no_more_constants_are_hoisted_than_pay_and_they_are_computed_in_short_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = "\n".join(f"V{i} = W + {i}" for i in range(250)) + "\nY = X" + "".join(f" %*% V{i}" for i in range(250))
    script = made(body)
    assert script.constants is not None and len(script.constants.names) == 200
    assert sum(line.startswith("if (never)") for line in computing(script)) >= 2
    assert sum("= W +" in line for line in lines_of(script)) == 50
    monkeypatch.setattr("onnx_systemds.importing.passes.specialisation.hoisting.MOST_HOISTED", 1)
    convolved = "F = grouped_filters(W, 8)\nV = t(W)\n" + (
        "Y = conv2d(X, F, input_shape=[2, 8, 3, 3], filter_shape=[8, 8, 2, 2], stride=[1, 1], padding=[0, 0]) + sum(V)"
    )
    script = made(convolved)
    constants = script.constants
    assert constants is not None and constants.needed == 1 and constants.names == ("F",)
    assert computing(script)[-1].startswith("F = depthwise_matrix(W, 8")


def test_what_keeps_the_engine_from_mistakes_is_where_the_constants_are_computed() -> None:
    guard = "never = time() < 0\nif (never) { print(nrow(twice(matrix(0, rows=1, cols=1)))) }\n"
    script = made(guard + "V = max(twice(W), 1)\nV = max(V, t(V))\nY = X %*% V")
    first = [line.split("  #")[0] for line in computing(script)]
    assert first == [*guard.splitlines(), *loaded("W", 3, 2), "V = max(twice(W), 1)",
                     'if (never) { print("never") }', "V = max(V, t(V))"]
    assert not any("never" in line for line in computing(made(guard + "V = t(W)\nY = X %*% V")))


def test_the_init_function_puts_constants_into_the_list() -> None:
    script = script_of("V = W + 1\nU = t(V) + 2\nY = X %*% V %*% U")
    script = specialise(without_number(script), {})
    added = "  weights = rbind(weights, list(V=V))\n  weights = rbind(weights, list(U=U))\n"
    assert script.text_for("script").endswith(f"  V = W + 1\n  U = t(V) + 2\n{added}}}\n")
    result = score_plainly(script, {"X": np.ones((2, 3))})["Y"]
    np.testing.assert_array_equal(result, np.ones((2, 3)) @ (WEIGHT + 1) @ (WEIGHT.T + 3))


def test_variables_of_the_script_are_not_taken_for_inputs_of_the_program_that_computes_constants() -> None:
    script = script_of("weight0 = 3 * W\nhoisted_weight0 = 2 * W\nU = t(weight0 + hoisted_weight0 + W)\nY = X %*% t(U)")
    script = without_number(script)
    script = replace(script, outputs=(Port("Y", "double", (2, 2)),))
    with ScoringFunction(specialise(script, {})) as score:
        np.testing.assert_array_equal(score({"X": np.ones((2, 3))})["Y"], np.ones((2, 3)) @ (6 * WEIGHT))


@pytest.mark.parametrize("check", [
    "if (nrow(X) != 2) { stop(\"rows\") }", "if (n < 4 | ncol(X) > 3) { if (n < 4) { stop(\"n\") } }",
    "m = n %/% 2\nif (min(100, m + 1) != 3) { stop(\"m\") }",
])
def test_checks_that_sizes_settle_are_gone(check: str) -> None:
    assert not any("stop" in line for line in lines_of(made(f"{check}\nY = X")))


@pytest.mark.parametrize("check", [
    "if (nrow(X) != 3) { stop(\"rows\") }", "if (n < 4 | ncol(X) > 2) { stop(\"columns\") }", "if (sum(X) > 2) { stop(\"sum\") }",
    "if (n < 4) { stop(\"n\") } else { print(\"else\") }",
    "m = 1\nif (sum(X) > 0) { m = 2 }\nif (m != 1) { stop(\"m\") }",
])
def test_other_checks_stay(check: str) -> None:
    assert any("stop" in line for line in lines_of(made(f"{check}\nY = X")))


@pytest.mark.parametrize("body, is_cut", [
    ("A = W * 3\nB = W * 3\nY = X %*% A + X %*% B", True),
    ("A = (W + 1) * 3\nV = W + 1\nB = V * 3\nY = X %*% A + X %*% B", True),
    ("V = W + 1\nU = W + 1\nA = exp(V[1:2, ])\nB = exp(U[1:2, ])\nY = X[, 1:2] %*% A + X[, 1:2] %*% B", True),
    ("A = (W + 1) * 3\nV = W + 2\nB = V * 3\nY = X %*% A + X %*% B", False),
])
def test_equal_constants_are_cut_off_from_their_list(body: str, is_cut: bool) -> None:
    script = specialise(without_number(script_of(body)), {})
    assert script.constants is not None and len(script.constants.names) == 2
    assert isinstance(script.constants.statements[-1], tree.If) == is_cut
