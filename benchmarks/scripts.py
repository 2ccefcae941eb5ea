"""Generated scripts as people run them, against onnxruntime: ``python -m benchmarks.scripts [--write] [--only PART]``.

Each shared model, and a BERT of usual size, is converted, saved and sourced by a program of the plain command line that
reads its inputs from files of the engine's binary format. The library of a native BLAS is found by LD_LIBRARY_PATH.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto

from benchmarks.large_models import bert_base, bert_feeds
from benchmarks.models import open_session, reported, runtime_of, stored_feeds
from benchmarks.open_batches import with_open_batch
from benchmarks.programs import Times, require_native_blas, timed
from benchmarks.report import section, write_section
from onnx_systemds import import_model
from onnx_systemds.engine.launcher import memory_options
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.boundary_tensors import bind_sizes, tensor_of
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.model_zoo import model_paths
from tests.plain_engine import PlainCall, sourced

HEADER = """## Scripts against onnxruntime

Written by `python -m benchmarks.scripts --write`: shared models, and a BERT base of 110 million random weights, each as
a script that a program sources, run by plain SystemDS (`-exec singlenode`, Java's default stack) on inputs read from
files. Median milliseconds of a call, after a warm-up; *open* is the script for any size, *sizes known* the one
converted for these (`--dim`), *first* the first call of that, *program* all that the process does besides calling
(start, compilation, reading weights), in seconds. onnxruntime computes in float32 with 2 threads, the engine in float64
with 2; they take turns. Rows are those of the first axis, where it is open; a model of one sample is measured with that
axis opened where each sample still gives the same. *products* (`--products`) is the engine's floor: the part of a call,
sizes known and with the native BLAS if one is measured, that its statistics give to products of matrices and
convolutions, all calls of a program taken together, warm-up too. `--session` compares the script for known sizes with
`ScoringFunction`, both without a native BLAS: *as warm* is the script called as long before its calls count, in a JVM
with the options that a session gives it ([what they gain](speed.md#the-jvms-memory)); *whole* is the fastest of the
forms for all rows, *chosen* what is left where rows are divided among the processors, too, if that is faster.
"""
SELECTION: Mapping[str, Sequence[int]] = {
    "bert_tiny.ts": (1, 256), "gpt2_tiny.dynamo": (256,), "sample-apps__transformer": (256,),
    "lstm_gru_tagger.ts": (256,), "byte_sb_bidi_lstm": (1,), "gonnx__mlp": (256,), "mlp_tabular.ts": (100_000,),
    "resnet_tiny.ts": (1, 256), "lightrand_squeezenet": (1,), "ch_ppocr_mobile_v2.0_cls": (16,),
    "version-RFB-320": (1,), "magika__model": (1,), "skl_digits_pca_lr": (100_000,), "lgb_dia": (100_000,),
    "skl_bc_rf": (100_000,), "xgb_wine": (100_000,), "bert_base, 32": (2,),
}
"""Parts of the names of the models that are measured unless `--only` names others, with their numbers of rows."""
ROWS = (1, 16, 256, 4096)
TURNS = 2
LONGEST = 3.0
"""Seconds of a call of onnxruntime from which on no more rows are tried."""
CHOOSING = 120
"""Calls after which `ScoringFunction` has chosen."""
TOKENS = (32, 128)
Feeds = Mapping[str, Any]
Case = tuple[Path | ModelProto, Feeds, bool]


@dataclass(frozen=True)
class Row:
    """What was measured of a model at a number of rows. onnxruntime: milliseconds; None: not measured."""

    onnxruntime: float
    opened: Times
    known: Times
    native: Times | None
    session: Alike | None
    counted: Times | None
    """As `known`, or as `native` where that is measured, with what the engine counts."""


@dataclass(frozen=True)
class Alike:
    """Milliseconds of a script, and of `ScoringFunction` with all samples at once and with what it chooses itself."""

    script: float
    whole: float
    chosen: float


def variants(path: Path) -> Case:
    """The model of a file, or with its batch of one opened, the inputs stored, and whether its first axis is open."""
    runtime = runtime_of(path)
    feeds = stored_feeds(path, runtime)
    if any(_is_open(given.shape) for given in runtime.get_inputs()):
        return path, feeds, True
    opened = with_open_batch(path, feeds)
    return (path, feeds, False) if opened is None else (opened, feeds, True)


def cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    """The models by name, and what makes them."""
    for path in model_paths("real", "generated"):
        yield path.stem, partial(variants, path)
    for tokens in TOKENS:
        yield f"bert_base, {tokens} tokens", partial(_bert, tokens)


def _bert(tokens: int) -> Case:
    return bert_base(), bert_feeds(tokens), True


def _is_open(shape: Sequence[Any]) -> bool:
    return bool(shape) and not (isinstance(shape[0], int) and shape[0] >= 0)


def feeds_of(feeds: Feeds, rows: int, runtime: onnxruntime.InferenceSession) -> Feeds | None:
    """The inputs with open first axes repeated or cut to that many rows; None where onnxruntime does not take them."""
    axes = {given.name: _is_open(given.shape) for given in runtime.get_inputs()}
    sized = {name: data[np.arange(rows) % len(data)] if axes[name] else data for name, data in feeds.items()}
    try:
        runtime.run(None, sized)
    except Exception:  # what the first axis is, nobody knows: steps, boxes ...
        return None
    return sized


def median_milliseconds(action: Callable[[], object], seconds: float) -> float:
    """The median of calls for that long, three at least, after as many that do not count."""
    taken: list[float] = []
    for duration in (seconds / 2, seconds):
        taken = []
        end = time.perf_counter() + duration
        while len(taken) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            action()
            taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken)


def settle(action: Callable[[], object], seconds: float) -> float:
    """Call a `ScoringFunction` ten times that long, and until it has chosen among its forms; how long that took."""
    start, calls = time.perf_counter(), 0
    while calls < CHOOSING or time.perf_counter() - start < 10 * seconds:
        action()
        calls += 1
    return time.perf_counter() - start


def measured_alike(opened: Script, known: Script, feeds: Feeds, seconds: float) -> Alike:
    """A script for known sizes, and what `ScoringFunction` makes of the open one, after warm-ups of the same length."""
    found, warm_up = [], 0.0
    for parts in (1, None):
        with open_session("none") as engine, ScoringFunction(opened, engine, parts=parts) as function:
            warm_up = settle(partial(function, feeds), seconds) + seconds / 2
            found.append(median_milliseconds(partial(function, feeds), seconds))
    times = program_times(known, feeds, seconds, "none", warm_up=warm_up, java_options=memory_options())
    return Alike(times.call, *found)


def program_times(
    script: Script, feeds: Feeds, seconds: float, native_blas: str, *, counted: bool = False,
    warm_up: float | None = None, java_options: Sequence[str] = (),
) -> Times:
    """The times of a script that a program of the plain command line sources; warm_up: None for twice the seconds."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        call = PlainCall(script, feeds, folder, "", "model")
        program = [*sourced(script, folder, "model"), *call.readings()]
        return timed(program, call.call(), call.writings(), folder,
                     warm_up=2 * seconds if warm_up is None else warm_up, seconds=seconds, heap="6g",
                     native_blas=native_blas, script=script.text if counted else None, java_options=java_options)


def measured(
    model: Path | ModelProto, feeds: Feeds, runtime: onnxruntime.InferenceSession, seconds: float,
    *, native_blas: str | None, session: bool, products: bool,
) -> Row:
    """All times of a model with these inputs; onnxruntime before and after each program, turn by turn."""
    opened = import_model(model)
    tensors = {port.name: tensor_of(port, feeds) for port in opened.inputs if not port.is_list}
    known = import_model(model, dims=bind_sizes(opened.inputs, tensors))
    run = partial(runtime.run, None, dict(feeds))
    theirs, times = [median_milliseconds(run, seconds / 2)], []
    for _ in range(TURNS):
        turn = []
        for script, library in ((opened, "none"), (known, "none"), (known, native_blas)):
            turn.append(None if library is None else program_times(script, feeds, seconds, library))
            theirs.append(median_milliseconds(run, seconds / 2))
        times.append(turn)
    in_session = measured_alike(opened, known, feeds, seconds) if session else None
    counted = program_times(known, feeds, seconds, native_blas or "none", counted=True) if products else None
    best = [min((found for turn in times if (found := turn[i])), key=lambda t: t.call, default=None) for i in range(3)]
    assert best[0] is not None and best[1] is not None
    return Row(statistics.median(theirs), best[0], best[1], best[2], in_session, counted)


def line(name: str, rows: int | None, row: Row) -> str:
    """The line of the table."""
    cells = [name, "" if rows is None else f"{rows:,}", f"{row.onnxruntime:.2f}"]
    for times in (row.opened, row.known, row.native):
        if times is not None:
            cells += [f"{times.call:.1f}", f"{times.call / row.onnxruntime:.1f}"]
    cells += [f"{row.known.first:.0f}", f"{row.known.others:.1f}"]
    if row.session is not None:
        cells += [f"{row.session.script:.1f}"]
        for milliseconds in (row.session.whole, row.session.chosen):
            cells += [f"{milliseconds:.1f}", f"{row.session.script / milliseconds:.2f}"]
    if row.counted is not None and row.counted.counted is not None:
        found = row.counted.counted
        floor = row.counted.call * found.share(found.statistics.products)
        cells += [f"{floor:.2f}", f"{row.counted.call / floor:.1f}" if floor else "-"]
    return f"| {' | '.join(cells)} |"


def measured_again(stored: str, lines: Sequence[str]) -> str:
    """The stored table with other lines for the models and numbers of rows that they are of. Raises SystemExit."""
    if lines[1] not in stored.splitlines():
        raise SystemExit("the stored table has other columns: measure all models")
    again = {_measured(line): line for line in lines}
    return "\n".join(again.get(_measured(line), line) for line in stored.splitlines())


def _measured(line: str) -> tuple[str, ...]:
    """The model and its rows, of a line of the table."""
    return tuple(line.split("|")[1:3]) or (line,)


def main() -> None:
    """Print a line for each model and number of rows, and store the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true",
                        help="store the table in docs/benchmarks.md, or with --only these lines of it")
    parser.add_argument("--native-blas", choices=("openblas", "mkl"), help="measure with this library as well")
    parser.add_argument("--session", action="store_true", help="measure ScoringFunction as well")
    parser.add_argument("--products", action="store_true", help="measure the time of products as well")
    parser.add_argument("--only", nargs="+", help="parts of names; an empty one for all models")
    parser.add_argument("--rows", type=int, nargs="+", help=f"numbers of rows, with --only {ROWS}")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each measurement")
    arguments = parser.parse_args()
    columns = ["model", "rows", "onnxruntime ms", "open ms", "ratio", "sizes known ms", "ratio"]
    columns += [f"with {arguments.native_blas} ms", "ratio"] if arguments.native_blas else []
    columns += ["first ms", "program s"]
    columns += ["as warm ms", "whole ms", "script / that", "chosen ms", "script / that"] if arguments.session else []
    columns += ["products ms", "call / products"] if arguments.products else []
    lines = [HEADER, f"| {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) - 1)}"]
    chosen = SELECTION if arguments.only is None else dict.fromkeys(arguments.only, ROWS)
    if arguments.native_blas:
        require_native_blas(arguments.native_blas)
    for name, case in cases():
        sizes = next((arguments.rows or sizes for part, sizes in chosen.items() if part in name), None)
        if sizes is None:
            continue
        with reported(name):
            model, stored, is_open = case()
            runtime = runtime_of(model)
            for rows in sizes if is_open else (None,):
                feeds = stored if rows is None else feeds_of(stored, rows, runtime)
                if feeds is None:
                    feeds, rows = stored, None  # one size only
                with reported(f"{name}, {rows} rows"):
                    row = measured(model, feeds, runtime, arguments.seconds,
                                   native_blas=arguments.native_blas, session=arguments.session,
                                   products=arguments.products)
                    lines.append(line(name, rows, row))
                    print(lines[-1], flush=True)
                    if rows is None or row.onnxruntime > 1e3 * LONGEST:
                        break
    if arguments.write:
        table = "\n".join(lines)
        write_section("scripts", table if arguments.only is None else measured_again(section("scripts"), lines))


if __name__ == "__main__":
    main()
