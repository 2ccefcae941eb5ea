"""The engine as the scripts' own tests use it: whole scripts with arguments, in a JVM that outlives them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.whole_scripts.java import Value
from onnx_systemds.engine.jvm import Jvm
from onnx_systemds.engine.launcher import connect, disconnect, start_jvm
from onnx_systemds.engine.programs import execute, on_one_node
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.weight_files import read_value

SECONDS = 60.0
"""What a script may take; of wall clock."""
_CAUSES, _LONGEST_MESSAGE = 12, 300


class Engine:
    """A JVM with SystemDS in it, started where one is needed."""

    def __init__(self) -> None:
        self._jvm: Jvm | None = None
        self._gateway: Any = None

    def run(self, script: str, arguments: Mapping[str, Value]) -> str | None:
        """Run a script; return why it failed, None where it did not. Raises TimeoutError."""
        jvm = self._jvm
        if jvm is None:
            jvm = self._jvm = start_jvm(max_heap="1500m")
            self._gateway = connect(jvm)
        late = threading.Event()

        def stop() -> None:
            late.set()
            jvm.process.kill()

        timer = threading.Timer(SECONDS, stop)
        timer.start()
        try:
            done = execute(self._gateway, Path(script), on_one_node(arguments), jvm.directory)
        except Exception as error:
            if late.is_set():
                self.close()
                raise TimeoutError(script) from None
            return self._message(error)
        finally:
            timer.cancel()
        return None if done else "it ended early"

    def _message(self, error: Exception) -> str:
        """What Java says, with all causes; a JVM that does not answer is not asked again."""
        messages: list[str] = []
        try:
            cause = error.java_exception  # type: ignore[attr-defined]
            while cause is not None and len(messages) < _CAUSES:
                messages.append(str(cause.getMessage())[:_LONGEST_MESSAGE])
                cause = cause.getCause()
        except Exception:  # py4j has several
            self.close()
            return repr(error)[:_LONGEST_MESSAGE]
        return " | ".join(messages)

    def close(self) -> None:
        """End the JVM; the next run starts another."""
        if self._jvm is not None:
            with suppress(Exception):  # whatever is left of it
                disconnect(self._gateway)
            self._jvm.kill()
            self._jvm = None


def written_files(folder: Path, others: Iterable[Path] = ()) -> dict[str, Any]:
    """What a script wrote into a folder and below, and to other paths: values, or the error of reading one, by path."""
    found: dict[str, Any] = {}
    for path in others:
        if path.exists() and folder not in path.absolute().parents:
            found |= _value(path)
    for place, _, names in os.walk(folder):
        if place.endswith(".list") or Path(f"{place}.mtd").exists():
            continue  # the items of a list, the parts of a matrix
        for name in names:
            path = Path(place, name)
            described = path.suffix == ".mtd"
            path = path.with_suffix("") if described else path
            if not described and (name.startswith((".", "_")) or Path(f"{path}.mtd").exists() or Path(place) != folder):
                continue
            found |= _value(path) if described else {name: value for name, value in _value(path).items()
                                                     if not isinstance(value, Exception)}
    return found


def _value(path: Path) -> dict[str, Any]:
    try:
        return {str(path): read_value(path)}
    except (TranspileError, OSError, ValueError) as error:
        return {str(path): error}
