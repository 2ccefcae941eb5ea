"""Places of the best numbers that functions of converted models find: ArgMax and TopK, with their numbers for NaN."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.dml.templates import library_imports, library_text
from tests.exporting.export_harness import Array, run_model
from tests.exporting.test_idioms import exported, operators

NAN, INF = np.nan, np.inf
ROWS = np.array([[1.0, 3.0, 3.0, 0.0], [3.0, NAN, INF, NAN], [INF, -INF, INF, 1.0], [-INF, -INF, -INF, -INF],
                 [NAN, NAN, NAN, NAN], [INF, 2.0, NAN, -INF], [-1.0, -1.0, -2.0, -2.0], [0.0, -0.0, 0.0, -0.0]])
COUNTS = "C = cbind(X > 0, rowSums(X == 3), matrix(0.5, nrow(X), 2))\n"


def best(rows: Array, *, largest: bool, last: bool) -> Array:
    """The place of the best number of each row; NaN is the best of all."""
    found = []
    for row in rows:
        best_of = row.max() if largest else row.min()
        places = np.flatnonzero(np.isnan(row) if np.isnan(row).any() else row == best_of)
        found.append(places[-1 if last else 0])
    return np.array(found)


def functions(name: str) -> str:
    return "\n".join(map(library_text, (*library_imports(name), name)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["row_arg_max", "row_arg_max_last", "row_arg_min", "row_arg_min_last"])
def test_the_best_place_of_each_row(name: str, dtype: str) -> None:
    largest, last = "max" in name, name.endswith("last")
    model = exported(f"{functions(name)}\nY = {name}(X)", dims="N,4", dtype=dtype)
    op = "ArgMax" if largest else "ArgMin"
    assert [used for used in operators(model) if used.startswith("Arg")] == [op]
    assert len(operators(model)) <= 8
    np.testing.assert_array_equal(run_model(model, {"X": ROWS})["Y"].ravel(), best(ROWS, largest=largest, last=last))
    counted = exported(f"{functions(name)}\n{COUNTS}Y = {name}(C)", dims="N,4")  # never NaN
    assert operators(counted)[-2:] == [op, "Cast"]
    assert "IsNaN" not in operators(counted)
    counts = np.hstack([ROWS > 0, (ROWS == 3).sum(1, keepdims=True), np.full((len(ROWS), 2), 0.5)])
    np.testing.assert_array_equal(run_model(counted, {"X": ROWS})["Y"].ravel(), best(counts, largest=largest, last=last))


@pytest.mark.parametrize("scores", ["log(X > 0)", "(X > 0) / 0", "rowSums(X) * (X > 0)", "1e200 * (1e200 * (X > 0))",
                                    "cbind(X > 0, X * matrix(\"0 0 0 0\", rows=1, cols=4))"])
def test_what_may_be_missing_is_looked_for(scores: str) -> None:
    model = exported(f"{functions('row_arg_max')}\nY = row_arg_max({scores})", dims="N,4")
    assert "IsNaN" in operators(model)


def top(rows: Array, k: int, *, largest: bool) -> Array:
    """The places of the best k of each row; NaN is more than infinity."""
    return np.array([sorted(range(len(row)), key=lambda i: _key(row[i], largest)) for row in rows])[:, :k]


def _key(number: float, largest: bool) -> tuple[bool, float]:
    missing = bool(np.isnan(number))
    return missing != largest, 0.0 if missing else (-number if largest else number)


@pytest.mark.parametrize(("name", "k", "largest"), [
    ("top_k_passes", 2, True), ("top_k_passes", 3, False), ("top_k_sorted", 4, True), ("top_k_sorted", 1, False),
])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_best_numbers_of_each_row(name: str, k: int, largest: bool, dtype: str) -> None:
    body = f"{functions(name)}\n[V, I] = {name}(X, {k}, {str(largest).upper()})\nY = cbind(V, I)"
    model = exported(body, dims="N,4", dtype=dtype)
    assert operators(model) == ["IsNaN", "Min", "Where", "TopK", "GatherElements", "Cast", "Concat"]
    places = top(ROWS, k, largest=largest)
    found = run_model(model, {"X": ROWS})["Y"]
    np.testing.assert_array_equal(found[:, k:], places)
    np.testing.assert_array_equal(found[:, :k], np.take_along_axis(ROWS, places, 1))


def test_missing_numbers_are_more_than_infinity_in_16_bits() -> None:
    body = f"{functions('top_k_passes')}\n[V, Y] = top_k_passes(X, 2, TRUE)"
    found = run_model(exported(body, dims="N,3", dtype="bfloat16"), {"X": np.array([[INF, 1.0, NAN]])})["Y"]
    assert found.tolist() == [[2.0, 0.0]]


@pytest.mark.parametrize(("k", "wanted"), [("2", True), ("0", False), ("nrow(X)", False)])
def test_a_number_of_places_that_is_known(k: str, wanted: bool) -> None:
    model = exported(f"{functions('top_k_sorted')}\n[Y, I] = top_k_sorted(X, {k}, TRUE)", dims="N,4", dtype="float32")
    assert (operators(model) == ["IsNaN", "Min", "Where", "TopK", "GatherElements"]) is wanted
