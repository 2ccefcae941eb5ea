"""Writes the inputs of a program beside a script as the files that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.engine.frame_files import write_frame
from onnx_systemds.engine.matrix_files import write_matrix
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.score_variables import TABLE
from onnx_systemds.model.given_inputs import InvalidInput, check_is_mapping, check_names
from onnx_systemds.runtime.boundary_tensors import Tensor, boundary_matrix, tensor_of
from onnx_systemds.runtime.list_transfer import nested_inputs


def tensors_of(ports: Sequence[Port], inputs: Mapping[str, Any]) -> tuple[dict[str, Tensor], int]:
    """The inputs by their names, and how many samples they have. Raises InvalidInput."""
    check_is_mapping(inputs, [port.name for port in ports])
    given = nested_inputs(tuple(ports), inputs)
    check_names(given, [port.name for port in ports])
    tensors = {port.name: tensor_of(port, given) for port in ports}
    counts = {len(tensor) for tensor in tensors.values() if tensor.ndim}
    if len(counts) != 1 or not min(counts):
        raise InvalidInput(f"the inputs have {sorted(counts)} samples")
    return tensors, counts.pop()


def write_inputs(
    folder: Path, arguments: Sequence[str], read: Sequence[str], tensors: Iterable[Tensor]
) -> dict[str, str]:
    """Write the inputs of a program in the engine's binary format, and return its arguments with their paths.

    arguments: one for each of ``read``, what the program calls its inputs, or `TABLE` for all. Texts are frames.
    """
    matrices = [
        tensor.reshape(len(tensor), -1) if tensor.dtype == object else boundary_matrix(tensor) for tensor in tensors]
    if [*read] == [TABLE]:
        has_texts = any(matrix.dtype == object for matrix in matrices)
        matrices = [np.hstack([_texts(matrix) if has_texts else matrix for matrix in matrices])]
    found = {}
    for argument, matrix in zip(arguments, matrices):
        path = folder / f"{argument}.{'frame' if matrix.dtype == object else 'matrix'}"
        if matrix.dtype == object:
            write_frame(path, matrix)
        else:
            write_matrix(path, np.asarray(matrix, dtype=np.float64))
        found[argument] = str(path)
    return found


def check_whole(name: str, number: Any, least: int) -> None:
    """Raise ValueError where an argument of a program is no whole number from ``least`` on."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < least:
        raise ValueError(f"{name} is a whole number from {least} on, not {number!r}")


def java_number(number: float) -> str:
    """A number as Java reads it."""
    text = repr(float(number))
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def _texts(matrix: Tensor) -> Tensor:
    """The cells of a matrix as texts."""
    if matrix.dtype == object:
        return matrix
    return np.array([[java_number(cell) for cell in row] for row in matrix.tolist()], object).reshape(matrix.shape)
