"""Expressions: precedence climbing over `tokens.LEVELS`."""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.line_breaks import joined_numbers
from onnx_systemds.dml.reader import TokenReader
from onnx_systemds.dml.tokens import ARGUMENT, DOUBLE, END, INT, LEVELS, NAME, OR, STRING, UNARY_LEVELS, Token, unescape

ASSIGNS = ("=", "<-")
_LITERALS = frozenset((INT, DOUBLE, STRING, ARGUMENT, "TRUE", "FALSE"))
_AFTER_CALL = frozenset(LEVELS) | {")", "]", ",", ":"}


class ExpressionParser(TokenReader):
    """Parses expressions."""

    def expression(self, level: int = OR, purpose: str = "") -> tree.Expression:
        """Parse operators that bind at least as tightly as `level`."""
        self.enter()
        left = self.named_operand() if self.token.kind == NAME else self.operand(purpose)
        while (found := LEVELS.get(self.token.kind, 0)) >= level:
            operator = self.advance()
            right = self.expression(found if operator.kind == "^" else found + 1, f"to the right of '{operator.kind}'")
            left = tree.Binary(operator.kind, left, right, position=self.place(operator))
        self.depth -= 1
        return left

    def whole_expression(self, purpose: str) -> tree.Expression:
        """Parse an expression that stands alone, so that parentheses around all of it mean nothing."""
        start, index = self.token, self.index
        found = self.expression(purpose=purpose)
        if start.kind == "(":
            self.end_whole(start, index)
        return found

    def end_whole(self, opening: Token, index: int) -> None:
        """Take note of an expression that stands alone and begins with a parenthesis, the token of number `index`."""

    def end_parenthesised(self, opening: Token) -> None:
        """Take note that the last token closes a parenthesis around what needs none."""

    def operand(self, purpose: str) -> tree.Expression:
        """Parse an expression that begins with no name and no operand before it."""
        token = self.token
        kind = token.kind
        if kind in UNARY_LEVELS:
            self.advance()
            inner = self.expression(UNARY_LEVELS[kind], f"after '{kind}'")
            return tree.Unary(kind, inner, position=self.place(token))
        if kind == "(":
            self.advance()
            self.open_brackets += 1
            found = self.whole_expression("in the parentheses")
            self.open_brackets -= 1
            self.close(")", "the parentheses", token)
            if not isinstance(found, (tree.Binary, tree.Unary)):
                self.end_parenthesised(token)
            return found
        if kind == "[":
            self.advance()
            items = self.separated(self.expression, "]", "the list")
            if not items:
                self.reject("a list in brackets is empty", at=token)
            return tree.ListExpression(items, position=self.place(token))
        return self.literal(purpose)

    def literal(self, purpose: str) -> tree.Expression:
        """A number, a string, TRUE, FALSE or an argument of the command line."""
        token, position = self.token, self.place()
        if token.kind not in _LITERALS:
            hint = "ifdef stands only directly after the '=' of an assignment" if token.kind == "ifdef" else ""
            self.fail(f"an expression {purpose}".rstrip(), hint)
        self.advance()
        if token.kind == INT:
            return tree.IntLiteral(int(token.text), position=position)
        if token.kind == DOUBLE:
            return tree.DoubleLiteral(float(token.text), position=position)
        if token.kind == STRING:
            return tree.StringLiteral(unescape(token.text), position=position)
        if token.kind == ARGUMENT:
            return tree.Argument(token.text[1:], position=position)
        return tree.BooleanLiteral(token.kind == "TRUE", position=position)

    def named_operand(self) -> tree.Expression:
        """A call, an indexed variable, a constant or a variable."""
        after = self.peek().kind
        if after == "(":
            call = self.call()
            self.skip_semicolons_in_expression()
            return call
        token = self.advance()
        constant = token.text in tree.CONSTANTS
        if after == "[" and not self.begins_targets():
            if constant:
                self.reject(f"{token.text} is a constant and cannot be indexed", at=token)
            return self.indexed(token)
        position = self.place(token)
        return tree.Constant(token.text, position=position) if constant else tree.Name(token.text, position=position)

    def begins_targets(self) -> bool:
        """Whether the ``[`` ahead begins the next statement, ``[a, b] = f()``, and no index."""
        if self.open_brackets:
            return False
        depth = 0
        for index in range(self.index, len(self.tokens)):
            kind = self.tokens[index].kind
            if kind in ("[", "("):
                depth += 1
            elif kind in ("]", ")"):
                depth -= 1
                if depth == 0:
                    return self.tokens[min(index + 1, len(self.tokens) - 1)].kind in ASSIGNS
            elif kind in (END, ";", "{", "}"):
                return False
        return False

    def skip_semicolons_in_expression(self) -> None:
        """Skip the ``;`` that the grammar allows after any call, where the expression goes on after them."""
        ahead = 0
        while self.peek(ahead).kind == ";":
            ahead += 1
        if ahead and (self.open_brackets or self.peek(ahead).kind in _AFTER_CALL):
            for _ in range(ahead):
                self.advance()

    def indexed(self, name: Token) -> tree.Indexed:
        """``[rows, columns]`` after `name`."""
        opening = self.expect("[")
        self.open_brackets += 1
        rows = self.span("rows", name)
        columns = None
        if self.token.kind == ",":
            self.advance()
            columns = self.span("columns", name)
        self.open_brackets -= 1
        hint = "an index has at most rows and columns" if self.token.kind == "," else ""
        self.close("]", f"the index of {name.text}", opening, "" if columns else "','", hint)
        return tree.Indexed(name.text, rows, columns, position=self.place(name))

    def span(self, what: str, name: Token) -> tree.Span:
        """One dimension of an index."""
        position = self.place()
        if self.token.kind in (",", "]"):
            return tree.Span(position=position)
        lower = self.expression(purpose=f"for the {what} of {name.text}")
        if self.token.kind != ":":
            return tree.Span(lower, position=position)
        self.advance()
        if self.token.kind in (",", "]"):
            size = "nrow" if what == "rows" else "ncol"
            self.fail("the end of the range", f"DML has no open ranges: write {size}({name.text})")
        return tree.Span(lower, self.expression(purpose="for the end of the range"), position=position)

    def call(self) -> tree.Call:
        """``name(arguments)``."""
        name = self.advance()
        opening = self.expect("(")
        self.open_brackets += 1
        arguments = self.separated(self.call_argument, ")", f"the call of {name.text}", opening)
        self.open_brackets -= 1
        if name.text == "matrix" and arguments:
            arguments = (_with_joined_numbers(arguments[0]), *arguments[1:])
        return tree.Call(name.text, arguments, position=self.place(name))

    def call_argument(self) -> tree.CallArgument:
        """``value`` or ``name=value``."""
        position = self.place()
        name = None
        if self.token.kind == NAME and self.peek().kind == "=":
            name = self.advance().text
            self.advance()
        value = self.whole_expression(f"for the argument {name}" if name else "")
        return tree.CallArgument(name, value, position=position)


def _with_joined_numbers(argument: tree.CallArgument) -> tree.CallArgument:
    """The first argument of ``matrix``; where the lines of its string end makes no difference."""
    value = argument.value
    if not isinstance(value, tree.StringLiteral) or "\n" not in value.value:
        return argument
    return replace(argument, value=replace(value, value=joined_numbers(value.value)))
