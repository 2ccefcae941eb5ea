"""ONNX -> DML -> ONNX: official node cases whose script is exported again must give what the case expects.

``python -m tests.exporting.round_trip [name part ...] [--write]`` prints those that do not, by reason; with ``--write``
the manifests ``round_trip.txt`` and ``round_trip_missing.txt`` are written anew (run without name parts).

Judged are the cases that the engine passes (`tests.official.survey`) and whose inputs and outputs are tensors of
numbers. Models are exported in float64 and float32. No engine is needed: onnxruntime runs them, and ONNX's reference
implementation where onnxruntime has no kernel for a type.
"""

from __future__ import annotations

import collections
import re
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator

from onnx_systemds.backend import SystemDSBackendRep
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.dml.syntax import Function
from onnx_systemds.exporting.export import export_script
from onnx_systemds.importing.script import Script
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.boundary_tensors import bind_sizes, boundary_matrix, restored
from tests.official.cases import data_sets, judge, model_of, official_cases
from tests.official.survey import read_manifest

MANIFEST = Path(__file__).with_name("round_trip.txt")
MISSING = Path(__file__).with_name("round_trip_missing.txt")
DTYPES = ("float64", "float32")
_NOT_IMPLEMENTED = "NOT_IMPLEMENTED"

Array = np.ndarray[Any, np.dtype[Any]]


class _Scripts(SystemDSBackendRep):
    """The scripts of a model, one for each content of its inputs that decides, as the backend makes them."""

    def _prepared(self, script: Script) -> Any:
        return script

    def for_inputs(self, given: dict[str, Any]) -> tuple[Script, dict[str, Any]]:
        """The script for these inputs, and what it still takes."""
        script: Any = self._function_for(given)
        return script, {name: array for name, array in given.items() if name not in self.required_constants}


@cache
def candidates() -> tuple[str, ...]:
    """The cases that are judged."""
    return tuple(name for name in sorted(read_manifest()) if name.startswith("node/") and _numeric(official_cases()[name]))


def _numeric(case: TestCase) -> bool:
    model = model_of(case)
    if any(item.type.WhichOneof("value") != "tensor_type" for item in (*model.graph.input, *model.graph.output)):
        return False
    sets = data_sets(case, model)
    return all(isinstance(item, (np.ndarray, np.generic)) and np.asarray(item).dtype.kind not in "OUSc"
               for given, expected in sets for item in (*given, *expected))


def round_trip(name: str) -> None:
    """Import, export and run one case. Raises whatever stops it, AssertionError for wrong results."""
    case = official_cases()[name]
    model = model_of(case)
    scripts = _Scripts(load_model(model))
    for given, expected in data_sets(case, model):
        script, tensors = scripts.for_inputs(dict(zip(scripts.names, given)))
        for dtype in DTYPES:
            judge(expected, computed(script, tensors, dtype), case)


def computed(script: Script, tensors: Mapping[str, Any], dtype: str) -> list[Array]:
    """Return the outputs that the exported function of a script gives."""
    arrays = {port.name: np.asarray(tensors[port.name]) for port in script.inputs}
    sizes = bind_sizes(script.inputs, arrays)
    function, text = _with_constants(script), script.body_text()
    if script.constants is not None:
        text = "\n".join([text, *map(print_statement, (*script.constants.library, function))])
    parameters = iter(function.parameters)
    specs: dict[str, str] = {}
    feeds: dict[str, Array] = {}
    bindings: dict[str, Any] = {}
    for port, parameter in zip(script.inputs, parameters):
        if parameter.type.kind == "matrix":
            feeds[parameter.name] = boundary_matrix(arrays[port.name]).astype(np.float64)
            specs[parameter.name] = "double[{},{}]".format(*feeds[parameter.name].shape)
        else:
            feeds[parameter.name] = arrays[port.name]
    for symbol, parameter in zip(script.sizes, parameters):
        bindings[parameter.name] = sizes[symbol]
    for parameter in parameters:
        bindings[parameter.name] = {w.name: np.asarray(w.array, np.float64) for w in script.weights}
    model = export_script(text, function.name, inputs=specs, bindings=bindings, dtype=dtype)
    found = _run(model, feeds)
    for symbol, value in zip(script.returned, found[len(script.outputs) :]):
        sizes[symbol] = int(value.item())
    return [restored(port, np.atleast_2d(array), sizes) for port, array in zip(script.outputs, found)]


def _with_constants(script: Script) -> Function:
    """The main function after what its init function computes of the weights."""
    main, constants = script.main, script.constants
    if constants is None:
        return main
    added = [f"weights = rbind(weights, list({name}={name}))" for name in constants.names]
    results = ", ".join(result.name for result in main.results)
    call = f"[{results}] = {main.name}({', '.join(parameter.name for parameter in main.parameters)})"
    body = (*constants.statements, *parse_snippet("\n".join([*added, call])))
    return Function(f"{main.name}_whole", main.parameters, main.results, body)


def _run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    types = {item.name: onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type) for item in model.graph.input}
    given = {name: feeds[name].astype(dtype) for name, dtype in types.items()}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found: list[Array] = session.run(None, given)
    except Exception as error:
        if _NOT_IMPLEMENTED not in str(error):
            raise
        found = ReferenceEvaluator(model).run(None, given)
    return found


def read_missing() -> dict[str, str]:
    """The reason of each case that does not pass, by name."""
    lines = MISSING.read_text(encoding="utf-8").splitlines()
    return {name: reason for name, _, reason in (line.partition(": ") for line in lines)}


def reason(error: BaseException) -> str:
    """What went wrong in one line: the message without its place."""
    if isinstance(error, AssertionError):
        return "other results: " + " | ".join(line for line in str(error).splitlines() if line.strip())[:150]
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {re.sub(r'^[^ ]*:[0-9]+:[0-9]+: ', '', text)}"[:220]


def grouped(missing: Mapping[str, str]) -> Iterator[str]:
    """Lines of reasons with their cases, the most frequent first; names and numbers in them do not count."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for name, text in missing.items():
        groups[re.sub(r"\b\w*\d\w*\b", "#", text.split(" (called")[0])[:110]].append(name)
    for text, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{len(names):4d}  {text}"
        yield f"      {missing[names[0]]}"
        yield f"      {', '.join(name.removeprefix('node/test_') for name in names[:8])}"


def main(arguments: list[str]) -> None:
    """Print the share that agrees, and the reasons of the others."""
    parts = [argument for argument in arguments if not argument.startswith("--")]
    start = time.process_time()
    passed: list[str] = []
    missing: dict[str, str] = {}
    for name in candidates():
        if parts and not any(part in name for part in parts):
            continue
        try:
            round_trip(name)
            passed.append(name)
        except Exception as error:  # the survey goes on, whatever happens
            missing[name] = reason(error)
    print("\n".join(grouped(missing)))
    share = len(passed) / max(len(passed) + len(missing), 1)
    spent = time.process_time() - start
    print(f"{len(passed)} of {len(passed) + len(missing)} agree: {share:.1%}, in {spent:.0f} s of one core")
    if "--write" in arguments and not parts:
        MANIFEST.write_text("".join(f"{name}\n" for name in passed), encoding="utf-8")
        MISSING.write_text("".join(f"{name}: {missing[name]}\n" for name in sorted(missing)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
