"""The heads of functions: parameters, results and their types."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.expressions import ExpressionParser
from onnx_systemds.dml.tokens import NAME, STRING, Token, unescape

_VALUE_TYPES = {
    spelling: "int" if word == "integer" else word
    for word in ("int", "integer", "string", "boolean", "double", "unknown")
    for spelling in (word, word.capitalize())
}
_DATA_TYPES = {
    spelling: kind for kind in ("matrix", "frame", "list", "scalar") for spelling in (kind, kind.capitalize())
}


class SignatureParser(ExpressionParser):
    """Parses what stands before the body of a function."""

    def head(self, defaults: bool) -> tuple[Token, str, tuple[tree.Parameter, ...], tuple[tree.Parameter, ...]]:
        """``name = function(...) return (...)``: the name, what messages call it, parameters and results."""
        name = self.advance()
        self.advance()
        self.advance()
        owner = f"the function {name.text}"
        self.expect("(", f"to begin the parameters of {owner}")
        parameters = self.separated(lambda: self.parameter(defaults), ")", f"the parameters of {owner}")
        return name, owner, parameters, self.results(owner)

    def results(self, owner: str) -> tuple[tree.Parameter, ...]:
        """``return (...)``, which may be missing."""
        if self.token.kind != "return":
            if self.token.kind not in ("{", "implemented"):
                self.fail(f"'return' or '{{' after the parameters of {owner}")
            return ()
        self.advance()
        self.expect("(", f"to begin the results of {owner}")
        return self.separated(lambda: self.parameter(defaults=False), ")", f"the results of {owner}")

    def parameter(self, defaults: bool) -> tree.Parameter:
        """``type name`` or ``type name = default``."""
        position = self.place()
        kind = self.data_type()
        if self.token.kind != NAME:
            self.fail(f"a name after the type {kind}")
        name = self.advance().text
        default = None
        if self.token.kind == "=":
            if not defaults:
                self.reject("only the parameters of a function with a body have defaults")
            self.advance()
            self.open_brackets += 1
            default = self.expression(purpose=f"for the default of {name}")
            self.open_brackets -= 1
        return tree.Parameter(name, kind, default, position=position)

    def data_type(self) -> tree.DataType:
        """``double``, ``matrix[double]``, ``list[unknown]`` ..."""
        start = self.token
        kind = "scalar"
        if start.kind == NAME:
            if self.peek().kind != "[" or start.text not in _DATA_TYPES:
                hint = f"{start.text}[double]" if start.text in _DATA_TYPES else ""
                self.fail("a type such as double or matrix[double]", hint or "every parameter has a type")
            kind = _DATA_TYPES[self.advance().text]
            self.advance()
        if self.token.kind not in _VALUE_TYPES:
            expected = "int, double, boolean, string or unknown"
            self.fail(expected if kind != "scalar" else f"a type: {expected}, or matrix[double] and the like")
        value = _VALUE_TYPES[self.advance().text]
        if start.kind == NAME:
            self.expect("]", f"to close the type {kind}[{value}")
        return tree.DataType(kind, value, position=self.place(start))

    def text_option(self) -> tuple[str, str]:
        """``name="text"``, after ``implemented in``."""
        name = self.expect(NAME, "for an option").text
        self.expect("=", f"after the option {name}")
        return name, unescape(self.expect(STRING, f"for the option {name}").text)
