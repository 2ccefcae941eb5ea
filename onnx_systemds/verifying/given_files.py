"""Files of the engine for what a script reads: matrices, frames, scalars and lists, each with its description."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.engine.frame_files import NotedFrame, write_frame
from onnx_systemds.engine.matrix_files import write_matrix
from onnx_systemds.exporting.stored_matrices import StoredMatrix
from onnx_systemds.exporting.values import scalar_text
from onnx_systemds.runtime.boundary_tensors import boundary_matrix

_SCALARS: dict[str, Callable[[Any], Any]] = {"int": int, "integer": int, "boolean": bool, "string": str}


def write_value(path: Path, value: Any, data_type: str = "matrix", value_type: str = "") -> None:
    """Write a value, and its description ``path.mtd``, for a script that reads it.

    value: a number, truth or text, an array of numbers or texts, or a list or dict of values.
    data_type, value_type: what the script takes it for; numbers may be a frame, the second is of scalars.
    Raises ValueError where there are no elements.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, (Mapping, list, tuple)):
        named = value.items() if isinstance(value, Mapping) else (("null", item) for item in value)
        _write_list(path, list(named))
        return
    if isinstance(value, NotedFrame):
        _write_csv(path, [("#Meta·MV", *(note or "null" for note in value.missing)), *value.cells])
        return
    array = value.read() if isinstance(value, StoredMatrix) else np.asarray(value)
    if array.ndim == 0 or data_type == "scalar":
        _write_scalar(path, array.item(), value_type)
    elif array.dtype.kind in "OU":
        write_frame(path, array.reshape(len(array), -1))
    elif data_type == "frame":
        _write_csv(path, [[repr(float(cell)) for cell in row] for row in boundary_matrix(array)])
    else:
        write_matrix(path, boundary_matrix(array))


def is_described(path: Path) -> bool:
    """Whether a file has a description beside it, as those of the engine have."""
    return _description(path).is_file()


def copy_value(path: Path, source: Path) -> None:
    """Copy a file or folder of the engine with its description: what only the engine reads of it stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, path)
    shutil.copyfile(_description(source), _description(path))


def _write_list(path: Path, items: list[tuple[str, Any]]) -> None:
    path.mkdir()
    for place, (name, item) in enumerate(items):
        write_value(path / f"{place}_{name}", item)
    _describe(path, data_type="list", value_type="unknown", rows=len(items), cols=1, format="binary")


def _write_scalar(path: Path, scalar: Any, value_type: str) -> None:
    kind = value_type or {bool: "boolean", int: "int", float: "double"}.get(type(scalar), "string")
    path.write_text(f"{scalar_text(_SCALARS.get(kind, float)(scalar))}\n", encoding="utf-8")
    _describe(path, data_type="scalar", value_type=kind, format="text")


def _write_csv(path: Path, lines: list[Iterable[str]]) -> None:
    cells = [[str(cell) for cell in line] for line in lines]
    path.write_text("".join(",".join(line) + "\n" for line in cells), encoding="utf-8")
    rows = len(cells) - cells[0][0].startswith("#Meta")
    _describe(path, data_type="frame", format="csv", header=False, sep=",", rows=rows, cols=len(cells[-1]))


def _describe(path: Path, **description: object) -> None:
    _description(path).write_text(json.dumps(description) + "\n", encoding="utf-8")


def _description(path: Path) -> Path:
    return path.with_name(f"{path.name}.mtd")
