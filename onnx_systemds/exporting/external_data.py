"""The weights of a model that lie in a file beside it, because they are many or because that is wanted."""

from __future__ import annotations

import sys
from typing import IO

import numpy as np
import onnx
from onnx import helper

from onnx_systemds.array_files import Array
from onnx_systemds.exporting.float_rounding import rounded
from onnx_systemds.exporting.stored_matrices import StoredMatrix

SMALLEST = 1024
"""Bytes of a weight from which on it goes into the file, where the model is too large without it."""
_ALIGNMENT = 4096  # a page, so that the file can be mapped


class ExternalData:
    """What goes into the file `location` beside a model: each weight once, at a place of its own.

    smallest_wanted: the bytes from which on weights are to lie there; None: only where the model is too large without.
    """

    def __init__(self, location: str, smallest_wanted: int | None = None) -> None:
        self.location = location
        self.smallest_wanted = smallest_wanted
        self.weights: list[tuple[Array | StoredMatrix, int, int]] = []  # content, type, place
        self.size = 0
        self._places: dict[StoredMatrix, int] = {}

    def smallest(self, too_large: bool) -> int | None:
        """Return the bytes from which on a weight goes into the file, None where all stay in the model."""
        return SMALLEST if self.smallest_wanted is None and too_large else self.smallest_wanted

    def take(self, tensor: onnx.TensorProto, content: Array | StoredMatrix | None, size: int) -> onnx.TensorProto:
        """Give a weight of `size` bytes a place in the file; return its tensor, which says where that is."""
        assert content is not None
        place = self._places.get(content) if isinstance(content, StoredMatrix) else None
        if place is None:
            place = -(-self.size // _ALIGNMENT) * _ALIGNMENT
            self.size = place + size
            self.weights.append((content, tensor.data_type, place))
            if isinstance(content, StoredMatrix):
                self._places[content] = place
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", self.location), ("offset", place), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def write(self, stream: IO[bytes]) -> None:
        """Write the content of the file, a piece at a time. Raises TranspileError, OSError."""
        stream.truncate(self.size)
        for content, data_type, place in self.weights:
            dtype = helper.tensor_dtype_to_np_dtype(data_type)
            if isinstance(content, StoredMatrix):
                _write_pieces(stream, content, dtype, place)
            else:
                stream.seek(place)
                stream.write(_bytes(rounded(content, dtype)).data)


def _write_pieces(stream: IO[bytes], content: StoredMatrix, dtype: np.dtype[np.generic], place: int) -> None:
    for row, column, part in content.pieces_of(dtype):
        together = part.reshape(1, -1) if part.shape[1] == content.cols else part
        for number, line in enumerate(_bytes(together)):
            stream.seek(place + ((row + number) * content.cols + column) * dtype.itemsize)
            stream.write(line.data)


def _bytes(array: Array) -> Array:
    """Return an array as bytes that lie together, the lowest of a number first."""
    together = np.ascontiguousarray(array)
    return (together if sys.byteorder == "little" else together.byteswap()).view(np.uint8)
