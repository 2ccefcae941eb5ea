"""Which parts of a script are found to be constant, and what is left for every call."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.engine import shared_session
from onnx_systemds.exporting.parser import parse_script
from onnx_systemds.exporting.printer import print_statement
from onnx_systemds.steady.constants import Constants, find_constants

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
        ("V = matrix(1, rows=nrow(X), cols=n)\nY = t(X) %*% V", ["V"], ["V = kept0", "Y = t(X) %*% V"]),
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
    body = "V = matrix(1, rows=nrow(X), cols=n)\nY = t(X) %*% V"
    assert not found(body, (None, 4)).candidates
    assert not found(body, ((2, 3), None)).candidates
    assert not found("X = t(X)\n" + body).candidates


def test_what_is_not_kept_is_computed_with_all_that_it_needs() -> None:
    constants = found("V = t(W)\nU = V + 1\nY = X %*% U\nY = Y + sum(U)")
    assert body_of(constants.text([])) == ["V = t(W)", "U = V + 1", "Y = X %*% U", "Y = Y + sum(U)"]


def test_sums_of_rows_become_products_but_for_those_of_squares() -> None:
    constants = found("m = rowMeans(X)\nY = rowSums(X * m) + rowSums(X^2) + colSums(X)")
    assert constants.has_products
    assert body_of(constants.text([])) == ["m = row_means(X)", "Y = row_sums(X * m) + rowSums(X^2) + colSums(X)"]
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
