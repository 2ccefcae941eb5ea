"""The same models by the plain command line: many scripts sourced by one program, weights read from their folders."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds import import_model
from onnx_systemds.engine.matrix_files import read_matrix, write_matrix
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.script import Port, Script
from onnx_systemds.runtime.boundary_integers import InexactInteger
from onnx_systemds.runtime.scoring import InvalidInput, bind_sizes, boundary_matrix, restored
from tests.command_line import run_dml
from tests.fuzz.finding import Finding
from tests.fuzz.judging import TALLY, ModelCase, Verdict, is_told, wrong_output
from tests.plain_engine import argument_text


def check_plainly(cases: Sequence[ModelCase]) -> list[Finding]:
    """Run the first call of each case in one program; where that ends in an error, each in a program of its own."""
    runnable = [found for found in (_converted(case) for case in cases) if found is not None]
    try:
        return _findings(runnable)
    except AssertionError:
        findings: list[Finding] = []
        for case, script in runnable:
            try:
                findings += _findings([(case, script)])
            except AssertionError as error:
                if not is_told(error):
                    findings.append(Finding("error", case.seed, str(case), f"command line: {_essence(error)}"))
        return findings


def _converted(case: ModelCase) -> tuple[ModelCase, Script] | None:
    """The script, where there is one for tensors of numbers, and a judge runs it."""
    feeds = case.calls[0]
    if not all(isinstance(value, np.ndarray) and value.dtype != object and value.size for value in feeds.values()):
        return None
    try:
        script = import_model(case.model)
        bind_sizes(script.inputs, feeds)
    except (TranspileError, InvalidInput):
        return None
    ports = [*script.inputs, *script.outputs]
    if any(port.kind != "tensor" or port.dtype == "string" for port in ports):
        return None
    return (case, script) if Verdict(case.model, feeds).runs() else None


def _findings(runnable: Sequence[tuple[ModelCase, Script]]) -> list[Finding]:
    """Run the scripts in one program and judge what it has written. Raises AssertionError where it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = [_part(folder, place, case, script) for place, (case, script) in enumerate(runnable)]
        sources = [f'source("case{place}.dml") as m{place}' for place in range(len(runnable))]
        run_dml("\n".join(sources + parts), folder)
        findings = []
        for place, (case, script) in enumerate(runnable):
            try:
                results = _results(folder, place, case, script)
            except InexactInteger:
                TALLY.add("refused by the command line")
                continue
            problem = wrong_output(case, results, Verdict(case.model, case.calls[0]))
            if problem:
                TALLY.add("wrong by the command line")
                findings.append(Finding("wrong", case.seed, str(case), f"command line: {problem}"))
            else:
                TALLY.add("right by the command line")
        return findings


def _part(folder: Path, place: int, case: ModelCase, script: Script) -> str:
    """Save a script with its weights and inputs; what calls it and writes its results."""
    script.save(folder / f"case{place}.dml")
    lines, arguments = [], []
    for position, port in enumerate(script.inputs):
        name = f"in{place}_{position}"
        write_matrix(folder / name, boundary_matrix(np.asarray(case.calls[0][port.name])))
        lines.append(f'{name} = read("{name}")')
        arguments.append(argument_text(port, name))
    sizes = bind_sizes(script.inputs, dict(case.calls[0]))
    arguments += [str(sizes[symbol]) for symbol in script.sizes]
    if script.weights:
        lines.append(f"weights{place} = m{place}::{script.function}_init()")
        arguments.append(f"weights{place}")
    ports = [*script.outputs, *(Port(symbol, "int64", ()) for symbol in script.returned)]
    results = [f"result{place}_{position}" for position in range(len(ports))]
    target = results[0] if len(results) == 1 else f"[{', '.join(results)}]"
    lines.append(f"{target} = m{place}::{script.function}({', '.join(arguments)})")
    for result, port in zip(results, ports):
        value = result if port.dims != () else f"as.matrix(as.double({result}))"
        lines += [f"{result}_matrix = {value}", f'write({result}_matrix, "{result}", format="binary")']
    return "\n".join(lines)


def _results(folder: Path, place: int, case: ModelCase, script: Script) -> dict[str, Any]:
    sizes = dict(bind_sizes(script.inputs, dict(case.calls[0])))
    matrices = [_read(folder / f"result{place}_{position}")
                for position in range(len(script.outputs) + len(script.returned))]  # fmt: skip
    for symbol, matrix in zip(script.returned, matrices[len(script.outputs) :]):
        sizes[symbol] = int(matrix.item())
    return {port.name: restored(port, matrix, sizes) for port, matrix in zip(script.outputs, matrices)}


def _read(path: Path) -> Any:
    """A matrix that the engine has written; of an empty one there is a description only."""
    described = json.loads(path.with_name(f"{path.name}.mtd").read_text(encoding="utf-8"))
    shape = (int(described["rows"]), int(described["cols"]))
    return read_matrix(path) if all(shape) else np.zeros(shape)


def _essence(error: AssertionError) -> str:
    """The lines of the engine's output that say what went wrong."""
    lines = [line for line in str(error).splitlines() if "Exception" in line or "Error" in line or "ERROR" in line]
    return " | ".join(lines[-3:])[:1500] or str(error)[-500:]
