"""Which parts of a script are found to be constant, and what is left for every call."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.engine import shared_session
from onnx_systemds.runtime.specialisation.constants import Constants, find_constants

HEAD = "f = function(matrix[double] X, integer n, matrix[double] W) return (matrix[double] Y) {\n"
LIBRARY = """
twice = function(matrix[double] A) return (matrix[double] B) { B = 2 * A }
noise = function(matrix[double] A) return (matrix[double] B) { B = A + rand(rows=1, cols=1) }
noisier = function(matrix[double] A) return (matrix[double] B) { B = noise(A) }
split = function(matrix[double] A) return (matrix[double] B, matrix[double] C) { B = A; C = 2 * A }
"""


def found(body: str, shapes: tuple[tuple[int, int] | int | None, ...] = ((2, 3), 4)) -> Constants:
    return find_constants(LIBRARY + HEAD + body + "\n}", "f", shapes, 1)


def body_of(text: str) -> list[str]:
    """The lines of the main function's statements."""
    body = parse_script(text).functions["f"].body
    return [line.strip() for statement in body for line in print_statement(statement).splitlines()]


@pytest.mark.parametrize(
    ("body", "kept", "left"),
    [
        ("V = t(W)\nY = X %*% V", ["V"], ["V = kept0", "Y = X %*% V"]),
        ("V = W\nV = V[1:3, 1:2]\nY = X %*% V", [], None),
        ("m = 2\nY = m * X", [], None),
        ("V = t(W)\nU = V + 1\nY = X %*% U", ["U"], ["U = kept0", "Y = X %*% U"]),
        ("V = t(W)\nY = X %*% V\nV = V + 1\nY = Y %*% V", ["V", "V"],
         ["V = kept0", "Y = X %*% V", "V = kept1", "Y = Y %*% V"]),
        ("V = matrix(0, rows=2, cols=2)\nV[1, ] = t(W)\nY = X %*% V", ["V"], ["V = kept0", "Y = X %*% V"]),
        ("V = twice(W)\nY = X %*% V", ["V"], ["V = kept0", "Y = X %*% V"]),
        ("V = noisier(W)\nY = X %*% V", [], None),
        ("V = t(W) * as.scalar(rand(rows=1, cols=1))\nY = X %*% V", [], None),
        ("[V, U] = split(W)\nV = t(V)\nY = X %*% V", [], None),
        ("V = t(W)\nif (sum(X) > 0) { V = V + 1 }\nU = t(V)\nY = X %*% U", ["V"],
         ["V = kept0", "if (sum(X) > 0) {", "V = V + 1", "}", "U = t(V)", "Y = X %*% U"]),
        ("Y = t(W)\nfor (i in 1:2) { Y[i, ] = X[i, ] }", ["Y"],
         ["Y = kept0", "for (i in 1:2) {", "Y[i, ] = X[i, ]", "}"]),
        ("V = seq(1, nrow(X) * n)\nY = X * sum(V)", ["V"], ["V = kept0", "Y = X * sum(V)"]),
        ("V = matrix(-1, rows=nrow(X), cols=n)\nY = t(X) %*% V", [], None),
        ('V = matrix("1 2 3", rows=1, cols=3)\nY = X * V', [], None),
        ("V = matrix(W, rows=2, cols=3)\nY = X * V", ["V"], ["V = kept0", "Y = X * V"]),
        ("Y = t(W)", ["Y"], ["Y = kept0"]),
        ("s = sum(W)\nY = X * s", ["s"], ["s = kept0", "Y = X * s"]),
    ],
)  # fmt: skip
def test_constants_are_found(body: str, kept: list[str], left: list[str] | None) -> None:
    constants = found(body)
    if left is None:
        assert not constants.candidates and not constants.has_products
        return
    targets = [print_statement(constants.main.body[number]) for number in constants.candidates.values()]
    assert [target.split("[")[0].split(" ")[0] for target in targets] == kept
    assert body_of(constants.text([*constants.candidates])) == left


def test_sizes_that_are_not_known_are_not_constant() -> None:
    body = "V = seq(1, nrow(X) * n)\nY = X * sum(V)"
    assert not found(body, (None, 4)).candidates
    assert not found(body, ((2, 3), None)).candidates
    assert not found("X = t(X)\n" + body).candidates


def test_what_is_not_kept_is_computed_with_all_that_it_needs() -> None:
    constants = found("V = t(W)\nU = V + 1\nY = X %*% U\nY = Y + sum(U)")
    assert body_of(constants.text([])) == ["V = t(W)", "U = V + 1", "Y = X %*% U", "Y = Y + sum(U)"]


def test_sums_of_rows_become_products_but_for_those_of_squares() -> None:
    constants = found("m = rowMeans(X^2)\nY = rowSums(X * m) + rowSums(X^2) + colSums(X)")
    assert constants.has_products
    assert body_of(constants.text([])) == ["m = row_means(X^2)", "Y = row_sums(X * m) + rowSums(X^2) + colSums(X)"]
    assert "row_means = function" in constants.text([])


def test_functions_that_are_called_no_more_are_left_out() -> None:
    constants = found("V = twice(W)\nY = X %*% V")
    assert "twice" in constants.once([(3, 2)]) and "noise" not in constants.once([(3, 2)])
    assert "twice" not in constants.text([*constants.candidates])
    assert "twice" in constants.text([])


def test_constants_are_computed_on_the_engine_and_numbers_are_no_matrices() -> None:
    constants = found("V = twice(W)\nV = V + n\ns = sum(W)\nY = X %*% V * s")
    once = shared_session().prepare(constants.once([(3, 2)]), [*constants.weights], [*constants.candidates])
    weights = np.arange(6.0).reshape(3, 2)
    assert constants.weights == {"W": 0}
    once.pin("W", weights)
    (matrix,) = once.computed_matrices().values()
    assert (matrix.rows, matrix.cols) == (3, 2)
    text = constants.text(["kept0"]) + '\nX = read("./X", rows=2, cols=3)\nW = read("./W", rows=3, cols=2)\n'
    text += 'K = read("./K", rows=3, cols=2)\nY = f(X, 4, W, K)\nwrite(Y, "./Y")'
    script = shared_session().prepare(text, ["X", "W", "K"], ["Y"])
    script.pin("W", weights)
    script.pin_results({"K": matrix})
    given = np.ones((2, 3))
    np.testing.assert_allclose(script({"X": given})["Y"], given @ (2 * weights + 4) * weights.sum())


@pytest.mark.parametrize(
    "loop",
    [
        "for (i in 1:2) { Y[i, ] = X[i, ] }",
        "parfor (i in 1:2, check=0, par=2, mode=LOCAL, opt=CONSTRAINED) { Y[i, ] = X[i, ] }",
        "if (sum(X) > -1e9) { Y[1:2, ] = X[1:2, ] }",
    ],
)
@pytest.mark.parametrize("rest", [0.0, 1.0])
def test_a_kept_matrix_that_is_written_into_stays_what_it_is(loop: str, rest: float) -> None:
    constants = found(f"Y = W %*% matrix(1, rows=2, cols=2)\nZ = 0 * X\n{loop}\nY = Y + sum(Z)", ((3, 2), 4))
    (name,) = constants.candidates
    text = constants.text([name])
    text += f'\nX = read("./X", rows=3, cols=2)\nW = read("./W", rows=3, cols=2)\n{name} = read("./{name}", rows=3, cols=2)'
    text += f'\nY = f(X, 4, W, {name})\nwrite(Y, "./Y")'
    script = shared_session().prepare(text, ["X", "W", name], ["Y"])
    kept = np.full((3, 2), rest)
    script.pin("W", kept)
    script.pin(name, kept)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(3, 2))
        np.testing.assert_array_equal(script({"X": x})["Y"], np.vstack([x[:2], kept[2:]]))


def test_no_more_constants_are_kept_than_pay_and_the_rest_is_computed_in_short_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = "\n".join(f"V{i} = W + {i}" for i in range(250)) + "\nY = X" + "".join(f" %*% V{i}" for i in range(250))
    constants = found(body)
    assert len(constants.candidates) == 200
    assert constants.once([(3, 2)]).count("if (never)") == 2
    assert sum("= W +" in line for line in body_of(constants.text([*constants.candidates]))) == 50
    monkeypatch.setattr("onnx_systemds.runtime.specialisation.constants.MOST_KEPT", 1)
    convolved = "F = depthwise_filters(W, 8)\nV = t(W)\n" + (
        "Y = conv2d(X, F, input_shape=[2, 8, 3, 3], filter_shape=[8, 8, 2, 2], stride=[1, 1], padding=[0, 0]) + sum(V)"
    )
    constants = found(convolved, ((2, 72), 4))
    assert constants.matrices == 1
    assert print_statement(constants.main.body[constants.candidates["kept0"]]).startswith("F = depthwise_matrix(W, 8")


def test_what_keeps_the_engine_from_mistakes_is_in_the_script_of_the_constants() -> None:
    guard = "never = time() < 0\nif (never) { print(nrow(twice(matrix(0, rows=1, cols=1)))) }\n"
    constants = found(guard + "V = max(twice(W), 1)\nV = max(V, t(V))\nY = X %*% V")
    once = [print_statement(statement).split("\n")[0] for statement in parse_script(constants.once([(3, 2)])).statements]
    assert once.count("if (never) {") == 3
    assert once.index("if (never) {") < once.index("V = max(twice(W), 1)")
    assert once[once.index("V = max(twice(W), 1)") + 1] == "if (never) {"
    assert "nrow(twice" not in found(guard + "V = t(W)\nY = X %*% V").once([(3, 2)])
