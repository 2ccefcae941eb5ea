"""Models of rows whose programs are run as people run them: of --score in blocks of one or two rows, and of --explain.

What is scored is judged as other results; the numbers that explain it have to add up to it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import finfo

from onnx_systemds.engine import Session
from onnx_systemds.engine.matrix_files import read_matrix, write_matrix
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.explain_program import explain_text, explained
from onnx_systemds.importing.score_program import file_arguments, places_of, score_text
from onnx_systemds.importing.script import Script
from onnx_systemds.model.protos import numpy_dtype
from onnx_systemds.runtime.boundary_tensors import bind_sizes, boundary_matrix, restored
from tests.command_line import run_dml
from tests.fuzz import graphs, hidden_sizes, operators
from tests.fuzz.command_line import essence
from tests.fuzz.finding import Finding
from tests.fuzz.judging import TALLY, ModelCase, Verdict, finding, is_refusal, wrong_output

Array = np.ndarray[Any, np.dtype[Any]]

_ATTEMPTS = 40
_KINDS = (operators.case, operators.case, graphs.case, hidden_sizes.case)
_REFUSALS = ("the answer for some rows is no number", "a single row is seen against others")


def case(seed: int) -> ModelCase:
    """A model of the other kinds whose rows do not depend on each other, and one call; the last of many if there is none."""
    found = None
    for attempt in range(_ATTEMPTS):
        made = _KINDS[(seed + attempt) % len(_KINDS)](seed + 1_000_003 * attempt)
        found = replace(made, seed=seed, calls=made.calls[:1], functions=None, style="plain")
        if _script(found) is not None:
            break
    assert found is not None
    return found


def check(case: ModelCase, session: Session) -> Finding | None:
    """Score the rows of a case, and explain the answers; its finding, None where nothing is wrong with it."""
    script, verdict = _script(case), Verdict(case.model, case.calls[0])
    if script is None or not verdict.runs():
        TALLY.add("no rows" if script is None else "no judge")
        return None
    arrays = {port.name: np.asarray(case.calls[0][port.name]) for port in script.inputs}
    try:
        rows = 1 + case.seed % 2
        results = _scored(script, arrays, rows)
        if problem := wrong_output(case, results, verdict):
            return finding(case, "wrong", f"blocks of {rows} rows: {problem}")
        if problem := _explained(script, arrays, results):
            return finding(case, "wrong", problem)
    except AssertionError as error:
        if is_refusal(error) or any(words in str(error) for words in _REFUSALS):
            TALLY.add("refused at run time")
            return None
        return finding(case, "error", essence(error))
    TALLY.add("right")
    return None


def _script(case: ModelCase) -> Script | None:
    """The script of a case whose outputs are matrices, and inputs these or numbers, and which can be scored in blocks."""
    feeds = case.calls[0]
    if not all(isinstance(value, np.ndarray) and value.size and value.dtype != object for value in feeds.values()):
        return None
    try:
        script = case.converted()
        if places_of(script).rows is None:
            return None
        bind_sizes(script.inputs, feeds)
    except TranspileError:
        return None
    ports = (*script.inputs, *script.outputs)
    fits = all(port.kind == "tensor" and port.dtype != "string" for port in ports) and all(port.dims for port in script.outputs)
    return script if fits else None


def _scored(script: Script, arrays: Mapping[str, Array], rows: int) -> dict[str, Array]:
    """The results for blocks of so many rows."""
    with tempfile.TemporaryDirectory() as name:
        folder, (read, written) = Path(name), file_arguments(script)
        script.save(folder / "model.dml")
        sizes = bind_sizes(script.inputs, arrays)
        arguments = {"rows": str(rows), "format": "binary", "to": "binary", **{each: f"out_{each}" for each in written}}
        arguments |= {size: str(sizes[size]) for size in script.sizes} | _files(script, arrays, read, folder)
        run_dml(score_text(script, "model"), folder, arguments=arguments)
        return {port.name: restored(port, np.atleast_2d(read_matrix(folder / f"out_{each}")), sizes)
                for each, port in zip(written, script.outputs)}


def _files(script: Script, arrays: Mapping[str, Array], read: tuple[str, ...], folder: Path) -> dict[str, str]:
    """The arguments for the inputs, whose matrices are written."""
    found, matrices = {}, [boundary_matrix(arrays[port.name]).astype(float) for port in script.inputs]
    if len(read) < len(matrices):
        write_matrix(folder / f"in_{read[0]}", np.hstack(matrices))
        return {read[0]: f"in_{read[0]}"}
    for each, port, matrix in zip(read, script.inputs, matrices):
        if port.dims:
            write_matrix(folder / f"in_{each}", matrix)
            found[each] = f"in_{each}"
        else:
            found[each] = str(arrays[port.name].item()).upper() if port.dtype == "bool" else repr(arrays[port.name].item())
    return found


def _explained(script: Script, arrays: Mapping[str, Array], results: Mapping[str, Array]) -> str:
    """What is wrong with the explanation of a result, "" where there is none, or nothing is."""
    for port in script.outputs:
        try:
            text, read = explain_text(script, "model", port.name), explained(script, port.name).program.files_read
        except TranspileError:
            continue
        answers = boundary_matrix(np.asarray(results[port.name], float)).max(1)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            script.save(folder / "model.dml")
            arguments = {"format": "binary", "to": "binary", "contributions": "out", "permutations": "2"}
            run_dml(text, folder, arguments=arguments | _files(script, arrays, read, folder))
            sums = np.atleast_2d(read_matrix(folder / "out")).sum(1)
        most = (2 * float(finfo(numpy_dtype(port.dtype)).eps) + 1e-6) * abs(answers).max() + 1e-9
        return f"contributions to {port.name} add up to {sums}, not {answers}" if abs(sums - answers).max() > most else ""
    return ""
