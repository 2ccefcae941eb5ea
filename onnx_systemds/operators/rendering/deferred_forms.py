"""Definitions that are placed before their first use: size expressions, and forms that the producer cannot write."""

from __future__ import annotations

from onnx_systemds.dml.names import Names
from onnx_systemds.inference import dims as dim
from onnx_systemds.operators.api.layout import SCALAR, Form, reshaped
from onnx_systemds.operators.rendering.function_sizes import FunctionSizes
from onnx_systemds.operators.rendering.value_forms import view_hint


class DeferredForms:
    """Definitions by the fragment that uses them first; fragments are numbered from the end of the function."""

    def __init__(self, names: Names, sizes: FunctionSizes) -> None:
        self._names = names
        self._sizes = sizes
        # identifier, its source, fragment of first use
        self._deferred: dict[tuple[str, Form], tuple[str, str, int]] = {}
        self._shared: dict[str, tuple[str, int]] = {}  # by expression: identifier, fragment of first use

    def identifier(self, name: str, form: Form, source: str, user: int) -> str:
        """The identifier of a deferred form, a reshape of ``source``."""
        identifier, _, _ = self._deferred.get((name, form), ("", "", 0))
        for symbol in dim.symbols(form or ()):
            self._sizes.name(symbol)
        self._deferred[name, form] = (identifier or self._names.fresh(view_hint(name, form)), source, user)
        return self._deferred[name, form][0]

    def shared(self, text: str, hint: str, user: int) -> str:
        """The identifier of an expression over sizes alone."""
        identifier, _ = self._shared.get(text) or (self._names.fresh(hint), 0)
        self._shared[text] = (identifier, user)
        return identifier

    def statements(self) -> dict[int, list[str]]:
        """The definitions, by the number of the fragment that uses them first."""
        statements: dict[int, list[str]] = {}
        for text, (identifier, user) in self._shared.items():
            statements.setdefault(user, []).append(f"{identifier} = {text}")
        for (_, form), (identifier, source, user) in self._deferred.items():
            assert form is not SCALAR
            statements.setdefault(user, []).append(f"{identifier} = {reshaped(source, form, self._sizes.text)}")
        return statements
