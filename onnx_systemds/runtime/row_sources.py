"""Rows of tables and arrays as the inputs of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.batching import Batch
from onnx_systemds.importing.block_sizes import MOST_ROWS
from onnx_systemds.importing.script import Script
from onnx_systemds.model.given_inputs import check_names
from onnx_systemds.runtime.boundary_tensors import bind_sizes
from onnx_systemds.runtime.list_transfer import nested_inputs
from onnx_systemds.runtime.row_blocks import RowBlocks
from onnx_systemds.runtime.table_inputs import TableInputs
from onnx_systemds.tables.reading import Array, Table


class TableRows:
    """The rows of a table."""

    def __init__(self, table: Table, inputs: TableInputs) -> None:
        """Of a table that is open, and the columns of it that are inputs."""
        self._table, self._inputs = table, inputs
        self.size = table.size
        none = inputs.tensors([np.empty(0) for _ in inputs.columns])
        self.shapes = {name: tensor.shape for name, tensor in none.items()}

    @property
    def done(self) -> int:
        """See `Table`."""
        return self._table.done

    def can_cut(self, batch: Batch) -> bool:
        """Along the first axis, which each input has."""
        return {*batch.inputs} == {0}

    def blocks(self, cut: RowBlocks) -> Iterator[tuple[int, dict[str, Any]]]:
        """See `RowSource`. Raises TranspileError."""
        if cut.rows is not None and not cut.is_fixed:
            read = self._table.blocks(self._inputs.columns, cut.rows)
        else:
            read = _joined(self._table.blocks(self._inputs.columns, MOST_ROWS), cut.rows)
        for arrays in read:
            if cut.is_fixed and len(arrays[0]) != cut.rows:
                raise _left_over(len(arrays[0]), cut, self._table.path)
            yield len(arrays[0]), self._inputs.tensors(arrays)

    def close(self) -> None:
        """Close the table."""
        self._table.close()


def _joined(blocks: Iterator[list[Array]], rows: int | None) -> Iterator[list[Array]]:
    """The same rows in blocks of ``rows``, only the last one smaller; or all in one."""
    waiting: list[list[Array]] = []
    for block in blocks:
        waiting.append(block)
        if rows is not None and sum(len(arrays[0]) for arrays in waiting) >= rows:
            whole = [np.concatenate(column) for column in zip(*waiting)]
            full = len(whole[0]) // rows * rows
            for start in range(0, full, rows):
                yield [column[start : start + rows] for column in whole]
            waiting = [[column[full:] for column in whole]]
    if sum(len(arrays[0]) for arrays in waiting):
        yield [np.concatenate(column) for column in zip(*waiting)]


def _left_over(rows: int, cut: RowBlocks, path: Path | None) -> TranspileError:
    return TranspileError(f"the model takes {cut.rows} rows in each call, the last one would have {rows}", path)


class ArrayRows:
    """Arrays for the inputs, cut along the batch axis, which may be any."""

    def __init__(self, script: Script, arrays: Mapping[str, Array], path: Path) -> None:
        """Of arrays by the names of inputs, as `run` takes them. Raises InvalidInput."""
        self._script, self._path = script, path
        self._inputs = nested_inputs(script.inputs, arrays)
        check_names(self._inputs, [port.name for port in script.inputs])
        tensors = {port.name: self._inputs[port.name] for port in script.inputs if port.kind == "tensor"}
        self.shapes = {name: tensor.shape for name, tensor in tensors.items()}
        self.size: int | None = None
        self.done = 0

    def can_cut(self, batch: Batch) -> bool:
        """Where all inputs have the sizes that the model declares."""
        bind_sizes(self._script.inputs, self._inputs)
        return True

    def blocks(self, cut: RowBlocks) -> Iterator[tuple[int, dict[str, Any]]]:
        """See `RowSource`. Raises TranspileError."""
        batch, ports = self._script.batch, self._script.inputs
        axes = [0] * len(ports) if cut.is_fixed or batch is None else batch.inputs
        counts = {self.shapes[port.name][axis] for port, axis in zip(ports, axes)
                  if axis is not None and self.shapes.get(port.name)}
        if cut.rows is None or not counts:
            yield max(counts, default=1), self._inputs
            return
        self.size = count = max(counts)
        if cut.is_fixed and (count % cut.rows or len(counts) > 1):
            raise _left_over(count % cut.rows, cut, self._path)
        for start in range(0, count, cut.rows):
            end = min(start + cut.rows, count)
            self.done = end
            yield end - start, {
                port.name: self._inputs[port.name]
                if axis is None
                else self._inputs[port.name][(slice(None),) * axis + (slice(start, end),)]
                for port, axis in zip(ports, axes)
            }

    def close(self) -> None:
        """Nothing is open."""
