"""Matrices as the engine itself writes large ones: directories of part files."""

from __future__ import annotations

from pathlib import Path

from onnx_systemds.engine.matrix_files import FORMAT


def divide_file(path: Path) -> None:
    """Make a directory of parts of a file of blocks."""
    blocks = path.read_bytes().split(FORMAT.between)
    path.unlink()
    path.mkdir()
    half = (len(blocks) + 1) // 2
    (path / "part-00000").write_bytes(FORMAT.between.join(blocks[:half]))
    if blocks[half:]:
        (path / "part-00001").write_bytes(FORMAT.head + FORMAT.between.join(blocks[half:]))
