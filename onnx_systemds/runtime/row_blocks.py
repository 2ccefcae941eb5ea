"""Scores rows block by block, in bounded memory."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from onnx_systemds.engine.launcher import default_max_heap
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.batching import Batch
from onnx_systemds.importing.block_sizes import BLOCK_BYTES, rows_of_block
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.context import is_named, is_size
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


def common_rows(model: Model, sizes: Mapping[str, int], *, is_table: bool = False) -> dict[str, Type]:
    """Types with a common symbol for the open first axes of inputs: of those without a name, of a table all.

    Columns of a table have the same number of rows; a model says so only by a common name. Inputs of one column each
    are a table. sizes: that the user gives to symbols, which go before others.
    """
    given = {it.name: it.type for it in model.graph.inputs if isinstance(it.type, TensorType) and it.type.dims}
    is_table = is_table or all(type_.dims[1:] in ((), (1,)) for type_ in given.values() if type_.dims)
    names: dict[str, str] = {}
    for name, type_ in given.items():
        first = type_.dims[0] if type_.dims else None
        if is_named(first):
            names |= {name: str(first)} if is_table else {}
        elif not is_size(first):
            names[name] = default if (default := f"{name}_dim0") in sizes else ""
    common = next((name for name in names.values() if name in sizes), next(filter(None, names.values()), ""))
    common = common or _new_name(given.values())
    return {name: TensorType(given[name].dtype, (common, *(given[name].dims or ())[1:]))
            for name, own in names.items() if own == common or own not in sizes}


def _new_name(types: Iterable[TensorType]) -> str:
    """A symbol for rows that the types do not have."""
    taken, name = {size for type_ in types for size in type_.dims or ()}, ROWS
    while name in taken:
        name += "_"
    return name


def script_for_rows(convert: Callable[[Mapping[str, Type]], Script], types: Mapping[str, Type]) -> Script:
    """The script for inputs of common rows, if these can be divided or are fixed; else for any that the model takes.

    types: `common_rows`. An input may be what all rows share: weights, or a table where they look something up.
    """
    try:
        script = convert(types)
    except TranspileError:
        if len(types) > 1:
            with suppress(TranspileError):
                return convert({})
        raise
    is_open = any(port.name in types and not isinstance(port.dims[0], int) for port in script.inputs)
    return convert({}) if len(types) > 1 and is_open and script.batch is None else script


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
