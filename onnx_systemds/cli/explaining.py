"""What a command says, and how it ends when something cannot be done."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from onnx_systemds.engine.errors import EngineError
from onnx_systemds.errors import TranspileError, escaped


@contextmanager
def explained(traceback: bool) -> Iterator[None]:
    """Turn an error into its message and exit code 1."""
    try:
        yield
    except (TranspileError, EngineError, OSError) as error:
        if traceback:
            raise
        say(f"error: {_text(error)}", err=True)
        sys.exit(1)


def say(text: str, *, err: bool = False) -> None:
    """Print a line. Where standard output takes none, as on a full disk, the command ends in words and exit code 1.

    What standard error does not take is lost: there is no other place to say so.
    """
    try:
        click.echo(text, err=err)
    except OSError as error:
        if err:
            discard(2)
            return
        if error.errno != errno.EPIPE:  # the reader of a pipe has seen enough
            say(f"error: standard output: {error.strerror}", err=True)
        discard(1)
        sys.exit(1)


def discard(stream: int) -> None:
    """Let a stream, 1 or 2, take everything: what is left of a line in Python's buffer could not be written either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _text(error: Exception) -> str:
    """An error as a user reads it: of the operating system the file and what is wrong, without a number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{escaped(str(error.filename))}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)
