"""Borders of joined zeros and convolutions of shifted lines: a Conv with its own border, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from tests.exporting.export_harness import Array, assert_close, run_model
from tests.exporting.test_idioms import exported, operators

GENERATOR = np.random.default_rng(21)
DATA = GENERATOR.normal(size=(1, 40))  # an image of 2 x 4 x 5
BOUND = {"W": GENERATOR.normal(size=(3, 18)), "b": GENERATOR.normal(size=(3, 1))}


def convolved(image: Array, pads: tuple[int, int, int, int], number: float = 0.0) -> Array:
    """The convolution of an image of 2 x 4 x 5 by filters of 3 x 3 in a border: top, left, bottom, right."""
    top, left, bottom, right = pads
    framed = np.pad(image.reshape(2, 4, 5), ((0, 0), (top, bottom), (left, right)), constant_values=number)
    windows = np.lib.stride_tricks.sliding_window_view(framed, (3, 3), axis=(1, 2))
    return np.asarray(np.einsum("chwij,kcij->khw", windows, BOUND["W"].reshape(3, 2, 3, 3)))


def bordered(number: str = "0", lines: str = "L", pads: int = 0, kind: str = "conv2d") -> str:
    """A border of one column on the left, two on the right and one line below."""
    given = ("F, W, input_shape=[1, 2, 5, 8], filter_shape=[3, 2, 3, 3]" if kind == "conv2d"
             else "F, input_shape=[1, 2, 5, 8], pool_size=[3, 3]")
    return (f"L = matrix(X, rows=8, cols=5)\nM = cbind(matrix({number}, 8, 1), {lines}, matrix({number}, 8, 2))\n"
            f"F = matrix(cbind(matrix(M, rows=2, cols=32), matrix({number}, 2, 8)), rows=1, cols=80)\n"
            f"Y = {kind}({given}, stride=[1, 1], padding=[{pads}, {pads}])")


SHUFFLED = "cbind(L[, 2:5], L[, 1])"


@pytest.mark.parametrize(("body", "wanted", "pads"), [
    (bordered(), ["Conv"], (0, 1, 1, 2)),
    (bordered(pads=1), ["Conv"], (1, 2, 2, 3)),
    (bordered(number="1"), ["Reshape", "Concat", "Reshape", "Concat", "Reshape", "Conv"], None),
    (bordered(lines=SHUFFLED), None, None),
    (bordered(lines="(L + 1)"), ["Add", "Conv"], None),
], ids=["border", "two borders", "ones", "columns in another order", "other numbers"])
def test_a_border_of_joined_zeros(body: str, wanted: list[str] | None, pads: tuple[int, int, int, int] | None) -> None:
    model = exported(body, BOUND, dims="1,40")
    used = [op for op in operators(model) if op != "Reshape"]
    if pads is not None:
        assert used == wanted
        expected = convolved(DATA, pads)
    elif "L + 1" in body:
        expected = convolved(DATA + 1, (0, 1, 1, 2))
    elif "L[, 2:5]" in body:
        assert "Concat" in used
        expected = convolved(DATA.reshape(8, 5)[:, [1, 2, 3, 4, 0]], (0, 1, 1, 2))
    else:
        assert used == ["Concat", "Concat", "Conv"]
        expected = convolved(DATA, (0, 1, 1, 2), 1.0)
    assert_close(run_model(model, {"X": DATA})["Y"], expected.reshape(1, -1), 1e-5, body)


@pytest.mark.parametrize(("kind", "number", "own"), [
    ("avg_pool", "0", True), ("max_pool", "(-1/0)", True), ("max_pool", "0", False), ("avg_pool", "2", False),
])
def test_pooling_in_a_border(kind: str, number: str, own: bool) -> None:
    model = exported(bordered(number=number, kind=kind), dims="1,40")
    assert ("Concat" not in operators(model)) is own
    border = {"0": 0.0, "2": 2.0}.get(number, -np.inf)
    framed = np.pad(DATA.reshape(2, 4, 5), ((0, 0), (0, 1), (1, 2)), constant_values=border)
    windows = np.lib.stride_tricks.sliding_window_view(framed, (3, 3), axis=(1, 2))
    expected = windows.mean(axis=(3, 4)) if kind == "avg_pool" else windows.max(axis=(3, 4))
    assert_close(run_model(model, {"X": DATA})["Y"], expected.reshape(1, -1), 1e-5, kind)


def lines(shifts: str = "1 2 3 8 9 10 15 16 17", columns: str = "1:5", width: int = 7, image: str = "X") -> str:
    """A convolution in a border of 1: lines of 7 numbers, shifted, times filters; the columns between lines are cut off."""
    stack = ", ".join(f"P[, {start}:{int(start) + 25}]" for start in shifts.split())
    return (f"L = cbind(matrix(0, 8, 1), matrix({image}, rows=8, cols=5), matrix(0, 8, 1))\n"
            "P = cbind(matrix(0, 2, 7), matrix(L, rows=2, cols=28), matrix(0, 2, 7))\n"
            f"S = matrix(cbind({stack}), rows=18, cols=26)\nC = W %*% S + b\n"
            f"R = matrix(cbind(C, matrix(0, 3, 2)), rows=12, cols={width})\nY = matrix(R[, {columns}], rows=3, cols=20)")


def shifted(body: str, shifts: str, first: int = 0) -> Array:
    """What the statements say."""
    framed = np.pad(np.pad(DATA.reshape(8, 5), ((0, 0), (1, 1))).reshape(2, 28), ((0, 0), (7, 7)))
    stack = np.hstack([framed[:, int(start) - 1 : int(start) + 25] for start in shifts.split()]).reshape(18, 26)
    product = np.pad(BOUND["W"] @ stack + BOUND["b"], ((0, 0), (0, 2)))
    return np.asarray(product.reshape(12, 7)[:, first : first + 5].reshape(3, 20))


PLAIN, TURNED, LATER = "1 2 3 8 9 10 15 16 17", "2 1 3 8 9 10 15 16 17", "1 2 3 8 9 10 15 16 16"


@pytest.mark.parametrize(("shifts", "first", "is_one"), [(PLAIN, 0, True), (TURNED, 0, False), (LATER, 0, False), (PLAIN, 1, False)])
def test_shifted_lines(shifts: str, first: int, is_one: bool) -> None:
    body = lines(shifts, f"{first + 1}:{first + 5}")
    model = exported(body, BOUND, dims="1,40")
    assert ("Conv" in operators(model)) is is_one
    if is_one:
        assert [op for op in operators(model) if op != "Reshape"] == ["Conv"]
        assert_close(shifted(body, shifts), convolved(DATA, (1, 1, 1, 1)).reshape(3, 20) + BOUND["b"], 1e-12, "the oracle")
    assert_close(run_model(model, {"X": DATA})["Y"], shifted(body, shifts, first), 1e-5, body)


def test_shifted_lines_of_filters_that_are_computed() -> None:
    model = exported(lines().replace("W %*%", "(W * sum(X)) %*%"), BOUND, dims="1,40")
    assert "Conv" not in operators(model)


def test_a_product_that_is_used_again() -> None:
    model = exported(f"{lines()}\nY = Y * sum(C)", BOUND, dims="1,40")
    framed = np.pad(np.pad(DATA.reshape(8, 5), ((0, 0), (1, 1))).reshape(2, 28), ((0, 0), (7, 7)))
    stack = np.hstack([framed[:, int(start) - 1 : int(start) + 25] for start in PLAIN.split()]).reshape(18, 26)
    total = (BOUND["W"] @ stack + BOUND["b"]).sum()
    assert_close(run_model(model, {"X": DATA})["Y"], shifted("", PLAIN) * total, 1e-4, "again")
