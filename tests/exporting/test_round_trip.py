"""Official cases come through the way there and back, by manifest.

A case in ``round_trip.txt`` must pass; one in ``round_trip_missing.txt`` has its reason there. Both are rewritten by
``python -m tests.exporting.round_trip --write``.
"""

from __future__ import annotations

import pytest

from tests.exporting.round_trip import MANIFEST, candidates, read_missing, round_trip

PASSING = MANIFEST.read_text(encoding="utf-8").split()
LEAST_SHARE = 0.7


@pytest.mark.slow("all official cases are made")
def test_every_case_is_listed_once() -> None:
    hint = "refresh by python -m tests.exporting.round_trip --write"
    assert sorted([*PASSING, *read_missing()]) == list(candidates()), hint
    assert all(read_missing().values()), "a missing case needs its reason"


@pytest.mark.slow("all official cases are made")
def test_most_cases_agree() -> None:
    assert len(PASSING) >= LEAST_SHARE * len(candidates())


@pytest.mark.slow("1,800 models are converted twice and run by onnxruntime")
@pytest.mark.parametrize("name", PASSING)
def test_case(name: str) -> None:
    round_trip(name)
