"""Recurrent layers that became scripts come back as the operators, also those of both directions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from benchmarks.round_trip import exported, operators
from onnx_systemds import export_script, import_model
from tests.exporting.export_harness import assert_close, run_model

STEPS, ROWS, WIDTH, UNITS = 5, 3, 2, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LAYERS: list[tuple[str, str, Sequence[str], Mapping[str, Any]]] = [
    *[(f"{kind} {direction}", kind, ("W", "R", "B"), {"direction": direction})
      for kind in GATES for direction in ("forward", "reverse", "bidirectional")],
    *[(f"{kind} without bias", kind, ("W", "R"), {}) for kind in GATES],
    ("GRU with a state", "GRU", ("W", "R", "B", "initial_h"), {}),
    ("GRU, reset after the product", "GRU", ("W", "R", "B", "initial_h"), {"linear_before_reset": 1}),
    ("LSTM with states", "LSTM", ("W", "R", "B", "initial_h", "initial_c"), {}),
]


def model_of(kind: str, given: Sequence[str], attributes: Mapping[str, Any]) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    """A model of one layer, and its input."""
    generator = np.random.default_rng(3)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    count = GATES[kind] * UNITS
    shapes = {"W": (directions, count, WIDTH), "R": (directions, count, UNITS), "B": (directions, 2 * count),
              "initial_h": (directions, ROWS, UNITS), "initial_c": (directions, ROWS, UNITS)}
    order = ("X", "W", "R", "B", "lengths", "initial_h", "initial_c")
    names = [name if name == "X" or name in given else "" for name in order][: 2 + order.index(given[-1]) - 1]
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, names, outputs, hidden_size=UNITS, **attributes)
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, (STEPS, ROWS, WIDTH))
    weights = [onnx.numpy_helper.from_array(generator.normal(size=shapes[name]).astype(np.float32), name) for name in given]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (STEPS, directions, ROWS, UNITS) if name == "Y"
                                             else (directions, ROWS, UNITS)) for name in outputs]
    graph = helper.make_graph([node], "layer", [x], results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return model, generator.normal(size=(STEPS, ROWS, WIDTH)).astype(np.float32)


@pytest.mark.parametrize(("name", "kind", "given", "attributes"), LAYERS, ids=[row[0] for row in LAYERS])
def test_layer(name: str, kind: str, given: Sequence[str], attributes: Mapping[str, Any]) -> None:
    model, x = model_of(kind, given, attributes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"X": x})
    back, _ = exported(import_model(model), {"X": x})
    found = list(run_model(back, {"X": x}).values())
    count = operators(back)
    assert count[kind] == (2 if attributes.get("direction") == "bidirectional" else 1)
    assert set(count) <= {kind, "Reshape", "Concat"}
    for own, wanted in zip(found, expected):
        assert_close(own, wanted.reshape(own.shape).astype(np.float64), 1e-5, name)


def test_a_layer_of_what_is_no_product() -> None:
    model, x = model_of("RNN", ("W", "R", "B"), {"direction": "reverse"})
    script = import_model(model)
    squared = re.sub(r"rnn_layer\(matrix\((.*?), rows", r"rnn_layer(matrix((\1) ^ 2, rows", script.body_text())
    assert squared != script.body_text()
    models = [export_script(text, script.function, inputs={"X": f"double[{STEPS},{ROWS},{WIDTH}]"})
              for text in (squared, squared.replace("stride = ", "stride = 1 * "))]
    assert [operators(found)["RNN"] for found in models] == [1, 0]
    own, loop = (run_model(found, {"X": x})["Y_h"] for found in models)
    assert_close(own, loop.astype(np.float64), 1e-5, "RNN")


@pytest.mark.parametrize("kind", GATES)
def test_layers_of_weights_that_are_inputs(kind: str) -> None:
    model, x = model_of(kind, ("W", "R", "B"), {})
    feeds = {"X": x, **{weight.name: onnx.numpy_helper.to_array(weight) for weight in model.graph.initializer}}
    model.graph.input.extend(helper.make_tensor_value_info(weight.name, TensorProto.FLOAT, weight.dims)
                             for weight in model.graph.initializer)
    expected = run_model(model, feeds)["Y_h"]
    del model.graph.initializer[:]
    back, _ = exported(import_model(model), feeds)
    assert operators(back)[kind] == 1
    found = run_model(back, feeds)["Y_h"]
    assert_close(found, expected.reshape(found.shape).astype(np.float64), 1e-5, kind)


def test_a_layer_that_a_user_has_changed_is_what_it_says() -> None:
    model, x = model_of("GRU", ("W", "R", "B"), {})
    script = import_model(model)
    text = script.body_text()
    assert text.count("h = (1 - z) * h_tilde + z * h\n") == 1
    bindings = {"weights": {weight.name: np.asarray(weight.array, np.float64) for weight in script.weights}}
    bound = bindings if script.weights else {}
    own, changed = (export_script(given, script.function, inputs={"X": f"double[{STEPS},{ROWS},{WIDTH}]"}, bindings=bound)
                    for given in (text, text.replace("+ z * h\n", "+ z * h + 1\n")))
    assert operators(own)["GRU"] == 1
    assert operators(changed)["GRU"] == 0
    assert not np.allclose(run_model(own, {"X": x})["Y_h"], run_model(changed, {"X": x})["Y_h"], atol=0.1)
