"""Exported models against an expert's: ``python -m benchmarks.exports [name ...] [--seconds 0.3] [--write]``.

Nodes and milliseconds. Nodes are counted with those of all branches and bodies. Both models give the same numbers, or
this stops.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from statistics import median

import numpy as np
import onnx
import onnxruntime

from benchmarks.expert_models import CASES, ROWS, Array, Case
from benchmarks.report import write_section
from benchmarks.timing import alternate
from onnx_systemds import export_script
from onnx_systemds.errors import TranspileError

MORE_ROWS = (256, 4096)
HEADER = """## Exported models

Written by `python -m benchmarks.exports --write`: what users of SystemDS export, against models written by hand in ONNX
(`benchmarks/expert_models.py`), with a known batch and with any: of 16, and where single rows are scored of 256 and
4,096, too. Nodes, and least milliseconds in onnxruntime on one thread, by turns; the ratios are those of the worse of
both.

| model | nodes | ours, known | any | ms | ours, known | any | nodes ratio | time ratio |
|---|--:|--:|--:|--:|--:|--:|--:|--:|"""


def node_count(graph: onnx.GraphProto) -> int:
    """The nodes of a graph and of all graphs in it."""
    bodies = (attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g"))
    return len(graph.node) + sum(map(node_count, bodies))


def exported(case: Case, rows: int | str) -> onnx.ModelProto | None:
    """Our model, for a number of rows or (a name) any; None where it is refused."""
    with suppress(TranspileError):
        return export_script(case.script(), inputs={"X": f"double[{rows},{case.x.shape[1]}]"}, bindings=case.bound)
    return None


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A model in onnxruntime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def compared(case: Case, models: Iterable[onnx.ModelProto]) -> list[onnxruntime.InferenceSession]:
    """Sessions of models; raises AssertionError where they do not agree with the first."""
    found = [session(model) for model in models]
    feeds = {"X": case.x.astype(np.float32)}
    first, *others = (one.run(["Y"], feeds)[0] for one in found)
    for other in others:
        spread = max(float(np.abs(first).max()), 1e-6)
        np.testing.assert_allclose(other, first, rtol=case.tolerance, atol=case.tolerance * spread, err_msg=case.name)
    return found


def measure(case: Case, seconds: float) -> tuple[list[float], list[float]]:
    """Nodes, and milliseconds, of the expert's model and of ours with a static and an open batch."""
    models = [case.expert(), exported(case, len(case.x)), exported(case, "N")]
    made = [model for model in models if model is not None]
    feeds: dict[str, Array] = {"X": case.x.astype(np.float32)}
    runs = [partial(one.run, ["Y"], feeds) for one in compared(case, made)]
    times = iter([min(own) for own in alternate(runs, seconds)] if seconds else [0.0] * 3)
    return ([inf if model is None else node_count(model.graph) for model in models],
            [inf if model is None else next(times) for model in models])


def of_rows(case: Case, rows: int) -> Case:
    """The case with so many rows."""
    return replace(case, x=np.resize(case.x, (rows, case.x.shape[1])))


def main() -> None:
    """Print a line for each case, and the medians of the ratios."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--seconds", type=float, default=0.3)
    arguments.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")
    given = arguments.parse_args()
    nodes, times = [], []
    lines = [HEADER]
    for case in CASES:
        if given.names and case.name not in given.names:
            continue
        for rows in (ROWS, *MORE_ROWS) if case.rowwise else (ROWS,):
            counts, own = measure(of_rows(case, rows), given.seconds)
            nodes.append(max(counts[1:]) / counts[0])
            times.append(max(own[1:]) / own[0] if own[0] else 1.0)
            name = case.name if rows == ROWS else f"{case.name}, {rows:,} rows"
            cells = [name, *counts, *(f"{t:.3f}" for t in own), f"{nodes[-1]:.2f}", f"{times[-1]:.2f}"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
            print(lines[-1], flush=True)
    for what, ratios in (("nodes", nodes), ("time", times)):
        found = f"{what} against the expert's: {median(ratios):.2f} is the median, {max(ratios):.2f} at most"
        lines.append(f"\n{found[0].upper()}{found[1:]}.")
        print(found)
    if given.write:
        write_section("exports", "\n".join(lines))


if __name__ == "__main__":
    main()
