"""The .npy and .npz files of numpy: whatever is wrong with one that is read ends in a TranspileError that names it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from onnx_systemds.errors import TranspileError, escaped

Array = np.ndarray[Any, np.dtype[Any]]
_TABLE = "the rows of a table are scored by onnx-systemds score"


def read_array_file(path: Path, *, mapped: bool = False) -> Array | dict[str, Array]:
    """The array of an .npy file, or those of an .npz file by their names. Pickled objects are not read.

    ``mapped``: whether that of an .npy file stays in the file until it is looked at.
    Raises TranspileError for a file that is damaged or no such file, OSError where it cannot be opened.
    """
    try:
        with path.open("rb") as stream:
            content: Any = np.load(path if mapped else stream, "r" if mapped else None, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            with content:
                return {name: content[name] for name in content.files}
    except Exception as error:  # numpy, zipfile and zlib raise a dozen types of hostile files
        if isinstance(error, OSError) and error.errno is not None:
            raise
        hint = _TABLE if path.suffix.lower() in (".csv", ".parquet") else ""
        raise TranspileError(f"it cannot be read as numpy's .npy or .npz: {_reason(error)}", path, hint) from error


def named_arrays(content: Array | dict[str, Array], names: Sequence[str], path: Path) -> dict[str, Array]:
    """What a file holds for the inputs of these names: the array of an .npy file is for the only one.

    Raises TranspileError.
    """
    if isinstance(content, dict):
        return content
    if len(names) != 1:
        raise TranspileError(f"it holds one array, the model has {len(names)} inputs", path, "use an .npz file")
    return {names[0]: content}


def write_npz(stream: IO[bytes], writers: Mapping[str, Callable[[IO[bytes]], None]]) -> None:
    """Write an .npz file; of each array, by its name, what puts it into a stream in the form of an .npy file.

    Not np.savez: it takes names as keywords, and an output may be called "file".
    """
    with zipfile.ZipFile(stream, "w") as archive:
        for name, write in writers.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                write(entry)


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, ValueError) and "allow_pickle" in text:
        return "it is neither, or holds Python objects"
    return escaped(text) or type(error).__name__
