"""Options and endings that commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from onnx_systemds.errors import TranspileError

if TYPE_CHECKING:
    from onnx_systemds.verifying.report import Report

Command = Callable[..., Any]


def with_options(command: Command, options: list[Callable[[Command], Command]]) -> Command:
    """The command with options, which its help shows in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def verification_options(command: Command) -> Command:
    """What verifying needs beside the options of the conversion."""
    return with_options(command, [
        click.option("--inputs", "contents", type=click.Path(path_type=Path),
                     help="An .npz file with one array per input, as for run [default: random numbers]."),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random inputs."),
        click.option("--rtol", type=float, help="Tolerated share of each number [default: by type, float32 1e-3]."),
        click.option("--atol", type=float, help="Tolerated difference [default: a share of the output's spread, "
                                                "float32 1e-5; 0 for integers]."),
    ])  # fmt: skip


def fixed_sizes(dims: tuple[str, ...]) -> dict[str, int]:
    """The sizes of ``--dim NAME=SIZE``. Raises BadParameter."""
    sizes: dict[str, int] = {}
    for text in dims:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isdigit() or int(size) < 1:
            raise click.BadParameter(f"{text!r} is not NAME=SIZE with a positive integer", param_hint="--dim")
        sizes[name] = int(size)
    return sizes


def read_tensors(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file. Raises TranspileError, OSError."""
    try:
        with np.load(path, allow_pickle=False) as content:
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise TranspileError("it is no .npz file", path)
            return {name: content[name] for name in content.files}
    except (ValueError, EOFError) as error:
        raise TranspileError(f"it cannot be read as .npz: {error}", path) from error


def tell(report: Report) -> None:
    """Print what a verification found, and end with exit code 1 when numbers part."""
    for line in report.lines():
        click.echo(line)
    if not report.passed:
        sys.exit(1)
