"""Tests of several models at once: each that fails is reported, not the first only."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def all_failures() -> Iterator[Callable[[str], AbstractContextManager[None]]]:
    """Gives a context for each named case, which may fail while the others go on. Raises AssertionError at the end."""
    found: list[str] = []

    @contextmanager
    def case(name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever it is, it is this case's
            found.append(f"{name}: {error if isinstance(error, AssertionError) else traceback.format_exc()}")

    yield case
    assert not found, f"{len(found)} failed\n\n" + "\n\n".join(found)
