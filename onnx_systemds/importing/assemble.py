"""From a typed graph to the text of its DML functions: the reverse walk, and the assembly of the script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml import templates
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.dml.reader import DEEPEST, NestedTooDeep
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.errors import InternalError, NodePlace, ScriptSyntaxError, TranspileError, UnsupportedCase
from onnx_systemds.importing.comments import comment_lines, node_comments
from onnx_systemds.importing.parameters import (
    INTEGER,
    TEXT_FRAME,
    UNKNOWN_LIST,
    as_declared,
    captured_parameter,
    declaration,
    demand_element_sources,
    element_statements,
    element_text,
    input_parameters,
    input_statements,
    is_nested,
    sized,
)
from onnx_systemds.importing.passes.block_cuts import GUARDED, NOT_INLINED, cut_blocks, with_never
from onnx_systemds.importing.passes.call_guards import guarding_calls
from onnx_systemds.importing.passes.dictionaries import with_numbered_texts
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.assumptions import Assumption
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.local_functions import BODY
from onnx_systemds.inference.registry import find, operator_generators, text_operators
from onnx_systemds.inference.signatures import refusal_by_onnx
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.wide_integers import check_constants
from onnx_systemds.limits import OverBudget, exhausted
from onnx_systemds.model.ir import Node
from onnx_systemds.model.walk import reverse_order
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import LIST, SCALAR, Form, View, split_view
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.api.reserved_names import TEXTS, WEIGHTS
from onnx_systemds.operators.api.sub_function import SubFunction
from onnx_systemds.operators.onnx.control_flow import call_function
from onnx_systemds.operators.rendering.scope import Scope
from onnx_systemds.operators.rendering.script_parts import ScriptParts
from onnx_systemds.operators.support.movement import without_elements

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class MainFunction:
    """The rendered main function.

    sizes: symbols that the inputs do not determine: integer parameters, in order.
    returned: symbols that the outputs' matrices do not tell: integer results after them, in order.
    functions: those of its sub-graphs, then its own.
    unchecked: what it takes for granted of sizes that it is not told.
    """

    sizes: tuple[str, ...]
    returned: tuple[str, ...]
    functions: tuple[tree.Function, ...]
    unchecked: tuple[Assumption, ...]


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A fragment whose statements are parsed."""

    statements: tuple[tree.Statement, ...]
    imports: tuple[str, ...]
    functions: tuple[tree.Function, ...]


def render_main(graph: TypedGraph, name: str, parts: ScriptParts, progress: Progress | None = None) -> MainFunction:
    """Render the main function. Raises TranspileError with the place of the node that cannot be rendered."""
    scope = Scope(graph, parts, graph.values)
    parameters = input_parameters(scope)
    scope.sizes.read_from(sized(scope, parameters))
    body = _Body(scope, progress)
    body.render()
    checks = _start_checks(scope, parameters)
    demand_element_sources(scope, parameters)
    given = sized(scope, parameters)
    views = input_statements(scope, parameters)  # first: reshapes of inputs ask for sizes, too
    symbols, unsolved = scope.sizes.definitions(given, checked=True)
    undetermined = [symbol for symbol in unsolved if not symbol.startswith("?")]  # the others are defined by nodes
    first = _parsed([*element_statements(scope, parameters), *symbols, *checks, *views])
    statements: Sequence[tree.Statement] = [*first, *body.statements]
    guards = guarding_calls([*library_functions(parts.imports), *body.functions.values()], statements)
    if guards:
        statements = [*_parsed([GUARDED, *(f"  {call}" for call in guards), "}"]), *statements]
    statements = with_never(statements)
    if scope.uses_texts:
        statements = [*_parsed([_dictionary(scope)]), *with_numbered_texts(statements, scope.names.fresh)[0]]
    inputs = [declaration(scope.value(value), identifier) for value, identifier in parameters]
    inputs += [tree.Parameter(scope.sizes.name(symbol), INTEGER) for symbol in undetermined]
    if scope.constants.uses_weights:
        inputs.append(tree.Parameter(WEIGHTS, UNKNOWN_LIST))
    main = _function(name, graph.doc_string, inputs, body.outputs, tuple(statements))
    functions = (*body.functions.values(), main)
    return MainFunction(tuple(undetermined), tuple(body.returned), functions, scope.sizes.unchecked())


def render_body(graph: TypedGraph, hint: str, outer: Scope, returned: Sequence[Dim] = ()) -> SubFunction:
    """Render a sub-graph as a function: its inputs, what it captures, sizes, the dictionary of strings, the weights.

    Sub-graphs that give the same text share one function. The captured values are demanded of ``outer``; sizes that a
    parameter's matrix shows are read from it. Scalars are doubles on the way in and out, text tensors are codes. The
    dictionary is the last result of a function that puts new strings into it. ``returned``: sizes that it gives after
    the outputs.
    """
    parts = outer.parts
    scope = Scope(graph, parts, graph.own, outer)
    parameters = input_parameters(scope)
    scope.sizes.read_from(sized(scope, parameters))
    body = _Body(scope, None, is_inner=True, returned=returned)
    body.render()
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
    first = _parsed([*element_statements(scope, parameters), *symbols, *checks, *views, *kept])
    statements: Sequence[tree.Statement] = with_never([*first, *body.statements])
    outputs = body.outputs
    extends_texts = False
    if scope.uses_texts:
        statements, last_texts = with_numbered_texts(statements, scope.names.fresh)
        extends_texts = last_texts != TEXTS
        outputs = [*outputs, tree.Parameter(last_texts, TEXT_FRAME)] if extends_texts else outputs
    function = _function("", graph.doc_string, inputs, outputs, tuple(statements))
    text = print_statement(function)
    name = parts.bodies.get(text)
    if name is None:
        name = parts.bodies[text] = parts.function_names.fresh(f"gen_{hint}")
    functions = (*body.functions.values(), replace(function, name=name))
    is_inlined = is_straight(statements)
    return SubFunction(name, tuple(arguments), functions, extends_texts, is_inlined)


def _start_checks(scope: Scope, parameters: Sequence[tuple[str, str]]) -> list[str]:
    if scope.sizes.checks.at_start:
        input_statements(scope, parameters)  # reshapes of inputs ask for sizes, which then are there
    return scope.sizes.start_checks()


class _Body:
    """The statements of one function, rendered from the last to the first."""

    def __init__(
        self, scope: Scope, progress: Progress | None, *, is_inner: bool = False, returned: Sequence[Dim] = ()
    ) -> None:
        self.scope = scope
        self.returned_dims = returned
        self.progress = progress
        self.is_inner = is_inner
        self.statements: list[tree.Statement] = []
        self.outputs: list[tree.Parameter] = []
        self.returned: dict[str, None] = {}
        self.functions: dict[str, tree.Function] = {}  # by name
        self.computed: dict[int, list[str]] = {}  # statements that compute sizes, by the fragment after them
        self.checks: dict[int, list[tuple[Assumption, str]]] = {}  # of sizes that nodes give, by the fragment after

    def render(self) -> None:
        scope, graph = self.scope, self.scope.graph
        returns = self._demand_outputs()
        fragments: list[_Rendered] = []
        for done, position in enumerate(reverse_order(graph.nodes)):
            scope.rendered = len(fragments)
            fragment = self._render_node(position)
            if fragment is not None:
                fragments.append(fragment)
            if self.progress is not None and done % 256 == 0:
                self.progress(done)
        for fragment in reversed(fragments):
            for function in fragment.functions:
                self.functions.setdefault(function.name, function)
            scope.parts.imports.update(dict.fromkeys(fragment.imports))
        statements = [*_parsed(scope.element_statements())]
        constants = scope.constants.statements()
        late = scope.late.statements()
        for number in reversed(range(len(fragments))):
            checks = [text for assumption, text in self.checks.get(number, ()) if scope.sizes.checks.is_new(assumption)]
            in_front = [*constants.get(number, ()), *self.computed.get(number, ()), *checks, *late.get(number, ())]
            statements += _parsed(in_front) if in_front else ()
            statements += fragments[number].statements
        statements += _parsed([*constants.get(-1, ()), *late.get(-1, ()), *returns])
        self.statements = cut_blocks(statements, self.functions)

    def _render_node(self, position: int) -> _Rendered | None:
        scope, graph = self.scope, self.scope.graph
        node = graph.nodes[position]
        view = NodeView(node, scope, position, templates.render_operator, self._render_subgraph)
        is_call = (position, BODY) in graph.bodies
        generate = call_function if is_call else find(operator_generators, node.identity, node.version)
        try:
            sized = self._demand_sizes(position) + self._demand_elements(position)
            fragment = Fragment()
            if any(scope.is_demanded(name) for name in node.outputs if name):
                if generate is None:
                    raise InternalError("the operator lost its generator")
                if generate is not call_function:
                    _check_text(scope, node)
                check_constants(view)
                fragment = without_elements(view) or generate(view)
                if checks := scope.sum_checks(position):
                    fragment = Fragment(tuple(checks)) + fragment
            elif not any(symbol in scope.sizes.used for symbol in graph.run_sizes.calls_at(position)):
                return None
            self._check_sizes(position)
            if scope.graph.run_sizes.calls_at(position):
                fragment += self._compute_sizes(position)
        except TranspileError as error:
            error.place = error.place or view.place
            error.sources = error.sources or graph.run_sizes.sources
            scope.parts.errors.add(error)
            return None
        except (MemoryError, RecursionError) as error:
            raise exhausted(error, view.place) from error
        except Exception as error:
            refusal = refusal_by_onnx(view)
            if refusal is None:
                raise InternalError(f"{type(error).__name__}: {error}", view.place) from error
            scope.parts.errors.add(refusal)
            return None
        lines = fragment.statements + tuple(sized)
        comments = [f"# {line}" for line in node_comments(node.doc_string)] if lines else []
        return _Rendered(_parsed([*comments, *lines], view), fragment.imports, fragment.functions)

    def _render_subgraph(self, graph: TypedGraph, hint: str, returned: Sequence[Dim] = ()) -> SubFunction:
        return render_body(graph, hint, self.scope, returned)

    def _demand_sizes(self, position: int) -> list[str]:
        """Statements that define the sizes which this node's run decides, where they are used."""
        scope, graph = self.scope, self.scope.graph
        statements: list[str] = []
        left = [symbol for symbol in graph.sizes.get(position, ()) if symbol in scope.sizes.used]
        if not left:
            return statements
        known = set(scope.sizes.used) - set(left)
        for symbol in left:
            text = self._size_statement(position, symbol, known)
            if text is None:
                scope.returned.setdefault(symbol)
                name = next(name for name in graph.nodes[position].outputs
                            if name and symbol in dim.symbols(scope.dims(name)))  # fmt: skip
                scope.demand(name, scope.boundary(name))
            else:
                statements.append(text)
            known.add(symbol)
        return statements

    def _demand_elements(self, position: int) -> list[str]:
        """Statements that read the elements of this node's outputs which are used as sizes."""
        scope, run_sizes = self.scope, self.scope.graph.run_sizes
        symbols = run_sizes.elements_at(self.scope.graph.nodes[position].outputs)
        statements: list[str] = []
        for symbol in filter(scope.sizes.used.__contains__, symbols):
            name, element = run_sizes.elements[symbol]
            form = scope.boundary(name)
            text = element_text(scope.demand(name, form), scope.dims(name), element)
            statements.append(f"{scope.sizes.name(symbol)} = {text}")
        return statements

    def _compute_sizes(self, position: int) -> Fragment:
        """Note the statements that compute sizes in front of this node; the fragment has their imports only."""
        scope, run_sizes = self.scope, self.scope.graph.run_sizes
        statements: list[str] = []
        imports: list[str] = []
        for symbol in reversed(run_sizes.calls_at(position)):
            if symbol in scope.sizes.used:
                call = run_sizes.calls[symbol]
                arguments = ", ".join(map(scope.sizes.text, call.arguments))
                text = f"{call.function}({arguments})" if call.function else arguments
                statements.insert(0, f"{scope.sizes.name(symbol)} = {text}")
                imports += [call.function] if call.function else []
        self.computed[scope.rendered] = statements
        return Fragment((), tuple(imports))

    def _check_sizes(self, position: int) -> None:
        """Note the checks in front of this node of sizes that other nodes give, where the script can tell these."""
        scope = self.scope
        self.checks[scope.rendered] = [
            (assumption, assumption.statement(scope.sizes.text, scope.sizes.factor))
            for assumption in scope.sizes.checks.of_node(position)
            if all(scope.sizes.is_known(name) or self._is_shown(name) for name in assumption.symbols)
        ]

    def _is_shown(self, symbol: str) -> bool:
        """Whether the rows or columns of a node's output are a size that this node decides."""
        graph = self.scope.graph
        sources = [position for position, decided in graph.sizes.items() if symbol in decided]
        views = [split_view(dims, 1) for position in sources for name in graph.nodes[position].outputs
                 if name and (dims := graph.values[name].dims)]  # fmt: skip
        return any(dim.lone_symbol(size) == symbol for view in views for size in view)

    def _size_statement(self, position: int, symbol: str, known: set[str]) -> str | None:
        """The definition of a size by an output's rows or columns; None where the node itself gives it."""
        scope, node = self.scope, self.scope.graph.nodes[position]
        for name in node.outputs:
            dims = scope.value(name).dims if name else None
            if not dims or symbol not in dim.symbols(dims):
                continue
            for split in [1] if name in scope.at_boundary else [1, *range(2, len(dims) + 1), 0]:
                view = split_view(dims, split)
                for function, size in (("nrow", view.rows), ("ncol", view.cols)):
                    others = [other for other in dim.symbols(size) if other != symbol and other.startswith("?")]
                    if symbol not in dim.symbols(size) or any(other not in known for other in others):
                        continue
                    text = dim.solve(size, symbol, f"{function}({scope.demand(name, view)})", scope.sizes.name)
                    if text is not None:
                        return f"{scope.sizes.name(symbol)} = {text}"
        if node.identity == ("", "If"):
            return None
        raise UnsupportedCase(f"the size {symbol.lstrip('?')} cannot be told from the result")

    def _demand_outputs(self) -> list[str]:
        """Demand the outputs; returns the statements that hand over those which need one of their own."""
        scope = self.scope
        returns: list[str] = []
        taken: set[str] = set()
        for name in scope.graph.outputs:
            value = scope.value(name)
            form = scope.boundary(name)
            if value.is_text and not self.is_inner:
                identifier = scope.names.fresh(name)
                returns.append(f"{identifier} = {self._as_text(name, form)}")
                self.outputs.append(declaration(value, identifier))
                continue
            is_known = value.constant is not None or value.items is not None
            is_plain = name in scope.own and name not in scope.graph.inputs and not is_known
            if form is not SCALAR and is_plain and value.elements is None and name not in taken:
                identifier = scope.demand(name, form)
                taken.add(name)
            else:
                identifier = scope.names.fresh(name)
                text = scope.demand(name, form)
                returns.append(f"{identifier} = {as_declared(value, text, is_inner=self.is_inner)}")
            self.outputs.append(declaration(value, identifier, is_inner=self.is_inner))
        for size in self.returned_dims:
            identifier = scope.names.fresh("size")
            returns.append(f"{identifier} = as.integer({scope.sizes.text(size)})")
            self.outputs.append(tree.Parameter(identifier, INTEGER))
        return returns if self.is_inner else returns + self._return_sizes()

    def _as_text(self, name: str, form: Form) -> str:
        """A text output as a frame, a string or a list of frames."""
        scope = self.scope
        if form == LIST:
            function = "nested_texts" if is_nested(scope.value(name)) else "list_texts"
            scope.parts.imports[function] = None
            return f"{function}({scope.demand(name, form)}, {scope.texts()})"
        scope.parts.imports["codes_text"] = None
        if form is SCALAR:
            view = View(1, 1)
        else:
            view = View(0, 1) if scope.value(name).size == 0 else form  # a frame has columns
        codes = scope.demand(name, view)
        if form is not SCALAR and any(symbol.startswith("?") for symbol in dim.symbols(form.cols)):
            scope.parts.imports["framed_codes"] = None
            codes = f"framed_codes({codes})"
        frame = f"codes_text({codes}, {scope.texts()})"
        return f"as.scalar({frame})" if form is SCALAR else frame

    def _return_sizes(self) -> list[str]:
        """Hand over the sizes that the run decides and that an output's rows and columns do not tell."""
        scope = self.scope
        tensors = [name for name in scope.graph.inputs if not scope.value(name).is_list]
        given = {name for value in tensors for name in dim.symbols(scope.dims(value))}
        for value in scope.graph.outputs:
            if scope.value(value).is_list:
                continue
            self.returned.update(dict.fromkeys(_unseen(scope.dims(value), given, is_text=scope.value(value).is_text)))
        statements: list[str] = []
        for symbol in self.returned:
            identifier = scope.names.fresh(f"size_{symbol}")
            statements.append(f"{identifier} = {scope.sizes.name(symbol)}")
            self.outputs.append(tree.Parameter(identifier, INTEGER))
        return statements


def _unseen(dims: Dims, given: set[str], *, is_text: bool) -> list[str]:
    """The symbols of an output's dims that neither the inputs' dims nor its matrix tell.

    A frame without columns has no rows either, so that of text neither tells anything where there may be none.
    """
    known = set(given)
    shows = not is_text or not any(name.startswith("?") for name in dim.symbols(split_view(dims, 1).cols))
    for _ in range(2 if shows else 0):
        for size in split_view(dims, 1):
            left = [name for name in dim.symbols(size) if name not in known]
            if len(left) == 1 and dim.solve(size, left[0], "", str) is not None:
                known.add(left[0])
    return [name for name in dim.symbols(dims) if name not in known and name.startswith("?")]


def _check_text(scope: Scope, node: Node) -> None:
    """Raise UnsupportedCase for text at an operator that is made for numbers."""
    for name in node.inputs:
        if name and scope.value(name).dtype == "string" and node.identity not in text_operators:
            raise UnsupportedCase("the operator is not supported on text")


def _dictionary(scope: Scope) -> str:
    """The statement that gives the strings known at conversion their codes."""
    vocabulary = scope.parts.vocabulary
    strings = vocabulary.strings()
    if not scope.parts.goes_to_file(strings) and (vocabulary.is_plain or scope.parts.weights_mode == "inline"):
        return f"{TEXTS} = {vocabulary.literal()}"
    scope.constants.uses_weights = True
    key = scope.parts.weight_key(TEXTS, strings, View(*strings.shape))
    return f'{TEXTS} = as.frame({WEIGHTS}["{key}"])'


def _check_carried_sizes(graph: TypedGraph, sizes: Sequence[str], outer: Scope) -> None:
    """Raise UnsupportedCase for a size of a sub-graph's input that changes from call to call and is not to be told."""
    changing = {symbol for name in graph.inputs for symbol in dim.symbols(graph.values[name].dims or ())}
    for symbol in filter(changing.__contains__, sizes):
        if not any(symbol in dim.symbols(value.dims or ()) for value in outer.graph.values.values()):
            raise UnsupportedCase(f"the size {symbol} of a carried value cannot be told from its rows and columns")


def _function(
    name: str, doc_string: str, inputs: Sequence[tree.Parameter], outputs: Sequence[tree.Parameter], body: tree.Block
) -> tree.Function:
    comments = tree.Comments(before=tuple(f"# {line}" for line in comment_lines(doc_string)))
    return tree.Function(name, tuple(inputs), tuple(outputs), body, comments=comments)


def _parsed(lines: Iterable[str], node: NodeView | None = None) -> tree.Block:
    """Statements from their texts, those of a node or of the function around it."""
    try:
        return cast(tree.Block, parse_snippet("\n".join(lines)))
    except NestedTooDeep as error:
        message = f"an expression is nested more than {DEEPEST} levels deep, as of sizes that are made of each other"
        raise OverBudget(message, _place(node), "fix the dims by --dim") from error
    except ScriptSyntaxError as error:
        raise InternalError(f"a generator wrote what is no DML: {error}", _place(node)) from error


def _place(node: NodeView | None) -> NodePlace | None:
    return None if node is None else node.place


def script_function_names(main: str) -> Names:
    """Names of functions in a script, the main one taken."""
    return Names([main, f"{main}_init"])
