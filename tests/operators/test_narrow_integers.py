"""Narrow integers wrap around inside a script: as doubles they show, whereas the types of results would hide others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.engine.session import shared_session
from onnx_systemds.runtime.scoring import ScoringFunction

Array = np.ndarray[Any, np.dtype[Any]]

UNSIGNED = [helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Sign", ["x"], ["y"]),
            *(helper.make_node(op_type, ["x", "b"], ["y"]) for op_type in ("Add", "Sub", "Mul", "Max")),
            *(helper.make_node(op_type, ["x", "axes"], ["y"]) for op_type in ("ReduceSum", "ReduceProd", "ReduceL1", "CumSum")),
            helper.make_node("ReduceSumSquare", ["x"], ["y"]), helper.make_node("Gemm", ["x", "x"], ["y"], transB=1),
            helper.make_node("MatMul", ["x", "x_transposed"], ["y"]),
            helper.make_node("Einsum", ["x", "x"], ["y"], equation="ab,cb->ac"),
            helper.make_node("ScatterElements", ["x", "places", "b"], ["y"], reduction="mul")]
SIGNED = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["y"])]
CONSTANTS = {"axes": np.array(1), "places": np.array([[1, 0], [0, 1], [0, 0], [3, 0]])}


def ends(dtype: str) -> Array:
    """The numbers at both ends of a type, and some within."""
    limits = np.iinfo(dtype)
    numbers = [limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1, limits.max // 2 + 1, 3]
    return np.array(numbers, dtype).reshape(4, 2)


@pytest.mark.parametrize(("node", "dtype"), [
    *[(node, dtype) for node in UNSIGNED for dtype in ("int8", "int32", "uint16")],
    *[(node, dtype) for node in SIGNED for dtype in ("int8", "int32")],
], ids=lambda given: given if isinstance(given, str) else given.op_type)
def test_what_wraps_around(node: NodeProto, dtype: str) -> None:
    x = ends(dtype)
    given = {name: array for name, array in (("x", x), ("b", x[::-1])) if name in node.input}
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), ["N", 2]) for name in given]
    constants = [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in node.input]
    nodes = [node, helper.make_node("Cast", ["y"], ["z"], to=11)]
    if "x_transposed" in node.input:
        nodes.insert(0, helper.make_node("Transpose", ["x"], ["x_transposed"]))
    graph = helper.make_graph(nodes, "narrow", inputs, [helper.make_tensor_value_info("z", 11, [None] * 2)], constants)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    with np.errstate(over="ignore"):
        (expected,) = ReferenceEvaluator(model).run(None, given)
    with ScoringFunction(import_model(model), shared_session()) as function:
        np.testing.assert_array_equal(function(given)["z"], expected)
