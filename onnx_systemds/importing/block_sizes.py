"""The number of rows in a block of samples."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_systemds.importing.script import Script

BLOCK_BYTES = 16 << 20
"""Of the largest value of a block, as the engine's doubles."""
BLOCK_ELEMENTS = BLOCK_BYTES // 8
MOST_ROWS = 50_000
"""Of a block: more are not faster, and progress is shown for each block."""

ENGINE_BLOCK = 1000
"""Rows of the blocks into which the engine divides matrices."""


def rows_of_block(script: Script, sizes: Mapping[str, int]) -> int:
    """The number of rows of a block. sizes: of the symbols other than the batch."""
    return max(1, min(MOST_ROWS, BLOCK_ELEMENTS // max(1, script.cells_of_sample(sizes))))


def rows_of_task(rows: int) -> int:
    """The number of rows of a block for a task of Spark, at most ``rows``.

    Only where blocks divide those of the engine, by a number that it knows when it compiles, it divides the matrix
    among tasks; else each process gets all of it.
    """
    return next(size for size in range(min(rows, ENGINE_BLOCK), 0, -1) if ENGINE_BLOCK % size == 0)
