"""TensorProto -> numpy array, without copying what lies in a file, and with every declared size checked first."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.errors import InvalidModel, quoted
from onnx_systemds.model.ir import Array, SparseTensor
from onnx_systemds.model.mapped_files import MappedFiles, resolve_beside
from onnx_systemds.model.wire import Buffer, Cut, cut_of

_DATA_FIELDS = frozenset(
    {"float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data"}
)
_NAMES: dict[int, str] = {number: name.lower() for name, number in TensorProto.DataType.items()}
_PACKED_BITS = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2, "float6e2m3": 6, "float6e3m2": 6}
_LARGEST_DENSE = 2**31  # bytes that a sparse initializer may fill when written out
_EXTERNAL_NUMBER_DIGITS = 18


def known_element_name(number: int) -> str | None:
    """Return the name of a TensorProto.DataType, None when it is undefined or unknown."""
    return _NAMES.get(number) if number else None


@cache
def _numpy_type(number: int) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


@cache
def _storage_field(number: int) -> str:
    return str(helper.tensor_dtype_to_field(number))


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


class TensorReader:
    """Makes arrays of a model's tensors: views of `buffer` for cut ones, of files in `folder` for external ones."""

    def __init__(self, buffer: Buffer, cuts: tuple[Cut, ...], folder: Path | None, files: MappedFiles) -> None:
        self._buffer = files.keep(buffer)
        self._cuts = cuts
        self._folder = folder
        self._files = files

    def array(self, tensor: onnx.TensorProto) -> Array:
        """Return the value of `tensor`, read-only, with its dims and the dtype of onnx.numpy_helper.to_array.

        Strings become dtype object holding str. Raises InvalidModel, which does not name the tensor.
        """
        number = tensor.data_type
        kind = known_element_name(number)
        if kind is None:
            raise InvalidModel(f"unknown element type {number}")
        dims = _dims(tensor)
        count = math.prod(dims)
        present = {field.name for field, _ in tensor.ListFields()}
        cut = cut_of(tensor, self._cuts) if "external_data" in present else None
        fields = (present & _DATA_FIELDS) | ({cut.field} if cut else set())
        external = tensor.data_location == TensorProto.EXTERNAL
        if "segment" in present:
            raise InvalidModel("tensor segments are not supported")
        if len(fields) + external > 1 or (cut and cut.field in present):
            raise InvalidModel("the data is given several times")
        try:
            if kind == "string":
                return _strings(tensor, fields, dims, count)
            if external:
                return self._external(tensor, kind, dims, count)
            if cut:
                return self._cut(tensor, kind, cut, dims, count)
            if "raw_data" in fields:
                raw = tensor.raw_data
                return _from_raw(number, kind, raw, 0, len(raw), dims, count)
            return _from_typed(tensor, kind, fields, dims, count)
        except (ValueError, MemoryError, OverflowError) as error:
            raise InvalidModel(f"dimensions {_shown(dims)}: {error}") from None

    def sparse(self, sparse: onnx.SparseTensorProto) -> SparseTensor:
        """Return a sparse tensor with its indices inside its dims. Raises InvalidModel."""
        dims = _dims(sparse)
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        if values.ndim != 1:
            raise InvalidModel("the values of a sparse tensor must be a vector")
        if indices.dtype != np.int64 or indices.shape not in ((len(values),), (len(values), len(dims))):
            raise InvalidModel(f"the indices of a sparse tensor do not fit {len(values)} values of rank {len(dims)}")
        limit = np.array(dims if indices.ndim == 2 else min(math.prod(dims), 2**63 - 1), dtype=np.int64)
        if indices.size and bool(((indices < 0) | (indices >= limit)).any()):
            raise InvalidModel(f"an index of a sparse tensor is outside {_shown(dims)}")
        return SparseTensor(values, indices, dims)

    def dense(self, sparse: onnx.SparseTensorProto) -> Array:
        """Return a sparse tensor written out. Raises InvalidModel, also when that would need more than 2 GiB."""
        found = self.sparse(sparse)
        if found.values.dtype == object:
            raise InvalidModel("a sparse tensor of strings")
        if math.prod(found.dims) * found.values.itemsize > _LARGEST_DENSE:
            raise InvalidModel(f"a sparse tensor of dimensions {_shown(found.dims)} is too large to be written out")
        return _frozen(written_out(found))

    def _cut(self, tensor: onnx.TensorProto, kind: str, cut: Cut, dims: tuple[int, ...], count: int) -> Array:
        if cut.field != "raw_data" and _storage_field(tensor.data_type) != cut.field:
            raise InvalidModel(f"{kind} elements cannot be stored in {cut.field}")
        return _from_raw(tensor.data_type, kind, self._buffer, cut.offset, cut.length, dims, count)

    def _external(self, tensor: onnx.TensorProto, kind: str, dims: tuple[int, ...], count: int) -> Array:
        if self._folder is None:
            raise InvalidModel(
                "its data is in an external file, and a model given as bytes or protobuf has no folder",
                hint="give the path of the model, or load the external data first",
            )
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if not all(isinstance(value, str) for value in entries.values()):  # protobuf gives bytes for what is not UTF-8
            raise InvalidModel("the external data entries are not UTF-8")
        path = resolve_beside(self._folder, entries.get("location", ""))
        expected = _byte_count(kind, _numpy_type(tensor.data_type), count)
        offset = _external_number(entries, "offset", 0)
        length = _external_number(entries, "length", expected)
        if expected == 0 and length == 0:
            return _frozen(np.empty(dims, dtype=_numpy_type(tensor.data_type)))
        buffer = self._files.open(path)
        if offset + length > len(buffer):
            raise InvalidModel(
                f"bytes {offset} to {offset + length} of {quoted(entries['location'])} are wanted, "
                f"the file has {len(buffer)}"
            )
        return _from_raw(tensor.data_type, kind, buffer, offset, length, dims, count)


def written_out(sparse: SparseTensor) -> Array:
    """Return a sparse tensor with its zeros."""
    dense, linear = np.zeros(math.prod(sparse.dims), sparse.values.dtype), sparse.indices
    if linear.ndim == 2 and sparse.dims:
        linear = np.ravel_multi_index(tuple(linear.T), sparse.dims)
    dense[linear.reshape(-1)] = sparse.values
    return dense.reshape(sparse.dims)


def _dims(proto: onnx.TensorProto | onnx.SparseTensorProto) -> tuple[int, ...]:
    dims = tuple(proto.dims)
    if min(dims, default=0) < 0:
        raise InvalidModel(f"negative dimension in {_shown(dims)}")
    return dims


def _shown(dims: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, dims[:8]))}{', ...' if len(dims) > 8 else ''}]"


def _byte_count(kind: str, dtype: np.dtype[Any], count: int) -> int:
    bits = _PACKED_BITS.get(kind)
    return count * dtype.itemsize if bits is None else (count * bits + 7) // 8


def _external_number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= _EXTERNAL_NUMBER_DIGITS):
        raise InvalidModel(f"the external data {key} {quoted(text)} is no byte count")
    return int(text)


def _from_raw(
    number: int, kind: str, buffer: Buffer, offset: int, length: int, dims: tuple[int, ...], count: int
) -> Array:
    dtype = _numpy_type(number)
    expected = _byte_count(kind, dtype, count)
    if length != expected:
        raise InvalidModel(f"{kind}{_shown(dims)} needs {expected} bytes, the model gives {length}")
    if count == 0:
        return _frozen(np.empty(dims, dtype=dtype))
    if kind in _PACKED_BITS:
        packed = TensorProto(data_type=number, dims=dims, raw_data=buffer[offset : offset + length])
        return _frozen(numpy_helper.to_array(packed))
    if kind == "bool":  # bytes other than 0 and 1 are no numpy booleans
        return _frozen((np.frombuffer(buffer, np.uint8, count, offset) != 0).reshape(dims))
    return _frozen(np.frombuffer(buffer, dtype.newbyteorder("<"), count, offset).reshape(dims))


def _from_typed(tensor: onnx.TensorProto, kind: str, fields: set[str], dims: tuple[int, ...], count: int) -> Array:
    field = _storage_field(tensor.data_type)
    if fields - {field}:
        raise InvalidModel(f"{kind} elements cannot be stored in {min(fields)}")
    bits = _PACKED_BITS.get(kind, 8)
    expected = (count * bits + 7) // 8 if bits < 6 else count
    if kind.startswith("complex"):
        expected = 2 * count
    given = len(getattr(tensor, field))
    if given != expected:
        raise InvalidModel(f"{kind}{_shown(dims)} needs {expected} elements, the model gives {given}")
    if count == 0:
        return _frozen(np.empty(dims, dtype=_numpy_type(tensor.data_type)))
    return _frozen(numpy_helper.to_array(tensor))


def _strings(tensor: onnx.TensorProto, fields: set[str], dims: tuple[int, ...], count: int) -> Array:
    if tensor.data_location == TensorProto.EXTERNAL or fields - {"string_data"}:
        raise InvalidModel("strings must be stored in string_data")
    if len(tensor.string_data) != count:
        raise InvalidModel(f"string{_shown(dims)} needs {count} strings, the model gives {len(tensor.string_data)}")
    out: Array = np.empty(count, dtype=object)
    try:
        out[:] = [text.decode("utf-8") for text in tensor.string_data]
    except UnicodeDecodeError:
        raise InvalidModel("a string is not UTF-8") from None
    return _frozen(out.reshape(dims))
