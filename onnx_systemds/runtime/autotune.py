"""Autotuning: calls several candidates in turn until the fastest is known."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

TURNS = 20
"""Calls of each candidate; the first half of them warms the JVM up."""


class Autotuner(Generic[T]):
    """Candidates with equal results. After `TURNS` calls of each only the fastest remains."""

    def __init__(self, candidates: Sequence[T]) -> None:
        """candidates: the first one is called first, and remains unless another one is faster."""
        self.candidates = list(candidates)
        self._seconds: list[list[float]] = [[] for _ in candidates]

    def next(self) -> T:
        """The next candidate to call. Every second round is reversed, because a call depends on what ran before it."""
        calls = [len(seconds) for seconds in self._seconds]
        places = range(len(calls)) if min(calls) % 2 == 0 else reversed(range(len(calls)))
        return self.candidates[min(places, key=calls.__getitem__)]

    def record(self, candidate: T, seconds: float) -> None:
        """Record the time of a call; ignored if only one candidate remains."""
        if len(self.candidates) == 1:
            return
        for other, measured in zip(self.candidates, self._seconds):
            if other is candidate:
                measured.append(seconds)
        if all(len(measured) >= TURNS for measured in self._seconds):
            medians = [statistics.median(measured[TURNS // 2 :]) for measured in self._seconds]
            self.candidates, self._seconds = [self.candidates[medians.index(min(medians))]], [[]]

    def drop(self, candidate: T, instead: T) -> None:
        """Remove a candidate; if it was the last one, ``instead`` replaces it."""
        left = [position for position, other in enumerate(self.candidates) if other is not candidate]
        self.candidates = [self.candidates[position] for position in left] or [instead]
        self._seconds = [self._seconds[position] for position in left] or [[]]
