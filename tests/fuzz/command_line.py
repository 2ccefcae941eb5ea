"""The same models by the plain command line: many scripts sourced by one program, weights read from their folders."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.boundary_integers import InexactInteger
from onnx_systemds.runtime.boundary_tensors import bind_sizes, tensor_of
from onnx_systemds.runtime.scoring import InvalidInput
from tests.command_line import run_dml
from tests.fuzz.finding import Finding
from tests.fuzz.judging import TALLY, Feeds, ModelCase, Verdict, is_refusal, wrong_output
from tests.plain_engine import PlainCall, sourced


def check_plainly(cases: Sequence[ModelCase]) -> list[Finding]:
    """Run a call of each case, or two of other sizes, in one program; where that ends in an error, each in one of its own.

    The engine's compiler knows the sizes of every second case's inputs.
    """
    runnable = [found for found in (_converted(case) for case in cases) if found is not None]
    try:
        return _findings(runnable)
    except AssertionError:
        findings: list[Finding] = []
        for case, script in runnable:
            try:
                findings += _findings([(case, script)])
            except AssertionError as error:
                if not is_refusal(error):
                    findings.append(Finding("error", case.seed, str(case), f"command line: {essence(error)}"))
        return findings


def _converted(case: ModelCase) -> tuple[ModelCase, Script] | None:
    """The script, where there is one for tensors of numbers, and a judge runs it."""
    calls = _different_calls(case)
    if any(function.attribute_proto for function in case.model.functions):  # judges leave out defaults of attributes
        return None
    values = [value for feeds in calls for value in feeds.values()]
    if not all(isinstance(value, np.ndarray) and value.dtype != object and value.size for value in values):
        return None
    try:
        script = case.converted()
        for feeds in calls:
            bind_sizes(script.inputs, feeds)
    except (TranspileError, InvalidInput):
        return None
    ports = [*script.inputs, *script.outputs]
    if any(port.kind != "tensor" or port.dtype == "string" for port in ports):
        return None
    try:
        for feeds in calls:
            _ = [tensor_of(port, feeds) for port in script.inputs]
    except InexactInteger:
        return None
    return (case, script) if all(Verdict(case.model, feeds).runs() for feeds in calls) else None


def _different_calls(case: ModelCase) -> list[Feeds]:
    """The first call, and the first one that is not the same."""
    return [case.calls[0], *[feeds for feeds in case.calls if feeds is not case.calls[0]][:1]]


def _findings(runnable: Sequence[tuple[ModelCase, Script]]) -> list[Finding]:
    """Run the scripts in one program and judge what it has written. Raises AssertionError where it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calls = [(case, PlainCall(script, feeds, folder, f"case{place}_{number}_", f"m{place}", place % 2 == 1))
                 for place, (case, script) in enumerate(runnable)
                 for number, feeds in enumerate(_different_calls(case))]
        heads = [sourced(script, folder, f"m{place}") for place, (_, script) in enumerate(runnable)]
        # source statements stand at the top of a script
        program = [lines[0] for lines in heads] + [line for lines in heads for line in lines[1:]]
        program.append("never = time() < 0")
        run_dml("\n".join(program + [line for _, call in calls for line in call.statements()]), folder)
        findings = []
        for case, call in calls:
            try:
                results = call.results()
            except InexactInteger:
                TALLY.add("refused by the command line")
                continue
            problem = wrong_output(case, results, Verdict(case.model, call.inputs))
            if problem:
                TALLY.add("wrong by the command line")
                findings.append(Finding("wrong", case.seed, str(case), f"command line: {problem}"))
            else:
                TALLY.add("right by the command line")
        return findings


def essence(error: AssertionError) -> str:
    """The lines of the engine's output that say what went wrong."""
    lines = [line for line in str(error).splitlines() if "Exception" in line or "Error" in line or "ERROR" in line]
    return " | ".join(lines[-3:])[:1500] or str(error)[-500:]
