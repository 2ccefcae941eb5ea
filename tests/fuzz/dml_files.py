"""Damaged scripts: the parser, the listing and the exporter end in success or in an error of this project, soon.

The scripts are those of SystemDS and of the project, each with some characters, words or lines deleted, doubled,
exchanged or replaced. They are read in a process of their own, whose memory is bounded and which is ended when it hangs.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.listing import list_script
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.engine import Session
from onnx_systemds.errors import InternalError, MultipleErrors, TranspileError
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.sources import jar_script, jar_scripts
from tests.fuzz import bounded_worker
from tests.fuzz.bounded_worker import BoundedWorker, Crashed, Exceeded
from tests.fuzz.finding import Finding

SECONDS = 20.0
MEMORY = 2 << 30
_PROJECT = Path(__file__).parents[2]
_WORD = re.compile(r"[A-Za-z]\w*|\d[\w.]*|\s+|.", re.DOTALL)
_WORDS = ("0", "1", "-1", "1e9", "1e400", "9007199254740993", "NaN", "-Inf", "TRUE", '"a"', '""', "X", "nrow(X)", "$1", "if", "for",
          "while", "function", "return", "in", "else", "parfor", "{", "}", "(", ")", "[", "]", "[,]", "[1:2,]", ",", ";", ":", "::",
          "=", "<-", "+=", "==", "!=", "%*%", "%%", "%/%", "^", "!", "&", "|", "-", "*", "list(", "matrix(0, 0, 0)", "seq(1, 0)",
          "t(X)", "X[1, 1]", "as.scalar(", "cbind(", "rbind(", "table(", "removeEmpty(", "\x00", "\u00e9", "\\", "#", "/*", "'")


@dataclass(frozen=True)
class Case:
    """A damaged script; `number` chooses the function that is exported, the whole script where it is 0."""

    seed: int
    name: str
    script: str
    number: int

    def __str__(self) -> str:
        return f"# {self.name}, function {self.number}\n{self.script}"


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    name = rng.choice(_names())
    text = _text(name)
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        text = rng.choice(_WAYS)(rng, text)
    return Case(seed, name, text, rng.randrange(8))


@cache
def _names() -> tuple[str, ...]:
    own = [*_PROJECT.glob("templates/library/*.dml"), *_PROJECT.glob("tests/**/*.dml")]
    return (*jar_scripts(), *sorted(str(path.relative_to(_PROJECT)) for path in own))


@cache
def _text(name: str) -> str:
    if (_PROJECT / name).is_file():
        return (_PROJECT / name).read_text()
    with suppress(TranspileError):
        script = jar_script(name)
        if script is not None:
            return script.text
    return "x = 1\n"


# Damages


def _characters(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    stop = min(len(text), start + rng.randint(0, 6))
    return text[:start] + rng.choice(("", text[start:stop] * 2, chr(rng.randrange(1, 256)))) + text[stop:]


def _words(rng: random.Random, text: str) -> str:
    words = _WORD.findall(text)
    if len(words) < 2:
        return text + rng.choice(_WORDS)
    solid = [place for place, word in enumerate(words) if not word.isspace()]
    place, other = (rng.choice(solid or [0]) for _ in range(2))
    way = rng.randrange(5)
    if way == 0:
        words[place], words[other] = words[other], words[place]
    elif way == 1:
        words[place] = ""
    elif way == 2:
        words[place] = words[place] * 2
    else:
        words[place] = (words[place] + " " if way == 3 else "") + rng.choice(_WORDS)
    return "".join(words)


def _lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        lines[place], lines[other] = lines[other], lines[place]
    elif way == 1:
        del lines[place : place + rng.randint(1, 5)]
    elif way == 2:
        lines[place:place] = lines[other : other + rng.randint(1, 5)]
    elif way == 3:
        lines = lines[: place + 1]
    else:
        lines[place] = lines[place] * rng.choice((2, 3, 40))
    return "\n".join(lines)


_WAYS: tuple[Callable[[random.Random, str], str], ...] = (_characters, _words, _words, _words, _lines)


# Checks


_worker = BoundedWorker("tests.fuzz.dml_files", SECONDS, MEMORY)


def check(case: Case, session: Session | None = None) -> Finding | None:
    """Return what is wrong with the error that a damaged script ends in, None for nothing."""
    try:
        fault = _worker(json.dumps([case.script, case.number]).encode()).decode()
    except Exceeded as error:
        return Finding("slow", case.seed, str(case), str(error))
    except Crashed as error:
        return Finding("error", case.seed, str(case), str(error))
    if not fault:
        return None
    return Finding("slow" if fault.startswith("MemoryError") else "error", case.seed, str(case), fault)


def _fault(task: bytes) -> bytes:
    """Read and export a script; return what went wrong, nothing where it is exported or refused in words."""
    text, number = json.loads(task)
    try:
        script = parse_script(text)
        list_script(script)
        functions = [item.name for item in script.items if isinstance(item, tree.Function)]
        name = functions[(number - 1) % len(functions)] if functions and number else None
        export_script(text if text.endswith("\n") else text + "\n", name)
    except TranspileError as error:
        reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
        faults = [reason for reason in reasons if isinstance(reason, InternalError)]
        return f"InternalError: {faults[0]}".encode() if faults else b""
    except Exception as error:
        return f"{type(error).__name__}: {error}".encode()
    return b""


if __name__ == "__main__":
    bounded_worker.serve(_fault)
