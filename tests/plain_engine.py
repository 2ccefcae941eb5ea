"""Scores a script as people run it: saved, sourced by a program, on the plain command line.

Inputs are files of the engine's binary format, weights lie in the folder that `Script.save` makes, and outputs are the
files that the program writes.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.engine.frame_files import write_frame
from onnx_systemds.engine.matrix_files import read_matrix, write_matrix
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.script import Script
from onnx_systemds.inference.values import DML_INTEGERS
from onnx_systemds.runtime import list_transfer
from onnx_systemds.runtime.boundary_tensors import as_maps, bind_sizes, boundary_matrix, restored, tensor_of
from tests.command_line import LONG_RUN, SHORT_RUN, run_dml

Array = np.ndarray[Any, np.dtype[Any]]

_WEIGHTS_OF_A_SHORT_RUN = 20_000
"""Scripts with more of them, on average, are real models, which compute for seconds without Java's second compiler."""


def score_plainly(
    script: Script,
    inputs: Mapping[str, Any],
    *,
    open_sizes: bool = False,
    mode: str = "singlenode",
    heap: str = "2g",
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return the outputs by name with ONNX's dtype and dims, as `ScoringFunction` does.

    open_sizes: the engine does not know the sizes of the inputs when it compiles. folder: an empty one to work in,
    else a temporary one. Raises AssertionError with what the engine said where it failed.
    """
    return calls_plainly(script, [inputs], open_sizes=open_sizes, mode=mode, heap=heap, folder=folder)[0]


def calls_plainly(
    script: Script,
    calls: Sequence[Mapping[str, Any]],
    *,
    open_sizes: bool = False,
    mode: str = "singlenode",
    heap: str = "2g",
    folder: Path | None = None,
) -> list[dict[str, Any]]:
    """The same for several calls in one program, their inputs of whatever sizes the script takes."""
    return programs_plainly([(script, calls)], open_sizes=open_sizes, mode=mode, heap=heap, folder=folder)[0]


def programs_plainly(
    cases: Sequence[tuple[Script, Sequence[Mapping[str, Any]]]],
    *,
    open_sizes: bool = False,
    mode: str = "singlenode",
    heap: str = "2g",
    folder: Path | None = None,
) -> list[list[dict[str, Any]]]:
    """The same for the calls of each of several scripts, which one program sources."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="plain-engine-") as name:
            return programs_plainly(cases, open_sizes=open_sizes, mode=mode, heap=heap, folder=Path(name))
    names = [f"model{place or ''}" for place in range(len(cases))]
    found = [
        [PlainCall(script, inputs, folder, f"{name}_call{number}_", name, open_sizes) for number, inputs in enumerate(calls)]
        for name, (script, calls) in zip(names, cases, strict=True)
    ]
    heads = [sourced(script, folder, name) for name, (script, _) in zip(names, cases, strict=True)]
    # source statements stand at the top of a script
    program = [lines[0] for lines in heads] + [line for lines in heads for line in lines[1:]]
    program += ["never = time() < 0", *dict.fromkeys(text for script, _ in cases for text in list_transfer.functions(script))]
    program += [statement for calls in found for call in calls for statement in call.statements()]
    weights = sum(weight.array.size for script, _ in cases for weight in script.weights)
    is_long = weights > _WEIGHTS_OF_A_SHORT_RUN * len(cases)
    run_dml("\n".join(program) + "\n", folder, mode, heap, virtual_machine=LONG_RUN if is_long else SHORT_RUN)
    return [[call.results() for call in calls] for calls in found]


def scored_together(
    cases: Mapping[str, tuple[Script, Sequence[Mapping[str, Any]]]], *, open_sizes: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """The outputs of the calls of each named script, all in one program; an error names the scripts that fail alone."""
    try:
        return dict(zip(cases, programs_plainly(list(cases.values()), open_sizes=open_sizes), strict=True))
    except AssertionError as error:
        failing = []
        for name, (script, calls) in cases.items():
            try:
                calls_plainly(script, calls, open_sizes=open_sizes)
            except AssertionError:
                failing.append(name)
        raise AssertionError(f"{', '.join(failing) or 'none fails alone, but together'}: {error}") from None


def sourced(script: Script, folder: Path, namespace: str) -> list[str]:
    """Save a script in the folder of a program; the statements that source it there and read its weights."""
    script.save(folder / f"{namespace}.dml")
    weights = [f"{namespace}_weights = {namespace}::{script.function}_init()"] if script.weights else []
    return [f'source("{namespace}.dml") as {namespace}', *weights]


@dataclass(frozen=True)
class PlainCall:
    """A call of a script in a program; its files begin with ``prefix``."""

    script: Script
    inputs: Mapping[str, Any]
    folder: Path
    prefix: str
    namespace: str
    open_sizes: bool = False

    def statements(self) -> list[str]:
        """Write the inputs; the statements that read them, call the function and write its results."""
        return [*self.readings(), self.call(), *self.writings()]

    def readings(self) -> list[str]:
        """Write the inputs; the statements that read them."""
        lines: list[str] = []
        tensors = self._tensors()
        for position, port in enumerate(self.script.inputs):
            name = self._input(position)
            if port.is_list:
                reading, _ = list_transfer.reading(port, name)
                given = list_transfer.sent(port, self.inputs[port.name], name)
                lines += [_reading(self.folder, variable, matrix) for variable, matrix in given.items()]
                lines += [line for line in reading if " = read(" not in line]
                continue
            lines.append(_reading(self.folder, name, boundary_matrix(tensors[port.name])))
            if self.open_sizes and port.dtype != "string":
                lines.append(f"if (never) {{ {name} = matrix(0, rows=nrow({name}) + 1, cols=ncol({name}) + 1) }}")
        return lines

    def call(self) -> str:
        """The statement that calls the function."""
        script = self.script
        arguments = [
            list_transfer.reading(port, self._input(i))[1] if port.is_list else _argument(port, self._input(i))
            for i, port in enumerate(script.inputs)
        ]
        sizes = bind_sizes(script.inputs, self._tensors())
        arguments += [str(sizes[symbol]) for symbol in script.sizes]
        arguments += [f"{self.namespace}_weights"] if script.weights else []
        results = [self._result(position) for position in range(len(self._results()))]
        target = results[0] if len(results) == 1 else f"[{', '.join(results)}]"
        return f"{target} = {self.namespace}::{script.function}({', '.join(arguments)})"

    def writings(self) -> list[str]:
        """The statements that write the results."""
        lines: list[str] = []
        for position, port in enumerate(self._results()):
            lines += _writing(port, self._result(position), f"{self.prefix}out{position}")
        return lines

    def results(self) -> dict[str, Any]:
        """The outputs from the files that the program has written. Raises InexactInteger."""
        script, folder, prefix = self.script, self.folder, self.prefix
        sizes = bind_sizes(script.inputs, self._tensors())
        for position, symbol in enumerate(script.returned, len(script.outputs)):
            sizes[symbol] = int(_read(folder / f"{prefix}out{position}").item())
        return {port.name: _result(port, folder, f"{prefix}out{i}", sizes) for i, port in enumerate(script.outputs)}

    def _input(self, position: int) -> str:
        return f"{self.prefix}in{position}"

    def _result(self, position: int) -> str:
        return f"{self.prefix}result{position}"

    def _results(self) -> list[Port]:
        """The outputs, and the sizes that the function returns."""
        return [*self.script.outputs, *(Port(symbol, "int64", ()) for symbol in self.script.returned)]

    def _tensors(self) -> dict[str, Array]:
        return {port.name: tensor_of(port, self.inputs) for port in self.script.inputs if not port.is_list}


def _reading(folder: Path, name: str, matrix: Array) -> str:
    """The statement that reads a matrix or frame, of which the file is written."""
    rows, cols = matrix.shape
    if matrix.size == 0:
        assert matrix.dtype != object, "DML cannot make a frame of no cells"
        return f"{name} = matrix(0, rows={rows}, cols={cols})"
    if matrix.dtype != object:
        write_matrix(folder / name, matrix)
        return f'{name} = read("{name}")'
    columns = [f"{name}_{col}" for col in range(cols)]
    for column, strings in zip(columns, matrix.T.tolist()):
        write_frame(folder / column, [str(text) for text in strings])
    reads = [f'{column} = read("{column}", data_type="frame")' for column in columns]
    joined = columns[0] if cols == 1 else f"cbind({', '.join(columns)})"
    return "\n".join([*reads, f"{name} = {joined}"])


def _argument(port: Port, name: str) -> str:
    """The text of an argument: a scalar where the tensor has no dims."""
    if port.dims != ():
        return name
    if port.dtype == "bool":
        return f"(as.scalar({name}) != 0)"
    return f"as.integer(as.scalar({name}))" if port.dtype in DML_INTEGERS else f"as.scalar({name})"


def _writing(port: Port, result: str, name: str) -> list[str]:
    """The statements that write a result."""
    if port.is_list:
        return [line.replace('")', '", format="binary")') for line in list_transfer.writing(port, result, name)]
    if port.dims == ():
        result = f"as.frame({result})" if port.dtype == "string" else f"as.matrix(as.double({result}))"
    return [f"{name} = {result}", f'write({name}, "./{name}", format="binary")']


def _result(port: Port, folder: Path, name: str, sizes: Mapping[str, int]) -> Any:
    if port.is_list:
        computed = {variable: _read(folder / variable) for variable in list_transfer.variables(port, name)}
        return list_transfer.received(port, computed, name, sizes)
    return as_maps(port, restored(port, _read(folder / name), sizes))


def _read(path: Path) -> Array:
    """The matrix, or frame of strings, that the engine has written."""
    described = json.loads(path.with_name(path.name + ".mtd").read_text())
    rows, cols = described["rows"], described["cols"]
    if described["data_type"] == "frame":
        frame = np.full((rows, cols), "", dtype=object)
        for file in sorted(path.glob("[!._]*")) if path.is_dir() else [path]:
            for start, columns in _frame_blocks(file.read_bytes()):
                for col, strings in enumerate(columns):
                    frame[start : start + len(strings), col] = strings
        return frame
    return np.zeros((rows, cols)) if rows * cols == 0 else read_matrix(path)


def _frame_blocks(data: bytes) -> Iterator[tuple[int, list[list[str]]]]:
    """First row and columns of strings of each block of a sequence file (see `engine.frame_files`)."""
    place = 4
    for _ in range(2):  # class names
        place += 1 + data[place]
    place += 2 + 4 + 16  # uncompressed, without metadata; sync bytes
    while place < len(data):
        (length,) = struct.unpack_from(">i", data, place)
        if length == -1:  # sync mark
            place += 20
            continue
        end = place + 8 + length
        _, start, rows, cols, plain_names = struct.unpack_from(">iqii?", data, place + 4)
        place += 25
        columns = []
        for _ in range(cols):
            (kind,) = struct.unpack_from(">b", data, place)
            assert abs(kind) == 8, f"a column is of type {kind}, not of strings"
            place += 1
            if not plain_names:  # a name, the number of distinct values, the sign for missing ones
                place += 2 + int.from_bytes(data[place : place + 2], "big") + 8
                place += 2 + int.from_bytes(data[place : place + 2], "big")
            strings = [""] * rows
            if kind > 0 and rows:
                assert data[place] == 0
                place += 9
                for row in range(rows):
                    (size,) = struct.unpack_from(">H", data, place)
                    strings[row] = _decoded(data[place + 2 : place + 2 + size])
                    place += 2 + size
            columns.append(strings)
        yield start - 1, columns
        place = end


def _decoded(data: bytes) -> str:
    """Java's modified UTF-8: NUL has two bytes, each half of a surrogate pair three."""
    halves = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
