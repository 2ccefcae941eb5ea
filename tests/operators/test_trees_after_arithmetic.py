"""Trees after float arithmetic, whose thresholds are numbers that FP32 arithmetic gives: the last bit decides."""

from __future__ import annotations

from collections.abc import Sequence
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


def body(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], *outputs: onnx.ValueInfoProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def matrix(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", None])


def looped(nodes: list[onnx.NodeProto], given: str, after: str, output: str) -> onnx.NodeProto:
    """Two turns, of which each gives the next one ``after`` for ``s``; the last one is the output."""
    turns = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
    again = helper.make_tensor_value_info("more", TensorProto.BOOL, [])
    whole = body([*nodes, node("Identity", "go", "more")], [*turns, matrix("s")], again, matrix(after))
    return helper.make_node("Loop", ["two", "", given], [output], body=whole)


POSITIVE = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "is_positive", to=TensorProto.BOOL)]


def branches(nodes: list[onnx.NodeProto], inner: str, output: str) -> list[onnx.NodeProto]:
    """Nodes that run only if the largest input is not 0; else the output is one of ``e`` as it is."""
    other = body([node("Identity", "e", "other")], [], matrix("other"))
    chosen = helper.make_node("If", ["is_positive"], [output], then_branch=body(nodes, [], matrix(inner)), else_branch=other)
    return [*POSITIVE, chosen]


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
    "branch": [node("Abs", "x", "e"), *branches([node("Sub", "x a", "t"), node("Div", "t b", "u")], "u", "d")],
    "turns": [node("Sub", "x a", "t"), looped([node("Mul", "s b", "u")], "t", "u", "d")],
}


def stumps(features: Array, thresholds: Array) -> onnx.NodeProto:
    """A tree of one branch for each threshold; which way a row goes is a bit of its score."""
    attributes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (
        "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")}
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


def model(
    nodes: list[onnx.NodeProto], output: str, rows: int, trees: Sequence[onnx.NodeProto] = ()
) -> onnx.ModelProto:
    """A model of these nodes. trees: what its function ``Scored`` makes ``y`` of ``d`` by, after its own argument."""
    constants = {**CONSTANTS, "two": np.array(2), "a2": np.full((rows, 1), 0.5, np.float32), "places": np.array([0, 1, 2])}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", None])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1), helper.make_opsetid("own", 1)]
    scored = [*(node("Neg", given, f"{given}x") for given in ("x", "xx", "xxx", "xxxx")), node("Identity", "xxxxx", "d"), *trees]
    functions = [helper.make_function("own", "Scored", ["x"], ["y"], scored, imports[:2])] if trees else []
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions)


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


@pytest.mark.parametrize("place", ["branch", "loop", "function"])
def test_trees_of_a_sub_graph(place: str) -> None:
    """What the graph around it computes is rounded as well as what it computes itself."""
    given, x = pipeline("product")
    trees = given.graph.node[-1]
    before = list(given.graph.node[:-1])
    if place == "branch":
        before.append(node("ReduceSum", "d", "e", keepdims=1))
        nodes = [*before, *branches([trees], "y", "z")]
    elif place == "loop":
        trees.input[0] = "s"
        zeros = [node("Sub", "y y", "none"), node("Add", "s none", "t")]
        found = looped([trees, *zeros], "d", "t", "z")
        found.output.append("y_all")
        found.attribute[0].g.output.append(matrix("y"))
        nodes = [*before, found, node("ReduceMax", "y_all", "y_last", axes=[0], keepdims=0)]
    else:
        nodes = [*before, helper.make_node("Scored", ["d"], ["z"], domain="own")]
    whole = model(nodes, "y_last" if place == "loop" else "z", len(x), [trees] if place == "function" else ())
    with ScoringFunction(import_model(whole)) as score:
        (output,) = score({"x": x}).values()
    np.testing.assert_array_equal(output, run_reference(whole, {"x": x})[0])


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
             stumps(np.zeros(1, np.int64), np.zeros(1, np.float32))]
    assert "nearest_float" not in import_model(model(nodes, "y", 80)).text
