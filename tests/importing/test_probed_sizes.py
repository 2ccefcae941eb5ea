"""Functions of one matrix, which the engine's compiler tries at sizes of its own, called with several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml.scopes import assigned
from onnx_systemds.importing.passes.block_cuts import is_never
from tests.command_line import run_dml
from tests.operators.harness import random, run_reference
from tests.plain_engine import PlainCall, calls_plainly, sourced

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


def is_hidden(model: onnx.ModelProto, **options: Any) -> bool:
    main = import_model(model, **options).main
    return any(is_never(it) and main.parameters[0].name in assigned((it,)) for it in main.body)


def test_sizes_are_hidden_where_sequences_count_to_them() -> None:
    assert is_hidden(heads())
    assert not is_hidden(heads(), dims={"batch": 2, "length": 5})
    assert not is_hidden(heads(helper.make_node("Relu", ["Z"], ["unused"]), inputs="XZ"))


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


TABLE = "float[5, 4] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}"
COLUMNS = "int64[1] start = {1}, int64[1] end = {3}, int64[1] last = {-1}"
OF_COUNTS = {
    "gathered": (f"(int64[n] X) => (float[n, 2] Y) <{TABLE}, {COLUMNS}>",
                 "rows = Gather(table, X) active = Tanh(rows) Y = Slice(active, start, end, last)"),
    "gathered of a matrix": (f"(int64[n, m] X) => (float[n, m, 2] Y) <{TABLE}, {COLUMNS}>",
                             "rows = Gather(table, X) active = Tanh(rows) Y = Slice(active, start, end, last)"),
    "scattered": (f"(float[n, 6] X) => (float[n, 2] Y) <int64[1] k = {{3}}, {COLUMNS}>",
                  "values, places = TopK(X, k) all = ScatterElements <axis = -1> (X, places, values) "
                  "Y = Slice(all, start, end, last)"),
    "distinct": ("(float[n, 6] X) => (float[k] Y)", "Y = Unique(X)"),
}
"""Of one matrix, and not of known sizes: what sequences and tables of library functions give is cut off later on."""


@pytest.mark.parametrize("what", OF_COUNTS)
def test_sizes_of_tables_and_of_sequences_in_functions(what: str) -> None:
    ports, nodes = OF_COUNTS[what]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {ports} {{ {nodes} }}')
    sizes = [[shape.dim_value or size for shape, size in zip(model.graph.input[0].type.tensor_type.shape.dim, each)]
             for each in ((5, 2), (3, 4), (1, 1))]
    dtype = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    calls = [{"X": np.asarray(np.arange(np.prod(size)).reshape(size) * 7 % 5, dtype)} for size in sizes]
    assert is_hidden(model)
    for given, found in zip(calls, calls_plainly(import_model(model), calls), strict=True):
        np.testing.assert_allclose(found["Y"], run_reference(model, given)[0], rtol=1e-6)


def test_sizes_in_a_function_of_the_user(tmp_path: Path) -> None:
    """It takes one matrix and loads the weights itself, and has a branch in it: the compiler tries what it calls, too."""
    ports, nodes = OF_COUNTS["gathered of a matrix"]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {ports} {{ {nodes} }}')
    script = import_model(model, weights="files")
    calls = [PlainCall(script, {"X": np.arange(rows * 3).reshape(rows, 3) % 5}, tmp_path, f"call{rows}_", "model")
             for rows in (4, 2)]
    source, _ = sourced(script, tmp_path, "model")
    program = [source, "never = time() < 0", "score = function(matrix[double] X) return (matrix[double] Y) {", "  Y = X",
               "  if (min(X) >= 0) {", f"    Y = model::{script.function}(X, model::{script.function}_init())", "  }", "}"]
    for call in calls:
        program += [*call.readings(), f"{call.prefix}result0 = score({call.prefix}in0)", *call.writings()]
    run_dml("\n".join(program) + "\n", tmp_path)
    for call in calls:
        np.testing.assert_allclose(call.results()["Y"], run_reference(model, call.inputs)[0], rtol=1e-6)


def test_sizes_in_a_function_of_the_model() -> None:
    """Of one matrix, and with a branch in it: the compiler tries it though the main function has two matrices."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 18, "local": 1]>
        g (int64[n] A, int64[n] B) => (float[n, 2] C, float[n, 2] D) {{ C = local.Part(A) D = local.Part(B) }}
        <domain: "local", opset_import: ["": 18]> Part (X) => (Y) {{
            table = Constant <value: tensor = {TABLE.replace("table = ", "")}> ()
            start = Constant <value_ints = [1]> () end = Constant <value_ints = [3]> ()
            last = Constant <value_ints = [-1]> () zero = Constant <value_float = 0.0> ()
            rows = Gather(table, X) active = Tanh(rows) sum = ReduceSum <keepdims = 0> (active)
            is_up = Greater(sum, zero)
            chosen = If (is_up) <then_branch: graph = a () => (float[n, 4] u) {{ u = Neg(active) }},
                                 else_branch: graph = b () => (float[n, 4] v) {{ v = Abs(active) }}>
            Y = Slice(chosen, start, end, last) }}""")
    calls = [{"A": np.arange(size) % 5, "B": np.arange(size) % 3} for size in (5, 2)]
    found = calls_plainly(import_model(model, functions="keep"), calls)
    for given, outputs in zip(calls, found, strict=True):
        for name, expected in zip("CD", run_reference(onnx.inliner.inline_local_functions(model), given)):
            np.testing.assert_allclose(outputs[name], expected, rtol=1e-6)
