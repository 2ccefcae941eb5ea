"""Writes the files that a script reads: matrices, frames, scalars and lists, each with its .mtd."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.engine.frame_files import NotedFrame, write_frame
from onnx_systemds.engine.matrix_files import write_matrix
from onnx_systemds.engine.metadata_files import metadata_path, write_list_metadata, write_metadata
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.stored_matrices import StoredMatrix
from onnx_systemds.exporting.values import scalar_text
from onnx_systemds.runtime.boundary_tensors import boundary_matrix

_SCALARS: dict[str, Callable[[Any], Any]] = {"int": int, "integer": int, "boolean": bool, "string": str}


_SEPARATORS = ",;|~^!"


def write_value(
    path: Path, value: Any, data_type: str = "matrix", value_type: str = "", *,
    by_texts: bool = False, columns: Sequence[str] = (),
) -> None:
    """Write a value, and its description ``path.mtd``, for a script that reads it.

    value: a number, boolean or text, an array of numbers or texts, or a list or dict of values.
    data_type, value_type: what the script takes it for; numbers may be a frame, the second is of scalars.
    by_texts: whether the script says which texts of a frame are missing, which the engine looks for in csv files alone.
    columns: the names of the columns of a frame.
    Raises ValueError where there are no elements, TranspileError for texts that no csv file holds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, (Mapping, list, tuple)):
        named = value.items() if isinstance(value, Mapping) else (("null", item) for item in value)
        _write_list(path, list(named))
        return
    if isinstance(value, NotedFrame):
        notes = [("#Meta·MV", *(note or "null" for note in value.missing))] if value.missing else []
        _write_csv(path, [*notes, *value.cells], value.names)
        return
    array = value.read() if isinstance(value, StoredMatrix) else np.asarray(value)
    if array.ndim == 0 or data_type == "scalar":
        _write_scalar(path, array.item(), value_type)
    elif array.dtype.kind in "OU" and by_texts:
        _write_csv(path, array.reshape(len(array), -1).tolist(), columns)
    elif array.dtype.kind in "OU":
        write_frame(path, array.reshape(len(array), -1), columns)
    elif data_type == "frame":
        _write_csv(path, [[repr(float(cell)) for cell in row] for row in boundary_matrix(array)])
    else:
        write_matrix(path, boundary_matrix(array))


def is_described(path: Path) -> bool:
    """Whether a file has a description beside it, as those of the engine have."""
    return metadata_path(path).is_file()


def copy_value(path: Path, source: Path) -> None:
    """Copy a file or folder of the engine with its description: what only the engine reads of it stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, path)
    shutil.copyfile(metadata_path(source), metadata_path(path))


def _write_list(path: Path, items: list[tuple[str, Any]]) -> None:
    path.mkdir()
    for place, (name, item) in enumerate(items):
        write_value(path / f"{place}_{name}", item)
    write_list_metadata(path, len(items))


def _write_scalar(path: Path, scalar: Any, value_type: str) -> None:
    kind = value_type or {bool: "boolean", int: "int", float: "double"}.get(type(scalar), "string")
    path.write_text(f"{scalar_text(_SCALARS.get(kind, float)(scalar))}\n", encoding="utf-8")
    write_metadata(path, {"data_type": "scalar", "value_type": kind, "format": "text"})


def _write_csv(path: Path, lines: Iterable[Iterable[str]], names: Sequence[str] = ()) -> None:
    cells = [[str(cell) for cell in line] for line in ([names] if names else []) + list(lines)]
    texts = "".join(map("".join, cells))
    separator = next((each for each in _SEPARATORS if each not in texts), None)
    written = [(separator or "").join(line) for line in cells]
    if separator is None or any(line.strip() != line or len(line.splitlines()) != 1 for line in written) or any(
            cell.startswith('"') and cell.count('"') == 1 for line in cells for cell in line):
        raise TranspileError("a frame that is read as csv has a row that is no line of a csv file: empty, with a line "
                             f"break, blanks at its ends, a quote that does not end or all of {_SEPARATORS}",
                             hint="give other texts by --inputs")
    path.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    rows = sum(not line[0].startswith("#Meta") for line in cells) - bool(names)
    mtd = {"data_type": "frame", "format": "csv", "header": bool(names), "sep": separator}
    write_metadata(path, mtd | {"rows": rows, "cols": len(cells[-1])})
