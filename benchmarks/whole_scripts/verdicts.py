"""What each result means: agreement, what was read and why it is right or not, and what nobody has read yet.

``read.json`` holds what was read. ``refusals``: pieces of messages, with the scripts that they are of (all unless some
are named). ``partings``: scripts whose outputs part from the engine's, which of them, and how far at most: a number is
a share of the spread of all finite numbers, ``{"signs": far}`` and ``{"order": far}`` that but for these, ``[far,
elements]`` allows for elements that only one of both has as a finite number, and a text is the problem. ``given``:
arguments, and inputs by their path (rows, columns, least, largest, density, whole numbers), for scripts of which no
test tells them. ``not judged``: scripts whose arguments or inputs are guessed wrongly, and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks.whole_scripts.models import Found
from benchmarks.whole_scripts.outputs import Parting

READ = Path(__file__).with_name("read.json")
AGREE, ROUNDING, DOCUMENTED, RIGHTLY, DOUBTFUL = "agree", "rounding", "documented", "rightly refused", "doubtful"
NOT_READ, WRONG = "not read: refused", "not read: wrong"
KINDS = (ROUNDING, DOCUMENTED, RIGHTLY, DOUBTFUL)
GOOD = (AGREE, ROUNDING, RIGHTLY)
FAILING = (NOT_READ, WRONG, "hang", "died", "traceback", "failed")
Pin = float | str | Sequence[float] | Mapping[str, float]


@dataclass(frozen=True)
class Refusal:
    """A refusal that was read: a piece of its message, and patterns of the scripts it is of."""

    kind: str
    reason: str
    message: str
    scripts: tuple[str, ...] = ("*",)


@dataclass(frozen=True)
class Deviation:
    """Outputs that part and were read, each with how far at most."""

    kind: str
    reason: str
    scripts: tuple[str, ...]
    outputs: Mapping[str, Pin]

    def explains(self, partings: Sequence[Parting]) -> bool:
        """Whether outputs part as it says, and no others."""
        return all(each.output in self.outputs and within(each, self.outputs[each.output]) for each in partings)


@dataclass(frozen=True)
class Readings:
    """All that was read."""

    refusals: tuple[Refusal, ...]
    deviations: tuple[Deviation, ...]
    given: Mapping[str, Mapping[str, Any]]
    not_judged: Mapping[str, str]


@dataclass(frozen=True)
class Verdict:
    """What a result means, and the reason."""

    kind: str
    reason: str = ""


def readings(path: Path = READ) -> Readings:
    """The data file."""
    data = json.loads(path.read_text())
    return Readings(
        tuple(Refusal(**{**each, "scripts": tuple(each.get("scripts", ["*"]))}) for each in data["refusals"]),
        tuple(Deviation(**{**each, "scripts": tuple(each["scripts"])}) for each in data["partings"]),
        data["given"], data["not judged"],
    )


def within(parting: Parting, pin: Pin) -> bool:
    """Whether an output parts no more than a pin allows."""
    if isinstance(pin, str):
        return parting.problem == pin
    if parting.problem:
        return False
    if isinstance(pin, Mapping):
        return not parting.unequal and all(getattr(parting, what) <= far for what, far in pin.items())
    far, elements = (pin, 0) if isinstance(pin, (int, float)) else pin
    return parting.far <= far and parting.unequal <= elements


def verdict(found: Found, read: Readings) -> Verdict:
    """What a result means."""
    if found.script in read.not_judged:
        return Verdict("not judged: inputs are guessed wrongly", read.not_judged[found.script])
    if found.status == "not judged":
        return Verdict(f"not judged: {found.message.split(':')[0]}", found.message)
    if found.status == "refused":
        return _of_refusal(found, read.refusals)
    if found.status != "exported":
        return Verdict(found.status, found.message)
    if not found.partings:
        return Verdict(AGREE)
    for each in read.deviations:
        if _named(found.script, each.scripts) and each.explains(found.partings):
            return Verdict(each.kind, each.reason)
    return Verdict(WRONG, "; ".join(map(str, found.partings)))


def _of_refusal(found: Found, refusals: Sequence[Refusal]) -> Verdict:
    """One right reason is enough: no change to the others would make a model of the script."""
    matching = [each for each in refusals if each.message in found.message and _named(found.script, each.scripts)]
    for each in sorted(matching, key=lambda refusal: refusal.kind != RIGHTLY):
        return Verdict(each.kind, each.reason)
    return Verdict(NOT_READ, found.message)


def _named(script: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(script, pattern) for pattern in patterns)
