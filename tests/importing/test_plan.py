"""The plan of a model says what its program does, and what the engine says it will do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from onnx_systemds import import_model
from onnx_systemds.importing.plan import Plan, plan_of
from onnx_systemds.importing.score_program import score_text
from onnx_systemds.inference.dims import symbols
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.row_blocks import common_rows
from tests.command_line import run_dml
from tests.model_zoo import MODELS, needs_models

N = 2_000_000
FAMILIES = {  # model, what computes its operators on Spark and at sites
    "mlp": ("mlp_tabular.ts", "task", "site"),
    "boosted trees": ("xgb_wine", "task", "site"),
    "convolutions": ("resnet_tiny.ts", "task", "site"),
    "transformer": ("bert_tiny.ts", "task", "site"),
    "recurrent": ("lstm_gru_tagger.ts", "task", "site"),
    "texts and numbers": ("skl_mixed_cols", "task", "site"),
}


@needs_models
@pytest.mark.parametrize("family", FAMILIES)
def test_the_plan_is_what_the_program_does(family: str) -> None:
    assert MODELS is not None
    name, task, site = FAMILIES[family]
    path = MODELS / "generated" / f"{name}.onnx"
    model = load_model(path)
    types = common_rows(model, {})
    script = import_model(path, types=types)
    assert script.batch is not None
    symbol = script.batch.symbol
    others = {name: 8 for port in script.inputs for name in symbols(port.dims) if name != symbol}
    program = score_text(import_model(path, dims=others, types=types), "model")
    found = {place: plan_of(model, {**others, symbol: N}, types, place) for place in ("local", "spark", "federated")}
    assert {row.where for row in found["local"].rows} == {"process"}
    assert {row.where for row in found["spark"].rows} == {task}
    assert {row.where for row in found["federated"].rows} == {site}
    assert ("REMOTE_SPARK" in program) == (task == "task")
    assert ("paramserv" in program) == (site == "site")
    for place in ("spark", "federated"):
        assert (found[place].refusal.replace('"', '\\"') in program) and bool(found[place].refusal) == ("refused" in (task, site)[place != "spark"])
    local = found["local"]
    assert (local.symbol, local.count) == (symbol, N)
    assert f"rows = ifdef($rows, {local.block_rows})" in program
    assert local.rows[-1].size and local.rows[-1].block


@needs_models
def test_a_model_of_one_call() -> None:
    assert MODELS is not None
    model = load_model(MODELS / "generated" / "txt_tfidf_lr.onnx")
    found = plan_of(model, {}, common_rows(model, {}), "spark")
    assert found.refusal == 'one call has all rows, which may depend on each other: node "Tokenizer" (Tokenizer)'
    assert (found.symbol, found.block_rows) == (None, None)
    assert found.rows[0].where == "driver" and "texts in one place" in found.rows[0].advice
    assert found.rows[2].where == "driver or spark" and found.rows[2].size is None


def test_bytes_of_results_and_blocks() -> None:
    model = load_model(_model([helper.make_node("MatMul", ["X", "X2"], ["a"]), helper.make_node("Neg", ["a"], ["Y"])],
                              ["n", 8], ["n", 500], X2=[8, 500]))
    found = plan_of(model, {"n": 1_000_000}, {}, "local")
    rows = found.block_rows
    assert rows == (16 << 20) // (8 * 500)
    assert [(row.size, row.block) for row in found.rows] == [(8 * 500 * 1_000_000, 8 * 500 * rows)] * 2
    assert found.rows[0].advice == "" and "a heap above 5.7 GB" in found.rows[1].advice


@pytest.mark.engine
@pytest.mark.parametrize("rows", [20_000, 2_000_000])
def test_driver_and_spark_are_what_the_engine_explains(rows: int, tmp_path: Path) -> None:
    """The rows meet last, so that one call has them all. The plan's budget is that of a heap of 2 GB."""
    nodes = [helper.make_node("Neg", ["X"], ["a"]), helper.make_node("Conv", ["a", "W"], ["b"], pads=[1, 1, 1, 1]),
             helper.make_node("Exp", ["b"], ["c"]), helper.make_node("ReduceMax", ["c"], ["Y"], axes=[0])]
    source = _model(nodes, ["n", 2, 8, 8], [1, 2, 8, 8], W=[2, 2, 3, 3])
    found = plan_of(load_model(source), {"n": rows}, {}, "spark")
    script = import_model(source, dims={"n": rows}, specialised=False)
    script.save(tmp_path / "model.dml")
    weights = ", model::" + script.function + "_init()" if script.weights else ""
    program = (f'source("model.dml") as model\nif (time() < 0) {{\n  X = rand(rows={rows}, cols=128)\n'
               f'  Y = model::{script.function}(X{weights})\n  write(Y, "out", format="binary")\n}}\n')
    explained = run_dml(program, tmp_path, mode="hybrid", options=["-explain", "hops"])
    types = {name: re.findall(rf"\) {re.escape(hop)} .*?(CP|SPARK)?$", explained, re.MULTILINE)
             for name, hop in {"Conv": "CONV2D", "Exp": "u(exp)", "ReduceMax": "ua(maxC)"}.items()}
    words = {"CP": "driver", "": "driver", "SPARK": "spark"}
    assert _places(found) | {name: [words[kind] for kind in kinds] for name, kinds in types.items()} == _places(found), explained
    assert _places(found)["Conv"] == ["driver"]
    assert _places(found)["Exp"] == ["spark" if rows == 2_000_000 else "driver"]


def _places(plan: Plan) -> dict[str, list[str]]:
    return {row.node.op_type: [row.where] for row in plan.rows}


def _model(nodes: list[onnx.NodeProto], given: list[Any], made: list[Any], **weights: list[int]) -> onnx.ModelProto:
    tensors = []
    for name, dims in weights.items():
        count = 1
        for size in dims:
            count *= size
        tensors.append(helper.make_tensor(name, 1, dims, [0.5] * count))
    graph = helper.make_graph(nodes, "planned", [helper.make_tensor_value_info("X", 1, given)],
                              [helper.make_tensor_value_info("Y", 1, made)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_equal_sizes_of_inputs_are_one_number_of_rows() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] x, float[M, 4] y) => (float[N, 7] o)
        { b = Relu(y) o = Concat <axis = 1> (x, b) }""")
    plan = plan_of(load_model(model), {"N": 1000}, {}, "local")
    assert [(row.node.op_type, row.size) for row in plan.rows] == [("Relu", 32_000), ("Concat", 56_000)]
