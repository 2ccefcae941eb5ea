"""Hadoop sequence files, uncompressed and without metadata: what the engine's binary matrices and frames lie in.

A head names the classes of keys and values. Each record is its length, that of its key, the key and the value. Marks
between records, -1 and the 16 bytes at the end of the head, let Hadoop split a file there.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

_VERSION = b"SEQ\x06"
_MARK_SIZE = 16


@dataclass(frozen=True, slots=True)
class SequenceFormat:
    """What the records of a file are.

    content: in words. classes: of keys and values, as Hadoop names them. mark: 16 bytes that values do not hold by
    chance; fixed, so that equal contents give equal files. key: the layout of keys.
    """

    content: str
    classes: tuple[bytes, bytes]
    mark: bytes
    key: struct.Struct

    @property
    def head(self) -> bytes:
        """How a file begins."""
        return _VERSION + b"".join(bytes([len(name)]) + name for name in self.classes) + bytes(6) + self.mark

    @property
    def between(self) -> bytes:
        """What stands between records."""
        return struct.pack(">i", -1) + self.mark

    def record_head(self, number: int, key: tuple[int, ...], size: int) -> bytes:
        """What is written before the value, of so many bytes, of the record after so many others."""
        lengths = struct.pack(">ii", self.key.size + size, self.key.size)
        return (self.between if number else b"") + lengths + self.key.pack(*key)

    def records(self, stream: BinaryIO) -> Iterator[tuple[tuple[Any, ...], memoryview]]:
        """Yield key and value of each record. Raises ValueError, IndexError or struct.error where a file is damaged."""
        if stream.read(len(_VERSION)) != _VERSION:
            raise ValueError("no sequence file of version 6")
        if tuple(stream.read(stream.read(1)[0]) for _ in self.classes) != self.classes:
            raise ValueError(f"no {self.content}")
        if stream.read(6) != bytes(6):
            raise ValueError("compressed, or with metadata")
        if len(mark := stream.read(_MARK_SIZE)) != _MARK_SIZE:
            raise ValueError("it ends within its header")
        largest = os.fstat(stream.fileno()).st_size
        while head := stream.read(4):
            (length,) = struct.unpack(">i", head)
            if length == -1:
                if stream.read(_MARK_SIZE) != mark:
                    raise ValueError("a sync mark is damaged")
                continue
            if not self.key.size <= length <= largest:
                raise ValueError("a record has an impossible length")
            record = memoryview(stream.read(4 + length))
            if len(record) != 4 + length:
                raise ValueError("it ends within a record")
            yield self.key.unpack_from(record, 4), record[4 + self.key.size :]
