"""Samples and targets that are columns of one table, or arrays of one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
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
    script: Script, path: Path, targets: Mapping[str, Sequence[str]], chosen: Sequence[str] | None, *, has_header: bool
) -> tuple[Mapping[str, Array], dict[str, Array]]:
    """The inputs, and the targets, of all rows.

    targets: the columns of each. chosen: columns of inputs. Raises TranspileError, OSError.
    """
    others = [name for names in targets.values() for name in names]
    inputs, arrays = _columns(script, path, others, chosen, has_header=has_header)
    count, found = len(inputs.columns), {}
    rest = iter(arrays[count:])
    for target, names in targets.items():
        found[target] = np.column_stack([*islice(rest, len(names))])
    return inputs.tensors(arrays[:count]), found


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


def samples_of_arrays(
    script: Script, path: Path, targets: Mapping[str, str]
) -> tuple[Mapping[str, Array], dict[str, Array]]:
    """The inputs, and the targets, by the names of arrays. Raises TranspileError, OSError."""
    content = read_array_file(path)
    if not isinstance(content, dict):
        raise TranspileError("it is one array; inputs and targets are arrays of an .npz file", path)
    if missing := [name for name in targets.values() if name not in content]:
        raise TranspileError(f"there is no array {quoted_list(missing)}; there is {quoted_list(content)}", path)
    others = {name: array for name, array in content.items() if name not in targets.values()}
    found = {target: content[name] for target, name in targets.items()}
    return named_arrays(others, [port.name for port in script.inputs], path), found
