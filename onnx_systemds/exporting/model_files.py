"""Models as files: `export_file` writes one, with a second file for its weights where they are many."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx

from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.external_data import ExternalData
from onnx_systemds.exporting.model_writer import check
from onnx_systemds.files import adding, check_target, is_stream, replacing, replacing_all


def export_file(
    source: str | Path | tree.Script,
    path: str | Path,
    function: str | None = None,
    *,
    external_data: int | None = None,
    added: Callable[[onnx.ModelProto], Mapping[Path, str]] | None = None,
    **options: Any,
) -> onnx.ModelProto:
    """Write the ONNX model of `source` to `path`, all or nothing; return the model in that file.

    external_data: the size in bytes from which on a weight goes into ``<path>.data``; by default 1024 if the model
    would be larger than 2 GB, otherwise none does. added: returns the texts of further files to write, by path.
    options: those of `export_script`. Raises TranspileError with all reasons, OSError.
    """
    path = Path(path)
    check_model_name(path)
    external = ExternalData(data_path(path).name, external_data)
    model = export_script(source, function, external=external, **options)
    with adding({} if added is None else added(model)):
        write_model(model, path, external)
    return model


def check_model_name(path: Path) -> None:
    """Raise TranspileError where a model would take the name of a script, which it may be meant to leave as it is."""
    if path.suffix.lower() == ".dml":
        raise TranspileError("a script is called *.dml, not a model", path, "name it *.onnx")


def write_model(model: onnx.ModelProto, path: Path, external: ExternalData) -> None:
    """Write a model, and what it has in another file, all or nothing. Raises TranspileError, OSError."""
    if not external.weights:
        with replacing(path) as stream:
            stream.write(model.SerializeToString())
        return
    if is_stream(path):
        raise beside_stream(path)
    check_target(path, ())
    beside = data_path(path)
    path = Path(os.path.realpath(path))
    with replacing_all([path, beside]) as folder:
        with (folder / beside.name).open("wb", buffering=1 << 18) as data:
            external.write(data)
        (folder / path.name).write_bytes(model.SerializeToString())
        check(str(folder / path.name))


def beside_stream(path: Path) -> TranspileError:
    """The error of a model that is a stream, and whose weights are in another file."""
    return TranspileError("weights cannot be written beside a stream", path, "give the model a file: -o FILE")


def data_path(path: Path) -> Path:
    """Return the file for the weights of the model `path`, links followed."""
    return Path(f"{os.path.realpath(path)}.data")
