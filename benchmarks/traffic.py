"""Federated workers behind relays that count the bytes that go to them and come from them."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_SECONDS = 60
_CHUNK = 1 << 20


class Relay:
    """A port that stands for a worker's. received, sent: bytes that went to the worker, and that came from it."""

    def __init__(self, worker: int) -> None:
        """Of a worker that takes connections."""
        self.received = self.sent = 0
        self._worker = worker
        self._listening = socket.create_server(("localhost", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = self._listening.accept()
                worker = socket.create_connection(("localhost", self._worker))
                for source, target, kind in ((taken, worker, "received"), (worker, taken, "sent")):
                    threading.Thread(target=self._copy, args=(source, target, kind), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, kind: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                setattr(self, kind, getattr(self, kind) + len(data))
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def counted_sites(folder: Path, java: Sequence[str], count: int) -> Iterator[list[Relay]]:
    """Workers that end with the block, each behind its relay. java: what starts the engine."""
    with contextlib.ExitStack() as stack:
        relays = []
        for _ in range(count):
            port = _free_port()
            log = stack.enter_context((folder / f"worker{port}.log").open("wb"))
            worker = subprocess.Popen([*java, "-w", str(port)], cwd=folder, stdout=log, stderr=log)
            stack.callback(worker.wait)
            stack.callback(worker.kill)
            _wait_for(port)
            relays.append(Relay(port))
            stack.callback(relays[-1].close)
        yield relays


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        if time.monotonic() > end:
            raise TimeoutError(f"no worker at port {port}")
        time.sleep(0.1)
