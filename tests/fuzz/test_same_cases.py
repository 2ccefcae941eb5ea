"""A seed gives the same case in every process, whatever the order of sets is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import hashlib
from tests.fuzz.judging import ModelCase
from tests.fuzz.sources import SOURCES
for kind, source in SOURCES.items():
    for case in source.cases(2_000_000, 20 if source.is_small else 4):
        text = repr((case.model.SerializeToString(), case.calls)) if isinstance(case, ModelCase) else repr(case)
        print(kind, hashlib.sha256(text.encode()).hexdigest())
"""


def _digests(seed: str) -> list[str]:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow("cases of all kinds, twice")
def test_a_seed_gives_the_same_case_in_every_process() -> None:
    first, second = _digests("1"), _digests("4242")
    assert len(first) >= 100
    assert first == second
