"""Splits the samples of a batch into parts that are scored separately, and joins the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.script import Script

Tensor = np.ndarray[Any, np.dtype[Any]]


def divided(script: Script, tensors: Mapping[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """The inputs of ``count`` parts, whose numbers of samples differ by one at most."""
    assert script.batch is not None
    parts: list[dict[str, Tensor]] = [{} for _ in range(count)]
    for port, axis in zip(script.inputs, script.batch.inputs):
        tensor = tensors[port.name]
        pieces = [tensor] * count if axis is None else np.array_split(tensor, count, axis)
        for part, piece in zip(parts, pieces):
            part[port.name] = piece
    return parts


def joined(script: Script, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The outputs for all samples, from those of the parts."""
    assert script.batch is not None
    return {
        port.name: results[0][port.name]
        if axis is None
        else _joined([result[port.name] for result in results], axis)
        for port, axis in zip(script.outputs, script.batch.outputs)
    }


def of_one_sample(script: Script, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inputs with one sample of zeros, or of empty strings, in the place of none."""
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
    """The values by name, with a change along the batch axis of those that have one."""
    return {port.name: values[port.name] if axis is None else change(values[port.name], axis)
            for port, axis in zip(ports, axes)}


def _joined(results: Sequence[Any], axis: int) -> Any:
    """Arrays joined along the axis; lists of maps joined."""
    if isinstance(results[0], list):
        return [item for result in results for item in result]
    return np.concatenate(results, axis)
