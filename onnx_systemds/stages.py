"""The stages of a command, with their times, and what came of them: what ``--verbose`` lists."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stage:
    """What was done, how long it took, and what came of it, in words."""

    name: str
    seconds: float
    result: str


@dataclass
class Stages:
    """The stages so far, in their order. remarks: lines that go with them, on what passes did."""

    done: list[Stage] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[list[str]]:
        """Time a stage; it may add words on what came of it to the list. One that fails is not listed.

        The time of stages within it is theirs alone.
        """
        words: list[str] = []
        start, before = time.perf_counter(), self._seconds()
        yield words
        within = self._seconds() - before
        self.done.append(Stage(name, time.perf_counter() - start - within, ", ".join(words)))

    def _seconds(self) -> float:
        return sum(stage.seconds for stage in self.done)

    def times(self) -> dict[str, float]:
        """Seconds by the names of the stages; those of one name are added."""
        found: dict[str, float] = {}
        for stage in self.done:
            found[stage.name] = found.get(stage.name, 0.0) + stage.seconds
        return found

    def lines(self) -> list[str]:
        """A line for each stage, with the time in seconds, and one for all; then the remarks."""
        width = max((len(stage.name) for stage in self.done), default=0)
        lines = [f"  {stage.name:{width}}  {stage.seconds:7.3f} s  {stage.result}".rstrip() for stage in self.done]
        return ["stages:", *lines, f"  {'in all':{width}}  {self._seconds():7.3f} s", *self.remarks]
