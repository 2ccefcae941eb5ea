"""Text -> tokens, by the lexical rules of DML.

The engine's own lexer drops characters it does not know and goes on; here they are errors, but for a full stop
before a blank (a script of SystemDS itself has one), which is a warning. A comment may end with the text,
and the text may begin with a byte order mark.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from onnx_systemds.dml.excerpts import excerpt
from onnx_systemds.errors import ScriptPlace, ScriptSyntaxError

_KEYWORDS = """
    source setwd as ifdef if else for parfor in while function return externalFunction implemented
    int integer string boolean double unknown Int Integer String Boolean Double Unknown TRUE FALSE
    """
KEYWORDS = frozenset(_KEYWORDS.split())
NAME, INT, DOUBLE, STRING, ARGUMENT, END = "name", "INT", "DOUBLE", "STRING", "ARGUMENT", "END"
_NUMBERS = frozenset((INT, DOUBLE))
_UNSEEN = frozenset(("comment", "stray"))
_BLANKS = " \t\r\n"

COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le, "==": eq, "!=": ne}
"""The comparisons, and what they say of numbers."""
# How tightly the operators bind, loosest first; all associate to the left but ``^``.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, MODULUS, MATRIX_PRODUCT, SIGN, POWER = range(1, 11)
BINARY_LEVELS = {
    "|": OR,
    "&": AND,
    **dict.fromkeys(COMPARED, COMPARISON),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("*", "/"), PRODUCT),
    **dict.fromkeys(("%%", "%/%"), MODULUS),
    "%*%": MATRIX_PRODUCT,
    "^": POWER,
}
LEVELS = BINARY_LEVELS | {"&&": AND, "||": OR}
"""With those that the engine reads, but never takes."""
UNARY_LEVELS = {"!": NOT, "-": SIGN, "+": SIGN}

DOTTED_WORDS = (
    "as.scalar", "as.matrix", "as.frame", "as.list", "as.double", "as.integer", "as.logical", "as.boolean",
    "index.return", "empty.return", "lower.tail", "lower.tri", "upper.tri", "is.nan", "is.na", "is.infinite",
)
"""All names with a dot: of builtins and of their arguments."""
_WORD = "[a-zA-Z][a-zA-Z0-9_]*"
_EXPONENT = "[eE][+-]?[0-9]+[lL]?"
_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
    (?P<name>{'|'.join(map(re.escape, DOTTED_WORDS))}|{_WORD}(?:::{_WORD})?)
    |(?P<DOUBLE>[0-9]+\.[0-9]*(?:{_EXPONENT})?[lL]?|[0-9]+{_EXPONENT}[lL]?|\.[0-9]+(?:{_EXPONENT})?[lL]?)
    |(?P<INT>[0-9]+[lL]?)
    |(?P<operator>%\*%|%/%|%%|<-|<=|>=|==|!=|\+=|&&|\|\||/(?!\*)|[-+*^<>=!&|()\[\]{{}},;:])
    |(?P<STRING>"[^\\"]*(?:\\[btnfr"'\\][^\\"]*)*"|'[^\\']*(?:\\[btnfr"'\\][^\\']*)*')
    |(?P<comment>\#[^\n]*|/\*(?s:.*?)\*/)
    |(?P<stray>\.(?=[ \t\r\n]|\Z))
    |(?P<ARGUMENT>\$(?:{_WORD}|[0-9]+))
    )""",
    re.VERBOSE,
)
LARGEST_INT = 2**63 - 1
_SURE_DIGITS = 18  # of an integer that fits


class Lines:
    """Where the lines of a text begin, found when a line is first asked for."""

    __slots__ = ("_starts", "file", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self._starts: list[int] = []

    def line(self, offset: int) -> int:
        """The line of a place in the text, counted from 1."""
        if not self._starts:
            self._starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
        return bisect_right(self._starts, offset)

    def place(self, offset: int) -> ScriptPlace:
        """A place in the text by its line and column."""
        line = self.line(offset)
        return ScriptPlace(self.file, line, offset - self._starts[line - 1] + 1)


@dataclass(slots=True)
class Token:
    """One token. `kind` is its text for keywords and operators, else one of the six names above.

    offset: where it begins in the text. comments: those between the last token and this one, with the line each begins
    in; the parser takes them.
    """

    kind: str
    text: str
    offset: int
    lines: Lines
    comments: Sequence[tuple[str, int]] = ()

    @property
    def place(self) -> ScriptPlace:
        """Where it begins."""
        return self.lines.place(self.offset)

    @property
    def line(self) -> int:
        """The line in which it begins."""
        return self.lines.line(self.offset)

    @property
    def column(self) -> int:
        """The column in which it begins."""
        return self.place.column

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + len(self.text)

    @property
    def end_line(self) -> int:
        """The line in which it ends."""
        return self.lines.line(self.end)


def tokenize(text: str, file: str = "<text>", warnings: list[str] | None = None) -> list[Token]:
    """Return the tokens of `text`, the last one of the kind END; raises ScriptSyntaxError, adds to `warnings`."""
    tokens: list[Token] = []
    comments: list[tuple[str, int]] = []
    lines = Lines(text, file)
    end = 1 if text.startswith("\ufeff") else 0
    for match in iter(_TOKEN.scanner(text, end).match, None):  # type: ignore[attr-defined]
        kind = match.lastgroup
        found = match[kind]
        end = match.end()
        if kind == "operator" or (kind == NAME and found in KEYWORDS):
            kind = found
        elif kind in _UNSEEN:
            if kind == "comment":
                comments.append((found.rstrip(), lines.line(end - len(found))))
            elif warnings is not None:
                warnings.append(f"{lines.place(end - 1)}: the full stop is skipped")
            continue
        elif kind in _NUMBERS:
            _check_number(kind, found, lines, end)
        if comments:
            tokens.append(Token(kind, found, end - len(found), lines, comments))
            comments = []
        else:
            tokens.append(Token(kind, found, end - len(found), lines))
    rest = text[end:].lstrip(_BLANKS)
    if rest:
        over_lines = [token for token in tokens if token.kind == STRING and "\n" in token.text]
        raise _lexical_error(text, len(text) - len(rest), lines, over_lines)
    # the last token stands directly after the one before it
    tokens.append(Token(END, "", tokens[-1].end if tokens else 0, lines, comments))
    return tokens


def unescape(literal: str) -> str:
    r"""Return the value of a quoted string.

    Like the engine, which replaces one escape after the other and has none for the backslash: ``\\`` stays two.
    """
    value = literal[1:-1]
    if "\\" in value:
        for letter, character in zip("btnfr'\"", "\b\t\n\f\r'\""):
            value = value.replace("\\" + letter, character)
    return value


def is_string(literal: str) -> bool:
    """Return whether `literal` is one string token."""
    match = _TOKEN.fullmatch(literal)
    return match is not None and match.lastgroup == STRING and match.start(STRING) == 0


def _check_number(kind: str, found: str, lines: Lines, end: int) -> None:
    if found[-1] in "lL":
        hint = "the grammar of DML knows a suffix L, but the engine cannot read such a number"
        raise _error(f"the number {found} has a suffix", lines, end - len(found), len(found), hint)
    if kind == INT and len(found) > _SURE_DIGITS and (len(found) > 400 or int(found) > LARGEST_INT):
        shown = found if len(found) < 40 else f"of {len(found)} digits"
        hint = "write it as a double: add .0"
        raise _error(f"the integer {shown} does not fit in 64 bits", lines, end - len(found), len(found), hint)


def _lexical_error(text: str, offset: int, lines: Lines, strings: list[Token]) -> ScriptSyntaxError:
    """Say what is wrong at `offset`; strings: those over several lines, one of which may have swallowed too much."""
    character = text[offset]
    if character in "\"'":
        return _string_error(text, offset, lines, strings)
    if text.startswith("/*", offset):
        return _error("expected '*/' to close this comment, found the end of the script", lines, offset, 2)
    hints = {
        "\u201c": "use straight quotes",
        "\u201d": "use straight quotes",
        "\u2018": "use straight quotes",
        "\u2019": "use straight quotes",
        "$": "an argument of the command line is $name or $1",
        "%": "the operators with a percent sign are %*%, %/% and %%",
        "~": "",
        ".": "names hold letters, digits and _; a dot stands only in words such as as.scalar",
        "_": "a name begins with a letter",
        "@": "the matrix product is %*%",
        "\u00a0": "this is a no-break space",
    }
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    message = f"expected a name, a number, a string or an operator, found the character {shown}"
    return _error(message, lines, offset, 1, hints.get(character, ""))


def _string_error(text: str, offset: int, lines: Lines, strings: list[Token]) -> ScriptSyntaxError:
    quote = text[offset]
    body = re.compile(rf"""(?:\\[btnfr"'\\]|[^\\{quote}])*""").match(text, offset + 1)
    end = body.end() if body else offset + 1
    if end == len(text):
        hint = f"a string goes from line {strings[-1].line} to line {strings[-1].end_line}" if strings else ""
        return _error(f"expected {quote} to close this string, found the end of the script", lines, offset, 1, hint)
    found = repr(text[end + 1])[1:-1] if end + 1 < len(text) else "the end of the script"
    message = f"expected one of b t n f r \" ' \\ after a backslash in a string, found {found}"
    return _error(message, lines, end, 2, "DML has no other escapes; a path may be written with /")


def _error(message: str, lines: Lines, offset: int, length: int, hint: str = "") -> ScriptSyntaxError:
    place = lines.place(offset)
    return ScriptSyntaxError(message, place, excerpt(lines.text, place.line, place.column, length), hint)
