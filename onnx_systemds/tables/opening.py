"""Opens a table, whatever kind of file it is."""

from __future__ import annotations

from pathlib import Path

from onnx_systemds.tables.csv_files import CsvTable
from onnx_systemds.tables.parquet_files import ParquetTable
from onnx_systemds.tables.reading import Table


def open_table(path: Path, *, has_header: bool) -> Table:
    """A .csv or .parquet file. Raises TranspileError, OSError."""
    return CsvTable(path, has_header=has_header) if path.suffix.lower() == ".csv" else ParquetTable(path)
