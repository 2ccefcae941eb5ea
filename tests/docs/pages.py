"""Runs a page of the documentation as a reader follows it: files are written, commands run, outputs compared.

A fenced block with ``title="name"`` is a file; ``bash`` is run; ``text`` after it is what that prints, ``...`` standing for
anything; any other block without a title must be an excerpt of a file that is there by then. ``sh`` sets a machine up: it
is run in fresh environments only.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS = 600
_FENCE = re.compile(r"^( *)```(\w+)(?: +title=\"([^\"]+)\")?[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block. title: of a file, else empty. line: where it begins in the page."""

    language: str
    title: str
    text: str
    line: int


def blocks_of(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in their order."""
    for found in _FENCE.finditer(page):
        text = re.sub(f"^{found[1]}", "", found[4], flags=re.MULTILINE)
        yield Block(found[2], found[3] or "", text, page.count("\n", 0, found.start()) + 1)


def follow(page: Path, folder: Path, programs: Path, *, fresh: bool = False) -> int:
    """Follow a page in a folder; the number of commands that were run. Raises AssertionError with the line of the page.

    programs: where python and onnx-systemds are. fresh: set the machine up as the page says, too.
    """
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    printed, count = "", 0
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{block.line}"
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "bash" or (fresh and block.language == "sh"):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=folder, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
                                  check=False)
            assert done.returncode == 0, f"{where}\n{done.stdout}"
            printed, count = done.stdout, count + 1
        elif block.language == "text":
            assert agrees(block.text, printed), f"{where}: printed is\n{printed}"
        elif block.language != "sh":
            assert is_excerpt(block.text, folder), f"{where}: no file holds this"
    return count


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, ``...`` standing for anything, spaces at ends of lines aside."""
    pattern = "".join(".*?" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", _stripped(shown)))
    return re.fullmatch(pattern, _stripped(printed), re.DOTALL) is not None


def is_excerpt(text: str, folder: Path) -> bool:
    """Whether a text file of the folder holds the lines of an excerpt in their order, ``...`` between them aside."""
    wanted = [line.strip() for line in text.splitlines() if line.strip() not in ("", "...", "# ...")]
    return any(_holds(path.read_text(encoding="utf-8").splitlines(), wanted)
               for path in folder.rglob("*") if path.suffix in {".dml", ".py", ".csv", ".json"})


def _holds(lines: list[str], wanted: list[str]) -> bool:
    left = iter(line.strip() for line in lines)
    return all(any(line == one for line in left) for one in wanted)


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
