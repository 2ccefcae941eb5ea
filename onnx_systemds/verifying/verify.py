"""Verifies a conversion: runs the script on the engine and the model on onnxruntime, with the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_systemds.backend import SystemDSBackendRep, actual_type, known_content
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.errors import ConstantNeeded, InvalidModel, MultipleErrors, ShapeUnknown, TranspileError, quoted
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.declared_inputs import with_constants, with_types
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.part import part_of
from onnx_systemds.inference.context import Context
from onnx_systemds.inference.infer import infer
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.model.given_inputs import given_values
from onnx_systemds.model.ir import MapType, Model, Node, OptionalType, SequenceType, TensorType, Type, ValueInfo
from onnx_systemds.model.load import load_model
from onnx_systemds.model.protos import dtype_text
from onnx_systemds.model.walk import names_read, nodes_written
from onnx_systemds.runtime.list_transfer import flat_results, nested_inputs
from onnx_systemds.stages import Stages
from onnx_systemds.verifying.comparing import Comparison, compare_tensors
from onnx_systemds.verifying.data_folders import read_contents
from onnx_systemds.verifying.drawing import drawing_nodes
from onnx_systemds.verifying.judging import Judgement, judgement
from onnx_systemds.verifying.narrowest import are_types_mixed, narrowest_types
from onnx_systemds.verifying.random_inputs import RandomInputs, sizes_chosen, sizes_text
from onnx_systemds.verifying.report import NodeComparison, Report

Scored = tuple[Judgement, dict[str, Any]]  # what the judge says, and the outputs of the engine

_VALUES_AT_ONCE = 200  # each value that a script returns is kept until its end


def verify_model(  # noqa: PLR0913 - a public entry point: all but the first two go by name
    source: str | Path | onnx.ModelProto | Model,
    inputs: Mapping[str, Any] | str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    starts: Sequence[str] = (),
    ends: Sequence[str] = (),
    types: Mapping[str, Type] | None = None,
    constants: Mapping[str, Any] | None = None,
    expected: Mapping[str, Any] | None = None,
    per_node: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    stages: Stages | None = None,
    **options: Any,
) -> Report:
    """Run a model on the engine and on a reference runtime, and compare the outputs.

    The judge is onnxruntime; if it is missing or refuses the model, ONNX's reference implementation.
    source: the model; a loaded one must be from a file, which the judge reads as well.
    inputs: contents by name (lists and maps as such, or as arrays NAME/0, NAME/keys, see `nested_inputs`), or a file or
    folder (see `read_contents`); random by default. dims: sizes of symbols, for the conversion and the random inputs.
    starts, ends: the part of the model to verify, see `part_of`. types, constants: see `import_model`; the judge gets
    the constants as inputs. expected: outputs by name, which replace the judge, as do outputs in the folder.
    per_node: whether to compare intermediate values with onnxruntime as well. rtol, atol: see `compare_tensors`.
    stages: collects the stages and their times. options: those of `import_model`.
    Raises TranspileError if the model cannot be converted or no judge runs it, EngineError if the engine fails.
    """
    stages = stages or Stages()
    path, model = _loaded(source)
    model = part_of(model, starts, ends)
    if isinstance(inputs, str | Path):
        inputs, found_beside = read_contents(Path(inputs), model)
        expected = found_beside if expected is None else expected
    graph = with_constants(with_types(model.graph, types or {}), constants or {})
    known = {name: graph.initializers[name] for name in constants or {}}
    part = model.graph if starts or ends else None
    model = replace(model, graph=graph)
    options = {**options, "dims": dims}
    try:
        drawn = None if inputs is not None else RandomInputs(model.graph, dims or {}, seed)
    except TranspileError:
        _check_conversion(model, options)
        raise
    contents = _given(model, inputs or {}) if drawn is None else drawn.contents
    engine = _Engine(model, options)

    def ask(drawn: Mapping[str, Any], further: Sequence[str] = ()) -> Judgement:
        return judgement(path, _fed({**drawn, **known}), further, part)

    def scored(contents: Mapping[str, Any]) -> Scored:
        with stages.stage("judge") as words:  # first: it knows best what is wrong with inputs
            judged = ask(contents) if expected is None else _given_judgement(model, expected)
            words.append(judged.judge)
        with stages.stage("compile and run"):
            return judged, engine.outputs(contents, stages)

    try:
        judged, found = scored(contents)
    except (TranspileError, ScriptRuntimeError) as refused:
        if expected is not None:
            raise
        _check_conversion(model, options)
        drawn, (judged, found) = _with_other_sizes(drawn, dims, refused, scored)
        contents = drawn.contents
    compare = partial(compare_all, rtol=rtol, atol=atol, rounded=engine.rounded_types(contents))
    nodes: list[NodeComparison] = []
    if per_node:
        with stages.stage("node by node") as words:
            nodes = _compared_nodes(engine, contents, ask, compare)
            words.append(f"{len(nodes)} values")
    report = Report(
        judge=judged.judge,
        reasons=judged.reasons,
        given="as given" if drawn is None else f"random, seed {seed}",
        inputs={name: described(content) for name, content in {**contents, **known}.items()},
        sizes=sizes_chosen(drawn, dims),
        required_constants=engine.required_constants,
        outputs=tuple(compare({name: found[name] for name in judged.outputs}, judged.outputs)),
        nodes=tuple(nodes),
        seconds=stages.times(),
    )
    return report if report.passed else replace(report, drawing=engine.drawing_nodes(contents))


def _compared_nodes(
    engine: _Engine, contents: Mapping[str, Any], ask: Callable[[Mapping[str, Any], Sequence[str]], Judgement],
    compare: Callable[[Mapping[str, Any], Mapping[str, Any]], list[Comparison]],
) -> list[NodeComparison]:
    """The intermediate values of the graph compared with those of the judge, in topological order."""
    producers = engine.comparable_values(contents)
    values = engine.values(contents, list(producers))
    expected = ask(contents, list(producers)).outputs
    compared = compare(values, {name: expected[name] for name in producers})
    nodes = [(producers[each.name], each) for each in compared]
    return [NodeComparison(node.label, node.op_type, each) for node, each in nodes]


def _loaded(source: str | Path | onnx.ModelProto | Model) -> tuple[Path | onnx.ModelProto, Model]:
    """The source for the judge, and the loaded model. Raises ValueError for a loaded model that is not from a file."""
    if not isinstance(source, Model):
        return Path(source) if isinstance(source, str) else source, load_model(source)
    if source.path is None:
        raise ValueError("the model is not from a file: give its protobuf")
    return source.path, source


def _check_conversion(model: Model, options: Mapping[str, Any]) -> None:
    """Raise the errors of the conversion that do not depend on the inputs: judges refuse for the same reasons."""
    try:
        import_model(model, **options)
    except TranspileError as error:
        reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
        if not any(isinstance(reason, ConstantNeeded | ShapeUnknown) for reason in reasons):
            raise


def _with_other_sizes(
    drawn: RandomInputs | None, dims: Mapping[str, int] | None, refused: TranspileError | ScriptRuntimeError,
    score: Callable[[Mapping[str, Any]], Scored],
) -> tuple[RandomInputs, Scored]:
    """Inputs with other sizes than those chosen before, and what comes of them: a model may take few sizes.

    Raises ``refused`` where no size was chosen, none that is tried serves, or something else was refused.
    """
    sizes = sizes_chosen(drawn, dims)
    if drawn is None or not sizes or not _may_be_of_sizes(refused):
        raise refused
    refused.hint = f"{refused.hint}; chosen here: {sizes_text(sizes)}".removeprefix("; ")
    for other in drawn.of_other_sizes(dims or {}):
        try:
            return other, score(other.contents)
        except (TranspileError, ScriptRuntimeError) as again:
            if not _may_be_of_sizes(again):
                raise
    raise refused


def _may_be_of_sizes(refused: TranspileError | ScriptRuntimeError) -> bool:
    """Whether a judge has refused the inputs, or a check of the script, which stops outside of any block."""
    return not refused.blocks if isinstance(refused, ScriptRuntimeError) else True


def _given_judgement(model: Model, expected: Mapping[str, Any]) -> Judgement:
    """Outputs that are known. Raises InvalidModel for names that are no outputs."""
    outputs = {output.name for output in model.graph.outputs}
    for name in expected:
        if name not in outputs:
            raise InvalidModel(f"{quoted(name)} is no output of the graph")
    return Judgement("the outputs given", expected)


class _Engine:
    """Runs a model on the engine. required_constants: the inputs whose content was needed at conversion."""

    def __init__(self, model: Model, options: Mapping[str, Any]) -> None:
        self.model = model
        self.options = options
        self.required_constants: tuple[str, ...] = ()

    def outputs(self, contents: Mapping[str, Any], stages: Stages) -> dict[str, Any]:
        """The outputs of the model, by name."""
        return self._run(self.model, contents, stages)

    def values(self, contents: Mapping[str, Any], wanted: list[str]) -> dict[str, Any]:
        """The ``wanted`` values, by name."""
        found: dict[str, Any] = {}
        for start in range(0, len(wanted), _VALUES_AT_ONCE):
            outputs = tuple(ValueInfo(name, None) for name in wanted[start : start + _VALUES_AT_ONCE])
            model = replace(self.model, graph=replace(self.model.graph, outputs=outputs))
            found |= self._run(model, contents)
        return found

    def _run(self, model: Model, contents: Mapping[str, Any], stages: Stages | None = None) -> dict[str, Any]:
        prepared = SystemDSBackendRep(model, **self.options, stages=stages)
        try:
            outputs = prepared.run(contents)
        finally:
            prepared.close()
        self.required_constants = prepared.required_constants
        return {output.name: content for output, content in zip(model.graph.outputs, outputs)}

    def typed(self, contents: Mapping[str, Any]) -> TypedGraph:
        """The inferred types of all values of the original graph, for these contents."""
        types = {given.name: given.type for given in self.model.graph.inputs}
        known = {name: known_content(types[name], contents[name]) for name in self.required_constants}
        actual = {name: actual_type(type_, contents[name]) for name, type_ in types.items()
                  if not isinstance(type_, MapType)}
        graph = with_constants(with_types(self.model.graph, actual), known)
        written = nodes_written(graph, self.model.functions)
        return infer(graph, Context({}, self.model.functions, simplify=False, written=written))

    def rounded_types(self, contents: Mapping[str, Any]) -> dict[str, str]:
        """The narrowest float type on the path to each value, if the model has several float types."""
        if not are_types_mixed(self.model.graph, self.model.functions):
            return {}
        return narrowest_types(self.typed(contents))

    def drawing_nodes(self, contents: Mapping[str, Any]) -> tuple[str, ...]:
        """What messages call the nodes that draw random numbers."""
        return tuple(node.label for node in drawing_nodes(self.typed(contents)))

    def comparable_values(self, contents: Mapping[str, Any]) -> dict[str, Node]:
        """The used tensors that nodes of the graph compute, in topological order, with their nodes."""
        typed = self.typed(contents)
        used = {output.name for output in self.model.graph.outputs}
        used.update(name for node in self.model.graph.nodes for name in names_read(node))
        return {
            name: node
            for node in self.model.graph.nodes
            for name in node.outputs
            if name in used and node.identity != ("", "Constant") and _is_tensor(typed.values.get(name))
        }


def compare_all(
    found: Mapping[str, Any], expected: Mapping[str, Any], rtol: float | None, atol: float | None,
    rounded: Mapping[str, str],
) -> list[Comparison]:
    """Compare values by name; the items of lists and the values of maps are compared one by one.

    rounded: the narrowest float type on the way to a value, if that is not its own.
    """
    actual = flat_results(found)
    judged = flat_results({name: _as_array(content) for name, content in expected.items()})
    comparisons = [
        compare_tensors(name, actual[name], array, rtol, atol, rounded.get(name, ""))
        if name in actual
        else Comparison(name, str(array.dtype), array.shape, problem="it is missing")
        for name, array in judged.items()
    ]
    surplus = [Comparison(name, str(actual[name].dtype), actual[name].shape, problem="the judge has none")
               for name in actual if name not in judged]
    return comparisons + surplus


def _as_array(content: Any) -> Any:
    """A plain number of the judge as an array; other contents as they are."""
    return np.asarray(content) if np.isscalar(content) else content


def _is_tensor(value: Value | None) -> bool:
    return value is not None and value.type is None and bool(value.dtype) and value.dims is not None and not value.keys


def _given(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as declared, with lists and maps instead of their arrays. Raises InvalidInput."""
    ports = [Port(given.name, "float", (), _port_kind(given.type)) for given in model.graph.inputs
             if given.name not in inputs]
    nested = nested_inputs([port for port in ports if port.kind != "tensor"], inputs)
    return given_values(nested, {given.name: given.type for given in model.graph.inputs})


def _port_kind(type_: Type | None) -> str:
    if isinstance(type_, OptionalType):
        return "optional" if isinstance(type_.element, TensorType) else "optional sequence"
    return "sequence" if isinstance(type_, SequenceType) else "map" if isinstance(type_, MapType) else "tensor"


def _fed(contents: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs for a judge: without absent optionals, strings as objects."""
    return {
        name: content.astype(object) if isinstance(content, np.ndarray) and content.dtype.kind == "U" else content
        for name, content in contents.items()
        if content is not None
    }


def described(content: Any) -> str:
    """The type and dims of an input as text."""
    if isinstance(content, np.ndarray):
        return f"{dtype_text(content)} {list(content.shape)}"
    if isinstance(content, list):
        return f"[{', '.join(map(described, content))}]"
    return "absent" if content is None else f"{type(content).__name__} of {len(content)}"
