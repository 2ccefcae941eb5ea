"""Hidden states of both directions side by side, as exporters ask for them; onnxruntime judges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.operators.onnx import recurrent
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import check_all_forms

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
INPUTS, UNITS = 3, 2


def model_of(
    kind: str, perm: Sequence[int], outputs: Sequence[str] = ("t", "h"), direction: str = "bidirectional"
) -> ModelProto:
    """A layer and a Transpose of its hidden states ``y`` to ``t``; the sizes of steps and batch are open."""
    random, gates, ways = np.random.default_rng(2), GATES[kind], 1 + (direction == "bidirectional")
    shapes = {"w": (ways, gates * UNITS, INPUTS), "r": (ways, gates * UNITS, UNITS), "b": (ways, 2 * gates * UNITS)}
    weights = [numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node(kind, ["x", *shapes], ["y", "h"], hidden_size=UNITS, direction=direction),
        helper.make_node("Transpose", ["y"], ["t"], perm=perm),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", "batch", INPUTS])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "joined", [x], results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(model: ModelProto) -> str:
    """Compare all outputs at several sizes, as it is and compiled for the sizes; the statements of the script."""
    script = import_model(model)
    for specialise_after in (20, 1):
        with ScoringFunction(script, specialise_after=specialise_after, parts=2) as function:
            for steps, batch in ((4, 3), (1, 2), (5, 1)):
                x = np.random.default_rng(steps).normal(size=(steps, batch, INPUTS)).astype(np.float32)
                check_all_forms(function, model, {"x": x}, rtol=1e-4)
    return print_statement(script.main)


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_what_each_direction_computes_is_put_side_by_side(kind: str, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if threads:
        monkeypatch.setattr(recurrent, "_PARALLEL_STEPS", 0)
        monkeypatch.setattr(recurrent, "_PARALLEL_HIDDEN", 0)
    text = check(model_of(kind, [0, 2, 1, 3]))
    assert "row_order" not in text and ("parfor" in text) == threads


@pytest.mark.parametrize(
    "model",
    [
        model_of("GRU", [0, 2, 1, 3], outputs=["t", "y"]),
        model_of("GRU", [2, 0, 1, 3]),
        model_of("LSTM", [1, 0, 2, 3]),
        model_of("LSTM", [0, 2, 1, 3], direction="reverse"),
    ],
    ids=["states are read as they are, too", "sequences in front", "directions in front", "one direction"],
)
def test_other_transposes_stay(model: ModelProto) -> None:
    check(model)
