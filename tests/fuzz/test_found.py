"""What the fuzzer has found, each at its smallest: right now, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onnx_systemds.engine.session import shared_session
from tests.fuzz.found_cases import FOLDER
from tests.fuzz.sources import SOURCES


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_found(path: Path) -> None:
    source = SOURCES[json.loads(path.read_text(encoding="utf-8"))["kind"]]
    finding = source.check(source.read(path), shared_session())
    assert finding is None, f"{finding.kind}: {finding.detail}\n{finding.text}"
