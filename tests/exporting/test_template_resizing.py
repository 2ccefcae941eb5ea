"""Interpolation that scripts of converted models compute by weights: a Resize again, and where it is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from benchmarks.round_trip import exported as back
from benchmarks.round_trip import operators as counted
from onnx_systemds import import_model
from onnx_systemds.dml.templates import library_text
from onnx_systemds.operators.onnx.interpolation import Resampling, positions, weights
from tests.exporting.export_harness import Array, assert_close, run_model
from tests.exporting.test_idioms import exported, operators
from tests.operators.harness import Case, case_model

HALF, CORNERS, LEFT = ({"coordinate_transformation_mode": mode} for mode in ("half_pixel", "align_corners", "asymmetric"))
LINEAR, CUBIC = {"mode": "linear"}, {"mode": "cubic"}
FORMS: list[tuple[dict[str, Any], list[int], bool]] = [
    (LINEAR | HALF, [2, 3, 7, 9], True),
    (LINEAR | CORNERS, [2, 3, 3, 9], True),
    (LINEAR | LEFT, [2, 3, 8, 3], True),
    (LINEAR | HALF, [2, 3, 4, 11], True),  # columns alone
    (LINEAR | CORNERS, [2, 3, 9, 5], True),  # rows alone
    (CUBIC | HALF, [2, 3, 7, 9], True),
    (CUBIC | CORNERS | {"cubic_coeff_a": -0.5}, [2, 3, 3, 9], True),
    (CUBIC | LEFT | {"cubic_coeff_a": -0.6}, [2, 3, 7, 9], False),
    (CUBIC | HALF | {"exclude_outside": 1}, [2, 3, 7, 9], False),
    (LINEAR | HALF | {"antialias": 1}, [2, 3, 2, 3], False),
]


def resized(attributes: dict[str, Any], sizes: list[int]) -> tuple[Any, Array]:
    data = np.random.default_rng(8).normal(size=(2, 3, 4, 5)).astype(np.float32)
    inputs = {"X": data, "roi": None, "scales": None, "sizes": np.array(sizes)}
    return case_model(Case("Resize", 19, inputs, attributes, constants=["sizes"])), data


@pytest.mark.parametrize(("attributes", "sizes", "returns"), FORMS, ids=str)
def test_a_resize_comes_back(attributes: dict[str, Any], sizes: list[int], returns: bool) -> None:
    model, data = resized(attributes, sizes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"X": data})[0]
    script = import_model(model)
    found, _ = back(script, {script.inputs[0].name: data})
    assert ("Resize" in counted(found)) is returns
    if returns:
        assert counted(found).total() <= 7
    result = next(iter(run_model(found, {found.graph.input[0].name: data}).values()))
    assert_close(result, wanted.reshape(result.shape).astype(np.float64), 1e-5, str(attributes))


FUNCTIONS = "".join(map(library_text, ("interpolated_columns", "interpolated_rows", "interpolated_planes")))
PLANES = "Y = interpolated_planes(matrix(X, rows=3 * nrow(X) * 4, cols=5), A, B)"


def table(coordinates: str, size: int, count: int) -> Array:
    how = Resampling("linear", coordinates)
    at = np.clip(positions(how, size, count, count / size, (0.0, 1.0)), 0, size - 1)
    return weights(how, at, size, count / size)


HALVES = {"A": table("half_pixel", 4, 7), "B": table("half_pixel", 5, 9)}
MIXED = {"A": table("align_corners", 4, 7), "B": table("half_pixel", 5, 9)}
OTHER = {"A": table("half_pixel", 4, 7) * (1 + 1e-6), "B": table("half_pixel", 5, 9)}


@pytest.mark.parametrize(("bound", "opset", "wanted"), [(HALVES, 21, True), (HALVES, 13, True), (MIXED, 21, False), (OTHER, 21, False)])
@pytest.mark.parametrize("dims", ["N,60", "2,60"])
def test_planes_by_weights(bound: dict[str, Array], opset: int, wanted: bool, dims: str) -> None:
    model = exported(f"{FUNCTIONS}\n{PLANES}", bound, dims=dims, opset=opset)
    assert operators(model).count("Resize") == wanted
    data = np.random.default_rng(9).normal(size=(2, 60))
    expected = bound["A"].T @ data.reshape(6, 4, 5) @ bound["B"]
    assert_close(run_model(model, {"X": data})["Y"], expected.reshape(6, -1), 1e-5, dims)


def test_planes_in_float64_are_products() -> None:
    model = exported(f"{FUNCTIONS}\n{PLANES}", HALVES, dims="2,60", dtype="float64")
    assert "Resize" not in operators(model)


def test_weights_that_are_computed() -> None:
    model = exported(f"{FUNCTIONS}\nY = interpolated_columns(matrix(X, 12, 5), B * sum(X[1, 1] > -1))", {"B": HALVES["B"]}, dims="1,60")
    assert "Resize" not in operators(model)
