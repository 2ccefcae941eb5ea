"""The statements of one function: its nodes rendered from the last to the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml import templates
from onnx_systemds.dml.reader import DEEPEST, NestedTooDeep
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.errors import (
    InternalError,
    NodePlace,
    PluginError,
    ScriptSyntaxError,
    TranspileError,
    UnsupportedCase,
)
from onnx_systemds.importing.comments import node_comments
from onnx_systemds.importing.empty_results import EmptyResults
from onnx_systemds.importing.node_sizes import NodeSizes
from onnx_systemds.importing.origins import Origin, origin_of
from onnx_systemds.importing.passes.block_cuts import cut_blocks
from onnx_systemds.importing.passes.joined_guards import with_joined_guards
from onnx_systemds.importing.results import Results
from onnx_systemds.inference.local_functions import BODY
from onnx_systemds.inference.registry import (
    find,
    nn_layers,
    operator_generators,
    place_of,
    text_operators,
    wrong_result,
)
from onnx_systemds.inference.signatures import refusal_of
from onnx_systemds.inference.wide_integers import check_constants
from onnx_systemds.limits import OverBudget
from onnx_systemds.model.ir import Node
from onnx_systemds.model.walk import reverse_order
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import SCALAR, View
from onnx_systemds.operators.api.node_view import NodeView, RenderBody
from onnx_systemds.operators.onnx.control_flow import call_function
from onnx_systemds.operators.rendering.scope import Scope
from onnx_systemds.operators.support.empty_outputs import without_elements

Progress = Callable[[int], None]


_NOTHING = Fragment()


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A fragment with parsed statements, and the origin of its node."""

    origin: Origin
    statements: tuple[tree.Statement, ...]
    imports: tuple[str, ...]
    functions: tuple[tree.Function, ...]
    layers: tuple[str, ...]


class Body:
    """The statements of one function, and the functions that it calls.

    results: what the function returns. render_body: renders a sub-graph of a node as a function.
    """

    def __init__(
        self, scope: Scope, results: Results, render_body: RenderBody, progress: Progress | None = None
    ) -> None:
        self.scope = scope
        self.results = results
        self.sizes = NodeSizes(scope)
        self.empty_results = EmptyResults(scope.graph)
        self.progress = progress
        self._statements: list[tree.Statement] = []
        self.functions: dict[str, tree.Function] = {}  # by name
        self.written: dict[str, tree.Block] = {}  # by the first output of each node what it became
        self._render_body = render_body
        self._render()

    def _render(self) -> None:
        scope, graph = self.scope, self.scope.graph
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
            scope.parts.layers.update(dict.fromkeys(fragment.layers))
        statements = [*parsed(scope.element_statements())]
        constants = scope.constants.statements()
        deferred = scope.deferred.statements()
        for number in reversed(range(len(fragments))):
            in_front = [*constants.get(number, ()), *self.sizes.in_front_of(number), *deferred.get(number, ())]
            statements += _of_node(parsed(in_front), fragments[number].origin) if in_front else ()
            statements += fragments[number].statements
        statements += parsed([*constants.get(-1, ()), *deferred.get(-1, ()), *self.results.statements])
        self._statements = statements

    def after(self, first: tree.Block) -> list[tree.Statement]:
        """The statements after the first ones, with cuts between those that the engine would join wrongly."""
        forms = [self.scope.forms.of(name) for name in self.scope.graph.inputs]
        scalars = [form[SCALAR] for form in forms if SCALAR in form]
        rows = [text for form in forms for view, text in form.items()
                if isinstance(view, View) and view.rows == 1 and not isinstance(view.cols, int)]
        statements = self._statements
        if not self.results.derives:  # else one branch could be of the forward and the backward pass
            statements = with_joined_guards(statements, [parameter.name for parameter in self.results.parameters])
        return [*first, *cut_blocks(statements, self.functions, scalars, first, rows)]

    def _render_node(self, position: int) -> _Rendered | None:
        scope, graph = self.scope, self.scope.graph
        node = graph.nodes[position]
        view = NodeView(node, scope, position, templates.render_operator, self._render_body)
        is_call = (position, BODY) in graph.bodies
        generate = call_function if is_call else find(operator_generators, node.identity, node.version)
        try:
            sized = self.sizes.given_by(position)
            fragment = _NOTHING
            if any(scope.is_demanded(name) for name in node.outputs if name):
                if generate is None:
                    raise InternalError("the operator lost its generator")
                if generate is not call_function:
                    _check_text(scope, node)
                check_constants(view)
                fragment = without_elements(view) or self._as_layer(view) or generate(view)
                if not isinstance(fragment, Fragment):
                    raise wrong_result(operator_generators, view, "a fragment", fragment)
                fragment = self.empty_results.guarded(view, fragment + view.fragment(), parsed)
                if checks := scope.sum_checks(position):
                    fragment = Fragment(tuple(checks)) + fragment
            elif not any(symbol in scope.sizes.used for symbol in graph.run_sizes.calls_at(position)):
                return None
            imports = self.sizes.note_needed(position)
        except TranspileError as error:
            error.place = error.place or view.place
            error.sources = error.sources or graph.run_sizes.sources
            scope.parts.errors.add(error)
            return None
        except Exception as error:
            scope.parts.errors.add(refusal_of(error, view))
            return None
        # Sizes follow even if a generator has them at hand: the engine's compiler fails where the only reader of a
        # removeEmpty asks for its rows.
        lines = fragment.statements + tuple(sized)
        comments = [f"# {line}" for line in node_comments(node.doc_string)] if lines else []
        origin = origin_of(view)
        statements = _of_node(parsed([*comments, *lines], view), origin)
        if fragment.statements:
            self.written[next(filter(None, node.outputs))] = statements
        return _Rendered(origin, statements, (*fragment.imports, *imports), fragment.functions, fragment.layers)

    def _as_layer(self, view: NodeView) -> Fragment | None:
        """The fragment that calls a layer of SystemDS for a node; None without ``--style nn`` or such a layer."""
        layer = None if self.scope.parts.style == "plain" else find(nn_layers, view.node.identity, view.node.version)
        return None if layer is None else layer(view)


def _of_node(statements: tree.Block, origin: Origin) -> tree.Block:
    """The statements with their origin."""
    for statement in statements:
        tree.keep_origin(statement, origin)
    return statements


def parsed(lines: Iterable[str], node: NodeView | None = None) -> tree.Block:
    """Parse the texts of statements of a node, or of its function. Raises InternalError, OverBudget."""
    try:
        return cast(tree.Block, parse_snippet("\n".join(lines)))
    except NestedTooDeep as error:
        message = f"an expression is nested more than {DEEPEST} levels deep, as of sizes that are made of each other"
        raise OverBudget(message, _place(node), "fix the dims by --dim") from error
    except ScriptSyntaxError as error:
        raise _no_dml(error, node) from error


def _no_dml(error: ScriptSyntaxError, node: NodeView | None) -> InternalError:
    """The error for invalid DML of a generator; it names a plugin's generator."""
    made = None if node is None else place_of(operator_generators, node.node.identity, node.node.version)
    if made is None or made.is_own:
        return InternalError(f"a generator wrote what is no DML: {error}", _place(node))
    return PluginError(f"the generator at {made} wrote what is no DML: {error}", _place(node))


def _place(node: NodeView | None) -> NodePlace | None:
    return None if node is None else node.place


def _check_text(scope: Scope, node: Node) -> None:
    """Raise UnsupportedCase for text as an input of an operator for numbers."""
    for name in node.inputs:
        if name and scope.value(name).dtype == "string" and node.identity not in text_operators:
            raise UnsupportedCase("the operator is not supported on text")
