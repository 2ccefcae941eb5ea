"""Damaged scripts: the parser, the listing and the exporter end in success or in an error of this project, soon.

The scripts are those of SystemDS and of the project, each with some characters, words or lines deleted, doubled,
exchanged or replaced. They are read in a process of their own, whose memory is bounded and which is ended when it hangs.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

from onnx_systemds.engine import Session
from onnx_systemds.errors import InternalError, MultipleErrors, TranspileError
from onnx_systemds.exporting import syntax as tree
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.listing import list_script
from onnx_systemds.exporting.parser import parse_script
from onnx_systemds.exporting.sources import jar_script, jar_scripts
from tests.fuzz.finding import Finding

SECONDS = 20.0
MEMORY = 2 << 30
_PROJECT = Path(__file__).parents[2]
_WORD = re.compile(r"[A-Za-z]\w*|\d[\w.]*|\s+|.", re.DOTALL)
_WORDS = ("0", "1", "-1", "1e9", "1e400", "9007199254740993", "NaN", "-Inf", "TRUE", '"a"', '""', "X", "nrow(X)", "$1", "if", "for",
          "while", "function", "return", "in", "else", "parfor", "{", "}", "(", ")", "[", "]", "[,]", "[1:2,]", ",", ";", ":", "::",
          "=", "<-", "+=", "==", "!=", "%*%", "%%", "%/%", "^", "!", "&", "|", "-", "*", "list(", "matrix(0, 0, 0)", "seq(1, 0)",
          "t(X)", "X[1, 1]", "as.scalar(", "cbind(", "rbind(", "table(", "removeEmpty(", "\x00", "\u00e9", "\\", "#", "/*", "'")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A damaged script; `number` chooses the function that is exported, the whole script where it is 0."""

    seed: int
    name: str
    script: str
    number: int

    def __str__(self) -> str:
        return f"# {self.name}, function {self.number}\n{self.script}"


def cases(seed: int, count: int) -> Iterator[Case]:
    """Yield `count` cases; the seed of each makes it again."""
    for number in range(seed, seed + count):
        rng = random.Random(number)
        name = rng.choice(_names())
        text = _text(name)
        for _ in range(rng.choice((1, 1, 2, 4, 12))):
            text = rng.choice(_WAYS)(rng, text)
        yield Case(number, name, text, rng.randrange(8))


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


def check(case: Case, session: Session | None = None) -> Finding | None:
    """Return what is wrong with the error that a damaged script ends in, None for nothing."""
    kind, detail = _WORKER.outcome(case)
    if kind == "fine":
        return None
    return Finding("slow" if kind == "slow" else "error", case.seed, str(case), detail)


class _Worker:
    """A process that reads scripts, one after the other; another where it hangs or dies."""

    def __init__(self) -> None:
        self.process: multiprocessing.process.BaseProcess | None = None
        self.pipe: Connection | None = None

    def outcome(self, case: Case) -> tuple[str, str]:
        """Return the kind of outcome, "fine", "error" or "slow", and what is to be said of it."""
        if self.process is None or self.pipe is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=_serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
            self.pipe.recv()  # it has started
        self.pipe.send(case)
        try:
            if self.pipe.poll(SECONDS):
                found: tuple[str, str] = self.pipe.recv()
                return found
            outcome = "slow", f"no end after {SECONDS:.0f} s"
        except EOFError:
            outcome = "error", "the process ended"
        self.process.kill()
        self.process.join()
        self.process = None
        return outcome


_WORKER = _Worker()


def _serve(pipe: Connection) -> None:
    """Read scripts as they come."""
    import onnx_systemds.exporting.builtins  # noqa: F401

    with suppress(TranspileError):
        export_script('X = read("X")\nwrite(X, "Y")\n')  # everything is loaded now
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if sys.platform == "linux" else 0
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    pipe.send("ready")
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        pipe.send(_outcome(case))


def _outcome(case: Case) -> tuple[str, str]:
    try:
        script = parse_script(case.script)
        list_script(script)
        functions = [item.name for item in script.items if isinstance(item, tree.Function)]
        name = functions[(case.number - 1) % len(functions)] if functions and case.number else None
        export_script(case.script if case.script.endswith("\n") else case.script + "\n", name)
    except TranspileError as error:
        reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
        faults = [reason for reason in reasons if isinstance(reason, InternalError)]
        return ("error", f"InternalError: {faults[0]}") if faults else ("fine", "")
    except MemoryError:
        return "slow", f"more than {MEMORY >> 30} GB"
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    return "fine", ""
