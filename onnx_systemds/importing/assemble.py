"""Assembles the DML functions of a typed graph: parameters, checks and statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.module_paths import shortened
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.importing.body import Body, Progress, parsed
from onnx_systemds.importing.comments import comment_lines
from onnx_systemds.importing.parameters import (
    INTEGER,
    TEXT_FRAME,
    UNKNOWN_LIST,
    captured_parameter,
    declaration,
    demand_element_sources,
    element_statements,
    input_parameters,
    input_statements,
    sized,
)
from onnx_systemds.importing.passes.block_cuts import NOT_INLINED, with_never
from onnx_systemds.importing.passes.call_guards import guard_statements, guarding_calls
from onnx_systemds.importing.passes.dictionaries import with_numbered_texts
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.importing.results import NO_GRADIENTS, Gradients, Results
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.assumptions import Assumption
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.operators.api.layout import View
from onnx_systemds.operators.api.node_view import RenderBody
from onnx_systemds.operators.api.reserved_names import TEXTS, WEIGHTS
from onnx_systemds.operators.api.sub_function import SubFunction
from onnx_systemds.operators.rendering.scope import Scope
from onnx_systemds.operators.rendering.script_parts import ScriptParts


@dataclass(frozen=True, slots=True)
class MainFunction:
    """The rendered main function.

    sizes: symbols that the inputs do not determine: integer parameters, in order.
    returned: symbols that the outputs' matrices do not tell: integer results after them, in order.
    functions: those of its sub-graphs, then its own.
    unchecked: assumptions about sizes that it does not know.
    """

    sizes: tuple[str, ...]
    returned: tuple[str, ...]
    functions: tuple[tree.Function, ...]
    unchecked: tuple[Assumption, ...]


def render_main(
    graph: TypedGraph, name: str, parts: ScriptParts, progress: Progress | None,
    gradients: Gradients = NO_GRADIENTS,
) -> MainFunction:
    """Render the main function. Raises TranspileError with the place of the node that cannot be rendered.

    What its seeds show of the sizes of inputs is checked, and nothing follows from it: the forward pass has no seeds.
    """
    scope = Scope(graph, parts, graph.values)
    parameters = input_parameters(scope)
    seeds = [pair for pair in parameters if pair[0] in gradients.seeds]
    own = [pair for pair in parameters if pair not in seeds]
    scope.sizes.read_from(sized(scope, own), sized(scope, seeds))
    body = Body(scope, Results(scope, is_inner=False, gradients=gradients), _rendering(scope), progress)
    parts.written = body.written
    checks = _start_checks(scope, parameters)
    demand_element_sources(scope, parameters)
    given, checked = sized(scope, own), sized(scope, seeds)
    views = input_statements(scope, parameters)  # first: reshapes of inputs ask for sizes, too
    symbols, unsolved = scope.sizes.definitions(given, checked, is_checked=True)
    # sizes of the run are defined after their nodes
    undetermined = [name for name in unsolved if not dim.depends_on_run(dim.symbol(name))]
    first = parsed([*element_statements(scope, parameters), *symbols, *checks, *views])
    statements: Sequence[tree.Statement] = body.after(first)
    guards = guarding_calls([*library_functions(parts.imports), *body.functions.values()], statements)
    statements = with_never([*guard_statements(guards), *statements])
    if scope.uses_texts:
        statements = [*parsed([_dictionary(scope)]), *with_numbered_texts(statements, scope.names.fresh)[0]]
    inputs = [declaration(scope.value(value), identifier) for value, identifier in parameters]
    inputs += [tree.Parameter(scope.sizes.name(symbol), INTEGER) for symbol in undetermined]
    if scope.constants.uses_weights:
        inputs.append(tree.Parameter(WEIGHTS, UNKNOWN_LIST))
    main = _function(name, graph.doc_string, inputs, body.results.parameters, tuple(statements))
    functions = (*body.functions.values(), main)
    return MainFunction(tuple(undetermined), tuple(body.results.returned), functions, scope.sizes.unchecked())


def render_body(graph: TypedGraph, hint: str, outer: Scope, returned: Sequence[Dim] = ()) -> SubFunction:
    """Render a sub-graph as a function of its inputs, captured values, sizes, the dictionary and the weights.

    Sub-graphs that give the same text share one function. The captured values are demanded of ``outer``; sizes that a
    parameter's matrix shows are read from it. Scalars are doubles on the way in and out, text tensors are codes. The
    dictionary is the last result of a function that puts new strings into it. ``returned``: sizes that it gives after
    the outputs.
    """
    parts = outer.parts
    scope = Scope(graph, parts, graph.own, outer)
    parameters = input_parameters(scope)
    scope.sizes.read_from(sized(scope, parameters))
    body = Body(scope, Results(scope, returned, is_inner=True), _rendering(scope))
    checks = _start_checks(scope, parameters)
    demand_element_sources(scope, parameters)
    parameters += [(value, captured_parameter(scope, value)) for value in scope.captured]
    views = input_statements(scope, parameters)  # first: reshapes of inputs ask for sizes, too
    symbols, unsolved = scope.sizes.definitions(sized(scope, parameters))
    own = graph.own_sizes
    sizes = [symbol for symbol in unsolved if symbol not in own]
    _check_carried_sizes(graph, sizes, outer)
    inputs = [declaration(scope.value(value), identifier, is_inner=True) for value, identifier in parameters]
    inputs += [tree.Parameter(scope.sizes.name(symbol), INTEGER) for symbol in sizes]
    arguments = [outer.demand(value, outer.boundary(value)) for value in scope.captured]
    arguments += [outer.sizes.name(symbol) for symbol in sizes]
    if scope.uses_texts:
        inputs.append(tree.Parameter(TEXTS, TEXT_FRAME))
        arguments.append(outer.texts())
    if scope.constants.uses_weights:
        inputs.append(tree.Parameter(WEIGHTS, UNKNOWN_LIST))
        outer.constants.uses_weights = True
        arguments.append(WEIGHTS)
    gives_numbers = returned or any(scope.value(output).dims == () for output in graph.outputs)
    kept = [NOT_INLINED] if gives_numbers else []
    first = parsed([*element_statements(scope, parameters), *symbols, *checks, *views, *kept])
    statements: Sequence[tree.Statement] = with_never(body.after(first))
    outputs = body.results.parameters
    extends_texts = False
    if scope.uses_texts:
        statements, last_texts = with_numbered_texts(statements, scope.names.fresh)
        extends_texts = last_texts != TEXTS
        outputs = [*outputs, tree.Parameter(last_texts, TEXT_FRAME)] if extends_texts else outputs
    function = _function("", graph.doc_string, inputs, outputs, tuple(statements))
    text = print_statement(function)
    name = parts.bodies.get(text)
    if name is None:
        name = parts.bodies[text] = parts.function_names.fresh(f"gen_{shortened(hint, parts.short_names)}")
    functions = (*body.functions.values(), replace(function, name=name))
    is_inlined = is_straight(statements)
    return SubFunction(name, tuple(arguments), functions, extends_texts, is_inlined)


def _rendering(scope: Scope) -> RenderBody:
    """The function that renders sub-graphs of a scope."""
    return lambda graph, hint, returned: render_body(graph, hint, scope, returned)


def _start_checks(scope: Scope, parameters: Sequence[tuple[str, str]]) -> list[str]:
    if scope.sizes.checks.at_start:
        input_statements(scope, parameters)  # reshapes of inputs ask for sizes, which then are there
    return scope.sizes.start_checks()


def _dictionary(scope: Scope) -> str:
    """The statement that defines the dictionary of the strings known at conversion."""
    vocabulary = scope.parts.vocabulary
    strings = vocabulary.strings()
    if not scope.parts.goes_to_file(strings) and (vocabulary.is_plain or scope.parts.weights_mode == "inline"):
        return f"{TEXTS} = {vocabulary.literal()}"
    scope.constants.uses_weights = True
    key = scope.parts.weight_key(TEXTS, strings, View(*strings.shape))
    return f'{TEXTS} = as.frame({WEIGHTS}["{key}"])'


def _check_carried_sizes(graph: TypedGraph, sizes: Sequence[str], outer: Scope) -> None:
    """Raise UnsupportedCase for a size of a sub-graph's input that changes between calls and cannot be determined."""
    changing = {symbol for name in graph.inputs for symbol in dim.symbols(graph.values[name].dims or ())}
    for symbol in filter(changing.__contains__, sizes):
        if not any(symbol in dim.symbols(value.dims or ()) for value in outer.graph.values.values()):
            raise UnsupportedCase(f"the size {symbol} of a carried value does not follow from its rows and columns")


def _function(
    name: str, doc_string: str, inputs: Sequence[tree.Parameter], outputs: Sequence[tree.Parameter], body: tree.Block
) -> tree.Function:
    comments = tree.Comments(before=tuple(f"# {line}" for line in comment_lines(doc_string)))
    return tree.Function(name, tuple(inputs), tuple(outputs), body, comments=comments)


def script_function_names(main: str) -> Names:
    """Names for functions of a script, with those of the main function and of its derivatives reserved."""
    return Names([main, *(f"{main}_{word}" for word in ("init", "forward", "backward", "parameters", "trained"))])
