"""DML -> ONNX: `export_script` makes a model of a whole script or of one of its functions."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.listing import function_named
from onnx_systemds.dml.parser import parse_file, parse_script
from onnx_systemds.errors import ScriptPlace, TranspileError, UnsupportedCase, quoted, quoted_list, raise_all
from onnx_systemds.exporting.builtins import load_builtins
from onnx_systemds.exporting.builtins.files import leaves, result_tensor
from onnx_systemds.exporting.checked_dims import checked_dims
from onnx_systemds.exporting.evaluating.blocks import execute
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.evaluating.inlining import inline
from onnx_systemds.exporting.evaluating.modules import Module, Modules
from onnx_systemds.exporting.evaluating.rules import RULES
from onnx_systemds.exporting.external_data import ExternalData
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.interface import InputSpec, Interface, ScriptFiles
from onnx_systemds.exporting.loaded_weights import shown_folder, with_loaded_weights
from onnx_systemds.exporting.model_writer import write_model
from onnx_systemds.exporting.poison_values import identity, unique
from onnx_systemds.exporting.provenance import Provenance
from onnx_systemds.exporting.sources import SourceFiles, jar_script
from onnx_systemds.exporting.values import ListValue, Poison, Value
from onnx_systemds.inference.dims import Dim
from onnx_systemds.stages import Stages

FUNCTIONS = ("inline", "keep")
_STACK = 20000
_MOST_RESULTS = 10


def export_script(  # noqa: PLR0913 - a public entry point: all but the first two go by name
    source: str | Path | tree.Script,
    function: str | None = None,
    *,
    inputs: Mapping[str, InputSpec | str] | None = None,
    bindings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    opset: int | None = None,
    outputs: Sequence[str] | None = None,
    folder: str | Path | None = None,
    functions: str = "inline",
    iterative: bool = False,
    random: bool = False,
    notes: list[str] | None = None,
    external: ExternalData | None = None,
    files: ScriptFiles | None = None,
    stages: Stages | None = None,
) -> onnx.ModelProto:
    """Return the ONNX model of `source`: a path, the text of a script, or its syntax tree.

    function: the function to export; its parameters become inputs, its results outputs. By default the whole script is
    exported: what it reads becomes inputs, what it writes outputs.
    inputs: type and dims by name, as InputSpec or ``"double[N,784]"``.
    bindings: values of parameters or of files that are read (numbers, arrays, lists of them); they become constants.
    arguments: values of ``$name``. outputs: the results to export; all by default. folder: the folder to which paths in
    ``source(...)`` are relative. functions: "inline" calls into the graph, or "keep" functions in the model.
    iterative: whether to export eigenvalues and singular values, by a fixed number of Jacobi rotations.
    random: whether to export ``rand(seed=)`` of sizes that only the run knows; the model then draws its own numbers.
    The other arguments collect information. notes: what the model omits or rounds. external: weights for a separate
    file (see `export_file`). files: what the script reads and writes. stages: the stages and their times.
    Raises TranspileError with all reasons.
    """
    load_builtins()
    if functions not in FUNCTIONS:
        raise TranspileError(f"functions={functions!r} is not possible", hint=f"one of {', '.join(FUNCTIONS)}")
    stages = stages or Stages()
    script = _script(source)
    graph = Operators(dtype, opset)
    specs = {name: _spec(name, spec) for name, spec in (inputs or {}).items()}
    interface = Interface(graph, specs, bindings or {}, outputs if function is None else None, files)
    modules = Modules(SourceFiles(folder))
    module = modules.of(script if function is None else with_loaded_weights(script, function, bindings or {}))
    evaluator = Evaluator(RULES, graph, modules, module, arguments or {}, interface, outline=functions == "keep")
    evaluator.context.iterative, evaluator.context.random = iterative, random
    with stages.stage("run symbolically") as words, _deep_recursion():
        if function is None:
            execute(evaluator, script.statements, frozenset)
        else:
            _run_function(evaluator, module, function, outputs)
        words.append(f"{len(graph.main.nodes)} nodes")
    _check_finished(evaluator, script)
    name = re.sub(r"\W", "_", function or Path(script.file).stem) or "script"
    with stages.stage("join and write") as words:
        model = write_model(graph, name, Provenance(script, function, folder), external)
        words.append(f"{len(model.graph.node)} nodes")
    if notes is not None:
        notes += _notes(evaluator, script, arguments or {})
    return model


def _notes(evaluator: Evaluator, script: tree.Script, arguments: Collection[str]) -> list[str]:
    """Return what the model omits or rounds, and which arguments have no effect."""
    context = evaluator.context
    unasked = [f"nothing asks for the argument ${name}" for name in arguments if name not in context.asked]
    return [*script.warnings, *unasked, *context.dropped, *evaluator.graph.notes]


def _check_finished(evaluator: Evaluator, script: tree.Script) -> None:
    """Raise TranspileError for what was refused, for a script without outputs, and for inputs that nothing asks for."""
    _advise(evaluator)
    evaluator.reasons.raise_any("the script cannot be exported")
    interface = evaluator.context.interface
    interface.check_wanted()
    if not evaluator.graph.outputs:
        names = ", ".join(script.functions)
        hint = f"name a function ({names}), or write a result" if names else "write a result: write(Y, \"Y\")"
        none = TranspileError("the script has no result that could be an output", script.file, hint)
        raise_all([*_poison_reasons(evaluator), none], "the script cannot be exported")
    unused = interface.unused()
    if unused:
        hint = f"what is asked for: {', '.join(sorted(interface.used))}" if interface.used else ""
        raise TranspileError(f"nothing in the script asks for {quoted_list(unused)}", script.file, hint)


def _advise(evaluator: Evaluator) -> None:
    """Let the last reason say which results can be exported, where all reasons are against some results alone."""
    reasons, results = evaluator.reasons.errors, [name for name, _ in evaluator.graph.outputs]
    against = evaluator.refused_results()
    if results and reasons and set(map(identity, reasons)) == set().union(*against.values()):
        few = len(results) <= _MOST_RESULTS
        asked = " ".join(f"--result {name}" for name in results) if few else "--result NAME ..."
        advice = f"leave out {quoted_list(against)}: {asked}"
        reasons[-1].hint = f"{reasons[-1].hint}; or {advice}" if reasons[-1].hint else advice


def _script(source: str | Path | tree.Script) -> tree.Script:
    """Return the tree of a source; a text is a path unless it holds a line break, and may be one inside the jar."""
    if isinstance(source, tree.Script):
        return source
    if isinstance(source, Path) or ("\n" not in source and (source.endswith(".dml") or Path(source).is_file())):
        if not Path(source).is_file():
            found = jar_script(str(source))
            if found is not None:
                return found
        return parse_file(source)
    return parse_script(source)


def _run_function(evaluator: Evaluator, module: Module, name: str, outputs: Sequence[str] | None) -> None:
    """Run one function: parameters become inputs unless they are bound, results become outputs."""
    function = function_named(module.script, name)
    wanted = [result.name for result in function.results] if outputs is None else list(outputs)
    if unknown := [output for output in wanted if output not in scopes.results(function)]:
        raise TranspileError(f"the function {name} has no result {quoted(unknown[0])}", module.script.file)
    dims = checked_dims(function, evaluator.context.interface.dims_given())
    given: dict[str, Value] = {}
    for parameter in function.parameters:
        try:
            value = _parameter(evaluator, parameter, dims.get(parameter.name))
        except TranspileError as error:
            evaluator.reasons.add(evaluator.placed(error, parameter.position))
            value = Poison()
        if value is not None:
            given[parameter.name] = value
    evaluator.reasons.raise_any("the inputs of the function cannot be exported")
    node = tree.Call(name, position=ScriptPlace(module.script.file, 0, 0))
    results = inline(evaluator, node, function, module, given)
    taken = {tensor.hint for tensor in evaluator.graph.inputs}
    for result, value in zip(function.results, results):
        if result.name not in wanted:
            continue
        shown = result.name if result.name not in taken else f"{result.name}_out"
        _output(evaluator, shown, value, result)


def _parameter(evaluator: Evaluator, parameter: tree.Parameter, dims: tuple[Dim, Dim] | None) -> Value | None:
    """Return the value of a parameter: bound, an input, or None where its default serves."""
    interface, name = evaluator.context.interface, parameter.name
    bound = interface.bound(name)
    if bound is not None:
        return bound
    if name not in interface.specs and parameter.default is not None:
        return None
    kind = parameter.type.kind
    if kind in ("matrix", "frame"):
        return interface.input(name, dims=dims, frame=kind == "frame")
    if kind == "scalar" and parameter.type.value in ("int", "double", "boolean"):
        return interface.input(name, scalar_type=parameter.type.value)
    value = '\'"text"\'' if kind == "scalar" else "FILE"
    if kind == "list":
        value = shown_folder(evaluator.frame.module.script) or value
    raise UnsupportedCase(f"the parameter {name} is a {parameter.type} and must be bound to a value",
                          hint=f"bind it: --weight {name}={value}")


def _poison_reasons(evaluator: Evaluator) -> tuple[TranspileError, ...]:
    """Return why statements were refused whose results nothing has read."""
    poison = (value for value in evaluator.frame.variables.values() if isinstance(value, Poison))
    return unique(error for value in poison for error in value.errors)


def _output(evaluator: Evaluator, name: str, value: Value, result: tree.Parameter) -> None:
    for (*_, own), item in leaves((name,), value):
        if isinstance(item, Poison):
            reason = evaluator.placed(UnsupportedCase(f"{own} {item.reason}"), result.position)
            evaluator.refuse(item.errors or (reason,), own)
        elif not isinstance(item, ListValue):  # an empty one
            evaluator.context.interface.write(own, result_tensor(evaluator.context, item))


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Allow the depth that nested calls of inlined functions need."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _STACK))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _spec(name: str, given: object) -> InputSpec:
    """Type and dims of an input as they are given. Raises TranspileError."""
    if isinstance(given, InputSpec):
        return given
    if not isinstance(given, str):
        raise TranspileError(f"the input {quoted(name)} is given as {type(given).__name__}, not as its type and dims",
                             hint='write them as "double[N,784]"; bindings give contents')
    return InputSpec.parse(given)
