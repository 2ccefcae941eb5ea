"""Random loops against onnxruntime: as they are, compiled for the sizes of each run, and by the plain command line."""

from __future__ import annotations

import pytest

from onnx_systemds.engine.session import shared_session
from tests.fuzz.command_line import check_plainly
from tests.fuzz.judging import check_model
from tests.fuzz.loop_models import case


@pytest.mark.parametrize("seed", range(5000, 5024))
@pytest.mark.parametrize("specialise_after", [20, 1])
def test_random_loop(seed: int, specialise_after: int) -> None:
    finding = check_model(case(seed, specialise_after), shared_session())
    assert finding is None, f"{finding.kind}: {finding.detail}\n{finding.text}"


def test_random_loops_by_the_command_line() -> None:
    findings = check_plainly([case(seed) for seed in range(5100, 5116)])
    assert not findings, "\n".join(f"{finding.kind} {finding.seed}: {finding.detail}" for finding in findings)
