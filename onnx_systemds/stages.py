"""The stages of a conversion, with their times: what ``--verbose`` lists."""

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
    """The stages so far, in their order."""

    done: list[Stage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[list[str]]:
        """Time a stage; it may add words on what came of it to the list. One that fails is not listed."""
        words: list[str] = []
        start = time.perf_counter()
        yield words
        self.done.append(Stage(name, time.perf_counter() - start, ", ".join(words)))

    def lines(self) -> list[str]:
        """A line for each stage, with the time in seconds, and one for all."""
        width = max((len(stage.name) for stage in self.done), default=0)
        lines = [f"  {stage.name:{width}}  {stage.seconds:7.3f} s  {stage.result}".rstrip() for stage in self.done]
        return ["stages:", *lines, f"  {'in all':{width}}  {sum(stage.seconds for stage in self.done):7.3f} s"]
