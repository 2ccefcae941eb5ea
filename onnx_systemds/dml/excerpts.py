"""The lines of a script that an error shows."""

from __future__ import annotations

_WIDTH = 100


def excerpt(text: str, line: int, column: int, length: int = 1) -> str:
    """Return line `line` of `text` with its number, and carets below `length` characters from `column` on.

    Of a long line only the part around the place is shown; what cannot be printed appears as a blank or a `?`.
    """
    lines = text.split("\n")
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    start = 0
    if len(shown) > _WIDTH:
        start = max(0, min(column - 1 - _WIDTH // 2, len(shown) - _WIDTH))
    part = "".join(_printable(character) for character in shown[start : start + _WIDTH])
    before, after = "..." if start else "", "..." if start + _WIDTH < len(shown) else ""
    offset = len(before) + column - 1 - start
    carets = "^" * max(1, min(length, len(part) + len(before) - offset))
    number = str(line)
    return f"  {number} | {before}{part}{after}".rstrip() + f"\n  {' ' * len(number)} | {' ' * offset}{carets}"


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character in "\t\r" else "?"
