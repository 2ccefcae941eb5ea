"""A `java` for programs of seconds, first on PATH, so that processes of tests start it, too: only speed differs.

It loads classes of the engine from an archive once there is one, and does without the second compiler unless it is told
otherwise: a session of one call takes 0.9 s of processor time instead of 1.9 s. Numbers, stacks and collectors stay.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from onnx_systemds.engine.errors import EngineUnavailable
from onnx_systemds.engine.launcher import find_java

_VARIABLE = "ONNX_SYSTEMDS_TESTS_JAVA"
"""Names the folder, for processes that are started by this one."""

_JAVA = """#!/bin/sh
case "$*" in *-XX:ArchiveClassesAtExit=*) exec "{java}" "$@" ;; esac
if [ -f "{archive}" ]; then set -- "-XX:SharedArchiveFile={archive}" "$@"; fi
exec "{java}" -XX:TieredStopAtLevel=1 "$@"
"""


def put_first() -> Callable[[], None]:
    """Put it on PATH, unless an outer process has done so or JAVA_HOME names another one; returns what takes it away."""
    if _VARIABLE in os.environ or os.environ.get("JAVA_HOME"):
        return lambda: None
    try:
        java = find_java()
    except EngineUnavailable:
        return lambda: None
    folder, path = Path(tempfile.mkdtemp(prefix="quick-java-")), os.environ["PATH"]
    program = folder / "java"
    program.write_text(_JAVA.format(java=java, archive=_archive(folder)), encoding="utf-8")
    program.chmod(0o755)
    os.environ.update({_VARIABLE: str(folder), "PATH": f"{folder}{os.pathsep}{path}"})

    def take_away() -> None:
        os.environ["PATH"] = path
        del os.environ[_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)

    return take_away


def archive_of_classes(make: Callable[[Path], None]) -> Path:
    """The archive of classes, of all processes of a run; the first that asks makes it, in a file of another name."""
    if _VARIABLE not in os.environ:
        _FOLDERS.append(tempfile.TemporaryDirectory(prefix="engine-classes-"))
        archive = _archive(Path(_FOLDERS[-1].name))
    else:
        archive = _archive(Path(os.environ[_VARIABLE]))
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            made = _archive(Path(folder))
            make(made)
            made.replace(archive)
    return archive


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _archive(folder: Path) -> Path:
    return folder / "classes.jsa"
