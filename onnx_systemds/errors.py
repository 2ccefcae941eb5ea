"""All errors a user can meet, and the places they point at.

Whoever finds a fault says *what* is wrong; the driver adds *where*, once (``error.place = error.place or place``).
Text that comes from a model or a script reaches a message only through `quoted`, so that a hostile name can
neither add lines to a message nor fill a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LONGEST_NAME = 200
_LONGEST_PATH = 4096
_MOST_REASONS_SHOWN = 100
_MOST_NAMES_SHOWN = 10


def escaped(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return `text` on one line: unprintable characters escaped, the middle left out beyond `longest` characters."""
    if len(text) <= longest and text.isprintable():
        return text
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}...({len(text) - 2 * half} characters)...{text[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown_path(path: object) -> str:
    """Return a path, or a place in a file, on one line and whole."""
    return escaped(str(path), _LONGEST_PATH)


def quoted(text: str) -> str:
    """Return `text` escaped and in double quotes, for a message."""
    return '"' + escaped(text).replace('"', '\\"') + '"'


def quoted_list(names: Iterable[str]) -> str:
    """Return the first ten names quoted and joined by commas, and how many were left out."""
    every = list(names)
    shown = ", ".join(quoted(name) for name in every[:_MOST_NAMES_SHOWN])
    return shown if len(every) <= _MOST_NAMES_SHOWN else f"{shown} and {len(every) - _MOST_NAMES_SHOWN} more"


def counted(count: int, noun: str) -> str:
    """Return how many there are of what a noun names: "1 weight", "1,200 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def raise_all(reasons: Sequence[TranspileError], summary: str) -> None:
    """Raise the only reason itself, or a `MultipleErrors` that lists them all; return when there are none."""
    if len(reasons) == 1:
        raise reasons[0]
    if reasons:
        raise MultipleErrors(summary, reasons)


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node of a model. `node` is its name, or ``#index`` when it has none."""

    graph: str
    node: str
    op: str
    domain: str
    version: int

    def __str__(self) -> str:
        operator = f"{escaped(self.domain) or 'ai.onnx'}.{escaped(self.op)}"
        return f"graph {quoted(self.graph)} node {quoted(self.node)} ({operator}, opset {self.version})"


@dataclass(frozen=True, slots=True)
class ScriptPlace:
    """A place in a script; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{escaped(self.file)}:{self.line}:{self.column}"


class TranspileError(Exception):
    """A model or script cannot be converted. `place` is anything that prints as a place, or None.

    excerpt: the line of a script that is meant, with a mark below. sources: the integer inputs of the graph whose
    content may decide the matter; the driver fills them in.
    """

    def __init__(self, message: str, place: object | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint
        self.excerpt = ""
        self.sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = "" if self.place is None else f"{shown_path(self.place)}: "
        shown = f"\n{self.excerpt}" if self.excerpt else ""
        advice = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{where}{self.message}{shown}{advice}"


class InvalidModel(TranspileError):
    """The input is no ONNX model, or breaks a rule of ONNX."""


class UnsupportedOperator(TranspileError):
    """No generator and no function body is known for an operator in this version."""


class UnsupportedCase(TranspileError):
    """The operator is known, this use of it is not."""


_CONTENT_ADVICE = "give its content at conversion: --constant NAME=VALUE, or import_model(..., constants={...})"


TYPE_ADVICE = "say the shapes of inputs at conversion: --type NAME=TYPE[DIMS], or import_model(..., types={...})"


class ConstantNeeded(UnsupportedCase):
    """The content of a value decides what the script looks like, and is not known at conversion."""

    def __init__(self, message: str, value_name: str) -> None:
        super().__init__(message, hint=_CONTENT_ADVICE)
        self.value_name = value_name


class ShapeUnknown(TranspileError):
    """A shape, rank or type that the conversion needs cannot be found out."""


class ScriptError(TranspileError):
    """Something in a script cannot be converted."""

    def __init__(self, message: str, place: ScriptPlace, excerpt: str = "", hint: str = "") -> None:
        super().__init__(message, place, hint)
        self.excerpt = excerpt


class ScriptSyntaxError(ScriptError):
    """A text that is no DML script."""


class ScriptNotFound(TranspileError):
    """A script named by ``source`` is neither on disk nor part of SystemDS."""


class InternalError(TranspileError):
    """A fault of ours: a plain Python exception, wrapped with its place; the cause is chained."""


class PluginError(InternalError):
    """The same in a plugin: a fault of who wrote it."""


class MultipleErrors(TranspileError):
    """Several reasons at once. `reasons` holds every one; the text lists the first hundred."""

    def __init__(self, summary: str, reasons: Sequence[TranspileError]) -> None:
        super().__init__(summary)
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        shown = [str(reason).replace("\n", "\n  ") for reason in self.reasons[:_MOST_REASONS_SHOWN]]
        left = len(self.reasons) - len(shown)
        lines = [f"- {text}" for text in shown] + ([f"- ... and {left} more"] if left else [])
        return "\n".join([f"{self.message} ({len(self.reasons)} reasons):", *lines])


class Reasons:
    """Collects errors, so that a user sees all of them in one go."""

    def __init__(self) -> None:
        self.errors: list[TranspileError] = []

    def add(self, error: TranspileError) -> None:
        """Keep one more reason."""
        self.errors.append(error)

    def __bool__(self) -> bool:
        return bool(self.errors)

    def raise_any(self, summary: str) -> None:
        """Raise what was collected, see `raise_all`."""
        raise_all(self.errors, summary)
