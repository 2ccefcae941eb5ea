"""Files that appear complete or not at all, and messages that name them as the user does."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from onnx_systemds.errors import TranspileError

_OPEN_FILES = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")  # links to what is open already, maybe to a file
_PREFIX = ".writing-"


def is_stream(path: Path) -> bool:
    """Whether what is written to ``path`` goes on to somewhere else: a device or pipe, /dev/stdout."""
    if os.path.abspath(path).startswith(_OPEN_FILES):
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_target(target: Path, sources: Iterable[Path]) -> None:
    """Raise TranspileError where ``target`` is one of the files that are read, OSError where it is no place for a file.

    Links are followed: a file is the same under each of its names.
    """
    if is_stream(target):
        return
    folder = os.path.dirname(os.path.realpath(target))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no folder to write it into", str(target))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    if os.path.islink(os.path.realpath(target)):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(target))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder; give the name of a file", str(target))
    for source in sources:
        if target.exists() and source.exists() and target.samefile(source):
            raise TranspileError("the output would replace a file that is read", target, "give it another name")


def check_targets(targets: Sequence[Path], sources: Iterable[Path]) -> None:
    """`check_target` of several files; raise TranspileError as well where two of them are one."""
    sources = list(sources)
    for place, target in enumerate(targets):
        check_target(target, sources)
        earlier = map(os.path.realpath, targets[:place])
        if not is_stream(target) and os.path.realpath(target) in earlier:
            raise TranspileError("two outputs are written into this file", target, "give one of them another name")


def part_files(path: Path) -> list[Path]:
    """The files of a folder that a program of many tasks wrote as one, without notes and checksums; a file itself."""
    return sorted(part for part in path.iterdir() if part.name[0] not in "._") if path.is_dir() else [path]


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary stream whose content takes the place of ``path`` when the block ends without an exception.

    It is written beside the target and renamed. Links are followed; devices and pipes are written to. The ``.mtd`` file
    of what was there goes: the engine would read the new content by it. Raises OSError, and whatever the block raises.
    """
    if is_stream(path):
        buffer = io.BytesIO()
        yield buffer
        with telling(path, path), path.open("ab") as stream:  # as >> does: what is there already may be another's
            stream.write(buffer.getvalue())
        return
    check_target(path, ())
    target = Path(os.path.realpath(path))
    with telling(path, target.with_name(_PREFIX)):
        handle, name = tempfile.mkstemp(prefix=_PREFIX, dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    for each in {path, target}:
        each.with_name(f"{each.name}.mtd").unlink(missing_ok=True)


@contextmanager
def adding(texts: Mapping[Path, str]) -> Iterator[None]:
    """Texts take the places of files when the block ends; none does where it fails, or where one cannot be written.

    Raises OSError, and whatever the block raises.
    """
    with ExitStack() as files:
        for path, text in texts.items():
            stream = files.enter_context(replacing(path))
            stream.write(text.encode())
            stream.flush()  # all is on the disk before the block begins
        yield


@contextmanager
def replacing_all(paths: Sequence[Path]) -> Iterator[Path]:
    """A new folder; the files of these names in it take the places of `paths` when the block ends without an exception.

    All of them or, where a place cannot be taken, none; the first one comes last, as it is the one that needs the
    others. They have one folder; links are not followed. Raises OSError, and whatever the block raises.
    """
    for path in paths:
        check_target(path, ())
    folder = paths[0].parent
    with telling(paths[0], folder / _PREFIX):
        staging = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        moved: list[tuple[Path, Path]] = []
        try:
            yield staging
            moves = [(path, staging / f"old-{i}") for i, path in enumerate(paths) if os.path.lexists(path)]
            moves += [(staging / path.name, path) for path in reversed(paths)]
            for source, place in moves:
                os.rename(source, place)
                moved.append((source, place))
        except BaseException:
            for source, place in reversed(moved):
                os.rename(place, source)
            raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def telling(path: Path, hidden: Path) -> Iterator[None]:
    """An OSError that names no file, or one that begins with ``hidden``, names ``path`` instead."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not (error.filename is None or str(error.filename).startswith(str(hidden))):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make a folder where there is none; it goes again when the block fails, unless something is in it."""
    existed = path.is_dir()
    path.mkdir(exist_ok=True)
    try:
        with telling(path, path):
            yield
    except BaseException:
        if not existed and not any(path.iterdir()):
            path.rmdir()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
