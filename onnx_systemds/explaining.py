"""How a command ends when something cannot be done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from onnx_systemds.engine.errors import EngineError
from onnx_systemds.errors import TranspileError


@contextmanager
def explained(traceback: bool) -> Iterator[None]:
    """Turn an error into its message and exit code 1."""
    try:
        yield
    except (TranspileError, EngineError, OSError) as error:
        if traceback:
            raise
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
