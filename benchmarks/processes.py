"""Processes that are watched while they run: their time, and the memory of all that they start."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_INTERVAL = 0.2  # seconds between two looks at the memory
_PARENT, _RESIDENT = 1, 21  # places of fields in /proc/<pid>/stat behind the name
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Ended:
    """How a process has ended. peak, largest: resident bytes, of all processes together and of the largest one."""

    code: int
    seconds: float
    processor: float
    peak: int
    largest: int
    output: str


def watched(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command in a folder to its end."""
    printed = folder / "printed.txt"
    peaks = [0, 0]
    ended = threading.Event()
    start = time.perf_counter()
    with printed.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        watcher = threading.Thread(target=_watch, args=(process.pid, ended, peaks))
        watcher.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        watcher.join()
    text = printed.read_text(encoding="utf-8", errors="replace")
    seconds = time.perf_counter() - start
    return Ended(process.returncode, seconds, used.ru_utime + used.ru_stime, peaks[0], peaks[1], text)


def _watch(root: int, ended: threading.Event, peaks: list[int]) -> None:
    """Keep the largest sum, and the largest process, of one and all that it has started."""
    while not ended.wait(_INTERVAL):
        found = {int(path.name): _parent_and_size(path) for path in Path("/proc").glob("[0-9]*")}
        family, grown = {root}, True
        while grown:
            more = {number for number, (parent, _) in found.items() if parent in family} - family
            family, grown = family | more, bool(more)
        sizes = [found[number][1] for number in family if number in found]
        peaks[:] = max(peaks[0], sum(sizes)), max(peaks[1], *sizes, 0)


def _parent_and_size(path: Path) -> tuple[int, int]:
    """The parent of a process and its bytes, -1 and 0 if it has ended."""
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1, 0
    return int(fields[_PARENT]), int(fields[_RESIDENT]) * _PAGE
