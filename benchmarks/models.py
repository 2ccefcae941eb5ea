"""Whole models against onnxruntime: ``python -m benchmarks.models [--write] [--native-blas openblas] [--only PART]``.

The shared models at a batch of 16, where their first axis is open, else at the size they were made for. The library of
the BLAS is found by LD_LIBRARY_PATH.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.report import write_section
from onnx_systemds import import_model
from onnx_systemds.engine.session import Session
from onnx_systemds.scoring import ScoringFunction
from tests.model_zoo import model_paths

HEADER = """## Whole models against onnxruntime

Written by `python -m benchmarks.models --write`: medians of calls from Python, the transfer of inputs and outputs
included, milliseconds. onnxruntime computes in float32 with 2 threads, the engine in float64 with 2.
"""
BATCH = 16
SIGNIFICANT = 2.0
"""Milliseconds from which on a ratio says something; below, the call itself is what is measured."""
Feeds = Mapping[str, Any]


def median_milliseconds(action: Callable[[], object], budget: float) -> float:
    """Median of an action, which runs for a third of the budget (seconds) before, 3 times at least."""
    times: list[float] = []
    for share in (budget / 3, budget):
        times.clear()
        end = time.perf_counter() + share
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            action()
            times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def runtime_of(path: Path) -> onnxruntime.InferenceSession:
    """onnxruntime with as many threads as the engine uses."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds_of(path: Path, runtime: onnxruntime.InferenceSession) -> tuple[Feeds, bool]:
    """The stored inputs, those with an open first axis repeated to the batch; whether onnxruntime takes them so."""
    stored = np.load(path.with_suffix(".npz"), allow_pickle=True)
    feeds = {given.name: stored[f"in_{given.name}"] for given in runtime.get_inputs()}
    larger = {}
    for given in runtime.get_inputs():
        array = feeds[given.name]
        is_open = bool(given.shape) and not (isinstance(given.shape[0], int) and given.shape[0] >= 0)
        larger[given.name] = array[np.arange(BATCH) % len(array)] if is_open and len(array) else array
    try:
        runtime.run(None, larger)
        return larger, any(larger[name] is not feeds[name] for name in feeds)
    except Exception:  # what the first axis is, nobody knows: steps, boxes ...
        return feeds, False


def measured(path: Path, sessions: list[Session], budget: float) -> tuple[bool, float, list[float]]:
    """Whether the batch is 16, and the milliseconds of onnxruntime and of each session."""
    runtime = runtime_of(path)
    feeds, batched = feeds_of(path, runtime)
    theirs = median_milliseconds(lambda: runtime.run(None, dict(feeds)), budget / 4)
    script = import_model(path)
    ours = []
    for session in sessions:
        with ScoringFunction(script, session) as function:
            ours.append(median_milliseconds(lambda function=function: function(feeds), budget))  # type: ignore[misc]
    return batched, theirs, ours


def main() -> None:
    """Print a line for each model, and store the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the table in docs/benchmarks.md")
    parser.add_argument("--native-blas", choices=("openblas", "mkl"), help="measure with this library as well")
    parser.add_argument("--only", default="", help="part of the name")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each model and session")
    arguments = parser.parse_args()
    sessions = [Session(max_heap="6g")]
    columns = ["model", "batch", "onnxruntime ms", "ours ms", "ratio"]
    if arguments.native_blas:
        sessions.append(Session(max_heap="6g", native_blas=arguments.native_blas))
        columns += [f"with {arguments.native_blas} ms", "ratio"]
    lines = [HEADER, f"| {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) - 1)}"]
    worst = [0.0] * len(sessions)
    for path in model_paths("real", "generated"):
        if arguments.only not in path.stem:
            continue
        try:
            batched, theirs, ours = measured(path, sessions, arguments.seconds)
        except Exception as error:
            print(f"{path.stem}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
            continue
        cells = [path.stem, str(BATCH) if batched else "", f"{theirs:.2f}"]
        for position, milliseconds in enumerate(ours):
            cells += [f"{milliseconds:.1f}", f"{milliseconds / theirs:.1f}"]
            if theirs >= SIGNIFICANT:
                worst[position] = max(worst[position], milliseconds / theirs)
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    shown = ", ".join(f"{ratio:.1f}" for ratio in worst)
    lines.append(f"\nThe largest ratio of a model that takes onnxruntime {SIGNIFICANT:g} ms or more: {shown}.")
    print(lines[-1])
    if arguments.write:
        write_section("models", "\n".join(lines))
    for session in sessions:
        session.close()


if __name__ == "__main__":
    main()
