"""Inputs for onnxruntime's own operators: drawn for the plain ones, else the rows of the tests with other numbers."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import Array, Draw, Maker, Node, registering
from tests.fuzz.operators_core import longs

MAKERS: dict[str, Maker] = {}
makes = registering(MAKERS)


@functools.cache
def rows() -> dict[str, list[Any]]:
    """The rows of the operators' tests that onnxruntime judges, by operator."""
    found: dict[str, list[Any]] = {}
    for path in sorted((Path(__file__).parent.parent / "operators").glob("test_contrib_*.py")):
        module = importlib.import_module(f"tests.operators.{path.stem}")
        for name in dir(module):
            cases = getattr(module, name)
            if isinstance(cases, list) and name.isupper():
                for case in cases:
                    if getattr(case, "domain", "") == "com.microsoft" and case.expected is None:
                        found.setdefault(case.op_type, []).append(case)
    return found


def of_a_row(draw: Draw) -> Node:
    """A row of the tests, with other numbers where it has floats that are no scales of quantisation."""
    row = rows()[draw.op_type][draw.int(0, len(rows()[draw.op_type]) - 1)]
    inputs = dict(row.inputs)
    for name, array in inputs.items():
        if array is not None and array.dtype == np.float32 and array.ndim and "Q" not in draw.op_type:
            inputs[name] = draw.parameters(*array.shape)
        elif array is not None and array.dtype in (np.uint8, np.int8) and array.ndim > 1:
            inputs[name] = np.asarray(draw.rng.permutation(array.reshape(-1)).reshape(array.shape))
    outputs = row.outputs if isinstance(row.outputs, int) else len(row.outputs)
    return Node(inputs, row.attributes, outputs, constants=frozenset(row.constants), kept=frozenset(inputs))


def _scales(draw: Draw, *prefixes: str, dtype: str) -> dict[str, Array]:
    found = {}
    for prefix in prefixes:
        found[f"{prefix}s"] = draw.positive(low=0.05, high=1.0)
        found[f"{prefix}z"] = np.asarray(draw.rng.integers(0, 60), numpy_dtype(dtype))
    return found


@makes("Gelu", "FastGelu", "QuickGelu", "ScaledSiLU", "BiasGelu")
def activation(draw: Draw) -> Node:
    dims = draw.shape(1, 4, 1)
    attributes = {"alpha": draw.real(-2, 2)} if draw.op_type in ("QuickGelu", "ScaledSiLU") and draw.chance(0.7) else {}
    inputs: dict[str, Any] = {"x": draw.array("float", dims)}
    if draw.op_type == "BiasGelu" or (draw.op_type == "FastGelu" and draw.chance(0.5)):
        inputs["b"] = draw.array("float", dims[-1:])
    return Node(inputs, attributes)


@makes("FusedMatMul", "TransposeMatMul")
def fused_matmul(draw: Draw) -> Node:
    m, k, n = draw.size(1), draw.size(1), draw.size(1)
    batch = draw.shape(0, 2, 1)
    attributes: dict[str, Any] = {"transA": draw.flag(), "transB": draw.flag(), "alpha": draw.one(1.0, 0.5, draw.real(-2, 2))}
    left = (*batch, *((k, m) if attributes["transA"] else (m, k)))
    right = (*draw.broadcast(batch), *((n, k) if attributes["transB"] else (k, n)))
    return Node({"A": draw.array("float", left), "B": draw.array("float", right)}, attributes)


@makes("FusedGemm")
def fused_gemm(draw: Draw) -> Node:
    m, k, n = draw.size(1), draw.size(1), draw.size(1)
    attributes: dict[str, Any] = {"transA": draw.flag(), "transB": draw.flag(), "alpha": draw.real(-2, 2),
                                  "beta": draw.real(-2, 2), "activation": draw.one("Relu", "Sigmoid", "Tanh")}
    left, right = (k, m) if attributes["transA"] else (m, k), (n, k) if attributes["transB"] else (k, n)
    c = draw.array("float", draw.broadcast((m, n))) if draw.chance(0.7) else None
    return Node({"A": draw.array("float", left), "B": draw.array("float", right), "C": c}, attributes)


@makes("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_layer_normalization(draw: Draw) -> Node:
    dims = (*draw.shape(1, 2, 1), draw.int(1, 6)) if draw.chance(0.3) else (draw.int(1, 3), draw.int(1, 4), draw.int(1, 6))
    inputs: dict[str, Any] = {"x": draw.array("float", dims), "skip": draw.array("float", dims),
                              "gamma": draw.array("float", dims[-1:])}
    if draw.op_type == "SkipLayerNormalization":
        inputs["beta"] = draw.array("float", dims[-1:]) if draw.chance(0.6) else None
    inputs["bias"] = draw.array("float", dims[-1:]) if draw.chance(0.4) else None
    return Node(inputs, {"epsilon": draw.one(1e-12, 1e-5)}, kept=frozenset({"gamma", "beta", "bias"}))


@makes("QLinearAdd", "QLinearMul")
def qlinear_binary(draw: Draw) -> Node:
    dims, dtype = draw.shape(0, 4, 1), draw.one("uint8", "int8")
    scales = _scales(draw, "A", "B", "C", dtype=dtype)
    return Node({"A": draw.array(dtype, dims), "As": scales["As"], "Az": scales["Az"],
                 "B": draw.array(dtype, draw.broadcast(dims)), "Bs": scales["Bs"], "Bz": scales["Bz"],
                 "Cs": scales["Cs"], "Cz": scales["Cz"]}, constants=frozenset({"As", "Az", "Bs", "Bz", "Cs", "Cz"}))


@makes("QLinearSigmoid", "QLinearLeakyRelu")
def qlinear_unary(draw: Draw) -> Node:
    dtype = draw.one("uint8", "int8")
    scales = _scales(draw, "X", "Y", dtype=dtype)
    attributes = {"alpha": draw.real(0.01, 0.5)} if draw.op_type == "QLinearLeakyRelu" else {}
    return Node({"X": draw.array(dtype, draw.shape(1, 4, 1)), **scales}, attributes, constants=frozenset(scales))


@makes("Trilu")
def trilu(draw: Draw) -> Node:
    k = longs(draw.int(-4, 4)) if draw.chance(0.6) else None
    return Node({"x": draw.array(draw.one("float", "int64", "double"), draw.shape(2, 4, 1)), "k": k},
                {"upper": draw.flag()}, is_exact=True)


@makes("CDist")
def cdist(draw: Draw) -> Node:
    width = draw.int(1, 6)
    a, b = draw.parameters(draw.size(1), width), draw.parameters(draw.size(1), width)
    return Node({"A": a, "B": b}, {"metric": draw.one("euclidean", "sqeuclidean")})


@makes("Unique")
def unique(draw: Draw) -> Node:
    return Node({"x": np.asarray(draw.rng.integers(-3, 4, draw.int(1, 9)), np.float32)}, {}, 3)


@makes("UnfoldTensor")
def unfold(draw: Draw) -> Node:
    dims = draw.shape(1, 3, 1)
    axis = draw.axis(len(dims))
    return Node({"x": draw.array(draw.one("float", "int64"), dims)},
                {"dim": axis, "size": draw.int(1, dims[axis]), "step": draw.int(1, 3)}, is_exact=True)


_TEXTS = ("hello World_1 é x", "", "ab ba,ab;;c", " x", "it's 12.5% of y\\z\n$", "aXbX", "a", "  ")


@makes("Tokenizer")
def tokenizer(draw: Draw) -> Node:
    """By what separates tokens, one after the other, by what they are made of, or character by character."""
    dims = (draw.int(1, 4),) if draw.chance(0.5) else (draw.int(1, 3), draw.int(1, 3))
    texts = np.array([draw.one(*_TEXTS) for _ in range(int(np.prod(dims)))], object).reshape(dims)
    attributes: dict[str, Any] = {"mark": draw.flag(), "mincharnum": draw.one(1, 1, 2), "pad_value": draw.one("#", "", "pad")}
    way = draw.int(0, 2)
    if way == 0:
        attributes["tokenexp"] = draw.one("[a-z]+", "[a-zA-Z0-9_]+", ".", "b*", "a|ab", "[^ ]+", "l+?")
    elif way == 1:
        attributes["separators"] = [draw.one(" ", ",", ";", "b+", "[ ,;]+", "X") for _ in range(draw.int(1, 3))]
    else:
        attributes |= {"separators": [""], "mincharnum": 1}
    return Node({"x": texts}, attributes)
