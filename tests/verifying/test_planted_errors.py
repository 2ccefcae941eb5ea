"""An error planted in a generator: what is told of it names the node."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_systemds import ScoringFunction, import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.errors import InternalError
from onnx_systemds.inference.registry import operator_generators
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.verifying.verify import verify_model
from tests.operators.harness import random
from tests.verifying.test_verify import FLOAT, make_model

NODES = [
    helper.make_node("Conv", ["X", "kernel"], ["seen"], name="eyes", pads=[1, 1, 1, 1]),
    helper.make_node("AveragePool", ["seen"], ["pooled"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("LeakyRelu", ["pooled"], ["bent"], name="bend", alpha=0.2),
    helper.make_node("Flatten", ["bent"], ["flat"], name="flatten"),
    helper.make_node("LayerNormalization", ["flat", "gain"], ["even"], name="even out"),
    helper.make_node("Gemm", ["even", "weight"], ["scores"], name="/head/scores"),
    helper.make_node("Softmax", ["scores"], ["parts"], name="softmax"),
    helper.make_node("CumSum", ["parts", "axis"], ["sums"], name="running"),
    helper.make_node("Tanh", ["sums"], ["tanh"], name="second bend"),
    helper.make_node("ReduceMax", ["tanh"], ["most"], name="most", axes=[1]),
    helper.make_node("Concat", ["tanh", "most"], ["Y"], name="join", axis=1),
]
OPERATORS = [node.op_type for node in NODES if node.op_type != "Flatten"]  # that one has no statement of its own
NAMES = {node.op_type: node.name for node in NODES}
NUMBERS = "{0} = {0} + 0.01"
FAULTS = {
    "sizes": "{0} = {0} + rbind({0}, {0}, {0})",
    "slice": "{0} = {0}[1:(nrow({0}) + as.integer(time() > 0)), ]",
    "stop": 'if (sum({0}) > -1e300) {{ stop("planted") }}',
}
UNKNOWN = "{0} = {0} + nobody"
X = random(2, 1, 4, 4)
Generate = Callable[[NodeView], Fragment]


def network(batch: int | str) -> onnx.ModelProto:
    weights = {"kernel": random(2, 1, 3, 3), "gain": random(8), "weight": random(8, 3), "axis": np.array(1)}
    return make_model(NODES, [("X", FLOAT, [batch, 1, 4, 4])], [("Y", FLOAT, [batch, 4])], **weights)


def plant(monkeypatch: pytest.MonkeyPatch, op_type: str, fault: str) -> None:
    """Have the generators of an operator write one statement more, where they have computed the result."""

    def planted(generate: Generate) -> Generate:
        def generator(node: NodeView) -> Fragment:
            fragment = generate(node)
            lines = "\n".join(fragment.statements).split("\n")
            results = [number for number, line in enumerate(lines) if re.match(r"\w+ = ", line)]
            named = (number for number in results if lines[number].startswith(f"{node.node.outputs[0]} = "))
            place = next(named, results[-1])
            written = fault.format(lines[place].partition(" = ")[0])
            return replace(fragment, statements=(*lines[: place + 1], written, *lines[place + 1 :]))

        return generator

    versions = {since: planted(generate) for since, generate in operator_generators["", op_type].items()}
    monkeypatch.setitem(operator_generators, ("", op_type), versions)


@pytest.mark.parametrize("op_type", OPERATORS)
def test_wrong_numbers(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, op_type, NUMBERS)
    report = verify_model(network("batch"), {"X": X}, per_node=True)
    assert report.first_apart is not None
    assert (report.first_apart.node, report.first_apart.op_type) == (NAMES[op_type], op_type)


@pytest.mark.parametrize("op_type", OPERATORS)
def test_unknown_variables(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, op_type, UNKNOWN)
    for batch in ("batch", 2):
        with pytest.raises(InternalError, match="does not always define nobody") as caught:
            import_model(network(batch))
        assert str(caught.value).startswith(f'graph "net" node "{NAMES[op_type]}" (ai.onnx.{op_type}, opset 17)')


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("op_type", OPERATORS)
def test_errors_of_the_engine(op_type: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, op_type, FAULTS[fault])
    for batch in ("batch", 2):
        with pytest.raises(EngineError) as caught:
            script = import_model(network(batch))
            ScoringFunction(script)({"X": X})
        node = caught.value.node
        assert node is not None, caught.value
        assert str(node.place).startswith(f'graph "net" node "{NAMES[op_type]}" (ai.onnx.{op_type}, opset 17)')
        assert node.others == ()
        assert node.takes
        words = FAULTS[fault].rpartition("{0}")[2].replace("{{", "{").replace("}}", "}")
        assert node.statement.endswith(words)
        assert node.line is not None
        assert script.text.splitlines()[node.line - 1].strip() == node.statement
        assert str(caught.value).startswith(f"{node.place}: ")
