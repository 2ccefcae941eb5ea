"""Scores rows block by block, in bounded memory."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from onnx_systemds.engine.launcher import default_max_heap
from onnx_systemds.importing.batching import Batch
from onnx_systemds.importing.block_sizes import BLOCK_BYTES, rows_of_block
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.model.ir import Model, TensorType, Type

Inputs = Mapping[str, Any]

ROWS = "rows"
"""The symbol of the rows of a table, for inputs that leave their first axis without a name."""
COPIES = 12
"""Matrices of that size that the engine is given room for: inputs, results, and what lives between them."""
BASE_HEAP = 400 << 20
"""Bytes of heap for the engine itself, and for what is not yet collected."""


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """How rows are split. rows: of a block, None for all in one call. heap: of the engine, as Java's -Xmx.

    is_fixed: whether the model itself says how many rows a call has: then no block has fewer.
    """

    rows: int | None
    heap: str
    is_fixed: bool = False


class RowSource(Protocol):
    """A source of rows."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of the inputs; those of a table are without rows."""

    @property
    def size(self) -> int | None:
        """Of all of it, in what ``done`` counts; None if not known."""

    @property
    def done(self) -> int:
        """How much of it has been read."""

    def can_cut(self, batch: Batch) -> bool:
        """Whether it can be cut along the batch axis."""

    def blocks(self, cut: RowBlocks) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number of rows, and the inputs, of each block. Raises TranspileError, OSError."""

    def close(self) -> None:
        """Close its file."""


def common_rows(model: Model) -> dict[str, Type]:
    """Types with a common symbol for the inputs whose first axis has an unnamed open size.

    Columns of a table have the same number of rows; a model says so only by a common name.
    """
    types: dict[str, Type] = {}
    for given in model.graph.inputs:
        if isinstance(given.type, TensorType) and given.type.dims and given.type.dims[0] is None:
            types[given.name] = TensorType(given.type.dtype, (ROWS, *given.type.dims[1:]))
    return types


def row_blocks(script: Script, source: RowSource, wanted: int | None = None) -> RowBlocks:
    """How to split the rows of a source. wanted: rows of a block, if the user sets it."""
    fixed, batch = _fixed_rows(script), script.batch
    if fixed is not None:
        return RowBlocks(fixed, default_max_heap(), is_fixed=True)
    if batch is None or not source.can_cut(batch):
        return RowBlocks(None, default_max_heap())
    sizes = {
        dim.symbols(declared)[0]: size
        for port in script.inputs
        for declared, size in zip(port.dims, source.shapes[port.name])
        if not isinstance(declared, int)
    }
    bytes_of_row = 8 * script.cells_of_sample(sizes)
    rows = wanted or rows_of_block(script, sizes)
    weights = sum(weight.array.size * 8 for weight in script.weights)
    heap = BASE_HEAP + 3 * weights + COPIES * max(rows * bytes_of_row, BLOCK_BYTES)
    return RowBlocks(rows, f"{min(heap >> 20, int(default_max_heap()[:-1]))}m")


def _fixed_rows(script: Script) -> int | None:
    """The number of rows that all inputs and outputs of a model have; None if it is open or differs."""
    if any(port.is_list or not port.dims for port in script.inputs + script.outputs):
        return None
    rows = {port.dims[0] for port in script.inputs + script.outputs}
    size = rows.pop() if len(rows) == 1 else None
    return size if isinstance(size, int) else None


def scored_blocks(
    score: Callable[[Inputs], dict[str, Any]], blocks: Iterable[tuple[int, Inputs]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of rows and the results of each block; the next block is read while the engine scores one."""
    engine = concurrent.futures.ThreadPoolExecutor(1, "onnx-systemds-rows")
    running: tuple[int, concurrent.futures.Future[dict[str, Any]]] | None = None
    try:
        for rows, block in blocks:
            following = (rows, engine.submit(score, block))
            if running is not None:
                yield running[0], running[1].result()
            running = following
        if running is not None:
            yield running[0], running[1].result()
    finally:  # not waiting: an interrupt ends the session, and that the call
        engine.shutdown(wait=False, cancel_futures=True)
