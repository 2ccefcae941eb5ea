"""The rows of a file through a model by tasks of Spark: files for the program that scores, and what it wrote."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from onnx_systemds.engine.errors import EngineError
from onnx_systemds.engine.spark_submit import SparkOptions, find_spark_submit, submit_program
from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.files import part_files, replacing
from onnx_systemds.importing.block_sizes import MOST_ROWS
from onnx_systemds.importing.coded_texts import has_texts
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.score_program import file_arguments, obstacle_to_spark, program_name, score_text
from onnx_systemds.importing.score_variables import TABLE
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.boundary_tensors import Tensor, bind_sizes, boundary_matrix, restored, tensor_of
from onnx_systemds.runtime.list_transfer import UnexpectedShape
from onnx_systemds.runtime.program_inputs import java_number
from onnx_systemds.runtime.row_blocks import RowBlocks, RowSource
from onnx_systemds.tables.writing import TABLES, WRITERS

_NAME = "model"


def score_on_spark(script: Script, rows: RowSource, target: Path, wanted: int | None, options: SparkOptions) -> int:
    """Score all rows of a source into a file, and return their number. wanted: rows of a block.

    Values are read and written as for the embedded engine, so that both write the same file. Raises TranspileError,
    EngineError, OSError.
    """
    text = score_text(script, _NAME)
    reason = obstacle_to_spark(script)
    if reason:
        raise UnsupportedCase(f"it cannot be scored on Spark: {reason}", hint="--engine local scores it")
    if has_texts(script):
        raise UnsupportedCase(
            "rows go to Spark as numbers from here, and the model has texts",
            hint="convert with --score writes a program that scores texts on Spark; --engine local scores them here",
        )
    assert script.batch is not None
    rows.can_cut(script.batch)  # raises where sizes are not those that the model declares
    find_spark_submit()  # before the rows are written
    is_table = target.suffix.lower() in TABLES
    with tempfile.TemporaryDirectory(prefix="onnx-systemds-", ignore_cleanup_errors=True) as name, \
            replacing(target) as stream:
        folder = Path(name).absolute()
        script.save(folder / f"{_NAME}.dml")
        (folder / program_name(_NAME)).write_text(text, encoding="utf-8")
        read, written = file_arguments(script)
        sources = {each: folder / "in" / f"{number}.csv" for number, each in enumerate(read)}
        results = {each: folder / "out" / f"{number}.csv" for number, each in enumerate(written)}
        total, sizes = _write_rows(script, rows, sources)
        (folder / "out").mkdir()
        arguments = {each: str(path) for each, path in (*sources.items(), *results.items())} | {"place": "spark"}
        if wanted is not None:
            arguments["rows"] = str(wanted)
        scored = submit_program(folder / program_name(_NAME), arguments, options)
        if scored != total:
            raise EngineError(f"spark-submit scored {scored} rows, there are {total}")
        writer = WRITERS[target.suffix.lower()](stream, target, {port.name: 0 for port in script.outputs})
        for arrays in _results(script, list(results.values()), total, sizes, "_" if is_table else "/"):
            writer.write(arrays)
        writer.finish()
    return total


def _write_rows(script: Script, rows: RowSource, sources: Mapping[str, Path]) -> tuple[int, Mapping[str, int]]:
    """Write the inputs as the program reads them; the number of rows, and the sizes in the inputs' dims."""
    total, sizes = 0, dict[str, int]()
    for path in sources.values():
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for count, inputs in rows.blocks(RowBlocks(MOST_ROWS, "")):
        tensors = {port.name: tensor_of(port, inputs) for port in script.inputs}
        sizes = bind_sizes(script.inputs, tensors)
        matrices = [boundary_matrix(tensors[port.name]) for port in script.inputs]
        matrices = [np.hstack(matrices)] if [*sources] == [TABLE] else matrices
        for path, matrix in zip(sources.values(), matrices):
            with path.open("a", encoding="ascii") as stream:
                stream.writelines(",".join(map(java_number, row)) + "\n" for row in matrix.tolist())
        total += count
    if not total:
        raise TranspileError("there are no rows")
    return total, sizes


def _results(
    script: Script, paths: list[Path], rows: int, sizes: Mapping[str, int], joint: str
) -> Iterator[dict[str, Tensor]]:
    """The outputs, block by block; of maps NAME, ``joint``, KEY. Raises EngineError where they have other rows."""
    assert script.batch is not None
    lines = [_lines(path) for path in paths]
    for start in range(0, rows, MOST_ROWS):
        count, arrays = min(MOST_ROWS, rows - start), dict[str, Tensor]()
        for port, source in zip(script.outputs, lines):
            matrix = _matrix([*itertools.islice(source, count)], count)
            try:
                tensor = restored(port, matrix, {**sizes, script.batch.symbol: count})
            except UnexpectedShape:
                raise EngineError("spark-submit wrote rows of another number of columns") from None
            arrays |= _arrays(port, tensor, joint)
        yield arrays
    if any(next(source, None) is not None for source in lines):
        raise EngineError(f"spark-submit wrote more than {rows} rows")


def _arrays(port: Port, tensor: Tensor, joint: str) -> dict[str, Tensor]:
    """An output by its name; of maps an array for each key."""
    if port.kind != "maps":
        return {port.name: tensor}
    return {f"{port.name}{joint}{key}": column.astype(np.float32) for key, column in zip(port.keys, tensor.T)}


def _matrix(lines: list[str], rows: int) -> Tensor:
    try:
        matrix = np.array([[float(cell) for cell in line.split(",")] for line in lines], np.float64)
    except ValueError:
        raise EngineError("spark-submit wrote lines that are no rows of numbers") from None
    if len(matrix) != rows:
        raise EngineError("spark-submit wrote fewer rows than it scored")
    return matrix


def _lines(path: Path) -> Iterator[str]:
    """Of a csv file, or of the parts that the engine made of it."""
    if not path.exists():
        raise EngineError("spark-submit wrote no result")
    for part in part_files(path):
        with part.open(encoding="utf-8") as stream:
            yield from stream
