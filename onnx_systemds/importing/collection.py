"""Python's collector of cycles, which a conversion keeps busy for nothing."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 500_000
"""New objects from one collection to the next; 700 by default."""

_lock = threading.Lock()
_found: list[tuple[int, int, int]] = []
"""The thresholds of before, once for each conversion that goes on."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect cycles seldom: nearly all objects of a conversion stay until its end, and each collection looks at many.

    A fifth of the time of large graphs. A collector that is switched off, or waits longer already, stays as it is.
    """
    with _lock:
        _found.append(_found[0] if _found else gc.get_threshold())
        first, *others = _found[0]
        gc.set_threshold(max(first, _SELDOM) if first else first, *others)
    try:
        yield
    finally:
        with _lock:
            thresholds = _found.pop()
            if not _found:
                gc.set_threshold(*thresholds)
