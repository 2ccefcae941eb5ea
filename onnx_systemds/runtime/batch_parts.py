"""Samples of a batch that are scored apart: the inputs of each part, and the results put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.script import Script

Tensor = np.ndarray[Any, np.dtype[Any]]


def divided(script: Script, tensors: Mapping[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """The inputs of each of ``count`` parts, which have as many samples or one more."""
    assert script.batch is not None
    parts: list[dict[str, Tensor]] = [{} for _ in range(count)]
    for port, axis in zip(script.inputs, script.batch.inputs):
        tensor = tensors[port.name]
        pieces = [tensor] * count if axis is None else np.array_split(tensor, count, axis)
        for part, piece in zip(parts, pieces):
            part[port.name] = piece
    return parts


def joined(script: Script, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The outputs for all samples, from those of the parts in their order."""
    assert script.batch is not None
    return {
        port.name: results[0][port.name]
        if axis is None
        else _joined([result[port.name] for result in results], axis)
        for port, axis in zip(script.outputs, script.batch.outputs)
    }


def of_one_sample(script: Script, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inputs that have no samples with one of zeros, or of empty texts."""
    assert script.batch is not None
    return _along_samples(script.inputs, script.batch.inputs, tensors, _one_of_zeros)


def _one_of_zeros(tensor: Tensor, axis: int) -> Tensor:
    shape = [1 if place == axis else size for place, size in enumerate(tensor.shape)]
    return np.full(shape, "", object) if tensor.dtype == object else np.zeros(shape, tensor.dtype)


def of_no_sample(script: Script, results: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs without their samples."""
    assert script.batch is not None
    return _along_samples(script.outputs, script.batch.outputs, results, _of_none)


def _of_none(result: Any, axis: int) -> Any:
    return [] if isinstance(result, list) else np.take(result, [], axis)


def _along_samples(
    ports: Sequence[Port], axes: Sequence[int | None], values: Mapping[str, Any], change: Callable[[Any, int], Any]
) -> dict[str, Any]:
    """Values by name, those that have samples changed along their axis."""
    return {port.name: values[port.name] if axis is None else change(values[port.name], axis)
            for port, axis in zip(ports, axes)}


def _joined(results: Sequence[Any], axis: int) -> Any:
    """Arrays, or the lists of the maps of rows, one after the other."""
    if isinstance(results[0], list):
        return [item for result in results for item in result]
    return np.concatenate(results, axis)
