"""Dropouts that train: the main function drops nothing, both passes of the derivatives take the same mask."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.engine.matrix_files import write_list
from onnx_systemds.exporting.trained_model import trained_model
from onnx_systemds.importing.train_program import train_text, training_of
from onnx_systemds.importing.weights_mark import with_mark
from tests.command_line import run_dml

SHARE = 0.25


def network(*, activation: str = "Relu", mode: str = "yes", opset: int = 18, in_function: bool = False, **dropout: Any) -> onnx.ModelProto:
    """Dropouts before and after an activation, of equal sizes; dropout: attributes of both."""
    ratio = [] if opset < 12 else ["share", mode]
    dropped = [helper.make_node("Dropout", ["h", *ratio], ["a"], **dropout), helper.make_node(activation, ["a"], ["b"]),
               helper.make_node("Dropout", ["b", *ratio], ["c", "kept"], **dropout)]
    functions = []
    if in_function:
        constants = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)) for name, array in known().items()]
        functions = [helper.make_function("own", "Dropped", ["h"], ["c"], [*constants, *dropped], [helper.make_opsetid("", opset)])]
        dropped = [helper.make_node("Dropped", ["h"], ["c"], domain="own")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), *dropped, helper.make_node("MatMul", ["c", "v"], ["y"])]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])]
    if mode == "given":
        given.append(helper.make_tensor_value_info("given", TensorProto.BOOL, []))
    weights = {"w": np.eye(3, dtype=np.float32), "v": np.eye(3, dtype=np.float32), **(known() if opset >= 12 else {})}
    graph = helper.make_graph(nodes, "net", given, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
                              [numpy_helper.from_array(array, name) for name, array in weights.items()])
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid("own", 1)] if in_function else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)


def known() -> dict[str, np.ndarray[Any, Any]]:
    return {"share": np.array(SHARE, np.float32), "yes": np.array(True)}


PROGRAM = """
source("net.dml") as net
weights = net::gen_net_init()
parameters = net::gen_net_parameters(weights)
x = matrix(4, rows=1000, cols=3)
before = matrix(0, rows=1000, cols=3)
y = net::{main}
print("scored " + min(y) + " " + max(y))
for (step in 1:2) {{
  {seed} = step
  {forward}
  print("zeros " + sum(y == 0) + " of " + step)
  print("others than before " + sum(y != before))
  before = y
  print("least and most " + min(y + 100 * (y == 0)) + " " + max(y))
  d_y = matrix(1, rows=1000, cols=3)
  {backward}
  # every number of y is x by w by both masks by v: so is w times its derivative, summed over samples
  print("apart " + max(abs(colSums(y) - t(diag(matrix(gradient[{w}:{w} + 8, ], rows=3, cols=3))) * 1)))
}}
{forward}
print("others by the same seed " + sum(y != before))
"""
ROWS = {
    "both known": {},
    "no ratio of their own": {"opset": 1, "ratio": SHARE, "consumed_inputs": [0]},
    "an operator without a rule between them": {"activation": "Mish"},
    "a seed": {"seed": 5},
    "in a function": {"in_function": True},
}


@pytest.mark.engine
@pytest.mark.parametrize("options", ROWS.values(), ids=ROWS)
def test_both_passes_take_the_mask_that_is_drawn(options: dict[str, Any], tmp_path: Path) -> None:
    script = import_model(network(**options), gradients=["weights"])
    script.save(tmp_path / "net.dml")
    assert script.derivatives is not None
    keys = next(port for port in script.derivatives.forward.inputs if port.keys).keys
    forward, backward = (f"{results} = net::{each.function}({', '.join(each.parameters)})" for each, results in (
        (script.derivatives.forward, f"[{', '.join(script.derivatives.forward.results)}]"),
        (script.derivatives.backward, "gradient")))
    output = run_dml(PROGRAM.format(main="gen_net(x, weights)", forward=forward, backward=backward,
                                    w=1 + 9 * keys.index("w"), seed=script.derivatives.seed or "seed"), tmp_path)
    assert bool(script.derivatives.seed) is (options.get("seed") is None)
    assert "others by the same seed 0" in output
    scored = 4 if options.get("activation") is None else 4 * np.tanh(np.log1p(np.exp(4.0)))
    assert [float(number) for number in re.findall(r"scored (\S+) (\S+)", output)[0]] == pytest.approx([scored] * 2)
    zeros = [int(float(number)) for number in re.findall(r"zeros (\S+) of", output)]
    assert len(zeros) == 2
    for count in zeros:  # of 3,000 a share of 1 - 0.75^2 at two places that do not draw the same
        assert count == pytest.approx(3000 * (1 - (1 - SHARE) ** 2), rel=0.1) or options.get("seed")
    assert (float(re.findall(r"others than before (\S+)", output)[1]) == 0) is bool(options.get("seed"))
    if not options.get("activation"):
        for least, most in re.findall(r"least and most (\S+) (\S+)", output):
            assert float(least) == float(most) == pytest.approx(4 / (1 - SHARE) ** 2)
        assert [float(number) for number in re.findall(r"apart (\S+)", output)] == pytest.approx([0, 0], abs=1e-6)


def test_the_program_gives_each_step_a_seed() -> None:
    """Sites draw by others; a model in which all has a seed of its own takes none."""
    script = import_model(network(), gradients=["weights"])
    assert script.derivatives is not None and script.derivatives.seed == "seed"
    assert script.derivatives.forward.parameters[-1] == "seed" and script.derivatives.forward.inputs[-1].kind == "seed"
    assert "# seed is a whole number, another one for each step: what is drawn follows from it\n" in script.text
    program = train_text(script, "model", training_of(["l2_loss"], "sgd"))
    assert "derivative(x_batch, target_batch, parameters, first_draw + t)" in program
    assert "derivative(x, labels, parameters, draw)" in program and "of the order, and of what Dropouts drop" in program
    seeded = import_model(network(seed=5), gradients=["weights"])
    assert seeded.derivatives is not None and not seeded.derivatives.seed
    assert "first_draw" not in train_text(seeded, "model", training_of(["l2_loss"], "sgd"))


def test_a_mode_that_is_given_stays() -> None:
    script = import_model(network(mode="given"), gradients=["weights"])
    assert [port.name for port in script.inputs] == ["x", "given"]
    assert script.text.count("rand(") == 4  # two of each pass


def test_nothing_is_dropped_where_the_model_infers() -> None:
    model = network()
    for node in model.graph.node:
        if node.op_type == "Dropout":
            del node.input[2]
    assert "rand(" not in import_model(model, gradients=["weights"]).text
    assert import_model(network()).text.count("rand(") == 2  # without derivatives the script does what the model says


@pytest.mark.parametrize("options", [{}, {"in_function": True}, {"opset": 6, "ratio": SHARE}],
                         ids=["by an input", "in a function", "by an attribute"])
def test_the_trained_model_drops_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    model = network(**options)
    assert "rand(" in import_model(model).text
    script = import_model(model, gradients=["weights"])
    write_list(tmp_path, "weights", with_mark(script.weights))
    found = trained_model(model, script, tmp_path)
    nodes = [*found.graph.node, *(node for function in found.functions for node in function.node)]
    assert [len(node.input) for node in nodes if node.op_type == "Dropout"] == [1 if options.get("opset") else 2] * 2
    assert "rand(" not in import_model(found).text
