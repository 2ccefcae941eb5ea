"""Reads matrices and frames from files: those of SystemDS with their ``.mtd``, csv, npy, npz.

Large ones are left where they are, as `StoredMatrix`: `open_values`.
"""

from __future__ import annotations

import csv
import io
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.array_files import read_array_file
from onnx_systemds.engine.frame_files import NotedFrame, noted, read_frame
from onnx_systemds.engine.metadata_files import metadata_path
from onnx_systemds.errors import TranspileError, quoted
from onnx_systemds.exporting.graph.nodes import Array
from onnx_systemds.exporting.stored_matrices import StoredMatrix, stored_array, stored_blocks
from onnx_systemds.files import part_files
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_MISSING_LINE, _MISSING_ROW = "#Meta·MV", -2
"""Where the engine notes what to put into missing cells, in csv and in text."""
_DESCRIBED = '{"data_type": "matrix", "format": "csv", "header": true, "sep": ";"}'
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
    """Return a matrix, a dict of values (npz, or a SystemDS list), a list of them, a frame (texts), or a scalar.

    A frame that says what to put into missing cells (meta of an imputation) is a `NotedFrame`.
    Raises TranspileError, OSError.
    """
    return _loaded(_opened(Path(path)), None)


def _stored(value: Any) -> Iterator[StoredMatrix]:
    if isinstance(value, StoredMatrix):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _stored(item)


def _loaded(value: Any, smallest: int | None) -> Any:
    """Return a value with what is stored read, but for matrices of `smallest` numbers or more."""
    if isinstance(value, dict):
        return {name: _loaded(item, smallest) for name, item in value.items()}
    if isinstance(value, list):
        return [_loaded(item, smallest) for item in value]
    if not isinstance(value, StoredMatrix) or (smallest is not None and value.size >= smallest):
        return value
    return value.read()


def _opened(path: Path) -> Any:
    """Return what `read_value` does, matrices that can be read piece by piece as `StoredMatrix`."""
    try:
        description = _description(path)
        if description is not None:
            return _described(path, description)
        if metadata_path(path / WEIGHTS).is_file():  # the folder beside a generated script
            return _opened(path / WEIGHTS)
        if path.suffix in (".npy", ".npz"):
            stored = stored_array(path) if path.suffix == ".npy" else None
            if stored is not None:
                return stored
            found = read_array_file(path)
            if isinstance(found, dict):
                return {name: array.item() if _is_scalar(array) else _matrix(array) for name, array in found.items()}
            return _matrix(found)
        if path.suffix == ".json":
            return path.read_text(encoding="utf-8")
        head = _matrix_market(path)
        if head is not None:
            return _cells(path, head)
        return _csv_numbers(path, {})
    except (ValueError, LookupError, EOFError, TypeError, OverflowError, MemoryError, UserWarning, csv.Error) as error:
        raise TranspileError(f"it cannot be read as a matrix: {error}", path) from error


def _description(path: Path) -> dict[str, Any] | None:
    """Return the content of ``<path>.mtd`` if there is one."""
    beside = metadata_path(path)
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
        return _scalar(path.read_text(encoding="utf-8"), str(description.get("value_type")))
    if data_type == "list":
        return _list(path)
    if data_type == "frame":
        return _frame(path, description)
    if data_type != "matrix":
        raise TranspileError(f"a {data_type} cannot be bound", path)
    if form == "binary":
        return stored_blocks(path)
    if form == "csv":
        return _csv_numbers(path, description)
    if form in ("text", "mm"):
        return _cells(path, description)
    raise TranspileError(f"the format {quoted(str(form))} cannot be read", path, "write it as binary, csv or text")


def _csv_numbers(path: Path, description: Mapping[str, Any]) -> Array:
    """Return the numbers of a csv file; cells without text are 0, as the engine reads them, or its `default`."""
    separator, skipped = str(description.get("sep", ",")), int(bool(description.get("header")))
    rows, is_column = int(description.get("rows", -1)), _is_column(description)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a file without numbers
            source = path if path.is_file() else io.StringIO(_text(path))
            numbers = np.loadtxt(source, delimiter=separator, skiprows=skipped, ndmin=2)
            if rows < 0 or len(numbers) == rows:  # else some lines may be cells without text
                return numbers
    except (ValueError, UserWarning):  # slowly, but in words
        pass
    every = enumerate(_text(path).splitlines()[skipped:], skipped + 1)
    lines = [(place, line.split(separator)) for place, line in every if is_column or line.strip()]
    if not lines:
        raise ValueError("it has no numbers")
    (first, cells), found = lines[0], []
    for place, line in lines:
        if len(line) != len(cells):
            raise ValueError(f"line {place} has {len(line)} cells, and line {first} has {len(cells)}")
        if (wrong := next((cell for cell in line if cell.strip() and not _is_number(cell)), None)) is not None:
            hint = f"{metadata_path(path).name} may say that it has a header or another separator: {_DESCRIBED}"
            raise TranspileError(f"line {place} has a cell {quoted(wrong.strip())}, which is no number", path,
                                 hint if place == first else "")
        found.append([float(cell if cell.strip() else description.get("default", 0)) for cell in line])
    if 0 <= rows != len(found):
        raise ValueError(f"it has {len(found)} rows, and its description says {rows}")
    return np.array(found)


def _is_column(description: Mapping[str, Any]) -> bool:
    """Whether each line is a cell, also one without text."""
    return int(description.get("cols", -1)) == 1


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _matrix_market(path: Path) -> dict[str, Any] | None:
    """Return the sizes in the header of a Matrix Market file, None for other files."""
    with path.open("rb") as stream:
        head = stream.readline(100).split()
    if not head or head[0] != b"%%MatrixMarket":
        return None
    if head[1:3] != [b"matrix", b"coordinate"] or head[3] not in (b"real", b"integer") or head[4] != b"general":
        raise TranspileError("only coordinates of real numbers in general order are read of a Matrix Market file", path)
    rows, cols, _ = next(line for line in _lines(path) if line[0] != "%").split()
    return {"format": "mm", "rows": rows, "cols": cols}


def _scalar(text: str, value_type: str) -> str | bool | int | float:
    if value_type.lower() == "string":
        return text.removesuffix("\n")
    if value_type.lower() in ("boolean", "bool"):
        return {"TRUE": True, "FALSE": False}[text.strip().upper()]
    return int(text) if value_type.lower() in ("int", "int32", "int64") else float(text)


def _list(path: Path) -> Any:
    """Return the items of a list in their order, by their names if they have such; the engine calls all others null."""
    files = sorted((file for file in path.iterdir() if file.suffix != ".mtd" and file.name[0] not in "._"),
                   key=lambda file: int(file.name.partition("_")[0]))
    names = [file.name.partition("_")[2] for file in files]
    if set(names) == {"null"}:
        return [_opened(file) for file in files]
    if len(set(names)) != len(names):
        raise TranspileError("two items of this list have one name", path)
    return {name: _opened(file) for name, file in zip(names, files)}


def _frame(path: Path, description: dict[str, Any]) -> Array | NotedFrame:
    """Return a frame, each cell as its text, missing ones as "", with the engine's notes if there are any."""
    form = description.get("format", "text")
    if form == "csv":
        return _texts(path, description)
    rows, cols = int(description["rows"]), int(description["cols"])
    if form == "binary":
        return read_frame(path, rows, cols)
    if form != "text":
        raise TranspileError(f"a frame in the format {quoted(str(form))} cannot be bound", path, "write it as csv")
    cells, missing = np.full((rows, cols), "", object), [""] * cols
    for line in _lines(path):
        row, column, text = line.split(" ", 2)
        if int(row) > 0:  # others are notes on columns
            cells[int(row) - 1, int(column) - 1] = text
        elif int(row) == _MISSING_ROW:
            missing[int(column) - 1] = text
    return noted(cells, missing)


def _text(path: Path) -> str:
    """Return the text of a file, or of the parts in a folder."""
    return "".join(file.read_bytes().decode("utf-8") for file in part_files(path))


def _lines(path: Path) -> list[str]:
    return [line.removesuffix("\r") for line in _text(path).split("\n") if line.strip()]


def _texts(path: Path, description: dict[str, Any]) -> Array | NotedFrame:
    """Return a frame that is written as csv; lines that begin with #Meta are notes of the engine."""
    stream = io.StringIO(_text(path), newline="")
    none = [""] if _is_column(description) else []
    every = [line or none for line in csv.reader(stream, delimiter=str(description.get("sep", ","))) if line or none]
    lines = [line for line in every if not line[0].startswith("#Meta")]
    names = lines.pop(0) if description.get("header") else ()
    if len({len(line) for line in lines}) > 1:
        raise ValueError("its lines differ in the number of cells")
    missing = next((line[1:] for line in every if line[0] == _MISSING_LINE), [])
    cols = len(lines[0]) if lines else int(description.get("cols", 0))
    return noted(np.array(lines, object).reshape(len(lines), cols), missing, names)


def _cells(path: Path, description: dict[str, Any]) -> Array:
    """Return a matrix of lines ``row column value``; of a Matrix Market file without its head.

    The engine writes a matrix of zeros alone as the line ``0 0 0``.
    """
    lines = [line for line in _lines(path) if line[0] != "%"]
    if description.get("format") == "mm":
        lines = lines[1:]
    matrix = np.zeros((int(description["rows"]), int(description["cols"])))
    for line in lines:
        row, column, value = line.split()
        if row == column == "0" and float(value) == 0:
            continue
        if min(int(row), int(column)) < 1:
            raise ValueError(f"it has no cell {row}, {column}")
        matrix[int(row) - 1, int(column) - 1] = float(value)
    return matrix


def _is_scalar(array: Array) -> bool:
    """Whether an item of a list is a number, boolean or text: as.scalar of the engine takes no matrix of a list."""
    return array.ndim == 0 and array.dtype.kind in "fiubU"


def _matrix(array: Array) -> Array:
    if array.dtype.kind not in "fiub":
        raise ValueError("it does not hold numbers")
    if array.ndim == 0:
        return array.reshape(1, 1)
    return array.reshape(array.shape[0], math.prod(array.shape[1:]))
