"""Models as files: `export_file` writes one, with a second file for its weights where they are many."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx

from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.external_data import ExternalData
from onnx_systemds.exporting.model_writer import check
from onnx_systemds.files import check_target, is_stream, replacing, replacing_all


def export_file(
    source: str | Path | tree.Script,
    path: str | Path,
    function: str | None = None,
    *,
    external_data: int | None = None,
    **options: Any,
) -> onnx.ModelProto:
    """Write the ONNX model of `source` to `path`, complete or not at all; return what is in that file.

    external_data: weights of so many bytes or more go into ``<path>.data``; by default those from 1024 on, where the
    model would take more than 2 GB. Other options are those of `export_script`. Raises TranspileError with every
    reason, OSError.
    """
    path = Path(path)
    beside = data_path(path)
    external = ExternalData(beside.name, external_data)
    model = export_script(source, function, external=external, **options)
    if not external.weights:
        with replacing(path) as stream:
            stream.write(model.SerializeToString())
        return model
    if is_stream(path):
        raise TranspileError("there is no place for the weights beside it", path, "give the model a file: -o FILE")
    check_target(path, ())
    path = Path(os.path.realpath(path))
    with replacing_all([path, beside]) as folder:
        with (folder / beside.name).open("wb", buffering=1 << 18) as data:
            external.write(data)
        (folder / path.name).write_bytes(model.SerializeToString())
        check(str(folder / path.name))
    return model


def data_path(path: Path) -> Path:
    """Return the file for the weights of the model `path`, links followed."""
    return Path(f"{os.path.realpath(path)}.data")
