"""Pow of zeros, of which the engine expects zeros, and of negative numbers, whatever the exponent is and whatever follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array

ROWS = 3
ZEROS = np.zeros((ROWS, 40), np.float32)
FEW = ZEROS.copy()
FEW[0, 1] = 2  # stored sparse
MOST = np.full_like(ZEROS, 3)
MOST[0, 0] = 0
BELOW = {"": lambda y: y, "Transpose": np.transpose, "ReduceSum": lambda y: y.sum(keepdims=True), "Neg": np.negative}
EXPONENTS = [-1, -2, -0.5, 0, 0.5, 2, np.resize([0, 1, -1, 2], 40), np.resize([0, -1, 0.5], (ROWS, 1))]


@pytest.mark.parametrize("known", [True, False], ids=["known", "input"])
@pytest.mark.parametrize("below", BELOW)
@pytest.mark.parametrize("exponent", EXPONENTS, ids=["-1", "-2", "-0.5", "0", "0.5", "2", "row", "column"])
def test_powers_of_zeros(exponent: Any, below: str, known: bool) -> None:
    power = np.asarray(exponent, np.float32)
    nodes = [helper.make_node("Pow", ["x", "e"], ["p" if below else "y"])]
    nodes += [helper.make_node(below, ["p"], ["y"])] if below else []
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 40])]
    infos += [] if known else [helper.make_tensor_value_info("e", TensorProto.FLOAT, power.shape)]
    graph = helper.make_graph(nodes, "powers", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(power, "e")] if known else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ScoringFunction(import_model(model)) as function:
        for base in (ZEROS, FEW, MOST):
            check(function, base, power, {} if known else {"e": power}, below)


def check(function: ScoringFunction, base: Array, power: Array, given: dict[str, Array], below: str) -> None:
    with np.errstate(divide="ignore"):
        expected = BELOW[below](np.power(base, power))
    np.testing.assert_allclose(function({"x": base, **given})["y"], expected, rtol=1e-6)


def test_a_base_of_zero_before_an_exponent_of_zeros() -> None:
    for base in (0.0, 2.0):
        graph = helper.make_graph([helper.make_node("Pow", ["b", "e"], ["y"])], "powers",
                                  [helper.make_tensor_value_info("e", TensorProto.FLOAT, ["n", 40])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(np.float32(base), "b")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with ScoringFunction(import_model(model)) as function:
            for exponent in (ZEROS, FEW, MOST):
                np.testing.assert_array_equal(function({"e": exponent})["y"], np.power(np.float32(base), exponent))


@pytest.mark.parametrize("exponents", ["DequantizeLinear(q, s, z)", "Mul(s, t)"])
def test_exponents_that_are_whole_in_fp32(exponents: str) -> None:
    """30 * 0.1 is 3 in FP32 and 3.00000004 in FP64, of which negative numbers have no power."""
    text = f"""g (float[n,3] x, float[1,3] t) => (float[n,3] y) {{ e = {exponents} y = Pow(x, e) }}"""
    graph = parser.parse_graph(text)
    known = {"q": np.uint8([31, 51, 201]), "s": np.float32(0.1), "z": np.uint8(1)}
    graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in known.items())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    base = np.float32([[-2, -1, 1.5], [2, 0, -1]])
    with ScoringFunction(import_model(model)) as function:
        found = function({"x": base, "t": np.float32([[30, 50, 200]])})["y"]
    np.testing.assert_allclose(found, np.power(base, np.float32([3, 5, 20])), rtol=1e-6)
