"""Candidates are tried by turns; the fastest one stays."""

from __future__ import annotations

import pytest

from onnx_systemds.runtime.autotune import TURNS, Autotuner


def played(seconds: dict[str, list[float]], calls: int) -> list[str]:
    """The names of the candidates that had a turn; each takes its seconds one after the other."""
    autotuner = Autotuner([*seconds])
    names = []
    for _ in range(calls):
        name = autotuner.next()
        names.append(name)
        autotuner.record(name, seconds[name][min(names.count(name), len(seconds[name])) - 1])
    return names


@pytest.mark.parametrize("fastest", ["a", "b", "c"])
def test_all_have_the_same_number_of_turns_and_then_the_fastest_stays(fastest: str) -> None:
    names = played({name: [1.0 + (name != fastest)] for name in "abc"}, 3 * TURNS + 5)
    assert names[:9] == [*"abccbaabc"]
    assert names[3 * TURNS :] == [fastest] * 5


def test_the_first_calls_do_not_count_and_single_ones_do_not_either() -> None:
    warm = [9.0] * (TURNS // 2) + [1.0] * 3 + [50.0] + [1.0]
    assert played({"a": [2.0], "b": warm}, 2 * TURNS + 1)[-1] == "b"


def test_the_first_is_kept_where_others_are_as_fast() -> None:
    assert played({"a": [1.0], "b": [1.0]}, 2 * TURNS + 1)[-1] == "a"


def test_one_candidate_is_always_next() -> None:
    assert played({"a": [1.0]}, 3 * TURNS) == ["a"] * (3 * TURNS)


def test_nothing_is_kept_of_the_calls_of_the_last_candidate() -> None:
    autotuner = Autotuner(["a", "b"])
    for _ in range(2 * TURNS + 100):
        autotuner.record(autotuner.next(), 1.0)
    assert autotuner.candidates == ["a"] and autotuner._seconds == [[]]


def test_what_is_dropped_has_no_more_turns() -> None:
    autotuner = Autotuner(["a", "b", "c"])
    autotuner.record("a", 1.0)
    autotuner.drop("b", "z")
    assert [autotuner.next(), autotuner.candidates] == ["c", ["a", "c"]]
    autotuner.drop("a", "z")
    assert autotuner.next() == "c"
    autotuner.drop("c", "z")
    assert autotuner.next() == "z" and autotuner._seconds == [[]]
