"""Tree ensembles of ai.onnx.ml in all forms, against onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.score_program import score_text
from onnx_systemds.operators.support import ensembles, tree_tables
from tests.command_line import run_dml
from tests.operators.harness import Case, at_sizes, case_model, check_case, run_reference
from tests.operators.tree_models import MODES, data, listed, split
from tests.plain_engine import score_plainly

ML = "ai.onnx.ml"


def regressor(note: str, opset: int = 3, rows: Any = None, **attributes: Any) -> Case:
    """A TreeEnsembleRegressor on mixed data."""
    inputs = {"X": data(40) if rows is None else rows}
    return Case("TreeEnsembleRegressor", opset, inputs, {"n_targets": 1, **attributes}, domain=ML, note=note)


def classifier(note: str, labels: tuple[int, ...], opset: int = 3, rows: Any = None, **attributes: Any) -> Case:
    """A TreeEnsembleClassifier on mixed data."""
    inputs = {"X": data(40) if rows is None else rows}
    attributes = {"classlabels_int64s": labels, **attributes}
    return Case("TreeEnsembleClassifier", opset, inputs, attributes, outputs=2, domain=ML, note=note)


def ensemble(note: str, rows: Any = None, **attributes: Any) -> Case:
    """A TreeEnsemble on mixed data."""
    return Case("TreeEnsemble", 5, {"X": data(40) if rows is None else rows}, attributes, domain=ML, note=note)


def repeated(attributes: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The attributes with a second, other weight for each leaf and target."""
    names = [f"{prefix}_{name}" for name in ("treeids", "nodeids", "ids")]
    weights = attributes[f"{prefix}_weights"]
    return {
        **attributes, **{name: attributes[name] * 2 for name in names},
        f"{prefix}_weights": [*weights, *(weight + 1 for weight in weights)],
    }


REGRESSORS = [
    *[regressor(mode, **listed("target", 3, 4, 1, modes=[mode])) for mode in MODES],
    *[regressor(f"{mode} no missing", **listed("target", 3, 4, 1, modes=[mode], missing=False)) for mode in MODES],
    regressor("version 1", 1, **listed("target", 4, 4, 1, seed=1)),
    regressor("single leaves", **listed("target", 3, 0, 1)),
    regressor("doubles", rows=data(40, dtype="float64"), **listed("target", 4, 4, 2, double=True), n_targets=2),
    regressor("double data", rows=data(40, dtype="float64"), **listed("target", 4, 4, 2, seed=3), n_targets=2),
    regressor("no NaN", rows=data(40, special=False), **listed("target", 4, 4, 1)),
    *[
        regressor(f"{function} {targets}", **listed("target", 5, 3, targets, seed=targets), n_targets=targets,
                  aggregate_function=function, base_values=[0.5, -2.0, 1.25][:targets])
        for function in ("SUM", "AVERAGE", "MIN", "MAX") for targets in (1, 3)
    ],
    *[
        regressor(f"some weights {function}", **listed("target", 3, 3, 3, seed=4, complete=False), n_targets=3,
                  aggregate_function=function)
        for function in ("SUM", "MIN", "MAX")
    ],
    *[
        regressor(transform, **listed("target", 3, 3, 3, seed=7), n_targets=3, post_transform=transform)
        for transform in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    ],
    *[
        regressor(f"weights repeated {function} {targets}", **repeated(listed("target", 3, 3, targets), "target"),
                  n_targets=targets, aggregate_function=function)
        for function in ("SUM", "AVERAGE", "MIN", "MAX") for targets in (1, 2)
    ],
    regressor("single LOGISTIC", **listed("target", 3, 3, 1), post_transform="LOGISTIC"),
    regressor("PROBIT", **listed("target", 1, 3, 1, positive=True, seed=3), post_transform="PROBIT"),
]

CLASSIFIERS = [
    classifier("three", (5, 7, 9), **listed("class", 4, 4, 3)),
    classifier("version 1", (0, 1, 2), 1, **listed("class", 4, 4, 3, seed=1)),
    classifier("base", (0, 1, 2), **listed("class", 4, 4, 3), base_values=[0.5, -1.0, 2.0]),
    classifier("some weights", (2, 0, 1), **listed("class", 1, 4, 3, complete=False, seed=8)),
    classifier("one class", (4,), **listed("class", 3, 4, 1)),
    *[
        classifier(f"weights repeated {len(labels)}", labels, **repeated(listed("class", 3, 4, len(labels)), "class"))
        for labels in ((4,), (4, 5), (4, 5, 6))
    ],
    classifier("one class, base", (4,), **listed("class", 3, 4, 1), base_values=[0.5]),
    classifier("doubles", (0, 1, 2), rows=data(40, dtype="float64"), **listed("class", 4, 4, 3, double=True)),
    classifier("int64", (0, 1, 2), rows=data(40, dtype="int64"), **listed("class", 4, 4, 3)),
    classifier("int32", (0, 1), rows=data(40, dtype="int32"), **listed("class", 4, 4, 2, only=[0])),
    *[
        classifier(f"three {transform}", (0, 1, 2), **listed("class", 3, 3, 3, seed=7), post_transform=transform)
        for transform in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    ],
    *[
        classifier(
            f"two {only} {'positive' if positive else 'mixed'} {transform} base {base}", (5, 7),
            **listed("class", 3, 3, 2, only=only, positive=positive, seed=len(only)), post_transform=transform,
            **({"base_values": base} if base else {}),
        )
        for only in ([0], [1], [0, 1]) for positive in (True, False)
        for transform, base in (("NONE", []), ("LOGISTIC", [0.25]), ("NONE", [0.25, -0.5]), ("SOFTMAX", [-0.25]))
    ],
    classifier("two, some weights", (5, 7), **listed("class", 2, 3, 2, complete=False, seed=2)),
    classifier("two, some weights, base", (5, 7), **listed("class", 2, 3, 2, complete=False, seed=3),
               base_values=[0.25, -0.5]),
    classifier("two, some weights of one", (5, 7), **listed("class", 1, 3, 2, complete=False, only=[0], seed=4),
               base_values=[0.25], post_transform="LOGISTIC"),
]

DOUBLE = TensorProto.DOUBLE
ENSEMBLES = [
    ensemble("plain", **split(3, 4, 1, members=False)),
    ensemble("members", **split(4, 4, 1, seed=1)),
    ensemble("members, targets", **split(5, 3, 3, seed=2), aggregate_function=0),
    ensemble("no missing", **split(4, 4, 2, seed=3, missing=False)),
    ensemble("MIN", **split(4, 4, 2, seed=4), aggregate_function=2),
    ensemble("MAX", **split(4, 4, 2, seed=5), aggregate_function=3),
    ensemble("doubles", rows=data(40, dtype="float64"), **split(4, 4, 2, seed=6, dtype=DOUBLE)),
    ensemble("SOFTMAX_ZERO", **split(4, 4, 2, seed=7), post_transform=3),
]
SYMBOLIC = [
    at_sizes(case, {"X": ["rows", 5]}, {"X": data(1)}, {"X": data(33, seed=1)})
    for case in (
        regressor("any rows", rows=data(7), **listed("target", 3, 4, 2), n_targets=2),
        classifier("any rows", (3, 1, 2), rows=data(7), **listed("class", 3, 4, 3)),
        ensemble("any rows", rows=data(7), **split(3, 4, 2)),
        Case("TreeEnsembleClassifier", 3, {"X": data(7)}, {  # their number is asked for where texts are put in
            "classlabels_strings": ["p", "q", "r"], **listed("class", 3, 4, 3, complete=False)}, outputs=2, domain=ML,
             note="any rows, some weights, texts"),
    )
]
CASES = [*REGRESSORS, *CLASSIFIERS, *ENSEMBLES, *SYMBOLIC]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def _softmax(x: Any, **_: Any) -> Any:
    return np.array([[np.exp(0.5), np.exp(2.0)]]).repeat(len(x), 0).astype(np.float32) / np.float32(
        np.exp(0.5) + np.exp(2.0))


def test_numbers_of_transforms_are_those_of_onnx() -> None:
    """1 is SOFTMAX in ONNX; onnxruntime 1.31 takes it for LOGISTIC."""
    attributes = split(1, 1, 2, seed=0, members=False)
    tensor = attributes["leaf_weights"]
    attributes |= {"leaf_targetids": [0, 1], "tree_roots": [0, 1]}
    attributes |= {name: [0, 0] for name in ("nodes_featureids", "nodes_missing_value_tracks_true")}
    attributes |= {name: [1, 1] for name in ("nodes_trueleafs", "nodes_falseleafs")}
    attributes |= {name: [0, 1] for name in ("nodes_truenodeids", "nodes_falsenodeids")}
    for name, numbers in (("nodes_splits", [0.0, 0.0]), ("leaf_weights", [0.5, 2.0])):
        del attributes[name]
        attributes[name] = _tensor(numbers, tensor.data_type)
    attributes["nodes_modes"] = _tensor([0, 0], TensorProto.UINT8)
    case = Case("TreeEnsemble", 5, {"X": data(5)}, {**attributes, "post_transform": 1}, domain=ML, expected=_softmax)
    check_case(case)


@pytest.mark.engine
@pytest.mark.parametrize("case", [case for case in CASES if re.search("-3-40x5-M(IN|AX) 1", str(case))], ids=str)
def test_rows_of_unknown_number(case: Case) -> None:
    """Targets that no leaf gives a weight have the score 0, whatever the compiler knows of the rows."""
    model = case_model(case)
    found = score_plainly(import_model(model), case.inputs, open_sizes=True)
    (expected,) = run_reference(model, case.inputs)
    np.testing.assert_allclose(found["out0"], expected, rtol=1e-5)


def _tensor(numbers: list[Any], dtype: int) -> Any:
    return helper.make_tensor("t", dtype, [len(numbers)], numbers)


@pytest.fixture
def walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small trees are walked like large ones."""
    monkeypatch.setattr(tree_tables, "MOST_WAYS", 0)


@pytest.mark.usefixtures("walking")
@pytest.mark.parametrize("case", [*REGRESSORS[:6], *CLASSIFIERS[::3], *ENSEMBLES[::2], *SYMBOLIC[:1]], ids=str)
def test_walk(case: Case) -> None:
    check_case(case)


@pytest.mark.usefixtures("walking")
def test_rows_are_walked_in_blocks() -> None:
    """More rows than one block takes."""
    check_case(regressor("blocks", rows=data(4100), **listed("target", 100, 1, 1, seed=1)))


@pytest.mark.parametrize(("targets", "function"), [(1, "pick_leaves"), (2, "test_all_branches")])
def test_rows_are_tested_in_blocks(targets: int, function: str) -> None:
    """More rows than one block takes, of trees that are small enough to test all branches."""
    case = regressor("blocks", rows=data(9000), **{**listed("target", 100, 1, targets, seed=1), "n_targets": targets})
    assert f" {function}(" in import_model(case_model(case)).text
    check_case(case)


def test_stumps_whose_products_the_engine_ends_in_an_error_are_walked() -> None:
    """Of 5 rows, 2,100 leaves of which each second is taken, and 12 targets (product-of-few-rows)."""
    case = regressor("stumps", **{**listed("target", 1050, 1, 12, seed=1), "n_targets": 12}, rows=data(5))
    assert " walk_trees(" in import_model(case_model(case)).text


@pytest.mark.parametrize(
    ("weights", "function"),
    [([0.1, 1e-3], "pick_leaves"), ([1.0, 1e-20], "test_all_branches"), ([0.0, 0.0], "pick_leaves")], ids=str,
)
def test_leaves_are_picked_where_scores_are_exact(weights: list[float], function: str) -> None:
    """Parts of a tree are joined, rows of smaller trees filled up, and the leaves that rows come to are those of ONNX."""
    attributes = listed("target", 5, 4, 1, seed=6)
    count = len(attributes["target_weights"])
    attributes["target_weights"] = [weights[place % 2] * (place % 7 - 3) for place in range(count)]
    case = regressor("scores", rows=data(300), **attributes)
    assert f" {function}(" in import_model(case_model(case)).text
    check_case(case)


def test_comparisons_are_one_operation_of_the_engine(tmp_path: Path) -> None:
    """`(Z > 0) * ones` is `relu_backward`, in blocks of rows and in what is left of them, and nothing is compared apart.

    Rows that are one block need no loop, and all sizes are known: no function is compiled anew at each call.
    """
    call = """
X = seq(-2499.5, 2500, 1)
steps = matrix("1 1 1 1 2 -1 2 1 0 2 2 1", rows=4, cols=3)
for (trip in 1:3) {
  Y = test_all_branches(X, as.matrix(1), as.matrix(0), steps, matrix("3 7", rows=2, cols=1))
}
print("found " + sum(Y[1:2500, ]) + " " + sum(Y[2501:5000, ]))
for (trip in 1:10) {
  Y = few_all_branches(matrix("-1 1", rows=2, cols=1), as.matrix(1), as.matrix(0), steps, matrix("3 7", rows=2, cols=1))
  print("few " + sum(Y))
}
"""
    functions = "\n".join(map(print_statement, library_functions(["test_all_branches"])))
    text = functions + functions.replace("test_", "few_") + call  # a function for each size
    output = run_dml(text, tmp_path, options=["-stats", "100"])
    assert "found 7500.0 17500.0\n" in output and output.count("few 10.0\n") == 10
    compiled = re.search(r"Functions recompiled:\s*(\d+)", output)
    assert compiled is not None and int(compiled[1]) <= 2
    counts = {name: int(count) for name, count in re.findall(r"^ *\d+  (\S+) +\S+ +(\d+)$", output, re.MULTILINE)}
    assert counts["relu_backward"] == 3 * 6 + 20, "two in each of two blocks, in the rest, and in each call of few rows"


def test_infinite_thresholds() -> None:
    attributes = listed("target", 3, 4, 1, seed=2)
    values = np.array(attributes["nodes_values"])
    values[::3], values[1::3] = np.inf, -np.inf
    check_case(regressor("infinite", **{**attributes, "nodes_values": values.tolist()}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes_featureids": [9, 0, 0]}, "feature 9"),
        ({"nodes_truenodeids": [7, 0, 0]}, "no node 7"),
        ({"nodes_truenodeids": [0, 0, 0]}, "leads back"),
        ({"nodes_modes": ["BRANCH_ODD", "LEAF", "LEAF"]}, "mode"),
        ({"nodes_values": [float("nan"), 0.0, 0.0]}, "NaN"),
        ({"target_weights": [float("inf"), 0.0]}, "infinite"),
        ({"target_ids": [0, 3]}, "target"),
        ({"base_values": [1.0, 2.0]}, "base values"),
        ({"aggregate_function": "MEDIAN"}, "MEDIAN"),
        ({"post_transform": "CUBE"}, "CUBE"),
    ],
)
def test_refused(change: dict[str, Any], reason: str) -> None:
    attributes = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [1.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    }
    with pytest.raises(TranspileError, match=reason):
        import_model(case_model(regressor("refused", **{**attributes, **change})))


def _two_trees() -> dict[str, Any]:
    """The same tree twice: x <= 5, below it x <= 5 again and x <= 3, above it x <= 3."""
    modes = ["BRANCH_LEQ"] * 4 + ["LEAF"] * 5
    yes, no = [1, 3, 5, 4, 0, 0, 0, 0, 0], [2, 8, 6, 7, 0, 0, 0, 0, 0]
    return {
        "nodes_treeids": [0] * 9 + [1] * 9, "nodes_nodeids": [*range(9)] * 2, "nodes_featureids": [1] * 18,
        "nodes_modes": modes * 2, "nodes_values": [5.0, 5.0, 3.0, 3.0, *[0.0] * 5] * 2,
        "nodes_truenodeids": yes * 2, "nodes_falsenodeids": no * 2,
        "target_treeids": [0] * 5 + [1] * 5, "target_nodeids": [4, 5, 6, 7, 8] * 2, "target_ids": [0] * 10,
        "target_weights": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0],
    }


def test_tests_are_shared_and_those_that_follow_left_out() -> None:
    """Two tests serve both trees; leaves that no row comes to have no way."""
    tables = tree_tables.node_tables(ensembles.listed_ensemble(_two_trees(), "target", 1), 3, missing=False, single=False)
    ways = tree_tables.all_ways(tables)
    assert ways is not None
    assert sorted(tables.cut[ways.branches].tolist()) == [3.0, 5.0]
    always = ways.steps[:, 1] == 1
    lengths = np.bincount(ways.steps[~always, 0] - 1)
    assert sorted(lengths.tolist()) == [1, 1, 1, 1, 2, 2]  # x <= 3, x > 5, and what lies between
    rows = np.repeat(np.array([[2, 3, 4, 5, 6, np.nan, np.inf, -np.inf]], np.float32).T, 3, axis=1)
    check_case(regressor("shared tests", rows=rows, **_two_trees()))


def test_cuts_are_those_of_rounded_numbers() -> None:
    """Beside each threshold, and beside what is rounded to it."""
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    limits = np.array([0.3, np.float32(0.3), -np.float32(0.4), 0, tiny, -tiny, huge, -huge, 2.0**24, 1 / 3])
    near = limits.astype(np.float32)
    places = np.concatenate([near, *(np.nextafter(near[:-2], np.float32(end)) for end in (-2, 2))]).astype(np.float64)
    halves = np.concatenate([(place + np.nextafter(np.float32(place), np.float32(9e9))) / 2 for place in places[:-2, None]])
    for number in np.concatenate([places, halves, *(np.nextafter([*places, *halves], end) for end in (-np.inf, np.inf))]):
        with np.errstate(over="ignore"):
            rounded = np.float64(np.float32(number))
        for strict in (False, True):
            expected = rounded < limits if strict else rounded <= limits
            assert np.array_equal(number <= tree_tables._cuts(limits, strict, single=True), expected), (number, strict)


@pytest.mark.engine
def test_data_need_not_be_rounded_to_single_precision(tmp_path: Path) -> None:
    """As numbers of a file, which are not those that thresholds are: 0.3 is less than its float32, which is 0.30000001."""
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    trees = [(mode, threshold) for mode in modes for threshold in (0.3, -0.4)]
    count = len(trees)
    attributes = {
        "nodes_treeids": np.repeat(range(count), 3), "nodes_nodeids": [0, 1, 2] * count, "nodes_featureids": [0] * 3 * count,
        "nodes_values": [value for _, threshold in trees for value in (threshold, 0.0, 0.0)],
        "nodes_modes": [word for mode, _ in trees for word in (mode, "LEAF", "LEAF")],
        "nodes_truenodeids": [1, 0, 0] * count, "nodes_falsenodeids": [2, 0, 0] * count,
        "target_treeids": range(count), "target_nodeids": [1] * count, "target_ids": range(count),
        "target_weights": [1.0] * count, "n_targets": count,
    }
    rows = np.array([[-0.5], [-0.4], [-0.3], [0.2], [0.3], [0.4]])
    model = case_model(Case("TreeEnsembleRegressor", 3, {"X": rows.astype(np.float32)}, attributes, domain="ai.onnx.ml"))
    script = import_model(model)
    script.save(tmp_path / "model.dml")
    name = script.inputs[0].name
    np.savetxt(tmp_path / "rows.csv", rows, fmt="%.1f")
    arguments = {name: "rows.csv", script.outputs[0].name: "scores.csv"}
    run_dml(score_text(script, "model"), tmp_path, arguments=arguments)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {name: rows.astype(np.float32)})
    assert np.array_equal(np.loadtxt(tmp_path / "scores.csv", delimiter=","), expected)
