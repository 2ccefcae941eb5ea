"""Whole models against onnxruntime: ``python -m benchmarks.models [--write] [--native-blas openblas] [--only PART]``.

The shared models at a batch of 16, where their first axis is open, else at the size they were made for; those made for
one sample with that axis opened as well, where they then give the same for each. The library of the BLAS is found by
LD_LIBRARY_PATH.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto

from benchmarks.open_batches import with_open_batch
from benchmarks.report import write_section
from onnx_systemds import import_model
from onnx_systemds.engine.session import Session
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.model_zoo import model_paths

HEADER = """## Whole models against onnxruntime

Written by `python -m benchmarks.models --write`: medians of calls from Python that take turns, after 45 calls of
warm-up, the transfer of inputs and outputs included, milliseconds. Models that take onnxruntime 2 ms have a JVM of
their own, and 25 seconds to warm up. onnxruntime computes in float32 with 2 threads, the engine in float64 with 2.
Sizes are known after some calls, so that `ScoringFunction` computes constants once, has products for depthwise
convolutions, keeps the fastest of several forms, and, if calls are long, divides samples that do not depend on each
other among the processors.
A model whose file fixes a batch of one is measured so, and with that batch open where each sample still gives the same.
"""
BATCH = 16
TURNS = 5
# The JVM compiles what is called often (a small network has settled after some 300 calls), and a script is compiled
# again for known sizes.
WARM_UP_CALLS = 45
WARM_UP_SECONDS = 25.0  # where there is something to compare
SIGNIFICANT = 2.0
"""Milliseconds from which on a ratio says something; below, the call itself is what is measured."""
Feeds = Mapping[str, Any]


def medians_by_turns(actions: Sequence[Callable[[], object]], budget: float, settling: float) -> list[float]:
    """Median milliseconds of each action; in a turn, each runs for a part of the budget (seconds), twice at least.

    settling: seconds that each but the first, with which the others are compared, runs before. The first call of a
    turn does not count: it gets back from the other actions what they took of caches and memory.
    """
    for action in actions:
        end, calls = time.perf_counter() + (0.0 if action is actions[0] else settling), 0
        while calls < WARM_UP_CALLS or time.perf_counter() < end:
            action()
            calls += 1
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(TURNS):
        for action, taken in zip(actions, times):
            action()
            end, fewest = time.perf_counter() + budget / TURNS, len(taken) + 2
            while time.perf_counter() < end or len(taken) < fewest:
                start = time.perf_counter()
                action()
                taken.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(taken) for taken in times]


def runtime_of(model: Path | ModelProto) -> onnxruntime.InferenceSession:
    """onnxruntime with as many threads as the engine uses."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def stored_feeds(path: Path, runtime: onnxruntime.InferenceSession) -> Feeds:
    """The inputs that are stored beside a model."""
    stored = np.load(path.with_suffix(".npz"), allow_pickle=True)
    return {given.name: stored[f"in_{given.name}"] for given in runtime.get_inputs()}


def feeds_of(feeds: Feeds, runtime: onnxruntime.InferenceSession) -> list[Feeds]:
    """The inputs, before them those with an open first axis repeated to the batch, if onnxruntime takes them."""
    larger = {}
    for given in runtime.get_inputs():
        array = feeds[given.name]
        is_open = bool(given.shape) and not (isinstance(given.shape[0], int) and given.shape[0] >= 0)
        larger[given.name] = array[np.arange(BATCH) % len(array)] if is_open and len(array) else array
    if all(larger[name] is feeds[name] for name in feeds):
        return [feeds]
    try:
        runtime.run(None, larger)
    except Exception:  # what the first axis is, nobody knows: steps, boxes ...
        return [feeds]
    return [larger, feeds]


def open_session(native_blas: str) -> Session:
    """A session for any of the models."""
    return Session(max_heap="6g", native_blas=native_blas)


def variants(path: Path) -> Iterator[tuple[Path | ModelProto, Feeds]]:
    """The model of a file, and with an open batch if that is fixed to one, with the inputs stored."""
    runtime = runtime_of(path)
    feeds = stored_feeds(path, runtime)
    yield path, feeds
    if len(feeds_of(feeds, runtime)) == 1 and (opened := with_open_batch(path, feeds)) is not None:
        yield opened, feeds


def measured(
    model: Path | ModelProto, stored: Feeds, shared: Mapping[str, Session], budget: float
) -> tuple[bool, list[float]]:
    """Whether the batch is 16, and the milliseconds of onnxruntime and with each native BLAS.

    Where there is something to compare, the sessions are new ones, one after the other.
    """
    runtime = runtime_of(model)
    script = import_model(model)
    candidates = feeds_of(stored, runtime)
    (alone,) = medians_by_turns([partial(runtime.run, None, dict(candidates[0]))], 0.1, 0.0)
    is_significant = alone >= SIGNIFICANT
    theirs, ours, feeds = [], [], candidates[0]
    for library, session in shared.items():
        with contextlib.ExitStack() as stack:
            used = stack.enter_context(open_session(library)) if is_significant else session
            function = stack.enter_context(ScoringFunction(script, used))
            try:
                function(feeds)
            except InvalidInput:  # a size that the model's other inputs or its graph settle
                feeds = candidates[-1]
            actions = [partial(runtime.run, None, dict(feeds)), partial(function, feeds)]
            medians = medians_by_turns(actions, budget, WARM_UP_SECONDS if is_significant else 0.0)
        theirs.append(medians[0])
        ours.append(medians[1])
    return feeds is not candidates[-1], [statistics.fmean(theirs), *ours]


@contextlib.contextmanager
def reported(name: str) -> Iterator[None]:
    """An error is printed and ends what is inside only."""
    try:
        yield
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


def main() -> None:
    """Print a line for each model, and store the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the table in docs/benchmarks.md")
    parser.add_argument("--native-blas", choices=("openblas", "mkl"), help="measure with this library as well")
    parser.add_argument("--only", default="", help="part of the name")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each model and session")
    arguments = parser.parse_args()
    sessions = {"none": open_session("none")}
    columns = ["model", "batch", "onnxruntime ms", "ours ms", "ratio"]
    if arguments.native_blas:
        sessions[arguments.native_blas] = open_session(arguments.native_blas)
        columns += [f"with {arguments.native_blas} ms", "ratio"]
    lines = [HEADER, f"| {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) - 1)}"]
    worst = {batched: [0.0] * len(sessions) for batched in (True, False)}
    for path in model_paths("real", "generated"):
        if arguments.only not in path.stem:
            continue
        with reported(path.stem):
            for model, feeds in variants(path):
                with reported(path.stem):
                    batched, (theirs, *ours) = measured(model, feeds, sessions, arguments.seconds)
                    cells = [path.stem, str(BATCH) if batched else "", f"{theirs:.2f}"]
                    for position, milliseconds in enumerate(ours):
                        cells += [f"{milliseconds:.1f}", f"{milliseconds / theirs:.1f}"]
                        if theirs >= SIGNIFICANT:
                            worst[batched][position] = max(worst[batched][position], milliseconds / theirs)
                    lines.append(f"| {' | '.join(cells)} |")
                    print(lines[-1], flush=True)
    at_batch, others = (" and ".join(f"{ratio:.1f}" for ratio in worst[batched]) for batched in (True, False))
    shown = f"{at_batch} at a batch of {BATCH}, {others} at the size it was made for"
    lines.append(f"\nThe largest ratio of a model that takes onnxruntime {SIGNIFICANT:g} ms or more: {shown}.")
    print(lines[-1])
    if arguments.write:
        write_section("models", "\n".join(lines))
    for session in sessions.values():
        session.close()


if __name__ == "__main__":
    main()
