"""What a generator may ask for and say while its node is rendered."""

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
from onnx_systemds.inference.local_functions import BODY
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.wide_integers import TYPES
from onnx_systemds.model.ir import Array, Node
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.layout import LIST, SCALAR, Form, View, converted, reshaped, split_view
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

    Matrices are asked for by split (see `layout`): ``matrix(0, split=1)`` is the identifier of the first input with
    its first axis in the rows. Results are given the same way, in whatever split the operator leaves them.
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
        self._imports: dict[str, None] = {}
        self._functions: list[tree.Function] = []
        self._layers: dict[str, None] = {}

    def constant(self, given: Input) -> Array | None:
        """Content of an input that is known at conversion, else None; of text its codes."""
        content = super().constant(given)
        return content if content is None or self.dtype(given) != "string" else self.texts.codes(content)

    # --- inputs ------------------------------------------------------------------------------------------------

    def matrix(self, given: Input, split: int) -> str:
        """Identifier of an input as a matrix with the axes from ``split`` on in the columns."""
        dims = self.dims(given)
        return self.view(given, split_view(dims, split))

    def view(self, given: Input, form: Form) -> str:
        """Text of an input in a form: the identifier of a matrix of the given rows and columns, or a scalar."""
        value = self.value(given)
        if isinstance(form, View) and value.dims is not None and not value.is_list:
            self._check_size(given, product(value.dims), form.rows * form.cols)
        return self._scope.demand(self.name(given), form)

    def _check_size(self, given: Input, size: Dim, wanted: Dim) -> None:
        """Let the script check what only the run tells: of a matrix of zeros the engine makes one of any size."""
        if size != wanted and not (isinstance(size, int) and isinstance(wanted, int)):
            words = f"the number of elements of {quoted(self.name(given))}", "that of those which it takes"
            self._check(Assumption(size, wanted, Relation.EQUAL, *words, node_words(self.node)))

    def check_filled(self, size: Dim) -> None:
        """Let the script check that the axes of a size have elements."""
        names = filter(None, (*self.node.outputs, *self.node.inputs))
        name, dims = next((name, dims) for name in names if size in (dims := self.values[name].dims or ()))
        words = axis_words(name, dims.index(size))
        self._check(Assumption(size, 1, Relation.AT_LEAST, words, "", node_words(self.node)))

    def _check(self, assumption: Assumption) -> None:
        self._scope.sizes.checks.add(self.position, assumption)

    def scalar(self, given: Input) -> str:
        """A single-element input as a DML scalar: an identifier, a literal or an expression in parentheses."""
        return self._scope.demand(self.name(given), SCALAR)

    def known_form(self, given: Input) -> Form:
        """The form of an input that others already asked for, else that of function boundaries."""
        return self._scope.forms.first(self.name(given))

    def integer_span(self, given: Input) -> Span:
        """Where an input of 64-bit integers lies; of other types all that is exact."""
        content = super().constant(given)
        if content is not None and content.dtype.kind in "iu":
            return Span(int(content.min(initial=0)), int(content.max(initial=0)))
        if self.dtype(given) not in TYPES:
            return Span(0, 0)
        return self._scope.forms.integers.spans.get(self.name(given), EXACT)

    def computing(self, given: Input) -> Node | None:
        """The node of the same graph that computes an input, None for inputs of the graph, constants and captures."""
        name = self.name(given)
        before = reversed(self._scope.graph.nodes[: self.position])
        return next((node for node in before if name in node.outputs), None)

    def upstream(self, given: Input) -> NodeView | None:
        """The node that `computing` gives, of which inputs can be asked for in its place."""
        found = self.computing(given)
        if found is None:
            return None
        nodes = self._scope.graph.nodes
        position = next(place for place in reversed(range(self.position)) if nodes[place] is found)
        return NodeView(found, self._scope, position, self._render_template, self._render_body)

    # --- outputs -----------------------------------------------------------------------------------------------

    def wants(self, output: int = 0) -> bool:
        """Whether any consumer wants the output."""
        names = self.node.outputs
        return output < len(names) and names[output] != "" and self._scope.is_demanded(names[output])

    def output_dims(self, output: int = 0) -> Dims:
        """Dims of an output. Raises ShapeUnknown."""
        return self._scope.dims(self.node.outputs[output])

    def output_dtype(self, output: int = 0) -> str:
        """Element type of an output."""
        return self.values[self.node.outputs[output]].dtype

    def wanted_form(self, output: int = 0) -> Form:
        """The form in which the output's consumers want it first."""
        return self._scope.forms.first(self.node.outputs[output])

    def result(self, text: str, form: Form, output: int = 0, *, before: Sequence[str] = ()) -> Fragment:
        """The fragment that gives an output from an expression, after the statements ``before``."""
        if not self.wants(output):
            return self.fragment(before)
        return self.fragment([*before, *self._scope.forms.define(self.node.outputs[output], text, form)])

    def matrix_result(self, text: str, split: int, output: int = 0, *, before: Sequence[str] = ()) -> Fragment:
        """As `result`, for an expression whose columns hold the output's axes from ``split`` on."""
        return self.result(text, split_view(self.output_dims(output), split), output, before=before)

    def results(self, targets: Mapping[int, str], statements: Sequence[str]) -> Fragment:
        """The fragment of statements after which these variables hold outputs, in boundary form."""
        fragment = self.fragment(statements)
        for output, target in targets.items():
            if self.wants(output):
                fragment += self.result(target, self.boundary(output), output)
        return fragment

    def same_elements(self, given: Input = 0, output: int = 0) -> Fragment:
        """The output holds the input's elements in the same order: rename where possible, else reshape."""
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
        """A fragment with the library functions and sub-graph functions that were asked for."""
        return Fragment(tuple(statements), tuple(self._imports), tuple(self._functions), tuple(self._layers))

    # --- text --------------------------------------------------------------------------------------------------

    def dim(self, size: Dim) -> str:
        """A size as a DML expression, not in parentheses."""
        return self._scope.sizes.text(size)

    def factor(self, size: Dim) -> str:
        """A size as a DML operand."""
        return self._scope.sizes.factor(size)

    def reshape(self, text: str, view: View) -> str:
        """The DML expression that reshapes ``text``."""
        return reshaped(text, view, self.dim)

    def converted(self, text: str, form: Form, wanted: Form) -> str:
        """The DML expression of ``text``, which has one form, in another form of the same elements."""
        return converted(text, form, wanted, self.dim)

    def filled(self, value: object, form: Form) -> str:
        """A number in a form: as it is for a scalar, else a matrix full of it.

        An ifelse of a matrix needs it: beside a scalar the engine takes unknown dims of the result for 0 x 0.
        """
        if form is SCALAR:
            return str(value)
        return f"matrix({value}, rows={self.dim(form.rows)}, cols={self.dim(form.cols)})"

    def full(self, value: str, view: View) -> str:
        """A matrix full of a number, of which the engine doesn't see that: for results of nodes."""
        if number_in(value) == 0:
            return self.call(ZEROS, self.dim(view.rows), self.dim(view.cols))
        return full_matrix(value, self.dim(view.rows), self.dim(view.cols))

    def rounded(self, text: str, form: Form, output: int = 0) -> str:
        """A step to an output as FP32 holds it, where it is computed so."""
        return self._scope.forms.rounded(self.node.outputs[output], text, form)

    def fresh(self, hint: str) -> str:
        """A new identifier."""
        return self._scope.names.fresh(hint)

    def temporary(self, hint: str) -> str:
        """A new identifier for an intermediate result, named after the first output."""
        return self.fresh(f"{self._base_name}_{hint}")

    def named(self, hint: str, text: str, before: list[str]) -> str:
        """A `temporary` for an intermediate result; the statement that assigns it is added to ``before``."""
        name = self.temporary(hint)
        before.append(f"{name} = {text}")
        return name

    def shared(self, text: str, sizes: Sequence[Dim], hint: str) -> tuple[str, tuple[str, ...]]:
        """The identifier of an expression over ``sizes`` alone, and the statements that define it here.

        Nodes with the same expression share it; where only the run knows the sizes, each node has its own.
        """
        if depends_on_run(sizes):
            name = self.temporary(hint)
            return name, (f"{name} = {text}",)
        return self._scope.shared(text, hint), ()

    def constant_matrix(self, array: np.ndarray[Any, Any], hint: str) -> str:
        """Identifier of a matrix that is known at conversion; ``array`` is rank 2."""
        name = f"{self._base_name}_{hint}"
        while name in self._scope.constants or name in self._scope.graph.values:
            name += "_"
        return self._scope.constant(name, array, View(*array.shape))

    def text_result(self, call: str, form: Form, output: int = 0, *, before: Sequence[str] = ()) -> Fragment:
        """As `result`, for a call that gives codes and the dictionary with the strings that are new in it."""
        codes = self.temporary("codes")
        lines = [*before, self.texts.extending(call, codes)]
        return self.result(f"as.scalar({codes})" if form is SCALAR else codes, form, output, before=lines)

    def render(self, template: str, /, **names: object) -> list[str]:
        """Render ``templates/operators/<template>.dml.jinja`` to statements."""
        return [self._render_template(template, **names)]

    def is_checked(self, output: int = 0) -> bool:
        """Whether the script looks at how large a result of 64-bit integers gets."""
        return self.node.outputs[output] in self._scope.forms.integers.checks

    def call(self, function: str, *arguments: object) -> str:
        """A call of a function of ``templates/library``; arguments are texts, numbers and booleans."""
        library_text(function)  # if there is none, it is this node that cannot be written
        self._imports.setdefault(function)
        return f"{function}({_written(arguments)})"

    def call_on(self, function: str, x: str, *arguments: object, single: bool) -> str:
        """A call of a function of the matrix ``x``; ``single``: that is a scalar, and so is the result."""
        called = self.call(function, f"as.matrix({x})" if single else x, *arguments)
        return f"as.scalar({called})" if single else called

    def layer(self, name: str, *arguments: object) -> str:
        """A call of ``forward`` of a layer, ``nn/layers/<name>.dml``."""
        self._layers.setdefault(name)
        return f"{name}::forward({_written(arguments)})"

    def layer_result(self, call: str, view: View, unused: Sequence[str]) -> Fragment:
        """The first output from a layer that gives more than that: ``unused`` are hints for names of the rest."""
        name = self.target(0, view)
        names = ", ".join([name, *map(self.temporary, unused)])
        return self.result(name, view, before=[f"[{names}] = {call}"])

    @cached_property
    def bodies(self) -> Mapping[str, TypedGraph]:
        """By attribute the sub-graphs that can be executed, with the types that the shape rule found."""
        known = self._scope.graph.bodies
        places = [(self.position, attribute) for attribute in (*self.node.attributes, BODY)]
        return {place[1]: known[place] for place in places if place in known}

    def body(
        self, attribute: str, outputs: Sequence[int] | None = None, *, hint: str = "", returned: Sequence[Dim] = ()
    ) -> SubFunction:
        """Render the sub-graph in an attribute as a function of its own, with only these outputs (None: all).

        ``hint``: its name; without one it is named after the first output and the attribute. ``returned``: sizes of the
        sub-graph that it gives after the outputs.
        """
        typed = self.bodies[attribute]
        if outputs is not None:
            typed = replace(typed, outputs=tuple(typed.outputs[position] for position in outputs))
        rendered = self._render_body(typed, hint or f"{self._base_name}_{attribute}", returned)
        self._functions += rendered.functions
        return rendered

    def own_function(self, hint: str, key: str, text: Callable[[str], str]) -> str:
        """A function whose text is made here: its name, the same one for each use of the same ``key``."""
        name = self._scope.parts.function_name(hint, key)
        self._functions.append(function_of(text(name)))
        return name

    def target(self, output: int = 0, view: View | None = None) -> str:
        """An identifier for an output in boundary form or a view, its own where that is wanted; see `result`."""
        name = self.node.outputs[output] if output < len(self.node.outputs) else ""
        form = self.boundary(output) if name and view is None else view
        return self._scope.forms.of(name).get(form) or self.temporary(f"result{output}")

    def own_sizes(self) -> tuple[str, ...]:
        """The symbols of sizes that only this node's statements decide."""
        return self._scope.graph.sizes.get(self.position, ())

    def returned_sizes(self) -> list[tuple[str, int, int]]:
        """The sizes that this node has to give beside its outputs: identifier, output and axis of each."""
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
