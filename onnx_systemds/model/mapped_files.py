"""Read-only views of files: the model file itself, and the external data files beside it."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path, PureWindowsPath

import numpy as np
from numpy.lib.array_utils import byte_bounds

from onnx_systemds.errors import InvalidModel, escaped, quoted
from onnx_systemds.model.ir import Array
from onnx_systemds.model.wire import Buffer

# A smaller file is read instead: it is cheap, and stays right when the file is rewritten while in use.
_SMALLEST_MAPPED = 16 * 2**20


def read_or_map(path: str | Path, advice: str = "") -> Buffer:
    """Return the content of a regular file: mapped when large, else as bytes.

    Raises InvalidModel when it is missing (with this advice), unreadable, empty or no regular file.
    """
    shown = quoted(str(path))
    # O_NONBLOCK: opening a pipe must not wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        if os.path.isdir(path):
            raise InvalidModel(f"{shown} is a directory, not a file")
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise InvalidModel(f"{shown} does not exist", hint=advice) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidModel(f"{shown} cannot be opened: {escaped(reason)}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InvalidModel(f"{shown} is not a regular file")
        if status.st_size == 0:
            raise InvalidModel(f"{shown} is empty")
        if status.st_size < _SMALLEST_MAPPED:
            return file.read()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def resolve_beside(folder: Path, location: str) -> Path:
    """Return the file that an external data location names, which must stay inside `folder`, links followed.

    Raises InvalidModel for absolute paths, ``..``, and links that lead out of the folder.
    """
    shown = quoted(location)
    # The Windows reading knows both separators and drives, and a model must mean the same everywhere.
    pure = PureWindowsPath(location)
    if not location or "\0" in location or not pure.name:
        raise InvalidModel(f"the external data location {shown} names no file")
    if pure.root or pure.drive:
        raise InvalidModel(f"the external data location {shown} is absolute; it must lie in the model's folder")
    if ".." in pure.parts:
        raise InvalidModel(f"the external data location {shown} leaves the model's folder")
    try:
        real = Path(os.path.realpath(folder / location))
        inside = real.is_relative_to(os.path.realpath(folder))
    except (OSError, ValueError) as error:
        raise InvalidModel(f"the external data location {shown} cannot be followed: {escaped(str(error))}") from None
    if not inside:
        raise InvalidModel(
            f"the external data location {shown} is a link that leaves the model's folder",
            hint="copy the data file beside the model",
        )
    return real


class MappedFiles:
    """The files of a model's constants, each opened once."""

    def __init__(self) -> None:
        self._buffers: dict[Path, Buffer | InvalidModel] = {}
        self._maps: list[tuple[int, int, mmap.mmap]] = []  # first address, address after the last, the map
        self._advice = "the model was saved in several files: this one belongs beside it, under its old name"

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that were opened by name."""
        return tuple(self._buffers)

    def open(self, path: Path) -> Buffer:
        """Return the content of `path`. Raises InvalidModel, the same again for the same path, without a hint."""
        if path not in self._buffers:
            try:
                self._buffers[path] = self.keep(read_or_map(path, self._advice))
            except InvalidModel as error:
                if error.hint:
                    self._advice = ""  # once is enough, be it the one file of a hundred weights or one of many
                self._buffers[path] = InvalidModel(error.message)
                raise
        found = self._buffers[path]
        if isinstance(found, InvalidModel):
            raise InvalidModel(found.message)
        return found

    def keep(self, buffer: Buffer) -> Buffer:
        """Note a buffer, so that `release` knows its pages; return it."""
        if isinstance(buffer, mmap.mmap):
            first, after = byte_bounds(np.frombuffer(buffer, dtype=np.uint8))
            self._maps.append((first, after, buffer))
        return buffer

    def release(self, array: Array) -> None:
        """Drop the resident pages of `array`, if it is a view of a mapped file; they are read again on use."""
        if array.size == 0 or not hasattr(mmap, "MADV_DONTNEED"):
            return
        low, high = byte_bounds(array)
        for first, after, buffer in self._maps:
            if first <= low and high <= after:
                start = (low - first) // mmap.PAGESIZE * mmap.PAGESIZE
                buffer.madvise(mmap.MADV_DONTNEED, start, high - first - start)
                return
