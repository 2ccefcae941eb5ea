"""Lines that are too long, broken where DML may be: after commas and operators, and between the numbers of a matrix.

In the string of ``matrix("1 2 3", ..)`` the end of a line with blanks after it is a blank for the engine, where a
number stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from onnx_systemds.dml.tokens import BINARY_LEVELS, STRING, Token, tokenize

INDENT = "  "
_BREAK_AFTER = frozenset(BINARY_LEVELS) | {",", "=", "+="}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_MADE_OF_NUMBERS = re.compile(r"(?<![\w.])matrix\($")
_BETWEEN_NUMBERS = re.compile(r'(?<=[^\s"]) (?=[^\s"])')
_LINE_END = re.compile(r"(?<=\S)\n +(?=\S)")


def wrapped(line: str, indent: str, width: int) -> Iterable[str]:
    """Return `line`, broken when it is too long: in as few parentheses as may be, between arguments sooner than in one.

    A line with a literal that is too long for a line of its own stays whole.
    """
    if len(indent) + len(line) <= width or "\n" in line:
        return (indent + line,)
    return _broken(line, indent, width)


def _broken(line: str, indent: str, width: int) -> Iterator[str]:
    room = width - len(indent)
    parts = [(token, _ends(token, line)) for token in tokenize(line)]
    if any(len(token.text) > room and _longest(token, ends) > room for token, ends in parts):
        yield indent + line
        return
    begin, depth, indent_now = 0, 0, indent
    places: list[tuple[int, int]] = []  # how deep within others, end of what the line may be broken after
    for token, ends in parts:
        for end in ends:
            if end - begin > room and places:
                late = [found for found in places if 2 * (found[1] - begin) >= room] or places
                place = max(place for level, place in late if level == min(late)[0])
                yield indent_now + line[begin:place]
                begin, indent_now, room = place + 1, indent + INDENT * 2, width - len(indent) - 2 * len(INDENT)
                places = [found for found in places if found[1] > begin]
            if end != ends[-1]:
                places.append((2 * depth + 2, end))
        if token.text in _OPENING:
            depth += 1
        elif token.text in _CLOSING:
            depth -= 1
        # A blank after the token tells a binary operator from a sign.
        elif token.kind in _BREAK_AFTER and line[ends[-1] : ends[-1] + 1] == " ":
            places.append((2 * depth + (token.text != ","), ends[-1]))
    yield indent_now + line[begin:]


def joined_numbers(text: str) -> str:
    """The string of a matrix with its numbers on one line."""
    return _LINE_END.sub(" ", text) if "\n" in text else text


def _ends(token: Token, line: str) -> list[int]:
    """The ends of the parts of a token that stay whole: the numbers of a matrix, else all of it."""
    if token.kind != STRING or not _MADE_OF_NUMBERS.search(line[: token.offset]):
        return [token.end]
    return [*(found.start() for found in _BETWEEN_NUMBERS.finditer(line, token.offset, token.end)), token.end]


def _longest(token: Token, ends: list[int]) -> int:
    """The length of the longest part of a token."""
    return max(end - begin for begin, end in zip((token.offset, *ends), ends))
