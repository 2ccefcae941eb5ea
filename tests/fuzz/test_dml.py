"""Drawn DML functions and damaged scripts, a few of each with fixed seeds; and that their checks can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from onnx_systemds.engine import EngineTimeout
from onnx_systemds.engine.session import shared_session
from onnx_systemds.exporting.builtins.registry import BUILTINS, Builtin
from tests.fuzz import dml_files, dml_functions, found_scripts
from tests.fuzz.bounded_worker import BoundedWorker
from tests.fuzz.dml_numpy import Unsure, evaluated

COUNT = 40
WRONG = "f = function(matrix[double] X) return (matrix[double] R1) {\n  R1 = abs(X) + nrow(X)\n}\n"
CASE = dml_functions.Case(1, WRONG, {"X": ("N", 2)}, ({"X": np.array([[-1.0, 2.0]])},), ("R1",))


def test_drawn_functions_agree() -> None:
    for case in map(dml_functions.case, range(7, 7 + COUNT)):
        assert dml_functions.check(case, shared_session()) is None, str(case)


def test_damaged_scripts_are_refused_in_words() -> None:
    for case in map(dml_files.case, range(7, 7 + COUNT)):
        assert dml_files.check(case) is None, str(case)


def test_the_same_seed_draws_the_same_case() -> None:
    assert str(dml_functions.case(3)) == str(dml_functions.case(3)) != str(dml_functions.case(4))
    assert str(dml_files.case(3)) == str(dml_files.case(3)) != str(dml_files.case(4))


def test_a_wrong_number_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert dml_functions.check(CASE, shared_session()) is None
    monkeypatch.setitem(BUILTINS, "abs", Builtin("abs", lambda ctx, target: target, BUILTINS["abs"].parameters))
    found = dml_functions.check(CASE, shared_session())
    assert found is not None and found.kind == "wrong"
    again = found_scripts.read(found_scripts.written("dml_functions", CASE, found, tmp_path))
    assert str(again) == str(CASE)


def test_a_plain_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILTINS, "abs", Builtin("abs", lambda ctx, target: [][1], BUILTINS["abs"].parameters))
    found = dml_functions.check(CASE, shared_session())
    assert found is not None and found.kind == "error" and "IndexError" in found.detail


def test_a_script_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dml_files, "_worker", BoundedWorker("tests.fuzz.dml_files", 0.2, dml_files.MEMORY))
    case = dml_files.Case(1, "x.dml", "".join(f"x{i} = {i}\n" for i in range(40_000)), 0)
    found = dml_files.check(case)
    assert found is not None and found.kind == "slow"
    assert found_scripts.read(found_scripts.written("dml_files", case, replace(found, seed=1), tmp_path)) == case


def test_the_judge_calculates_by_itself() -> None:
    (found,) = evaluated(WRONG, CASE.runs[0])
    np.testing.assert_array_equal(found, [[2.0, 3.0]])


def test_bounds_that_are_no_number_are_0() -> None:
    """The engine takes NaN for 0, too, but the mean of an infinity and NaN for the infinity (sums-of-infinities)."""
    script = """f = function(matrix[double] X) return (matrix[double] R1) {
      R1 = X[1, ]
      for (i in 1:as.integer(min(4, max(1, mean(X))))) { R1 = R1 + i }
    }"""
    for numbers in ([1, np.nan], [np.inf, np.nan]):
        case = dml_functions.Case(1, script, {"X": ("N", 1)}, ({"X": np.array([numbers]).T},), ("R1",))
        np.testing.assert_array_equal(evaluated(script, case.runs[0]), [[[numbers[0] + 1]]])
        assert dml_functions.check(case, shared_session()) is None


def test_numbers_beyond_all_integers_are_the_nearest_one() -> None:
    """So are infinities, which the engine does not get from the mean of an infinity and NaN (sums-of-infinities)."""
    script = """f = function(matrix[double] X) return (matrix[double] R1) {
      R1 = matrix(as.integer(-2 / as.integer(min(5, max(-2, mean(X))))), 1, 1)
    }"""
    case = dml_functions.Case(1, script, {"X": (2, 1)}, ({"X": np.array([[-np.inf], [np.nan]])},), ("R1",))
    np.testing.assert_array_equal(evaluated(script, case.runs[0]), [[[-(2.0**63)]]])
    assert dml_functions.check(case, shared_session()) is None


def test_the_judge_knows_weights_of_groups_and_orders_by_several_columns() -> None:
    """The engine's sum of a difference of zeros and others is its own (outer-minus), so numpy has to say."""
    script = """f = function(matrix[double] X) return (matrix[double] R1, matrix[double] R2, matrix[double] R3) {
      R1 = order(target=X, by=matrix("2 1", 1, 2), decreasing=TRUE)
      R2 = aggregate(target=X[, 1], groups=X[, 2], weights=X[, 2], fn="centralmoment", order="2", ngroups=3)
      R3 = as.matrix(sum(outer(X[, 1], t(X[, 1]), "-")))
    }"""
    case = dml_functions.Case(1, script, {"X": ("N", 2)}, ({"X": np.array([[1.0, 2], [3, 1], [4, 2]])},), ("R1", "R2", "R3"))
    judged = evaluated(script, case.runs[0])
    np.testing.assert_array_equal(judged[0], [[4, 2], [1, 2], [3, 1]])
    np.testing.assert_array_equal(judged[1], [[0], [2.25], [np.nan]])
    np.testing.assert_array_equal(judged[2], [[0]])
    assert dml_functions.check(case, shared_session()) is None


@pytest.mark.parametrize("number", ["abs(0 - as.integer(as.scalar(X[1, 1])))", "as.integer(-as.scalar(X[1, 1])) %% 6"])
def test_integers_beyond_64_bits_are_not_judged(number: str) -> None:
    script = f"""f = function(matrix[double] X) return (matrix[double] R1) {{
      R1 = X + min(2, {number})
    }}"""
    case = dml_functions.Case(1, script, {"X": ("N", 1)}, ({"X": np.array([[-np.inf], [2.0]])},), ("R1",))
    with pytest.raises(Unsure):
        evaluated(script, case.runs[0])
    assert dml_functions.check(case, shared_session()) is None


def test_the_judge_misses_nothing_that_is_not_read() -> None:
    """The engine takes numbers of lists with names for 0 (double-in-named-list), so numpy has to say."""
    script = """f = function(matrix[double] X) return (matrix[double] R1) {
      k = interQuartileMean(X)
      items = list(a=X, b=-1)
      R1 = X - as.scalar(items[2])
    }"""
    case = dml_functions.Case(1, script, {"X": ("N", 1)}, ({"X": np.array([[1.0], [2.0], [4.0], [8.0]])},), ("R1",))
    np.testing.assert_array_equal(evaluated(script, case.runs[0]), [[[2], [3], [5], [9]]])
    assert dml_functions.check(case, shared_session()) is None


def test_places_outside_that_the_engine_does_not_reach_are_no_finding() -> None:
    """Its mean of infinities of both signs is one of them, and no NaN, so that the loop does not go down to 0."""
    script = """f = function(matrix[double] X) return (matrix[double] R1) {
      R1 = X
      for (i in 1:as.integer(min(2, max(1, mean(X))))) { R1 = rbind(R1, X[i, ]) }
    }"""
    case = dml_functions.Case(1, script, {"X": ("N", 1)}, ({"X": np.array([[np.inf], [-np.inf]])},), ("R1",))
    with pytest.raises(Unsure):
        evaluated(script, case.runs[0])
    assert dml_functions.check(case, shared_session()) is None


def test_rows_that_are_chosen_beside_infinite_ones_are_not_judged() -> None:
    script = """f = function(matrix[double] X) return (matrix[double] R1) {
      R1 = table(seq(1, 1), rowIndexMax(t(X > 1)), 1, nrow(X)) %*% X
    }"""
    case = dml_functions.Case(1, script, {"X": ("N", 1)}, ({"X": np.array([[-np.inf], [2.0]])},), ("R1",))
    with pytest.raises(Unsure):
        evaluated(script, case.runs[0])
    assert dml_functions.check(case, shared_session()) is None


def test_a_compiler_that_does_not_end_is_no_finding() -> None:
    session = Mock(prepare=Mock(side_effect=EngineTimeout("preparing a script took longer than 60 seconds")))
    assert dml_functions.check(CASE, session) is None
    session.prepare.assert_called_once()


def test_a_script_that_does_not_end_is_no_finding() -> None:
    prepared = Mock(side_effect=EngineTimeout("a call took longer than 20 seconds"))
    session = Mock(prepare=Mock(return_value=prepared))
    assert dml_functions.check(CASE, session) is None
    prepared.assert_called_once()
