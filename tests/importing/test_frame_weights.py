"""Frames written without a JVM, read by the engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds.engine import shared_session
from onnx_systemds.engine.frame_files import LONGEST_BYTES, write_frame
from onnx_systemds.engine.matrix_files import Weight, write_list
from onnx_systemds.errors import UnsupportedCase
from tests.command_line import run_dml
from tests.operators.test_text_library import HOSTILE


def read_back(script: str) -> list[str]:
    """The column G of a script."""
    got = shared_session().prepare(f'{script}\nwrite(G, "./G")', [], ["G"])({})
    return [str(cell) for cell in got["G"][:, 0]]


@pytest.mark.parametrize("strings", [HOSTILE, ["one"], [""], [f"token {i}·é" for i in range(2500)], ["é" * (LONGEST_BYTES // 2)],
                                     [chr(i) for i in range(0x2FF) if i]], ids=["hostile", "one", "empty", "blocks", "long", "all"])
def test_the_engine_reads_the_strings(strings: list[str], tmp_path: Path) -> None:
    write_frame(tmp_path / "texts", strings)
    assert read_back(f'G = read("{tmp_path}/texts", data_type="frame")') == strings


def test_a_frame_in_a_list(tmp_path: Path) -> None:
    write_list(tmp_path, "weights", [Weight("w", np.eye(3))])
    write_frame(tmp_path / "weights" / "1_texts", HOSTILE)
    mtd = tmp_path / "weights.mtd"
    mtd.write_text(json.dumps(json.loads(mtd.read_text()) | {"rows": 2}))
    script = f'L = read("{tmp_path}/weights", data_type="list")\nG = as.frame(L["texts"])\nw = sum(as.matrix(L["w"]))'
    assert read_back(script) == HOSTILE
    printed = run_dml('L = read("weights", data_type="list")\nG = as.frame(L["texts"])\nprint(nrow(G) + as.scalar(G[6, 1]))', tmp_path)
    assert f"{len(HOSTILE)}x·y" in printed


def test_strings_beyond_the_format(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCase):
        write_frame(tmp_path / "texts", ["é" * (LONGEST_BYTES // 2 + 1)])
    with pytest.raises(ValueError, match="row"):
        write_frame(tmp_path / "texts", [])
