"""Statements that generators write: they keep their spelling, and those of one shape are parsed once.

The nodes of a model write the same statements again and again, with other names of variables and other strings. What
is left of a text without these is its shape. From its second text on a shape is parsed with marks for them, and each
further text is that tree with its own names in the place of the marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.line_breaks import joined_numbers
from onnx_systemds.dml.parser import ScriptParser
from onnx_systemds.dml.tokens import KEYWORDS, STRING, Token, tokenize
from onnx_systemds.errors import ScriptPlace

_FIXED = "|".join(sorted((*KEYWORDS, *tree.CONSTANTS)))
_LEAF = re.compile(rf'("[^"\\\n]*"|(?<![\w.$])(?<!::)(?!(?:{_FIXED})\b)[a-zA-Z]\w*(?![\w.(]|::| \())', re.ASCII)
"""A string, or a name that is no word of the language and no function."""
_MARK = re.compile(r'"?mark_of_leaf_([0-9]+)_"?')
_UNSURE = re.compile(r"[\\'#]|/\*|\bfunction\b|mark_of_leaf_")
"""Where quotes and comments begin and end is not looked at here."""
_LONGEST_SHAPE = 600
"""Sums of many terms are deep trees, which are not filled in."""

_Leaves: TypeAlias = list[str]
_Fill: TypeAlias = Callable[[_Leaves], Any]


def parse_snippet(text: str) -> tuple[tree.Item, ...]:
    """Return statements and functions as they are written: each keeps its spelling, and none has a place.

    Parentheses around a name, a call or all of an expression are dropped, so that generators may write them anywhere.

    Raises ScriptSyntaxError.
    """
    pieces = _LEAF.split(text)
    leaves = pieces[1::2]
    strings = tuple([number for number, leaf in enumerate(leaves) if leaf[0] == '"']) if '"' in text else ()
    return _shape(tuple(pieces[::2]), strings).items(text, leaves)


@lru_cache(maxsize=2048)
def _shape(between: tuple[str, ...], strings: tuple[int, ...]) -> _Shape:
    return _Shape(between, strings)


class _Shape:
    """What texts have in common that differ in names and strings only.

    between: what stands between these. strings: the numbers of the strings among them.
    """

    __slots__ = ("_between", "_fills", "_is_filled", "_is_parsed", "_strings")

    def __init__(self, between: tuple[str, ...], strings: tuple[int, ...]) -> None:
        self._between = between
        self._strings = frozenset(strings)
        whole = " ".join(between)
        self._is_filled = len(whole) <= _LONGEST_SHAPE and not _UNSURE.search(whole)
        self._is_parsed = False
        self._fills: tuple[_Fill, ...] = ()

    def items(self, text: str, leaves: list[str]) -> tuple[tree.Item, ...]:
        """What a text of this shape says."""
        if self._is_parsed and self._is_filled and not self._fills:
            self._fills = self._with_marks()
        if self._fills:
            leaves.append(text)
            return tuple([fill(leaves) for fill in self._fills])
        found = _SnippetParser(text).snippet()
        self._is_parsed = bool(found)
        return found

    def _with_marks(self) -> tuple[_Fill, ...]:
        names = [f"mark_of_leaf_{number}_" for number in range(len(self._between) - 1)]
        marks = [f'"{name}"' if number in self._strings else name for number, name in enumerate(names)]
        text = "".join(piece for pair in zip(self._between, (*marks, "")) for piece in pair)
        filling = _Filling({name: number for number, name in enumerate(names)}, self._strings, text)
        return tuple(filling.statement(item) for item in _SnippetParser(text).snippet())


class _Filling:
    """Makes functions that make a tree, with the leaves of a text in the place of marks.

    marks: the number of each. strings: the numbers of those that are strings. text: what the tree was parsed of; the
    leaves of another text are followed by that text.
    """

    def __init__(self, marks: Mapping[str, int], strings: frozenset[int], text: str) -> None:
        self._marks, self._strings, self._text = marks, strings, text

    def statement(self, statement: tree.StatementNode) -> _Fill:
        """What makes a statement."""
        parts, shares_line = _parts(statement), statement.shares_line
        make = _made(partial(type(statement), comments=statement.comments), parts, self._fills(parts))
        spelling = self._spelling(statement.spelling)

        def fill(leaves: _Leaves) -> tree.StatementNode:
            found: tree.StatementNode = make(leaves)
            tree.keep_spelling(found, spelling(leaves), shares_line=shares_line)
            return found

        return fill

    def _part(self, value: Any) -> _Fill | None:
        """What makes a part of the tree; None for one without marks, which all trees share."""
        if isinstance(value, str) and value in self._marks:
            number = self._marks[value]
            return itemgetter(number) if number not in self._strings else lambda leaves: leaves[number][1:-1]
        if isinstance(value, tree.StatementNode):
            return self.statement(value)
        if isinstance(value, tree.Name) and value.name in self._marks:
            number = self._marks[value.name]
            return lambda leaves: tree.Name(leaves[number])
        if isinstance(value, tuple):
            fills = self._fills(value)
            return _made(lambda *items: items, value, fills) if fills else None
        if not isinstance(value, tree.Node):
            return None
        parts = _parts(value)
        fills = self._fills(parts)
        return _made(type(value), parts, fills) if fills else None

    def _fills(self, parts: Iterable[Any]) -> list[tuple[int, _Fill]]:
        """What makes parts of a tree, each with its place, but for those that stay."""
        return [(place, fill) for place, part in enumerate(parts) if (fill := self._part(part)) is not None]

    def _spelling(self, spelling: str) -> Callable[[_Leaves], str]:
        if spelling == self._text:
            return itemgetter(-1)
        pieces = _MARK.split(spelling)
        numbers = [*map(int, pieces[1::2])]

        def fill(leaves: _Leaves) -> str:
            found = pieces.copy()
            found[1::2] = [leaves[number] for number in numbers]
            return "".join(found)

        return fill


def _parts(node: tree.Node) -> list[Any]:
    names: tuple[str, ...] = node.__match_args__
    return [getattr(node, name) for name in names]


def _made(make: Callable[..., Any], parts: Iterable[Any], fills: Sequence[tuple[int, _Fill]]) -> _Fill:
    """What makes something of parts, some of them filled in."""

    def fill(leaves: _Leaves) -> Any:
        found = [*parts]
        for place, part in fills:
            found[place] = part(leaves)
        return make(*found)

    return fill


class _SnippetParser(ScriptParser):
    """Parses statements that keep their spelling and have no place in a file."""

    def __init__(self, text: str) -> None:
        super().__init__(tokenize(text, "<snippet>"), text, "<snippet>")
        self._needless: list[int] = []  # offsets of parentheses that mean nothing

    def snippet(self) -> tuple[tree.Item, ...]:
        """All statements and functions."""
        return tuple(self.items()[0])

    def place(self, token: Token | None = None) -> ScriptPlace:
        """Return no place: the text is no script."""
        return tree.NOWHERE

    def end_whole(self, opening: Token, index: int) -> None:
        """Drop parentheses around all of an expression."""
        if self._closing(index) == self.index - 1:
            self.end_parenthesised(opening)

    def end_parenthesised(self, opening: Token) -> None:
        """Drop parentheses that the last token closes."""
        if self.last is not None:
            self._needless += (opening.offset, self.last.offset)

    def _closing(self, index: int) -> int:
        """The number of the token that closes the parenthesis of this number."""
        depth = 0
        for place in range(index, self.index):
            kind = self.tokens[place].kind
            depth += (kind == "(") - (kind == ")")
            if depth == 0:
                return place
        return self.index

    def end_statement(self, found: tree.Item, before: Token | None, start: Token) -> None:
        """Give a statement its text."""
        assert self.last is not None
        text = self._text_between(start.offset, self.last.end).rstrip("; \t\r\n")
        if "\n" in text:
            for place in range(self.index - 1, -1, -1):
                token = self.tokens[place]
                if token.kind == STRING and "\n" in token.text and not self._is_of_numbers(place):
                    return  # its lines cannot be moved
                if token is start:
                    break
            indent = self.text[self.text.rfind("\n", 0, start.offset) + 1 : start.offset]
            text = text.replace(f"\n{indent}", "\n") if indent.isspace() else text
        is_beside = before is not None and before.kind != "{" and "\n" not in self.text[before.end : start.offset]
        tree.keep_spelling(found, text, shares_line=is_beside and "\n" not in text)

    def _is_of_numbers(self, place: int) -> bool:
        """Whether the token of this number is the string of a matrix, between whose numbers lines may end."""
        before = [token.text for token in self.tokens[max(place - 2, 0) : place]]
        return before == ["matrix", "("] and "\n" not in joined_numbers(self.tokens[place].text)

    def _text_between(self, begin: int, end: int) -> str:
        """A part of the text without needless parentheses."""
        if not self._needless:
            return self.text[begin:end]
        pieces = []
        for offset in sorted(self._needless):
            if begin <= offset < end:
                pieces.append(self.text[begin:offset])
                begin = offset + 1
        return "".join((*pieces, self.text[begin:end]))
