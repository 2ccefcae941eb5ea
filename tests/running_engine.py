"""The plain engine in a JVM that stays: what the command line does once its JVM is up, script after script.

A start of the command line takes 0.9 s of processor time and a further script in the same JVM 0.05 s; SystemDS's own
tests run theirs in this way. The JVM has one working folder, in which a script finds what its own folder has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from onnx_systemds.engine.jvm import Jvm
from onnx_systemds.engine.launcher import connect, start_jvm
from onnx_systemds.engine.prepared_script import failure_chain
from onnx_systemds.engine.programs import run_main

_GATEWAY = ("-XX:+ExitOnOutOfMemoryError", "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0", "0")
_STARTUP_SECONDS = 60.0


class RunningEngine:
    """A JVM, its gateway and its working folder. It ends with this process, as py4j sees to."""

    def __init__(self, command: Sequence[str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="running-engine-"))
        process = subprocess.Popen([*command, *_GATEWAY], cwd=self._folder, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.jvm = Jvm(process, self._folder)
        self.jvm.wait_for_gateway(_STARTUP_SECONDS)
        self._gateway = connect(self.jvm)

    def run(self, folder: Path, options: Sequence[str]) -> tuple[bool, str]:
        """Whether a script succeeded that lies in ``folder``, and what it printed, or what the engine said.

        options: those of the command line, which name files relative to the folder.
        """
        printed = printed_by(self._gateway)
        with self._at(folder):
            try:
                return run_main(self._gateway, options), printed()
            except Py4JJavaError as error:
                said = [f"{failure.kind} -- {failure.message}" for failure in failure_chain(error)]
                return False, printed() + "\n".join(said)
            except Exception:
                if self.jvm.wait_for_end(1.0) is None:
                    raise
                return False, f"the JVM has ended: {self.jvm.tail()}"

    @contextmanager
    def _at(self, folder: Path) -> Iterator[None]:
        """What a folder has, in the working folder; what a script makes there moves into the folder."""
        for entry in os.scandir(folder):
            (self._folder / entry.name).symlink_to(os.path.abspath(entry.path))
        try:
            yield
        finally:
            for entry in os.scandir(self._folder):
                if entry.is_symlink():
                    os.unlink(entry.path)
                else:
                    _remove(folder / entry.name)
                    shutil.move(entry.path, folder / entry.name)


class LentJvm:
    """A JVM that stays, in the place of one that a program is to have of its own."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm, self._told = jvm, jvm.line_count()
        self.directory = Path(tempfile.mkdtemp(prefix="lent-jvm-"))

    def lines_since(self, mark: int) -> list[str]:
        return self._jvm.lines_since(self._told + mark)

    def kill(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jvm, name)


_JVMS: dict[str, Jvm] = {}


def lend_jvm(**_: object) -> LentJvm:
    """One for a program of `run_program`: all that this process runs in a folder have the same, as long as it lives."""
    folder = os.getcwd()
    if folder not in _JVMS or not _JVMS[folder].alive:
        _JVMS[folder] = start_jvm()
    return LentJvm(_JVMS[folder])


def printed_by(gateway: Any) -> Callable[[], str]:
    """What a JVM prints from now on, to be asked for later."""
    java = gateway.jvm.java
    printed = java.io.ByteArrayOutputStream()
    java.lang.System.setOut(java.io.PrintStream(printed, True, "UTF-8"))
    return lambda: str(printed.toString("UTF-8"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


_ENGINES: dict[tuple[str, ...], RunningEngine] = {}


def running_engine(command: Sequence[str]) -> RunningEngine:
    """The engine of a command line without its main class, started where there is none or it has died."""
    key = tuple(command)
    if key not in _ENGINES or not _ENGINES[key].jvm.alive:
        _ENGINES[key] = RunningEngine(command)
    return _ENGINES[key]
