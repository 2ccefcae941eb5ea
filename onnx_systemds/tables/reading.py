"""Tables that are read in blocks of rows: what all kinds of files have in common."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onnx_systemds.errors import TranspileError, quoted

Array = np.ndarray[Any, np.dtype[Any]]

FLOAT, INTEGER, BOOLEAN, TEXT = "number", "integer", "boolean", "text"
"""Kinds of columns; a missing value is NaN as a number and empty as text, else an error."""

_HINTS = (
    (re.compile(r"[-+]?\d[\d.]*,\d+"), "the decimal sign is a point, and thousands have no sign"),
    (re.compile(r"(?i)n/?a|null|none|nil|missing|[?.-]+|#n/a"), "a missing value is an empty field"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is wanted: its place in the file, counted from 0, its name there, and what it has to hold."""

    place: int
    name: str
    kind: str


class Table(Protocol):
    """A file that is open."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def names(self) -> Sequence[str]:
        """Of its columns."""

    @property
    def size(self) -> int | None:
        """Of all of it, in what ``done`` counts; None if not known."""

    @property
    def done(self) -> int:
        """How much of it has been read."""

    def blocks(self, columns: Sequence[Column], rows: int) -> Iterator[list[Array]]:
        """The wanted columns, each an array, of at most so many rows at a time. Raises TranspileError, OSError."""

    def close(self) -> None:
        """Close the file."""


def wrong_cell(path: Path, place: str, column: Column, shown: str | None) -> TranspileError:
    """What to raise for a cell that is not of the kind of its column; ``shown`` is None where it is missing."""
    if shown is None:
        return TranspileError(f"{place}, column {quoted(column.name)} is empty, {_kind(column)} is needed", path)
    hint = next((hint for form, hint in _HINTS if form.fullmatch(shown.strip())), "")
    return TranspileError(f"{place}, column {quoted(column.name)}: {quoted(shown)} is no {column.kind}", path, hint)


def _kind(column: Column) -> str:
    return f"an {column.kind}" if column.kind == INTEGER else f"a {column.kind}"


def pyarrow(name: str, path: Path) -> Any:
    """A module of pyarrow. Raises TranspileError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TranspileError(
            "parquet needs the Python package pyarrow", path, 'run `pip install "onnx-systemds[files]"`, or use csv'
        ) from error
