"""Functions of one matrix, which the engine's compiler tries at sizes of its own, called with several sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.importing.passes.block_cuts import PROBED_CUT, cut
from tests.operators.harness import random
from tests.plain_engine import calls_plainly

FLOAT = TensorProto.FLOAT


def heads(*others: onnx.NodeProto, inputs: str = "X", number: int = 8) -> onnx.ModelProto:
    """Scores of several heads each, as in an attention without weights: queries by keys, over open batches and lengths."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [4], [0, 0, number, 8 // number])
    nodes = [
        helper.make_node("Reshape", ["X", "shape"], ["split"]),
        helper.make_node("Transpose", ["split"], ["queries"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["split"], ["keys"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["queries", "keys"], ["scores"]),
        helper.make_node("MatMul", ["scores", "queries"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["joined"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["joined", "whole"], ["Y"]),
    ]
    whole = helper.make_tensor("whole", TensorProto.INT64, [3], [0, 0, 8])
    infos = [helper.make_tensor_value_info(name, FLOAT, ["batch", "length", 8]) for name in (*inputs, "Y")]
    graph = helper.make_graph([*others, *nodes], "heads", infos[:-1], infos[-1:], [shape, whole])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def is_cut(model: onnx.ModelProto, **dims: int) -> bool:
    body = import_model(model, dims=dims).main.body
    return cut(PROBED_CUT) in body and any(isinstance(it, tree.Assign) and isinstance(it.value, tree.Binary) for it in body)


def test_sizes_are_apart_where_sequences_count_to_them() -> None:
    assert is_cut(heads())
    assert not is_cut(heads(), batch=2, length=5)
    assert not is_cut(heads(helper.make_node("Relu", ["Z"], ["unused"]), inputs="XZ"))


@pytest.mark.parametrize("number, sizes", [(8, ((2, 5), (3, 9))), (2, ((3, 9), (2, 5), (1, 1)))], ids=str)
def test_calls_of_several_sizes_in_one_program(number: int, sizes: tuple[tuple[int, int], ...]) -> None:
    calls = [{"X": random(*size, 8)} for size in sizes]
    for given, found in zip(calls, calls_plainly(import_model(heads(number=number)), calls), strict=True):
        split = given["X"].reshape(*given["X"].shape[:2], number, -1).transpose(0, 2, 1, 3).astype(np.float64)
        mixed = split @ split.transpose(0, 1, 3, 2) @ split
        np.testing.assert_allclose(found["Y"], mixed.transpose(0, 2, 1, 3).reshape(given["X"].shape), rtol=1e-6)


def test_a_product_gets_the_shape_that_it_is_read_in_at_once() -> None:
    script = import_model(heads(number=2))
    assert "mixed = matrix(batch_matmul(scores, split_joined, 2 * batch), rows=batch, cols=8 * length_)" in script.text
