"""Matrices that stay in their files until a model is written: `StoredMatrix`, read piece by piece.

An export knows their sizes, not their content, and so takes no memory for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.array_files import Array, read_array_file
from onnx_systemds.engine.matrix_files import matrix_blocks, matrix_of, matrix_sizes, read_matrix
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.float_rounding import rounded

_NARROW_BYTES = 2
_PIECE = 1 << 20
"""Numbers of a piece of an .npy file."""


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix of `rows` x `cols` in an .npy file, or else in SystemDS's binary blocks."""

    path: Path
    rows: int
    cols: int
    is_npy: bool

    @property
    def size(self) -> int:
        """The number of its elements."""
        return self.rows * self.cols

    def pieces(self) -> Iterator[tuple[int, int, Array]]:
        """Yield parts of it, each with its first row and column, from 0; what none of them holds is zeros.

        Raises TranspileError, OSError.
        """
        return self._parts_of_array() if self.is_npy else matrix_blocks(self.path)

    def read(self, dtype: Any = np.float64) -> Array:
        """Return all of it. Raises TranspileError, OSError."""
        if not self.is_npy and dtype == np.float64:
            return read_matrix(self.path)
        return matrix_of(self.rows, self.cols, self.pieces_of(np.dtype(dtype)), dtype)

    def pieces_of(self, dtype: np.dtype[Any]) -> Iterator[tuple[int, int, Array]]:
        """Yield its `pieces` in a type of a model. Raises TranspileError where 16 bits cannot hold a number."""
        for row, column, part in self.pieces():
            held = rounded(part, dtype)
            if dtype.itemsize == _NARROW_BYTES and (overflowed := np.isfinite(part) & ~np.isfinite(held)).any():
                message = f"the number {part[overflowed][0]:g} is beyond {dtype.name}"
                raise TranspileError(message, self.path, "use another --dtype")
            yield row, column, held

    def _parts_of_array(self) -> Iterator[tuple[int, int, Array]]:
        """Yield lines of the file, read one after the other: rows, or columns where these lie together."""
        array = read_array_file(self.path, mapped=True)
        assert isinstance(array, np.memmap)
        by_rows = array.flags.c_contiguous
        lines, length = (self.rows, self.cols) if by_rows else (self.cols, self.rows)
        height, width = max(1, _PIECE // length), min(length, _PIECE)
        with self.path.open("rb") as stream:
            stream.seek(array.offset)
            for line in range(0, lines, height):
                for place in range(0, length, width):
                    shape = min(height, lines - line), min(width, length - place)
                    part = np.fromfile(stream, array.dtype, math.prod(shape))
                    if part.size != math.prod(shape):
                        raise TranspileError("it ends before its last number", self.path)
                    yield (line, place, part.reshape(shape)) if by_rows else (place, line, part.reshape(shape).T)


def stored_blocks(path: Path) -> StoredMatrix:
    """Return the matrix in a file or folder of SystemDS's binary blocks. Raises InvalidModel."""
    return StoredMatrix(path, *matrix_sizes(path), is_npy=False)


def stored_array(path: Path) -> StoredMatrix | None:
    """Return the array of an .npy file as a matrix, None where its elements do not lie in the order of one.

    Raises TranspileError, OSError.
    """
    array = read_array_file(path, mapped=True)
    if not isinstance(array, np.memmap) or array.dtype.kind not in "fiub" or not array.ndim or not array.size:
        return None
    if not array.flags.c_contiguous and array.ndim != 2:
        return None
    return StoredMatrix(path, array.shape[0], math.prod(array.shape[1:]), is_npy=True)
