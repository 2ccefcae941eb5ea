"""The sections of docs/benchmarks.md, each between marks of its own; every benchmark replaces only its own section."""

from __future__ import annotations

from pathlib import Path

REPORT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def section(name: str) -> str:
    """Return the text of a section of the report; nothing where there is none."""
    return REPORT.read_text().partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0].strip()


def write_section(name: str, text: str) -> None:
    """Put a section into the report, in place of the former one or at the end."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = REPORT.read_text() if REPORT.exists() else "# Benchmarks\n"
    if begin not in old:
        old = f"{old.rstrip()}\n\n{begin}\n{end}\n"
    head, rest = old.split(begin)
    tail = rest.split(end)[1]
    REPORT.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}")
