"""Deadlines of the operations of a session."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


class Watchdog:
    """Calls `on_timeout` once a deadline passes; one sleeping thread serves all operations of a session."""

    def __init__(self, on_timeout: Callable[[], None]) -> None:
        self._on_timeout = on_timeout
        self._wake = threading.Condition()
        self._deadline = math.inf
        self._sleeps_until = math.inf
        self._stopped = False
        self.fired = False
        threading.Thread(target=self._watch, name="onnx-systemds-watchdog", daemon=True).start()

    def arm(self, seconds: float) -> None:
        """Set the deadline `seconds` from now."""
        self._deadline = time.monotonic() + seconds
        # Mostly the thread sleeps till an earlier deadline already, and need not be woken at every call.
        if self._deadline < self._sleeps_until:
            with self._wake:
                self._wake.notify()

    def disarm(self) -> None:
        """Take the deadline back."""
        self._deadline = math.inf

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        with self._wake:
            self._wake.notify()

    def _watch(self) -> None:
        with self._wake:
            while not self._stopped:
                deadline = self._deadline
                self._sleeps_until = deadline
                if self._deadline < deadline:  # arm() may have looked before that line: then it did not notify
                    continue
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    self.fired = True
                    self._on_timeout()
                    return
                self._wake.wait(min(remaining, threading.TIMEOUT_MAX) if remaining < math.inf else None)
