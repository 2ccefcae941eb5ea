"""Matrices with a row for each channel of an image stay images: products, pooling, biases and what is joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.exporting.export_harness import Array, assert_close, run_model
from tests.exporting.test_idioms import exported, operators

GENERATOR = np.random.default_rng(11)
WEIGHTS = {"F": GENERATOR.normal(size=(4, 3)), "W": GENERATOR.normal(size=(5, 4)), "b": GENERATOR.normal(size=(5, 1)),
           "r": GENERATOR.normal(size=(1, 24))}
SHAPE = "filter_shape=[4, 3, 1, 1], stride=[1, 1], padding=[0, 0]"
CONVOLVED = f"C = matrix(conv2d(X, F, input_shape=[1, 3, 4, 6], {SHAPE}), rows=4, cols=24)\n"
POOLED = "pool_size=[2, 2], stride=[2, 2], padding=[0, 0]"


def convolved(x: Array) -> Array:
    return np.asarray(WEIGHTS["F"] @ x.reshape(3, 24))


def product(x: Array) -> Array:
    return np.asarray(WEIGHTS["W"] @ convolved(x) + WEIGHTS["b"])


def largest(x: Array) -> Array:
    return convolved(x).reshape(4, 2, 2, 3, 2).max(axis=(2, 4)).reshape(4, 6)


CASES: list[tuple[str, Callable[[Array], Array], Sequence[str]]] = [
    ("Y = W %*% C + b", product, ["Conv", "Conv", "Reshape"]),
    ("Y = max(W %*% C + b, 0)", lambda x: np.maximum(product(x), 0), ["Conv", "Conv", "Relu", "Reshape"]),
    ("Y = W %*% max(C, 0)", lambda x: WEIGHTS["W"] @ np.maximum(convolved(x), 0), ["Conv", "Relu", "Conv", "Reshape"]),
    (f"Y = max_pool(C, input_shape=[4, 1, 4, 6], {POOLED})", largest, ["Conv", "MaxPool", "Reshape"]),
    (f"Y = W %*% max_pool(C, input_shape=[4, 1, 4, 6], {POOLED})", lambda x: WEIGHTS["W"] @ largest(x),
     ["Conv", "MaxPool", "Conv", "Reshape"]),
    ("Y = rbind(W %*% C, C)", lambda x: np.vstack([product(x) - WEIGHTS["b"], convolved(x)]), ["Conv", "Conv", "Concat", "Reshape"]),
    ("Y = t(W %*% C)", lambda x: (product(x) - WEIGHTS["b"]).T, ["Conv", "Conv", "Reshape", "Transpose"]),
    ("Y = ifelse(C > 0, C, b[1:4, ])", lambda x: np.where(convolved(x) > 0, convolved(x), WEIGHTS["b"][:4]),
     ["Conv", "Greater", "Where", "Reshape"]),
    # images of another height, filters that are computed, other rows, what no image is
    ("Y = max_pool(C, input_shape=[4, 1, 6, 4], pool_size=[6, 4], stride=[1, 1], padding=[0, 0])",
     lambda x: convolved(x).max(axis=1, keepdims=True), ["Conv", "Reshape", "MaxPool", "Reshape"]),
    ("Y = (W * sum(X)) %*% C", lambda x: (WEIGHTS["W"] * x.sum()) @ convolved(x), ["Conv", "ReduceSum", "Mul", "Reshape", "MatMul"]),
    ("Y = W %*% matrix(C, 4, 24) + r", lambda x: product(x) - WEIGHTS["b"] + WEIGHTS["r"],
     ["Conv", "Conv", "Add", "Reshape"]),
    ("D = matrix(C, rows=6, cols=16)\nY = D[, 1:4] %*% D[1:4, ]",
     lambda x: convolved(x).reshape(6, 16)[:, :4] @ convolved(x).reshape(6, 16)[:4], ["Conv", "Reshape", "Slice", "Slice", "MatMul"]),
    (f"P = max_pool(C, input_shape=[4, 1, 4, 6], {POOLED})\nQ = max_pool(C, input_shape=[4, 1, 4, 6], "
     "pool_size=[4, 1], stride=[1, 1], padding=[0, 0])\nY = rbind(P, Q)",
     lambda x: np.vstack([largest(x), convolved(x).reshape(4, 4, 6).max(axis=1)]),
     ["Conv", "MaxPool", "MaxPool", "Reshape", "Reshape", "Concat"]),
]


@pytest.mark.parametrize(("body", "formula", "wanted"), CASES, ids=[row[0].replace("\n", "; ") for row in CASES])
def test_rows_that_are_channels(body: str, formula: Callable[[Array], Array], wanted: Sequence[str]) -> None:
    model = exported(CONVOLVED + body, WEIGHTS, dims="1,72")
    data = np.random.default_rng(3).normal(size=(1, 72))
    assert_close(run_model(model, {"X": data})["Y"], formula(data), 1e-5, body)
    assert operators(model)[1:] == list(wanted)  # after the Reshape of the input


def test_products_of_channels_in_float64_are_products() -> None:
    body = f"P = max_pool(X, input_shape=[3, 1, 4, 6], {POOLED})\nY = F %*% P"
    model = exported(body, {"F": WEIGHTS["F"]}, dims="3,24", dtype="float64")
    assert "Conv" not in operators(model) and "MatMul" in operators(model)


@pytest.mark.parametrize("dims", ["1,72", "N,72"])
def test_sums_of_images_by_ones_are_sums(dims: str) -> None:
    """As scripts of known sizes have them in a softmax."""
    body = f"P = max_pool(X, input_shape=[nrow(X), 3, 4, 6], {POOLED})\nE = exp(P - rowMaxs(P))\nY = E / %s"
    by_ones, summed = (exported(body % total, dims=dims) for total in ("(E %*% matrix(1, rows=18, cols=1))", "rowSums(E)"))
    assert operators(by_ones) == operators(summed) and "Softmax" in operators(summed)
    data = np.random.default_rng(4).normal(size=(1, 72))
    powers = np.exp(data.reshape(3, 2, 2, 3, 2).max(axis=(2, 4)).reshape(1, 18))
    assert_close(run_model(by_ones, {"X": data})["Y"], powers / powers.sum(), 1e-6, "softmax")
