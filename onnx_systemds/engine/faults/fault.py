"""What is written down of a fault of the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the engine.

    identifier: kebab-case, named by workarounds in comments.
    script: DML that assigns the matrix ``result``; it may use ``X`` (``inputs``, a frame where these are texts), of a
    size the compiler does not know, and the folder ``{folder}``, which holds the list "parts": a matrix of ones, 2 x 1,
    in a directory of two files, and one of 3 x 1.
    right: the rows that ``result`` should have. raises: part of the engine's message where it ends in an error instead
    of a wrong number; "" for a silent fault. workaround: the function, pass or template that is safe from it.
    """

    identifier: str
    summary: str
    script: str
    right: tuple[tuple[float, ...], ...]
    workaround: str
    inputs: tuple[tuple[float | str, ...], ...] = ()
    raises: str = ""
