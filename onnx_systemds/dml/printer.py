"""Tree -> text: DML that reads back as the same tree, with parentheses where the meaning or the reader needs them.

The layout is the printer's own: two blanks for a level, one statement on a line, lines of at most 120 columns
where there is a place to break them (see `line_breaks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.line_breaks import INDENT, wrapped
from onnx_systemds.dml.scopes import is_operation
from onnx_systemds.dml.tokens import LEVELS, MODULUS, OR, PRODUCT, UNARY_LEVELS, is_string, unescape
from onnx_systemds.errors import UnsupportedCase

_INTEGER = tree.DataType("scalar", "int")
WIDTH = 120
_WITH_BODY = (tree.If, tree.For, tree.While)
_ARITHMETIC = frozenset("+-*/^")
_ALWAYS_TIGHT = frozenset("^")
_BESIDE_PRODUCTS = MODULUS + 1
"""The level at which quotients and remainders stand in products: readers of other languages go from left to right."""
_TAKEN = {"&&": "&", "||": "|"}
"""What the engine takes in place of operators that it only reads."""
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def print_script(script: tree.Script) -> str:
    """Return the text of a script."""
    lines: list[str] = list(script.comments.inside)
    for index, item in enumerate(script.items):
        is_function = isinstance(item, tree.Function)
        if index and (is_function or isinstance(script.items[index - 1], tree.Function)):
            lines.append("")
        _add(item, "", lines)
    return "".join(f"{line}\n" for line in lines)


def print_statement(statement: tree.Item) -> str:
    """Return the text of one statement or function."""
    return print_block((statement,))


def print_block(block: Iterable[tree.Item], indent: str = "") -> str:
    """Return the text of statements, one below the other."""
    lines: list[str] = []
    _add_block(block, indent, lines)
    return "".join(f"{line}\n" for line in lines)


def print_expression(expression: tree.Expression) -> str:
    """Return the text of one expression, on one line."""
    return _expression(expression, OR, 0)


# Statements


def _add_block(block: Iterable[tree.Item], indent: str, lines: list[str]) -> None:
    """Add the lines of statements to `lines`; those that share a line with the one before go on there."""
    before: tree.Item | None = None
    for item in block:
        if before is not None and item.shares_line and _ends_bare(before) and item.comments is tree.NO_COMMENTS:
            added = f"; {item.spelling or _simple(item)}"
            if len(lines[-1]) + len(added) <= WIDTH:
                lines[-1] += added
            else:
                _add(item, indent, lines)
        else:
            _add(item, indent, lines)
        before = item


def _ends_bare(item: tree.Item) -> bool:
    """Whether there is no comment after a statement."""
    return not item.comments.beside and not item.comments.after and not item.comments.inside


def _add(item: tree.Item, indent: str, lines: list[str]) -> None:
    """Add the lines of a statement or function with its comments to `lines`."""
    comments = item.comments
    for comment in comments.before:
        lines.extend(_comment_lines(comment, indent))
    if not item.spelling or (isinstance(item, _WITH_BODY) and _is_long(item, indent)):
        lines.extend(_lines(item, indent))
    else:
        for line in item.spelling.split("\n"):
            own = line.lstrip(" ")
            lines.extend(wrapped(own, f"{indent}{' ' * (len(line) - len(own))}", WIDTH) if own else [""])
    if comments is tree.NO_COMMENTS:
        return
    beside = [comment for comment in comments.beside if "\n" not in comment]
    # What begins with # must be the last on its line.
    beside.sort(key=lambda comment: comment.startswith("#"))
    if beside and not any(comment.startswith("#") for comment in beside[:-1]):
        lines[-1] = "  ".join([lines[-1], *beside])
        beside = []
    late = [comment for comment in comments.beside if "\n" in comment]
    for comment in (*beside, *late, *comments.after):
        lines.extend(_comment_lines(comment, indent))


def _is_long(item: tree.Item, indent: str) -> bool:
    """Whether all of a statement stands on one line that is too long, and so are two for a condition that stops."""
    spelling = item.spelling
    if "\n" in spelling or len(indent) + len(spelling) <= WIDTH:
        return False
    only_stops = isinstance(item, tree.If) and not item.otherwise and len(item.body) == 1
    return not only_stops or len(tuple(wrapped(spelling, indent, WIDTH))) > 2


def _comment_lines(comment: str, indent: str) -> Iterator[str]:
    """Yield the lines of a comment; those of a block comment keep their relative indentation."""
    first, *rest = comment.split("\n")
    yield indent + first
    for line in rest:
        stripped = line.strip()
        yield f"{indent} {stripped}".rstrip() if stripped.startswith("*") else line.rstrip()


def _lines(item: tree.Item, indent: str) -> Iterator[str]:
    """Yield the lines of a statement or function without its comments."""
    if isinstance(item, tree.If):
        yield from _if_lines(item, indent)
    elif isinstance(item, tree.For):
        word = "parfor" if item.parallel else "for"
        options = "".join(f", {_argument(option)}" for option in item.options)
        head = f"{word} ({item.variable} in {_loop_range(item.range)}{options}) {{"
        yield from _block_lines(head, item.body, item.comments.inside, indent)
        yield f"{indent}}}"
    elif isinstance(item, tree.While):
        head = f"while ({print_expression(item.condition)}) {{"
        yield from _block_lines(head, item.body, item.comments.inside, indent)
        yield f"{indent}}}"
    elif isinstance(item, tree.Function):
        head = f"{item.name} = function({_parameters(item.parameters)})"
        end = f"return ({_parameters(item.results)}) {{" if item.results else "{"
        if not item.results or len(indent) + len(head) + 1 + len(end) <= WIDTH:
            yield from wrapped(f"{head} {end}", indent, WIDTH)
        else:
            yield from wrapped(head, indent, WIDTH)
            yield from wrapped(end, indent + INDENT * 2, WIDTH)
        yield from _body_lines(item.body, (), indent)
        yield f"{indent}}}"
    else:
        yield from wrapped(_simple(item), indent, WIDTH)


def _if_lines(item: tree.If, indent: str) -> Iterator[str]:
    """Yield the lines of an if with all its ``else if``, whatever their number."""
    head = f"if ({print_expression(item.condition)}) {{"
    while True:
        yield from _block_lines(head, item.body, item.comments.inside, indent)
        if not item.otherwise:
            break
        only = item.otherwise[0]
        commented = any((only.comments.before, only.comments.beside, only.comments.after))
        if len(item.otherwise) == 1 and isinstance(only, tree.If) and not commented:
            item = only
            head = f"}} else if ({print_expression(item.condition)}) {{"
            continue
        yield from _block_lines("} else {", item.otherwise, (), indent)
        break
    yield f"{indent}}}"


def _block_lines(head: str, body: tree.Block, inside: Iterable[str], indent: str) -> Iterator[str]:
    yield from wrapped(head, indent, WIDTH)
    yield from _body_lines(body, inside, indent)


def _body_lines(body: tree.Block, inside: Iterable[str], indent: str) -> list[str]:
    lines: list[str] = []
    for comment in inside:
        lines.extend(_comment_lines(comment, indent + INDENT))
    _add_block(body, indent + INDENT, lines)
    return lines


def _simple(item: tree.Item) -> str:
    """Return the text of a statement without a body."""
    if isinstance(item, tree.Assign):
        return f"{print_expression(item.target)} {'+=' if item.accumulate else '='} {print_expression(item.value)}"
    if isinstance(item, tree.MultiAssign):
        return f"[{', '.join(map(print_expression, item.targets))}] = {print_expression(item.call)}"
    if isinstance(item, tree.CallStatement):
        return print_expression(item.call)
    if isinstance(item, tree.Source):
        return f"source({_path(item.path)}) as {item.namespace}"
    if isinstance(item, tree.SetWorkingFolder):
        return f"setwd({_path(item.path)})"
    assert isinstance(item, tree.ExternalFunction)
    options = ", ".join(f"{name}={string_text(text)}" for name, text in item.options)
    results = f" return ({_parameters(item.results)})" if item.results else ""
    return f"{item.name} = externalFunction({_parameters(item.parameters)}){results} implemented in ({options})"


def _path(path: str) -> str:
    """Return a path in quotes; its escapes were never resolved."""
    for quote in "\"'":
        if is_string(text := f"{quote}{path}{quote}"):
            return text
    raise UnsupportedCase(f"the path {path!r} cannot be written in DML")


def _loop_range(bounds: tree.LoopRange) -> str:
    if bounds.step is None:
        return f"{_tight(bounds.start)}:{_tight(bounds.stop)}"
    return f"seq({', '.join(map(print_expression, (bounds.start, bounds.stop, bounds.step)))})"


def _parameters(parameters: Iterable[tree.Parameter]) -> str:
    return ", ".join(map(parameter_text, parameters))


def parameter_text(parameter: tree.Parameter) -> str:
    """Return ``type name`` or ``type name = default``."""
    default = "" if parameter.default is None else f" = {print_expression(parameter.default)}"
    kind = "integer" if parameter.type == _INTEGER else parameter.type
    return f"{kind} {parameter.name}{default}"


# Expressions


def _expression(node: tree.Expression, level: int, follow: int, tight: frozenset[str] = _ALWAYS_TIGHT) -> str:
    """Return the text of an expression that stands where operators of at least `level` are read.

    follow: the level of the operator directly after it, 0 if none. `!` and the signs take a tighter operator
    that follows them into their operand. tight: the operators without blanks around them.
    """
    if isinstance(node, tree.Binary):
        return _binary(node, level, follow, tight)
    if isinstance(node, tree.Unary):
        own = UNARY_LEVELS[node.operator]
        if follow >= own:
            return f"({_expression(node, OR, 0, tight)})"
        return node.operator + _expression(node.operand, own, follow, tight)
    return _primary(node)


def _binary(node: tree.Binary, level: int, follow: int, tight: frozenset[str]) -> str:
    """Return the text of a binary expression; its left side is taken down step by step, however deep it is."""
    parts: list[str] = []
    opened = 0
    current: tree.Expression = node
    while isinstance(current, tree.Binary):
        own = LEVELS[current.operator]
        if own < level:
            parts.append(")")
            opened += 1
            level, follow = OR, 0
        right_level, left_level = (own, own + 1) if current.operator == "^" else (own + 1, own)
        if current.operator == "/" and is_operation(current.right, "%*%"):
            right_level = LEVELS["%*%"] + 1  # of x / y %*% z a reader of other languages divides first
        elif own == PRODUCT:
            right_level = _beside_product(current.right, right_level)
            left_level = _beside_product(current.left, left_level)
        parts.append(_expression(current.right, right_level, follow, tight))
        operator = _TAKEN.get(current.operator, current.operator)
        parts.append(operator if operator in tight else f" {operator} ")
        current, level, follow = current.left, left_level, own
        # The parenthesis opens where the leftmost operand begins, which is the end of this walk.
    parts.append(_expression(current, level, follow, tight))
    return "(" * opened + "".join(reversed(parts))


def _beside_product(factor: tree.Expression, level: int) -> int:
    """The level at which a factor is printed."""
    return _BESIDE_PRODUCTS if is_operation(factor, "%/%", "%%") else level


def _primary(node: tree.Expression) -> str:
    if isinstance(node, (tree.Name, tree.Constant)):
        return node.name
    if isinstance(node, tree.Call):
        return f"{node.function}({', '.join(map(_argument, node.arguments))})"
    if isinstance(node, tree.Indexed):
        columns = "" if node.columns is None else f", {_span(node.columns)}"
        return f"{node.name}[{_span(node.rows)}{columns}]"
    if isinstance(node, tree.BooleanLiteral):
        return "TRUE" if node.value else "FALSE"
    if isinstance(node, (tree.IntLiteral, tree.DoubleLiteral)):
        return number_text(node.value)
    if isinstance(node, tree.StringLiteral):
        return string_text(node.value)
    if isinstance(node, tree.Argument):
        return f"${node.name}"
    if isinstance(node, tree.ListExpression):
        return f"[{', '.join(map(print_expression, node.items))}]"
    assert isinstance(node, tree.IfDefined)
    return f"ifdef(${node.argument.name}, {print_expression(node.default)})"


def _argument(argument: tree.CallArgument) -> str:
    name = "" if argument.name is None else f"{argument.name}="
    return name + print_expression(argument.value)


def _span(span: tree.Span) -> str:
    if span.lower is None:
        return ""
    if span.upper is None:
        return print_expression(span.lower)
    return f"{_tight(span.lower)}:{_tight(span.upper)}"


def _tight(bound: tree.Expression) -> str:
    """Return the text of an end of a range, without blanks around operators where it is arithmetic only."""
    nodes = [bound]
    while nodes:
        node = nodes.pop()
        if isinstance(node, tree.Binary):
            if node.operator not in _ARITHMETIC:
                return print_expression(bound)
            nodes += (node.left, node.right)
        elif isinstance(node, tree.Unary):
            nodes.append(node.operand)
    return _expression(bound, OR, 0, _ARITHMETIC)


def number_text(value: int | float) -> str:
    """Return the shortest text of a number that is not negative; an infinite one overflows again when it is read."""
    if not value >= 0 or (isinstance(value, float) and math.copysign(1.0, value) < 0):
        raise ValueError(f"a literal is never negative: {value!r}")
    return "1e999" if value == math.inf else repr(value)


def string_text(value: str) -> str:
    """Return `value` in quotes; raises UnsupportedCase for the few strings that no DML literal gives.

    There is no escape for a backslash: two of them stay two, and a single one can only stand before an escape.
    """
    escaped = "".join(_ESCAPES.get(character, character) for character in value)
    for quote, other in (('"', "'"), ("'", '"')):
        own = escaped.replace(quote, f"\\{quote}")
        for body in (own, own.replace(other, f"\\{other}")):
            text = f"{quote}{body}{quote}"
            if is_string(text) and unescape(text) == value:
                return text
    raise UnsupportedCase(
        f"the string {value!r} cannot be written in DML", hint="DML has no escape for a single backslash"
    )
