"""Runs tasks one after the other in a process of its own, within bounds of time and memory.

A worker is ``python -m MODULE`` whose main program calls `serve`: tasks come in on its standard input and answers go
out on its standard output, each as its length and its bytes.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import BinaryIO

_TASKS_OF_A_PROCESS = 400
_LENGTH = struct.Struct("<I")
_ROOM = 2 << 30  # of the address space, beyond what may be used: libraries and reserved pages take part of it
_TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 20  # times the seconds of processor time that a task may take until the clock ends it


class Exceeded(Exception):
    """A task took too long, or too much memory."""


class Crashed(Exception):
    """A task ended its process."""


class BoundedWorker:
    """A process for tasks; another one when a task has spoilt it."""

    def __init__(self, module: str, seconds: float, memory: int) -> None:
        self._command = [sys.executable, "-W", "ignore", "-m", module, str(memory)]
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._tasks = 0

    def __call__(self, task: bytes) -> bytes:
        """The answer to a task. Raises Exceeded or Crashed."""
        if self._process is None or self._tasks >= _TASKS_OF_A_PROCESS:
            self.close()
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._tasks = 0
            _read(self._process, None, 600)  # that it has started
        self._tasks += 1
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(_LENGTH.pack(len(task)) + task)
            self._process.stdin.flush()
            return _read(self._process, self._seconds, self._seconds * PATIENCE)
        except (Exceeded, BrokenPipeError, EOFError) as error:
            process = self._process
            self.close()
            if isinstance(error, Exceeded):
                raise
            raise Crashed(f"the process ended with {process.returncode}") from None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _read(process: subprocess.Popen[bytes], seconds: float | None, wall: float) -> bytes:
    """One answer. Raises Exceeded, EOFError."""
    assert process.stdout is not None
    start, before = time.monotonic(), _processor_time(process.pid)
    while not select.select([process.stdout], [], [], 0.5)[0]:
        used = _processor_time(process.pid) - before
        if seconds is not None and used > seconds:
            raise Exceeded(f"it takes more than {seconds:g} s")
        if time.monotonic() - start > wall:
            raise Exceeded(f"it does not end within {wall:g} s")
    return _framed(process.stdout)


def _framed(stream: BinaryIO) -> bytes:
    """The next task or answer. Raises EOFError."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(header)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def _processor_time(process: int) -> float:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer tasks until there are no more; the main program of a worker."""
    memory = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory + _ROOM,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints does not mix with the answers
    _send(output, b"ready")
    while True:
        try:
            task = _framed(sys.stdin.buffer)
        except EOFError:
            return
        _send(output, answer(task))


def peak_memory() -> int:
    """The most bytes that the process has had resident since `reset_peak`."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Measure the peak from here on."""
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def _address_space() -> int:
    return _status("VmSize")


def _status(name: str) -> int:
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{name}:"))


def _send(stream: BinaryIO, data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()
