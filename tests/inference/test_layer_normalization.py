"""Normalizations that are written as several nodes become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inference.test_convolution_folding import check, node

NUMBERS = np.random.default_rng(2)
CONSTANTS = {
    "gamma": NUMBERS.normal(size=5), "beta": NUMBERS.normal(size=5), "two": 2.0, "three": 3.0, "epsilon": 1e-3, "one": 1.0,
    "epsilons": np.array([1e-3]), "shape": np.array([-1]), "lines": NUMBERS.normal(size=(6, 1)),
}
MEAN = node("ReduceMean", "X", to="m", axes=[-1])
CENTRED = node("Sub", "X", "m", to="d")
SQUARE = node("Pow", "d", "two", to="q")
MEAN_SQUARE = node("ReduceMean", "q", to="v", axes=[-1])
SUM = node("Add", "v", "epsilon", to="e")
ROOT = node("Sqrt", "e", to="r")
QUOTIENT = node("Div", "d", "r", to="y")
RECIPROCAL = node("Reciprocal", "r", to="i")
SCALED, SUMMED = node("Mul", "n", "gamma", to="s"), node("Add", "beta", "s", to="y")
LAYER = [MEAN, CENTRED, SQUARE, MEAN_SQUARE, SUM, ROOT]
X_SQUARE = node("Mul", "X", "X", to="q")


def replaced(nodes: list[Any], *others: Any) -> list[Any]:
    """Nodes, some of them replaced by others with the same outputs."""
    by_output = {made.output[0]: made for made in others}
    return [by_output.get(made.output[0], made) for made in nodes]


@pytest.mark.parametrize("nodes", [
    [*LAYER, QUOTIENT],
    [*LAYER, node("Div", "d", "r", to="n"), SCALED, SUMMED],
    [*LAYER, node("Div", "d", "r", to="n"), node("Add", "n", "beta", to="y")],
    [*LAYER, RECIPROCAL, node("Mul", "i", "d", to="y")],
    [*LAYER, node("Div", "one", "r", to="i"), node("Mul", "d", "i", to="n"), node("Mul", "gamma", "n", to="y")],
    [*replaced(LAYER, node("Mul", "d", "d", to="q"), node("Add", "epsilon", "v", to="e")), QUOTIENT],
])
def test_layer_normalization(nodes: list[Any]) -> None:
    assert "_centred^2" in check(nodes, contents=CONSTANTS)


@pytest.mark.parametrize("last", [
    [node("Div", "X", "r", to="y")],
    [RECIPROCAL, node("Mul", "X", "i", to="n"), node("Mul", "gamma", "n", to="y")],
])
def test_root_mean_square(last: list[Any]) -> None:
    nodes = [X_SQUARE, MEAN_SQUARE, SUM, ROOT, *last]
    text = check(nodes, contents=CONSTANTS)
    assert "X_by_5^2" in text and len(text.splitlines()) < 8


def test_axes_that_are_an_input() -> None:
    nodes = [*replaced(LAYER, node("ReduceMean", "X", "shape", to="m"), node("ReduceMean", "q", "shape", to="v")), QUOTIENT]
    assert "_centred^2" in check(nodes, opset=18, contents=CONSTANTS)


@pytest.mark.parametrize(("nodes", "outputs"), [
    ([*LAYER, QUOTIENT], ("y", "d")),
    ([*LAYER, QUOTIENT], ("y", "v")),
    ([*LAYER, node("Div", "X", "r", to="y")], ("y",)),
    ([*replaced(LAYER, node("Pow", "d", "three", to="q"), SUM), QUOTIENT], ("y",)),
    ([*replaced(LAYER, node("Add", "v", "epsilons", to="e")), QUOTIENT], ("y",)),
    ([*replaced(LAYER, node("ReduceMean", "q", to="v", axes=[2])), QUOTIENT], ("y",)),
    ([*LAYER, node("Div", "r", "d", to="y")], ("y",)),
])
def test_what_is_something_else(nodes: list[Any], outputs: tuple[str, ...]) -> None:
    assert "_centred" not in check(nodes, outputs, contents=CONSTANTS, rtol=1e-3)


def test_a_column_is_no_scale() -> None:
    assert "repeated_row(lines" in check([*LAYER, node("Div", "d", "r", to="n"), node("Mul", "n", "lines", to="y")], contents=CONSTANTS)


def test_a_normalization_of_the_model_keeps_its_further_outputs() -> None:
    own = node("LayerNormalization", "X", "gamma", to="n")
    own.output.append("means")
    nodes = [own, node("Add", "n", "beta", to="y"), node("Abs", "means", to="a"), node("Sqrt", "a", to="z")]
    assert "_centred" in check(nodes, ("y", "z"), opset=17, contents=CONSTANTS)
