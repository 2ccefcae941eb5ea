"""What commands do with a model before they do what they are for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from onnx_systemds.cli.explaining import explained
from onnx_systemds.cli.given import GivenInputs
from onnx_systemds.cli.options import ConversionOptions, print_stages
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.model.ir import Model, Type
from onnx_systemds.model.load import load_model
from onnx_systemds.stages import Stages


@contextmanager
def opened(path: Path, options: ConversionOptions) -> Iterator[tuple[Model, Stages, list[Path]]]:
    """The model of a file, the stages of the command, and all files that it reads for the model; errors become words.

    The times of the stages are printed at the end.
    """
    given = options.given()
    with explained(options.traceback):
        options.load_plugins()
        stages = Stages()
        loaded = read_model(path, given, stages)
        yield loaded, stages, [path, *loaded.data_files, *options.plugins, *given.files]
        print_stages(stages, verbose=options.verbose)


def read_model(path: Path, given: GivenInputs | None, stages: Stages) -> Model:
    """The model of a file, with what is given of its inputs. Raises TranspileError, OSError."""
    if path.suffix.lower() == ".dml":
        raise TranspileError("this is a script", path, "use: onnx-systemds export SCRIPT.dml")
    with stages.stage("load") as words:
        loaded = load_model(path)
        loaded = loaded if given is None else given.put_into(loaded)
        words.append(f"{len(loaded.graph.nodes)} nodes, {len(loaded.graph.initializers)} weights")
    return loaded


def converted(
    loaded: Model, sizes: dict[str, int], options: ConversionOptions, types: Mapping[str, Type] | None = None,
    stages: Stages | None = None, gradients: Sequence[str] = (), fixed: Sequence[str] = (),
) -> Script:
    """The script of a model. types: of inputs, in place of those that it declares. Raises TranspileError."""
    with progress("converting", len(loaded.graph.nodes)) as advance_to:
        return import_model(
            loaded, dims=sizes, types=types, progress=advance_to, stages=stages, gradients=gradients,
            fixed=fixed, **options.arguments(),
        )


def on_terminal() -> bool:
    """Whether somebody sees what is written to the standard error, which may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on stderr, only on a terminal; gives a function that takes how much is done."""
    if length == 0 or not on_terminal():
        yield None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield lambda done: bar.update(max(0, done - bar.pos))
