"""Classifiers that became scripts come back as classifiers, with the same labels for NaN and infinities."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from benchmarks.round_trip import exported as back
from benchmarks.round_trip import operators
from onnx_systemds import export_script, import_model
from onnx_systemds.dml.templates import library_text
from tests.exporting.export_harness import assert_close, run_model
from tests.exporting.test_idioms import exported
from tests.operators.harness import Case, case_model

ROWS = np.array([[0.5, -1.0], [2.0, 3.0], [np.nan, 1.0], [np.inf, 0.0], [-np.inf, np.inf], [0.0, 0.0]], np.float32)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX"])
@pytest.mark.parametrize("classes", [3, 4])
def test_a_linear_classifier(classes: int, transform: str) -> None:
    generator = np.random.default_rng(classes)
    attributes = {"coefficients": generator.normal(size=2 * classes).tolist(), "post_transform": transform,
                  "intercepts": generator.normal(size=classes).tolist(), "classlabels_ints": list(range(classes))}
    model = case_model(Case("LinearClassifier", 1, {"X": ROWS}, attributes, outputs=2, domain="ai.onnx.ml"))
    labels, scores = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": ROWS})
    script = import_model(model)
    found, _ = back(script, {script.inputs[0].name: ROWS})
    own_labels, own_scores = run_model(found, {found.graph.input[0].name: ROWS}).values()
    assert operators(found) == {"LinearClassifier": 1, "Cast": 1, "Reshape": 1}
    np.testing.assert_array_equal(own_labels.ravel(), labels)
    assert_close(own_scores, scores.astype(np.float64), 1e-5, transform)


@pytest.mark.parametrize(("body", "classifies"), [
    ("Y = top_class(X %*% W + b)", True), ("Y = top_class(X %*% W)", False), ("Y = top_class(X %*% W + rowSums(X))", False),
])
def test_scores_of_known_weights_and_offsets_are_those_of_a_classifier(body: str, classifies: bool) -> None:
    bound = {"W": np.array([[1.0, -1.0, 0.5], [0.0, 2.0, -1.0]]), "b": np.array([[0.1, -0.2, 0.3]])}
    model = exported(f"{library_text('top_class')}\n{body}", bound, dims="6,2")
    assert ("LinearClassifier" in operators(model)) is classifies
    if classifies or "rowSums" in body:
        data = ROWS[[0, 1, 5]].repeat(2, axis=0).astype(np.float64)
        scores = data @ bound["W"] + (bound["b"] if classifies else data.sum(axis=1, keepdims=True))
        np.testing.assert_array_equal(run_model(model, {"X": data})["Y"].ravel(), scores.argmax(axis=1))


def test_places_from_the_end() -> None:
    model = exported(f"{library_text('gather_index')}\nY = gather_index(X, 5)", dims="2,3")
    assert operators(model) == {"Less": 1, "Add": 2, "Where": 1}
    found = run_model(model, {"X": np.array([[0.0, 4.0, -1.0], [-5.0, 2.0, -2.0]])})["Y"]
    np.testing.assert_array_equal(found, [[1, 5, 5], [1, 3, 4]])


def test_codes_of_texts() -> None:
    functions = "\n".join(map(library_text, ("frame_size", "frame_column", "cell_order", "text_codes")))
    script = f'{functions}\nF = read("F", data_type="frame")\n[C, T] = text_codes(F, rbind(as.frame(""), as.frame("b"), as.frame("a")))\nwrite(C, "C")\nwrite(T, "T")\n'
    model = export_script(script, inputs={"F": "string[N,1]"})
    given = np.array([["a"], ["new"], ["b"], [""], ["x"], ["new"], ["é"]], object)
    found = run_model(model, {"F": given})
    assert found["C"].ravel().tolist() == [3, 4, 2, 1, 5, 4, 6]
    assert found["T"].ravel().tolist() == ["", "b", "a", "new", "x", "é"]
