"""Tree ensembles that became scripts come back as tree ensembles, with NaN on the same side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest

from benchmarks.round_trip import exported, operators
from onnx_systemds import export_script, import_model
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.printer import print_statement
from tests.exporting.export_harness import assert_close, run_model
from tests.operators.harness import Case, case_model
from tests.operators.tree_models import data, listed

ML = "ai.onnx.ml"
TREES: list[tuple[str, Mapping[str, Any]]] = [
    ("of one target", {**listed("target", 3, 4, 1, modes=["BRANCH_LEQ"]), "n_targets": 1}),
    ("of all tests", {**listed("target", 4, 4, 2, seed=1), "n_targets": 2}),
    ("without missing numbers", {**listed("target", 3, 4, 1, seed=2, missing=False), "n_targets": 1}),
    ("with base values", {**listed("target", 3, 4, 3, seed=3), "n_targets": 3, "base_values": [0.5, -2.0, 1.25]}),
    ("that are large", {**listed("target", 2, 9, 1, seed=4), "n_targets": 1}),
    ("with few weights", {**listed("target", 3, 3, 3, seed=5, complete=False), "n_targets": 3}),
]


def there_and_back(attributes: Mapping[str, Any], rows: Any) -> tuple[Any, Any, list[str]]:
    """What onnxruntime computes of a model, and of what came back, and its operators."""
    model = case_model(Case("TreeEnsembleRegressor", 3, {"X": rows}, dict(attributes), domain=ML))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    script = import_model(model)
    found, _ = exported(script, {script.inputs[0].name: rows})
    name = found.graph.input[0].name
    return session.run(None, {"X": rows})[0], run_model(found, {name: rows}), sorted(operators(found).elements())


@pytest.mark.parametrize(("name", "attributes"), TREES, ids=[row[0] for row in TREES])
def test_trees(name: str, attributes: Mapping[str, Any]) -> None:
    expected, found, used = there_and_back(attributes, data(200, seed=7))
    assert used == ["TreeEnsembleRegressor"]
    assert_close(next(iter(found.values())), expected.astype(np.float64), 1e-6, name)


@pytest.mark.parametrize("function", ["MIN", "MAX"])
def test_trees_that_are_walked_for_an_extreme(function: str) -> None:
    attributes = {**listed("target", 3, 3, 2, seed=6), "n_targets": 2, "aggregate_function": function}
    expected, found, used = there_and_back(attributes, data(200, seed=7))
    assert "TreeEnsembleRegressor" in used
    assert "Loop" not in used
    assert_close(next(iter(found.values())), expected.astype(np.float64), 1e-6, function)


STEPS = {  # x1 <= 1 ? 10 : (x2 <= 5 ? 20 : 30), and what the first way is without its only test
    "a tree": [[1, 1, 1], [1, 2, -1], [2, 1, 0], [2, 2, 1], [2, 3, -1], [3, 1, -1], [3, 2, 1], [3, 3, 1]],
    "with a gap": [[1, 1, 1], [1, 2, -1], [2, 1, 0], [2, 2, 1], [2, 3, -1], [3, 1, 0], [3, 3, 1]],
}


@pytest.mark.parametrize(("name", "operator"), [("a tree", True), ("with a gap", False)])
def test_ways_that_make_no_tree_are_tested_as_written(name: str, operator: bool) -> None:
    bound = {"f": [[1.0], [2.0]], "c": [[1.0], [5.0]], "s": STEPS[name], "w": [[10.0], [20.0], [30.0]]}
    reads = "\n".join(f'{key} = read("{key}")' for key in ("X", *bound))
    library = "\n".join(map(print_statement, library_functions(["test_all_branches"])))
    text = f'{library}\n{reads}\nY = test_all_branches(X, f, c, s, w)\nwrite(Y, "Y")\n'
    model = export_script(text, inputs={"X": "double[4,2]"}, bindings={k: np.array(v, float) for k, v in bound.items()})
    assert (list(operators(model)) == ["TreeEnsembleRegressor"]) is operator
    rows = np.array([[0.0, 9.0], [2.0, 3.0], [2.0, 9.0], [1.0, 1.0]])
    expected = [[10.0], [20.0], [30.0], [10.0]] if operator else [[40.0], [20.0], [30.0], [10.0]]
    assert_close(run_model(model, {"X": rows})["Y"], np.array(expected), 1e-6, name)
