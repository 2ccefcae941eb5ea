"""Generated DML against DML written by hand on `nn/layers`: ``python -m benchmarks.networks [--write]``.

Each network is converted from ONNX and written by hand with the layers that come with SystemDS, as an expert would
write it. Both run as prepared scripts in one engine, with the same weights (pinned) and the same input, turn by turn.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from benchmarks.network_models import Array, bert_layer, lenet, lstm, resnet
from benchmarks.report import write_section
from benchmarks.timing import alternate
from onnx_systemds import import_model
from onnx_systemds.engine import PreparedScript, Session, shared_session
from onnx_systemds.runtime.scoring import ScoringFunction

HEADER = """## Networks against DML written by hand

Written by `python -m benchmarks.networks --write`: the same network converted from ONNX, and written by hand on
SystemDS's `nn/layers`, in one engine with the same weights and input. Medians of calls from Python, turn by turn.
"""
TOLERANCE = 1e-5
"""Largest difference between the two, relative to the spread of the output."""


@dataclass(frozen=True)
class Network:
    """An ONNX model and the same by hand. script: DML that computes Y from X and the weights, by name."""

    title: str
    model: onnx.ModelProto
    script: str
    weights: Mapping[str, Array]
    data: Array


def prepared_by_hand(network: Network, session: Session) -> PreparedScript:
    """The hand-written script with its weights pinned; sizes of all inputs are known to the compiler."""
    matrices = {name: weight.astype(np.float64) for name, weight in network.weights.items()}
    sources = [line for line in network.script.splitlines() if line.startswith("source(")]
    body = [line for line in network.script.splitlines() if not line.startswith("source(")]
    reads = [
        f'{name} = read("./{name}", rows={matrix.shape[0]}, cols={matrix.shape[1]})'
        for name, matrix in matrices.items()
    ]
    lines = [*sources, 'X = read("./X")', *reads, *body, 'write(Y, "./Y")']
    prepared = session.prepare("\n".join(lines), ["X", *matrices], ["Y"])
    for name, matrix in matrices.items():
        prepared.pin(name, matrix)
    return prepared


def compared(network: Network, budget: float) -> tuple[float, float]:
    """Median milliseconds of the generated script and of the one by hand, after a check that they agree."""
    prepared = prepared_by_hand(network, shared_session())
    matrix = network.data.reshape(len(network.data), -1).astype(np.float32)
    (name,) = (port.name for port in network.model.graph.input)
    with ScoringFunction(import_model(network.model)) as function:
        (result,) = function({name: network.data}).values()
        expected = prepared({"X": matrix})["Y"]
        difference = float(np.abs(result.reshape(expected.shape) - expected).max())
        if not difference <= TOLERANCE * float(np.ptp(expected)):
            raise RuntimeError(f"{network.title}: the two differ by {difference:g}")
        actions = [lambda: function({name: network.data}), lambda: prepared({"X": matrix})]
        ours, theirs = map(statistics.median, alternate(actions, budget))
    prepared.close()
    return ours, theirs


def networks() -> list[Network]:
    """All networks, at a batch of one and at a larger one."""
    sizes = ((lenet, 64), (resnet, 16), (lstm, 16), (bert_layer, 8))
    return [Network(*parts) for made, batch in sizes for size in (1, batch) for parts in made(size)]


def main() -> None:
    """Print a line for each network, and store the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the table in docs/benchmarks.md")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each network")
    parser.add_argument("--only", default="", help="part of the title")
    arguments = parser.parse_args()
    lines = [HEADER, "| network | generated ms | by hand ms | ratio |", "|---|--:|--:|--:|"]
    for network in networks():
        if arguments.only in network.title:
            ours, theirs = compared(network, arguments.seconds)
            lines.append(f"| {network.title} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")
            print(lines[-1], flush=True)
    if arguments.write:
        write_section("networks", "\n".join(lines))


if __name__ == "__main__":
    main()
