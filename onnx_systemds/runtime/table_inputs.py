"""Assigns the columns of a table to the inputs of a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.errors import TranspileError, quoted, quoted_list
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.tables.csv_files import CsvTable
from onnx_systemds.tables.reading import BOOLEAN, FLOAT, INTEGER, TEXT, Array, Column, Table

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_HINT = "an .npz file takes any input"
_MATCHED = "columns are found by the names of the inputs, or chosen, in order, by --columns"
_NAMELESS = "; if the file begins with a row, and has no names, add --no-header"


@dataclass(frozen=True, slots=True)
class TableInputs:
    """The columns to read, and how many of them belong to each input, in order."""

    ports: tuple[Port, ...]
    columns: tuple[Column, ...]
    counts: tuple[int, ...]

    def tensors(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """The inputs, of the columns of a block of rows."""
        tensors: dict[str, Array] = {}
        start = 0
        for port, count in zip(self.ports, self.counts):
            given = arrays[start : start + count]
            start += count
            matrix = given[0] if count == 1 else np.column_stack(given)
            tensors[port.name] = matrix.reshape(len(matrix), *_sample(port, count))
        return tensors


def table_inputs(
    script: Script, table: Table, chosen: Sequence[str] | None, *, has_header: bool, others: Sequence[str] = ()
) -> TableInputs:
    """The columns for the inputs of a script.

    Those named as an input, or NAME_0, NAME_1 ... for an input with several columns; for the only input all columns
    where these are missing; ``chosen`` ones, and those without a header, one after the other. others: columns that are
    something else. Raises TranspileError.
    """
    for port in script.inputs:
        if port.kind != "tensor" or not port.dims:
            raise TranspileError(f"input {quoted(port.name)} is no column of a table", table.path, _HINT)
    if not script.inputs:
        raise TranspileError("the model has no inputs", table.path)
    names = list(table.names)
    own = [place for place, name in enumerate(names) if name not in others]
    if chosen is not None:
        dealt: list[list[int]] = _dealt(script.inputs, [_place(name, names, table) for name in chosen], table)
    elif not has_header or (len(script.inputs) == 1 and _takes_all(script.inputs[0], [names[place] for place in own])):
        if has_header and isinstance(table, CsvTable) and _is_row(names):
            raise TranspileError(
                f"the names of its columns are numbers: {quoted_list(names)}", table.path,
                "if they are a row, add --no-header; if they are names, choose columns by --columns NAME,NAME,...",
            )
        dealt = _dealt(script.inputs, own, table)
    else:
        wanted = [name for port in script.inputs for name in _names(port, names)]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise TranspileError(
                f"there is no column {quoted_list(missing)}; its columns: {quoted_list(names)}", table.path,
                _separated(table) or _MATCHED + ("" if len(missing) < len(wanted) else _NAMELESS),
            )
        dealt = [[_place(name, names, table) for name in _names(port, names)] for port in script.inputs]
    columns = [
        Column(place, names[place], _kind(port)) for port, places in zip(script.inputs, dealt) for place in places
    ]
    return TableInputs(script.inputs, tuple(columns), tuple(map(len, dealt)))


def _dealt(ports: Sequence[Port], places: list[int], table: Table) -> list[list[int]]:
    """Positions of columns dealt to inputs in order."""
    widths = [_width(port) for port in ports]
    if None in widths and len(ports) == 1:
        return [places]
    if None in widths or sum(filter(None, widths)) != len(places):
        given = quoted_list(table.names[place] for place in places)
        shown = " + ".join("any" if width is None else str(width) for width in widths)
        raise TranspileError(
            f"the inputs {quoted_list(port.name for port in ports)} take {shown} columns, "
            f"here are {len(places)}: {given}",
            table.path, _separated(table) or "choose columns by --columns NAME,NAME,...",
        )
    dealt: list[list[int]] = []
    for width in widths:
        assert width is not None
        dealt.append(places[:width])
        places = places[width:]
    return dealt


def _separated(table: Table) -> str:
    """A hint if the only column seems to hold several, separated by other characters than commas; else ""."""
    sign = next((sign for sign in ";\t|" if len(table.names) == 1 and sign in table.names[0]), "")
    return sign and (
        "fields are separated by commas, and the decimal sign is a point; pandas writes them so: "
        f"""read_csv("{table.path.name}", sep={sign!r}, decimal=",").to_csv("rows.csv", index=False)"""
    )


def _place(name: str, names: Sequence[str], table: Table) -> int:
    if name not in names:
        raise TranspileError(f"there is no column {quoted(name)}; its columns: {quoted_list(names)}", table.path)
    if names.count(name) > 1:
        raise TranspileError(f"there are several columns {quoted(name)}", table.path)
    return names.index(name)


def _names(port: Port, names: Sequence[str]) -> list[str]:
    """The columns that belong to an input by their names."""
    width = _width(port)
    if width == 1:
        return [port.name]
    if width is not None:
        return [f"{port.name}_{number}" for number in range(width)]
    counted = re.compile(rf"{re.escape(port.name)}_\d+")
    return [f"{port.name}_{number}" for number in range(max(1, sum(map(bool, map(counted.fullmatch, names)))))]


def counts_columns(names: Sequence[str]) -> bool:
    """Whether the names are the numbers of the columns, as pandas writes them; a row of numbers may look the same."""
    return any(list(names) == [str(first + place) for place in range(len(names))] for first in (0, 1))


def _is_row(names: Sequence[str]) -> bool:
    """Whether a header looks like a row: all names are numbers, but not the numbers of the columns."""
    return not counts_columns(names) and all(_NUMBER.fullmatch(name.strip()) for name in names)


def _takes_all(port: Port, names: Sequence[str]) -> bool:
    """Whether the only input takes all columns in their order: none has a name of its own, or all count from 1."""
    wanted = _names(port, names)
    return set(wanted).isdisjoint(names) or list(names) == [f"{port.name}_{place + 1}" for place in range(len(wanted))]


def _width(port: Port) -> int | None:
    """The columns of an input, None where their number is open."""
    width = dim.product(port.dims[1:])
    if isinstance(width, int):
        return width
    if len(port.dims) > 2:
        raise TranspileError(f"input {quoted(port.name)} has open sizes after its rows", None, "fix them by --dim")
    return None


def _sample(port: Port, count: int) -> tuple[int, ...]:
    """The dims of a row."""
    return tuple(size if isinstance(size, int) else count for size in port.dims[1:])


def _kind(port: Port) -> str:
    if port.dtype == "string":
        return TEXT
    return BOOLEAN if port.dtype == "bool" else INTEGER if port.dtype in INTEGER_DTYPES else FLOAT
