"""A Scan that computes distances row by row, as skl2onnx writes it, is done feature by feature; onnxruntime judges."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction

FLOAT = 1
ROWS = np.random.default_rng(3).standard_normal((9, 4)).astype(np.float32)


@dataclass(frozen=True)
class Scanned:
    """What a Scan does. reads: the inputs of its Sub. sums: what reduces. attributes: of the Scan."""

    opset: int = 18
    reads: tuple[str, str] = ("x", "row")
    sums: str = "ReduceSumSquare"
    keepdims: int = 0
    handed: str = "x"
    attributes: dict[str, list[int]] = field(default_factory=dict)


def scanning(case: Scanned) -> ModelProto:
    """[steps, rows] of X [rows, 4], and X as the Scan hands it on."""
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    named = {"inputs": ["d", "axes"]} if case.opset >= 18 else {"inputs": ["d"], "axes": [1]}
    nodes = [
        helper.make_node("Sub", [*case.reads], ["d"]),
        helper.make_node(case.sums, outputs=["total"], keepdims=case.keepdims, **named),
        helper.make_node("Identity", [case.handed], ["x_out"]),
        helper.make_node("Identity", ["total"], ["y"]),
    ]
    made = helper.make_graph(
        nodes, "body", [helper.make_tensor_value_info("x", FLOAT, [None, 4]), helper.make_tensor_value_info("row", FLOAT, [4])],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("x_out", "y")], [axes] if case.opset >= 18 else [],
    )
    scan = helper.make_node("Scan", ["X", "rows"], ["last", "found"], body=made, num_scan_inputs=1, **case.attributes)
    outputs = [
        helper.make_tensor_value_info("last", FLOAT, ["n", 4]),
        helper.make_tensor_value_info("found", FLOAT, None),
    ]
    graph = helper.make_graph([scan], "g", [helper.make_tensor_value_info("X", FLOAT, ["n", 4])], outputs,
                              [numpy_helper.from_array(ROWS, "rows")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8)


@pytest.mark.parametrize(
    ("case", "is_joined"),
    [
        (Scanned(), True),
        (Scanned(opset=11, reads=("row", "x")), True),
        (Scanned(keepdims=1), False),
        (Scanned(sums="ReduceL1"), False),
        (Scanned(reads=("x", "x")), False),
        (Scanned(handed="d"), False),
        (Scanned(attributes={"scan_input_directions": [1]}), False),
    ],
)
def test_distances_to_scanned_rows(case: Scanned, is_joined: bool) -> None:
    model = scanning(case)
    script = import_model(model)
    assert ("squared_distances" in {function.name for function in script.library}) == is_joined
    x = ROWS[[2, 4, 4]] + np.float32([[0], [1e-4], [3]])  # near to a row, and not
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = runtime.run(None, {"X": x})
    with ScoringFunction(script) as function:
        found = function({"X": x})
    for name, wanted in zip(("last", "found"), expected):
        np.testing.assert_allclose(found[name], wanted, rtol=2e-4, atol=1e-9)


def test_squares_of_integers_wrap() -> None:
    model = scanning(Scanned(opset=13))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.round(ROWS).astype(np.int32), "rows"))
    body = model.graph.node[0].attribute[0].g
    for port in (*model.graph.input, *model.graph.output, *body.input, *body.output):
        port.type.tensor_type.elem_type = 6
    x = np.array([[1, 2, 3, 4], [50000, 60000, 7, 8]], np.int32)
    with ScoringFunction(import_model(model)) as function:
        found = function({"X": x})
    expected = ((x.astype(np.int64) - np.round(ROWS).astype(np.int64)[:, None]) ** 2).sum(2).astype(np.int32)
    np.testing.assert_array_equal(found["found"], expected)
