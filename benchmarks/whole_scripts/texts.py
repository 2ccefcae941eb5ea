"""Texts of Java and DML, as far as it takes to find what a script reads and writes, and what a test gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PAIRS = {"(": ")", "{": "}"}
_QUOTES = "\"'"


@dataclass(frozen=True)
class Read:
    """A call of ``read``: the variable that takes it, the expression of the path, and the options by name."""

    variable: str
    path: str
    options: Mapping[str, str]


def without_java_comments(text: str) -> str:
    """Java without its comments; ``//`` after a colon is part of an address."""
    return re.sub(r"(?m)(?<!:)//.*$", "", _without_blocks(text))


def without_dml_comments(text: str) -> str:
    """DML without its comments."""
    return "\n".join(map(_without_comment, _without_blocks(text).split("\n")))


def _without_blocks(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def _without_comment(line: str) -> str:
    for place, quote in _quoted(line):
        if line[place] == "#" and not quote:
            return line[:place]
    return line


def _quoted(text: str) -> Iterator[tuple[int, str]]:
    """Yield each place of a text, and the quote it is in."""
    quote = ""
    for place, character in enumerate(text):
        if quote:
            yield place, quote
            if character == quote:
                quote = ""
        else:
            if character in _QUOTES:
                quote = character
            yield place, quote


def enclosed(text: str, start: int) -> tuple[str, int]:
    """What stands between the bracket at `start` and its partner, and the place after that."""
    opening, closing = text[start], PAIRS[text[start]]
    depth = 0
    for place, quote in _quoted(text[start:]):
        character = text[start + place]
        if quote:
            continue
        if character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                return text[start + 1 : start + place], start + place + 1
    return text[start + 1 :], len(text)


def parts(text: str, separator: str = ",") -> list[str]:
    """The parts between separators that stand in no bracket and no quotes."""
    found, depth, begin = [], 0, 0
    for place, quote in _quoted(text):
        character = text[place]
        if quote:
            continue
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            found.append(text[begin:place].strip())
            begin = place + 1
    rest = text[begin:].strip()
    return [*found, rest] if rest else found


def calls(text: str, name: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Yield where a function is called, and its arguments. `name`: a pattern."""
    for match in re.finditer(rf"\b(?:{name})\s*\(", text):
        yield match, parts(enclosed(text, match.end() - 1)[0])


def reads(text: str) -> list[Read]:
    """What a DML script reads."""
    found = []
    for match in re.finditer(r"(?:(\w+)\s*=\s*)?(?:as\.\w+\()?\bread\s*\(", text):
        first, *others = parts(enclosed(text, match.end() - 1)[0]) or [""]
        first = _assigned(text, first)
        pairs = (each.partition("=") for each in others)
        options = {name.strip(): value.strip() for name, equals, value in pairs if equals}
        if first:
            found.append(Read(match[1] or "", first, options))
    return found


def writes(text: str) -> list[str]:
    """The expressions of the paths that a DML script writes to."""
    return [_assigned(text, given[1]) for _, given in calls(text, "write") if len(given) > 1]


def _assigned(text: str, expression: str) -> str:
    """What a variable is, if it is assigned once."""
    variable = re.fullmatch(r"[A-Za-z_]\w*", expression)
    assigned = re.findall(rf"(?m)^\s*{expression}\s*=\s*(.+?);?\s*$", text) if variable else []
    return assigned[0] if len(assigned) == 1 else expression


def arguments_of(text: str) -> tuple[set[str], set[str]]:
    """The names of the arguments ``$name`` of a DML script: all of them, and those that may be missing."""
    given = re.findall(r"(?<!\$)\$(\w+)", re.sub(r"\$\$\w+\$\$", "", text))
    return set(given), set(re.findall(r"ifdef\s*\(\s*\$(\w+)", text))


def dml_value(expression: str, arguments: Mapping[str, str | int | float]) -> str | int | float | None:
    """The value of an expression of a DML script for a path or a size; None where it is not known."""
    text = expression.strip()
    named = re.match(r"(?:file|path)\s*=\s*(.*)", text)
    text = named[1] if named else text
    call = re.fullmatch(r"(ifdef|as\.\w+)\s*\((.*)\)", text, flags=re.DOTALL)
    if call and call[1] == "ifdef":
        first, other = [*parts(call[2]), "", ""][:2]
        found = dml_value(first, arguments)
        return dml_value(other, arguments) if found is None else found
    if call:
        return dml_value(call[2], arguments)
    summands = parts(text, "+")
    if len(summands) > 1:
        return _sum([dml_value(each, arguments) for each in summands])
    if re.fullmatch(r"\$\w+", text):
        value = arguments.get(text[1:])
        return int(value) if isinstance(value, str) and re.fullmatch(r"[+-]?\d+", value) else value
    if re.fullmatch(r'"[^"]*"|\'[^\']*\'', text):
        return text[1:-1]
    return int(text) if re.fullmatch(r"\d+", text) else None


def _sum(values: list[str | int | float | None]) -> str | int | float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    numbers = [value for value in known if not isinstance(value, str)]
    return sum(numbers) if len(numbers) == len(known) else "".join(map(str, known))
