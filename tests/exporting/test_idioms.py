"""Formulas and functions of SystemDS that are one operator of ONNX: the operators, and their numbers at extremes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import pytest

from onnx_systemds.dml.templates import library_imports, library_text
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import Array, assert_close, operators, run_model

EXTREMES = np.array([[np.nan, np.inf, -np.inf], [1e30, -1e30, 3e38], [90.0, -90.0, 0.0], [-20.0, 20.0, 1e-30]])
ROWS: dict[str, Array] = {"m": np.array([[0.5, -2.0, 3.0]]), "s": np.array([[0.1, 2.0, 1.0]]), "g": np.array([[1.0, -2.0, 0.5]]),
                          "b": np.array([[0.0, 1.0, -1.0]])}
STEEP = np.array([[1.0, 1.0, 1e10], [0.5, -1.0, 2.0], [-10.0, -10.0, -10.0]])
"""Makes infinities and NaN of numbers in float32."""
CENTERS = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 1.0], [1.0, 2.0, -1.0]])


def exported(body: str, bound: Mapping[str, Array] | None = None, dims: str = "N,3", **more: object) -> onnx.ModelProto:
    reads = [f'{name} = read("{name}")' for name in ("X", *(bound or {}))]
    script = "\n".join([*reads, body, 'write(Y, "Y")']) + "\n"
    return export_script(script, inputs={"X": f"double[{dims}]"}, bindings=bound or {}, **more)  # type: ignore[arg-type]


def tanh_gelu(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) * x)


def last_best(scores: Array, missing: int, sign: int = 1) -> Array:
    """Where the last of the greatest (-1: smallest) numbers of each row is; `missing` for a row of NaN."""
    numbers = np.where(np.isnan(scores), -np.inf, sign * scores)
    last = scores.shape[1] - (numbers == numbers.max(axis=1, keepdims=True))[:, ::-1].argmax(axis=1)
    return np.where(np.isnan(scores).all(axis=1), missing, last)[:, None]


def normalized(x: Array) -> Array:
    return np.asarray((x - ROWS["m"]) / ROWS["s"] * ROWS["g"] + ROWS["b"])


FORMULAS: list[tuple[str, str, Mapping[str, Array], Callable[[Array], Array], Sequence[str]]] = [
    ("gelu", "Y = 0.5 * (1 + tanh(sqrt(2 / pi) * (X + 0.044715 * X^3))) * X", {}, tanh_gelu, ["Gelu"]),
    ("gelu, turned", "Y = X * ((1 + tanh((X^3 * 0.044715 + X) * sqrt(2 / pi))) * 0.5)", {}, tanh_gelu, ["Gelu"]),
    ("another factor", "Y = 0.5 * (1 + tanh(0.8 * (X + 0.044715 * X^3))) * X", {},
     lambda x: 0.5 * (1 + np.tanh(0.8 * (x + 0.044715 * x**3))) * x, ["Pow", "Mul", "Add", "Mul", "Tanh", "Add", "Mul", "Mul"]),
    ("silu", "Y = X / (1 + exp(-X))", {}, lambda x: x / (1 + np.exp(-x)), ["Sigmoid", "Mul"]),
    ("no silu", "Y = 5 / (1 + exp(-X))", {}, lambda x: 5 / (1 + np.exp(-x)), ["Neg", "Exp", "Add", "Div"]),
    ("normalized", "Y = (X - m) / s * g + b", ROWS, normalized, ["BatchNormalization"]),
    ("normalized numbers", "s = as.scalar(X[1, 1])\nY = as.matrix((s - 3) / s * 2 + 1)", {},
     lambda x: (x[:1, :1] - 3) / x[:1, :1] * 2 + 1, ["Slice", "Sub", "Div", "Mul", "Add"]),
    ("missing", "if (sum(isNaN(X)) > 0) { X = replace(target=X, pattern=NaN, replacement=0) }\nY = X + 0", {},
     lambda x: np.where(np.isnan(x), 0.0, x), ["IsNaN", "Where", "Add"]),
    ("missing, contained", "if (contains(target=X, pattern=NaN)) { X = replace(target=X, pattern=NaN, replacement=7) }\nY = X + 0",
     {}, lambda x: np.where(np.isnan(x), 7.0, x), ["IsNaN", "Where", "Add"]),
    ("missing, filled by a row", "Y = replace(target=X, pattern=NaN, replacement=0) + isNaN(X) * m", {"m": ROWS["m"]},
     lambda x: np.where(np.isnan(x), ROWS["m"], x), ["IsNaN", "Where"]),
    *[(f"{name}, infinite", f"Y = imputeBy{name}Apply(X, 2 * X[1, ])", {}, lambda x: np.where(np.isnan(x), 2 * x[:1], x),
       ["Slice", "Mul", "IsNaN", "Where"]) for name in ("Mean", "Median", "Mode")],
    ("best product", "Y = rowIndexMax(X %*% W + b)", {"W": STEEP, "b": ROWS["b"]},
     lambda x: last_best(x.astype(np.float32) @ STEEP.astype(np.float32) + ROWS["b"].astype(np.float32), 1),
     ["Gemm", "Clip", "IsNaN", "Where", "ArgMax", "Gather"]),
    ("least product", "Y = rowIndexMin(X %*% W)", {"W": -STEEP},
     lambda x: last_best(x.astype(np.float32) @ STEEP.astype(np.float32), 1),
     ["Gemm", "Clip", "IsNaN", "Where", "ArgMin", "Gather"]),
    ("best product that is used again", "S = X %*% W\nY = S * rowIndexMax(S)", {"W": np.eye(3)},
     lambda x: x @ np.eye(3) * last_best(x @ np.eye(3), 1),
     ["MatMul", "Clip", "IsNaN", "Where", "ArgMax", "Gather", "Mul"]),
    ("nearest", "D = -2 * (X %*% t(C)) + t(rowSums(C^2))\nY = rowIndexMax(D <= rowMins(D))", {"C": CENTERS},
     lambda x: last_best(-2 * (x @ CENTERS.T) + (CENTERS**2).sum(axis=1), 3, -1),
     ["Gemm", "IsNaN", "Where", "ArgMin", "Gather"]),
    ("clipped", "Y = min(max(X, -2), 3)", {}, lambda x: np.clip(x, -2, 3), ["Clip"]),
    ("clipped, the other way round", "Y = max(-2, min(3, X))", {}, lambda x: np.clip(x, -2, 3), ["Clip"]),
    ("a Relu that is clipped", "Y = min(max(max(X, 0), -1), 2)", {}, lambda x: np.clip(x, 0, 2), ["Clip"]),
    ("a Relu that is clipped above zero", "Y = min(max(max(X, 0), 1), 2)", {}, lambda x: np.clip(x, 1, 2), ["Clip"]),
    ("a Relu that is clipped below zero", "Y = min(max(max(X, 0), -2), -1)", {}, lambda x: np.clip(np.maximum(x, 0), -2, -1), ["Clip"]),
    ("clipped at zero", "Y = min(max(X, 0), 6)", {}, lambda x: np.clip(x, 0, 6), ["Clip"]),
    ("truths compared", "m = X > 0\nY = ifelse(m == 0, -1, X)", {}, lambda x: np.where(x > 0, x, -1),
     ["Greater", "Not", "Where"]),
    ("truths that are not 0", "m = X > 0\nn = m != 0\nY = ifelse(n >= 0.5, X, -1)", {}, lambda x: np.where(x > 0, x, -1),
     ["Greater", "Where"]),
    ("opposites", "m = X > 0\nY = ifelse(!(m == 0), X, -1)", {}, lambda x: np.where(x > 0, x, -1), ["Greater", "Where"]),
    ("truths compared in vain", "m = X > 0\nY = ifelse(m < 2, X, -1)", {}, lambda x: x, ["Greater", "Cast", "Less", "Where"]),
    ("numbers compared", "m = (X > 0) * 3\nY = ifelse(m == 0, -1, X)", {}, lambda x: np.where(x > 0, x, -1),
     ["Greater", "Cast", "Mul", "Equal", "Where"]),
    ("the same number twice", "Y = max(X, -2, -2)", {}, lambda x: np.maximum(x, -2), ["Max"]),
    ("cut off at zero twice", "Y = max(matrix(X, 1, nrow(X) * 3), 0, 0)\nY = matrix(Y, nrow(X), 3)", {},
     lambda x: np.maximum(x, 0), ["Relu"]),
    ("two numbers", "Y = max(X, -2, 0)", {}, lambda x: np.maximum(x, 0), ["Max", "Relu"]),
    ("no range", "Y = min(max(X, 3), -2)", {}, lambda x: np.minimum(np.maximum(x, 3), -2), ["Max", "Min"]),
]


@pytest.mark.parametrize(("name", "body", "bound", "formula", "wanted"), FORMULAS, ids=[row[0] for row in FORMULAS])
def test_formula_is_an_operator(
    name: str, body: str, bound: Mapping[str, Array], formula: Callable[[Array], Array], wanted: Sequence[str]
) -> None:
    model = exported(body, bound)
    assert operators(model) == wanted
    for data in (np.random.default_rng(1).normal(size=(6, 3)), EXTREMES):
        with np.errstate(all="ignore"):
            expected = formula(data).astype(np.float32).astype(np.float64)
        found = run_model(model, {"X": data})["Y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)


FAR = np.array([[0.0, 1.0, -1.0], [120.0, 100.0, -3.0], [-200.0, -100.0, -90.0], [30.0, -30.0, 1e-3]])
"""Numbers whose powers are beyond float32."""


def scores(x: Array) -> Array:
    powers = np.exp(x)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def hard_swish(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


ACTIVATIONS: list[tuple[str, Callable[[Array], Array], Sequence[str]]] = [
    ("Y = exp(X) / rowSums(exp(X))", scores, ["Softmax"]),
    ("E = exp(X)\nY = E / (rowSums(E) %*% matrix(1, 1, ncol(X)))", scores, ["Softmax"]),
    ("E = cbind(exp(X), matrix(1, nrow(X), 1))\nY = E / rowSums(E)", lambda x: scores(np.pad(x, ((0, 0), (0, 1)))), ["Pad", "Softmax"]),
    ("E = cbind(exp(X), matrix(2, nrow(X), 1))\nY = E / rowSums(E)",
     lambda x: scores(np.pad(x, ((0, 0), (0, 1)), constant_values=np.log(2))), ["Pad", "Softmax"]),
    ("E = cbind(exp(X), matrix(-2, nrow(X), 1))\nY = E / rowSums(E)",
     lambda x: np.pad(np.exp(x), ((0, 0), (0, 1)), constant_values=-2) / (np.exp(x).sum(1, keepdims=True) - 2), []),
    ("Y = t(exp(X)) / colSums(t(exp(X)))", lambda x: (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)).T, []),
    ("Y = exp(X) / sum(exp(X))", lambda x: np.exp(x) / np.exp(x).sum(), []),
    ("Y = exp(X) / (1 + rowSums(exp(X)))", lambda x: np.exp(x) / (1 + np.exp(x).sum(axis=1, keepdims=True)), []),
    ("Y = log(exp(X) / rowSums(exp(X)))", lambda x: np.log(scores(x)), ["LogSoftmax"]),
    ("Y = X - log(rowSums(exp(X)))", lambda x: np.log(scores(x)), ["LogSoftmax"]),
    ("m = rowMaxs(X)\nY = X - m - log(rowSums(exp(X - m)))", lambda x: np.log(scores(x)), ["LogSoftmax"]),
    ("m = rowMaxs(X)\ns = X - m\nY = s + (-log(rowSums(exp(s))))", lambda x: np.log(scores(x)), ["LogSoftmax"]),
    ("Y = X + log(rowSums(exp(X)))", lambda x: x + np.log(np.exp(x).sum(axis=1, keepdims=True)), []),
    ("Y = X + (-log(rowSums(exp(X + 1))))", lambda x: np.log(scores(x)) - 1, []),
    ("Y = max(min(X, 6), 0)", lambda x: np.clip(x, 0, 6), ["Clip"]),
    ("Y = max(min(X, -6), 0)", lambda x: np.clip(np.minimum(x, -6), 0, None), ["Min", "Relu"]),
    ("Y = min(max(0.2 * X + 0.5, 0), 1)", lambda x: np.clip(0.2 * x + 0.5, 0, 1), ["HardSigmoid"]),
    ("Y = max(min(0.5 - X * 2 * 0.25, 1), 0)", lambda x: np.clip(0.5 - 0.5 * x, 0, 1), []),
    ("Y = max(min(0.5 + X * -0.25, 1), 0)", lambda x: np.clip(0.5 - 0.25 * x, 0, 1), ["HardSigmoid"]),
    ("Y = min(max(0.2 * X + rowSums(X), 0), 1)", lambda x: np.clip(0.2 * x + x.sum(axis=1, keepdims=True), 0, 1), []),
    ("Y = min(max(0.2 * X + 0.5, 0), 2)", lambda x: np.clip(0.2 * x + 0.5, 0, 2), ["Mul", "Add", "Clip"]),
    ("Y = X * min(max(X + 3, 0), 6) / 6", hard_swish, ["HardSwish"]),
    ("Y = X * (1 / 6) * max(min(X + 3, 6), 0)", hard_swish, ["HardSwish"]),
    ("Y = min(max(3 + X, 0), 6) / 6 * X", hard_swish, []),
    ("Y = X * min(max(X * (1 / 6) + 0.5, 0), 1)", hard_swish, ["HardSwish"]),
    ("Y = 2 * X * min(max(X + 3, 0), 6) / 6", lambda x: 2 * hard_swish(x), []),
    ("Y = X * min(max(X + 2, 0), 6) / 6", lambda x: x * np.clip(x + 2, 0, 6) / 6, []),
    ("Y = X * min(max(X + 3, 0), 5) / 6", lambda x: x * np.clip(x + 3, 0, 5) / 6, []),
    ("Y = (X + 1) * min(max(X + 3, 0), 6) / 6", lambda x: (x + 1) * np.clip(x + 3, 0, 6) / 6, []),
    ("c = min(max(X + 3, 0), 6)\nY = X * c / 6 + c", lambda x: hard_swish(x) + np.clip(x + 3, 0, 6), []),
    ("Y = X - log(rowSums(exp(2 * X)))", lambda x: x - np.log(np.exp(2 * x).sum(axis=1, keepdims=True)), []),
    ("Y = log(1 + exp(X))", lambda x: np.log(1 + np.exp(x)), ["Softplus"]),
    ("Y = log(exp(-X) + 1)", lambda x: np.log(1 + np.exp(-x)), ["Neg", "Softplus"]),
    ("Y = X * tanh(log(1 + exp(X)))", lambda x: x * np.tanh(np.log(1 + np.exp(x))), ["Softplus", "Tanh", "Mul"]),
    ("Y = (exp(X) - exp(-X)) / (exp(X) + exp(-X))", np.tanh, ["Tanh"]),
    *((f"Y = log({text})", lambda x: np.logaddexp(x, -x) - np.log(2), ["Abs", "Mul", "Softplus", "Add", "Sub"])
      for text in ("cosh(X)", "(exp(X) + exp(-X)) / 2", "0.5 * (exp(-X) + exp(X))")),
    ("Y = log((exp(X) + exp(-X)) / 3)", lambda x: np.logaddexp(x, -x) - np.log(3), []),
    ("s = sigmoid(2 * X)\nY = 2 * s - 1", np.tanh, ["Tanh"]),
    ("Y = 2 * sigmoid(X) - 1", lambda x: np.tanh(x / 2), ["Sigmoid", "Mul", "Sub"]),
    ("Y = max(0, X) + min(0, 1.5 * (exp(X) - 1))", lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)), ["Elu"]),
    ("Y = max(0, X) + min(0, -1.5 * (exp(X) - 1))", lambda x: np.maximum(x, 0) + np.minimum(0, -1.5 * np.expm1(x)), []),
    ("Y = max(X, 0) + 0.5 * (exp(min(X, 0)) - 1)", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), ["Elu"]),
    ("Y = ifelse(X > 0, X, exp(X) - 1)", lambda x: np.where(x > 0, x, np.expm1(x)), ["Elu"]),
    ("Y = ifelse(X < 0, exp(X) - 1, X)", lambda x: np.where(x > 0, x, np.expm1(x)), ["Elu"]),
    ("Y = (X > 0) * X + (X <= 0) * 2 * (exp(X) - 1)", lambda x: np.where(x > 0, x, 2 * np.expm1(x)), ["Elu"]),
    ("Y = (X > 0) * (1.05 * X) + (X <= 0) * (1.05 * (1.67 * (exp(X) - 1)))",
     lambda x: 1.05 * np.where(x > 0, x, 1.67 * np.expm1(x)), ["Selu"]),
    ("Y = (X > 0) * X + (X <= 1) * (exp(X) - 1)", lambda x: (x > 0) * x + (x <= 1) * np.expm1(x), []),
    ("Y = (X < 0) * X + (X >= 0) * (exp(X) - 1)", lambda x: np.where(x < 0, x, np.expm1(x)), []),
    ("Y = max(X, 0.01 * X)", lambda x: np.where(x > 0, x, 0.01 * x), ["LeakyRelu"]),
    ("Y = max(X, 1.5 * X)", lambda x: np.maximum(x, 1.5 * x), ["Mul", "Max"]),
    ("Y = max(X, 0) + 0.2 * min(X, 0)", lambda x: np.where(x > 0, x, 0.2 * x), ["LeakyRelu"]),
    ("Y = max(X, 0) - 0.2 * min(X, 0)", lambda x: np.where(x > 0, x, -0.2 * x), ["Relu", "Min", "Mul", "Sub"]),
    ("Y = ifelse(X >= 0, X, -0.1 * X)", lambda x: np.where(x > 0, x, -0.1 * x), ["LeakyRelu"]),
    ("Y = (X > 0) * X + (X <= 0) * X * 0.3", lambda x: np.where(x > 0, x, 0.3 * x), ["LeakyRelu"]),
    ("Y = (X > 0) * X + (X > 0) * X * 0.3", lambda x: np.where(x > 0, 1.3 * x, 0), []),
]


@pytest.mark.parametrize(("body", "formula", "wanted"), ACTIVATIONS, ids=[row[0].replace("\n", "; ") for row in ACTIVATIONS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activation_that_is_spelled_out(
    body: str, formula: Callable[[Array], Array], wanted: Sequence[str], dtype: str
) -> None:
    model = exported(body, dtype=dtype)
    near = np.random.default_rng(2).normal(size=(5, 3))
    if dtype == "float32" and wanted:
        assert operators(model) == wanted
    for data in (near, near[:1], np.zeros((1, 3)), *([FAR] if wanted else [])):
        found = run_model(model, {"X": data})["Y"]
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(found, formula(data), rtol=tolerance, atol=tolerance, err_msg=body)


@pytest.mark.parametrize("dims", ["N,3", "5,3"])
def test_a_class_whose_scores_are_known_is_part_of_the_softmax(dims: str) -> None:
    model = exported("E = cbind(exp(X), matrix(3, nrow(X), 1))\nY = E / rowSums(E)", dims=dims)
    assert operators(model)[-1] == "Softmax" and len(operators(model)) == 2
    data = np.array([[100.0, 99.0, 3.0], [0.0, 1.0, 2.0], [-100.0, -99.0, -98.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    expected = scores(np.pad(data, ((0, 0), (0, 1)), constant_values=np.log(3)))
    np.testing.assert_allclose(run_model(model, {"X": data})["Y"], expected, rtol=1e-5, atol=1e-7)


WHOLE = f"{library_text('nearest_integer')}\nY = "
SMALL: list[tuple[str, str, Callable[[Array], Array], Sequence[str]]] = [
    ("moved and back", f"{WHOLE}((nearest_integer(min(max(X, -8), 7)) + 8) + (-8)) * 2",
     lambda x: np.round(np.clip(x, -8, 7)) * 2, ["Clip", "Round", "Mul"]),
    ("moved and not back", f"{WHOLE}((nearest_integer(min(max(X, -8), 7)) + 8) + (-7)) * 2",
     lambda x: np.round(np.clip(x, -8, 7)) * 2 + 2, ["Clip", "Round", "Add", "Add", "Mul"]),
    ("moved by a fraction", f"{WHOLE}((nearest_integer(min(max(X, -8), 7)) + 0.1) + (-0.1)) * 2",
     lambda x: np.round(np.clip(x, -8, 7)) * 2, ["Clip", "Round", "Add", "Add", "Mul"]),
    ("sum of sums", "Y = as.matrix(as.scalar(matrix(1, 1, nrow(X)) %*% rowSums(X)) + 1)", lambda x: np.sum(x).reshape(1, 1) + 1,
     ["ReduceSum", "Add", "Reshape"]),
    ("rows of length 1", "n = sqrt(rowSums(X ^ 2))\nY = X / (n + (n == 0))",
     lambda x: x / np.maximum(np.sqrt((x**2).sum(axis=1, keepdims=True)), 1e-9), ["LpNormalization"]),
    ("another length", "n = sqrt(rowSums(X ^ 2))\nY = X / (n + (n == 1))", lambda x: x / np.sqrt((x**2).sum(axis=1, keepdims=True)),
     ["Pow", "ReduceSum", "Sqrt", "Equal", "Cast", "Add", "Div"]),
]


@pytest.mark.parametrize(("name", "body", "formula", "wanted"), SMALL, ids=[row[0] for row in SMALL])
def test_formula_of_small_numbers(name: str, body: str, formula: Callable[[Array], Array], wanted: Sequence[str]) -> None:
    model = exported(body, dims="4,3")
    assert operators(model) == wanted
    data = np.array([[3.5, 4.0, 2.5], [0.0, 0.0, 0.0], [-0.5, 100.0, -9.0], [1.0, 2.0, 3.0]])
    with np.errstate(all="ignore"):
        expected = formula(data)
    np.testing.assert_allclose(run_model(model, {"X": data})["Y"], expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_a_mean_far_away_is_taken_off_first() -> None:
    rows = {**ROWS, "m": np.array([[1e5, 1.0, 1.0]])}
    model = exported("Y = (X - m) / s * g + b", rows)
    assert operators(model) == ["Sub", "Div", "Mul", "Add"]
    data = np.array([[100000.5, 1.5, 2.0]])
    expected = (data - rows["m"]) / rows["s"] * rows["g"] + rows["b"]
    assert_close(run_model(model, {"X": data})["Y"], expected, 1e-5, "far mean")


def test_gelu_is_an_operator_from_opset_20_on() -> None:
    assert "Gelu" not in operators(exported(FORMULAS[0][1], opset=19))


@pytest.mark.parametrize("axis", ["scores", "t(scores)"])
def test_softmax_of_each_row_of_a_batch(axis: str) -> None:
    body = (f"Y = matrix(0, nrow(X), 6)\nfor (n in 1:nrow(X)) {{ scores = matrix(X[n,], 2, 3)\nS = {axis}\n"
            f"E = exp(S - rowMaxs(S))\nP = E / rowSums(E)\nP = {axis.replace('scores', 'P')}\nY[n,] = matrix(P, 1, 6) }}")
    model = exported(body, dims="N,6")
    assert operators(model) == ["Reshape", "Softmax", "Reshape"]
    data = np.random.default_rng(2).normal(size=(4, 6)) * 60
    scores = data.reshape(4, 2, 3)
    along = 2 if axis == "scores" else 1
    powers = np.exp(scores - scores.max(along, keepdims=True))
    assert_close(run_model(model, {"X": data})["Y"], (powers / powers.sum(along, keepdims=True)).reshape(4, 6), 1e-5, axis)


def test_a_multiple_of_a_product_is_a_gemm() -> None:
    weights = {"W": np.eye(3), "b": np.ones((1, 3))}
    assert operators(exported("Y = -2 * (X %*% W) + b", weights)) == ["Gemm"]
    assert operators(exported("Y = 0.1 * (X %*% W) + b", weights)) == ["MatMul", "Mul", "Add"]  # 0.1 is no float32


LEAF = [0.0, 0.0]
# node i has its feature and bound (or 0 and its label) at 2i: feature 1 <= 2 ? (feature 3 <= 0.5 ? 1 : 2) : 3
TREE = np.array([[1.0, 2.0, 3.0, 0.5, 0.0, 3.0, 0.0, 1.0, 0.0, 2.0]])
SAMPLES = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 1.0], [2.5, 0.0, 0.0], [np.nan, 0.0, 0.0], [-np.inf, 0.0, np.inf]])
LABELS = np.array([[1.0], [2.0], [3.0], [3.0], [2.0]])


def test_a_decision_tree_is_a_tree_ensemble() -> None:
    model = exported("Y = decisionTreePredict(X=X, ctypes=c, M=M)", {"M": TREE, "c": np.array([[1.0, 1, 1, 2]])})
    assert operators(model) == ["IsInf", "Mul", "ReduceSum", "Add", "Where", "TreeEnsembleRegressor"]  # NaN of a row in all its columns
    assert_close(run_model(model, {"X": SAMPLES})["Y"], LABELS, 1e-6, "tree")


@pytest.mark.parametrize(("kind", "wanted", "expected"), [
    (2.0, ["TreeEnsembleRegressor", "ArgMax", "Add", "Cast"], [3, 2, 3, 3, 3]),
    (1.0, ["TreeEnsembleRegressor"], [2.0, 2.0, 3.0, 3.0, 2.5]),
])
def test_a_forest_is_a_tree_ensemble(kind: float, wanted: Sequence[str], expected: Sequence[float]) -> None:
    """The second tree sees the first and the third feature alone: the second of these <= 0 ? 3 : (first <= 1 ? 3 : 2)."""
    second = [[2.0, 0.0, 0.0, 3.0, 1.0, 1.0, *LEAF, *LEAF, 0.0, 3.0, 0.0, 2.0]]
    first = [[*TREE[0], *[0.0] * 4]]
    forest = np.hstack([[[1.0, 1, 1], [1, 0, 1]], np.vstack([first, second])])
    model = exported("Y = randomForestPredict(X=X, ctypes=c, M=M)", {"M": forest, "c": np.array([[1.0, 1, 1, kind]])})
    assert operators(model) == wanted
    assert_close(run_model(model, {"X": SAMPLES})["Y"], np.array(expected, np.float64)[:, None], 1e-6, "forest")


DECIMALS = np.arange(-20, 21) / 10


@pytest.mark.parametrize(("bound", "held"), [
    *((bound, DECIMALS) for bound in (0.1, 0.7, -0.1, -0.7, 0.5, 1e300, -1e300, 1e-300, 0.1 + 0.2, 0.7 - 2**-52)),
    (1 / 3, [1 / 3, 0.33, 0.34]), (np.float64(np.float32(0.3)), np.float64(np.float32([0.2, 0.3, 0.4]))),
])
@pytest.mark.parametrize("kind", ["decision tree", "boosted tree"])
def test_bounds_divide_decimals_and_themselves(kind: str, bound: float, held: Sequence[float]) -> None:
    """What is rounded on its way into the model takes the way that it takes in the script: 0.3 is below 0.1 + 0.2."""
    with np.errstate(over="ignore"):
        beside = np.nextafter(np.float32(bound), np.float32([np.inf, -np.inf])).astype(np.float64)
    samples = np.array([0, np.inf, -np.inf, *held, *beside])[:, None]
    if kind == "decision tree":
        known = {"M": np.array([[1.0, bound, 0, 1, 0, 2]]), "c": np.ones((1, 2))}
        model = exported("Y = decisionTreePredict(X=X, ctypes=c, M=M)", known, "N,1")
        expected = np.where(samples <= bound, 1.0, 2.0)
    else:
        nodes = np.array([[0.0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, bound, 1, 2]])
        model = exported("Y = xgboostPredictRegression(X=X, M=M, learning_rate=1)", {"M": nodes}, "N,1")
        expected = np.where(samples < bound, 1.0, 2.0)
    assert operators(model) == ["TreeEnsembleRegressor"]
    assert_close(run_model(model, {"X": samples})["Y"], expected, 0, kind)


CENTERED = "m = rowMeans(X)\nc = X - m\nv = rowMeans(c^2)\n"
LAYER_NORM = f"{CENTERED}Y = c / sqrt(v + 0.001) * g + b"


@pytest.mark.parametrize("body", [
    LAYER_NORM,
    "c = X - rowSums(X) / ncol(X)\nY = c / sqrt(rowSums(c * c) / ncol(X) + 0.001) * g + b",
    "c = X - (X %*% matrix(1, 3, 1)) / 3\nY = b + g * (c / sqrt(0.001 + (c^2 %*% matrix(1, 3, 1)) / 3))",
])
def test_a_layer_normalization_is_an_operator(body: str) -> None:
    model = exported(body, {"g": ROWS["g"], "b": ROWS["b"]})
    assert operators(model) == ["LayerNormalization"]
    for data in (np.random.default_rng(3).normal(size=(5, 3)), EXTREMES[2:], np.ones((2, 3)), 1000 + EXTREMES[3:]):
        centered = data - data.mean(1, keepdims=True)
        expected = centered / np.sqrt((centered**2).mean(1, keepdims=True) + 0.001) * ROWS["g"] + ROWS["b"]
        np.testing.assert_allclose(run_model(model, {"X": data})["Y"], expected, rtol=1e-4, atol=1e-4)


def test_a_layer_normalization_of_one_row_is_an_operator() -> None:
    body = "c = X - mean(X)\nY = c / sqrt(mean(c^2) + 0.001) * g + b"
    model = exported(body, {"g": ROWS["g"], "b": ROWS["b"]}, "1,3")
    assert operators(model) == ["LayerNormalization"]
    data = np.array([[1.0, 5.0, -2.0]])
    expected = (data - data.mean()) / np.sqrt(data.var() + 0.001) * ROWS["g"] + ROWS["b"]
    np.testing.assert_allclose(run_model(model, {"X": data})["Y"], expected, rtol=1e-5)
    assert "LayerNormalization" not in operators(exported(body, {"g": ROWS["g"], "b": ROWS["b"]}, "2,3"))


@pytest.mark.parametrize("body", [
    f"{CENTERED}Y = c / sqrt(v) * g + b",  # infinite for equal numbers, which the operator need not be
    f"{CENTERED}Y = X / sqrt(v + 0.001) * g + b",
    "c = X - rowMeans(X^2)\nY = c / sqrt(rowMeans(c^2) + 0.001) * g + b",
    "c = X - rowMeans(X)\nY = c / sqrt(rowSums(c^2) / 2 + 0.001) * g + b",
])
def test_what_is_nearly_a_layer_normalization_is_none(body: str) -> None:
    assert "LayerNormalization" not in operators(exported(body, {"g": ROWS["g"], "b": ROWS["b"]}))


def test_a_layer_normalization_needs_opset_17() -> None:
    assert "LayerNormalization" not in operators(exported(LAYER_NORM, {"g": ROWS["g"], "b": ROWS["b"]}, opset=16))


@pytest.mark.parametrize(("name", "operator"), [
    ("gelu", "Gelu"), ("erf", "Erf"), ("softplus", "Softplus"), ("round_half_even", "Round"), ("row_sums", "ReduceSum"),
    ("nearest_integer", "Round"), ("single_precision", "Identity"), ("area_cosh", "Acosh"), ("area_sinh", "Asinh"),
    ("area_tanh", "Atanh"), ("row_log_sum_exp", "ReduceLogSumExp"), ("col_log_sum_exp", "ReduceLogSumExp"),
    ("cumulative_sum", "CumSum"), ("cumulative_row_sum", "CumSum"),
])
def test_a_function_of_a_converted_model_is_the_operator_that_it_stands_for(name: str, operator: str) -> None:
    """Where a user has changed it, it is what it says."""
    text, others = library_text(name), "\n".join(map(library_text, library_imports(name)))
    result = "S" if name == "row_sums" else "Y"
    body = f'X = read("X")\nY = {name}(X)\nwrite(Y, "Y")\n'
    own, changed = (export_script(f"# the comment of the script\n\n{others}\n{function}\n{body}", inputs={"X": "double[N,3]"})
                    for function in (text, text[: text.rindex("}")] + f"  {result} = -{result}\n}}"))
    assert operators(own) == [operator]
    assert operators(changed) != [operator]
    data = np.random.default_rng(4).normal(size=(4, 3)) * 3
    assert_close(run_model(changed, {"X": data})["Y"], -run_model(own, {"X": data})["Y"].astype(np.float64), 2e-6, name)

