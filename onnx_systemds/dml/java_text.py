"""Texts and regular expressions as Java expressions that may stand inside a DML string.

The engine's `map` runs Java on strings. Its text is a DML string, which holds no backslash and no delimiter of the
engine's instructions, is cut at each ``->``, and is sent another way when it names ``jaccardSim``. A Java expression
made here is plain ASCII without any of these, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from onnx_systemds.dml.literals import string_literal
from onnx_systemds.errors import UnsupportedCase, quoted

# Letters, digits, blank and the punctuation that means nothing in Java's, DML's and the engine's strings.
_PLAIN = re.compile(r"[A-Za-z0-9 !#$%&()*+,./:;<=?@\[\]^_`{|}~]+")
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ", "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\x0B\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}
_POSIX_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
# What RE2 knows by a backslash and a letter; Java's \s has a vertical tab, its \v is a class, its \b knows Unicode.
_PERL = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_CONTROLS = {"a": r"\x07", "f": r"\f", "n": r"\n", "r": r"\r", "t": r"\t", "v": r"\x0B"}
_WORD = "[0-9A-Za-z_]"
_BOUNDARY = f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_NO_BOUNDARY = f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")
_CODE = re.compile(r"\\x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_GROUP = re.compile(r"\(\?(?:P?<([A-Za-z0-9_]+)>|([imsU]*(?:-[imsU]+)?)([:)]))")
_COUNT_BEFORE = re.compile(r"[^\\]\{\d+(?:,\d*)?\}$")
_REPEAT = re.compile(r"\{(\d+)(?:,(\d*))?\}")


def java_string_literal(text: str) -> str:
    """Return a Java expression for `text`: `"a.b"`, or `("a" + (char) 92 + "d")` where a character needs it.

    The text goes through Java's compiler as UTF-16; a lone surrogate, which no file can hold, is kept as well.
    """
    parts: list[str] = []
    position = 0
    while position < len(text):
        found = _PLAIN.match(text, position)
        if found:
            # jaccardSim sends the text to another function of the engine.
            parts += [f'"{piece}"' for piece in re.split("(?<=jaccard)(?=Sim)", found.group())]
            position = found.end()
            continue
        units = text[position].encode("utf-16-be", "surrogatepass")
        parts += [f"(char) {int.from_bytes(units[i : i + 2], 'big')}" for i in range(0, len(units), 2)]
        position += 1
    if len(parts) == 1 and parts[0].startswith('"'):
        return parts[0]
    if parts and not parts[0].startswith('"'):
        parts.insert(0, '""')  # two characters alone would be added as numbers
    return f"({' + '.join(parts)})" if parts else '""'


def frame_literal(strings: Sequence[str]) -> str:
    """Return `strings`, at least one, as a DML expression for a frame of one column.

    A string that DML cannot write is made by the engine's `map`, which needs janino on the class path.
    """
    cells = []
    for text in strings:
        try:
            cells.append(f"as.frame({string_literal(text)})")
        except UnsupportedCase:
            lambda_text = string_literal(f"x -> {java_string_literal(text)}")
            cells.append(f'map(as.frame("x"), {lambda_text})')
    return cells[0] if len(cells) == 1 else f"rbind({', '.join(cells)})"


def java_regex(pattern: str) -> str:
    """Return the regular expression of Java (with its flag UNIX_LINES) that means what `pattern` means in RE2.

    Raises UnsupportedCase for what RE2 itself refuses, and for the flags m and U, which Java has no equal of.
    """
    return _Translation(pattern).whole()


class _Translation:
    """One walk over an RE2 pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0

    def whole(self) -> str:
        parts: list[str] = []
        while self._position < len(self._pattern):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        """The translation of what stands at the position, which moves after it."""
        pattern, start = self._pattern, self._position
        character = pattern[start]
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._class()
        if character == "(" and pattern.startswith("(?", start):
            return self._group()
        self._position += 1
        if character == "{":
            found = _REPEAT.match(pattern, start)
            return "{" if found else r"\{"  # no count: RE2 reads a brace
        if character == "$":
            return r"\z"  # Java's $ also stands before a last line feed
        repeats = character in "*+?" or _COUNT_BEFORE.search(pattern[: start + 1])
        if repeats and pattern.startswith("+", self._position):
            raise self._refused("it repeats a repetition")  # possessive in Java
        return character

    def _escape(self) -> str:
        pattern, start = self._pattern, self._position
        if pattern.startswith(r"\Q", start):
            end = pattern.find(r"\E", start)
            text = pattern[start + 2 : end if end >= 0 else None]
            self._position = len(pattern) if end < 0 else end + 2
            return re.sub(r"[^A-Za-z0-9\s]", lambda found: _escaped(found.group()), text)
        letter = pattern[start + 1 : start + 2]
        if letter in ("b", "B", "A", "z"):
            self._position += 2
            return {"b": _BOUNDARY, "B": _NO_BOUNDARY, "A": r"\A", "z": r"\z"}[letter]
        if letter.lower() in _PERL and letter:
            self._position += 2
            return f"[{'^' if letter.isupper() else ''}{_PERL[letter.lower()]}]"
        return self._character()

    def _character(self) -> str:
        """An escape for one character or a Unicode property, inside a class or outside."""
        pattern, start = self._pattern, self._position
        letter = pattern[start + 1 : start + 2]
        if not letter:
            raise self._refused("it ends in a backslash")
        if found := _PROPERTY.match(pattern, start):
            self._position = found.end()
            kind, negated, name, short = found.groups()
            if negated:
                kind = "P" if kind == "p" else "p"
            name = name or short
            # One or two letters are a category, more a script.
            return rf"\{kind}{{{name if len(name) <= 2 else 'Is' + name}}}"
        if found := _CODE.match(pattern, start):
            self._position = found.end()
            return rf"\x{{{found.group(1) or found.group(2)}}}"
        if letter.isalnum() and letter.isascii():
            if letter not in _CONTROLS:
                raise self._refused(f"it has the escape \\{letter}")
            self._position += 2
            return _CONTROLS[letter]
        self._position += 2
        return _escaped(letter)

    def _class(self) -> str:
        """A character class; Java gives [ and && in it a meaning, RE2 does not."""
        pattern = self._pattern
        self._position += 1
        negated = pattern.startswith("^", self._position)
        self._position += negated
        parts: list[str] = []
        first = True
        while first or not pattern.startswith("]", self._position):
            if self._position >= len(pattern):
                raise self._refused("a [ has no ]")
            first = False
            letter = pattern[self._position + 1 : self._position + 2]
            if found := _POSIX_CLASS.match(pattern, self._position):
                self._position = found.end()
                if found.group(2) not in _POSIX:
                    raise self._refused(f"it has the class {found.group()}")
                parts.append(self._members(_POSIX[found.group(2)], complement=bool(found.group(1)), in_negated=negated))
            elif pattern[self._position] == "\\" and letter and letter.lower() in _PERL:
                self._position += 2
                parts.append(self._members(_PERL[letter.lower()], complement=letter.isupper(), in_negated=negated))
            elif pattern[self._position] == "\\":
                parts.append(self._character())
            else:
                character = pattern[self._position]
                self._position += 1
                parts.append(character if character == "-" or character.isalnum() else _escaped(character))
        self._position += 1
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _members(self, members: str, *, complement: bool, in_negated: bool) -> str:
        if complement and in_negated:
            raise self._refused("it excludes what a class excludes")
        return f"[^{members}]" if complement else members

    def _group(self) -> str:
        found = _GROUP.match(self._pattern, self._position)
        if found is None:
            raise self._refused("it looks around or has a group that RE2 does not know")
        self._position = found.end()
        name, flags, end = found.groups()
        if name is not None:
            return "("
        if "m" in flags or "U" in flags:
            raise self._refused("it has the flag m or U")
        # Letters of all alphabets fold in RE2, in Java with the flag u.
        return f"(?{flags.replace('i', 'iu')}{end}"

    def _refused(self, reason: str) -> UnsupportedCase:
        return UnsupportedCase(f"the pattern {quoted(self._pattern)} cannot be written for Java: {reason}")


def _escaped(character: str) -> str:
    return rf"\x{{{ord(character):X}}}" if not character.isascii() or character.isspace() else "\\" + character
