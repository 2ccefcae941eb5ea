"""One DML function while it is rendered from its end to its start.

A consumer is rendered before the producer. It *demands* the forms (see `layout`) of its inputs that it needs and gets
identifiers for them; when the walk reaches the producer, all its consumers have said what they want, so the producer
writes its result once, and each further form as one reshape. What nobody demands is never written: that is
the dead-code elimination. The first form demanded of a value gets the plain name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from onnx_systemds.dml.literals import element_literal
from onnx_systemds.dml.names import Names
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.checks import Checks
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.local_functions import BODY
from onnx_systemds.inference.registry import boundary_operators
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value, has_known_elements
from onnx_systemds.inference.wide_integers import check_held
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api.layout import LIST, SCALAR, Form, View, in_form, item_form
from onnx_systemds.operators.api.reserved_names import NEVER, OLD_TEXTS, TEXTS, WEIGHTS
from onnx_systemds.operators.rendering.constants import Constants, known_view
from onnx_systemds.operators.rendering.deferred_forms import DeferredForms
from onnx_systemds.operators.rendering.function_sizes import FunctionSizes
from onnx_systemds.operators.rendering.integer_checks import sum_check
from onnx_systemds.operators.rendering.script_parts import ScriptParts
from onnx_systemds.operators.rendering.value_forms import ValueForms


class Scope:
    """What is demanded of the values of one function, and the statements that are not a node's own.

    names, sizes, forms, constants, deferred: its identifiers, and what stands for sizes and values. rendered: number of
    the fragment that is being rendered, counted from the end; -1: the outputs.
    """

    def __init__(
        self, graph: TypedGraph, parts: ScriptParts, own: Mapping[str, Value], outer: Scope | None = None
    ) -> None:
        """Start a function; ``outer`` is the one around it, None for the main one."""
        self.is_main = outer is None
        self.graph = graph
        self.parts = parts
        self.own = own
        self.names = Names([WEIGHTS, TEXTS, NEVER], parts.short_names)
        around = None if outer is None else outer.sizes
        checks = Checks(graph, None if around is None else around.checks)
        self.sizes: FunctionSizes = FunctionSizes(self.names, checks, around)
        self.forms = ValueForms(graph, parts, self.names, self.sizes)
        self.constants = Constants(graph, parts, self.forms)
        self.deferred = DeferredForms(self.names, self.sizes)
        self.rendered = -1
        self.captured: dict[str, None] = {}
        # sizes are read from the boundary form before there is another one
        self.at_boundary = {name for position, node in enumerate(graph.nodes) for name in node.outputs
                            if node.identity in boundary_operators or (position, BODY) in graph.bodies}
        self.returned: dict[str, None] = {}  # sizes that no result's rows and columns show: the node gives them, too
        self.uses_texts = False

    @cached_property
    def reads(self) -> Counter[str]:
        """How many inputs of nodes of this graph each value is."""
        return Counter(name for node in self.graph.nodes for name in node.inputs)

    def value(self, name: str) -> Value:
        """What inference knows of a value."""
        return self.forms.value(name)

    def dims(self, name: str) -> Dims:
        """Dims of a value. Raises ShapeUnknown."""
        return self.forms.dims(name)

    def boundary(self, name: str) -> Form:
        """The form of a value at function boundaries. Raises ShapeUnknown."""
        return self.forms.boundary(name)

    def texts(self) -> str:
        """What stands for the dictionary of strings; from now on the function defines it or is given it."""
        self.uses_texts = True
        return OLD_TEXTS

    # --- demands -----------------------------------------------------------------------------------------------

    def demand(self, name: str, form: Form) -> str:
        """The DML text of a value in a form: an identifier, or a literal for a known scalar.

        Raises UnsupportedCase for values that have no matrix form yet.
        """
        value = self.value(name)
        if value.items is not None:
            return self._list_of(value.items)
        if self.is_deferred(name, form):
            return self._deferred_identifier(name, form)
        self._check_size(name, value, form)
        if value.constant is not None:
            check_held(name, value.constant)
            content = self.parts.vocabulary.codes(value.constant) if value.dtype == "string" else value.constant
            return element_literal(content) if form is SCALAR else self.constant(name, content, form)
        if value.weight is not None and name in self.own:  # else it is captured: a program trains what main takes
            known = self.constant(name, value.weight, View(1, 1) if form is SCALAR else form)
            return in_form(known, form)
        if value.elements is not None:
            if form is SCALAR:
                return self.sizes.factor(value.elements.ravel()[0])
        elif value.dtype == "" and not value.is_list:
            raise UnsupportedCase(f"{quoted(name)} is no dense tensor, sequence or optional: not supported")
        if name not in self.own and not has_known_elements(value):
            self.captured.setdefault(name)
        return self.forms.identifier(name, form)

    def _check_size(self, name: str, value: Value, form: Form) -> None:
        """Raise UnsupportedCase for a form with another number of elements: the node's inputs do not fit each other."""
        if not isinstance(form, View) or not value.is_known_size or value.is_list:
            return
        if isinstance(form.rows, int) and isinstance(form.cols, int) and value.size != form.rows * form.cols:
            shown = ", ".join(map(str, value.dims or ()))
            raise UnsupportedCase(f"{quoted(name)} is [{shown}], where {form.rows} x {form.cols} elements are needed")

    def _list_of(self, items: Sequence[str]) -> str:
        """A list of values that are known by name."""
        given: list[str] = []
        for item in items:
            form = LIST if self.value(item).is_list else item_form(self.dims(item))
            given.append(self.demand(item, form))
        return f"list({', '.join(given)})"

    def constant(self, name: str, array: Array, view: View) -> str:
        """The identifier of a constant matrix, defined where it is used first."""
        self.constants.note(name, array, self.rendered)
        known = known_view(array.size, view)
        if known is None:  # written down as it is at function boundaries, and reshaped when the script runs
            self.forms.identifier(name, self.known_form(name))
        return self.forms.identifier(name, known or view)

    def is_deferred(self, name: str, form: Form) -> bool:
        """Whether a form of a value holds sizes that the run decides, but not when it computes the value."""
        if form is SCALAR:
            return False
        mentioned = [symbol for symbol in dim.symbols(form) if dim.depends_on_run(dim.symbol(symbol))]
        if name in self.at_boundary and mentioned and form != LIST:
            return form != self.known_form(name)
        return bool(mentioned) and not set(mentioned) <= set(dim.symbols(self.dims(name)))

    def known_form(self, name: str) -> View:
        """A form of a value that its producer can write: that of function boundaries, as a matrix."""
        return item_form(self.dims(name))

    def _deferred_identifier(self, name: str, form: Form) -> str:
        source = self.demand(name, SCALAR if self.dims(name) == () else self.known_form(name))
        source = f"as.matrix({source})" if self.dims(name) == () else source
        return self.deferred.identifier(name, form, source, self.rendered)

    def shared(self, text: str, hint: str) -> str:
        """The identifier of an expression over sizes alone, which is defined once, before its first use."""
        return self.deferred.shared(text, hint, self.rendered)

    def is_demanded(self, name: str) -> bool:
        """Whether any consumer wants the value, and its producer has to write it."""
        return name in self.forms and name not in self.constants and not has_known_elements(self.value(name))

    def alias(self, name: str, form: Form, identifier: str) -> bool:
        """Let the producer of ``name`` write straight into ``identifier``; False when the name is already taken."""
        value = self.value(name)
        is_plain = name in self.own and name not in self.graph.inputs and value.content is None
        if not is_plain or value.elements is not None or form in self.forms.of(name) or self.is_deferred(name, form):
            return False
        self.forms.give(name, form, identifier)
        return True

    # --- statements --------------------------------------------------------------------------------------------

    def sum_checks(self, position: int) -> list[str]:
        """Statements that stop the run where sums of 64-bit integers at a node lose digits on their way."""
        terms = self.forms.integers.sums.get(position)
        if terms is None:
            return []
        node = self.graph.nodes[position]
        factors = [(self.demand(name, self.forms.first(name)), self.forms.first(name))
                   for name in (node.inputs[place] for place in terms.positions)]
        count = "" if terms.number == 1 else self.sizes.factor(terms.number)
        return [sum_check(next(name for name in node.outputs if name), factors, count)]

    def element_statements(self) -> list[str]:
        """Definitions of small tensors whose elements are sizes."""
        statements: list[str] = []
        for name in list(self.forms):
            if name in self.constants or not has_known_elements(self.value(name)):
                continue
            value = self.value(name)
            assert value.elements is not None
            column = ", ".join(f"as.matrix({self.sizes.text(element)})" for element in value.elements.ravel())
            form = View(value.elements.size, 1)
            statements += self.forms.define(name, f"rbind({column})" if value.elements.size > 1 else column, form)
        return statements
