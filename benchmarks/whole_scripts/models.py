"""A script exported by the command line and run by onnxruntime, in a process of its own."""

from __future__ import annotations

import multiprocessing
import re
import resource
import signal
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from click.testing import CliRunner

from benchmarks.whole_scripts.inputs import Array, Input
from benchmarks.whole_scripts.java import Value
from benchmarks.whole_scripts.outputs import Parting, partings
from onnx_systemds.cli.export_command import export

SECONDS = 100
"""What an export and the run of its model may take of a processor; of wall clock six times as much."""
MOST_MEMORY = 6 << 30
_TYPES: dict[str, Any] = {
    "tensor(double)": np.float64, "tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": bool,
    "tensor(string)": object,
}
_MOST_UNASKED = 9


@dataclass(frozen=True)
class Found:
    """What became of a script.

    status: exported, refused, failed (in onnxruntime), traceback, hang, died, or not judged. message: why, where it
    was not exported. iterative: whether by ``--iterative``, after a refusal that says so.
    """

    status: str
    message: str = ""
    partings: Sequence[Parting] = ()
    script: str = ""
    test: str = ""
    arguments: Mapping[str, Value] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    iterative: bool = False
    seconds: float = 0.0


def compared(
    script: Path, arguments: Mapping[str, Value], inputs: Mapping[str, Input], written: Mapping[str, Any], folder: Path
) -> Found:
    """Export a script for what it was given, run its model and compare with what the engine wrote."""
    found = _guarded(script, arguments, inputs, written, folder, iterative=False)
    if found.status == "refused" and "--iterative" in found.message:
        again = _guarded(script, arguments, inputs, written, folder, iterative=True)
        return replace(again, iterative=True)
    return found


def _guarded(*given: Any, iterative: bool) -> Found:
    """`_compared` in a process that may take no longer, and no more memory, than it should."""
    context = multiprocessing.get_context("fork")
    own, other = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(other, *given, iterative))
    process.start()
    other.close()
    try:
        return own.recv() if own.poll(6 * SECONDS) else Found("hang")
    except EOFError:
        process.join()
        return Found("hang" if process.exitcode == -signal.SIGXCPU else "died")
    finally:
        process.kill()
        process.join()


def _answer(answers: Connection, *given: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    try:
        answers.send(_compared(*given))
    except BaseException:  # whatever it is, it is told
        answers.send(Found("traceback", traceback.format_exc()))


def _compared(
    script: Path, arguments: Mapping[str, Value], inputs: Mapping[str, Input], written: Mapping[str, Any], folder: Path,
    iterative: bool,
) -> Found:
    model = folder / "model.onnx"
    for dtype in ("float64", "float32"):
        refusal = _exported(script, model, arguments, inputs, ["--dtype", dtype, *["--iterative"] * iterative])
        if refusal is not None:
            return refusal
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            feeds = {item.name: _fed(item, inputs) for item in session.get_inputs()}
            if any(feed is None for feed in feeds.values()):
                return Found("not judged", "inputs that are not read by the benchmark")
            given = session.run(None, feeds)
        except Exception as error:  # onnxruntime has many
            if "NOT_IMPLEMENTED" in str(error) and dtype == "float64":
                continue
            return Found("failed", str(error))
        break
    outputs = dict(zip([item.name for item in session.get_outputs()], given))
    return Found("exported", dtype, partings(outputs, written, dtype))


def _exported(
    script: Path, model: Path, arguments: Mapping[str, Value], inputs: Mapping[str, Input], options: list[str]
) -> Found | None:
    """Export by the command line; return what it says instead where it does not."""
    specs = {path: given.spec for path, given in inputs.items() if given.content is not None}
    message = ""
    for _ in range(_MOST_UNASKED):
        words = [str(script), "-o", str(model), "--quiet", *options]
        words += [word for path, spec in specs.items() for word in ("--input", f"{path}={spec}")]
        words += [word for name, value in arguments.items() for word in ("--arg", f"{name}={value}")]
        result = CliRunner().invoke(export, words)
        if result.exit_code == 0:
            return None
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            return Found("traceback", "".join(traceback.format_exception(result.exception)))
        message = result.output.strip()
        unasked = re.search("nothing in the script asks for (.*)", message)
        if not unasked:
            break
        for path in re.findall('"([^"]+)"', unasked[1]):  # a branch that is not taken reads it
            specs.pop(path, None)
    return Found("refused", message)


def _fed(item: Any, inputs: Mapping[str, Input]) -> Array | None:
    """What an input of a model is given; None for a file that cannot be read."""
    def called(path: str, given: Input) -> bool:
        return item.name in (path, re.sub(r"\W", "_", path), Path(path).name, given.variable)

    given = next(given for path, given in inputs.items() if called(path, given))
    kind, content = _TYPES[item.type], given.content
    if isinstance(content, str) and kind is not object:
        return np.asarray(content == "TRUE" if kind is bool else float(content), kind)
    return None if content is None else np.asarray(content, kind)
