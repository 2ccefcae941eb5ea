"""The tokens of a script one after the other, the errors that point at them, and their comments."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from onnx_systemds.dml.excerpts import excerpt
from onnx_systemds.dml.tokens import DOUBLE, END, INT, KEYWORDS, NAME, STRING, Token
from onnx_systemds.errors import ScriptPlace, ScriptSyntaxError, escaped

_T = TypeVar("_T")

DEEPEST = 100
_LONGEST_MESSAGE = 400


class NestedTooDeep(ScriptSyntaxError):
    """A script with more levels of blocks and parentheses than are read."""


class TokenReader:
    """Walks over the tokens. `token` is the next one, `last` the one consumed before it."""

    def __init__(self, tokens: list[Token], text: str, file: str) -> None:
        self.tokens = tokens
        self.end = len(tokens) - 1
        self.text = text
        self.file = file
        self.index = 0
        self.token = tokens[0]
        self.last: Token | None = None
        self.depth = 0
        self.open_brackets = 0
        self.pending: list[str] = []

    def advance(self) -> Token:
        """Consume the next token and keep its comments for the statement it belongs to."""
        token = self.token
        if token.comments:
            self.pending.extend(comment for comment, _ in token.comments)
            token.comments = ()
        self.last = token
        if self.index < self.end:
            self.index += 1
        self.token = self.tokens[self.index]
        return token

    def peek(self, ahead: int = 1) -> Token:
        """Return the token `ahead` places after the next one."""
        index = self.index + ahead
        return self.tokens[index if index < self.end else self.end]

    def expect(self, kind: str, purpose: str = "") -> Token:
        """Consume a token of this kind, or fail: expected `kind` `purpose`."""
        if self.token.kind != kind:
            what = "a name" if kind == NAME else "a string in quotes" if kind == STRING else f"'{kind}'"
            self.fail(f"{what} {purpose}".rstrip())
        return self.advance()

    def skip_semicolons(self) -> None:
        """Consume any number of ``;``."""
        while self.token.kind == ";":
            self.advance()

    def place(self, token: Token | None = None) -> ScriptPlace:
        """Return where `token`, or else the next one, begins."""
        return (token or self.token).place

    def fail(self, expected: str, hint: str = "") -> NoReturn:
        """Raise: expected this, found the next token."""
        self.reject(f"expected {expected}, found {_described(self.token)}", hint or self.usual_hint(expected))

    def reject(
        self, message: str, hint: str = "", at: Token | None = None, kind: type[ScriptSyntaxError] = ScriptSyntaxError
    ) -> NoReturn:
        """Raise an error at a token, the next one if none is given."""
        token = at or self.token
        length = len(token.text.partition("\n")[0])
        shown = excerpt(self.text, token.line, token.column, length)
        raise kind(escaped(message, _LONGEST_MESSAGE), token.place, shown, hint)

    def usual_hint(self, expected: str) -> str:
        """Return the advice for mistakes that are easily made, or nothing."""
        token, last = self.token, self.last
        for string in (last, token):
            if string is not None and string.kind == STRING and string.end_line > string.line:
                return f"a string goes from line {string.line} to line {string.end_line}: is a quote missing?"
        if token.kind == "<-":
            return "<- is an assignment; a comparison with a negative number is < -1"
        if token.kind == "=" and expected.startswith(("an operator", "')' to close the condition")):
            return "equality is =="
        if token.kind in KEYWORDS and expected.startswith(("a name", "an expression")):
            return f"{token.text} is a word of the language and no name"
        if last is not None and last.kind in (INT, DOUBLE) and token.kind == NAME and touch(last, token):
            return "a name begins with a letter, and a product is written with *"
        return ""

    def separated(
        self, parse: Callable[[], _T], closing: str, owner: str, opening: Token | None = None
    ) -> tuple[_T, ...]:
        """Parse what stands between commas, up to and with the closing bracket; the opening one is consumed."""
        opening = opening or self.last
        self.open_brackets += 1
        found: list[_T] = []
        if self.token.kind != closing:
            found.append(parse())
            while self.token.kind == ",":
                self.advance()
                found.append(parse())
        self.open_brackets -= 1
        self.close(closing, owner, opening, "','")
        return tuple(found)

    def close(self, closing: str, owner: str, opening: Token | None, instead: str = "", hint: str = "") -> None:
        """Consume a closing bracket, or say what it would have closed."""
        if self.token.kind != closing:
            where = f", opened in line {opening.line}" if opening and opening.line != self.token.line else ""
            before = f"{instead} or " if instead else ""
            self.fail(f"{before}'{closing}' to close {owner}{where}", hint)
        self.advance()

    def enter(self) -> None:
        """Count one more level of nesting; the caller counts it down again."""
        self.depth += 1
        if self.depth > DEEPEST:
            message = f"the script is nested more than {DEEPEST} levels deep"
            self.reject(message, "use variables for parts of it", kind=NestedTooDeep)

    def comments_of_next(self) -> tuple[str, ...]:
        """Take the comments before the next token."""
        if not self.token.comments:
            return ()
        found = tuple(comment for comment, _ in self.token.comments)
        self.token.comments = ()
        return found

    def comments_beside(self) -> tuple[str, ...]:
        """Take the comments after the last token that begin on its line."""
        if not self.token.comments:
            return ()
        line = self.last.end_line if self.last else 0
        found = tuple(comment for comment, at in self.token.comments if at == line)
        if found and self.token.line == line and self.token.kind not in (END, "}"):
            return ()  # x = 1 /* for y */ y = 2
        self.token.comments = self.token.comments[len(found) :]
        return found


def _described(token: Token) -> str:
    if token.kind == END:
        return "the end of the script"
    if token.kind == STRING:
        text = token.text if len(token.text) <= 30 else f"{token.text[:30]}..."
        return f"the string {text.splitlines()[0]}"
    return f"'{token.text if len(token.text) <= 60 else token.text[:60] + '...'}'"


def touch(left: Token, right: Token) -> bool:
    """Return whether nothing stands between two tokens."""
    return left.end == right.offset
