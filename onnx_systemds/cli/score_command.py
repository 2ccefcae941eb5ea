"""``onnx-systemds score``: the rows of a file through a model, into another file."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from onnx_systemds.array_files import named_arrays, read_array_file
from onnx_systemds.cli.converting import converted, on_terminal, opened
from onnx_systemds.cli.explaining import say
from onnx_systemds.cli.once import OnceCommand
from onnx_systemds.cli.options import FILE, ConversionOptions, conversion_options, listed_names, note_numbers_as_names
from onnx_systemds.engine.errors import EngineError
from onnx_systemds.engine.spark_submit import SparkOptions
from onnx_systemds.errors import TranspileError, counted, quoted
from onnx_systemds.files import check_target, is_stream, replacing
from onnx_systemds.importing.script import Script
from onnx_systemds.model.ir import Model, Type
from onnx_systemds.tables.opening import open_table
from onnx_systemds.tables.writing import TABLES, WRITERS

if TYPE_CHECKING:
    from onnx_systemds.engine import Session
    from onnx_systemds.runtime.row_blocks import RowSource

Types = Mapping[str, Type]

LOCAL, SPARK = "local", "spark"


@click.command(cls=OnceCommand, short_help="Score the rows of a file with MODEL.onnx.")
@click.argument("model", type=FILE)
@click.option("--input", "source", type=FILE, required=True, help="The rows: .csv, .parquet, .npy or .npz.")
@click.option("--output", "target", type=FILE, required=True, help="The file to write: .csv, .parquet, .npy or .npz.")
@click.option("--columns", metavar="NAME,NAME,...",
              help="The columns of the inputs, in their order [default: by the inputs' names; all for one input].")
@click.option("--no-header", is_flag=True,
              help="The .csv has no header; its columns are named 1, 2, 3 ...")
@click.option("--chunk-rows", type=click.IntRange(min=1, max=2**31 - 1), metavar="N",
              help="Number of rows in a block [default: by the sizes of the model].")
@click.option("--engine", type=click.Choice((LOCAL, SPARK)), default=LOCAL, show_default=True,
              help="Where to score: local is the embedded engine, spark calls spark-submit.")
@click.option("--master", metavar="URL", help="The master of Spark [default: local[*]].")
@click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; repeatable.")
@conversion_options
def score(  # noqa: PLR0913 - an argument for each option
    model: Path, source: Path, target: Path, columns: str | None, no_header: bool, chunk_rows: int | None, engine: str,
    master: str | None, settings: tuple[str, ...], options: ConversionOptions,
) -> None:
    """Score the rows of a file with MODEL.onnx, block by block, in bounded memory.

    The names of the inputs select the columns of a table. An input with several columns takes NAME_0, NAME_1 ...; a
    single input takes all columns if there are none with such names, or if they are counted from 1. A missing value is
    NaN, or an empty string. The columns of the results are named after the outputs: NAME_0, NAME_1 ... for several,
    NAME_KEY for maps. Arrays of .npz files are named as for run.
    """
    sizes = options.sizes()
    with opened(model, options) as (loaded, stages, sources):
        check_target(target, [source, *sources])
        if target.suffix.lower() not in WRITERS:
            raise TranspileError(f"the file must be named {', '.join(f'*{suffix}' for suffix in WRITERS)}", target)
        spark = _spark_options(engine, master, settings)
        chosen = None if columns is None else listed_names(columns, "--columns")
        convert = partial(converted, loaded, sizes, options, stages=stages)
        script, rows = _opened(loaded, source, chosen, not no_header, sizes, convert)
        with closing(rows), stages.stage("score") as words:
            if spark is None:
                count, seconds = _score(script, rows, target, chunk_rows)
            else:
                from onnx_systemds.runtime.spark_scoring import score_on_spark

                start = time.perf_counter()
                count = score_on_spark(script, rows, target, chunk_rows, spark)
                seconds = time.perf_counter() - start
            words.append(f"{count} rows")
    say(f"{target}: {counted(count, 'row')}, {count / seconds:,.0f} rows/s", err=is_stream(target))


def _spark_options(engine: str, master: str | None, settings: Sequence[str]) -> SparkOptions | None:
    """The options of Spark; None for the embedded engine. Raises TranspileError."""
    if engine == LOCAL:
        if master is not None or settings:
            raise TranspileError("--master and --conf are for --engine spark")
        return None
    found: dict[str, str] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not name.startswith("spark.") or not equals or not text.isprintable():
            raise TranspileError(f"--conf is {quoted(text)}, not a setting such as spark.executor.memory=4g")
        if found.setdefault(name, value) != value:
            raise TranspileError(f"--conf gives {quoted(name)} two values")
    if master is None:
        return SparkOptions(settings=found)
    if not master.strip() or master.startswith("-") or not master.isprintable():
        raise TranspileError(f"--master is {quoted(master)}, not a URL such as local[4] or spark://host:7077")
    return SparkOptions(master, found)


def _opened(
    loaded: Model, path: Path, chosen: Sequence[str] | None, has_header: bool, sizes: Mapping[str, int],
    convert: Callable[[Types], Script],
) -> tuple[Script, RowSource]:
    """The script of a model for the rows of a file, and these. Raises TranspileError, OSError."""
    from onnx_systemds.runtime.row_blocks import common_rows, script_for_rows
    from onnx_systemds.runtime.row_sources import ArrayRows, TableRows
    from onnx_systemds.runtime.table_inputs import table_inputs

    suffix, types = path.suffix.lower(), common_rows(loaded, sizes, is_table=True)
    if suffix in TABLES:
        table = open_table(path, has_header=has_header)
        try:
            script = convert(types)
            inputs = table_inputs(script, table, chosen, has_header=has_header)
            note_numbers_as_names(path, [column.name for column in inputs.columns], chosen, has_header=has_header)
            return script, TableRows(table, inputs)
        except BaseException:
            table.close()
            raise
    if suffix not in (".npy", ".npz"):
        raise TranspileError("the file must be named *.csv, *.parquet, *.npy or *.npz", path)
    if chosen is not None or not has_header:
        raise TranspileError("it holds arrays: --columns and --no-header are for tables", path)
    arrays = named_arrays(read_array_file(path, mapped=True), [given.name for given in loaded.graph.inputs], path)
    counts = {arrays[name].shape[:1] for name in types if name in arrays}
    script = script_for_rows(convert, types if len(counts) == 1 else {})
    return script, ArrayRows(script, arrays, path)


def _score(script: Script, rows: RowSource, target: Path, wanted: int | None) -> tuple[int, float]:
    """Write the results of all rows; their number, and the seconds that it took. Raises TranspileError and others."""
    from onnx_systemds.runtime.list_transfer import flat_results
    from onnx_systemds.runtime.row_blocks import row_blocks, scored_blocks
    from onnx_systemds.runtime.scoring import ScoringFunction

    cut = row_blocks(script, rows, wanted)
    if cut.rows is None:
        mixing = "" if script.batching is None else script.batching.mixing
        node = f": {mixing}" if mixing else ""
        if wanted is not None:
            raise TranspileError(f"--chunk-rows would cut rows that may depend on each other{node}")
        say(f"all rows are scored at once, they may depend on each other{node}", err=True)
    is_table = target.suffix.lower() in TABLES
    axes: dict[str, int | None] = {}
    if script.batch is not None and cut.rows is not None and not cut.is_fixed:
        axes = dict(zip((port.name for port in script.outputs), script.batch.outputs))
    if is_table:
        _check_outputs(script, axes, target)
    total = 0
    with _engine(cut.heap) as session, ScoringFunction(script, session) as function, replacing(target) as stream:
        writer = WRITERS[target.suffix.lower()](stream, target, axes)
        start = time.perf_counter()
        with _progress(rows) as show:
            for count, results in scored_blocks(function, rows.blocks(cut)):
                writer.write(_columns(results, count, target) if is_table else flat_results(results))
                total += count
                show(total / (time.perf_counter() - start))
        if not total:
            raise TranspileError("there are no rows")
        writer.finish()
    return total, time.perf_counter() - start


@contextmanager
def _engine(heap: str) -> Iterator[Session]:
    """A session with this heap. Raises EngineError."""
    from onnx_systemds.engine import Session

    with Session(max_heap=heap) as session:
        try:
            yield session
        except EngineError as error:
            if "OutOfMemoryError" not in str(error):
                raise
            raise TranspileError(f"the engine runs out of its {heap}", None, "try a smaller --chunk-rows") from None


def _check_outputs(script: Script, axes: Mapping[str, int | None], path: Path) -> None:
    """Raise TranspileError for outputs that are no columns with an element for each row."""
    for port in script.outputs:
        if port.is_list or not port.dims or axes.get(port.name, 0) != 0:
            raise TranspileError(f"output {quoted(port.name)} has no element for each row", path, "write an .npz file")


def _columns(results: Mapping[str, Any], rows: int, path: Path) -> dict[str, Any]:
    """The results as arrays with an element for each row, of maps one for each key. Raises TranspileError."""
    columns: dict[str, Any] = {}
    for name, result in results.items():
        if isinstance(result, np.ndarray):
            columns[name] = result
        else:
            columns |= {f"{name}_{key}": np.array([item[key] for item in result], np.float32) for key in result[0]}
    for name, column in columns.items():
        if column.shape[0] != rows:
            shown = f"output {quoted(name)} is {list(column.shape)} for {rows} rows"
            raise TranspileError(shown, path, "write an .npz file")
    if not any(math.prod(column.shape[1:]) for column in columns.values()):
        raise TranspileError("the results have no columns", path, "write an .npz file")
    return columns


def _shown(rate: object) -> str:
    return "" if rate is None else str(rate)


@contextmanager
def _progress(rows: RowSource) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, only on a terminal; gives a function that takes the rows per second."""
    if not rows.size or not on_terminal():
        yield lambda rate: None
        return
    with click.progressbar(length=rows.size, label="scoring", file=sys.stderr, item_show_func=_shown) as bar:
        yield lambda rate: bar.update(rows.done - bar.pos, f"{rate:,.0f} rows/s")
