"""Samples and targets that are columns of one table, or arrays of one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from onnx_systemds.array_files import named_arrays, read_array_file
from onnx_systemds.errors import TranspileError, quoted_list
from onnx_systemds.importing.block_sizes import MOST_ROWS
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.table_inputs import TableInputs, table_inputs
from onnx_systemds.tables.opening import open_table
from onnx_systemds.tables.reading import FLOAT, Array, Column

ARRAYS = ".npz"


def samples_of_table(
    script: Script, path: Path, targets: Sequence[str], chosen: Sequence[str] | None, *, has_header: bool
) -> tuple[Mapping[str, Array], Array]:
    """The inputs, and the target, of all rows. chosen: columns of inputs. Raises TranspileError, OSError."""
    inputs, arrays = _columns(script, path, targets, chosen, has_header=has_header)
    count = len(inputs.columns)
    return inputs.tensors(arrays[:count]), np.column_stack(arrays[count:])


def rows_of_table(
    script: Script, path: Path, chosen: Sequence[str] | None, *, has_header: bool
) -> tuple[Mapping[str, Array], list[str]]:
    """The inputs of all rows, and the names of their columns. Raises as `samples_of_table`."""
    inputs, arrays = _columns(script, path, [], chosen, has_header=has_header)
    return inputs.tensors(arrays), [column.name for column in inputs.columns]


def _columns(
    script: Script, path: Path, targets: Sequence[str], chosen: Sequence[str] | None, *, has_header: bool
) -> tuple[TableInputs, list[Array]]:
    """Which columns the inputs have, and the numbers or texts of these and of targets after them."""
    with closing(open_table(path, has_header=has_header)) as table:
        names = list(table.names)
        if missing := [name for name in targets if names.count(name) != 1]:
            raise TranspileError(f"there is no column {quoted_list(missing)}; its columns: {quoted_list(names)}", path)
        inputs = table_inputs(script, table, chosen, has_header=has_header, others=targets)
        columns = [*inputs.columns, *(Column(names.index(name), name, FLOAT) for name in targets)]
        blocks = [*table.blocks(columns, MOST_ROWS)]
    if not blocks:
        raise TranspileError("there are no rows", path)
    return inputs, [np.concatenate(parts) for parts in zip(*blocks)]


def samples_of_arrays(script: Script, path: Path, target: str) -> tuple[Mapping[str, Array], Array]:
    """The inputs, and the target, by the names of arrays. Raises TranspileError, OSError."""
    content = read_array_file(path)
    if not isinstance(content, dict):
        raise TranspileError("it is one array; inputs and target are arrays of an .npz file", path)
    if target not in content:
        raise TranspileError(f"there is no array {quoted_list([target])}; there is {quoted_list(content)}", path)
    others = {name: array for name, array in content.items() if name != target}
    return named_arrays(others, [port.name for port in script.inputs], path), content[target]
