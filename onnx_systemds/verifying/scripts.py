"""Verifies an export: runs the script on the engine and its model on onnxruntime, with the same inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.array_files import named_arrays, read_array_file
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_file
from onnx_systemds.engine.programs import run_program
from onnx_systemds.errors import TranspileError, quoted_list
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.interface import ScriptFiles
from onnx_systemds.exporting.loaded_weights import with_loaded_weights
from onnx_systemds.exporting.weight_files import read_value
from onnx_systemds.model.given_inputs import InvalidInput, given_values
from onnx_systemds.model.load import load_model
from onnx_systemds.stages import Stages
from onnx_systemds.verifying.comparing import Array, Comparison, compare_tensors
from onnx_systemds.verifying.given_files import copy_value, is_described, write_value
from onnx_systemds.verifying.judging import judgement
from onnx_systemds.verifying.programs import Copies, write_call
from onnx_systemds.verifying.random_inputs import RandomInputs, sizes_chosen, sizes_text
from onnx_systemds.verifying.report import Report
from onnx_systemds.verifying.verify import described
from onnx_systemds.verifying.written import alike, outputs_of


def verify_script(  # noqa: PLR0913 - a public entry point: all but the first three go by name
    source: str | Path | tree.Script,
    function: str | None = None,
    inputs: Mapping[str, Any] | str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    specs: Mapping[str, Any] | None = None,
    bindings: Mapping[str, Any] | None = None,
    weight_files: Mapping[str, Path] | None = None,
    stages: Stages | None = None,
    **options: Any,
) -> Report:
    """Export a script or a function of it, run script and model, and compare the outputs.

    The engine runs a copy of the script with other files: those that it reads hold the inputs of the model, and what it
    writes is compared with the outputs.
    source: a script on disk, or its syntax tree. function: None for the whole script. inputs: contents by name, or a
    file of them as numpy writes it; random by default. dims: sizes of symbols. rtol, atol: see `compare_tensors`.
    specs, bindings: ``inputs`` and ``bindings`` of `export_script`. weight_files: the files of bound values; files in
    the engine's formats are copied unchanged.
    stages: collects the stages and their times. options: other options of `export_script`.
    Raises TranspileError, EngineError.
    """
    stages = stages or Stages()
    script = source if isinstance(source, tree.Script) else parse_file(source)
    files = ScriptFiles()
    model = export_script(script, function, inputs=specs, bindings=bindings, files=files, stages=stages, **options)
    graph = load_model(model).graph
    if isinstance(inputs, str | Path):
        inputs = named_arrays(read_array_file(Path(inputs)), [port.name for port in graph.inputs], Path(inputs))
    drawn = None if inputs is not None else RandomInputs(graph, dims or {}, seed)
    if drawn is not None:
        drawn.check_sizes()
    given = inputs or {} if drawn is None else drawn.contents
    contents = given_values(given, {port.name: port.type for port in graph.inputs})
    if empty := [name for name, content in contents.items() if content.size == 0]:
        raise InvalidInput(f"no elements in {quoted_list(empty)}: the engine reads no such file")
    chosen = sizes_chosen(drawn, dims)
    with stages.stage("judge") as words:
        try:
            model_side = judgement(model, contents)
        except TranspileError as refused:
            refused.hint = _advice(chosen, contents) if drawn is not None else refused.hint
            raise
        words.append(model_side.judge)
    with stages.stage("compile and run"), tempfile.TemporaryDirectory(prefix="onnx-systemds-") as folder:
        values = {**(bindings or {}), **contents, **_of_the_engine(weight_files or {})}
        copies = Copies(Path(folder), options.get("arguments") or {}, files)
        if function is None:
            computed = _run_script(script, copies, files, values, model_side.outputs)
        else:
            loaded = with_loaded_weights(script, function, bindings or {})
            computed = _run_function(loaded, loaded.functions[function], copies, values)
    found = {name: np.asarray(output) for name, output in model_side.outputs.items()}
    return Report(
        judge=f"SystemDS, for the model on {model_side.judge}",
        reasons=model_side.reasons,
        given="as given" if drawn is None else f"random, seed {seed}",
        inputs={name: described(content) for name, content in contents.items()},
        sizes=chosen,
        required_constants=(),
        outputs=_compared(found, computed, rtol, atol),
        seconds=stages.times(),
    )


def _advice(chosen: Mapping[str, int], contents: Mapping[str, Array]) -> str:
    """What may help where random contents stop the model."""
    texts = [name for name, content in contents.items() if content.dtype.kind in "OU"]
    unfit = []
    if chosen:
        unfit.append(f"sizes chosen here may not fit each other: {sizes_text(chosen)}; give those that do by "
                     "--dim NAME=SIZE or --input NAME=TYPE[DIMS], or what a parameter holds by --weight")
    if texts:
        unfit.append(f"texts chosen here may mean nothing to the model: give {quoted_list(texts)} by --inputs")
    return "; ".join(unfit)


def _compared(
    found: Mapping[str, Array], computed: Mapping[str, Any], rtol: float | None, atol: float | None
) -> tuple[Comparison, ...]:
    """Compare the outputs of the model with what the engine wrote, by the name of each file."""
    expected: dict[str, Any] = {}
    for file, value in computed.items():
        expected |= outputs_of(file, value, found)
    comparisons = []
    for name, output in found.items():
        value = next((expected[each] for each in (name, name.removesuffix("_out")) if each in expected), None)
        if value is None or isinstance(value, Exception):
            problem = "the engine has not written it" if value is None else str(value)
            comparisons.append(Comparison(name, str(output.dtype), output.shape, problem=problem))
        else:
            comparisons.append(compare_tensors(name, output, shaped(value, output), rtol, atol))
    return tuple(comparisons)


def shaped(value: Any, output: Array) -> Array:
    """What the engine wrote in the type and dims of an output, if they have as many elements, in the same order."""
    matrix = alike(value, output)
    if matrix.size != output.size:
        return matrix
    with np.errstate(invalid="ignore", over="ignore"):
        return matrix.reshape(output.shape).astype(output.dtype)


def _run_script(
    script: tree.Script, copies: Copies, files: ScriptFiles, values: Mapping[str, Any], outputs: Iterable[str]
) -> dict[str, Any]:
    """What a script writes, by the names of the outputs. Raises EngineError."""
    for path, file in files.read.items():
        _give(copies.place(path), values[file.name], file.data_type, file.value_type, by_texts=file.by_texts,
              columns=file.columns)
    given = _described(copies.root)
    run_program(copies.of(script), copies.arguments)
    written = {name: copies.place(path) for path, name in files.written.items()}
    others = _described(copies.root) - given - set(written.values())
    unknown = [name for name in outputs if not any(f"{name}_".startswith(f"{known}_") for known in written)]
    if len(others) == len(unknown) == 1:  # the run names it
        written[unknown[0]] = others.pop()
    return {name: _value(path) for name, path in written.items() if path.exists()}


def _run_function(
    script: tree.Script, function: tree.Function, copies: Copies, values: Mapping[str, Any]
) -> dict[str, Any]:
    """What a function gives, by the names of its results. Raises EngineError."""
    given = {each.name: copies.place(f"in/{each.name}") for each in function.parameters if each.name in values}
    results = {result.name: copies.place(f"out/{result.name}") for result in function.results}
    for parameter in function.parameters:
        if parameter.name in given:  # else its default serves
            kind = parameter.type
            _give(given[parameter.name], values[parameter.name], kind.kind, kind.value)
    copies.place("out").mkdir(parents=True)
    program = copies.place("program.dml")
    write_call(program, copies.of(script), function, given, results)
    run_program(program, copies.arguments)
    return {name: _value(path) for name, path in results.items() if path.exists()}


def _of_the_engine(files: Mapping[str, Path]) -> dict[str, Path]:
    """The files that the engine wrote."""
    return {name: path for name, path in files.items() if is_described(path)}


def _give(
    path: Path, value: Any, data_type: str, value_type: str, *, by_texts: bool = False, columns: Sequence[str] = ()
) -> None:
    """Put a value, or a file of the engine, where a program reads it."""
    if isinstance(value, Path):
        copy_value(path, value)
    else:
        write_value(path, value, data_type, value_type, by_texts=by_texts, columns=columns)


def _described(folder: Path) -> set[Path]:
    """The files of the engine in a folder and below; of lists the items, too."""
    return {path.with_suffix("") for path in folder.rglob("*.mtd")}


def _value(path: Path) -> Any:
    """What is in a file, or why it cannot be read."""
    try:
        return read_value(path)
    except (TranspileError, OSError) as error:
        return error
