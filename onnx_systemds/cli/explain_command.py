"""``onnx-systemds explain``: what each column of a file contributes to the answers of a model, as another file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import numpy as np

from onnx_systemds.cli.converting import converted, opened
from onnx_systemds.cli.explaining import say
from onnx_systemds.cli.once import OnceCommand
from onnx_systemds.cli.options import FILE, ConversionOptions, conversion_options, listed_names, note_numbers_as_names
from onnx_systemds.cli.programs import Programs
from onnx_systemds.errors import TranspileError, counted, quoted, quoted_list, shown_path
from onnx_systemds.files import check_target, is_stream, replacing
from onnx_systemds.importing.explain_program import METHODS, NUMBERS, SHAPLEY
from onnx_systemds.importing.explain_program import explained as explaining
from onnx_systemds.tables.reading import Array
from onnx_systemds.tables.writing import TABLES, WRITERS

_BASE = "base"
_MOST = 2**31 - 1
_SHOWN = 5


@click.command(cls=OnceCommand, short_help="Explain the answers of MODEL.onnx for the rows of a file.")
@click.argument("model", type=FILE)
@click.option("--input", "source", type=FILE, required=True, help="The rows: .csv or .parquet.")
@click.option("--output", "target", type=FILE, required=True, help="The file to write: .csv or .parquet.")
@click.option("--background", type=FILE, help="Other rows, to see the answers against  [default: the rows themselves].")
@click.option("--result", default="", metavar="NAME",
              help="The result to explain  [default: the only one of real numbers].")
@click.option("--column", type=click.IntRange(min=0, max=_MOST), default=0, show_default=True,
              help="The column of the result, from 1 on; 0 for the one with the largest number, in each row.")
@click.option("--method", type=click.Choice(METHODS), default=SHAPLEY, show_default=True,
              help="Shapley values, of any model; or integrated gradients, of one with derivatives by its inputs.")
@click.option("--permutations", type=click.IntRange(min=1, max=_MOST),
              help="Permutations of the columns; more are more exact  [default: 200 for few rows, 10 for many].")
@click.option("--steps", type=click.IntRange(min=1, max=_MOST),
              help="Steps of integrated gradients; more are more exact  [default: 200 for few rows, 20 for many].")
@click.option("--seed", type=click.IntRange(min=0, max=_MOST), default=1, show_default=True,
              help="Seed of the permutations and of the order of the background.")
@click.option("--columns", metavar="NAME,NAME,...", help="The columns of the inputs, in their order, as for score.")
@click.option("--group", "groups", multiple=True, metavar="NAME=COLUMN,COLUMN,...",
              help="Columns that count as one, as those of a word in a code; repeatable.")
@click.option("--no-header", is_flag=True, help="The .csv has no header; its columns are named 1, 2, 3 ...")
@conversion_options
def explain(  # noqa: PLR0913 - an argument for each option
    model: Path, source: Path, target: Path, background: Path | None, result: str, column: int, method: str,
    permutations: int | None, steps: int | None, seed: int, columns: str | None, groups: tuple[str, ...],
    no_header: bool, options: ConversionOptions,
) -> None:
    """Say what each column of a file contributes to the answers of MODEL.onnx, in SystemDS.

    Contributions are Shapley values, or integrated gradients: in each row they, and the mean answer for the background
    in the column "base", add up to the answer. Columns belong to inputs by their names, as for score. To explain where
    SystemDS runs anyway, let convert --explain write the program.
    """
    from onnx_systemds.runtime.explaining import Sampling, explained_rows
    from onnx_systemds.runtime.sample_rows import rows_of_table

    sizes = options.sizes()
    for name, number in (("permutations", permutations), ("steps", steps)):
        if number is not None and method != NUMBERS[name]:
            raise click.UsageError(f"--{name} is of --method {NUMBERS[name]}")
    sampling = Sampling(column, permutations, seed, method, steps)
    with opened(model, options) as (loaded, stages, sources):
        files = [source, *([background] if background else [])]
        check_target(target, [*files, *sources])
        if wrong := next((path for path in (*files, target) if path.suffix.lower() not in TABLES), None):
            raise TranspileError("the file must be named *.csv or *.parquet", wrong)
        programs = Programs(scores=False, training=None, explains=result, method=method)
        convert = partial(converted, loaded, sizes, options, stages=stages, gradients=programs.gradients((), loaded))
        script = programs.script(convert, loaded, sizes)
        explaining(script, result, method)  # raises before files are read
        chosen = None if columns is None else listed_names(columns, "--columns")
        with stages.stage("read"):
            rows, names = rows_of_table(script, source, chosen, has_header=not no_header)
            note_numbers_as_names(source, names, chosen, has_header=not no_header)
            numbers, names = _grouped(names, groups)
            others = None
            if background is not None:
                others, _ = rows_of_table(script, background, chosen, has_header=not no_header)
        with stages.stage("explain"):
            found = explained_rows(script, rows, result, sampling, others, numbers, partial(say, err=True))
        with replacing(target) as stream:
            writer = WRITERS[target.suffix.lower()](stream, target, {})
            while _BASE in names:
                names = [f"{name}_" if name == _BASE else name for name in names]
            writer.write({**dict(zip(names, found.contributions.T)), _BASE: found.base})
            writer.finish()
    shown = f"{shown_path(target)}: contributions of {counted(len(names), 'column')} to the answers for "
    about = "" if permutations == 1 else f", with errors of about {np.sqrt(np.mean(found.errors ** 2)):.2g}"
    say(f"{shown}{counted(len(found.base), 'row')} of {shown_path(source)}{about}", err=is_stream(target))
    say(f"largest on average: {_largest(names, found.contributions)}", err=is_stream(target))


def _grouped(names: list[str], groups: Sequence[str]) -> tuple[list[int] | None, list[str]]:
    """The group of each column, from 1 on, and the names of groups: those that are given, or of their only column."""
    called: dict[str, str] = {}
    for group in groups:
        name, equals, listed = group.partition("=")
        columns = listed_names(listed, "--group")
        if not name or not equals or columns == [""]:
            raise TranspileError(f"--group is {quoted(group)}, not NAME=COLUMN,COLUMN")
        if unknown := [each for each in columns if names.count(each) != 1]:
            raise TranspileError(f"--group: there is no column {quoted_list(unknown)}; columns: {quoted_list(names)}")
        if twice := [each for each in columns if columns.count(each) > 1 or each in called]:
            raise TranspileError(f"--group: {quoted_list([*dict.fromkeys(twice)])} is in two groups, or twice in one")
        if name in called.values() or name in {*names} - {*columns}:
            raise TranspileError(f"--group: {quoted(name)} is a name already")
        called |= dict.fromkeys(columns, name)
    if not groups:
        return None, names
    own = [called.get(name, name) for name in names]
    found = [*dict.fromkeys(own)]
    return [found.index(name) + 1 for name in own], found


def _largest(names: Sequence[str], contributions: Array) -> str:
    """The columns that contribute most, with the mean of the contributions without their signs."""
    means = abs(contributions).mean(axis=0)
    order = means.argsort(kind="stable")[::-1][:_SHOWN]
    return ", ".join(f"{quoted(names[place])} ({means[place]:.2g})" for place in order)
