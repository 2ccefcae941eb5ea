"""The command line of this project, within the process of the tests."""

from __future__ import annotations

from click.testing import CliRunner, Result

from onnx_systemds.cli.commands import main


def invoke(*arguments: object) -> Result:
    """What a command gives: output, exit code and exception."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
