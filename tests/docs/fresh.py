"""Follows tutorials in environments of their own, each set up as its page says.

``python -m tests.docs.fresh [NAME ...]``, all tutorials without names. What is installed takes minutes; PIP_CONSTRAINT
chooses versions, such as a PyTorch without CUDA.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tests.docs.pages import follow

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"


def follow_freshly(page: Path) -> int:
    """Follow a page in a new environment that has only this package; the number of commands that were run."""
    with tempfile.TemporaryDirectory() as place:
        programs = Path(place) / "environment" / "bin"
        venv.create(programs.parent, with_pip=True)
        subprocess.run([programs / "pip", "install", "--quiet", ROOT], check=True)
        folder = Path(place) / "work"
        folder.mkdir()
        return follow(page, folder, programs, fresh=True)


def main(names: list[str]) -> int:
    """Follow the tutorials of these names and say how each ended; the exit code."""
    pages = [TUTORIALS / f"{name}.md" for name in names] or sorted(TUTORIALS.glob("*.md"))
    failed = 0
    for page in pages:
        started = time.monotonic()
        try:
            words = f"{follow_freshly(page)} commands"
        except AssertionError as error:
            words, failed = str(error), failed + 1
        print(f"{page.stem}: {words}, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
