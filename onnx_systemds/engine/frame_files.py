"""Writes strings (the dictionaries of text tensors, frames) as SystemDS binary frames without a JVM; reads frames.

A frame is one of the `sequence_files`, of row blocks (1000 rows each). A key is the number of the first row (from 1), a
value rows, columns, one byte for default names, and for each column its type and its array: kind, size in memory, and
per string two bytes of length and Java's modified UTF-8. So a string has at most 65,535 bytes there, and an empty one
reads as null, which the text functions of the library take for the empty string.
Columns that have names come with them, with a count of distinct texts and with a text for missing ones.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from onnx_systemds.engine.metadata_files import write_metadata
from onnx_systemds.engine.sequence_files import SequenceFormat
from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.files import part_files

BLOCK_ROWS = 1000
LONGEST_BYTES = 65_535

_FORMAT = SequenceFormat(
    "blocks of a frame",
    (b"org.apache.hadoop.io.LongWritable", b"org.apache.sysds.runtime.frame.data.FrameBlock"),
    bytes.fromhex("6f6e6e782d7379737465786474730be2"),
    struct.Struct(">q"),  # the first row
)
_BLOCK = struct.Struct(">ii?")  # rows, columns, whether the names are the default ones
_TYPE = struct.Struct(">b")  # of a column (STRING)
_COUNT = struct.Struct(">q")  # distinct texts of a column that has a name
_ARRAY = struct.Struct(">bq")  # kind (strings), size in memory
_STRING_TYPE = 8
_STRING_ARRAY = 0


Texts = np.ndarray[Any, np.dtype[np.object_]]


def write_frame(target: Path, strings: Sequence[str] | Texts, names: Sequence[str] = ()) -> None:
    """Write `strings`, a column or rows x columns, as a frame to `target` and ``target.mtd``, over what stood there.

    names: of the columns; without them the engine calls these C1, C2 and so on. DML reads the frame by
    ``F = read("target")``, or as part of a list by ``F = as.frame(L["key"])``. Raises ValueError when
    there is no string, UnsupportedCase when one is longer than the format allows.
    """
    if not len(strings):
        raise ValueError("a frame must have a row")
    cells = np.array(strings, object).reshape(len(strings), -1)
    rows, cols = cells.shape
    with target.open("wb", buffering=1 << 18) as stream:
        stream.write(_FORMAT.head)
        for start in range(0, rows, BLOCK_ROWS):
            part = cells[start : start + BLOCK_ROWS]
            columns = map(_column, part.T.tolist(), names or [""] * cols)
            block = _BLOCK.pack(len(part), cols, not names) + b"".join(columns)
            stream.write(_FORMAT.record_head(start, (start + 1,), len(block)))
            stream.write(block)
    mtd = {"data_type": "frame", "schema": "STRING," * cols, "rows": rows, "cols": cols, "format": "binary"}
    write_metadata(target, mtd)


def _column(texts: Sequence[str], name: str) -> bytes:
    encoded = [_encoded(text) for text in texts]
    # What the engine takes the strings' objects for; it only plans its memory by it.
    memory = sum(64 + 2 * len(text) for text in encoded)
    notes = _encoded(name) + _COUNT.pack(-1) + _encoded("") if name else b""
    return _TYPE.pack(_STRING_TYPE) + notes + _ARRAY.pack(_STRING_ARRAY, memory) + b"".join(encoded)


@dataclass(frozen=True, eq=False)
class NotedFrame:
    """A frame of texts, `cells`, and what the engine noted to put into missing cells, by column: "" for nothing.

    names: of its columns, where they have others than C1, C2 and so on.
    """

    cells: Texts
    missing: tuple[str, ...]
    names: tuple[str, ...] = ()


def noted(cells: Texts, missing: Sequence[str], names: Sequence[str] = ()) -> Texts | NotedFrame:
    """Return a frame with its notes, or only its cells where there are none. "null" is the engine's word for none."""
    known = tuple("" if note == "null" else note for note in missing)
    if all(name in ("", f"C{place}") for place, name in enumerate(names, 1)):
        names = ()
    return NotedFrame(cells, known, tuple(names)) if any(known) or names else cells


def read_frame(path: Path, rows: int, cols: int) -> Texts | NotedFrame:
    """Return the texts of the binary frame in the file or directory `path`, missing ones as "", and its notes.

    Raises InvalidModel when it is no such frame of strings, OSError when it cannot be read.
    """
    frame, missing, names = np.full((rows, cols), "", object), [""] * cols, [""] * cols
    for file in part_files(path):
        with file.open("rb") as stream:
            try:
                for (first,), record in _FORMAT.records(stream):
                    columns = list(_read_columns(io.BytesIO(record)))
                    block = np.array([cells for cells, _, _ in columns], object).reshape(cols, -1).T
                    frame[first - 1 : first - 1 + len(block)] = block
                    missing = [note or before for (_, note, _), before in zip(columns, missing)]
                    names = [name for _, _, name in columns]
            except (struct.error, ValueError, IndexError) as error:
                raise InvalidModel(f"{quoted(str(file))} is no binary frame of strings: {error}",
                                   hint='let the script write the frame with format="csv"') from error
    return noted(frame, missing, names)


def _read_columns(record: BinaryIO) -> Iterator[tuple[list[str], str, str]]:
    rows, cols, is_plain = _BLOCK.unpack(record.read(_BLOCK.size))
    for _ in range(cols):
        (kind,) = _TYPE.unpack(record.read(_TYPE.size))
        if abs(kind) != _STRING_TYPE:
            raise ValueError("a column holds other than strings")
        name = missing = ""
        if not is_plain:
            name = _read_text(record)
            record.read(_COUNT.size)
            missing = _read_text(record)
        if kind < 0 or not rows:  # the column has no array
            yield [""] * rows, missing, name
            continue
        array, _ = _ARRAY.unpack(record.read(_ARRAY.size))
        if array != _STRING_ARRAY:
            raise ValueError("a column is compressed")
        yield [_read_text(record) for _ in range(rows)], missing, name


def _read_text(record: BinaryIO) -> str:
    (length,) = struct.unpack(">H", record.read(2))
    data = record.read(length)
    if len(data) != length:
        raise ValueError("it ends within a string")
    halves = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _encoded(text: str) -> bytes:
    """Return the length and the modified UTF-8 of a string: NUL has two bytes, each half of a surrogate pair three."""
    if text.isascii():
        data = text.encode("ascii")
    else:
        units = text.encode("utf-16-le", "surrogatepass")
        halves = "".join(map(chr, struct.unpack(f"<{len(units) // 2}H", units)))
        data = halves.encode("utf-8", "surrogatepass")
    data = data.replace(b"\x00", b"\xc0\x80")
    if len(data) > LONGEST_BYTES:
        raise UnsupportedCase(
            f"the string {quoted(text[:40])}... takes {len(data)} bytes: more than a SystemDS frame can be read with"
        )
    return struct.pack(">H", len(data)) + data
