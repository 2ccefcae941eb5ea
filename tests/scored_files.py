"""Files for the programs that score files: what they read, what they wrote, and what onnxruntime gives for the same."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from onnx_systemds import import_model
from onnx_systemds.importing.coded_texts import with_coded_texts
from onnx_systemds.importing.score_program import file_arguments, program_name, score_text
from onnx_systemds.importing.score_variables import TABLE
from onnx_systemds.importing.script import Script
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.row_blocks import common_rows

Tensors = dict[str, np.ndarray[Any, np.dtype[Any]]]


def converted(path: Path, folder: Path, name: str = "model") -> Script:
    """The script of a model, saved as ``<name>.dml`` with its program beside it."""
    script = with_coded_texts(import_model(path, function_name="f", types=common_rows(load_model(path), {})))
    script.save(folder / f"{name}.dml")
    (folder / program_name(name)).write_text(score_text(script, name), encoding="utf-8")
    return script


def stored_rows(path: Path, rows: int) -> Tensors:
    """The stored inputs, repeated and each time a little different."""
    with np.load(path.with_suffix(".npz"), allow_pickle=True) as stored:
        inputs = {name.removeprefix("in_"): stored[name] for name in stored.files if name.startswith("in_")}
    feeds = {name: array[np.arange(rows) % len(array)] for name, array in inputs.items()}
    for array in feeds.values():
        if array.dtype.kind == "f":
            array *= np.linspace(0.5, 1.5, rows, dtype=array.dtype).reshape(-1, *[1] * (array.ndim - 1))
    return feeds


def written(script: Script, feeds: Tensors, folder: Path, start: str = "") -> dict[str, str]:
    """The inputs as csv files whose names begin so; the arguments that name them."""
    names, columns = file_arguments(script)[0], [feeds[port.name] for port in script.inputs]
    arrays = [array.reshape(len(array), -1).astype(object) for array in columns]
    for name, array in zip(names, [np.concatenate(arrays, axis=1)] if names == (TABLE,) else arrays):
        with (folder / f"{start}{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(array.tolist())
    return {name: f"{start}{name}.csv" for name in names}


def targets(script: Script, start: str = "") -> dict[str, str]:
    """The arguments that name the outputs' files."""
    return {name: f"{start}{name}_out.csv" for name in file_arguments(script)[1]}


def numbers(path: Path) -> Any:
    """A csv file, or the folder of its parts."""
    parts = sorted(path.glob("part-*")) if path.is_dir() else [path]
    return np.concatenate([np.loadtxt(part, delimiter=",", ndmin=2) for part in parts])


def expected_rows(script: Script, path: Path, feeds: Tensors) -> list[Any]:
    """What onnxruntime gives; maps as the matrix of their values."""
    results = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
    return [np.array([[row[key] for key in port.keys] for row in value], np.float32) if port.kind == "maps" else value
            for port, value in zip(script.outputs, results)]
