"""What goes into a model and comes out: inputs with their dims, bound values, and outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from onnx_systemds.engine.frame_files import NotedFrame
from onnx_systemds.errors import TranspileError, UnsupportedCase, quoted
from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, TEXT
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.stored_matrices import StoredMatrix
from onnx_systemds.exporting.values import (
    INTEGER,
    TYPES,
    FrameValue,
    ListValue,
    Matrix,
    Scalar,
    Value,
    known_scalar,
    scalar_text,
)
from onnx_systemds.inference.dims import Dim, product, symbol

_KINDS = {"double": FLOAT, "float": FLOAT, "int": INT, "integer": INT, "boolean": BOOL, "bool": BOOL, "string": TEXT}
_SPEC = re.compile(r"\s*(\w+)\s*(?:\[([^\]]*)\])?\s*")


@dataclass(frozen=True)
class InputSpec:
    """Type and dims of an input: ``InputSpec("double", ["N", 784])``. Without dims (None) it is a scalar.

    One dim is a column, two are rows and columns. Of more dims the first is the rows, the product of the others the
    columns.
    """

    type: str = "double"
    dims: Sequence[int | str] | None = None

    @classmethod
    def parse(cls, text: str) -> InputSpec:
        """Read ``double[N,784]``, ``double`` or ``[N,784]``. Raises TranspileError."""
        if text.strip().startswith("["):
            text = f"double{text.strip()}"
        match = _SPEC.fullmatch(text)
        if match is None or match[1] not in _KINDS:
            raise TranspileError(f"{quoted(text)} does not say what an input is", hint="write it as double[N,784]")
        if match[2] is None:
            return cls(match[1], None)
        items = [item.strip() for item in match[2].split(",")] if match[2].strip() else []
        if any(not re.fullmatch(r"[0-9]{1,18}|[A-Za-z_]\w*", item) for item in items):
            raise TranspileError(f"{quoted(text)} has a dim that is neither a number nor a name")
        return cls(match[1], [int(item) if item.isdigit() else item for item in items])

    @property
    def kind(self) -> str:
        """The kind of the tensor: bool, int, float or text. Raises TranspileError."""
        if self.type not in _KINDS:
            raise TranspileError(f"{quoted(self.type)} is no type of an input", hint=f"one of {', '.join(_KINDS)}")
        return _KINDS[self.type]

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """The dims, those with a name as symbols."""
        return tuple(dim if isinstance(dim, int) else symbol(dim) for dim in self.dims or ())

    @property
    def matrix_dims(self) -> tuple[Dim, Dim]:
        """Rows and columns."""
        return self.sizes[0] if self.sizes else 1, product(self.sizes[1:])


@dataclass(frozen=True)
class ReadFile:
    """What a file that a script reads is: the input, or bound value, of this name, taken for this type.

    by_texts: whether `read` says which of its texts are missing, as only a csv file has them.
    columns: the names of the columns of a frame that the script needs, empty for those that the engine gives.
    """

    name: str
    data_type: str
    value_type: str
    by_texts: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScriptFiles:
    """The files of a script by their paths as it names them: what it reads, and the outputs that it writes.

    The outputs for the items of a list begin with its name; one whose file only the run names is not among them.
    """

    read: dict[str, ReadFile] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)


class Interface:
    """The inputs and outputs of a model under construction, and what is bound to values.

    wanted: the outputs that the model gets of all that a script writes, None for all; of a list its own name serves.
    files: takes what the script reads and writes.
    """

    def __init__(
        self, graph: Operators, specs: Mapping[str, InputSpec], bindings: Mapping[str, Any],
        wanted: Sequence[str] | None = None, files: ScriptFiles | None = None,
    ) -> None:
        self.graph = graph
        self.specs = dict(specs)
        self.bindings = dict(bindings)
        self.used: set[str] = set()
        self._inputs: dict[str, Value] = {}
        self.wanted = wanted
        self.files = files or ScriptFiles()
        self._outputs: set[str] = set()
        self._met: dict[str, None] = {}  # of what is wanted
        self._left_out: dict[str, None] = {}
        self._read: dict[str, str] = {}  # what inputs and variables are read from
        self._read_as: dict[tuple[str, str, str], str] = {}  # the input of a file, as these types

    def dims_given(self) -> dict[str, tuple[Dim, Dim]]:
        """Rows and columns of inputs and bound values, by name."""
        found = {name: spec.matrix_dims for name, spec in self.specs.items() if spec.dims is not None}
        for name, content in self.bindings.items():
            if isinstance(content, StoredMatrix):
                found[name] = (content.rows, content.cols)
            elif isinstance(content, np.ndarray) and content.ndim > 0:
                found[name] = (content.shape[0], math.prod(content.shape[1:]))
        return found

    def bound(self, name: str) -> Value | None:
        """Return the value that is bound to a name, None for none. Raises UnsupportedCase where it is an input too."""
        if name not in self.bindings:
            return None
        if name in self.specs:
            raise UnsupportedCase(f"{name} is bound to a value, and declared as an input")
        self.used.add(name)
        return self.constant(self.bindings[name], name)

    def constant(self, content: Any, name: str) -> Value:
        """Return a Python value as a constant: an array as a matrix (texts: as a frame), a dict or list as a list."""
        if isinstance(content, Mapping):
            items = tuple(self.constant(item, f"{name}_{key}") for key, item in content.items())
            return ListValue(items, tuple(map(str, content)))
        if isinstance(content, (list, tuple)):
            return ListValue(tuple(self.constant(item, f"{name}_{i + 1}") for i, item in enumerate(content)))
        if isinstance(content, (bool, int, float, str)):
            return known_scalar(content)
        if isinstance(content, StoredMatrix):
            dims = (content.rows, content.cols)
            return Matrix(self.graph.stored(content, dims, name), *dims)
        if isinstance(content, NotedFrame):
            frame = self.constant(content.cells, name)
            assert isinstance(frame, FrameValue)
            return replace(frame, missing=content.missing, names=content.names)
        array = np.asarray(content)
        if array.ndim == 0:
            return known_scalar(array.item())
        dims = array.shape[0], math.prod(array.shape[1:])
        if array.dtype.kind in "OU":
            texts = np.array([_cell_text(item, name) for item in array.ravel().tolist()], object)
            return FrameValue((self.graph.constant(texts.reshape(dims), TEXT, name),))
        if array.dtype.kind not in "fiub":
            raise UnsupportedCase(f"the value of {name} is no array of numbers")
        return Matrix(self.graph.constant(np.asarray(array.reshape(dims), np.float64), FLOAT, name), *dims)

    def input(
        self, name: str, scalar_type: str | None = None, dims: Sequence[Dim] | None = None, frame: bool = False
    ) -> Value:
        """Return an input of the model; its spec, or else `scalar_type`, `dims` and `frame`, say what it is."""
        if name in self._inputs:
            return self._inputs[name]
        spec = self.specs.get(name)
        self.used.add(name)
        if spec is None and scalar_type is not None:
            spec = InputSpec(scalar_type)
        if spec is None:
            found = tuple(dims) if dims is not None else (symbol(f"{name}_rows"), symbol(f"{name}_cols"))
            tensor = self.graph.input(name, TEXT if frame else FLOAT, found)
            value: Value = FrameValue((tensor,)) if frame else Matrix(tensor, found[0], found[1])
        elif spec.dims is None or (scalar_type is not None and not spec.dims):
            value = self._scalar_input(name, spec)
        else:
            tensor = self.graph.input(name, spec.kind, spec.sizes)
            value = Matrix(tensor, *spec.matrix_dims)
            if frame or spec.kind == TEXT:
                value = FrameValue((self.graph.reshape(tensor, value.dims),))
        self._inputs[name] = value
        return value

    def _scalar_input(self, name: str, spec: InputSpec) -> Scalar:
        tensor = self.graph.input(name, spec.kind, ())
        if spec.kind == INT:
            return Scalar(INTEGER, self.graph.integer_symbol(tensor, name))
        return Scalar(TYPES[spec.kind], tensor)

    def read(
        self, path: str, variable: str, dims: tuple[Dim | None, Dim | None], data_type: str, value_type: str
    ) -> Value:
        """Return what ``variable = read(path)`` gives: a bound value, else an input called like the variable.

        A file that is read again is the same input, called like the first variable.
        """
        stem = PurePosixPath(path).stem
        if self._read.setdefault(variable, path) != path:
            variable = ""  # it has been read from another file, and means that one
        for name in (path, variable, stem):
            found = self.bound(name) if name else None
            if found is not None:
                self.files.read[path] = ReadFile(name, data_type, value_type)
                return FrameValue((found.tensor,)) if isinstance(found, Matrix) and data_type == "frame" else found
        name = next((n for n in (variable, path, stem) if n in self.specs), variable or stem or "input")
        name = self._read_as.setdefault((path, data_type, value_type), name)
        if self._read.setdefault(name, path) != path:
            raise UnsupportedCase(f"{quoted(path)} and {quoted(self._read[name])} would be one input, called {name}",
                                  hint="read them into variables of different names")
        self.files.read[path] = ReadFile(name, data_type, value_type)
        if data_type == "scalar":
            return self.input(name, scalar_type=value_type)
        if data_type not in ("matrix", "frame", ""):
            raise UnsupportedCase(f"a {data_type} that is read must be bound to a value",
                                  hint=f"bind it: --weight {path}={path}, or another file")
        sizes = [symbol(f"{name}_{part}") if dim is None else dim for dim, part in zip(dims, ("rows", "cols"))]
        return self.input(name, dims=sizes, frame=data_type == "frame")

    def name_columns(self, frame: FrameValue, names: tuple[str, ...]) -> None:
        """Note what the columns of a frame are called in the file that it is read from, if it is one that is read."""
        for path, file in self.files.read.items():
            if self._inputs.get(file.name) is frame:
                self.files.read[path] = replace(file, columns=names)

    def write(self, name: str, tensor: Any, *, again: bool = False) -> None:
        """Make a tensor an output of the model; again: in place of one of its name, which is refused otherwise."""
        if self.graph.unit.caller is not None:
            raise UnsupportedCase(f"{quoted(name)} is written inside a function")
        if name in self._outputs and not again:
            raise UnsupportedCase(f"{quoted(name)} is written twice")
        self._outputs.add(name)
        self.graph.output(name, tensor)

    def wants(self, name: str) -> bool:
        """Whether the model gets what is written under a name; what it does not get is noted, for the error."""
        if self.wanted is None:
            return True
        (self._met if name in self.wanted else self._left_out)[name] = None
        return name in self.wanted

    def may_want(self, name: str) -> bool:
        """Whether the model gets what is written under a name, or items of it, should it be a list."""
        return self.wanted is None or any(f"{wanted}_".startswith(f"{name}_") for wanted in self.wanted)

    def check_wanted(self) -> None:
        """Raise TranspileError for an output that is wanted and that nothing writes."""
        for name in self.wanted or ():
            if name not in self._met:
                known = ", ".join([*self._met, *self._left_out]) or "none"
                raise TranspileError(f"the script writes no result {quoted(name)}", hint=f"its results: {known}")

    def unused(self) -> list[str]:
        """Return the names of specs and bindings that nothing has asked for."""
        return [name for name in {**self.specs, **self.bindings} if name not in self.used]


def _cell_text(item: Any, name: str) -> str:
    """Return a cell of a frame as text; what is missing, as in tables of pandas, has none."""
    item = item.item() if isinstance(item, np.generic) else item
    if item is None or (isinstance(item, float) and math.isnan(item)):
        return ""
    if isinstance(item, bytes):
        raise UnsupportedCase(f"a cell of the frame {name} is no text but bytes", hint="decode them to texts")
    return scalar_text(item) if isinstance(item, (bool, float)) else str(item)
