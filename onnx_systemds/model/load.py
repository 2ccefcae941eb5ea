"""Load a model: file, bytes or protobuf -> checked `ir.Model`, large constants left where they are."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path

import onnx

from onnx_systemds.errors import InvalidModel, Reasons, TranspileError, escaped, quoted
from onnx_systemds.model import ir
from onnx_systemds.model.checking import check_skeleton, newest_opset
from onnx_systemds.model.from_protobuf import Converter, domain_of, name_of, prose_of
from onnx_systemds.model.mapped_files import MappedFiles, read_or_map
from onnx_systemds.model.tensors import TensorReader
from onnx_systemds.model.wire import Buffer, cut_model
from onnx_systemds.model.wiring import check_calls

_FIRST_IR_WITH_OPSETS = 3
_NEWEST_OF_ANY = 2**31 - 1  # version of a domain, as onnx looks operators up


def load_model(source: str | Path | bytes | onnx.ModelProto) -> ir.Model:
    """Load and check a model from a path, the bytes of a file, or a protobuf.

    Constants of a large file and of external data are read-only views of the mapped files: nothing is copied.
    Operators are not judged. Raises InvalidModel, or MultipleErrors with every reason, when the input is no ONNX
    model, breaks a rule of ONNX, or needs an opset newer than the installed onnx.
    """
    path = Path(source) if isinstance(source, str | Path) else None
    buffer = _buffer(source)
    try:
        return _load(buffer, path)
    except TranspileError as error:
        if error.place is None and path is not None:
            error.place = escaped(str(path))
            error.hint = _OTHER_NAMES.get(path.suffix.lower(), error.hint)
        raise


def _load(buffer: Buffer, path: Path | None) -> ir.Model:
    try:
        return _parsed(buffer, path)
    except RecursionError:
        raise _refused("it is nested too deeply", buffer) from None


def _parsed(buffer: Buffer, path: Path | None) -> ir.Model:
    try:
        skeleton = cut_model(buffer)
    except InvalidModel as error:
        error.hint = _guess(bytes(buffer[:64])) or error.hint
        raise
    proto = _parse(skeleton.data, buffer)
    if not proto.HasField("graph"):
        raise _refused("it holds no graph", buffer)
    reasons = Reasons()
    files = MappedFiles()
    reader = TensorReader(buffer, tuple(skeleton.cuts), path.parent if path else None, files)
    converter = Converter(reader, reasons)
    opsets = _opsets(proto.opset_import, proto.ir_version, "the model", reasons)
    graph = converter.main_graph(proto.graph, opsets)
    functions: dict[ir.FunctionKey, ir.Function] = {}
    for part in proto.functions:
        label = f"function {quoted(name_of(part.name))}"
        function = converter.function(part, _opsets(part.opset_import, proto.ir_version, label, reasons))
        key = (function.domain, function.name, function.overload)
        if key in functions:
            reasons.add(InvalidModel(f"two model functions named {quoted(function.name)}"))
        functions[key] = function
    check_calls(functions, graph, reasons)
    reasons.raise_any("the model is not valid")
    model = ir.Model(
        graph=graph,
        opset_imports=opsets,
        functions=functions,
        ir_version=proto.ir_version,
        producer_name=prose_of(proto.producer_name),
        producer_version=prose_of(proto.producer_version),
        model_version=proto.model_version,
        metadata=tuple((prose_of(pair.key), prose_of(pair.value)) for pair in proto.metadata_props),
        doc_string=prose_of(proto.doc_string),
        path=path,
        data_files=files.paths,
        release=files.release,
    )
    check_skeleton(proto, converter.trace, opsets, functions)  # last: it spoils the protobuf
    return model


def _buffer(source: object) -> Buffer:
    if isinstance(source, str | Path):
        return read_or_map(source)
    if isinstance(source, bytes):
        if not source:
            raise InvalidModel("not an ONNX model: no bytes")
        return source
    if isinstance(source, onnx.ModelProto):
        try:
            data: bytes = source.SerializeToString()
        except Exception as error:  # protobuf raises several types, all meaning "cannot be written"
            raise InvalidModel(
                f"the protobuf cannot be serialised: {escaped(str(error))}",
                hint="save a model over 2 GB with external data and give its path",
            ) from None
        if not data:
            raise InvalidModel("not an ONNX model: the protobuf is empty")
        return data
    raise InvalidModel(f"a model is a path, bytes or an onnx.ModelProto, not {type(source).__name__}")


def _parse(data: bytes, original: Buffer) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception:  # DecodeError, or others by protobuf implementation
        raise _refused("it is cut off, damaged, nested too deeply, or no protobuf", original) from None
    return proto


def _refused(what: str, buffer: Buffer) -> InvalidModel:
    return InvalidModel(f"not an ONNX model: {what}", hint=_guess(bytes(buffer[:64])))


_OTHER_FORMATS = (  # where in a file, what is there, and of what kind the file is
    (0, b"PK\x03\x04", "a zip archive, as PyTorch and Keras save their models"),
    (0, b"\x89HDF", "an HDF5 file, as Keras saves its models"),
    (0, (b"\x80\x03", b"\x80\x04", b"\x80\x05"), "a pickle, as Python programs save their objects"),
    (4, b"TFL3", "a model of TensorFlow Lite"),
    (4, b"ORTM", "a model in onnxruntime's own format"),
    (8, b'{"', "a file of safetensors, which holds weights alone"),
    (0, b"GGUF", "a file of llama.cpp, which holds weights alone"),
)


_OTHER_NAMES = {  # the hints for files that are given where a model is meant
    ".dml": "this is a script: export_script makes a model of one",
    ".csv": "this is a table, and stands where the model belongs",
    ".parquet": "this is a table, and stands where the model belongs",
}


def _guess(head: bytes) -> str:
    """Return what a file that is no model probably is, "" when it does not show."""
    if head.startswith(b"version https://git-lfs"):
        return "this is a Git LFS pointer; fetch the file itself with git lfs pull"
    for place, mark, kind in _OTHER_FORMATS:
        if head.startswith(mark, place):
            return f"this looks like {kind}; export it to ONNX where it was made"
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        return "this is compressed; unpack it first"
    if _is_text(head):
        return "this looks like a text file; a model as JSON or text is read by onnx.load(..., format=...)"
    return ""


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # which does not mind a last character cut off
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\t\r\n" for character in text)


def _opsets(
    imports: Iterable[onnx.OperatorSetIdProto], ir_version: int, label: str, reasons: Reasons
) -> dict[str, int]:
    """Return version by domain; before IR version 3 there were no imports, and version 1 was meant."""
    found: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        shown = quoted(domain or "ai.onnx")
        newest = newest_opset(domain)
        if found.setdefault(domain, entry.version) != entry.version:
            reasons.add(InvalidModel(f"{label} imports two opset versions of {shown}"))
        if not 1 <= entry.version <= _NEWEST_OF_ANY:
            reasons.add(InvalidModel(f"{label} imports opset version {entry.version} of {shown}"))
        elif newest is not None and entry.version > newest:
            reasons.add(InvalidModel(
                f"{label} imports opset {entry.version} of {shown}, the installed onnx knows {newest}",
                hint="install a newer onnx, or export the model with an older opset",
            ))
    if not found and ir_version < _FIRST_IR_WITH_OPSETS:
        found[""] = 1
    return found
