"""The options that change a model before its conversion: ``--from``, ``--to``, ``--type`` and ``--constant``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import click
from onnx import TensorProto

from onnx_systemds.array_files import read_array_file
from onnx_systemds.errors import InvalidModel, TranspileError, quoted
from onnx_systemds.importing.declared_inputs import with_constants, with_types
from onnx_systemds.importing.part import part_of
from onnx_systemds.model.given_inputs import given_tensor
from onnx_systemds.model.ir import Array, Dims, Model, TensorType, Type

_TYPE = re.compile(r"\s*(\w+)\s*\[([^\[\]]*)\]\s*")
_DIM = re.compile(r"[0-9]{1,9}|[A-Za-z_]\w*|\?", re.ASCII)
_DTYPES = {name.lower() for name in TensorProto.DataType.keys()} - {"undefined"}  # noqa: SIM118 - no mapping
_NUMPY_NAMES = {"float32": "float", "float64": "double"}

GIVEN_OPTIONS: list[Callable[..., Any]] = [
    click.option("--from", "starts", multiple=True, metavar="NAME",
                 help="Start at this value of the graph; it becomes an input. Repeatable."),
    click.option("--to", "ends", multiple=True, metavar="NAME",
                 help="Stop at this value of the graph; it becomes an output [default: all outputs]. Repeatable."),
    click.option("--type", "types", multiple=True, metavar="NAME=TYPE[DIMS]",
                 help="Type of an input of unknown rank, as X=float[batch,3]; ? keeps the declared dim. Repeatable."),
    click.option("--constant", "constants", multiple=True, metavar="NAME=VALUE",
                 help="Turn an input into a constant: 3, [1,2] or a file.npy. Repeatable."),
]
"""The options, which a command takes as ``starts``, ``ends``, ``types`` and ``constants``."""


@dataclass(frozen=True, slots=True)
class GivenInputs:
    """Types (a dim that is None stays as declared) and contents by the names of inputs, arrays still in files.

    starts, ends: the values that the graph begins and ends with, see `part_of`.
    """

    types: Mapping[str, TensorType]
    constants: Mapping[str, Any]
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [content for content in self.constants.values() if isinstance(content, Path)]

    def types_in(self, model: Model) -> dict[str, Type]:
        """The types of `import_model`. Raises TranspileError where one contradicts what the model declares."""
        return {name: _refined(name, _declared(model, name), given) for name, given in self.types.items()}

    def constants_in(self, model: Model) -> dict[str, Array]:
        """The contents of `import_model`. Raises TranspileError, OSError."""
        types = self.types_in(model)
        contents: dict[str, Array] = {}
        for name, content in self.constants.items():
            declared = types.get(name, _declared(model, name))
            if not isinstance(declared, TensorType):
                raise TranspileError(f"--constant: the input {quoted(name)} is not declared as a tensor")
            array = given_tensor(name, _array(content) if isinstance(content, Path) else content, declared.dtype)
            _check_shape(name, declared.dims, array.shape)
            contents[name] = array
        return contents

    def read_for(self, model: Model) -> tuple[dict[str, Type], dict[str, Array]]:
        """The types and contents for the part of the model. Raises TranspileError, OSError."""
        model = part_of(model, self.starts, self.ends)
        return self.types_in(model), self.constants_in(model)

    def put_into(self, model: Model) -> Model:
        """The part of the model, with these types and contents. Raises TranspileError, OSError."""
        model = part_of(model, self.starts, self.ends)
        typed = with_types(model.graph, self.types_in(model))
        return replace(model, graph=with_constants(typed, self.constants_in(model)))


def given_inputs(
    types: Sequence[str], constants: Sequence[str], starts: Sequence[str], ends: Sequence[str]
) -> GivenInputs:
    """What ``--type``, ``--constant``, ``--from`` and ``--to`` say. Raises BadParameter."""
    found: dict[str, TensorType] = {}
    for text in types:
        name, _, given = text.rpartition("=")
        match = _TYPE.fullmatch(given)
        if not name or match is None:
            _refuse("--type", f"{quoted(text)} is not NAME=TYPE[DIMS], as X=float[batch,3]")
        type_ = TensorType(_dtype(match[1]), _dims(match[2]))
        if found.setdefault(name, type_) != type_:
            _refuse("--type", f"{quoted(name)} is given two types")
    contents: dict[str, Any] = {}
    for text in constants:
        name, equals, given = text.partition("=")
        if not name or not equals:
            _refuse("--constant", f"{quoted(text)} is not NAME=VALUE")
        if name in contents:
            _refuse("--constant", f"{quoted(name)} is given twice")
        contents[name] = Path(given) if given.lower().endswith(".npy") else _value(given)
    return GivenInputs(found, contents, tuple(starts), tuple(ends))


def _refuse(option: str, message: str) -> NoReturn:
    raise click.BadParameter(message, param_hint=option)


def _dtype(text: str) -> str:
    name = _NUMPY_NAMES.get(text, text)
    if name not in _DTYPES:
        _refuse("--type", f"{quoted(text)} is no element type, such as float, double, int64 or string")
    return name


def _dims(text: str) -> Dims:
    items = [item.strip() for item in text.split(",")] if text.strip() else []
    if any(not _DIM.fullmatch(item) for item in items):
        _refuse("--type", f"[{text}] has a dim that is neither a number below 10^9 nor a name nor ?")
    return tuple(None if item == "?" else int(item) if item.isdigit() else item for item in items)


def _value(text: str) -> Any:
    """A number, boolean or text, or lists of them, as JSON has them."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if value is None or not _is_plain(value):
        _refuse("--constant", f"{quoted(text)} is no file.npy, and no number or list: 3, [1,2], true or '\"text\"'")
    return value


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, bool | int | float | str)


def _array(path: Path) -> Array:
    content = read_array_file(path)
    if isinstance(content, dict):
        raise TranspileError("it holds arrays by name; --constant takes an .npy file", path)
    return content


def _declared(model: Model, name: str) -> Type | None:
    known = {given.name: given.type for given in model.graph.inputs}
    if name not in known:
        shown = ", ".join(map(quoted, known)) or "none"
        raise InvalidModel(f"{quoted(name)} is no input of the graph; its inputs: {shown}")
    return known[name]


def _refined(name: str, declared: Type | None, given: TensorType) -> TensorType:
    """The given type, its open dims as declared."""
    if declared is None:
        return given
    if not isinstance(declared, TensorType):
        raise TranspileError(f"--type: the input {quoted(name)} is declared as no tensor")
    if declared.dtype != given.dtype:
        raise TranspileError(f"--type: the input {quoted(name)} is declared as {declared.dtype}, not {given.dtype}")
    if declared.dims is None or given.dims is None:
        return given
    if len(declared.dims) != len(given.dims):
        raise TranspileError(f"--type: the input {quoted(name)} is declared with {len(declared.dims)} axes")
    dims = tuple(known if size is None else size for known, size in zip(declared.dims, given.dims))
    for known, size in zip(declared.dims, dims):
        if known is not None and known != size:
            hint = "--dim fixes the size of a name" if isinstance(known, str) else ""
            raise TranspileError(f"--type: the input {quoted(name)} declares {known}, not {size}", None, hint)
    return TensorType(given.dtype, dims)


def _check_shape(name: str, dims: Dims | None, shape: tuple[int, ...]) -> None:
    if dims is None:
        return
    if len(dims) != len(shape) or any(isinstance(dim, int) and dim != size for dim, size in zip(dims, shape)):
        declared = ", ".join("?" if dim is None else str(dim) for dim in dims)
        raise TranspileError(f"--constant: the input {quoted(name)} is declared [{declared}], got {list(shape)}")
