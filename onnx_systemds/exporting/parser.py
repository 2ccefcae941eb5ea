"""Tokens -> tree: a recursive descent over statements, precedence climbing over expressions.

Follows Dml.g4 of SystemDS and the checks of its DmlSyntacticValidator that need no more than the text. Line
breaks mean nothing in DML; where a statement ends follows from what cannot go on with it, at times only from
what stands behind the next bracket (see `_begins_targets`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeVar, cast

from onnx_systemds.errors import ScriptNotFound, ScriptPlace, ScriptSyntaxError, quoted
from onnx_systemds.exporting import syntax as tree
from onnx_systemds.exporting.excerpts import excerpt
from onnx_systemds.exporting.tokens import (
    ARGUMENT,
    DOUBLE,
    END,
    INT,
    KEYWORDS,
    NAME,
    STRING,
    Token,
    tokenize,
    unescape,
)

_T = TypeVar("_T")
_Commented = TypeVar("_Commented", bound=tree.StatementNode)

_DEEPEST = 100
_SPELLINGS = {"&&": "&", "||": "|"}
_LEVELS = tree.BINARY_LEVELS | {"&&": tree.AND, "||": tree.OR}
_ASSIGNS = ("=", "<-")
_VALUE_TYPES = {
    spelling: "int" if word == "integer" else word
    for word in ("int", "integer", "string", "boolean", "double", "unknown")
    for spelling in (word, word.capitalize())
}
_DATA_TYPES = {
    spelling: kind for kind in ("matrix", "frame", "list", "scalar") for spelling in (kind, kind.capitalize())
}
_AFTER_CALL = frozenset(_LEVELS) | {")", "]", ",", ":"}


def parse_script(text: str, file: str = "<text>") -> tree.Script:
    """Return the tree of a script; `file` is the name its places carry. Raises ScriptSyntaxError."""
    text = text.replace("\r\n", "\n")
    warnings: list[str] = []
    parser = _Parser(tokenize(text, file, warnings), text, file)
    return parser.script(tuple(warnings))


def parse_file(path: str | Path) -> tree.Script:
    """Return the tree of a script on disk. Raises ScriptSyntaxError, ScriptNotFound."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ScriptNotFound(f"the script {quoted(str(path))} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - error.object.rfind(b"\n", 0, error.start)
        raise ScriptSyntaxError(
            f"expected text in UTF-8, found the byte 0x{error.object[error.start]:02X}",
            ScriptPlace(str(path), line, column),
        ) from None
    return parse_script(text, str(path))


class _Parser:
    """Walks over the tokens. `token` is the next one, `last` the one consumed before it."""

    def __init__(self, tokens: list[Token], text: str, file: str) -> None:
        self.tokens = tokens
        self.text = text
        self.file = file
        self.index = 0
        self.token = tokens[0]
        self.last: Token | None = None
        self.depth = 0
        self.open_brackets = 0
        self.pending: list[str] = []

    # Tokens

    def advance(self) -> Token:
        """Consume the next token and keep its comments for the statement it belongs to."""
        token = self.token
        if token.comments:
            self.pending.extend(comment for comment, _ in token.comments)
            token.comments = []
        self.last = token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        self.token = self.tokens[self.index]
        return token

    def peek(self, ahead: int = 1) -> Token:
        """Return the token `ahead` places behind the next one."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def expect(self, kind: str, purpose: str = "", hint: str = "") -> Token:
        """Consume a token of this kind, or fail: expected `kind` `purpose`."""
        if self.token.kind != kind:
            what = "a name" if kind == NAME else "a string in quotes" if kind == STRING else f"'{kind}'"
            self.fail(f"{what} {purpose}".rstrip(), hint)
        return self.advance()

    def skip_semicolons(self) -> None:
        """Consume any number of ``;``."""
        while self.token.kind == ";":
            self.advance()

    def place(self, token: Token | None = None) -> ScriptPlace:
        """Return where `token`, or else the next one, begins."""
        token = token or self.token
        return ScriptPlace(self.file, token.line, token.column)

    # Errors

    def fail(self, expected: str, hint: str = "") -> NoReturn:
        """Raise: expected this, found the next token."""
        self.reject(f"expected {expected}, found {_described(self.token)}", hint or self.usual_hint(expected))

    def reject(self, message: str, hint: str = "", at: Token | None = None) -> NoReturn:
        """Raise an error at a token, the next one if none is given."""
        token = at or self.token
        length = len(token.text.partition("\n")[0])
        shown = excerpt(self.text, token.line, token.column, length)
        raise ScriptSyntaxError(message, self.place(token), shown, hint)

    def usual_hint(self, expected: str) -> str:
        """Return the advice for mistakes that are easily made, or nothing."""
        token, last = self.token, self.last
        for string in (last, token):
            if string is not None and string.kind == STRING and string.end_line > string.line:
                return f"a string goes from line {string.line} to line {string.end_line}: is a quote missing?"
        if token.kind == "<-":
            return "<- is an assignment; a comparison with a negative number is < -1"
        if token.kind == "=":
            return "equality is =="
        if token.kind in KEYWORDS and expected.startswith(("a name", "an expression")):
            return f"{token.text} is a word of the language and no name"
        if last is not None and last.kind in (INT, DOUBLE) and token.kind == NAME and _touch(last, token):
            return "a name begins with a letter"
        return ""

    # Scripts and blocks

    def script(self, warnings: tuple[str, ...]) -> tree.Script:
        items: list[tree.Item] = []
        known: dict[str, Token] = {}
        while self.token.kind != END:
            start = self.token
            item = self.statement(top=True)
            if isinstance(item, tree.Function) and item.name in known:
                first = known[item.name]
                hint = f"the first one is in line {first.line}"
                self.reject(f"the function {item.name} is defined twice", hint, at=start)
            if isinstance(item, tree.Function):
                known[item.name] = start
            items.append(item)
        left = self.comments_of_next()
        if items:
            items[-1] = _with_comments(items[-1], after=left)
            left = ()
        return tree.Script(
            tuple(items),
            file=self.file,
            text=self.text,
            comments=tree.Comments(inside=left),
            warnings=warnings,
            position=ScriptPlace(self.file, 1, 1),
        )

    def statement(self, top: bool = False) -> tree.Item:
        """Parse one statement or, at the top of a script, a function, with the comments around it."""
        self.enter()
        outer, self.pending = self.pending, []
        comments = self.comments_of_next()
        make = self.statement_maker(top)
        found = make()
        within, self.pending = tuple(self.pending), outer
        beside = self.comments_beside()
        self.depth -= 1
        return _with_comments(found, before=comments + within, beside=beside) if comments or within or beside else found

    def statement_maker(self, top: bool) -> Callable[[], tree.Item]:
        """Return the method that parses the statement which begins with the next token."""
        kind = self.token.kind
        known: dict[str, Callable[[], tree.Item]] = {
            "if": self.if_statement,
            "for": self.for_statement,
            "parfor": self.for_statement,
            "while": self.while_statement,
            "source": self.source_statement,
            "setwd": self.working_folder_statement,
            "[": self.multi_assignment,
        }
        if kind in known:
            return known[kind]
        if kind == NAME:
            if self.peek().kind in _ASSIGNS and self.peek(2).kind in ("function", "externalFunction"):
                if not top:
                    self.reject("a function is defined inside a block", "define it at the top level of the script")
                return self.function if self.peek(2).kind == "function" else self.external_function
            return self.call_statement if self.peek().kind == "(" else self.assignment
        if kind == ARGUMENT and self.peek().kind in (*_ASSIGNS, "+="):
            hint = f"name = ifdef({self.token.text}, default)"
            self.reject("an argument of the command line cannot be assigned", hint)
        return self.no_statement()

    def no_statement(self) -> NoReturn:
        """Fail where a statement should begin."""
        hints = {
            "else": "an else follows directly on the body of its if",
            ";": "only simple statements end with ';'",
            "return": "results are named in the head of the function: f = function(...) return (double y) { ... }",
            "function": "a function is defined as name = function(...) return (...) { ... }",
            "}": "there is no open '{' for it",
        }
        if self.peek().kind in _ASSIGNS and self.token.kind in KEYWORDS:
            hints = {self.token.kind: f"{self.token.text} is a word of the language and no name"}
        last = self.last
        if last is not None and last.kind not in (";", "}", "{"):
            self.fail("an operator, ';' or the next statement", hints.get(self.token.kind, ""))
        self.fail("a statement", hints.get(self.token.kind, ""))

    def body(self, owner: str) -> tuple[tree.Block, tuple[str, ...]]:
        """Parse the body of an if, else or loop: one statement, or a block. Returns also comments of an empty one."""
        if self.token.kind == "{":
            return self.block(owner)
        if self.token.kind == END:
            self.fail(f"the body of {owner}")
        found = cast(tree.Statement, self.statement())
        self.skip_semicolons()
        return (found,), ()

    def block(self, owner: str) -> tuple[tree.Block, tuple[str, ...]]:
        """Parse statements in braces."""
        opening = self.expect("{", f"to begin the body of {owner}")
        outer, self.open_brackets = self.open_brackets, 0
        statements: list[tree.Statement] = []
        while self.token.kind != "}":
            if self.token.kind == END:
                self.fail(f"'}}' to close the body of {owner}, which begins in line {opening.line}")
            statements.append(cast(tree.Statement, self.statement()))
            self.skip_semicolons()
        left = self.comments_of_next()
        if statements:
            statements[-1] = _with_comments(statements[-1], after=left)
            left = ()
        self.advance()
        self.open_brackets = outer
        return tuple(statements), left

    def enter(self) -> None:
        """Count one more level of nesting; the caller counts it down again."""
        self.depth += 1
        if self.depth > _DEEPEST:
            self.reject(f"the script is nested more than {_DEEPEST} levels deep", "use variables for parts of it")

    # Comments

    def comments_of_next(self) -> tuple[str, ...]:
        """Take the comments in front of the next token."""
        found = tuple(comment for comment, _ in self.token.comments)
        self.token.comments = []
        return found

    def comments_beside(self) -> tuple[str, ...]:
        """Take the comments behind the last token that begin on its line."""
        line = self.last.end_line if self.last else 0
        found = tuple(comment for comment, at in self.token.comments if at == line)
        if found and self.token.line == line and self.token.kind not in (END, "}"):
            return ()  # x = 1 /* for y */ y = 2
        self.token.comments = self.token.comments[len(found) :]
        return found

    # Statements

    def assignment(self) -> tree.Assign:
        """``target = value``, ``target <- value``, ``target += value``."""
        target = self.target()
        operator = self.token
        if operator.kind not in (*_ASSIGNS, "+="):
            self.fail(f"'=' or '+=' behind {target.name}")
        self.advance()
        value = self.assigned_value(target, operator)
        self.skip_semicolons()
        return tree.Assign(target, value, operator.kind == "+=", position=target.position)

    def assigned_value(self, target: tree.Target, operator: Token) -> tree.Expression:
        """The right side of an assignment."""
        if self.token.kind != "ifdef":
            return self.expression(purpose=f"for {target.name}")
        if operator.kind == "+=":
            self.fail("an expression", "ifdef follows only on '='")
        start = self.advance()
        self.expect("(", "behind ifdef")
        if self.token.kind != ARGUMENT:
            self.fail("an argument of the command line ($name or $1) as the first argument of ifdef")
        token = self.advance()
        argument = tree.Argument(token.text[1:], position=self.place(token))
        self.expect(",", "and the default value of ifdef")
        self.open_brackets += 1
        default = self.expression()
        self.open_brackets -= 1
        self.expect(")", "to close ifdef")
        if self.token.kind in _LEVELS:
            self.fail("the end of the assignment", "ifdef stands alone: assign it to a variable first")
        return tree.IfDefined(argument, default, position=self.place(start))

    def target(self) -> tree.Target:
        """A variable, or a part of one, that is assigned."""
        if self.token.kind == ARGUMENT:
            self.reject("an argument of the command line cannot be assigned", "use a variable")
        token = self.expect(NAME, "to assign to")
        if self.token.kind == "[":
            return self.indexed(token)
        return tree.Name(token.text, position=self.place(token))

    def multi_assignment(self) -> tree.MultiAssign:
        """``[a, b] = f(...)``."""
        if self.last and self.last.kind in (")", "]") and _touch(self.last, self.token) and not self.begins_targets():
            self.fail("an operator, ';' or the next statement", "only variables can be indexed: assign it to one first")
        start = self.advance()
        targets = self.separated(self.target, "]", "the list of targets")
        if not targets:
            self.reject("the list of targets is empty", at=start)
        if self.token.kind not in _ASSIGNS:
            self.fail("'=' behind the list of targets")
        self.advance()
        if self.token.kind != NAME or self.peek().kind != "(":
            self.fail("the call of a function, whose results are assigned")
        call = self.call()
        self.end_of_call("the results of a function are assigned as they are")
        return tree.MultiAssign(targets, call, position=self.place(start))

    def call_statement(self) -> tree.CallStatement:
        """A call whose results are not used."""
        call = self.call()
        if self.token.kind in _ASSIGNS:
            self.reject("a call cannot be assigned to", "an index stands in brackets: X[i, j] = ...")
        self.end_of_call("a value must be assigned: x = ...")
        return tree.CallStatement(call, position=call.position)

    def end_of_call(self, hint: str) -> None:
        if self.token.kind in _LEVELS:
            self.fail("the end of the statement", hint)
        self.skip_semicolons()

    def condition(self, owner: str) -> tree.Expression:
        """A condition in parentheses."""
        opening = self.expect("(", f"behind {owner}")
        self.open_brackets += 1
        found = self.expression(purpose=f"for the condition of {owner}")
        self.open_brackets -= 1
        self.close(")", f"the condition of {owner}", opening)
        return found

    def if_statement(self) -> tree.If:
        """``if``, with all its ``else if`` and ``else``."""
        branches: list[tuple[Token, tree.Expression, tree.Block, tuple[str, ...]]] = []
        otherwise: tree.Block = ()
        while True:
            start = self.advance()
            condition = self.condition("if")
            branches.append((start, condition, *self.body("if")))
            if self.token.kind != "else":
                break
            self.advance()
            if self.token.kind != "if":
                otherwise, inside = self.body("else")
                self.pending.extend(inside)
                break
        for start, condition, body, inside in reversed(branches):
            found = tree.If(
                condition, body, otherwise, position=self.place(start), comments=tree.Comments(inside=inside)
            )
            otherwise = (found,)
        return found

    def while_statement(self) -> tree.While:
        """``while``."""
        start = self.advance()
        condition = self.condition("while")
        body, inside = self.body("while")
        return tree.While(condition, body, position=self.place(start), comments=tree.Comments(inside=inside))

    def for_statement(self) -> tree.For:
        """``for`` and ``parfor``."""
        start = self.advance()
        owner = start.text
        opening = self.expect("(", f"behind {owner}")
        variable = self.expect(NAME, f"for the variable of {owner}").text
        self.expect("in", f"behind the variable of {owner}")
        self.open_brackets += 1
        bounds = self.loop_range(owner)
        options: list[tree.CallArgument] = []
        while self.token.kind == ",":
            self.advance()
            option = self.call_argument()
            if option.name is None:
                self.reject(f"expected name=value as an option of {owner}", at=self.last)
            options.append(option)
        self.open_brackets -= 1
        self.close(")", f"the head of {owner}", opening)
        body, inside = self.body(owner)
        comments = tree.Comments(inside=inside)
        place = self.place(start)
        return tree.For(variable, bounds, body, owner == "parfor", tuple(options), position=place, comments=comments)

    def loop_range(self, owner: str) -> tree.LoopRange:
        """``a:b`` or ``seq(a, b, step)``."""
        start = self.token
        first = self.expression(purpose=f"for the range of {owner}")
        if self.token.kind == ":":
            self.advance()
            return tree.LoopRange(first, self.expression(), position=self.place(start))
        if not isinstance(first, tree.Call) or first.function != "seq":
            self.fail(f"':' in the range of {owner}", f"{owner} runs over a:b or seq(a, b, step)")
        if len(first.arguments) not in (2, 3) or any(argument.name for argument in first.arguments):
            self.reject(f"expected seq(from, to) or seq(from, to, step) in the head of {owner}", at=start)
        return tree.LoopRange(*(argument.value for argument in first.arguments), position=self.place(start))

    def source_statement(self) -> tree.Source:
        """``source("path") as namespace``."""
        start = self.advance()
        path = self.path_in_parentheses("source")
        self.expect("as", "and a namespace behind source(...)")
        namespace = self.expect(NAME, "for the namespace")
        if "::" in namespace.text or "." in namespace.text:
            self.reject("expected a plain name for the namespace", at=namespace)
        self.skip_semicolons()
        return tree.Source(path, namespace.text, position=self.place(start))

    def working_folder_statement(self) -> tree.SetWorkingFolder:
        """``setwd("path")``."""
        start = self.advance()
        path = self.path_in_parentheses("setwd")
        self.skip_semicolons()
        return tree.SetWorkingFolder(path, position=self.place(start))

    def path_in_parentheses(self, owner: str) -> str:
        opening = self.expect("(", f"behind {owner}")
        if self.token.kind != STRING:
            self.fail(f"the path of {owner} in quotes", "the path must be written out")
        path = self.advance().text[1:-1]
        self.close(")", owner, opening)
        return path

    # Functions

    def function(self) -> tree.Function:
        """``name = function(...) return (...) { ... }``."""
        name = self.advance()
        self.advance()
        self.advance()
        owner = f"the function {name.text}"
        self.expect("(", f"to begin the parameters of {owner}")
        parameters = self.separated(lambda: self.parameter(defaults=True), ")", f"the parameters of {owner}")
        results = self.results(owner)
        opening = self.token
        body, _ = self.block(owner)
        if not body:
            self.reject(f"{owner} has no statements", at=opening)
        self.skip_semicolons()
        return tree.Function(name.text, parameters, results, body, position=self.place(name))

    def external_function(self) -> tree.ExternalFunction:
        """``name = externalFunction(...) return (...) implemented in (...)``."""
        name = self.advance()
        self.advance()
        self.advance()
        owner = f"the function {name.text}"
        self.expect("(", f"to begin the parameters of {owner}")
        parameters = self.separated(lambda: self.parameter(defaults=False), ")", f"the parameters of {owner}")
        results = self.results(owner)
        self.expect("implemented", f"behind the head of {owner}")
        self.expect("in", "behind implemented")
        self.expect("(", "behind implemented in")
        options = self.separated(self.text_option, ")", "implemented in")
        self.skip_semicolons()
        return tree.ExternalFunction(name.text, parameters, results, options, position=self.place(name))

    def results(self, owner: str) -> tuple[tree.Parameter, ...]:
        """``return (...)``, which may be missing."""
        if self.token.kind != "return":
            if self.token.kind not in ("{", "implemented"):
                self.fail(f"'return' or '{{' behind the parameters of {owner}")
            return ()
        self.advance()
        self.expect("(", f"to begin the results of {owner}")
        return self.separated(lambda: self.parameter(defaults=False), ")", f"the results of {owner}")

    def parameter(self, defaults: bool) -> tree.Parameter:
        """``type name`` or ``type name = default``."""
        position = self.place()
        kind = self.data_type()
        if self.token.kind != NAME:
            self.fail(f"a name behind the type {kind}")
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
        name = self.expect(NAME, "for an option").text
        self.expect("=", f"behind the option {name}")
        return name, unescape(self.expect(STRING, f"for the option {name}").text)

    # Expressions

    def expression(self, level: int = tree.OR, purpose: str = "") -> tree.Expression:
        """Parse operators that bind at least as tightly as `level`."""
        self.enter()
        left = self.operand(purpose)
        while (found := _LEVELS.get(self.token.kind, 0)) >= level:
            operator = self.advance()
            right = self.expression(
                found if operator.kind == "^" else found + 1, f"to the right of '{operator.kind}'"
            )
            spelling = _SPELLINGS.get(operator.kind, operator.kind)
            left = tree.Binary(spelling, left, right, position=self.place(operator))
        self.depth -= 1
        return left

    def operand(self, purpose: str) -> tree.Expression:
        """Parse an expression that begins with no operand in front of it."""
        token = self.token
        kind = token.kind
        if kind == NAME:
            return self.named_operand()
        if kind in tree.UNARY_LEVELS:
            self.advance()
            inner = self.expression(tree.UNARY_LEVELS[kind], f"behind '{kind}'")
            return tree.Unary(kind, inner, position=self.place(token))
        if kind == "(":
            self.advance()
            self.open_brackets += 1
            found = self.expression(purpose="in the parentheses")
            self.open_brackets -= 1
            self.close(")", "the parentheses", token)
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
        makers: dict[str, Callable[[str], tree.Expression]] = {
            INT: lambda text: tree.IntLiteral(int(text), position=position),
            DOUBLE: lambda text: tree.DoubleLiteral(float(text), position=position),
            STRING: lambda text: tree.StringLiteral(unescape(text), position=position),
            ARGUMENT: lambda text: tree.Argument(text[1:], position=position),
            "TRUE": lambda _: tree.BooleanLiteral(True, position=position),
            "FALSE": lambda _: tree.BooleanLiteral(False, position=position),
        }
        if token.kind not in makers:
            hint = "ifdef stands only directly behind the '=' of an assignment" if token.kind == "ifdef" else ""
            self.fail(f"an expression {purpose}".rstrip(), hint)
        self.advance()
        return makers[token.kind](token.text)

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
                    return self.tokens[min(index + 1, len(self.tokens) - 1)].kind in _ASSIGNS
            elif kind in (END, ";", "{", "}"):
                return False
        return False

    def skip_semicolons_in_expression(self) -> None:
        """Skip the ``;`` that the grammar allows behind any call, where the expression goes on behind them."""
        ahead = 0
        while self.peek(ahead).kind == ";":
            ahead += 1
        if ahead and (self.open_brackets or self.peek(ahead).kind in _AFTER_CALL):
            for _ in range(ahead):
                self.advance()

    def indexed(self, name: Token) -> tree.Indexed:
        """``[rows, columns]`` behind `name`."""
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
        return tree.Call(name.text, arguments, position=self.place(name))

    def call_argument(self) -> tree.CallArgument:
        """``value`` or ``name=value``."""
        position = self.place()
        name = None
        if self.token.kind == NAME and self.peek().kind == "=":
            name = self.advance().text
            self.advance()
        value = self.expression(purpose=f"for the argument {name}" if name else "")
        return tree.CallArgument(name, value, position=position)

    def separated(
        self, parse: Callable[[], _T], closing: str, owner: str, opening: Token | None = None
    ) -> tuple[_T, ...]:
        """Parse what stands between commas, up to and with the closing bracket; the opening one is consumed."""
        opening = opening or self.last
        self.open_brackets += 1
        found: list[_T] = []
        if self.token.kind != closing:
            found.append(parse())
            while self.token.kind == ",":
                self.advance()
                found.append(parse())
        self.open_brackets -= 1
        self.close(closing, owner, opening, "','")
        return tuple(found)

    def close(
        self, closing: str, owner: str, opening: Token | None, instead: str = "", hint: str = ""
    ) -> None:
        """Consume a closing bracket, or say what it would have closed."""
        if self.token.kind != closing:
            where = f", opened in line {opening.line}" if opening and opening.line != self.token.line else ""
            before = f"{instead} or " if instead else ""
            self.fail(f"{before}'{closing}' to close {owner}{where}", hint)
        self.advance()


def _described(token: Token) -> str:
    if token.kind == END:
        return "the end of the script"
    if token.kind == STRING:
        text = token.text if len(token.text) <= 30 else f"{token.text[:30]}..."
        return f"the string {text.splitlines()[0]}"
    return f"'{token.text if len(token.text) <= 60 else token.text[:60] + '...'}'"


def _touch(left: Token, right: Token) -> bool:
    return left.line == right.line and left.column + len(left.text) == right.column


def _with_comments(
    item: _Commented,
    before: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
) -> _Commented:
    """Return `item` with more comments."""
    old = item.comments
    comments = tree.Comments(old.before + before, old.beside + beside, old.after + after, old.inside)
    return replace(item, comments=comments)
