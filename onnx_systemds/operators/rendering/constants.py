"""The constant matrices of one function: literals, or entries of the list of weights."""

from __future__ import annotations

from functools import cached_property

from onnx_systemds.dml.literals import matrix_literal, uniform_literal
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.engine.safe_forms import ZEROS, full_matrix
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.known_dims import as_int
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api.layout import SCALAR, View
from onnx_systemds.operators.rendering.equal_arrays import is_same
from onnx_systemds.operators.rendering.script_parts import ScriptParts
from onnx_systemds.operators.rendering.value_forms import ValueForms
from onnx_systemds.operators.rendering.weight_loads import load


class Constants:
    """Constants by name, each defined where it is used first. uses_weights: whether any comes from a file."""

    def __init__(self, graph: TypedGraph, parts: ScriptParts, forms: ValueForms) -> None:
        self.uses_weights = False
        self._graph = graph
        self._parts = parts
        self._forms = forms
        self._arrays: dict[str, Array] = {}
        self._users: dict[str, int] = {}  # by constant: the fragment that uses it first in the script

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def is_other(self, name: str, array: Array) -> bool:
        """Whether a name is that of a constant which is no view of the same memory."""
        known = self._arrays.get(name)
        return known is not None and not is_same(known, array)

    def note(self, name: str, array: Array, user: int) -> None:
        """Have a constant defined before a fragment, or of one that uses it before."""
        self._arrays[name] = array
        self._users[name] = user

    def statements(self) -> dict[int, list[str]]:
        """Definitions of the constants, by the number of the fragment that uses them first.

        They stand near their use: a value that lives through many blocks costs compile time in each of them.
        Where the function takes the list of weights anyway, all but a few numbers come out of it.
        """
        self.uses_weights = self.uses_weights or any(
            self._is_trainable(name) or self._parts.goes_to_file(array) for name, array in self._arrays.items()
        )
        statements: dict[int, list[str]] = {}
        for name in reversed(list(self._arrays)):
            view = next(iter(self._forms.of(name)))
            assert view is not SCALAR
            statements.setdefault(self._users[name], []).extend(self._lines(name, view))
        return statements

    def _lines(self, name: str, view: View) -> list[str]:
        array = self._arrays[name]
        is_trainable = self._is_trainable(name)
        if not is_trainable and not self._parts.goes_to_file(array, has_list=self.uses_weights):
            return self._forms.define(name, self._literal(name, array, view), view)
        key = self._parts.weight_key(name, array, view, is_trainable=is_trainable)
        rows, cols = self._parts.weights[key].array.shape
        text = print_expression(load(key, rows, cols))
        if (rows, cols) != (view.rows, view.cols):  # of another function, or by another name
            text = f"matrix({text}, rows={view.rows}, cols={view.cols})"
        return self._forms.define(name, text, view)

    def _is_trainable(self, name: str) -> bool:
        value = self._graph.values.get(name)  # none of what generators calculate themselves
        return value is not None and value.weight is not None

    def _literal(self, name: str, array: Array, view: View) -> str:
        """A constant in the script; the engine must not see it in what nodes calculate of constants alone."""
        number = uniform_literal(array) if name in self._beside_constants else None
        if number is None:
            return matrix_literal(array, as_int(view.rows), as_int(view.cols))
        if array.flat[0] == 0:
            self._parts.imports[ZEROS] = None
        return full_matrix(number, str(view.rows), str(view.cols))

    @cached_property
    def _beside_constants(self) -> set[str]:
        """The inputs of nodes that have no others than constants."""
        values = self._graph.values
        inputs = [[name for name in node.inputs if name] for node in self._graph.nodes]
        known = [names for names in inputs if all(values[name].constant is not None for name in names)]
        return {name for names in known for name in names}


def known_view(size: int, view: View) -> View | None:
    """A view of that many elements in integers: an operator may ask for a size of the run that has to be equal."""
    rows, cols = view
    if isinstance(rows, int) and isinstance(cols, int):
        return view
    known = rows if isinstance(rows, int) else cols
    if not isinstance(known, int):
        return None
    if known == 0 or size % known:
        raise UnsupportedCase(f"{size} elements do not fill a {rows} x {cols} matrix")
    return View(rows, size // known) if isinstance(rows, int) else View(size // known, cols)
