"""How a command ends when something cannot be done."""

from __future__ import annotations

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
        click.echo(f"error: {_text(error)}", err=True)
        sys.exit(1)


def _text(error: Exception) -> str:
    """An error as a user reads it: of the operating system the file and what is wrong, without a number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{escaped(str(error.filename))}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)
