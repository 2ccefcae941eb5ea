"""The tree of a DML script: frozen dataclasses, equal when they mean the same wherever they stand.

Positions and comments take no part in equality. Spellings without a difference in meaning are one in the tree:
``<-`` is ``=``, ``seq(a, b)`` in the head of a loop is ``a:b``, ``Integer`` is ``int``, and parentheses are only the
shape of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from onnx_systemds.errors import ScriptPlace as Position

NOWHERE = Position("<none>", 0, 0)

CONSTANTS = ("Inf", "NaN", "pi")


@dataclass(frozen=True, slots=True)
class Node:
    """Any part of the tree, and where it begins (a binary expression: where its operator stands)."""

    position: Position = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


# Expressions


@dataclass(frozen=True, slots=True)
class IntLiteral(Node):
    """An integer from 0 to 2^63 - 1; a negative one is a `Unary`."""

    value: int


@dataclass(frozen=True, slots=True)
class DoubleLiteral(Node):
    """A number with a point or an exponent, never negative, infinite when it overflows."""

    value: float


@dataclass(frozen=True, slots=True)
class StringLiteral(Node):
    """A string, as the engine reads its escapes."""

    value: str


@dataclass(frozen=True, slots=True)
class BooleanLiteral(Node):
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """Inf, NaN or pi where a value is read; variables of these names are never seen."""

    name: str


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable, read or assigned."""

    name: str


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """An argument of the command line: ``$X`` has the name ``X``, ``$1`` the name ``1``."""

    name: str


@dataclass(frozen=True, slots=True)
class Span(Node):
    """One dimension of an index: ``lower:upper``, one place (no upper), or everything (neither)."""

    lower: Expression | None = None
    upper: Expression | None = None


@dataclass(frozen=True, slots=True)
class Indexed(Node):
    """``name[rows, columns]``, read or assigned. `columns` is None where there is no comma: ``name[rows]``."""

    name: str
    rows: Span
    columns: Span | None = None


@dataclass(frozen=True, slots=True)
class CallArgument(Node):
    """An argument of a call; `name` is None for one that is given by its place."""

    name: str | None
    value: Expression


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A call of a builtin or a function. `function` may be qualified: ``ns::f``."""

    function: str
    arguments: tuple[CallArgument, ...] = ()

    @property
    def namespace(self) -> str:
        """The part before ``::``, or nothing."""
        return self.function.rpartition("::")[0]

    @property
    def local_name(self) -> str:
        """The name without its namespace."""
        return self.function.rpartition("::")[2]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``-x``, ``+x`` or ``!x``."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Two operands and an operator of `tokens.LEVELS`. Sums of many terms are deep on the left."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class ListExpression(Node):
    """``[a, b, ...]``."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class IfDefined(Node):
    """``ifdef($X, default)``; the grammar knows it only as the whole right side of an assignment."""

    argument: Argument
    default: Expression


Expression: TypeAlias = (
    IntLiteral
    | DoubleLiteral
    | StringLiteral
    | BooleanLiteral
    | Constant
    | Name
    | Argument
    | Indexed
    | Call
    | Unary
    | Binary
    | ListExpression
    | IfDefined
)
Target: TypeAlias = Name | Indexed


# Statements


@dataclass(frozen=True, slots=True)
class Comments:
    """The comments of a statement, each with its ``#`` or ``/* */``.

    before: before it or within it. beside: after it on its last line. after: below it, at the end of
    the block. inside: in an empty body.
    """

    before: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()


NO_COMMENTS = Comments()


@dataclass(frozen=True, slots=True)
class StatementNode(Node):
    """What can stand in a block.

    origin: what it was made of, as a node of a model; changed copies have it, too. spelling: as its author wrote it but
    for needless parentheses, which is how it is printed. shares_line: whether it stands after another one on its line.
    Only `parse_snippet` sets these two, and a changed copy (`dataclasses.replace`) has neither.
    """

    comments: Comments = field(default=NO_COMMENTS, compare=False, repr=False, kw_only=True)
    origin: object = field(default=None, compare=False, repr=False, kw_only=True)
    spelling: str = field(default="", init=False, compare=False, repr=False)
    shares_line: bool = field(default=False, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assign(StatementNode):
    """``target = value``, or ``target += value``."""

    target: Target
    value: Expression
    accumulate: bool = False


@dataclass(frozen=True, slots=True)
class MultiAssign(StatementNode):
    """``[a, b] = f(...)``."""

    targets: tuple[Target, ...]
    call: Call


@dataclass(frozen=True, slots=True)
class CallStatement(StatementNode):
    """A call whose results are not used: print, write, stop, assert, or any function."""

    call: Call


@dataclass(frozen=True, slots=True)
class If(StatementNode):
    """``if``; an ``else if`` is an `otherwise` that holds one `If`."""

    condition: Expression
    body: Block
    otherwise: Block = ()


@dataclass(frozen=True, slots=True)
class LoopRange(Node):
    """``start:stop`` or ``seq(start, stop, step)``; both ends included, the engine finds the sign of a missing step."""

    start: Expression
    stop: Expression
    step: Expression | None = None


@dataclass(frozen=True, slots=True)
class For(StatementNode):
    """``for`` or ``parfor``. `options` such as ``check=0`` mean nothing outside of parfor."""

    variable: str
    range: LoopRange
    body: Block
    parallel: bool = False
    options: tuple[CallArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class While(StatementNode):
    """``while``."""

    condition: Expression
    body: Block


@dataclass(frozen=True, slots=True)
class Source(StatementNode):
    """``source("path") as namespace``; the path as it is written."""

    path: str
    namespace: str


@dataclass(frozen=True, slots=True)
class SetWorkingFolder(StatementNode):
    """``setwd("path")``: where the paths of the `Source` statements after it in the same file begin."""

    path: str


Statement: TypeAlias = Assign | MultiAssign | CallStatement | If | For | While | Source | SetWorkingFolder
Block: TypeAlias = tuple[Statement, ...]


# Functions and scripts


@dataclass(frozen=True, slots=True)
class DataType(Node):
    """kind: matrix, frame, list or scalar. value: int, double, boolean, string or unknown."""

    kind: str
    value: str

    def __str__(self) -> str:
        return self.value if self.kind == "scalar" else f"{self.kind}[{self.value}]"


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter or a result of a function."""

    name: str
    type: DataType
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class Function(StatementNode):
    """``name = function(parameters) return (results) { body }``."""

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class ExternalFunction(StatementNode):
    """``name = externalFunction(...) return (...) implemented in (key="text", ...)``; the engine ignores it."""

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    options: tuple[tuple[str, str], ...]


Item: TypeAlias = Statement | Function | ExternalFunction


@dataclass(frozen=True, slots=True)
class Script(Node):
    """A whole script: statements and functions in the order of the text."""

    items: tuple[Item, ...]
    file: str = field(default="<text>", compare=False)
    text: str = field(default="", compare=False, repr=False)
    comments: Comments = field(default=NO_COMMENTS, compare=False, repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def functions(self) -> dict[str, Function]:
        """The functions by name; they are known in the whole script, also before their definition."""
        return {item.name: item for item in self.items if isinstance(item, Function)}

    @property
    def statements(self) -> Block:
        """What runs when the script runs."""
        return tuple(item for item in self.items if not isinstance(item, (Function, ExternalFunction)))


def keep_spelling(node: StatementNode, spelling: str, *, shares_line: bool = False) -> None:
    """Give a new statement its spelling, before anybody else has seen it."""
    object.__setattr__(node, "spelling", spelling)
    object.__setattr__(node, "shares_line", shares_line)


def keep_origin(node: StatementNode, origin: object) -> None:
    """Give a new statement its origin, before anybody else has seen it."""
    object.__setattr__(node, "origin", origin)


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes directly below `node`, in the order of the text."""
    for name in child_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, tuple):
            yield from value
        elif value is not None:
            yield value


def walk(*nodes: Node) -> Iterator[Node]:
    """Yield `nodes` and all nodes below them, each before its children, in the order of the text, without recursion."""
    stack = [*reversed(nodes)]
    while stack:
        found = stack.pop()
        yield found
        for name in _REVERSED_FIELDS[type(found)]:
            value = getattr(found, name)
            if isinstance(value, tuple):
                stack.extend(reversed(value))
            elif value is not None:
                stack.append(value)


def child_fields(kind: type[Node]) -> tuple[str, ...]:
    """Names of the fields of a kind of nodes that are nodes, or tuples of nodes, or None."""
    return _CHILD_FIELDS[kind]


_PLAIN = frozenset(("str", "str | None", "int", "float", "bool", "tuple[str, ...]", "tuple[tuple[str, str], ...]"))
_CHILD_FIELDS: dict[type[Node], tuple[str, ...]] = {
    kind: tuple(found.name for found in fields(kind) if found.compare and found.type not in _PLAIN)
    for kind in tuple(vars().values()) if isinstance(kind, type) and issubclass(kind, Node)
}
_REVERSED_FIELDS = {kind: names[::-1] for kind, names in _CHILD_FIELDS.items()}
