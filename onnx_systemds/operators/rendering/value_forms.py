"""The forms that consumers ask for of the values of one function, and the statements that give them."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_systemds.dml.names import Names
from onnx_systemds.errors import TYPE_ADVICE, ShapeUnknown, quoted
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.inference.wide_integers import GraphIntegers
from onnx_systemds.operators.api.layout import LIST, SCALAR, Form, boundary_form, converted
from onnx_systemds.operators.rendering.function_sizes import FunctionSizes
from onnx_systemds.operators.rendering.integer_checks import range_checks
from onnx_systemds.operators.rendering.script_parts import ScriptParts


class ValueForms:
    """By value the forms that it is demanded in, each with its identifier; the first one has the plain name."""

    def __init__(self, graph: TypedGraph, parts: ScriptParts, names: Names, sizes: FunctionSizes) -> None:
        self.used_inputs: set[str] = set()
        self.integers = GraphIntegers(graph, {}) if parts.integers is None else parts.integers.of(graph)
        self._graph = graph
        self._parts = parts
        self._names = names
        self._sizes = sizes
        self._forms: dict[str, dict[Form, str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._forms

    def __iter__(self) -> Iterator[str]:
        return iter(self._forms)

    def value(self, name: str) -> Value:
        """What inference knows of a value."""
        return self._graph.values[name]

    def dims(self, name: str) -> Dims:
        """Dims of a value. Raises ShapeUnknown."""
        found = self.value(name).dims
        if found is None:
            raise ShapeUnknown(f"the rank of {quoted(name)} is unknown", hint=TYPE_ADVICE)
        return found

    def boundary(self, name: str) -> Form:
        """The form of a value at function boundaries. Raises ShapeUnknown."""
        return LIST if self.value(name).is_list else boundary_form(self.dims(name))

    def of(self, name: str) -> dict[Form, str]:
        """The identifiers of a value by form, in the order in which the forms were asked for."""
        return self._forms.get(name, {})

    def first(self, name: str) -> Form:
        """The form of a value that its consumers asked for first, else that of function boundaries."""
        forms = self._forms.get(name)
        return next(iter(forms)) if forms else self.boundary(name)

    def identifier(self, name: str, form: Form) -> str:
        """The identifier of a value in a form, from now on demanded."""
        forms = self._forms.setdefault(name, {})
        if name in self._graph.inputs:
            self.used_inputs.add(name)
        if form not in forms:
            forms[form] = self._names.of(name) if not forms else self._names.fresh(view_hint(name, form))
        return forms[form]

    def give(self, name: str, form: Form, identifier: str) -> None:
        """Take an identifier for a value in a form."""
        self._forms.setdefault(name, {})[form] = identifier

    def rounded(self, name: str, text: str, form: Form) -> str:
        """An expression as FP32 holds it, if it is (a step to) a value that has to be computed so."""
        if (id(self._graph.own), name) not in self._parts.in_single_precision:
            return text
        self._parts.imports["nearest_float"] = None
        return f"as.scalar(nearest_float(as.matrix({text})))" if form is SCALAR else f"nearest_float({text})"

    def define(self, name: str, text: str, form: Form) -> list[str]:
        """The statements that give a value all the forms demanded of it, from an expression of one form."""
        forms = self._forms.get(name, {})
        if not forms:
            return []
        text = self.rounded(name, text, form)
        home = form if form in forms else next(iter(forms))
        identifier = forms[home]
        expression = converted(text, form, home, self._sizes.text)
        statements = [] if expression == identifier else [f"{identifier} = {expression}"]
        statements += [
            f"{other} = {converted(identifier, home, wanted, self._sizes.text)}"
            for wanted, other in forms.items()
            if other != identifier
        ]
        return statements + range_checks(self.integers, name, identifier, home)


def view_hint(name: str, form: Form) -> str:
    """What a further form of a value is called."""
    if form is SCALAR:
        return f"{name}_scalar"
    return shape_hint(name, form.cols if isinstance(form.cols, int) else None)


def shape_hint(name: str, cols: int | None) -> str:
    """What a matrix in another shape is called; cols: None if only the run knows how many it has."""
    return f"{name}_view" if cols is None else f"{name}_by_{cols}"
