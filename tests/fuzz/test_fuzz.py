"""The fuzzer for some minutes: fixed seeds, as many cases of each kind as the gate has time for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from onnx_systemds.engine.session import shared_session
from tests.fuzz.command_line import check_plainly
from tests.fuzz.finding import Finding
from tests.fuzz.sources import SOURCES

_PARTS = 4  # of each kind, so that both processors have something to do
_COUNTS = {"operators": 400, "graphs": 60}
_PLAIN = {"operators": 40, "graphs": 20}
_SEED = 1_000_000
_NO_PLACES = 1_000_007
"""Rows are gathered by the places of a NonZero that finds none, in a block where the engine counts ``seq(1, 0)`` down."""
_WRONG_ROWS = 1_000_012
"""Of ``ifelse(M, X, matrix(-10000, ..))`` a program with calls of two sizes takes 10,000 for the number of rows."""
_OPEN = {"graphs": {_NO_PLACES}}
_OPEN_BY_THE_COMMAND_LINE = {"graphs": {_NO_PLACES, _WRONG_ROWS}}
"""Seeds whose errors are known and not mended; each has to end in its error, so that it goes from here once it is."""


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("kind", SOURCES)
def test_random_cases(kind: str, part: int) -> None:
    count = _COUNTS.get(kind, 40) // _PARTS
    source = SOURCES[kind]
    found = [finding for case in source.cases(_SEED + part * count, count)
             if (finding := source.check(case, shared_session())) is not None]  # fmt: skip
    drawn = range(_SEED + part * count, _SEED + (part + 1) * count)
    _check(found, _OPEN.get(kind, set()).intersection(drawn))


@pytest.mark.parametrize("kind", _PLAIN)
def test_random_cases_by_the_command_line(kind: str) -> None:
    _check(check_plainly(list(SOURCES[kind].cases(_SEED, _PLAIN[kind]))), _OPEN_BY_THE_COMMAND_LINE.get(kind, set()))


def _check(found: Sequence[Finding], known: set[int]) -> None:
    """The errors of known seeds are found, and nothing else."""
    others = [each for each in found if each.seed not in known or each.kind != "error"]
    assert not others, "\n\n".join(f"{each.kind} (seed {each.seed}): {each.detail}\n{each.text}" for each in others)
    assert {each.seed for each in found} == known
