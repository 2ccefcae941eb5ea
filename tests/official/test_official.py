"""ONNX's own backend cases on the engine, by positive manifest.

A case in ``passing.txt`` must pass; one in ``missing.txt`` has its reason there and must not pass unnoticed. Cases that
expect numpy's own random numbers stand there as well, and are judged by types, shapes and what may be drawn: now and then
all ten numbers are those that the case expects.
Both are rewritten by ``python -m tests.official.survey --write``.
"""

from __future__ import annotations

import pytest

from tests.official.cases import as_drawn, official_cases, run_case
from tests.official.survey import MANIFEST, MISSING, read_manifest, read_missing

PASSING = read_manifest()
LISTED = sorted(PASSING | read_missing().keys())  # all of them: making the cases takes seconds, which collecting need not


def test_every_case_is_listed_once() -> None:
    missing = read_missing()
    assert not PASSING & missing.keys(), f"in both {MANIFEST.name} and {MISSING.name}"
    assert PASSING | missing.keys() == set(official_cases())
    assert all(missing.values()), "a missing case needs its reason"


@pytest.mark.parametrize("name", LISTED)
def test_case(name: str) -> None:
    case = official_cases()[name]
    if name in PASSING:
        run_case(case)
        return
    if "bernoulli" in name:
        run_case(case, as_drawn)
        return
    try:
        run_case(case)
    except Exception:  # whatever stops it: the reason stands in the manifest
        return
    pytest.fail(f"{name} passes: add it to {MANIFEST.name}")
