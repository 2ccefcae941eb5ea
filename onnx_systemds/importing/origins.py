"""The node of the model that a statement computes, and the position of statements in a printed script.

Passes move and change statements, and a script is printed in several forms (saved, specialised, with a main program
around it), so that lines are no key: a statement has its node with it (`StatementNode.origin`, docs/decisions/0027).
What stands in a loop or a branch is of the node that the whole is of, unless it has one of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.scopes import blocks_in
from onnx_systemds.errors import NodePlace, escaped
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.values import Value, dims_words
from onnx_systemds.operators.api.node_view import NodeView


@dataclass(frozen=True, slots=True)
class NodeInput:
    """An input of a node. dims: None if they are unknown, or for a list."""

    name: str
    dtype: str
    dims: Dims | None

    def text(self, sizes: Mapping[str, int]) -> str:
        """Name, type and dims, with numbers for symbols whose sizes are known."""
        if self.dims is None:
            return f"{escaped(self.name)} {self.dtype}".rstrip()
        dims = tuple(dim.substitute(size, sizes) for size in self.dims)
        return f"{escaped(self.name)} {self.dtype} {dims_words(dims)}"


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The node that a statement computes, with its inputs and outputs.

    inputs, outputs: names, "" for an omitted one. values: the inferred inputs. It does not refer to the node or graph,
    so that their weights can be freed while the script lives.
    """

    place: NodePlace
    inputs: tuple[str, ...]
    values: tuple[Value | None, ...]
    outputs: tuple[str, ...]
    scope: tuple[str, ...] = ()

    @property
    def takes(self) -> tuple[NodeInput, ...]:
        """The node's inputs."""
        return tuple(NodeInput(name, value.dtype, value.dims) for name, value in zip(self.inputs, self.values) if value)

    @property
    def gives(self) -> tuple[str, ...]:
        """The names of the node's outputs."""
        return tuple(filter(None, self.outputs))


@dataclass(frozen=True, slots=True, eq=False)
class SharedOrigin:
    """The nodes that a statement of a function computes, one per call, by the number of the call."""

    function: str
    calls: tuple[object, ...]

    def of(self, number: int) -> Origin | None:
        """The node that it computes in a call."""
        found = self.calls[number]
        own = found.own if isinstance(found, JoinedOrigin) else found
        return own if isinstance(own, Origin) else None

    def all(self) -> list[Origin]:
        """The nodes of all calls."""
        return [origin for call in self.calls for origin in _nodes_of(call)]


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """A call of a function whose statements have a `SharedOrigin`."""

    function: str
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class JoinedOrigin:
    """The origin of a statement that was joined from several; the last one had the same target.

    may_split: whether they may stand in its place again. They may not if what they call is no longer there.
    """

    statements: tree.Block
    may_split: bool = True

    @property
    def parts(self) -> tuple[object, ...]:
        """What the statements were of, that of the last one at the end."""
        origins = [statement.origin for statement in self.statements if statement.origin is not None]
        parts = [each.parts if isinstance(each, JoinedOrigin) else (each,) for each in origins]
        return tuple(dict.fromkeys(origin for inner in parts for origin in inner))

    @property
    def own(self) -> object:
        """What the last of the statements was of, or else the one before it."""
        return next(iter(self.parts[::-1]), None)


def joined_origin(*statements: tree.Statement) -> JoinedOrigin:
    """The origin of a statement that was joined from several; of those that were joined before, their parts count."""
    return JoinedOrigin(tuple(split_joined(statements)))


def split_joined(block: Iterable[tree.Statement]) -> Iterator[tree.Statement]:
    """The statements of a block, with joined statements as they were before."""
    for statement in block:
        origin = statement.origin
        yield from origin.statements if isinstance(origin, JoinedOrigin) and origin.may_split else (statement,)


def origin_of(node: NodeView) -> Origin:
    """The origin for the statements of a node."""
    given = node.node
    return Origin(node.place, given.inputs, tuple(map(node.values.get, given.inputs)), given.outputs, given.scope)


@dataclass(frozen=True, slots=True)
class PlacedStatement:
    """A statement with its position in a printed script.

    Lines and columns count from 1. function: the one that it stands in, or "". is_whole: it is in no loop or branch.
    shared: the nodes that it computes in the calls of its function. calls: the call of such a function that it is.
    others: what else it computes, each an `Origin` or a `SharedOrigin`.
    """

    line: int
    column: int
    function: str
    statement: tree.Statement
    origin: Origin | None
    is_whole: bool = True
    shared: SharedOrigin | None = None
    calls: CallOrigin | None = None
    others: tuple[object, ...] = ()

    @property
    def origins(self) -> list[Origin]:
        """The nodes that it computes."""
        own = self.origin if self.shared is None else self.shared
        return list(dict.fromkeys(origin for part in (*self.others, own) for origin in _nodes_of(part)))


def _nodes_of(part: object) -> list[Origin]:
    if isinstance(part, SharedOrigin):
        return part.all()
    if isinstance(part, JoinedOrigin):
        return [origin for inner in part.parts for origin in _nodes_of(inner)]
    return [part] if isinstance(part, Origin) else []


def read_back(text: str, functions: Sequence[tree.Function], block: tree.Block = ()) -> tree.Script:
    """A printed script as a tree with places in that text, and with the origins of what was printed.

    functions: all that know their origins. block: statements elsewhere that do, of the main program or of the function
    that computes constants.
    """
    script = parse_script(text)
    for name, printed in script.functions.items():
        for function in functions:
            if function.name == name:
                _keep_origins(printed.body, function.body)
    known = {function.name for function in functions}
    others = (function.body for name, function in script.functions.items() if name not in known)
    for body in (script.statements, *others) if block else ():
        for start in range(len(body) - len(block) + 1):
            if body[start] == block[0] and body[start : start + len(block)] == block:
                _keep_origins(body[start : start + len(block)], block)
    return script


def _keep_origins(printed: tree.Block, block: tree.Block) -> None:
    for shown, statement in zip(printed, block, strict=True):
        tree.keep_origin(shown, statement.origin)
        for inner, own in zip(blocks_in(shown), blocks_in(statement)):
            _keep_origins(inner, own)


def placed_statements(script: tree.Script) -> list[PlacedStatement]:
    """All statements of a script from `read_back`, in the order of its text."""
    found = [*_in_block(script.statements, "")]
    for function in script.functions.values():
        found += _in_block(function.body, function.name)
    return sorted(found, key=lambda place: (place.line, place.column))


def _in_block(block: tree.Block, function: str, around: PlacedStatement | None = None) -> Iterator[PlacedStatement]:
    for statement in block:
        outer, shared = (None, None) if around is None else (around.origin, around.shared)
        given = statement.origin
        own, others = (given.own, given.parts[:-1]) if isinstance(given, JoinedOrigin) else (given, ())
        origin = own if isinstance(own, Origin) else outer
        shared = own if isinstance(own, SharedOrigin) else shared
        calls = own if isinstance(own, CallOrigin) else None
        line, column = statement.position.line, statement.position.column
        found = PlacedStatement(line, column, function, statement, origin, around is None, shared, calls, others)
        yield found
        for inner in blocks_in(statement):
            yield from _in_block(inner, function, found)


def statements_between(places: Sequence[PlacedStatement], first: int, last: int) -> Sequence[PlacedStatement]:
    """The statements on these lines, including one that begins before them."""
    start = bisect_right(places, first, key=lambda place: place.line) - 1
    while start > 0 and places[start].line == places[start - 1].line:
        start -= 1
    return [place for place in places[max(start, 0) :] if place.line <= last]
