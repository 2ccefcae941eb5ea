"""``onnx-systemds train``: a model, trained on the rows of a file, as another model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import click
import onnx

from onnx_systemds.cli.converting import converted, opened
from onnx_systemds.cli.explaining import say
from onnx_systemds.cli.once import OnceCommand
from onnx_systemds.cli.options import (
    FILE,
    ConversionOptions,
    conversion_options,
    listed_names,
    or_standard_output,
)
from onnx_systemds.cli.programs import Programs
from onnx_systemds.errors import TranspileError, counted, quoted, quoted_list, shown_path
from onnx_systemds.files import check_targets
from onnx_systemds.importing.losses import LOSSES
from onnx_systemds.importing.optimizers import CONSTANT, DEFAULT, OPTIMIZERS, SCHEDULES
from onnx_systemds.importing.train_program import training_of
from onnx_systemds.importing.trained_results import weights_with_loss
from onnx_systemds.tables.writing import TABLES

_MOST = 2**31 - 1


def _number(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise click.BadParameter("it is no number")
    return value


_RATES = ", ".join(f"{optimizer.name} {optimizer.rate:g}" for optimizer in OPTIMIZERS.values())
_DECAYS = ", ".join(f"{each.name} {each.weight_decay:g}" for each in OPTIMIZERS.values() if each.weight_decay)


def _targets(words: Sequence[str], results: Iterable[str]) -> dict[str, str]:
    """The target of each result that has a loss, "" for a loss alone. Raises TranspileError."""
    known = sorted(results, key=len, reverse=True)
    found: dict[str, str] = {}
    for word in words:
        result = next((each for each in known if each and word.startswith(f"{each}=")), "")
        if not result and len(known) > 1:
            raise TranspileError(f"--target is {quoted(word)}, of none of the results {quoted_list(results)}",
                                 hint="with several losses it is RESULT=NAME,...")
        text, result = (word[len(result) + 1 :] if result else word), result or known[0]
        if result in found:
            raise TranspileError(f"there are two targets of {quoted(result)}" if result else "there are two targets")
        found[result] = text
    if missing := [result for result in results if result not in found]:
        raise TranspileError(f"there is no target of {quoted_list(missing)}")
    return found


@click.command(cls=OnceCommand, short_help="Train MODEL.onnx on the rows of a file.")
@click.argument("model", type=FILE)
@click.option("--input", "source", type=FILE, required=True, help="Samples and targets: .csv, .parquet or .npz.")
@click.option("--target", "targets", required=True, multiple=True, metavar="[RESULT=]NAME,...",
              help="The columns with the targets; the array of an .npz file. Repeatable as --loss.")
@click.option("--loss", "losses", required=True, multiple=True, metavar="[RESULT=]LOSS",
              help=f"{' or '.join(LOSSES)}. Repeatable, for several results.")
@click.option("-o", "--output", type=FILE, required=True, callback=or_standard_output,
              help="The model to write; - is standard output.")
@click.option("--optimizer", type=click.Choice([*OPTIMIZERS]), default=DEFAULT, show_default=True,
              help="Optimizer of the training program.")
@click.option("--epochs", type=click.IntRange(min=1, max=_MOST), default=10, show_default=True,
              help="How often to go through all samples.")
@click.option("--batch", type=click.IntRange(min=1, max=_MOST), default=32, show_default=True,
              help="Samples of a step.")
@click.option("--rate", type=click.FloatRange(min=0, max=math.inf, min_open=True, max_open=True),
              callback=_number, help=f"Learning rate [default: {_RATES}].")
@click.option("--seed", type=click.IntRange(min=0, max=_MOST), default=1, show_default=True,
              help="Seed for shuffling.")
@click.option("--holdout", type=click.FloatRange(min=0, max=1, max_open=True), default=0, show_default=True,
              callback=_number, help="Fraction of samples held out; their loss is printed after each epoch.")
@click.option("--patience", type=click.IntRange(min=1, max=_MOST),
              help="End after so many epochs without a smaller held-out loss, and keep the weights of the best epoch.")
@click.option("--schedule", type=click.Choice([CONSTANT, *SCHEDULES]), default=CONSTANT, show_default=True,
              help="The rate over the epochs.")
@click.option("--weight-decay", type=click.FloatRange(min=0, max=math.inf, max_open=True), callback=_number,
              help=f"Weight decay [default: {_DECAYS}, else 0].")
@click.option("--clip", type=click.FloatRange(min=0, max=math.inf, min_open=True, max_open=True), callback=_number,
              help="Largest norm of a gradient.")
@click.option("--gradient", "gradients", multiple=True, metavar="NAME",
              help="Train this weight, and others that are named, instead of all. Repeatable.")
@click.option("--fixed", "fixed", multiple=True, metavar="NAME",
              help="Leave this weight as it is, and others that are named. Repeatable.")
@click.option("--columns", metavar="NAME,NAME,...", help="The columns of the inputs, in their order, as for score.")
@click.option("--no-header", is_flag=True, help="The .csv has no header; its columns are named 1, 2, 3 ...")
@click.option("-q", "--quiet", is_flag=True, help="Do not print the losses.")
@conversion_options
def train(  # noqa: PLR0913 - an argument for each option
    model: Path, source: Path, targets: tuple[str, ...], losses: tuple[str, ...], output: Path, optimizer: str,
    epochs: int, batch: int, rate: float | None, seed: int, holdout: float, patience: int | None, schedule: str,
    weight_decay: float | None, clip: float | None, gradients: tuple[str, ...], fixed: tuple[str, ...],
    columns: str | None, no_header: bool, quiet: bool, options: ConversionOptions,
) -> None:
    """Train MODEL.onnx further on the rows of a file, in SystemDS, and write it with what it has learnt.

    Columns belong to inputs by their names, as for score; for the only input all other columns do if none has its name.
    The model stays the same but for the numbers of its initializers. To train where SystemDS runs anyway, at federated
    sites too, let convert --train write the program.
    """
    from onnx_systemds.exporting.trained_model import files_of, save_trained
    from onnx_systemds.runtime.sample_rows import ARRAYS, samples_of_arrays, samples_of_table
    from onnx_systemds.runtime.training import Steps, trained_on

    if patience and not holdout:
        raise click.UsageError("--patience needs --holdout, the samples that judge")
    steps = Steps(epochs, batch, rate, seed, holdout, patience or 0, schedule, weight_decay, clip or 0)
    sizes, suffix = options.sizes(), source.suffix.lower()
    with opened(model, options) as (loaded, stages, sources):
        written = files_of(output, is_external=bool(loaded.data_files))
        check_targets(written, [source, *sources])
        if suffix not in (*TABLES, ARRAYS):
            raise TranspileError("the file must be named *.csv, *.parquet or *.npz", source)
        if suffix == ARRAYS and (columns is not None or no_header):
            raise TranspileError("it holds arrays: --columns and --no-header are for tables", source)
        programs = Programs(scores=False, training=training_of(losses, optimizer), explains=None)
        derived = programs.gradients(gradients, loaded)
        convert = partial(converted, loaded, sizes, options, stages=stages, gradients=derived, fixed=fixed)
        script = programs.script(convert, loaded, sizes)
        assert programs.training is not None and script.derivatives is not None
        wanted = _targets(targets, programs.training.losses)
        with stages.stage("read"):
            if suffix == ARRAYS:
                inputs, found = samples_of_arrays(script, source, wanted)
            else:
                names = {result: listed_names(text, "--target") for result, text in wanted.items()}
                chosen = None if columns is None else listed_names(columns, "--columns")
                inputs, found = samples_of_table(script, source, names, chosen, has_header=not no_header)
        first = next(iter(found.values()))
        weights = weights_with_loss(script.derivatives, programs.training.losses)
        if not quiet:
            say(f"trains {counted(len(weights), 'weight')}: {quoted_list(weights)}", err=True)
            if statistics := [*script.derivatives.statistics.values()]:
                say(f"batches move {counted(len(statistics), 'statistic')}: {quoted_list(statistics)}", err=True)
        with stages.stage("train"):
            changed = trained_on(
                onnx.load(model), script, programs.training, inputs, found if len(found) > 1 else first, steps,
                None if quiet else partial(say, err=True),
            )
        save_trained(changed, output, is_external=bool(loaded.data_files))
    count = len(first) - int(holdout * len(first))
    say(f"{shown_path(model)} -> {shown_path(output)}: trained on {count} rows of {shown_path(source)}", err=True)
