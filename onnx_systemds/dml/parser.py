"""Tokens -> tree: a recursive descent over statements; `parse_script` and `parse_file`.

Follows Dml.g4 of SystemDS and the checks of its DmlSyntacticValidator that need no more than the text. Line
breaks mean nothing in DML; where a statement ends follows from what cannot go on with it, at times only from
what stands after the next bracket (see `ExpressionParser.begins_targets`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, cast

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.expressions import ASSIGNS
from onnx_systemds.dml.reader import touch
from onnx_systemds.dml.signatures import SignatureParser
from onnx_systemds.dml.tokens import ARGUMENT, DOUBLE, END, INT, KEYWORDS, LEVELS, NAME, STRING, Token, tokenize
from onnx_systemds.errors import ScriptNotFound, ScriptPlace, ScriptSyntaxError, quoted

# the methods that parse a statement, by the word that it begins with
_MAKERS = {
    "if": "if_statement",
    "for": "for_statement",
    "parfor": "for_statement",
    "while": "while_statement",
    "source": "source_statement",
    "setwd": "working_folder_statement",
    "[": "multi_assignment",
}


def parse_script(text: str, file: str = "<text>") -> tree.Script:
    """Return the tree of a script; `file` is the file name in its places. Raises ScriptSyntaxError."""
    warnings: list[str] = []
    parser = ScriptParser(tokenize(text, file, warnings), text, file)
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
    # As the engine reads lines: a carriage return alone ends one too, and with it a comment.
    return parse_script(text.replace("\r\n", "\n").replace("\r", "\n"), str(path))


class ScriptParser(SignatureParser):
    """Parses statements, functions and whole scripts."""

    # Scripts and blocks

    def script(self, warnings: tuple[str, ...]) -> tree.Script:
        """Parse a whole script."""
        items, left = self.items()
        return tree.Script(
            tuple(items),
            file=self.file,
            text=self.text,
            comments=tree.Comments(inside=left),
            warnings=warnings,
            position=ScriptPlace(self.file, 1, 1),
        )

    def items(self) -> tuple[list[tree.Item], tuple[str, ...]]:
        """Parse all statements and functions. Returns also the comments of a script without any."""
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
            _add_comments(items[-1], after=left)
            left = ()
        return items, left

    def statement(self, top: bool = False) -> tree.Item:
        """Parse one statement or, at the top of a script, a function, with the comments around it."""
        self.enter()
        outer, self.pending = self.pending, []
        before, start = self.last, self.token
        comments = self.comments_of_next()
        make = self.statement_maker(top)
        found = make()
        within, self.pending = tuple(self.pending), outer
        if not within:
            self.end_statement(found, before if not comments else None, start)
        beside = self.comments_beside()
        self.depth -= 1
        if comments or within or beside:
            _add_comments(found, comments + within, beside)
        return found

    def end_statement(self, found: tree.Item, before: Token | None, start: Token) -> None:
        """Take note of a statement that begins with the token ``start``; before: the token before it."""

    def statement_maker(self, top: bool) -> Callable[[], tree.Item]:
        """Return the method that parses the statement which begins with the next token."""
        kind = self.token.kind
        if kind == NAME:
            following = self.peek().kind
            if following in ASSIGNS and self.peek(2).kind in ("function", "externalFunction"):
                if not top:
                    self.reject("a function is defined inside a block", "define it at the top level of the script")
                return self.function if self.peek(2).kind == "function" else self.external_function
            return self.call_statement if following == "(" else self.assignment
        if kind in _MAKERS:
            return cast(Callable[[], tree.Item], getattr(self, _MAKERS[kind]))
        if kind == ARGUMENT and self.peek().kind in (*ASSIGNS, "+="):
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
        if self.token.kind in (INT, DOUBLE) and touch(self.token, self.peek()):
            hints = {self.token.kind: "a name begins with a letter"}
        if self.peek().kind in ASSIGNS and self.token.kind in KEYWORDS:
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
            _add_comments(statements[-1], after=left)
            left = ()
        self.advance()
        self.open_brackets = outer
        return tuple(statements), left

    # Statements

    def assignment(self) -> tree.Assign:
        """``target = value``, ``target <- value``, ``target += value``."""
        before, first = self.last, self.token
        target = self.target()
        operator = self.token
        if operator.kind not in (*ASSIGNS, "+="):
            after_number = before is not None and before.kind in (INT, DOUBLE) and touch(before, first)
            hint = "a name begins with a letter, and a product is written with *" if after_number else ""
            self.fail(f"'=' or '+=' after {target.name}", hint)
        self.advance()
        value = self.assigned_value(target, operator)
        self.skip_semicolons()
        return tree.Assign(target, value, operator.kind == "+=", position=target.position)

    def assigned_value(self, target: tree.Target, operator: Token) -> tree.Expression:
        """The right side of an assignment."""
        if self.token.kind != "ifdef":
            return self.whole_expression(f"for {target.name}")
        if operator.kind == "+=":
            self.fail("an expression", "ifdef follows only on '='")
        start = self.advance()
        self.expect("(", "after ifdef")
        if self.token.kind != ARGUMENT:
            self.fail("an argument of the command line ($name or $1) as the first argument of ifdef")
        token = self.advance()
        argument = tree.Argument(token.text[1:], position=self.place(token))
        self.expect(",", "and the default value of ifdef")
        self.open_brackets += 1
        default = self.expression()
        self.open_brackets -= 1
        self.expect(")", "to close ifdef")
        if self.token.kind in LEVELS:
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
        if self.last and self.last.kind in (")", "]") and touch(self.last, self.token) and not self.begins_targets():
            self.fail("an operator, ';' or the next statement", "only variables can be indexed: assign it to one first")
        start = self.advance()
        targets = self.separated(self.target, "]", "the list of targets")
        if not targets:
            self.reject("the list of targets is empty", at=start)
        if self.token.kind not in ASSIGNS:
            self.fail("'=' after the list of targets")
        self.advance()
        if self.token.kind != NAME or self.peek().kind != "(":
            self.fail("the call of a function, whose results are assigned")
        call = self.call()
        self.end_of_call("the results of a function are assigned as they are")
        return tree.MultiAssign(targets, call, position=self.place(start))

    def call_statement(self) -> tree.CallStatement:
        """A call whose results are not used."""
        call = self.call()
        if self.token.kind in ASSIGNS:
            self.reject("a call cannot be assigned to", "an index stands in brackets: X[i, j] = ...")
        self.end_of_call("a value must be assigned: x = ...")
        return tree.CallStatement(call, position=call.position)

    def end_of_call(self, hint: str) -> None:
        """Where a call ends its statement."""
        if self.token.kind in LEVELS:
            self.fail("the end of the statement", hint)
        self.skip_semicolons()

    def condition(self, owner: str) -> tree.Expression:
        """A condition in parentheses."""
        opening = self.expect("(", f"after {owner}")
        self.open_brackets += 1
        found = self.whole_expression(f"for the condition of {owner}")
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
        opening = self.expect("(", f"after {owner}")
        variable = self.expect(NAME, f"for the variable of {owner}").text
        self.expect("in", f"after the variable of {owner}")
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
        self.expect("as", "and a namespace after source(...)")
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
        """The path of ``source`` or ``setwd``, as it is written."""
        opening = self.expect("(", f"after {owner}")
        if self.token.kind != STRING:
            self.fail(f"the path of {owner} in quotes", "the path must be written out")
        path = self.advance().text[1:-1]
        self.close(")", owner, opening)
        return path

    # Functions

    def function(self) -> tree.Function:
        """``name = function(...) return (...) { ... }``."""
        name, owner, parameters, results = self.head(defaults=True)
        opening = self.token
        body, _ = self.block(owner)
        if not body:
            self.reject(f"{owner} has no statements", at=opening)
        self.skip_semicolons()
        return tree.Function(name.text, parameters, results, body, position=self.place(name))

    def external_function(self) -> tree.ExternalFunction:
        """``name = externalFunction(...) return (...) implemented in (...)``."""
        name, owner, parameters, results = self.head(defaults=False)
        self.expect("implemented", f"after the head of {owner}")
        self.expect("in", "after implemented")
        self.expect("(", "after implemented in")
        options = self.separated(self.text_option, ")", "implemented in")
        self.skip_semicolons()
        return tree.ExternalFunction(name.text, parameters, results, options, position=self.place(name))


def _add_comments(
    item: tree.Item, before: tuple[str, ...] = (), beside: tuple[str, ...] = (), after: tuple[str, ...] = ()
) -> None:
    """Give a statement more comments, before anybody else has seen it."""
    if before or beside or after:
        old = item.comments
        comments = tree.Comments(old.before + before, old.beside + beside, old.after + after, old.inside)
        object.__setattr__(item, "comments", comments)
