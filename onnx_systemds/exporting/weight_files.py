"""Reads matrices and frames from files: those of SystemDS with their ``.mtd``, csv, npy, npz.

Large ones are left where they are, as `StoredMatrix`: `open_values`.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.array_files import read_array_file
from onnx_systemds.errors import TranspileError, quoted
from onnx_systemds.exporting.graph.nodes import Array
from onnx_systemds.exporting.stored_matrices import StoredMatrix, stored_array, stored_blocks

MOST_LOADED = 1 << 25
"""Numbers in files that an export reads at once, those of all files together: 256 MB as doubles."""
SMALLEST_STORED = 1 << 16
"""Numbers of a matrix that is left in its file where they are more."""


def open_values(paths: Mapping[str, str | Path], most_loaded: int = MOST_LOADED) -> dict[str, Any]:
    """Return the contents of files, as `read_value`; large matrices as `StoredMatrix` where all are too many numbers.

    Raises TranspileError, OSError.
    """
    opened = {name: _opened(Path(path)) for name, path in paths.items()}
    total = sum(stored.size for value in opened.values() for stored in _stored(value))
    smallest = SMALLEST_STORED if total > most_loaded else None
    return {name: _loaded(value, smallest) for name, value in opened.items()}


def read_value(path: str | Path) -> Any:
    """Return a matrix, a dict of matrices (npz, or a SystemDS list), or a scalar. Raises TranspileError, OSError."""
    return _loaded(_opened(Path(path)), None)


def _stored(value: Any) -> Iterator[StoredMatrix]:
    for item in value.values() if isinstance(value, dict) else (value,):
        if isinstance(item, dict):
            yield from _stored(item)
        elif isinstance(item, StoredMatrix):
            yield item


def _loaded(value: Any, smallest: int | None) -> Any:
    """Return a value with what is stored read, but for matrices of `smallest` numbers or more."""
    if isinstance(value, dict):
        return {name: _loaded(item, smallest) for name, item in value.items()}
    if not isinstance(value, StoredMatrix) or (smallest is not None and value.size >= smallest):
        return value
    return value.read()


def _opened(path: Path) -> Any:
    """Return what `read_value` does, matrices that can be read piece by piece as `StoredMatrix`."""
    try:
        description = _description(path)
        if description is not None:
            return _described(path, description)
        if path.suffix in (".npy", ".npz"):
            stored = stored_array(path) if path.suffix == ".npy" else None
            if stored is not None:
                return stored
            found = read_array_file(path)
            if isinstance(found, dict):
                return {name: _matrix(array) for name, array in found.items()}
            return _matrix(found)
        with warnings.catch_warnings(action="error"):  # of a file without numbers
            return _matrix(np.loadtxt(path, delimiter=",", ndmin=2))
    except (ValueError, LookupError, EOFError, TypeError, OverflowError, MemoryError, UserWarning, csv.Error) as error:
        raise TranspileError(f"it cannot be read as a matrix: {error}", path) from error


def _description(path: Path) -> dict[str, Any] | None:
    """Return the content of ``<path>.mtd`` if there is one."""
    beside = path.with_name(f"{path.name}.mtd")
    if not beside.is_file():
        return None
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TranspileError("it is no description of a matrix", beside) from error
    return found if isinstance(found, dict) else None


def _described(path: Path, description: dict[str, Any]) -> Any:
    data_type, form = description.get("data_type", "matrix"), description.get("format", "text")
    if data_type == "scalar":
        text = path.read_text(encoding="utf-8").strip()
        return text if description.get("value_type") == "string" else float(text)
    if data_type == "list":
        files = sorted((file for file in path.iterdir() if file.suffix != ".mtd" and file.name[0] not in "._"),
                       key=lambda file: int(file.name.partition("_")[0]))  # fmt: skip
        return {file.name.partition("_")[2]: _opened(file) for file in files}
    if data_type == "frame" and form == "csv":
        return _texts(path, description)
    if data_type != "matrix":
        raise TranspileError(f"a {data_type} in the format {quoted(str(form))} cannot be bound", path,
                             "write it as csv" if data_type == "frame" else "")  # fmt: skip
    if form == "binary":
        return stored_blocks(path)
    if form == "csv":
        skipped = int(bool(description.get("header")))
        return _matrix(np.loadtxt(path, delimiter=description.get("sep", ","), skiprows=skipped, ndmin=2))
    if form in ("text", "mm"):
        return _cells(path, description)
    raise TranspileError(f"the format {quoted(str(form))} cannot be read", path, "write it as binary, csv or text")


def _texts(path: Path, description: dict[str, Any]) -> Array:
    """Return a frame, each cell as its text; lines that begin with #Meta are notes of the engine."""
    with path.open(encoding="utf-8", newline="") as stream:
        lines = [line for line in csv.reader(stream, delimiter=str(description.get("sep", ",")))
                 if line and not line[0].startswith("#Meta")]  # fmt: skip
    lines = lines[int(bool(description.get("header"))) :]
    if len({len(line) for line in lines}) > 1:
        raise ValueError("its lines differ in the number of cells")
    return np.array(lines, object)


def _cells(path: Path, description: dict[str, Any]) -> Array:
    """Return a matrix of lines ``row column value``; of a Matrix Market file without its head."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and line[0] != "%"]
    if description.get("format") == "mm":
        lines = lines[1:]
    matrix = np.zeros((int(description["rows"]), int(description["cols"])))
    for line in lines:
        row, column, value = line.split()
        if min(int(row), int(column)) < 1:
            raise ValueError(f"it has no cell {row}, {column}")
        matrix[int(row) - 1, int(column) - 1] = float(value)
    return matrix


def _matrix(array: Array) -> Array:
    if array.dtype.kind not in "fiub":
        raise ValueError("it does not hold numbers")
    if array.ndim == 0:
        return array.reshape(1, 1)
    return array.reshape(array.shape[0], -1)
