"""A running JVM with a gateway in it: its process, what it prints, its end."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from onnx_systemds.engine.errors import EngineError

LOG_SETTINGS_NAME = "log4j.properties"
_SECONDS_TO_READ = 5.0
_KEPT_LINES = 400
_LONGEST_KEPT = 4096  # characters of a line
_TOKEN_LINE = re.compile(r"[A-Za-z0-9_\-+/=]{40,}")


class Jvm:
    """A running JVM: its process, the port and secret of its gateway, and the last lines it printed."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self.directory = directory  # for pipes and spilled matrices; removed by kill()
        self.port = 0
        self.token = ""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._count = 0  # lines ever seen
        self._printed: Callable[[str], None] | None = None
        self._is_telling = False  # a line is being handed on: to a pipe whose reader takes its time, for one
        self._events: dict[str, threading.Event] = {}
        self._greeted = threading.Event()  # port and token are known, or the output has ended
        assert process.stdout is not None
        self._reader = threading.Thread(
            target=self._drain, args=(process.stdout,), name="onnx-systemds-output", daemon=True
        )
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Tell whether the process still runs."""
        return self.process.poll() is None

    def wait_for_gateway(self, seconds: float) -> None:
        """Wait for port and secret, its first lines; raises EngineError if they do not come."""
        self._greeted.wait(seconds)
        if not self.token:
            raise EngineError("the JVM did not start")

    def tail(self) -> str:
        """Return the last lines of what the JVM printed (standard output and error together)."""
        return "\n".join(list(self._lines)[-20:])

    def line_count(self) -> int:
        """Return how many lines the JVM has printed so far: a mark for `lines_since`."""
        return self._count

    def lines_since(self, mark: int) -> list[str]:
        """Return the kept lines printed after `mark`."""
        fresh = min(self._count - mark, len(self._lines))
        return list(self._lines)[-fresh:] if fresh else []

    @contextlib.contextmanager
    def telling(self, printed: Callable[[str], None] | None) -> Iterator[None]:
        """Hand each line on when it is read, from the thread that reads; the first that is not taken is the last."""
        self._printed = printed
        try:
            yield
        finally:
            self._printed = None

    def read_to_the_end(self, stream: Any) -> None:
        """Wait until all that the JVM has printed is read; some seconds at most while nothing comes and nobody is told.

        stream: its System.out or err.
        """
        line = uuid.uuid4().hex
        event = self._events[line] = threading.Event()
        stream.println(line)
        self._wait_while_it_speaks(lambda: event.wait(_SECONDS_TO_READ))

    def wait_for_end(self, seconds: float) -> int | None:
        """Wait for the process and its last words; return its exit code, None if it still runs."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        if self._reader is not threading.current_thread():
            self._wait_while_it_speaks(self._has_all_read)
        return code

    def forget_settings(self) -> None:
        """Remove the log settings, once read: less is left behind if this process is killed."""
        (self.directory / LOG_SETTINGS_NAME).unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process now and remove its files; may be called more than once and from any thread."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._reader is not threading.current_thread():
            self._reader.join(1.0)
        if self.process.stdin is not None:
            self.process.stdin.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_while_it_speaks(self, is_over: Callable[[], bool]) -> None:
        """Wait for what waits a while itself, again as long as lines come or one is being handed on."""
        seen = -1
        while not is_over() and (self._is_telling or self._count != seen):
            seen = self._count

    def _has_all_read(self) -> bool:
        self._reader.join(1.0)
        return not self._reader.is_alive()

    def _drain(self, stream: IO[bytes]) -> None:
        with stream:
            while raw := stream.readline():
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                if not self.token and self._is_greeting(line):
                    continue
                event = self._events.pop(line, None)
                if event is not None:
                    event.set()
                    continue
                if line.startswith("WARNING: Using incubator modules"):
                    continue
                self._lines.append(line[:_LONGEST_KEPT])
                self._count += 1
                self._tell(line)
                if re.match(r'Exception in thread "[^"]*" java\.lang\.\w*Error', line):
                    # A gateway thread that dies of a Java Error never answers, and its caller would wait on.
                    self.process.kill()
        self._greeted.set()

    def _tell(self, line: str) -> None:
        printed = self._printed
        if printed is not None:
            self._is_telling = True
            try:
                printed(line)
            except Exception:  # a pipe that nobody reads: the program goes on
                self._printed = None
            finally:
                self._is_telling = False

    def _is_greeting(self, line: str) -> bool:
        """Take port and secret from `line`; other lines (of JAVA_TOOL_OPTIONS) may stand between."""
        if not self.port and re.fullmatch(r"\d{1,5}", line):
            self.port = int(line)
            return True
        if self.port and _TOKEN_LINE.fullmatch(line):
            self.token = line
            self._greeted.set()
            return True
        return False
