"""The scale and bias of a normalization go into the weights of the products after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inference.test_convolution_folding import check, node

NUMBERS = np.random.default_rng(1)
CONSTANTS = {
    "gamma": NUMBERS.normal(size=5), "beta": NUMBERS.normal(size=5), "with 0": np.arange(5.0), "small": np.full(5, 1e-9),
    "A": NUMBERS.normal(size=(5, 3)), "B": NUMBERS.normal(size=(5, 3)), "C": NUMBERS.normal(size=(3, 5)),
    "tiny": np.full((5, 3), 1e-35), "a": NUMBERS.normal(size=3), "c": NUMBERS.normal(size=3), "list": np.ones(1),
    "means": NUMBERS.normal(size=5), "variances": NUMBERS.random(5), "shape": np.array([-1, 5]),
    "gammas": NUMBERS.normal(size=4), "means of 4": NUMBERS.normal(size=4), "variances of 4": NUMBERS.random(4),
}
LAYER = node("LayerNormalization", "X", "gamma", "beta", to="n")
FLAT = node("LayerNormalization", "X", "gamma", to="n")
ROWS = node("Reshape", "n", "shape", to="r")
MATRIX = node("Reshape", "X", "shape", to="x")
BATCH = node("BatchNormalization", "x", "gamma", "beta", "means", "variances", to="n")
PRODUCT = node("MatMul", "n", "A", to="m")


@pytest.mark.parametrize("nodes", [
    [LAYER, PRODUCT, node("Add", "a", "m", to="y")],
    [LAYER, ROWS, node("Gemm", "r", "A", "a", to="y")],
    [LAYER, ROWS, node("Gemm", "r", "C", to="y", transB=1)],
    [FLAT, node("MatMul", "n", "A", to="y")],
    [MATRIX, BATCH, node("Gemm", "n", "C", "a", to="y", transB=1)],
    [node("RMSNormalization", "X", "gamma", to="n"), node("MatMul", "n", "A", to="y")],
])
def test_into_a_product(nodes: list[Any]) -> None:
    text = check(nodes, opset=23, contents=CONSTANTS)
    assert not any(name in text for name in ("gamma", "beta", "means", "n_scale"))


def test_into_all_products() -> None:
    other = node("MatMul", "n", "B", to="o")
    nodes = [LAYER, PRODUCT, node("Add", "m", "a", to="y"), other, node("Add", "o", "c", to="z")]
    assert "gamma" not in check(nodes, ("y", "z"), opset=17, contents=CONSTANTS)


@pytest.mark.parametrize(("nodes", "outputs"), [
    ([LAYER, PRODUCT, node("Add", "m", "a", to="y")], ("y", "n")),
    ([LAYER, PRODUCT, node("Add", "m", "a", to="y"), node("Add", "n", "gamma", to="z")], ("y", "z")),
    ([LAYER, node("MatMul", "n", "A", to="y")], ("y",)),
    ([LAYER, PRODUCT, node("Add", "m", "list", to="y")], ("y",)),
    ([LAYER, PRODUCT, node("Add", "m", "m", to="y")], ("y",)),
    ([LAYER, PRODUCT, node("Add", "m", "a", to="y")], ("y", "m")),
    ([FLAT, node("MatMul", "X", "A", to="z"), node("MatMul", "n", "A", to="y")], ("y", "z")),
    ([node("LayerNormalization", "X", "with 0", to="n"), node("MatMul", "n", "A", to="y")], ("y",)),
    ([node("LayerNormalization", "X", "small", to="n"), node("MatMul", "n", "tiny", to="y")], ("y",)),
    ([FLAT, ROWS, node("Gemm", "r", "A", to="y", alpha=0.5)], ("y",)),
])
def test_what_stays(nodes: list[Any], outputs: tuple[str, ...]) -> None:
    text = check(nodes, outputs, opset=17, contents=CONSTANTS)
    assert any(f"{name} " in text or f"{name})" in text for name in ("gamma", "with_0", "small"))


def test_channels_that_are_far_from_zero() -> None:
    contents = {**CONSTANTS, "means": np.full(5, 1e5)}
    text = check([MATRIX, BATCH, node("Gemm", "n", "A", to="y")], opset=17, contents=contents, rtol=1e-2)
    assert "n_shift" in text


def test_channels_that_are_no_columns() -> None:
    batch = node("BatchNormalization", "X", "gammas", "gammas", "means of 4", "variances of 4", to="n")
    assert "scaled_channels(X, " in check([batch, node("MatMul", "n", "A", to="y")], opset=17, contents=CONSTANTS)
