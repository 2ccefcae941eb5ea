"""Writes weights as SystemDS binary-block files without a JVM, and reads them back.

A matrix is a grid of blocks (1000 x 1000 unless said) in one of the `sequence_files`. A key is the 1-based block row
and column, a value rows, columns, kind and big-endian doubles; ``<file>.mtd`` beside it holds the dimensions as JSON.
The engine writes big matrices as directories of such files, which it cannot read out of a list (`engine.faults`,
"parts-in-lists"): here each is one file. A named list of matrices is a directory of ``<index>_<key>`` files; the engine
cuts the key at its first underscore (SystemDS 3.4.0, ListReader), so `list_key` gives keys without one. Memory stays
at a few blocks, whatever the array is a view of.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from onnx_systemds.engine.frame_files import write_frame
from onnx_systemds.engine.metadata_files import metadata_path, write_list_metadata, write_metadata
from onnx_systemds.engine.sequence_files import SequenceFormat
from onnx_systemds.errors import InvalidModel, quoted
from onnx_systemds.files import part_files

Array = np.ndarray[Any, Any]
Progress = Callable[[int], None]

BLOCK_SIZE = 1000
THREADS = 2
"""That convert blocks, while another one writes them."""

FORMAT = SequenceFormat(
    "matrix blocks",
    (b"org.apache.sysds.runtime.matrix.data.MatrixIndexes", b"org.apache.sysds.runtime.matrix.data.MatrixBlock"),
    bytes.fromhex("6f6e6e782d73797374656d64732d0be1"),
    struct.Struct(">qq"),  # block row and block column
)
_BLOCK_HEAD = struct.Struct(">iib")  # rows, columns, kind
_LITTLE_ENDIAN = np.dtype("=f8") == np.dtype("<f8")
_EMPTY, _ULTRA_SPARSE, _SPARSE, _DENSE = 0, 1, 2, 3


@dataclass(frozen=True)
class Weight:
    """One matrix of a list."""

    name: str
    """A legal identifier; `list_key` of it is the key in the list."""
    array: Array
    """2-D, any real dtype (integers, booleans, those of ml_dtypes), possibly a view of a memory map; or a column of
    strings, which becomes a frame."""
    release: Callable[[], None] | None = None
    """Called once the array is written, for example to drop the pages of a memory map."""

    @property
    def is_text(self) -> bool:
        """Whether it is strings."""
        return bool(self.array.dtype == object)


def write_matrix(
    path: Path,
    array: Array,
    *,
    block_size: int = BLOCK_SIZE,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> None:
    """Write the 2-D `array` as doubles to the file `path` and ``path.mtd``.

    What stood there is replaced only when everything is written. `progress` gets the number of FP64 bytes
    each step covered. Integers beyond 2^53 are rounded. Raises ValueError when `array` is not 2-D or has no
    elements, TypeError when its dtype is not real.
    """
    with _replacing(Path(path)) as target:
        _write_file(target, array, block_size, threads, progress)


def write_list(
    directory: Path,
    name: str,
    weights: Sequence[Weight],
    progress: Progress | None = None,
    *,
    block_size: int = BLOCK_SIZE,
) -> None:
    """Write `weights` as the SystemDS list ``directory/name`` with ``directory/name.mtd``.

    DML reads it by ``L = read("directory/name", data_type="list")`` and ``as.matrix(L["key"])``, where key is
    the `list_key` of the weight's name. `progress` gets numbers of FP64 bytes, 8 per value in sum. Raises as
    `write_matrix`, and ValueError when two weights share a name or a name is no identifier.
    """
    names = [weight.name for weight in weights]
    if bad := [key for key in names if not (key.isascii() and key.isidentifier())]:
        raise ValueError(f"{quoted(bad[0])} cannot be the key of a weight")
    if len(set(names)) != len(names):
        raise ValueError("two weights of a list have the same name")
    with _replacing(Path(directory) / name) as target:
        target.mkdir()
        for index, weight in enumerate(weights):
            item = target / f"{index}_{list_key(weight.name)}"
            if weight.array.dtype == object:
                write_frame(item, weight.array.ravel().tolist())
            else:
                _write_file(item, weight.array, block_size, THREADS, progress)
            if weight.release is not None:
                weight.release()
        write_list_metadata(target, len(weights))


def list_key(name: str) -> str:
    """Return the key under which a list holds the weight `name`: "conv1_weight" -> "conv1-weight"."""
    return name.replace("_", "-")


def read_matrix(path: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the matrix in the binary-block file or directory `path` as rows x cols doubles.

    Raises InvalidModel when the files are not what ``path.mtd`` says, OSError when they cannot be read.
    """
    return matrix_of(*matrix_sizes(path), matrix_blocks(path), np.float64)


def matrix_of(rows: int, cols: int, blocks: Iterable[tuple[int, int, Array]], dtype: Any) -> Array:
    """Return the matrix with these blocks, each with its first row and column, and zeros elsewhere.

    Raises InvalidModel where it is too large.
    """
    try:
        matrix = np.zeros((rows, cols), dtype)
    except (MemoryError, ValueError) as error:
        raise InvalidModel(f"a matrix of {rows} x {cols} is not possible") from error
    for top, left, block in blocks:
        matrix[top : top + block.shape[0], left : left + block.shape[1]] = block
    return matrix


def matrix_sizes(path: Path) -> tuple[int, int]:
    """Return rows and columns of the matrix in the binary-block file or directory `path`. Raises InvalidModel."""
    description = _described(path)
    return description.rows, description.cols


def matrix_blocks(path: Path) -> Iterator[tuple[int, int, Array]]:
    """Yield the blocks of the matrix that `read_matrix` reads, each with its first row and column, from 0.

    They come in the order of the files; what no block holds is zeros. Raises as `read_matrix`, at the end where values
    are missing: fewer than the .mtd file counts, and not all blocks. Of what Spark has written it counts others.
    """
    path = Path(path)
    sizes = _described(path)
    nonzeros, blocks = 0, set[tuple[int, int]]()
    for file in part_files(path):
        with file.open("rb") as stream:
            try:
                for block_row, block_col, block in _read_blocks(stream):
                    top, left = (block_row - 1) * sizes.height, (block_col - 1) * sizes.width
                    fitting = min(sizes.height, sizes.rows - top), min(sizes.width, sizes.cols - left)
                    if min(top, left) < 0 or block.shape != fitting:
                        place = f"{block_row}, {block_col}"
                        raise ValueError(f"block {place} does not fit into {sizes.rows} x {sizes.cols}")
                    nonzeros += int(np.count_nonzero(block))
                    blocks.add((top, left))
                    yield top, left, block
            except (struct.error, ValueError, IndexError) as error:
                message = f"{quoted(str(file))} is not a whole binary-block file: {error}"
                raise InvalidModel(message) from error
    count = math.ceil(sizes.rows / sizes.height) * math.ceil(sizes.cols / sizes.width)
    if 0 <= sizes.nonzeros != nonzeros and len(blocks) < count:
        raise InvalidModel(f"{quoted(str(path))} does not hold all values that its .mtd file counts")


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What the .mtd file says of a matrix: rows and columns, those of its blocks, and its values that are not 0."""

    rows: int
    cols: int
    height: int
    width: int
    nonzeros: int


def _described(path: Path) -> _Sizes:
    """Return what ``path.mtd`` says. Raises InvalidModel, OSError."""
    path = Path(path)
    try:
        description = json.loads(metadata_path(path).read_text(encoding="utf-8"))
        rows, cols = int(description["rows"]), int(description["cols"])
        height, width = (int(description.get(f"{axis}_in_block", BLOCK_SIZE)) for axis in ("rows", "cols"))
        found = _Sizes(rows, cols, height, width, int(description.get("nnz", -1)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidModel(f"{quoted(str(path))}.mtd does not describe a matrix") from error
    if min(rows, cols, height, width) < 1:
        raise InvalidModel(f"{quoted(str(path))}.mtd holds dimensions that are not positive")
    return found


def _write_file(target: Path, array: Array, block_size: int, threads: int, progress: Progress | None) -> None:
    """Write the file `target` and its ``.mtd``; nothing of them exists yet."""
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"a weight must be a matrix with elements, not of shape {array.shape}")
    if array.dtype.kind in "cOSUMm":
        raise TypeError(f"a weight cannot have the dtype {array.dtype}")
    nonzeros = 0
    with target.open("wb", buffering=1 << 18) as stream:
        stream.write(FORMAT.head)
        for number, block in enumerate(_converted(array, block_size, threads)):
            nonzeros += block.nonzeros
            # A block of zeros needs no values, unless some are -0.0.
            is_empty = block.nonzeros == 0 and not block.values.view(np.int64).any()
            kind, length = (_EMPTY, 0) if is_empty else (_DENSE, block.values.nbytes)
            stream.write(FORMAT.record_head(number, (block.row, block.col), _BLOCK_HEAD.size + length))
            stream.write(_BLOCK_HEAD.pack(*block.shape, kind))
            if not is_empty:
                stream.write(block.values.data)
            if progress is not None:
                progress(block.values.nbytes)
    rows, cols = array.shape
    mtd = {"data_type": "matrix", "value_type": "double", "rows": rows, "cols": cols, "nnz": nonzeros}
    mtd |= {"rows_in_block": block_size, "cols_in_block": block_size, "format": "binary"}
    write_metadata(target, mtd)


@dataclass(frozen=True, slots=True)
class _Block:
    """Values are big-endian, row by row; row and column of the block count from 1."""

    row: int
    col: int
    shape: tuple[int, ...]
    values: Array
    nonzeros: int


def _converted(array: Array, block_size: int, threads: int) -> Iterator[_Block]:
    """Yield the blocks, each until the next one is asked for; the threads are a few blocks ahead."""
    rows, cols = (-(-size // block_size) for size in array.shape)
    # Blocks may come in any order, so a transposed view of a memory map is read in the order it lies on disk.
    down_first = abs(array.strides[0]) < abs(array.strides[1])
    cells = min(array.shape[0], block_size) * min(array.shape[1], block_size)

    def convert(number: int, buffer: Array) -> _Block:
        j, i = divmod(number, rows) if down_first else divmod(number, cols)[::-1]
        source = array[i * block_size : (i + 1) * block_size, j * block_size : (j + 1) * block_size]
        values = buffer[: source.size]
        np.copyto(values.reshape(source.shape), source, casting="unsafe")
        nonzeros = int(np.count_nonzero(values))
        if _LITTLE_ENDIAN:
            values.byteswap(inplace=True)
        return _Block(i + 1, j + 1, source.shape, values, nonzeros)

    if rows * cols == 1:
        yield convert(0, np.empty(cells))
        return
    buffers = [np.empty(cells) for _ in range(min(threads + 1, rows * cols))]
    waiting: deque[Future[_Block]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for number in range(rows * cols):
            if len(waiting) == len(buffers):
                yield waiting.popleft().result()
            waiting.append(pool.submit(convert, number, buffers[number % len(buffers)]))
        while waiting:
            yield waiting.popleft().result()


def _read_blocks(stream: BinaryIO) -> Iterator[tuple[int, int, Array]]:
    """Yield block row and column (1-based) and the values of each record of a sequence file."""
    for (block_row, block_col), record in FORMAT.records(stream):
        height, width, kind = _BLOCK_HEAD.unpack_from(record)
        if not (0 < height <= 1 << 20 and 0 < width <= 1 << 20 and height * width <= 1 << 28):
            raise ValueError("a block has an impossible size")
        yield block_row, block_col, _block_values(record[_BLOCK_HEAD.size :], height, width, kind)


def _block_values(body: memoryview, height: int, width: int, kind: int) -> Array:
    """Return the height x width doubles of one block; the engine writes all four kinds, we two of them."""
    if kind == _DENSE:
        return np.frombuffer(body, ">f8").reshape(height, width)
    block = np.zeros((height, width))
    if kind == _EMPTY:
        return block
    (count,) = struct.unpack_from(">i", body)
    if kind == _ULTRA_SPARSE:
        column = [("col", ">i4")] if width > 1 else []
        cells = np.frombuffer(body, np.dtype([("row", ">i4"), *column, ("value", ">f8")]), count, offset=4)
        block[cells["row"], cells["col"] if width > 1 else 0] = cells["value"]
        return block
    if kind != _SPARSE:
        raise ValueError(f"a block is of the unknown kind {kind}")
    offset = 4
    pair = np.dtype([("col", ">i4"), ("value", ">f8")])
    for row in range(height):
        (count,) = struct.unpack_from(">i", body, offset)
        cells = np.frombuffer(body, pair, count, offset=offset + 4) if count else np.empty(0, pair)
        block[row, cells["col"]] = cells["value"]
        offset += 4 + cells.nbytes
    return block


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a place on the same disk; what is there in the end, and its ``.mtd``, replace those of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging, mtd = Path(tempfile.mkdtemp(prefix=".writing-", dir=path.parent)), metadata_path(path)
    try:
        yield staging / path.name
        # Checksums that Hadoop left beside older files would make it refuse the new ones.
        stale = [path.with_name(f".{old.name}.crc") for old in (path, mtd)]
        for number, old in enumerate([mtd, path, *stale]):
            if os.path.lexists(old):
                old.rename(staging / f"old-{number}")
        (staging / path.name).rename(path)
        (staging / mtd.name).rename(mtd)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
