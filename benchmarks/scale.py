"""The program of `--score` and `onnx-systemds score`: ``python -m benchmarks.scale memory|speed|jobs|sites|files``.

Programs run as people run them, by java or spark-submit, on many rows in the binary format or in csv, which take up
to 2 GB of the temporary folder. Results are compared with onnxruntime's. `--places`, `--models` and `--rows` choose.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from benchmarks.processes import Ended, watched
from benchmarks.scale_models import MODELS, Array, expected, rows_of
from benchmarks.traffic import counted_sites
from onnx_systemds import import_model
from onnx_systemds.engine.launcher import find_class_path, find_java
from onnx_systemds.engine.matrix_files import read_matrix, write_matrix
from onnx_systemds.engine.spark_submit import SparkOptions, build_submission, find_spark_submit
from onnx_systemds.importing.score_program import file_arguments, program_name, score_text

ROWS = {"mlp": 2_000_000, "lightgbm": 2_000_000, "xgboost": 2_000_000, "cnn": 60_000}
MASTERS = {"spark": "local[2]", "cluster": "local-cluster[2,1,2048]"}
PLACES = ("local", *MASTERS)
HEAP = "2g"
SITES = 2
_PROGRAM = program_name("model")
_SCORED = re.compile(r"^scored (\d+) rows in ([\d.E]+) s$", re.MULTILINE)
_SPEED = re.compile(r"([\d,]+) rows/s")


@dataclass(frozen=True)
class Case:
    """A model, converted in a folder with its program, and rows for it: in a file that is mapped, and as ``X``."""

    model: onnx.ModelProto
    folder: Path
    rows: Array
    reads: str
    writes: str


@dataclass(frozen=True)
class Scored:
    """What a program has done. seconds: that it says it took, None where it failed. difference: the largest one of
    results from onnxruntime's, in relation to these where they are larger than 1."""

    ended: Ended
    seconds: float | None
    jobs: int
    difference: float


@contextmanager
def prepared(name: str, rows: int, folder: Path) -> Iterator[Case]:
    """A model with its program and rows, in a folder of its own in ``folder``, which goes at the end."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder) as inner:
        here, model = Path(inner), _model(name)
        script = import_model(model)
        script.save(here / "model.dml")
        (here / _PROGRAM).write_text(score_text(script, "model"), encoding="utf-8")
        array = rows_of(model, rows, here / "rows.npy")
        (reads,), (writes,) = file_arguments(script)
        yield Case(model, here, array, reads, writes)


@cache
def _model(name: str) -> onnx.ModelProto:
    return MODELS[name]()


def scored(case: Case, place: str, heap: str = HEAP, given: Mapping[str, str] | None = None) -> Scored:
    """Score the rows of a case by its program in one of `PLACES`, driver and executors each with that heap."""
    source, target, events = case.folder / "X", case.folder / "Y", case.folder / "events"
    if not source.exists():
        write_matrix(source, case.rows)
    events.mkdir(exist_ok=True)
    arguments = {"format": "binary", "to": "binary", case.reads: str(source), case.writes: str(target), **(given or {})}
    ended = watched(*_command(case, place, heap, arguments, events))
    found = _SCORED.search(ended.output)
    if found is None or ended.code or int(found[1]) != len(case.rows):
        (case.folder / f"failed-{place}.txt").write_text(ended.output)
        print(ended.output[-3000:], file=sys.stderr)
        return Scored(ended, None, 0, float("nan"))
    jobs = sum(count_jobs(path) for path in events.iterdir())
    for path in events.iterdir():
        path.unlink()
    return Scored(ended, float(found[2]), jobs, difference(read_matrix(target), expected(case.model, case.rows)))


def _command(
    case: Case, place: str, heap: str, arguments: Mapping[str, str], events: Path
) -> tuple[list[str], Path, Mapping[str, str]]:
    """The command that runs the program, its folder, and its environment."""
    if place == "local":
        words = [f"{name}={value}" for name, value in arguments.items()]
        command = [*_java(heap), "-f", _PROGRAM, "-exec", "singlenode", "-nvargs", *words]
        return command, case.folder, {}
    (case.folder / "systemds.xml").write_text(f"<root><sysds.scratch>{case.folder / 'scratch'}</sysds.scratch></root>")
    submit = find_spark_submit()
    jar = next(part for part in find_class_path() if part.endswith("SystemDS.jar"))
    settings = {"spark.driver.memory": heap, "spark.executor.memory": heap, "spark.ui.enabled": "false",
                "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{events}"}
    options = SparkOptions(MASTERS[place], settings)
    command = build_submission(submit, jar, case.folder / _PROGRAM, {**arguments, "place": "spark"}, options)
    return command, case.folder, {"SPARK_HOME": str(submit.parent.parent)}


def _java(heap: str) -> list[str]:
    return [find_java(), "--add-modules=jdk.incubator.vector", f"-Xmx{heap}", "-cp", ":".join(find_class_path()),
            "org.apache.sysds.api.DMLScript"]


def count_jobs(log: Path) -> int:
    """How many jobs Spark has started, by the log of its events."""
    with log.open(encoding="utf-8") as lines:
        return sum(json.loads(line).get("Event") == "SparkListenerJobStart" for line in lines)


def difference(found: Array, wanted: Array) -> float:
    """The largest one, in relation to what is wanted where that is larger than 1; NaN where sizes differ."""
    if found.shape != wanted.shape:
        return float("nan")
    return float((np.abs(found - wanted) / np.maximum(1, np.abs(wanted))).max())


def line(*cells: object) -> None:
    """Print a line of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _cells(result: Scored) -> tuple[str, ...]:
    ended = result.ended
    seconds = "failed" if result.seconds is None else f"{result.seconds:.1f}"
    sizes = _gigabytes(ended.largest), _gigabytes(ended.peak)
    return seconds, f"{ended.seconds:.1f}", f"{ended.processor:.1f}", *sizes, f"{result.difference:.1e}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f}"


def memory(arguments: argparse.Namespace, folder: Path) -> None:
    """Programs in every place with a heap of 2 GB."""
    line("model", "rows", "place", "scored s", "program s", "processor s", "largest process GB", "all GB", "difference")
    for name in arguments.models:
        with prepared(name, arguments.rows or ROWS[name], folder) as case:
            for place in arguments.places:
                line(name, f"{len(case.rows):,}", place, *_cells(scored(case, place)))


def speed(arguments: argparse.Namespace, folder: Path) -> None:
    """Spark with two threads against one process with two, by turns."""
    line("model", "rows", "local s", "spark s", "ratio", "ratio of programs", "ratio of processor time")
    for name in arguments.models:
        with prepared(name, arguments.rows or ROWS[name], folder) as case:
            places = [*("local", "spark")] * arguments.turns
            done = [scored(case, place, arguments.heap) for place in places]
            ours, sparks = done[::2], done[1::2]
            local = min(each.seconds or np.nan for each in ours)
            spark = min(each.seconds or np.nan for each in sparks)
            least = [[min(getattr(each.ended, kind) for each in turns) for turns in (ours, sparks)]
                     for kind in ("seconds", "processor")]
            cells = (f"{ratio:.2f}" for ratio in (spark / local, *(theirs / mine for mine, theirs in least)))
            line(name, f"{len(case.rows):,}", f"{local:.1f}", f"{spark:.1f}", *cells)


def jobs(arguments: argparse.Namespace, folder: Path) -> None:
    """How many jobs Spark has for a number of rows, and for ten times as many."""
    line("model", "rows", "jobs")
    for name in arguments.models:
        most = arguments.rows or ROWS[name] // 10
        for rows in (most // 10, most):
            with prepared(name, rows, folder) as case:
                line(name, f"{rows:,}", scored(case, "spark").jobs)


def sites(arguments: argparse.Namespace, folder: Path) -> None:
    """Bytes that go to federated sites and leave them."""
    line("model", "rows", "bytes of rows", "bytes of results", "to the sites", "from the sites", "a row", "difference")
    for name in arguments.models:
        with prepared(name, arguments.rows or ROWS[name] // 10, folder) as case, \
                counted_sites(case.folder, _java(HEAP), SITES) as workers:
            text = (case.folder / _PROGRAM).read_text()
            parts = np.array_split(case.rows, SITES)
            addresses, ranges, start = [], [], 0
            for worker, part in zip(workers, parts):
                path = case.folder / f"part{worker.port}"
                write_matrix(path, part)
                addresses.append(f'"localhost:{worker.port}/{path}"')
                ranges += [f"list({start}, 0)", f"list({start + len(part)}, {part.shape[1]})"]
                start += len(part)
            here = f"federated(addresses=list({', '.join(addresses)}), ranges=list({', '.join(ranges)}))"
            (case.folder / _PROGRAM).write_text(re.sub(r"= read\(.*", f"= {here}", text))
            result = scored(case, "local", given={"format": "federated"})
            results = 8 * expected(case.model, case.rows[:1]).size * len(case.rows)
            sent, received = (sum(getattr(worker, kind) for worker in workers) for kind in ("received", "sent"))
            line(name, f"{len(case.rows):,}", f"{8 * case.rows.size:,}", f"{results:,}", f"{sent:,}", f"{received:,}",
                 f"{received / len(case.rows):.1f}", f"{result.difference:.1e}")


def files(arguments: argparse.Namespace, folder: Path) -> None:
    """`onnx-systemds score` on csv files, against the program on the same ones."""
    line("model", "rows", "csv GB", "score peak GB", "score rows/s", "program rows/s", "ratio", "difference")
    for name in arguments.models:
        for rows in (1_000_000, 2_000_000) if arguments.rows is None else (arguments.rows,):
            with prepared(name, rows, folder) as case:
                source, target = case.folder / "rows.csv", case.folder / "scores.csv"
                _write_csv(case.rows, source)
                model = case.folder / "model.onnx"
                onnx.save(case.model, model)
                command = [sys.executable, "-m", "onnx_systemds", "score", str(model)]
                command += ["--input", str(source), "--output", str(target)]
                ended = watched(command, case.folder)
                fast = _SPEED.search(ended.output)
                if fast is None or ended.code:
                    print(ended.output[-3000:], file=sys.stderr)
                    continue
                ours = float(fast[1].replace(",", ""))
                found = np.loadtxt(target, delimiter=",", skiprows=1, ndmin=2)
                theirs = _program_speed(case, source, arguments.heap)
                sizes = _gigabytes(source.stat().st_size), _gigabytes(ended.peak)
                line(name, f"{rows:,}", *sizes, f"{ours:,.0f}", f"{theirs:,.0f}", f"{theirs / ours:.2f}",
                     f"{difference(found, expected(case.model, case.rows)):.1e}")


def _program_speed(case: Case, source: Path, heap: str) -> float:
    """Rows per second of the program on a csv file."""
    words = ["header=TRUE", f"{case.reads}={source}", f"{case.writes}={case.folder / 'program.csv'}"]
    command = [*_java(heap), "-f", _PROGRAM, "-exec", "singlenode", "-nvargs", *words]
    ended = watched(command, case.folder)
    found = _SCORED.search(ended.output)
    if found is None:
        print(ended.output[-3000:], file=sys.stderr)
        return float("nan")
    return int(found[1]) / float(found[2])


def _write_csv(rows: Array, path: Path) -> None:
    import pyarrow
    import pyarrow.csv

    names = [f"X_{column}" for column in range(rows.shape[1])]
    with path.open("wb") as stream:
        for start in range(0, len(rows), 100_000):
            table = pyarrow.table([*np.ascontiguousarray(rows[start : start + 100_000].T)], names=names)
            pyarrow.csv.write_csv(table, stream, pyarrow.csv.WriteOptions(include_header=start == 0))


PARTS: Mapping[str, Callable[[argparse.Namespace, Path], None]] = {
    "memory": memory, "speed": speed, "jobs": jobs, "sites": sites, "files": files,
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES)
    parser.add_argument("--rows", type=int, help="of each model, else enough for what is measured")
    parser.add_argument("--heap", default=HEAP, help="where it is not the heap that is measured")
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        PARTS[arguments.part](arguments, Path(folder))


if __name__ == "__main__":
    main()
