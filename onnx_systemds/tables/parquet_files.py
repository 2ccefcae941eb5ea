"""Reads parquet files as streams, by pyarrow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError, escaped, quoted
from onnx_systemds.tables.reading import BOOLEAN, FLOAT, TEXT, Array, Column, pyarrow, wrong_cell


class ParquetTable:
    """A parquet file."""

    def __init__(self, path: Path) -> None:
        """Open a file. Raises TranspileError, OSError."""
        self.path = path
        parquet = pyarrow("pyarrow.parquet", path)
        self._arrow = pyarrow("pyarrow", path)
        self._unreadable = (self._arrow.ArrowException, OSError)  # which it raises of damaged headers
        self._stream = path.open("rb")
        try:
            self._file = parquet.ParquetFile(self._stream)
        except self._unreadable as error:
            self._stream.close()
            raise self._not_parquet(error) from error
        self.names: list[str] = self._file.schema_arrow.names
        self.size: int | None = self._file.metadata.num_rows
        self.done = 0

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def blocks(self, columns: Sequence[Column], rows: int) -> Iterator[list[Array]]:
        """See `Table`. Raises TranspileError."""
        wanted = list(dict.fromkeys(column.name for column in columns))
        counts = Counter(self.names)
        twice = next((name for name in wanted if counts[name] > 1), None)
        if twice is not None:  # pyarrow finds columns by their names
            raise TranspileError(f"there are several columns {quoted(twice)}", self.path)
        try:
            for batch in self._file.iter_batches(rows, columns=wanted):
                found = [self._converted(batch.column(column.name), column) for column in columns]
                self.done += batch.num_rows
                if batch.num_rows:
                    yield found
        except self._unreadable as error:
            raise self._not_parquet(error) from error

    def _not_parquet(self, error: Exception) -> TranspileError:
        return TranspileError(f"it cannot be read as parquet: {escaped(str(error))}", self.path)

    def _converted(self, content: Any, column: Column) -> Array:
        types = self._arrow.types
        if types.is_dictionary(content.type):
            content = content.dictionary_decode()
        if types.is_null(content.type):  # all of them are missing
            content = content.cast(self._arrow.string() if column.kind == TEXT else self._arrow.float64())
        kind = content.type
        is_text = types.is_string(kind) or types.is_large_string(kind)
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        is_decimal = column.kind == FLOAT and types.is_decimal(kind)
        if not (is_text if column.kind == TEXT else is_number or is_decimal):
            raise TranspileError(f"column {quoted(column.name)} holds {kind}, {column.kind} is needed", self.path)
        if column.kind == TEXT:
            return np.array(content.fill_null("").to_pylist(), dtype=object)
        if is_decimal:  # by Python, which rounds right
            return np.array([math.nan if number is None else float(number) for number in content.to_pylist()])
        if column.kind == FLOAT:
            doubles = content.cast(self._arrow.float64(), safe=False)  # the nearest to integers beyond 2^53, as of csv
            return np.asarray(doubles.to_numpy(zero_copy_only=False))
        if content.null_count:
            raise self._wrong(content.is_null().to_numpy(zero_copy_only=False), column, None)
        numbers: Array = np.asarray(content.to_numpy(zero_copy_only=False))
        if column.kind == BOOLEAN:
            self._check(numbers, (numbers == 0) | (numbers == 1), column)
            return numbers.astype(np.bool_)
        if numbers.dtype.kind == "f":
            self._check(numbers, (np.abs(numbers) < 2.0**53) & (numbers == np.trunc(numbers)), column)
        elif numbers.dtype == np.uint64:
            self._check(numbers, numbers < np.uint64(2**63), column)
        return numbers.astype(np.int64)

    def _check(self, numbers: Array, fits: Array, column: Column) -> None:
        if not fits.all():
            raise self._wrong(~fits, column, numbers)

    def _wrong(self, wrong: Array, column: Column, numbers: Array | None) -> TranspileError:
        position = int(wrong.argmax())
        shown = None if numbers is None else str(numbers[position])
        return wrong_cell(self.path, f"row {self.done + position + 1}", column, shown)


