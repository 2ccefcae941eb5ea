"""Support vector machines with probabilities that became scripts: pairs are coupled by an operator again."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from benchmarks.round_trip import exported as back
from benchmarks.round_trip import operators as counted
from onnx_systemds import import_model
from onnx_systemds.dml.templates import library_text
from tests.exporting.export_harness import assert_close, run_model
from tests.exporting.test_idioms import exported, operators
from tests.operators.harness import case_model
from tests.operators.test_support_vectors import classifier

ROWS = np.array([[0.5, -1.0, 2.0], [3.0, 0.1, -0.2], [np.nan, 1.0, 2.0], [0.0, 0.0, 0.0], [-4.0, 2.0, 1.0]], np.float32)
RBF = {"kernel_type": "RBF", "kernel_params": [0.4, 0.0, 3.0]}


@pytest.mark.parametrize("counts", [[2, 2], [2, 1, 2], [1, 2, 1, 2]], ids=str)
def test_probabilities_of_a_support_vector_machine(counts: list[int]) -> None:
    model = case_model(classifier(counts, list(range(len(counts))), x=ROWS, proba=True, **RBF))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, shares = session.run(None, {"x": ROWS})
    script = import_model(model)
    found, _ = back(script, {script.inputs[0].name: ROWS})
    assert "SVMClassifier" in counted(found)
    assert "Loop" not in counted(found)
    own_labels, own_shares = run_model(found, {found.graph.input[0].name: ROWS}).values()
    np.testing.assert_array_equal(own_labels.ravel(), labels)
    assert_close(own_shares, shares.astype(np.float64), 1e-5, str(counts))


WINS = np.array([[0, 1, 0, -1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, 0, 0, 0, 0, 1, 0, -1, 0.0]])
BOUND = {"a": np.array([[-2.0, -1.0, -3.0]]), "c": np.array([[0.1, -0.2, 0.3]]), "W": WINS,
         "o": np.array([[0, 0, 0, 1, 0, 0, 1, 1, 0.0]])}
BODY = f"""{library_text("coupled_probabilities")}
P = min(max(1 / (1 + exp(X * a + c)), 1.0E-7), 0.9999999)
Y = coupled_probabilities(P %*% W + o, 3)"""


def test_infinite_scores_are_certain() -> None:
    model = exported(BODY, BOUND)
    assert operators(model) == ["Clip", "SVMClassifier"]
    data = np.array([[np.inf, np.inf, 0.0], [-np.inf, 1.0, 1.0], [np.nan, 1.0, 1.0], [1.0, 2.0, -1.0]])
    looped = exported(BODY.replace("loop < 100", "loop < 99"), BOUND)
    assert "Loop" in operators(looped)
    assert_close(run_model(model, {"X": data})["Y"], run_model(looped, {"X": data})["Y"].astype(np.float64), 1e-4, "infinite")


@pytest.mark.parametrize(("old", "new"), [
    ("1.0E-7", "1.0E-6"), ("0.9999999", "0.99"), ("X * a + c", "X * a + 2 * X"), ("P %*% W + o", "(1 - P) %*% W + o"),
    ("P %*% W + o", "cbind(P[, 3], P[, 2], P[, 1]) %*% W + o"),
    ("P %*% W + o", "P %*% (W * 0.5) + o"), ("P %*% W + o", "P %*% W + (o + 0.1)"),
])
def test_other_probabilities_of_pairs_are_coupled_by_the_loop(old: str, new: str) -> None:
    assert old in BODY
    model = exported(BODY.replace(old, new), BOUND)
    assert "SVMClassifier" not in operators(model)


def test_pairs_in_float64_are_coupled_by_the_loop() -> None:
    assert "SVMClassifier" not in operators(exported(BODY, BOUND, dtype="float64"))
