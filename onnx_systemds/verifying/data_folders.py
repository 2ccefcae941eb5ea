"""Reads inputs and expected outputs: from numpy's files, or from a folder as in ONNX's test suite."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper
from onnx.external_data_helper import uses_external_data

from onnx_systemds.array_files import named_arrays, read_array_file
from onnx_systemds.errors import TranspileError, escaped
from onnx_systemds.model.ir import Model, OptionalType, SequenceType, Type, ValueInfo

_NUMBERED = re.compile(r"(input|output)_([0-9]{1,6})\.pb")


def read_contents(path: Path, model: Model) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What a model is given, by name, and what it should give; None where the file or folder does not say.

    An .npz file has an array for each input, an .npy file that of the only one, a folder ``input_0.pb`` and so on and
    maybe ``output_0.pb``, in the order of the model's inputs and outputs. Raises TranspileError, OSError.
    """
    inputs, outputs = model.graph.inputs, model.graph.outputs
    if path.is_dir():
        given = _read(path, "input", inputs)
        if inputs and not given:
            raise TranspileError("the folder has no input_0.pb, as ONNX's test data have", path)
        return given, _read(path, "output", outputs) or None
    return named_arrays(read_array_file(path), [info.name for info in inputs], path), None


def _read(folder: Path, kind: str, wanted: Sequence[ValueInfo]) -> dict[str, Any]:
    found = (_NUMBERED.fullmatch(path.name) for path in folder.iterdir())
    numbers = sorted(int(match[2]) for match in found if match is not None and match[1] == kind)
    if numbers != [*range(len(numbers))]:
        raise TranspileError(f"the numbers of its {kind}_*.pb have gaps", folder)
    if len(numbers) > len(wanted):
        raise TranspileError(f"it has {len(numbers)} files {kind}_*.pb, the model {len(wanted)} {kind}s", folder)
    return {info.name: _content(folder / f"{kind}_{number}.pb", info.type) for number, info in zip(numbers, wanted)}


def _content(path: Path, type_: Type | None) -> Any:
    """The content of one file. Raises TranspileError for what cannot be read."""
    try:
        if isinstance(type_, OptionalType):
            return _checked(onnx.OptionalProto, path, numpy_helper.to_optional)
        if isinstance(type_, SequenceType):
            return _checked(onnx.SequenceProto, path, numpy_helper.to_list)
        return _checked(onnx.TensorProto, path, numpy_helper.to_array)
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise TranspileError(f"it is no content of an input or output: {escaped(str(error))}", path) from error


def _checked(kind: Any, path: Path, read: Any) -> Any:
    proto = kind()
    proto.ParseFromString(path.read_bytes())
    if any(uses_external_data(tensor) for tensor in _tensors(proto)):
        raise TranspileError("its content lies in another file, which is not read", path)
    content = read(proto)
    return _texts(content) if isinstance(proto, onnx.TensorProto) else content


def _tensors(proto: Any) -> list[onnx.TensorProto]:
    if isinstance(proto, onnx.TensorProto):
        return [proto]
    if isinstance(proto, onnx.SequenceProto):
        return [*proto.tensor_values, *(tensor for inner in proto.sequence_values for tensor in _tensors(inner))]
    return [proto.tensor_value, *_tensors(proto.sequence_value)]


def _texts(array: Any) -> Any:
    """Texts as str: onnx gives bytes in some versions."""
    if array.dtype.kind not in "OS":
        return array
    decoded = array.astype(object)
    flat = decoded.reshape(-1)
    for place, item in enumerate(flat):
        flat[place] = item.decode("utf-8") if isinstance(item, bytes) else item
    return flat.reshape(array.shape)
