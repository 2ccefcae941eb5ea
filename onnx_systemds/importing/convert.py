"""ONNX -> DML: the stages in their order."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import onnx

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.names import generate_function_name, legal_identifier
from onnx_systemds.dml.templates import is_library_function
from onnx_systemds.errors import UnsupportedCase, escaped, quoted
from onnx_systemds.importing.assemble import render_main, script_function_names
from onnx_systemds.importing.batch_statistics import compare_rows, with_given_statistics, with_moved_statistics
from onnx_systemds.importing.batching import Batching, with_single_samples
from onnx_systemds.importing.body import Progress
from onnx_systemds.importing.comments import comment_lines
from onnx_systemds.importing.declared_inputs import with_constants, with_types
from onnx_systemds.importing.dropout import with_drawn_dropout, without_dropout
from onnx_systemds.importing.garbage_collection import rare_garbage_collection
from onnx_systemds.importing.gradients import (
    Derived,
    candidates,
    weights_behind,
    with_derivatives,
    with_gradients,
    with_influence,
    with_trainable,
)
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.passes.counted_rows import with_counted_rows
from onnx_systemds.importing.passes.defined_variables import check_defined
from onnx_systemds.importing.passes.hidden_zeros import with_hidden_zeros
from onnx_systemds.importing.passes.pass_list import with_passes
from onnx_systemds.importing.results import NO_GRADIENTS, Gradients
from onnx_systemds.importing.script import Script
from onnx_systemds.importing.value_names import short_value_names
from onnx_systemds.inference.context import Context, given_sizes
from onnx_systemds.inference.equal_sizes import equal_input_sizes
from onnx_systemds.inference.infer import infer
from onnx_systemds.inference.integer_spans import LIMIT
from onnx_systemds.inference.notes import Notes, note_lines
from onnx_systemds.inference.passes import LAYER_CHANGING_PASSES, check_omitted, simplify
from onnx_systemds.inference.single_precision import values_in_single_precision
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.wide_integers import TYPES, WideIntegers
from onnx_systemds.model.ir import Array, MapType, Model, OptionalType, Type
from onnx_systemds.model.load import load_model
from onnx_systemds.model.walk import nodes_written
from onnx_systemds.operators.rendering.script_parts import ScriptParts
from onnx_systemds.stages import Stages

_MOST_METADATA = 20
_WIDTH = 118  # of a line of the header
WEIGHTS_MODES = ("auto", "inline", "files")
FUNCTIONS_MODES = ("flat", "blocks", "keep")
STYLES = ("plain", "nn")


@rare_garbage_collection()
def import_model(  # noqa: PLR0913 - a public entry point: all but the first go by name
    source: str | Path | bytes | onnx.ModelProto | Model,
    *,
    function_name: str | None = None,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Array | Sequence[Array]] | None = None,
    types: Mapping[str, Type] | None = None,
    weights: str = "auto",
    functions: str | None = None,
    style: str = "plain",
    simplified: bool = True,
    omitted: Collection[str] = (),
    specialised: bool = True,
    gradients: Sequence[str] = (),
    fixed: Sequence[str] = (),
    progress: Progress | None = None,
    stages: Stages | None = None,
) -> Script:
    """Convert an ONNX model to a DML script.

    source: a path, the bytes of a file, or a loaded model. function_name: by default ``gen_<graph name>``.
    dims: sizes by symbol. constants: contents by the names of graph inputs, which become initializers; a sequence is a
    list of arrays. types: types of graph inputs whose declared type leaves the rank open.
    weights: "files" beside the script, "inline", or "auto" by size ("files" in the style "nn").
    functions: "flat": all nodes are in the main function. "keep": the model's own functions with at least 4 nodes are
    functions of the script. "blocks": repeated blocks of nodes are as well. None: "blocks" if that makes the script a
    fifth shorter, else "keep".
    style: "plain", or "nn": layers call SystemDS's ``nn/layers``, with the weights as they were trained.
    simplified: whether to simplify the graph first (the results are equal). omitted: names in `OPTIONAL_PASSES` of
    passes to skip. specialised: whether to specialise the script if all sizes are known (the results are equal up to
    rounding). gradients: "weights", "inputs" or names of either: functions ``<function_name>_forward`` and
    ``<function_name>_backward`` derive the outputs by them, and the script is not specialised; a Dropout or
    BatchNormalization that trains does so in these alone. fixed: names of weights that "weights" does not mean.
    progress: called with the number of nodes rendered so far. stages: collects the stages, their times, and what passes
    did.
    Raises TranspileError with all reasons if the model cannot be converted, ValueError for a wrong ``weights``,
    ``functions``, ``style``, ``omitted`` or ``function_name``.
    """
    _check_options(weights, functions, style, omitted, function_name)
    omitted = {*omitted, *LAYER_CHANGING_PASSES} if style == "nn" else omitted
    model = source if isinstance(source, Model) else load_model(source)
    stages = stages or Stages()
    model = replace(model, graph=with_constants(with_types(model.graph, types or {}), constants or {}))
    if style == "nn":
        weights = "files" if weights == "auto" else weights  # short ones are trained on, too
    writing = Writing(weights, functions, style, specialised and style == "plain", trained=bool(gradients))
    typing = partial(typed_model, dims=dims, simplified=simplified, omitted=omitted, stages=stages)
    if not gradients:
        return script_of(typing(model, keeps_functions=functions != "flat"), function_name, writing, progress, stages)
    words = (gradients,) if isinstance(gradients, str) else gradients
    derived = derived_of(typing, model, words, (fixed,) if isinstance(fixed, str) else fixed)
    return script_with_derivatives(typing, model, derived, function_name, writing, stages)


def _check_options(
    weights: str, functions: str | None, style: str, omitted: Collection[str], function_name: str | None
) -> None:
    """Raise ValueError for options of `import_model` that there are not."""
    if weights not in WEIGHTS_MODES:
        raise ValueError(f"weights is one of {', '.join(WEIGHTS_MODES)}, not {weights!r}")
    if functions not in (None, *FUNCTIONS_MODES):
        raise ValueError(f"functions is one of {', '.join(FUNCTIONS_MODES)}, not {functions!r}")
    if style not in STYLES:
        raise ValueError(f"style is one of {', '.join(STYLES)}, not {style!r}")
    check_omitted(omitted)
    if function_name is not None and legal_identifier(function_name) != function_name:
        raise ValueError(f"{function_name!r} is no DML identifier, or a word of DML")
    if function_name is not None and is_library_function(function_name):
        raise ValueError(f"{function_name!r} is the name of a function that scripts may hold beside the main one")


@dataclass(frozen=True, slots=True)
class Writing:
    """Options of the script, see `import_model`."""

    weights: str = "auto"
    functions: str | None = None
    style: str = "plain"
    specialised: bool = True
    trained: bool = False


Typing = Callable[..., "TypedModel"]
"""`typed_model` of the options of a conversion."""


@dataclass(frozen=True, slots=True)
class TypedModel:
    """A model with the dtype and dims of every value. context: collects the reasons why it cannot be converted."""

    model: Model
    graph: TypedGraph
    context: Context


@rare_garbage_collection()
def typed_model(
    model: Model, dims: Mapping[str, int] | None = None, *, keeps_functions: bool = True, simplified: bool = True,
    omitted: Collection[str] = (), stages: Stages | None = None,
) -> TypedModel:
    """The model after simplification and type inference, see `import_model`. Raises TranspileError."""
    stages, graph, notes = stages or Stages(), model.graph, Notes()
    in_context = partial(
        Context, functions=model.functions, keeps_functions=keeps_functions, simplify=simplified,
        omitted=frozenset(omitted), written=nodes_written(graph, model.functions),
    )
    if simplified:
        with stages.stage("simplify") as words:
            words.append(f"{len(graph.nodes)} nodes")
            graph = simplify(graph, notes, omitted)
            words.append(f"{len(graph.nodes)} after it")
    with stages.stage("infer types") as words:
        given = given_sizes(dims)
        context = in_context(given, notes=notes.copy())
        typed = infer(graph, context)
        if equal := {} if context.errors else equal_input_sizes(typed):
            context = in_context({**given, **equal}, notes=notes)
            typed = infer(graph, context)
        words += [f"{len(typed.nodes)} nodes", *(f"{name} is {size}" for name, size in equal.items())]
    return TypedModel(model, typed, context)


@rare_garbage_collection()
def script_of(
    source: TypedModel,
    function_name: str | None = None,
    writing: Writing = Writing(),
    progress: Progress | None = None,
    stages: Stages | None = None,
) -> Script:
    """The script of a typed model; see `import_model`. Raises TranspileError with all reasons against it."""
    stages = stages or Stages()
    function = function_name or generate_function_name(source.model.graph.name)
    parts = ScriptParts(writing.weights, source.model.release, script_function_names(function), writing.style)
    return _script_of(source, function, parts, writing, progress, stages)


def derived_of(typing: Typing, model: Model, words: Sequence[str], fixed: Sequence[str] = ()) -> Derived:
    """What a model is derived by, see ``gradients`` and ``fixed`` of `import_model`. Raises TranspileError."""
    derived = candidates(model.graph, words, fixed)
    if "weights" not in words:
        return derived
    model, moved = with_moved_statistics(with_drawn_dropout(model), derived.statistics)
    model = with_gradients(model, _typed(typing(model, keeps_functions=False)), derived, moved)
    return with_influence(derived, _typed(typing(model, keeps_functions=False)))


def script_with_derivatives(
    typing: Typing, model: Model, derived: Derived, function_name: str | None, writing: Writing, stages: Stages
) -> Script:
    """The script with functions of derivatives; see `import_model`. Raises TranspileError."""
    function = function_name or generate_function_name(model.graph.name)
    parts = ScriptParts(writing.weights, model.release, script_function_names(function), writing.style)
    model = with_trainable(model, (*derived.weights, *derived.moved))
    scored = with_given_statistics(without_dropout(model), derived.statistics)
    trained, moved = with_moved_statistics(with_drawn_dropout(model), derived.statistics)
    main = typing(scored, keeps_functions=writing.functions != "flat")
    is_same = trained is model and not model.functions
    forward = main if is_same else typing(trained, keeps_functions=False)
    if derived.weights and writing.weights == "inline":
        raise UnsupportedCase("weights that are trained are in files", hint="leave out --weights inline")
    script = _script_of(main, function, parts, writing, None, stages)
    keys, moved_keys = ({name: parts.trainable_key(name, model.graph.initializers[name]) for name in names}
                        for names in (derived.weights, derived.moved))
    # what passes made of the nodes is derived: they see no further once derivatives read values between the nodes
    rewritten = replace(forward.model, graph=replace(forward.graph.source, nodes=_typed(forward).nodes))
    typed = typing(with_gradients(rewritten, forward.graph, derived, moved), keeps_functions=False)
    # of the forward pass the names are known, and samples
    typed = replace(typed, model=forward.model, graph=with_single_samples(typed.graph, main.graph))
    columns = dict(zip(reversed(typed.graph.outputs), reversed(keys.values())))
    seeds = typed.graph.inputs[len(forward.graph.inputs) :]
    both = _script_of(
        typed, f"{function}_backward", parts.of_another_function(), writing, None, stages,
        gradients=Gradients(tuple(seeds), typed.graph.outputs[-len(derived.sources) :], columns),
    )
    behind = weights_behind(model.graph, derived)
    by_key, statistics = ({key: name for name, key in found.items()} for found in (keys, moved_keys))
    return with_derivatives(
        script, both, by_key, statistics, behind, compares_rows=bool(moved) and compare_rows(forward.graph))


def _typed(source: TypedModel) -> TypedGraph:
    """The graph of a model. Raises TranspileError with all reasons against it."""
    source.context.errors.raise_any("the model cannot be converted")
    return source.graph


def _script_of(
    source: TypedModel, function: str, parts: ScriptParts, writing: Writing, progress: Progress | None, stages: Stages,
    *, gradients: Gradients = NO_GRADIENTS,
) -> Script:
    """The script of a typed model with one main function. Raises TranspileError with all reasons against it."""
    _typed(source)
    source.context.check_fixed_dims()
    written = _written(source, function, parts, progress, stages, gradients)
    script = with_passes(
        written, stages, writing.functions, specialised=writing.specialised, trained=writing.trained
    )
    check_defined(script)
    stages.remarks += note_lines(script.notes)
    return script


def _written(
    source: TypedModel, function: str, parts: ScriptParts, progress: Progress | None, stages: Stages,
    gradients: Gradients,
) -> Script:
    """The script as its nodes are rendered, one by one."""
    model, typed = source.model, with_single_samples(source.graph)
    parts.short_names = short_value_names(model, typed)
    parts.integers = integers = WideIntegers(typed)
    parts.in_single_precision = values_in_single_precision(typed)
    main = integers.of(typed)
    with stages.stage("write DML") as words:
        rendered = render_main(typed, function, parts, progress, gradients)
        words.append(f"{sum(len(each.body) for each in rendered.functions)} statements")
        words.append(f"{len(parts.weights)} weights")
    parts.errors.raise_any("the model cannot be converted")
    library = library_functions(parts.imports)
    called = {function.name: function for function in (*library, *rendered.functions)}
    outputs = [_bounded(_port(typed, name), main.largest_output(name))
               for name in typed.outputs if name not in gradients.columns]
    count = sum(parts.weights[key].array.size for key in gradients.columns.values())
    outputs += [Port("gradient", "float", (count,))] if gradients.columns else []
    return Script(
        function,
        tuple(_bounded(_port(typed, name), main.largest_input(name)) for name in typed.inputs),
        tuple(outputs),
        rendered.sizes,
        rendered.returned,
        tuple(parts.weights[key] for key in sorted(parts.weights)),
        tuple(_header(model)),
        tuple(with_hidden_zeros(function, called) for function in library),
        tuple(with_hidden_zeros(with_counted_rows(function), called) for function in rendered.functions),
        Batching(typed),
        rendered.unchecked,
        source.context.notes.all(),
        written=parts.written,
        texts=tuple(parts.vocabulary.numbers),
        sources=tuple(tree.Source(f"nn/layers/{name}.dml", name) for name in sorted(parts.layers)),
    )


def _bounded(port: Port, largest: int | None) -> Port:
    return replace(port, largest=LIMIT if port.kind != "tensor" else largest) if port.dtype in TYPES else port


def _port(typed: TypedGraph, name: str) -> Port:
    value = typed.values[name]
    if value.is_list:
        return _list_port(typed, name)
    if value.dims is None:
        raise UnsupportedCase(f"the rank of {quoted(name)} is unknown")
    if value.keys:
        return Port(name, value.dtype, value.dims, "maps", keys=value.keys)
    if isinstance(value.type, MapType):
        return Port(name, value.dtype, value.dims, "map", map_type=value.type)
    return Port(name, value.dtype, value.dims)


def _list_port(typed: TypedGraph, name: str) -> Port:
    value = typed.values[name]
    element, items = value.element, value.items
    kind = "optional" if isinstance(value.type, OptionalType) else "sequence"
    if kind == "optional" and element is not None and element.is_list:
        kind = "optional sequence"
        items = typed.values[items[0]].items if items else items
        element = element.element
    dims = None if items is None else tuple(typed.values[item].dims or () for item in items)
    if element is None:  # no item is ever there
        return Port(name, "float", (), kind, dims)
    if element.dims is None and dims is None:
        raise UnsupportedCase(f"the rank of the items of {quoted(name)} is unknown")
    return Port(name, element.dtype, element.dims or (), kind, dims)


def _header(model: Model) -> list[str]:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(model.opset_imports.items()))
    facts = [f"opset {opsets}"]
    if model.producer:
        facts.append(f"producer {model.producer}")
    if model.model_version:
        facts.append(f"version {model.model_version}")
    made = " ".join(f"{model.graph.name or '(no name)'} ({', '.join(facts)})".splitlines())
    lines = [f"Generated by onnx-systemds from the ONNX graph {made}"]
    lines += [f"{escaped(key)}: {escaped(value)}" for key, value in model.metadata[:_MOST_METADATA]]
    lines += model.doc_string.splitlines()[:20]
    fold = partial(textwrap.wrap, width=_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line for whole in comment_lines("\n".join(lines)) for line in fold(whole)]
