"""Text -> tokens, by the lexical rules of DML.

The engine's own lexer drops characters it does not know and goes on; here they are errors, but for a full stop
in front of a blank (a script of SystemDS itself has one), which is a warning. A comment may end with the text,
and the text may begin with a byte order mark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from onnx_systemds.dml.excerpts import excerpt
from onnx_systemds.errors import ScriptPlace, ScriptSyntaxError

_KEYWORDS = """
    source setwd as ifdef if else for parfor in while function return externalFunction implemented
    int integer string boolean double unknown Int Integer String Boolean Double Unknown TRUE FALSE
    """
KEYWORDS = frozenset(_KEYWORDS.split())
NAME, INT, DOUBLE, STRING, ARGUMENT, END = "name", "INT", "DOUBLE", "STRING", "ARGUMENT", "END"

_DOTTED_WORDS = (
    "as.scalar as.matrix as.frame as.list as.double as.integer as.logical as.boolean index.return empty.return "
    "lower.tail lower.tri upper.tri is.nan is.na is.infinite"
)
_WORD = "[a-zA-Z][a-zA-Z0-9_]*"
_EXPONENT = "[eE][+-]?[0-9]+[lL]?"
_TOKEN = re.compile(
    rf"""
    (?P<blank>[ \t\r\n]+)
    |(?P<name>{'|'.join(map(re.escape, _DOTTED_WORDS.split()))}|{_WORD}(?:::{_WORD})?)
    |(?P<DOUBLE>[0-9]+\.[0-9]*(?:{_EXPONENT})?[lL]?|[0-9]+{_EXPONENT}[lL]?|\.[0-9]+(?:{_EXPONENT})?[lL]?)
    |(?P<INT>[0-9]+[lL]?)
    |(?P<operator>%\*%|%/%|%%|<-|<=|>=|==|!=|\+=|&&|\|\||[-+*/^<>=!&|()\[\]{{}},;:])
    |(?P<STRING>"(?:\\[btnfr"'\\]|[^\\"])*"|'(?:\\[btnfr"'\\]|[^\\'])*')
    |(?P<comment>\#[^\n]*)
    |(?P<stray>\.(?=[ \t\r\n]|\Z))
    |(?P<ARGUMENT>\$(?:{_WORD}|[0-9]+))
    """,
    re.VERBOSE,
)
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LARGEST_INT = 2**63 - 1


@dataclass(slots=True)
class Token:
    """One token. `kind` is its text for keywords and operators, else one of the six names above.

    comments: those between the last token and this one, with the line each begins in; the parser takes them.
    """

    kind: str
    text: str
    line: int
    column: int
    end_line: int
    comments: list[tuple[str, int]] = field(default_factory=list)


def tokenize(text: str, file: str = "<text>", warnings: list[str] | None = None) -> list[Token]:
    """Return the tokens of `text`, the last one of the kind END; raises ScriptSyntaxError, adds to `warnings`."""
    tokens: list[Token] = []
    comments: list[tuple[str, int]] = []
    offset, line, line_start = (1 if text.startswith("\ufeff") else 0), 1, 0
    size = len(text)
    while offset < size:
        match = _TOKEN.match(text, offset)
        # "/" begins both an operator and a comment.
        if text.startswith("/*", offset):
            match = _BLOCK_COMMENT.match(text, offset)
        if match is None:
            place = ScriptPlace(file, line, offset - line_start + 1)
            raise _lexical_error(text, offset, place, [t for t in tokens if t.kind == STRING and t.end_line > t.line])
        kind = match.lastgroup or "comment"
        found, end = match.group(), match.end()
        first_line, column = line, offset - line_start + 1
        if "\n" in found:
            line += found.count("\n")
            line_start = offset + found.rindex("\n") + 1
        offset = end
        if kind == "blank":
            continue
        if kind == "comment":
            comments.append((found.rstrip(), first_line))
            continue
        if kind == "stray":
            if warnings is not None:
                warnings.append(f"{ScriptPlace(file, line, column)}: the full stop is skipped")
            continue
        if kind == "operator" or (kind == NAME and found in KEYWORDS):
            kind = found
        elif kind in (INT, DOUBLE):
            _check_number(kind, found, text, ScriptPlace(file, first_line, column))
        tokens.append(Token(kind, found, first_line, column, line, comments))
        comments = []
    tokens.append(_end_token(tokens, comments))
    return tokens


def _end_token(tokens: list[Token], comments: list[tuple[str, int]]) -> Token:
    """Return the last token, which stands directly after the one before it."""
    if not tokens:
        return Token(END, "", 1, 1, 1, comments)
    last = tokens[-1]
    begin = last.column if last.end_line == last.line else 1
    column = begin + len(last.text.rpartition("\n")[2])
    return Token(END, "", last.end_line, column, last.end_line, comments)


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
    return match is not None and match.lastgroup == STRING


def _check_number(kind: str, found: str, text: str, place: ScriptPlace) -> None:
    if found[-1] in "lL" or "l" in found.lower():
        hint = "the grammar of DML knows a suffix L, but the engine cannot read such a number"
        raise _error(f"the number {found} has a suffix", text, place, len(found), hint)
    if kind == INT and (len(found) > 400 or int(found) > _LARGEST_INT):
        shown = found if len(found) < 40 else f"of {len(found)} digits"
        raise _error(
            f"the integer {shown} does not fit in 64 bits", text, place, len(found), "write it as a double: add .0"
        )


def _lexical_error(text: str, offset: int, place: ScriptPlace, strings: list[Token]) -> ScriptSyntaxError:
    """Say what is wrong at `offset`; strings: those over several lines, one of which may have swallowed too much."""
    character = text[offset]
    if character in "\"'":
        return _string_error(text, offset, place, strings)
    if text.startswith("/*", offset):
        return _error("expected '*/' to close this comment, found the end of the script", text, place, 2)
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
    return _error(message, text, place, 1, hints.get(character, ""))


def _string_error(text: str, offset: int, place: ScriptPlace, strings: list[Token]) -> ScriptSyntaxError:
    quote = text[offset]
    body = re.compile(rf"""(?:\\[btnfr"'\\]|[^\\{quote}])*""").match(text, offset + 1)
    end = body.end() if body else offset + 1
    if end == len(text):
        hint = f"a string goes from line {strings[-1].line} to line {strings[-1].end_line}" if strings else ""
        return _error(f"expected {quote} to close this string, found the end of the script", text, place, 1, hint)
    line = place.line + text.count("\n", offset, end)
    column = end - text.rfind("\n", 0, end)
    found = repr(text[end + 1])[1:-1] if end + 1 < len(text) else "the end of the script"
    return _error(
        f"expected one of b t n f r \" ' \\ after a backslash in a string, found {found}",
        text,
        ScriptPlace(place.file, line, column),
        2,
        "DML has no other escapes; a path may be written with /",
    )


def _error(message: str, text: str, place: ScriptPlace, length: int, hint: str = "") -> ScriptSyntaxError:
    return ScriptSyntaxError(message, place, excerpt(text, place.line, place.column, length), hint)
