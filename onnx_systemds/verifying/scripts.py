"""Verify an export: a function of a script on the engine, the model that it became on onnxruntime, the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.parser import parse_file
from onnx_systemds.dml.printer import string_text
from onnx_systemds.engine import shared_session
from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting.export import export_script
from onnx_systemds.exporting.sources import JAR_PREFIX, SourceFiles
from onnx_systemds.model.given_inputs import given_values
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.boundary_tensors import boundary_matrix
from onnx_systemds.stages import Stages
from onnx_systemds.verifying.comparing import Array, Comparison, compare_tensors
from onnx_systemds.verifying.judging import judgement
from onnx_systemds.verifying.random_inputs import RandomInputs, sizes_chosen, sizes_text
from onnx_systemds.verifying.report import Report
from onnx_systemds.verifying.verify import described

_VERIFIED = "verified.dml"


def verify_script(  # noqa: PLR0913 - a public entry point: all but the first three go by name
    source: str | Path | tree.Script,
    function: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    specs: Mapping[str, Any] | None = None,
    bindings: Mapping[str, Any] | None = None,
    stages: Stages | None = None,
    **options: Any,
) -> Report:
    """Export a function of a script, run both, and compare the model's outputs with what the engine computes.

    source: a script on disk, or its tree. inputs: contents by name; random ones when there are none. dims: sizes of the
    names in dims. specs, bindings: ``inputs`` and ``bindings`` of `export_script`, as are the other options. stages:
    takes what was done, and how long it took. Raises TranspileError, EngineError.
    """
    stages = stages or Stages()
    script = source if isinstance(source, tree.Script) else parse_file(source)
    model = export_script(script, function, inputs=specs, bindings=bindings, stages=stages, **options)
    graph = load_model(model).graph
    drawn = None if inputs is not None else RandomInputs(graph, dims or {}, seed)
    if drawn is not None:
        drawn.check_sizes()
    given = inputs or {} if drawn is None else drawn.contents
    contents = given_values(given, {port.name: port.type for port in graph.inputs})
    chosen = sizes_chosen(drawn, dims)
    with stages.stage("judge") as words:
        try:
            model_side = judgement(model, contents)
        except TranspileError as refused:
            if chosen:
                refused.hint = (f"sizes chosen here may not fit each other: {sizes_text(chosen)}; give those that do "
                                "by --dim NAME=SIZE or --input NAME=TYPE[DIMS], or what a parameter holds by --weight")
            raise
        words.append(model_side.judge)
    with stages.stage("compile and run"):
        engine_side = _run(script, script.functions[function], contents, bindings or {}, options.get("arguments") or {})
    return Report(
        f"SystemDS, for the model on {model_side.judge}",
        model_side.reasons,
        "as given" if drawn is None else f"random, seed {seed}",
        {name: described(content) for name, content in contents.items()},
        chosen,
        (),
        tuple(_compared(name, np.asarray(found), engine_side, rtol, atol)
              for name, found in model_side.outputs.items()),
        seconds=stages.times(),
    )


def _compared(
    name: str, found: Array, computed: Mapping[str, Array], rtol: float | None, atol: float | None
) -> Comparison:
    """Compare an output with the engine's matrix, which has its elements in the same order."""
    matrix = computed[name if name in computed else name.removesuffix("_out")]
    if matrix.size == found.size:
        with np.errstate(invalid="ignore", over="ignore"):
            matrix = matrix.reshape(found.shape).astype(found.dtype)
    return compare_tensors(name, found, matrix, rtol, atol)


def _run(
    script: tree.Script, function: tree.Function, contents: Mapping[str, Array], bindings: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> dict[str, Array]:
    """What the engine computes, by the names of the function's results. Raises UnsupportedCase for lists and texts."""
    lines = [f'source("{_VERIFIED}") as verified']
    matrices: dict[str, Array] = {}
    given: list[str] = []
    for parameter in function.parameters:
        name = parameter.name
        if name not in contents and name not in bindings:
            continue  # its default serves
        content = contents[name] if name in contents else bindings[name]
        if isinstance(content, str | bool | int | float):
            given.append(f"{name}={string_text(content) if isinstance(content, str) else literal(content)}")
            continue
        if isinstance(content, Mapping | list | tuple):
            raise UnsupportedCase(f"the parameter {name} is a list: only numbers can be verified")
        matrices[f"in_{name}"] = boundary_matrix(np.asarray(content))
        lines.append(f'in_{name} = read("./in_{name}")')
        given.append(f"{name}={_as_parameter(parameter, f'in_{name}')}")
    results = {result.name: f"out_{result.name}" for result in function.results}
    for result in function.results:
        if result.type.kind not in ("matrix", "scalar") or result.type.value == "string":
            raise UnsupportedCase(f"the result {result.name} is a {result.type}: only numbers can be verified")
    target = ", ".join(results.values())
    lines.append(f"{f'[{target}]' if len(results) > 1 else target} = verified::{function.name}({', '.join(given)})")
    for result in function.results:
        name = results[result.name]
        if result.type.kind == "scalar":
            lines.append(f"{name} = as.matrix(as.double({name}))")
        lines.append(f'write({name}, "./{name}")')
    prepared = shared_session().prepare(
        "\n".join(lines) + "\n", list(matrices), list(results.values()), sources=_sources(script),
        args={name: str(value) for name, value in arguments.items()},
    )
    try:
        computed = prepared(matrices)
    finally:
        prepared.close()
    return {name: computed[identifier] for name, identifier in results.items()}


def _as_parameter(parameter: tree.Parameter, matrix: str) -> str:
    """A matrix as what the function declares."""
    if parameter.type.kind != "scalar":
        return matrix
    number = f"as.scalar({matrix})"
    return {"int": f"as.integer({number})", "boolean": f"({number} != 0)"}.get(parameter.type.value, number)


def _sources(script: tree.Script) -> dict[str, str]:
    """The texts of the script and of those that it imports, by the paths as they are written; not those of SystemDS."""
    files = SourceFiles()
    texts = {_VERIFIED: script.text}
    stack = [script]
    while stack:
        importing = stack.pop()
        for node in tree.walk(importing):
            if not isinstance(node, tree.Source) or node.path in texts:
                continue
            found = files.namespace(importing, node.namespace)
            if found is not None and not found.file.startswith(JAR_PREFIX):
                texts[node.path] = found.text
                stack.append(found)
    return texts
