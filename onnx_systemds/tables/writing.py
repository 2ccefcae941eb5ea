"""Writes results, block of rows by block of rows, as csv, parquet, npy or npz."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Protocol

import numpy as np

from onnx_systemds.array_files import write_npz
from onnx_systemds.errors import TranspileError, quoted
from onnx_systemds.tables.reading import Array, pyarrow

LARGEST_CHUNK = 1 << 20  # of a file that is copied

Columns = Mapping[str, Array]


class Writer(Protocol):
    """Takes blocks of results and puts them into a stream."""

    def write(self, results: Mapping[str, Array]) -> None:
        """Add arrays, by names, to those of the blocks before. Raises TranspileError, OSError."""

    def finish(self) -> None:
        """Write what is left."""


def columns_of(results: Mapping[str, Array], path: Path) -> dict[str, Array]:
    """A column for each array with a number for each row, NAME_0, NAME_1 ... for one with more.

    Raises TranspileError where arrays have different numbers of rows, or two columns the same name.
    """
    columns: dict[str, Array] = {}
    rows = {name: array.shape[0] if array.ndim else None for name, array in results.items()}
    if len(set(rows.values())) != 1 or None in rows.values():
        shown = ", ".join(f"{quoted(name)} {list(array.shape)}" for name, array in results.items())
        raise TranspileError(f"the results are no columns of one table: {shown}", path, "write an .npz file")
    for name, array in results.items():
        flat = array.reshape(array.shape[0], -1) if array.size else array.reshape(array.shape[0], 0)
        is_one = array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)
        for number, column in enumerate(flat.T):
            shown = name if is_one else f"{name}_{number}"
            if shown in columns:
                raise TranspileError(f"two columns would be called {quoted(shown)}", path, "write an .npz file")
            columns[shown] = column.astype(np.float64) if column.dtype.kind == "V" else column  # bfloat16, int4 ...
    return columns


class CsvWriter:
    """A header, then a line for each row; numbers are as short as they can be and read back the same."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        """Write to a stream that stands for the file at ``path``."""
        self._stream, self._path = stream, path
        self._names: list[str] | None = None

    def write(self, results: Mapping[str, Array]) -> None:
        """See `Writer`."""
        columns = columns_of(results, self._path)
        text = io.StringIO(newline="")
        if self._names is None:
            self._names = list(columns)
            csv.writer(text, lineterminator="\n").writerow(columns)
        _check_names(self._names, columns, self._path)
        lines = zip(*map(_texts, columns.values()))
        if any(column.dtype == object for column in columns.values()):
            csv.writer(text, lineterminator="\n").writerows(lines)
        else:
            text.write("".join([",".join(line) + "\n" for line in lines]))
        self._stream.write(text.getvalue().encode())

    def finish(self) -> None:
        """See `Writer`."""


def _check_names(names: Sequence[str], columns: Columns, path: Path) -> None:
    if list(columns) != list(names):
        raise TranspileError("the number of columns differs between blocks of rows", path, "write an .npz file")


def _texts(column: Array) -> list[str]:
    if column.dtype == object:
        return column.tolist()  # type: ignore[no-any-return]
    if column.dtype == np.bool_:
        return ["true" if value else "false" for value in column.tolist()]
    if column.dtype.kind == "f" and column.dtype.itemsize < 8:
        column = shortest(column.astype(np.float32))
    return list(map(repr, column.tolist()))


def shortest(numbers: Array) -> Array:
    """Doubles whose shortest decimal form is one that reads back as the same float32."""
    with np.errstate(all="ignore"):
        found = numbers.astype(np.float64)
        exponents = np.floor(np.log10(np.abs(found)))
        open_ = np.abs(exponents) < 15  # others are written in full; zeros and what is no number are as they are
        for digits in (6, 7, 8):
            scale = 10.0 ** (digits - exponents)
            rounded = np.rint(found * scale) / scale
            is_same = open_ & (rounded.astype(np.float32) == numbers)
            found = np.where(is_same, rounded, found)
            open_ &= ~is_same
    return found


class ParquetWriter:
    """A parquet file, a group of rows for each block."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        """Write to a stream that stands for the file at ``path``. Raises TranspileError where pyarrow is missing."""
        self._arrow, self._parquet = pyarrow("pyarrow", path), pyarrow("pyarrow.parquet", path)
        self._stream, self._path = stream, path
        self._writer: Any = None

    def write(self, results: Mapping[str, Array]) -> None:
        """See `Writer`."""
        columns = columns_of(results, self._path)
        table = self._arrow.table({name: self._array(column) for name, column in columns.items()})
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._stream, table.schema)
        _check_names(self._writer.schema.names, columns, self._path)
        self._writer.write_table(table)

    def _array(self, column: Array) -> Any:
        if column.dtype == object:
            return self._arrow.array(column.tolist(), self._arrow.string())
        return self._arrow.array(np.ascontiguousarray(column))

    def finish(self) -> None:
        """See `Writer`."""
        if self._writer is not None:
            self._writer.close()


class ArrayWriter:
    """An .npz file with an array for each result, or an .npy file with the only one.

    axes: along which blocks are put together, by names; 0 for those it does not have, None where all are the same.
    """

    def __init__(self, stream: IO[bytes], path: Path, axes: Mapping[str, int | None]) -> None:
        """Write to a stream that stands for the file at ``path``."""
        self._stream, self._path, self._axes = stream, path, axes
        self._parts: dict[str, _Parts] = {}

    def write(self, results: Mapping[str, Array]) -> None:
        """See `Writer`. Raises TranspileError."""
        if self._path.suffix.lower() == ".npy" and len(results) != 1:
            names = ", ".join(map(quoted, results))
            raise TranspileError(f"it holds one array, the results are {names}", self._path, "write an .npz file")
        for name, array in results.items():
            if name not in self._parts:
                self._parts[name] = _Parts(self._path, self._axes.get(name, 0))
            self._parts[name].add(array)

    def finish(self) -> None:
        """See `Writer`."""
        if self._path.suffix.lower() == ".npy":
            for parts in self._parts.values():
                parts.write_to(self._stream)
            return
        write_npz(self._stream, {name: parts.write_to for name, parts in self._parts.items()})


class _Parts:
    """The blocks of an array: numbers wait in a file when rows follow rows, all else in memory."""

    def __init__(self, path: Path, axis: int | None) -> None:
        self._path, self._axis = path, axis
        self._first: Array | None = None
        self._rows = 0
        self._file: IO[bytes] | None = None
        self._others: list[Array] = []

    def add(self, array: Array) -> None:
        if self._first is None:
            self._first, self._rows = array, array.shape[0] if array.ndim else 0
            return
        if self._axis is None:
            return
        if self._axis != 0 or array.dtype == object:
            self._others.append(array)
            return
        if array.shape[1:] != self._first.shape[1:]:
            raise TranspileError("the sizes of a result differ between blocks of rows", self._path)
        if self._file is None:
            folder = os.path.dirname(os.path.realpath(self._path))
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it goes with this object
        self._file.write(np.ascontiguousarray(array).tobytes())
        self._rows += array.shape[0]

    def write_to(self, stream: IO[bytes]) -> None:
        assert self._first is not None
        if self._file is None:
            whole = np.concatenate([self._first, *self._others], self._axis or 0) if self._others else self._first
            whole = whole.astype(str) if whole.dtype == object else whole
            # numpy would write to a real file itself, and not give the reason for a failure
            plain = SimpleNamespace(write=stream.write)
            np.lib.format.write_array(plain, np.ascontiguousarray(whole).reshape(whole.shape), allow_pickle=False)
            return
        header = {"descr": np.lib.format.dtype_to_descr(self._first.dtype), "fortran_order": False,
                  "shape": (self._rows, *self._first.shape[1:])}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(np.ascontiguousarray(self._first).tobytes())
        self._file.seek(0)
        shutil.copyfileobj(self._file, stream, LARGEST_CHUNK)
        self._file.close()


WRITERS: Mapping[str, Callable[[IO[bytes], Path, Mapping[str, int | None]], Writer]] = {
    ".csv": lambda stream, path, _: CsvWriter(stream, path),
    ".parquet": lambda stream, path, _: ParquetWriter(stream, path),
    ".npy": ArrayWriter,
    ".npz": ArrayWriter,
}
"""By the suffix of a file."""
TABLES = (".csv", ".parquet")
"""Those of files with columns; others have arrays."""
