"""What the engine says of a program under ``-stats``: its instructions, compilation while it runs, collections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_HITTER = re.compile(r"^ *\d+  (\S+) +([\d,]+\.\d+) +(\d+)$", re.MULTILINE)
_FUNCTION = re.compile(r"^(\w+) = function\(", re.MULTILINE)
_WRAPPED = 30  # the engine breaks longer names; no instruction's is as long
_PRODUCTS = re.compile(r"ba\+\*|tsmm2?|mmchain|conv2d\w*|pmm")
_VARIABLES = frozenset(("createvar", "rmvar", "mvvar", "cpvar", "assignvar"))
_SECONDS = {
    "recompiling": re.compile(r"(?:DAGs|Functions) recompile time:\s+([\d,.]+) sec"),
    "collecting": re.compile(r"Total JVM GC time:\s+([\d,.]+) sec"),
}


@dataclass(frozen=True)
class Instruction:
    """Seconds of all threads together, and how often it ran."""

    seconds: float
    count: int


@dataclass(frozen=True)
class EngineStatistics:
    """Of a whole program. instructions: by name, without calls of functions. recompiling, collecting: seconds."""

    instructions: Mapping[str, Instruction]
    recompiling: float
    collecting: float

    @property
    def products(self) -> float:
        """Seconds of products of matrices and convolutions."""
        return sum(found.seconds for name, found in self.instructions.items() if _PRODUCTS.fullmatch(name))

    @property
    def operations(self) -> int:
        """How many instructions ran that do more than name a variable."""
        return sum(found.count for name, found in self.instructions.items() if name not in _VARIABLES)

    def whole(self, seconds: float) -> float:
        """``seconds`` of calls, or those of all instructions where they ran side by side, which is more."""
        return max(seconds, sum(found.seconds for found in self.instructions.values()))


def engine_statistics(text: str, script: str) -> EngineStatistics:
    """Read what the engine printed of a program that calls the functions of a script."""
    functions = {name[:_WRAPPED] for name in _FUNCTION.findall(script)}
    found = {
        name: Instruction(_number(seconds), int(count))
        for name, seconds, count in _HITTER.findall(text)
        if name[:_WRAPPED] not in functions
    }
    taken = {name: sum(map(_number, pattern.findall(text))) for name, pattern in _SECONDS.items()}
    return EngineStatistics(found, **taken)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
