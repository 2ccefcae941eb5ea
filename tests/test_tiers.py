"""Tests that start a JVM are found by their code, and one that starts it unmarked fails in the fast tier."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import ADVICE

ROOT = Path(__file__).parent.parent
TESTS = """
import subprocess
import numpy as np
import pytest
from onnx_systemds.engine import Session
from tests.operators.harness import Case, check_case
from tests.plain_engine import score_plainly

class Table:
    def check(self, case):
        check_case(case)

@pytest.fixture
def session():
    return Session()

def test_by_a_fixture(session): pass
def test_by_a_helper(): [check_case(case) for case in ()]
def test_by_a_method(): Table().check(None)
def test_by_a_program(): score_plainly(None, {})
@pytest.mark.parametrize("run", [lambda: Session()])
def test_by_a_parameter(run): run()
@pytest.mark.slow("it waits")
def test_slow(): pass
def test_by_a_process(): subprocess.run(["java", "-version"])
def test_without(): assert Case("Relu", 14, {"x": np.zeros(2)})
"""


def run(folder: Path, *options: str) -> str:
    (folder / "conftest.py").write_text("from tests.conftest import *\nfrom tests.conftest import _engine_is_marked\n")
    (folder / "test_them.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"),
               *options, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_the_fast_tier_starts_no_engine(tmp_path: Path) -> None:
    output = run(tmp_path, "--fast")
    assert "6 deselected" in output and "2 passed" in output and "1 error" in output, output
    assert f"Failed: {ADVICE}" in output and "ERROR" in output and "::test_by_a_process" in output


@pytest.mark.parametrize(("tier", "count"), [("engine", 5), ("slow", 1)])
def test_tiers_are_markers(tmp_path: Path, tier: str, count: int) -> None:
    assert f"{count}/8 tests collected" in run(tmp_path, "--collect-only", "-m", tier)
