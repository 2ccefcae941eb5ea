"""`NodeView`: what a generator can ask and tell about its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import number_in
from onnx_systemds.dml.templates import library_text
from onnx_systemds.engine.safe_forms import ZEROS, full_matrix
from onnx_systemds.errors import quoted
from onnx_systemds.inference.assumptions import Assumption, Relation, axis_words, node_words
from onnx_systemds.inference.dims import Dim, Dims, depends_on_run, product, symbol
from onnx_systemds.inference.facts import Input, NodeFacts
from onnx_systemds.inference.integer_spans import EXACT, Span
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.inference.local_functions import BODY
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.wide_integers import TYPES
from onnx_systemds.model.ir import Array, Node
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import LIST, SCALAR, Form, View, converted, in_form, reshaped, split_view
from onnx_systemds.operators.api.sub_function import SubFunction
from onnx_systemds.operators.api.texts import Texts
from onnx_systemds.operators.rendering.scope import Scope

RenderTemplate = Callable[..., str]
RenderBody = Callable[[TypedGraph, str, Sequence[Dim]], SubFunction]


def _written(arguments: Sequence[object]) -> str:
    """The arguments of a call."""
    return ", ".join(literal(each) if isinstance(each, bool) else str(each) for each in arguments)


class NodeView(NodeFacts):
    """A node, its facts, and the function it is rendered into.

    Inputs are requested by split (see `layout`): ``matrix(0, split=1)`` is the identifier of the first input with its
    first axis in the rows. Results are returned in the same way, in the split in which the operator computes them.
    """

    def __init__(
        self, node: Node, scope: Scope, position: int, render_template: RenderTemplate, render_body: RenderBody
    ) -> None:
        super().__init__(node, scope.graph.values, scope.graph.name)
        self.run_sizes = scope.graph.run_sizes
        self._scope = scope
        self.position = position
        self.texts = Texts(scope.parts.vocabulary, scope.texts)
        self._render_template = render_template
        self._render_body = render_body
        self._statements: list[str] = []
        self._imports: dict[str, None] = {}
        self._functions: list[tree.Function] = []
        self._layers: dict[str, None] = {}

    def constant(self, given: Input) -> Array | None:
        """The content of an input, for text its codes; None if it is unknown at conversion."""
        content = super().constant(given)
        return content if content is None or self.dtype(given) != "string" else self.texts.codes(content)

    # --- inputs ------------------------------------------------------------------------------------------------

    def matrix(self, given: Input, split: int) -> str:
        """The identifier of an input as a matrix with the axes from ``split`` on in the columns."""
        dims = self.dims(given)
        return self.view(given, split_view(dims, split))

    def view(self, given: Input, form: Form) -> str:
        """DML of an input in a form: the identifier of a matrix with these rows and columns, or a scalar."""
        if isinstance(form, View):
            self.check_elements(given, form)
        return self._scope.demand(self.name(given), form)

    def check_elements(self, given: Input, view: View) -> None:
        """Let the script check that an input fills a view: the engine reshapes a matrix of zeros to any size."""
        value = self.value(given)
        if value.dims is None or value.is_list:
            return
        size, wanted = product(value.dims), view.rows * view.cols
        is_known = isinstance(size, int) and isinstance(wanted, int)
        if size != wanted and not is_known and not self._scope.sizes.checks.is_filled(value.dims, wanted):
            words = f"the number of elements of {quoted(self.name(given))}", "that of those which it takes"
            self._check(Assumption(size, wanted, Relation.EQUAL, *words, node_words(self.node)))

    def check_filled(self, size: Dim) -> None:
        """Let the script check that a size is not 0."""
        names = filter(None, (*self.node.outputs, *self.node.inputs))
        name, dims = next((name, dims) for name in names if size in (dims := self.values[name].dims or ()))
        words = axis_words(name, dims.index(size))
        self._check(Assumption(size, 1, Relation.AT_LEAST, words, "", node_words(self.node)))

    def _check(self, assumption: Assumption) -> None:
        self._scope.sizes.checks.add(self.position, assumption)

    def scalar(self, given: Input) -> str:
        """DML of a single-element input as a scalar: an identifier, a literal or an expression in parentheses."""
        return self._scope.demand(self.name(given), SCALAR)

    def known_form(self, given: Input) -> Form:
        """The form in which an input was requested first, else that of function boundaries."""
        return self._scope.forms.first(self.name(given))

    def integer_span(self, given: Input) -> Span:
        """The range of an input of 64-bit integers; ``Span(0, 0)`` for other types."""
        content = super().constant(given)
        if content is not None and content.dtype.kind in "iu":
            return Span(int(content.min(initial=0)), int(content.max(initial=0)))
        if self.dtype(given) not in TYPES:
            return Span(0, 0)
        return self._scope.forms.integers.spans.get(self.name(given), EXACT)

    def computing(self, given: Input) -> Node | None:
        """The node of this graph that computes an input; None for graph inputs, constants and captured values."""
        name = self.name(given)
        before = reversed(self._scope.graph.nodes[: self.position])
        return next((node for node in before if name in node.outputs), None)

    def nodes_after(self) -> Sequence[Node]:
        """The nodes of this graph after this one, in their order."""
        return self._scope.graph.nodes[self.position + 1 :]

    def upstream(self, given: Input) -> NodeView | None:
        """The view of the node that `computing` returns, so that its inputs can be requested."""
        found = self.computing(given)
        if found is None:
            return None
        nodes = self._scope.graph.nodes
        position = next(place for place in reversed(range(self.position)) if nodes[place] is found)
        return NodeView(found, self._scope, position, self._render_template, self._render_body)

    # --- outputs -----------------------------------------------------------------------------------------------

    def wants(self, output: int = 0) -> bool:
        """Whether the output has a consumer."""
        names = self.node.outputs
        return output < len(names) and names[output] != "" and self._scope.is_demanded(names[output])

    def output_dims(self, output: int = 0) -> Dims:
        """The dims of an output. Raises ShapeUnknown."""
        return self._scope.dims(self.node.outputs[output])

    def output_dtype(self, output: int = 0) -> str:
        """The element type of an output."""
        return self.values[self.node.outputs[output]].dtype

    def wanted_form(self, output: int = 0) -> Form:
        """The form in which consumers requested the output first."""
        return self._scope.forms.first(self.node.outputs[output])

    def result(self, text: str, form: Form, output: int = 0, *, before: Sequence[str] = ()) -> Fragment:
        """The fragment that assigns an expression to an output, after what is written and the statements ``before``."""
        self.write(*before)
        if self.wants(output):
            self.write(*self._scope.forms.define(self.node.outputs[output], text, form))
        return self.fragment()

    def matrix_result(self, text: str, split: int, output: int = 0, *, before: Sequence[str] = ()) -> Fragment:
        """As `result`, for an expression with the output's axes from ``split`` on in the columns."""
        return self.result(text, split_view(self.output_dims(output), split), output, before=before)

    def results(self, targets: Mapping[int, str], statements: Sequence[str]) -> Fragment:
        """The fragment of statements that assign outputs, in boundary form, to the variables ``targets``."""
        fragment = self.fragment(statements)
        for output, target in targets.items():
            if self.wants(output):
                fragment += self.result(target, self.boundary(output), output)
        return fragment

    def same_elements(self, given: Input = 0, output: int = 0) -> Fragment:
        """The fragment of an output with the elements of an input in order: an alias if possible, else a reshape."""
        statements: list[str] = []
        name, out_name = self.name(given), self.node.outputs[output]
        for form, identifier in list(self._scope.forms.of(out_name).items()):
            fitting = form
            if form == LIST:
                pass
            elif form is SCALAR and self.dims(given) != ():
                fitting = View(1, 1)
            elif form is not SCALAR and self.dims(given) == ():
                fitting = SCALAR
            if fitting == form and self._scope.alias(name, form, identifier):
                continue
            if form is not SCALAR and fitting is not SCALAR and self._scope.is_deferred(name, form):
                known = self._scope.demand(name, self._scope.known_form(name))
                statements.append(f"{identifier} = {self.reshape(known, form)}")
                continue
            if form is SCALAR:
                statements.append(f"{identifier} = {self.scalar(given)}")
            elif fitting is SCALAR:
                statements.append(f"{identifier} = as.matrix({self.scalar(given)})")
            else:
                statements.append(f"{identifier} = {self._scope.demand(name, form)}")  # as many elements, rules say
        return self.fragment(statements)

    def fragment(self, statements: Sequence[str] = ()) -> Fragment:
        """A fragment of what is written and these statements, with all functions that are used so far."""
        written = (*self._statements, *statements)
        self._statements.clear()
        return Fragment(written, tuple(self._imports), tuple(self._functions), tuple(self._layers))

    # --- text --------------------------------------------------------------------------------------------------

    def dim(self, size: Dim) -> str:
        """A size as a DML expression, without parentheses."""
        return self._scope.sizes.text(size)

    def factor(self, size: Dim) -> str:
        """A size as a DML operand, in parentheses if necessary."""
        return self._scope.sizes.factor(size)

    def reshape(self, text: str, view: View) -> str:
        """DML that reshapes ``text``."""
        return reshaped(text, view, self.dim)

    def converted(self, text: str, form: Form, wanted: Form) -> str:
        """DML that converts ``text`` from one form to another form of the same elements."""
        return converted(text, form, wanted, self.dim)

    def filled(self, value: object, form: Form) -> str:
        """DML of a number in a form: the number for a scalar, else a filled matrix.

        For ``ifelse`` of a matrix: with a scalar branch the engine takes unknown dims of the result for 0 x 0.
        """
        if form is SCALAR:
            return str(value)
        return f"matrix({value}, rows={self.dim(form.rows)}, cols={self.dim(form.cols)})"

    def mask(self, text: str, form: Form) -> str:
        """DML of a mask for ``ifelse``, beside matrices of known size.

        Of a vector the engine learns the length that is known here (ifelse-of-a-vector-of-unknown-length).
        """
        if form is SCALAR or not all_known(form) or 1 not in form:
            return text
        return f"matrix({text}, rows={self.dim(form.rows)}, cols={self.dim(form.cols)})"

    def full(self, value: str, view: View) -> str:
        """DML of a filled matrix as the result of a node; the engine does not see that all elements are equal."""
        if number_in(value) == 0:
            return self.call(ZEROS, self.dim(view.rows), self.dim(view.cols))
        return full_matrix(value, self.dim(view.rows), self.dim(view.cols))

    def rounded(self, text: str, form: Form, output: int = 0) -> str:
        """DML of an intermediate result rounded to FP32, if the output is computed in FP32."""
        return self._scope.forms.rounded(self.node.outputs[output], text, form)

    def fresh(self, hint: str) -> str:
        """A new identifier."""
        return self._scope.names.fresh(hint)

    def temporary(self, hint: str) -> str:
        """A new identifier for an intermediate result, named after the first output."""
        return self.fresh(f"{self._base_name}_{hint}")

    def write(self, *statements: str) -> None:
        """Write statements: the fragment that is made next begins with all that is written until then."""
        self._statements += statements

    def named(self, hint: str, text: str) -> str:
        """A `temporary` for an intermediate result, which a statement that is written gives it."""
        name = self.temporary(hint)
        self.write(f"{name} = {text}")
        return name

    def new_codes(self, hint: str, call: str) -> str:
        """As `named`, for a call that returns codes and the dictionary extended by new strings."""
        codes = self.temporary(hint)
        self.write(self.texts.extending(call, codes))
        return codes

    def shared(self, text: str, sizes: Sequence[Dim], hint: str) -> str:
        """The identifier of an expression over ``sizes`` alone.

        Nodes with the same expression share one definition, unless only the run knows the sizes.
        """
        return self.named(hint, text) if depends_on_run(sizes) else self._scope.shared(text, hint)

    def constant_matrix(self, array: np.ndarray[Any, Any], hint: str, base: str = "") -> str:
        """The identifier of a matrix that is known at conversion; ``array`` has rank 2.

        base: what it is named after instead of this node. Nodes that name views of one weight alike share the matrix.
        """
        name = f"{base or self._base_name}_{hint}"
        while self._scope.constants.is_other(name, array) or name in self._scope.graph.values:
            name += "_"
        return self._scope.constant(name, array, View(*array.shape))

    def is_shared(self, given: Input) -> bool:
        """Whether other inputs of nodes of this graph are the same value."""
        return self._scope.reads[self.name(given)] > 1

    def text_result(self, call: str, form: Form) -> Fragment:
        """As `result`, for a call that returns codes and the dictionary extended by new strings."""
        return self.result(in_form(self.new_codes("codes", call), form), form)

    def render(self, template: str, /, **names: object) -> list[str]:
        """Render ``templates/operators/<template>.dml.jinja`` to statements."""
        return [self._render_template(template, **names)]

    def is_checked(self, output: int = 0) -> bool:
        """Whether the script checks the range of an output of 64-bit integers."""
        return self.node.outputs[output] in self._scope.forms.integers.checks

    def of_rows(self, text: str, rows: Dim) -> str:
        """A matrix with so many rows, and as many columns as its elements take: their number shows in these alone."""
        return f"matrix({text}, rows={self.dim(rows)}, cols=length({text}) / {self.factor(rows)})"

    def reach(self, given: Input) -> int | None:
        """The largest magnitude of an input of 64-bit integers; None where it is not known."""
        span = self._scope.forms.integers.spans.get(self.name(given))
        return None if span is None else span.reach

    def call(self, function: str, *arguments: object) -> str:
        """A call of a function of ``templates/library``; arguments are DML, numbers or booleans."""
        library_text(function)  # if there is none, it is this node that cannot be written
        self._imports.setdefault(function)
        return f"{function}({_written(arguments)})"

    def call_on(self, function: str, x: str, *arguments: object, single: bool) -> str:
        """A call of a function of the matrix ``x``; with ``single`` x and the result are scalars."""
        called = self.call(function, f"as.matrix({x})" if single else x, *arguments)
        return f"as.scalar({called})" if single else called

    def layer(self, name: str, *arguments: object) -> str:
        """A call of ``forward`` of a layer, ``nn/layers/<name>.dml``."""
        self._layers.setdefault(name)
        return f"{name}::forward({_written(arguments)})"

    def layer_result(self, call: str, view: View, unused: Sequence[str]) -> Fragment:
        """The first output from a layer with several results; ``unused``: hints for the names of the others."""
        name = self.target(0, view)
        self.write(f"[{', '.join([name, *map(self.temporary, unused)])}] = {call}")
        return self.result(name, view)

    @cached_property
    def bodies(self) -> Mapping[str, TypedGraph]:
        """The sub-graphs that can run, by attribute, with the types that the shape rule inferred."""
        known = self._scope.graph.bodies
        places = [(self.position, attribute) for attribute in (*self.node.attributes, BODY)]
        return {place[1]: known[place] for place in places if place in known}

    def body(
        self, attribute: str, outputs: Sequence[int] | None = None, *, hint: str = "", returned: Sequence[Dim] = ()
    ) -> SubFunction:
        """Render the sub-graph in an attribute as a function.

        ``outputs``: those to return, by position; None: all. ``hint``: for its name, by default from the first output
        and the attribute. ``returned``: sizes of the sub-graph that it returns after the outputs.
        """
        typed = self.bodies[attribute]
        if outputs is not None:
            typed = replace(typed, outputs=tuple(typed.outputs[position] for position in outputs))
        rendered = self._render_body(typed, hint or f"{self._base_name}_{attribute}", returned)
        self._functions += rendered.functions
        return rendered

    def own_function(self, hint: str, key: str, text: Callable[[str], str]) -> str:
        """The name of a function with a text of the generator's own; equal keys share one function."""
        name = self._scope.parts.function_name(hint, key)
        self._functions.append(function_of(text(name)))
        return name

    def target(self, output: int = 0, view: View | None = None) -> str:
        """An identifier for an output in boundary form or a view; the requested one if there is one."""
        name = self.node.outputs[output] if output < len(self.node.outputs) else ""
        form = self.boundary(output) if name and view is None else view
        return self._scope.forms.of(name).get(form) or self.temporary(f"result{output}")

    def own_sizes(self) -> tuple[str, ...]:
        """The symbols of the sizes that this node's statements decide."""
        return self._scope.graph.sizes.get(self.position, ())

    def returned_sizes(self) -> list[tuple[str, int, int]]:
        """The sizes that this node must return besides its outputs: identifier, output and axis of each."""
        found: list[tuple[str, int, int]] = []
        for name in self._scope.graph.sizes.get(self.position, ()):
            if name not in self._scope.returned:
                continue
            output, axis = next(
                (output, axis) for output, value in enumerate(self.node.outputs) if value
                for axis, size in enumerate(self.values[value].dims or ()) if size == symbol(name)
            )
            found.append((self._scope.sizes.name(name), output, axis))
        return found

    # --- dims --------------------------------------------------------------------------------------------------

    def boundary(self, output: int = 0) -> Form:
        """The form of an output at function boundaries."""
        return self._scope.boundary(self.node.outputs[output])
