"""Cut the large constants out of a serialised model, so that protobuf parses only a small skeleton.

A parsed model holds every constant once more beside the file. So the wire format is walked here, over a mapped file
or bytes: each large ``raw_data``, packed ``float_data`` and packed ``double_data`` of a TensorProto is left out and its
place noted; the bytes stay where they are. Everything else is copied as it stands and judged by protobuf itself.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx

from onnx_systemds.errors import InvalidModel

Buffer = bytes | mmap.mmap

CUT_KEY = "\0cut"  # key of the external_data entry that stands for a cut field; its value is an index into the cuts
THRESHOLD = 4096  # bytes; a message shorter than this is copied without looking inside
_DEEPEST = 100  # nested messages, the limit of protobuf itself

_CUTTABLE = {9: "raw_data", 4: "float_data", 10: "double_data"}
_EXTERNAL_DATA = 13
_GRAPH = 7  # of ModelProto
_CUT_OFF = "the file seems to be cut off: copy or download it again"
# From these fields on, the rest of the message is copied as it stands: they repeat once per element (a tree ensemble
# has millions), and writers put them after the tensors of the same message. What is not cut is only not saved.
_STOP_AT = {"AttributeProto": frozenset({7, 8, 9}), "TensorProto": frozenset({6})}


@dataclass(frozen=True, slots=True)
class Cut:
    """A field left out of the skeleton: its name in TensorProto, and where its bytes are (little-endian)."""

    field: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A serialised ModelProto without its large constants, and the places of the constants in the original."""

    data: bytes
    cuts: Sequence[Cut]


def cut_model(data: Buffer, threshold: int = THRESHOLD) -> Skeleton:
    """Return the skeleton of the ModelProto serialised in `data`.

    Raises InvalidModel when `data` is no protobuf wire stream as far as it is walked, or is nested too deeply.
    """
    walk = _Walk(data, threshold)
    try:
        pieces = walk.message(0, len(data), onnx.ModelProto.DESCRIPTOR, 0)
    except IndexError:
        raise _malformed(len(data), "it ends inside a field") from None
    finally:
        view = walk.view
    if pieces is None:
        return Skeleton(bytes(view), ())
    return Skeleton(b"".join(pieces), tuple(walk.cuts))


def cut_of(tensor: onnx.TensorProto, cuts: Sequence[Cut]) -> Cut | None:
    """Return the cut that a tensor of the skeleton stands for, None when it holds its own data.

    Raises InvalidModel when the tensor was merged from several, or its file forged an entry of ours.
    """
    found = [entry.value for entry in tensor.external_data if entry.key == CUT_KEY]
    if not found:
        return None
    index = found[0]
    if len(found) > 1 or not isinstance(index, str) or len(index) > 12 or not (index.isascii() and index.isdecimal()):
        raise InvalidModel("the data is given several times")
    if int(index) >= len(cuts):
        raise InvalidModel("the external data entries are forged")
    return cuts[int(index)]


@cache
def _fields(descriptor: Any) -> tuple[dict[int, Any], frozenset[int], bool]:
    """Return, for a message type: sub-messages by field number, where to stop, and whether it is a tensor."""
    inner = {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}
    return inner, _STOP_AT.get(descriptor.name, frozenset()), descriptor.name == "TensorProto"


def _malformed(position: int, what: str, hint: str = "") -> InvalidModel:
    return InvalidModel(f"not an ONNX model: malformed protobuf at byte {position}: {what}", hint=hint)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Walk:
    """One pass over the wire format of one buffer."""

    def __init__(self, data: Buffer, threshold: int) -> None:
        self.data = data
        self.view = memoryview(data)
        self.threshold = threshold
        self.cuts: list[Cut] = []

    def varint(self, position: int) -> tuple[int, int]:
        """Return the varint at `position` and the position after it. Raises InvalidModel."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
        raise _malformed(position, "a number is longer than ten bytes")

    def message(self, start: int, end: int, descriptor: Any, depth: int) -> list[bytes | memoryview] | None:
        """Return the pieces of the shortened message in [start, end), None when nothing in it was cut."""
        if depth > _DEEPEST:
            raise InvalidModel(f"sub-graphs or types are nested too deeply (more than {_DEEPEST} messages)")
        inner, stop_at, is_tensor = _fields(descriptor)
        data, threshold = self.data, self.threshold
        pieces: list[bytes | memoryview] = []
        cuts: list[Cut] = []
        seen: set[int] = set()
        copied = position = start
        while position < end:
            field_start = position
            tag = data[position]
            position += 1
            if tag >= 0x80:
                tag, position = self.varint(field_start)
            number, wire_type = tag >> 3, tag & 7
            if number in stop_at:
                position = end
                break
            if is_tensor and number in _CUTTABLE:
                if number in seen or (wire_type != 2):
                    return None  # split or unpacked: legal, rare, left to protobuf
                seen.add(number)
            if wire_type == 2:
                length = data[position]
                position += 1
                if length >= 0x80:
                    length, position = self.varint(position - 1)
                if length > end - position:
                    hint = _CUT_OFF if depth == 0 and number == _GRAPH else ""
                    raise _malformed(field_start, f"a field of {length} bytes where {end - position} are left", hint)
                begin, position = position, position + length
                if length < threshold:
                    pass
                elif is_tensor and number in _CUTTABLE:
                    pieces.append(self.view[copied:field_start])
                    cuts.append(Cut(_CUTTABLE[number], begin, length))
                    copied = position
                elif number in inner:
                    shortened = self.message(begin, position, inner[number], depth + 1)
                    if shortened is not None:
                        size = sum(map(len, shortened))
                        pieces += [self.view[copied:field_start], _varint(tag), _varint(size), *shortened]
                        copied = position
            elif wire_type == 0:
                _, position = self.varint(position)
            elif wire_type == 5:
                position += 4
            elif wire_type == 1:
                position += 8
            else:
                raise _malformed(field_start, f"wire type {wire_type}")
            if number == 0:
                raise _malformed(field_start, "field number 0")
        if position > end:
            raise _malformed(end, "it ends inside a field")
        if cuts:
            pieces += [self._entry(cut) for cut in cuts]
        if not pieces:
            return None
        pieces.append(self.view[copied:end])
        return pieces

    def _entry(self, cut: Cut) -> bytes:
        entry: bytes = onnx.StringStringEntryProto(key=CUT_KEY, value=str(len(self.cuts))).SerializeToString()
        self.cuts.append(cut)
        return _varint(_EXTERNAL_DATA << 3 | 2) + _varint(len(entry)) + entry
