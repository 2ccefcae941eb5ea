"""Converts tensors to the inputs of a generated script, and its results to tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError, quoted
from onnx_systemds.importing.interface import Port
from onnx_systemds.inference import dims as dim
from onnx_systemds.model.given_inputs import InvalidInput, given_list, given_map, given_tensor
from onnx_systemds.runtime import list_transfer
from onnx_systemds.runtime.boundary_integers import check_given

Tensor = np.ndarray[Any, np.dtype[Any]]


def boundary_matrix(tensor: Tensor) -> Tensor:
    """A tensor as a matrix in boundary form: rank 0 is 1 x 1, rank 1 is n x 1, else d0 x rest."""
    if tensor.ndim < 2:
        return as_numbers(tensor.reshape(-1, 1))
    return as_numbers(tensor.reshape(tensor.shape[0], int(np.prod(tensor.shape[1:]))))


def bind_sizes(ports: tuple[Port, ...], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """The sizes of the symbols in the inputs' dims. Raises InvalidInput if dims contradict each other."""
    sizes: dict[str, int] = {}
    for port in ports:
        if port.name not in tensors:
            continue
        shape = tensors[port.name].shape
        for declared, actual in zip(port.dims, shape):
            if isinstance(declared, int):
                fits = declared == actual
            else:
                fits = sizes.setdefault(dim.symbols(declared)[0], actual) == actual
            if not fits:
                raise _other_dims(port, port.name, tensors[port.name], sizes)
    return sizes


def restored(port: Port, matrix: Tensor, sizes: Mapping[str, int]) -> Tensor:
    """A result matrix as a tensor of the declared dtype and dims; data-dependent dims follow from the matrix.

    Raises TranspileError.
    """
    tensor = list_transfer.tensor_of_matrix(port, matrix, port.dims, sizes)
    if tensor is None:
        why = f"its matrix is {matrix.shape[0]} x {matrix.shape[1]}" if matrix.size else "it has no elements"
        raise TranspileError(f"the dims of output {quoted(port.name)} are unknown: {why}")
    return tensor


def tensor_of(port: Port, inputs: Mapping[str, Any]) -> Tensor:
    """The tensor for an input, for a map its keys and values. Raises InvalidInput if it does not match the port."""
    if port.kind == "map":
        tensor = _map_matrix(port, inputs[port.name])
    else:
        tensor = given_tensor(port.name, inputs[port.name], port.dtype)
    if tensor.ndim != len(port.dims):
        raise _other_dims(port, port.name, tensor)
    check_given(port, tensor)
    return tensor


def list_of(port: Port, given: Any) -> Any:
    """A list whose items have the declared element type and the declared sizes, if known. Raises InvalidInput."""
    if port.kind == "optional":
        found = None if given is None else given_tensor(port.name, given, port.dtype)
    else:
        found = given_list(port.name, given, port.dtype, optional=port.kind != "sequence")
    for number, item in enumerate([found] if port.kind == "optional" else found or []):
        if item is not None and port.dims and not _fits(port, item):
            raise _other_dims(port, f"{port.name}/{number}", item)
    return found


def _fits(port: Port, item: Tensor) -> bool:
    known = [(size, actual) for size, actual in zip(port.dims, item.shape) if isinstance(size, int)]
    return item.ndim == len(port.dims) and all(size == actual for size, actual in known)


def _other_dims(port: Port, name: str, tensor: Tensor, sizes: Mapping[str, int] = MappingProxyType({})) -> InvalidInput:
    """The error for a tensor of other dims than it has to have. sizes: those that inputs before decide."""
    shown = ", ".join(map(str, port.dims))
    named = [(name, actual) for size, actual in zip(port.dims, tensor.shape) for name in dim.symbols(size)]
    broken = dict.fromkeys(name for name, actual in named if sizes.get(name, actual) != actual)
    where = "".join(f", where {name} is {sizes[name]}" for name in broken)
    message = f"input {quoted(name)} has to be [{shown}]{where}, got {list(tensor.shape)}"
    return InvalidInput(message, hint=_reshaping(port.dims, tensor))


def _reshaping(dims: tuple[dim.Dim, ...], tensor: Tensor) -> str:
    """What gives a tensor of another rank the declared dims, where its elements fill them."""
    known = [size for size in dims if isinstance(size, int)]
    is_open, elements = len(known) < len(dims), math.prod(known)
    fills = elements and (tensor.size % elements == 0 if is_open else tensor.size == elements)
    if tensor.ndim == len(dims) or len(dims) - len(known) > 1 or not fills:
        return ""
    return f"numpy.reshape(.., {tuple(size if isinstance(size, int) else -1 for size in dims)}) gives them these dims"


def _map_matrix(port: Port, given: Any) -> Tensor:
    """The keys and values of a map side by side; if either is text, numbers become text."""
    assert port.map_type is not None
    pairs = given_map(port.name, given, port.map_type)
    if port.dtype == "string":
        return np.array([[str(key), str(value)] for key, value in pairs.items()], dtype=object).reshape(-1, 2)
    return np.array([list(pairs), list(pairs.values())], dtype=np.float64).T


def as_maps(port: Port, tensor: Tensor) -> Any:
    """The rows of an output that is a sequence of maps, as dicts."""
    return [dict(zip(port.keys, row)) for row in tensor.tolist()] if port.kind == "maps" else tensor


def as_numbers(array: Tensor) -> Tensor:
    """An array of a type that the engine does not take (bfloat16, float8, 4-bit ...) as float64."""
    if array.dtype == object or array.dtype.name in ("float64", "float32", "int32", "uint8"):
        return array
    return array.astype(np.float64)
