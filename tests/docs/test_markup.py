"""The site's Markdown begins a list or table in a block of its own: without a blank line it would be part of the paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
_FENCE = re.compile(r" *(```|~~~)")
_ITEM = re.compile(r" *(?:[-*+]|\d+\.) ")


def joined_blocks(page: str) -> Iterator[int]:
    """The lines, counted from 1, at which a list or table follows text, or the end of a code block, directly."""
    last, fence = "", ""
    for number, line in enumerate(page.splitlines(), 1):
        found = _FENCE.match(line)
        if fence:
            fence = "" if found is not None and found[1] == fence else fence
        elif found is not None:
            fence = found[1]
        elif last.strip() and not last.startswith(("#", " ")):
            if re.match(r" *(?:[-*+]|1\.) ", line) and not _ITEM.match(last):
                yield number
            if line.startswith("|") and not last.startswith("|"):
                yield number
        last = line


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_lists_and_tables_are_blocks_of_their_own(page: Path) -> None:
    assert not [*joined_blocks(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "lines"), [
    ("words\n\n* one\n* two\n", []), ("words:\n* one\n", [2]), ("words:\n1. one\n2. two\n", [2]), ("## Words\n* one\n", []),
    ("```sh\n* one\n```\n", []), ("```sh\nls\n```\n* one\n", [4]), ("* one\n  goes on\n* two\n", []), ("at most\n256. So\n", []),
    ("words\n| a | b |\n|---|---|\n", [2]), ("## Words\n| a | b |\n", []),
])
def test_lines_where_blocks_are_joined(page: str, lines: list[int]) -> None:
    assert [*joined_blocks(page)] == lines
