"""Which weights "weights" means, to be derived by and trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.errors import InvalidModel

Array = np.ndarray[Any, np.dtype[Any]]
W = np.ones((4, 4), np.float32)


def model(nodes: list[tuple[str, str, str]], weights: dict[str, Array]) -> onnx.ModelProto:
    """nodes: operators with their inputs, and the output of each."""
    made = [helper.make_node(op_type, inputs.split(","), [output]) for op_type, inputs, output in nodes]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    graph = helper.make_graph(made, "net", infos[:1], infos[1:], [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


ROW = np.array([1, 2, 3, 4], np.float32)
HIDING = np.triu(np.full((4, 4), -np.inf, np.float32), 1)
ROWS = {
    "a mean and a deviation": ([("Sub", "x,m", "a"), ("Div", "a,s", "b"), ("MatMul", "b,w", "y")], {"m": ROW, "s": ROW[None], "w": W}, ["w"]),
    "of what is a number of another type": ([("Identity", "x", "i"), ("Sub", "i,m", "a"), ("MatMul", "a,w", "y")], {"m": ROW, "w": W}, ["w"]),
    "points that inputs are compared with": ([("Unsqueeze", "x,axis", "u"), ("Sub", "u,p", "d"), ("ReduceSumSquare", "d,axis", "r"),
                                              ("Squeeze", "r,axis", "q"), ("MatMul", "q,w", "y")],
                                             {"axis": np.array([1]), "p": np.ones((4, 4), np.float32) * ROW, "w": W}, ["p", "w"]),
    "a bias that is subtracted later": ([("MatMul", "x,w", "a"), ("Sub", "a,m", "y")], {"w": W, "m": ROW}, ["m", "w"]),
    "a bound": ([("MatMul", "x,w", "a"), ("Clip", "a,low", "y")], {"w": W, "low": ROW[:1]}, ["w"]),
    "a mask of infinities": ([("MatMul", "x,w", "a"), ("MatMul", "a,v", "b"), ("Add", "b,h", "y")], {"w": W, "v": W, "h": HIDING[:1]}, ["v", "w"]),
    "a mask of large numbers": ([("MatMul", "x,w", "a"), ("Add", "a,h", "y")], {"w": W, "h": np.where(np.isinf(HIDING), np.float32(-1e4), 0)[:1]}, ["w"]),
    "a large bias": ([("MatMul", "x,w", "a"), ("Add", "a,b", "y")], {"w": W, "b": ROW - 20_000}, ["b", "w"]),
}


@pytest.mark.parametrize(("nodes", "weights", "found"), ROWS.values(), ids=ROWS)
def test_weights(nodes: list[tuple[str, str, str]], weights: dict[str, Array], found: list[str]) -> None:
    script = import_model(model(nodes, weights), gradients=["weights"])
    assert script.derivatives is not None and sorted(script.derivatives.weights.values()) == found


def test_weights_that_are_fixed_or_named() -> None:
    network = model([("Sub", "x,m", "a"), ("MatMul", "a,w", "b"), ("Add", "b,c", "y")], {"m": ROW, "w": W, "c": ROW})
    for words, fixed, found in ((["weights"], ["c"], ["w"]), ("weights", "c", ["w"]), (["weights", "m"], [], ["c", "m", "w"]), (["m", "c"], [], ["c", "m"])):
        script = import_model(network, gradients=words, fixed=fixed)
        assert script.derivatives is not None and sorted(script.derivatives.weights.values()) == found
    with pytest.raises(InvalidModel, match='"x" is no weight'):
        import_model(network, gradients=["weights"], fixed=["x"])
    with pytest.raises(InvalidModel, match='others are derived by where --gradient names them: "c", "m", "w"'):
        import_model(network, gradients=["weights"], fixed=["w", "c"])
