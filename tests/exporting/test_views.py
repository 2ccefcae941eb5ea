"""Tensors that only a Reshape gives other dims: what is calculated across it, and what is not; means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.exporting.export_harness import Array, assert_close, run_model
from tests.exporting.test_idioms import exported, operators

GENERATOR = np.random.default_rng(12)
BOUND = {"W": GENERATOR.normal(size=(12, 6)), "V": GENERATOR.normal(size=(6, 2)), "b": GENERATOR.normal(size=(3, 1)),
         "c": GENERATOR.normal(size=(1, 6))}
SPREAD = np.repeat(BOUND["b"].ravel(), 2)


def shifted(x: Array) -> Array:
    return np.asarray(x @ BOUND["W"] + SPREAD)


def shares(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


CASES: list[tuple[str, str, Callable[[Array], Array], Sequence[str]]] = [
    ("offsets per channel", "Y = bias_add(X %*% W, b)", shifted, ["Gemm"]),
    ("between products", "Y = max(bias_add(X %*% W, b), 0) %*% V", lambda x: np.maximum(shifted(x), 0) @ BOUND["V"],
     ["Gemm", "Relu", "MatMul"]),
    ("several operators", "Y = min(max(bias_add(X %*% W, b) * 2, -1), 1) %*% V",
     lambda x: np.clip(shifted(x) * 2, -1, 1) @ BOUND["V"], ["Gemm", "Mul", "Clip", "MatMul"]),
    ("two products", "Y = (bias_add(X %*% W, b) + bias_add((X + 1) %*% W, b)) %*% V",
     lambda x: (shifted(x) + shifted(x + 1)) @ BOUND["V"], ["Gemm", "Add", "Gemm", "Add", "MatMul"]),
    ("offsets that are computed", "Y = bias_add(X %*% W, b * sum(X))", lambda x: x @ BOUND["W"] + SPREAD * x.sum(), []),
    ("factors per channel", "Y = bias_multiply(bias_add(X %*% W, b), b) %*% V", lambda x: (shifted(x) * SPREAD) @ BOUND["V"],
     ["Gemm", "Reshape", "Mul", "Reshape", "MatMul"]),
    ("a product that is used again", "P = X %*% W\nY = bias_add(P, b) + P * 2", lambda x: shifted(x) + 2 * (x @ BOUND["W"]), []),
    ("what is used again", "R = max(bias_add(X %*% W, b), 0)\nS = bias_multiply(R, b)\nY = R %*% V + S %*% V",
     lambda x: (np.maximum(shifted(x), 0) * (1 + SPREAD)) @ BOUND["V"], []),
    ("an offset of a scalar", "Y = as.matrix(as.scalar(colSums(X) %*% W[, 1]) + 0.5)", lambda x: x.sum(axis=0, keepdims=True) @ BOUND["W"][:, :1] + 0.5, []),
    ("a mean", "Y = rowSums(X) / 12 + 1", lambda x: x.mean(axis=1, keepdims=True) + 1, ["ReduceMean", "Add"]),
    ("no mean", "Y = rowSums(X) / 11", lambda x: x.sum(axis=1, keepdims=True) / 11, ["ReduceSum", "Div"]),
    ("a sum that is used again", "s = rowSums(X)\nY = s / 12 + s", lambda x: x.mean(1, keepdims=True) + x.sum(1, keepdims=True),
     ["ReduceSum", "Div", "Add"]),
]


@pytest.mark.parametrize(("name", "body", "formula", "wanted"), CASES, ids=[row[0] for row in CASES])
@pytest.mark.parametrize("dims", ["N,12", "3,12"])
def test_across_a_view(name: str, body: str, formula: Callable[[Array], Array], wanted: Sequence[str], dims: str) -> None:
    model = exported(body, BOUND, dims=dims)
    data = np.random.default_rng(3).normal(size=(3, 12))
    assert_close(run_model(model, {"X": data})["Y"], formula(data), 1e-5, name)
    used = operators(model)
    assert not wanted or (used[:-1] if used[-1] == "Reshape" and wanted[-1] != "Reshape" else used) == list(wanted)


@pytest.mark.parametrize(("body", "formula", "wanted"), [
    ("E = exp(X - rowMaxs(X))\nY = E / rowSums(E)", shares, ["Reshape", "Softmax"]),
    ("s = X - rowMaxs(X)\nY = s + (-log(rowSums(exp(s))))", lambda x: np.log(shares(x)), ["Reshape", "LogSoftmax"]),
    ("Y = X - rowMeans(X)", lambda x: x - x.mean(axis=1, keepdims=True), ["ReduceMean", "Sub", "Reshape"]),
    ("E = exp(X)\nY = E / colSums(E)", lambda x: np.exp(x) / np.exp(x).sum(axis=0), []),
    ("E = exp(X - rowMins(X))\nY = E / rowSums(E)", shares, []),
])
@pytest.mark.parametrize("opset", [13, 21])
def test_rows_of_more_axes(body: str, formula: Callable[[Array], Array], wanted: Sequence[str], opset: int) -> None:
    model = exported(body, dims="N,3,4", opset=opset)
    data = np.random.default_rng(3).normal(size=(5, 12))
    assert_close(run_model(model, {"X": data})["Y"], formula(data), 1e-5, body)
    assert not wanted or operators(model) == list(wanted)
