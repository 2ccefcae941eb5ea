"""Models that come back: ``python -m benchmarks.round_trip [name ...] [--operators] [--no-specialise] [--write]``.

Each of the shared models becomes a script, as `onnx-systemds` writes it, and that a model again, for the sizes of the
inputs stored beside it. Nodes are counted with those of all branches and bodies, those of constants are not. Both
models give the same numbers, or this says so.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np
import onnx

from benchmarks.exports import session
from benchmarks.report import write_section
from onnx_systemds import export_script, import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.boundary_tensors import bind_sizes, restored
from tests.model_zoo import model_paths

HEADER = """## Models that come back

Written by `python -m benchmarks.round_trip --write`: models become scripts, and the scripts models again. Nodes with
those of all branches and bodies, without those of constants.

| model | nodes | come back | ratio |
|---|--:|--:|--:|"""
TOLERANCE = 1e-4
"""Largest difference between both models in float32, relative to the largest number of the output."""
SMALLEST = 1e-2
"""What an output is taken to reach at least: the Sigmoid of onnxruntime is exact to 1e-7 of 1."""
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Trip:
    """The operators of a model and of the one that its script became."""

    before: Counter[str]
    after: Counter[str]

    @property
    def ratio(self) -> float:
        """Nodes that came back, for each of the original."""
        return self.after.total() / max(self.before.total(), 1)

    def grown(self) -> str:
        """The operators of which more came back, and those that are gone."""
        more, gone = self.after - self.before, self.before - self.after
        return "; ".join(f"{sign} " + ", ".join(f"{op} {count}" for op, count in counts.most_common())
                         for sign, counts in (("+", more), ("-", gone)) if counts)


def operators(model: onnx.ModelProto) -> Counter[str]:
    """The operators of a model's graph and of all graphs in it, but for constants; functions count for each call."""
    functions = {(function.domain, function.name): function for function in model.functions}

    def of(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
        for node in nodes:
            called = functions.get((node.domain, node.op_type))
            if called is not None:
                yield from of(called.node)
                continue
            if node.op_type != "Constant":
                yield node.op_type
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    yield from of(graph.node)

    return Counter(of(model.graph.node))


def exported(script: Script, feeds: Mapping[str, Array]) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The model of a script, for inputs of the sizes given, and these sizes."""
    sizes = bind_sizes(script.inputs, feeds)
    main = _with_constants(script)
    parsed = parse_script(f"{_text(script)}\n{print_statement(main)}")
    parameters = iter(main.parameters)
    specs: dict[str, str] = {}
    bindings: dict[str, Any] = {}
    for port, parameter in zip(script.inputs, parameters):
        kind = "string" if port.dtype == "string" else "double"
        dims = "" if parameter.type.kind == "scalar" else f"[{','.join(map(str, _dims(feeds[port.name])))}]"
        specs[parameter.name] = kind + dims
    for symbol, parameter in zip(script.sizes, parameters):
        bindings[parameter.name] = sizes[symbol]
    for parameter in parameters:
        bindings[parameter.name] = {weight.name: np.asarray(weight.array, np.float64) for weight in script.weights}
    return export_script(parsed, main.name, inputs=specs, bindings=bindings), sizes


def _dims(array: Array) -> tuple[int, ...]:
    """The dims of an input of the model that comes back, which has two at least."""
    return (*array.shape, 1, 1)[: max(array.ndim, 2)]


def _text(script: Script) -> str:
    constants = () if script.constants is None else script.constants.library
    return "\n".join([script.body_text(), *map(print_statement, constants)])


def _with_constants(script: Script) -> tree.Function:
    """A function that computes what the init function does, and calls the main function."""
    main, constants = script.main, script.constants
    names = () if constants is None else constants.names
    statements = () if constants is None else constants.statements
    added = "\n".join(f"weights = rbind(weights, list({name}={name}))" for name in names)
    results, parameters = (", ".join(each.name for each in given) for given in (main.results, main.parameters))
    call = f"[{results}] = {main.name}({parameters})"
    called = parse_script(f"{added}\n{call}\n").statements
    return tree.Function(f"{main.name}_whole", main.parameters, main.results, (*statements, *called))


def difference(script: Script, model: onnx.ModelProto, sizes: dict[str, int], stored: Mapping[str, Array]) -> str:
    """What the model that came back gives else than the first, nothing where it does not."""
    run = session(model)
    given = {item.name: stored[f"in_{port.name}"] for port, item in zip(script.inputs, run.get_inputs())}
    shapes = {item.name: _dims(given[item.name]) if item.shape else () for item in run.get_inputs()}
    types = {item.name: object if item.type == "tensor(string)" else np.float32 for item in run.get_inputs()}
    results = run.run(None, {name: given[name].reshape(dims).astype(types[name]) for name, dims in shapes.items()})
    for symbol, value in zip(script.returned, results[len(script.outputs) :]):
        sizes[symbol] = int(value.item())
    for port, result in zip(script.outputs, results):
        if f"out_{port.name}" not in stored:  # maps are not
            continue
        wanted = np.asarray(stored[f"out_{port.name}"], np.float64)
        own = restored(port, np.atleast_2d(result), sizes).astype(np.float64)
        known = wanted[np.isfinite(wanted)]
        tolerance = TOLERANCE * max(float(np.abs(known).max(initial=0.0)), SMALLEST)
        if not np.allclose(own, wanted, 0.0, tolerance, equal_nan=True):
            worst = np.nanmax(np.abs(own - wanted)) / tolerance * TOLERANCE
            return f"{port.name} differs by {worst:.1e}"
    return ""


def measure(path: Path, **options: Any) -> tuple[Trip, str]:
    """The operators of a model before and after, and how the numbers differ."""
    stored = np.load(path.with_suffix(".npz"), allow_pickle=True)
    model = onnx.load(path)
    script = import_model(path, **options)
    feeds = {port.name: stored[f"in_{port.name}"] for port in script.inputs}
    found, sizes = exported(script, feeds)
    return Trip(operators(model), operators(found)), difference(script, found, sizes, stored)


def main() -> None:
    """Print a line for each model, and the quartiles of the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", help="parts of names")
    arguments.add_argument("--operators", action="store_true")
    arguments.add_argument("--no-specialise", action="store_true")
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    ratios, refused = [], 0
    lines = [HEADER]
    for path in model_paths("real", "generated"):
        if given.names and not any(name in path.stem for name in given.names):
            continue
        try:
            trip, differing = measure(path, specialised=not given.no_specialise)
        except Exception as error:  # the others go on, whatever happens
            refused += 1
            print(f"{path.stem}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            continue
        ratios.append(trip.ratio)
        lines.append(f"| {path.stem} | {trip.before.total()} | {trip.after.total()} | {trip.ratio:.2f} |")
        print(lines[-1], differing, *([trip.grown()] if given.operators else []), flush=True)
    if len(ratios) > 1:
        low, middle, high = quantiles(ratios, n=4, method="inclusive")
        found = (f"{len(ratios)} models come back, {refused} do not. Nodes: {middle:.2f} times the original's is the "
                 f"median, {low:.2f} to {high:.2f} in the half around it, {max(ratios):.1f} at most.")
        lines.append(f"\n{found}")
        print(found)
    if given.write:
        write_section("round_trip", "\n".join(lines))


if __name__ == "__main__":
    main()
