"""Which of several candidates is the fastest: tried by turns, until each has been measured often enough."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

TURNS = 20
"""Calls of each candidate; the first half of them warms the JVM up."""


class Autotuner(Generic[T]):
    """Candidates that do the same. Only the fastest one is left after `TURNS` calls of each."""

    def __init__(self, candidates: Sequence[T]) -> None:
        """The first candidate has the first turn, and is kept where others are not faster."""
        self.candidates = list(candidates)
        self._seconds: list[list[float]] = [[] for _ in candidates]

    def next(self) -> T:
        """The candidate whose turn it is; every second round goes backwards, as calls feel what ran before them."""
        calls = [len(seconds) for seconds in self._seconds]
        places = range(len(calls)) if min(calls) % 2 == 0 else reversed(range(len(calls)))
        return self.candidates[min(places, key=calls.__getitem__)]

    def record(self, candidate: T, seconds: float) -> None:
        """Record how long a call of a candidate took; of the last one left that does not count."""
        if len(self.candidates) == 1:
            return
        for other, measured in zip(self.candidates, self._seconds):
            if other is candidate:
                measured.append(seconds)
        if all(len(measured) >= TURNS for measured in self._seconds):
            medians = [statistics.median(measured[TURNS // 2 :]) for measured in self._seconds]
            self.candidates, self._seconds = [self.candidates[medians.index(min(medians))]], [[]]

    def drop(self, candidate: T, instead: T) -> None:
        """Leave a candidate out for good; where it was the only one, ``instead`` takes its place."""
        left = [position for position, other in enumerate(self.candidates) if other is not candidate]
        self.candidates = [self.candidates[position] for position in left] or [instead]
        self._seconds = [self._seconds[position] for position in left] or [[]]
