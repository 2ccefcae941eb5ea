"""Models of large weights in several files; that of more than 2 GB on demand by ``scripts/test -m big`` (8 GB of disk)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.conversion import CHILD
from benchmarks.graphs import write_external
from onnx_systemds.engine.matrix_files import read_matrix

WIDTH = 4096


@pytest.mark.parametrize(("megabytes", "most"), [
    pytest.param(320, 3e8, marks=pytest.mark.slow("writes and reads 320 MB")),
    pytest.param(2560, 1e9, marks=pytest.mark.big),
])
def test_external_data_is_converted_in_little_memory(megabytes: int, most: float, tmp_path: Path) -> None:
    model, script = tmp_path / "external.onnx", tmp_path / "external.dml"
    write_external(model, megabytes, width=WIDTH)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.data")) == megabytes << 20
    done = subprocess.run([sys.executable, "-c", CHILD, model, script], capture_output=True, text=True, check=True)
    *seconds, peak = map(float, done.stdout.split())
    print(f"converted and written in {sum(seconds):.1f} s, peak memory {peak / 1e6:.0f} MB")
    assert peak <= most
    folder = tmp_path / "external.weights" / "weights"
    for position in (0, megabytes // 64 - 1):
        (weight,) = folder.glob(f"*_W{position}")
        matrix = read_matrix(weight)
        assert matrix.shape == (WIDTH, WIDTH) and matrix[0, 0] == position
        assert np.isfinite(matrix).all()
