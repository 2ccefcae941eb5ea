"""Reads csv files as streams: fields between commas, quoted by double quotes, in UTF-8.

Blocks without quotes go through pyarrow where it is installed, else plain numbers through numpy. Whatever these do not
take is read again by Python's csv module, which decides what the file says and where it is wrong.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError, counted, escaped
from onnx_systemds.tables.reading import BOOLEAN, FLOAT, INTEGER, TEXT, Array, Column, wrong_cell

_LONGEST_FIELD = 1 << 24  # characters; the csv module's limit is 131,072, without one an open quote takes the file
_EXACT = 2.0**53  # integers up to here are what their digits say
_DTYPES: Mapping[str, Any] = {FLOAT: np.float64, INTEGER: np.int64, BOOLEAN: np.bool_, TEXT: object}
_COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, zip, bzip2, xz, zstd
_TRUTH = {"0": False, "1": True, "false": False, "true": True}
_INT64 = range(-(2**63), 2**63)


class CsvTable:
    """A csv file; without a header its columns are called 1, 2, 3 ..."""

    def __init__(self, path: Path, *, has_header: bool) -> None:
        """Open a file and read its header, or how many fields it has. Raises TranspileError, OSError."""
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))  # of the process; nobody's gets smaller
        self.path = path
        self._raw = path.open("rb", buffering=0)
        self._lines: Iterator[str] = io.TextIOWrapper(io.BufferedReader(self._raw), "utf-8-sig", newline="")
        self._line = 0  # how many have been read
        self.size: int | None = path.stat().st_size or None
        try:
            first = self._first_record(is_kept=not has_header)
        except BaseException:
            self.close()
            raise
        self.names = first if has_header else [str(place + 1) for place, _ in enumerate(first)]

    def _first_record(self, *, is_kept: bool) -> list[str]:
        read: list[str] = []
        for record in self._records(_kept(self._lines, read)):
            if record:
                break
        else:
            raise TranspileError("it is empty", self.path)
        if is_kept:
            self._lines = itertools.chain(read, self._lines)
        else:
            self._line = len(read)
        return record

    def _records(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """The fields of each record. Raises TranspileError."""
        reader = csv.reader(lines, strict=True)
        try:
            yield from reader
        except csv.Error as error:
            hint = "is a double quote before it left open?" if "field limit" in str(error) else ""
            raise TranspileError(
                f"line {self._line + reader.line_num}: {escaped(str(error))}", self.path, hint
            ) from error
        except UnicodeDecodeError as error:
            raise self._not_text(error) from error

    def _not_text(self, error: UnicodeDecodeError) -> TranspileError:
        if not self._line and error.object.startswith(_COMPRESSED):
            return TranspileError("it is compressed", self.path, "unpack it first")
        place = f"after line {self._line} " if self._line else ""
        return TranspileError(f"{place}it is not UTF-8: {error.reason}", self.path, "save it as text in UTF-8")

    @property
    def done(self) -> int:
        """Bytes read."""
        return self._raw.tell() if self._raw.seekable() else 0

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def blocks(self, columns: Sequence[Column], rows: int) -> Iterator[list[Array]]:
        """See `Table`. Raises TranspileError."""
        while True:
            try:
                lines = list(itertools.islice(self._lines, rows))
            except UnicodeDecodeError as error:
                raise self._not_text(error) from error
            if not lines:
                return
            found = None
            for parse in (_by_arrow, _plain_numbers):
                found = found or parse(lines, columns, len(self.names))
            if found is None:
                found = self._exact(lines, columns)
            else:
                self._line += len(lines)
            if len(found[0]):
                yield found

    def _exact(self, lines: list[str], columns: Sequence[Column]) -> list[Array]:
        """The records that begin in these lines; the last one may go on after them."""
        read: list[str] = []
        records: list[list[str]] = []
        numbers: list[int] = []  # of the lines in which records end
        for record in self._records(_kept(itertools.chain(lines, self._lines), read)):
            if record:  # else an empty line
                if len(record) != len(self.names):
                    counts = f"{counted(len(record), 'field')}, the first line has {len(self.names)}"
                    raise TranspileError(f"line {self._line + len(read)} has {counts}", self.path)
                records.append(record)
                numbers.append(self._line + len(read))
            if len(read) >= len(lines):
                break
        self._line += len(read)
        return [self._converted([record[column.place] for record in records], column, numbers) for column in columns]

    def _converted(self, texts: list[str], column: Column, lines: Sequence[int]) -> Array:
        found: Array = np.empty(len(texts), _DTYPES[column.kind])
        if column.kind == TEXT:
            found[:] = texts
            return found
        if column.kind == FLOAT and not any("_" in text for text in texts):  # which Python allows
            with contextlib.suppress(ValueError):
                found[:] = [float(text) if text else math.nan for text in texts]
                return found
        read = {FLOAT: _number, INTEGER: _integer, BOOLEAN: _boolean}[column.kind]
        for position, text in enumerate(texts):
            try:
                found[position] = read(text)
            except (ValueError, KeyError, OverflowError):
                shown = text if text.strip() else None
                raise wrong_cell(self.path, f"line {lines[position]}", column, shown) from None
        return found


def _kept(lines: Iterator[str], read: list[str]) -> Iterator[str]:
    """The same lines; those that have been asked for are in ``read``."""
    for line in lines:
        read.append(line)
        yield line


@functools.cache
def _arrow() -> Any:
    """pyarrow with its csv module, None where it is not installed."""
    try:
        importlib.import_module("pyarrow.csv")
        return importlib.import_module("pyarrow")
    except ImportError:
        return None


def _by_arrow(lines: Sequence[str], columns: Sequence[Column], width: int) -> list[Array] | None:
    """Columns of any kind, None where there is no pyarrow or it does not take the lines."""
    arrow, content = _arrow(), "".join(lines)
    if arrow is None or '"' in content:
        return None
    if any(column.kind == INTEGER for column in columns) and ("0x" in content or "0X" in content):
        return None  # pyarrow takes 0xFFFFFFFFFFFFFFFF for -1
    types = {FLOAT: arrow.float64(), INTEGER: arrow.int64(), BOOLEAN: arrow.bool_(), TEXT: arrow.string()}
    wanted = {str(column.place): types[column.kind] for column in columns}
    if len({*wanted}) != len(columns):
        return None
    convert = arrow.csv.ConvertOptions(
        column_types=wanted, include_columns=[*wanted], null_values=[""], strings_can_be_null=False,
        true_values=["1", "true", "True", "TRUE"], false_values=["0", "false", "False", "FALSE"],
    )
    names = arrow.csv.ReadOptions(column_names=[str(place) for place in range(width)])
    try:
        table = arrow.csv.read_csv(
            arrow.BufferReader(content.encode()), names, arrow.csv.ParseOptions(quote_char=False), convert
        )
    except arrow.ArrowException:
        return None
    found: list[Array] = []
    for column, cells in zip(columns, table.columns):
        if column.kind == TEXT:
            texts: Array = np.empty(len(cells), object)
            texts[:] = cells.to_pylist()
            found.append(texts)
        elif column.kind == FLOAT or not cells.null_count:
            found.append(np.asarray(cells.to_numpy()))
        else:
            return None
    return found


def _plain_numbers(lines: Sequence[str], columns: Sequence[Column], width: int) -> list[Array] | None:
    """Columns of numbers, None where the lines hold anything else."""
    if not all(column.kind in (FLOAT, INTEGER) for column in columns):
        return None
    filled: list[str] = []
    for line in lines:
        if line.count(",") != width - 1 or '"' in line or line.isspace():
            return None
        is_missing = ",," in line or line[0] == "," or line.rstrip("\r\n")[-1:] == ","
        filled.append(",".join(field or "nan" for field in line.rstrip("\r\n").split(",")) if is_missing else line)
    try:
        places = None if len(columns) == width else [column.place for column in columns]
        numbers = np.loadtxt(filled, delimiter=",", comments=None, ndmin=2, usecols=places)
    except ValueError:
        return None
    if places is None:
        numbers = numbers[:, [column.place for column in columns]]
    found: list[Array] = []
    for column, content in zip(columns, numbers.T):
        if column.kind == INTEGER:
            if not np.all(np.abs(content) < _EXACT) or np.any(content != np.trunc(content)):
                return None
            content = content.astype(np.int64)
        found.append(content)
    return found


def _number(text: str) -> float:
    if "_" in text:
        raise ValueError
    return float(text) if text and not text.isspace() else math.nan


def _integer(text: str) -> int:
    if "_" in text:
        raise ValueError
    try:
        found = int(text)
    except ValueError:
        number = float(text)
        found = int(number)
        if found != number or abs(number) >= _EXACT:
            raise ValueError from None
    if found not in _INT64:
        raise ValueError
    return found


def _boolean(text: str) -> bool:
    return _TRUTH[text.strip().lower()]
