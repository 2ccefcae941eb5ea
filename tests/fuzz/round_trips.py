"""Models whose script is exported again: the model that comes back, run by onnxruntime, gives what the first one gives."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.reference

from onnx_systemds.engine import Session
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.script import Script
from tests.exporting.round_trip import computed
from tests.fuzz import graphs, hidden_sizes, operators, varied_layers
from tests.fuzz.finding import Finding
from tests.fuzz.judge_faults import reals
from tests.fuzz.judging import TALLY, ModelCase, Verdict, finding, is_internal, wrong_output

_REFERENCE = str(Path(onnx.reference.__file__).parent)


def case(seed: int) -> ModelCase:
    """A model of the other kinds, and one call."""
    made = (operators.case, operators.case, graphs.case, varied_layers.case, hidden_sizes.case)[seed % 5](seed)
    return replace(made, calls=made.calls[:1])


def check(case: ModelCase, session: Session) -> Finding | None:
    """Convert a model to a script and this to a model; its finding, None where nothing is wrong with it."""
    feeds = case.calls[0]
    try:
        script = case.converted()
    except TranspileError:
        TALLY.add("refused")
        return None
    ports = (*script.inputs, *script.outputs)
    if any(port.kind != "tensor" or port.dtype == "string" for port in ports) or not all(
            isinstance(value, np.ndarray) and value.size for value in feeds.values()):
        TALLY.add("no matrices")
        return None
    verdict = Verdict(case.model, feeds)
    if not verdict.runs():
        TALLY.add("no judge")
        return None
    try:
        problem = _problem(case, script, verdict, "float64") and _problem(case, script, verdict, "float32")
    except TranspileError as error:
        if is_internal(error):
            return finding(case, "error", f"export: {error}")
        TALLY.add("not exported")
        return None
    except Exception as error:
        if any(frame.filename.startswith(_REFERENCE) for frame in traceback.extract_tb(error.__traceback__)):
            TALLY.add("no judge of what comes back")
            return None
        return finding(case, "error", f"{type(error).__name__}: {str(error)[:2000]}")
    if problem and not all(np.isfinite(array).all() for array in reals(feeds)):
        TALLY.add("infinite")  # 0 times infinity, which the engine's sparse products leave out
        return None
    if problem:
        return finding(case, "wrong", problem)
    TALLY.add("right")
    return None


def _problem(case: ModelCase, script: Script, verdict: Verdict, dtype: str) -> str:
    """What is wrong with the model of numbers of a type; where onnxruntime has no operator for these, its judge may be wrong."""
    arrays = computed(script, case.calls[0], dtype)
    return wrong_output(case, {port.name: array for port, array in zip(script.outputs, arrays)}, verdict)
