"""Trees after float arithmetic, whose thresholds are numbers that FP32 arithmetic gives: the last bit decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.command_line import run_dml
from tests.operators.harness import Array, run_reference

ML = "ai.onnx.ml"
STUMPS = 20
CONSTANTS = {"a": np.array([0.1, 0.3, 0.7], np.float32), "b": np.array([1.1, 2.3, 0.9], np.float32)}


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def scaler(source: str, output: str, offset: list[float], scale: list[float]) -> onnx.NodeProto:
    return node("Scaler", source, output, domain=ML, offset=offset, scale=scale)


PIPELINES = {
    "product": [node("Mul", "x a", "d")],
    "difference and quotient": [node("Sub", "x a", "t"), node("Div", "t b", "d")],
    "scaler": [scaler("x", "d", [0.1, 0.2, 0.3], [1.1, 0.9, 0.7])],
    "scaler of one number": [scaler("x", "t", [0.1], [1.1]), node("Relu", "t", "u"), node("Identity", "u", "d")],
    "scaler without offset": [scaler("x", "d", [0.0, 0.0, 0.0], [1.1, 0.9, 0.7])],
    "joined": [node("Mul", "x b", "t"), node("Concat", "t x a2", "u", axis=1), node("Gather", "u places", "d", axis=1)],
    "chain": [node("Exp", "a", "e"), node("Mul", "x e", "t"), node("Add", "t b", "u"), node("Mul", "u u", "v"),
              node("Transpose", "v", "w"), node("Transpose", "w", "d")],
    "root": [node("Abs", "x", "t"), node("Sqrt", "t", "u"), node("Reciprocal", "u", "d")],
}  # fmt: skip


def stumps(features: Array, thresholds: Array) -> onnx.NodeProto:
    """A tree of one branch for each threshold; which way a row goes is a bit of its score."""
    attributes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (
        "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")}  # fmt: skip
    leaves: list[tuple[int, int, int, float]] = []
    for tree, (feature, threshold) in enumerate(zip(features.tolist(), thresholds.tolist())):
        rows = [(tree, 0, feature, "BRANCH_LEQ", threshold, 1, 2), *((tree, leaf, 0, "LEAF", 0.0, 0, 0) for leaf in (1, 2))]
        for row in rows:
            for column, value in zip(attributes.values(), row):
                column.append(value)
        leaves += [(tree, 1, 0, float(2**tree)), (tree, 2, 0, 0.0)]
    for name, column in zip(("treeids", "nodeids", "ids", "weights"), zip(*leaves)):
        attributes[f"target_{name}"] = list(column)
    return helper.make_node("TreeEnsembleRegressor", ["d"], ["y"], domain=ML, n_targets=1, **attributes)


def model(nodes: list[onnx.NodeProto], output: str, rows: int) -> onnx.ModelProto:
    constants = {**CONSTANTS, "a2": np.full((rows, 1), 0.5, np.float32), "places": np.array([0, 1, 2])}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", None])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def pipeline(name: str) -> tuple[onnx.ModelProto, Array]:
    """A model whose thresholds are numbers of its own data, and the input."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((80, 3)).astype(np.float32) * 10
    data = run_reference(model(PIPELINES[name], "d", len(x)), {"x": x})[0]
    features = generator.integers(0, 3, STUMPS)
    thresholds = data[generator.choice(80, STUMPS, replace=False), features]
    return model([*PIPELINES[name], stumps(features, thresholds)], "y", len(x)), x


@pytest.mark.parametrize("name", PIPELINES)
def test_rows_on_thresholds(name: str) -> None:
    whole, x = pipeline(name)
    with ScoringFunction(import_model(whole), specialise_after=2) as score:
        for _ in range(3):
            np.testing.assert_array_equal(score({"x": x})["y"], run_reference(whole, {"x": x})[0])


def test_infinities_stay() -> None:
    whole, x = pipeline("scaler")
    x[0], x[1], x[2, 0] = np.inf, -np.inf, np.nan
    with ScoringFunction(import_model(whole)) as score:
        np.testing.assert_array_equal(score({"x": x})["y"], run_reference(whole, {"x": x})[0])


def test_on_the_command_line(tmp_path: Path) -> None:
    whole, x = pipeline("difference and quotient")
    import_model(whole, function_name="trees", weights="files").save(tmp_path / "trees.dml")
    numbers = " ".join(map(repr, x.astype(np.float64).ravel().tolist()))
    source = (tmp_path / "trees.dml").read_text()
    program = f'{source}\nW = trees_init()\nX = matrix("{numbers}", rows=80, cols=3)\nY = trees(X, W)\nprint(as.integer(sum(Y)))'
    expected = run_reference(whole, {"x": x})[0]
    assert f"{int(expected.astype(np.float64).sum())}\n" in run_dml(program, tmp_path)


def test_what_is_exact_is_not_rounded() -> None:
    nodes = [node("Transpose", "x", "t"), node("Transpose", "t", "u"), node("Relu", "u", "d"),
             stumps(np.zeros(1, np.int64), np.zeros(1, np.float32))]  # fmt: skip
    assert "nearest_float" not in import_model(model(nodes, "y", 80)).text
