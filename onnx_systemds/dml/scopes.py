"""Which variables a piece of a script assigns and reads.

A loop passes on from one run of its body to the next what `carried` says; an ``if`` gives what its branches assign
and what is `live` after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeGuard, TypeVar

from onnx_systemds.dml import syntax as tree

Names = frozenset[str]
Node = TypeVar("Node", bound=tree.Node)
Found = TypeVar("Found")
_REMEMBERED = 1 << 16
_WORDS = ("mode", "opt", "datapartitioner", "resultmerge")  # options of parfor whose values are words


def once(function: Callable[[Node], Found]) -> Callable[[Node], Found]:
    """Let a function remember what it has found for a node, by its identity: a loop asks again in every turn."""

    found: dict[int, tuple[Node, Found]] = {}  # with the nodes, so that no other one gets the identity of one of them

    def remembered(node: Node) -> Found:
        known = found.get(id(node))
        if known is None:
            if len(found) >= _REMEMBERED:
                found.clear()
            known = found[id(node)] = (node, function(node))
        return known[1]

    return remembered


def assigned(block: Iterable[tree.Statement]) -> tuple[str, ...]:
    """Return the variables that `block` may assign, in the order of the text; loop variables are among them."""
    found: dict[str, None] = {}
    for statement in block:
        if isinstance(statement, tree.Assign):  # most are: no need to look at what they calculate
            found[statement.target.name] = None
        else:
            found.update(dict.fromkeys(_assigned(statement)))
    return tuple(found)


def blocks_in(statement: tree.Statement) -> tuple[tree.Block, ...]:
    """Return the bodies of a branch or a loop; none of other statements."""
    if isinstance(statement, tree.If):
        return statement.body, statement.otherwise
    return (statement.body,) if isinstance(statement, (tree.For, tree.While)) else ()


def has_two_sides(statement: tree.Statement) -> TypeGuard[tree.If]:
    """Whether it is a branch with statements for both cases."""
    return isinstance(statement, tree.If) and bool(statement.otherwise)


def statements_in(block: Iterable[tree.Statement]) -> Iterator[tree.Statement]:
    """Yield the statements of `block`, those of branches and loops after the whole that they are in."""
    for statement in block:
        yield statement
        for inner in blocks_in(statement):
            yield from statements_in(inner)


def assignment_counts(block: Iterable[tree.Statement]) -> Counter[str]:
    """Return in how many statements of `block` each variable may be assigned."""
    names: list[str] = []
    for statement in block:
        if isinstance(statement, tree.Assign):
            names.append(statement.target.name)
        else:
            names += _assigned(statement)
    return Counter(names)


def definition_counts(function: tree.Function) -> Counter[str]:
    """Return how often each variable of `function` may get a value, as a parameter or by a statement of the body."""
    return assignment_counts(function.body) + Counter(parameter.name for parameter in function.parameters)


def name_counts(block: Iterable[tree.Statement]) -> Counter[str]:
    """Return how often the name of each variable stands in `block` without an index, also where it is assigned."""
    return Counter(node.name for node in tree.walk(*block) if isinstance(node, tree.Name))


@once
def _assigned(statement: tree.Statement) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for node in tree.walk(statement):
        if isinstance(node, tree.For):
            found[node.variable] = None
        for target in _targets(node):
            found[target.name] = None
    return tuple(found)


def surely_assigned(block: Iterable[tree.Statement]) -> Names:
    """Return the variables that `block` assigns whichever way it goes; the body of a loop may never run."""
    found: set[str] = set()
    for statement in block:
        found |= _surely(statement)
    return frozenset(found)


def read_first(block: Iterable[tree.Statement]) -> Names:
    """Return the variables that `block` may read before it has assigned them."""
    found: set[str] = set()
    known: set[str] = set()
    for statement in block:
        found |= _read_first(statement) - known
        known |= _surely(statement)
    return frozenset(found)


def read_in(expression: tree.Node) -> Names:
    """Return the variables that an expression reads."""
    return mentioned(expression).names


def reads_of(statement: tree.Statement) -> tuple[str, ...]:
    """Return the variables that a statement reads, or changes in part, each as often as it is there."""
    return mentioned(_without_target(statement)).variables


def read_counts(block: Iterable[tree.Statement]) -> Counter[str]:
    """Return how often the statements of `block` read each variable, or change it in part."""
    return Counter(name for statement in block for name in reads_of(statement))


def reads(statement: tree.Statement) -> Names:
    """Return the variables that a statement reads; for a branch or a loop, also those that it may leave unchanged."""
    return read_in(_without_target(statement))


def reads_more_than(node: tree.Node, name: str, is_counted: Callable[[tree.Call], bool]) -> bool:
    """Return whether more is read of a variable than by calls like ``nrow(name)``, which `is_counted` recognises."""
    variable, nodes = tree.Name(name), tuple(tree.walk(node))
    counted = (it for it in nodes if isinstance(it, tree.Call) and it.arguments and it.arguments[0].value == variable)
    reads = sum(isinstance(it, (tree.Name, tree.Indexed)) and it.name == name for it in nodes)
    return reads > sum(map(is_counted, counted))


def called_in(node: tree.Node) -> tuple[str, ...]:
    """Return the functions called in a function, a statement or an expression, each as often as it is called there."""
    if isinstance(node, tree.Function):  # its statements are remembered, and most of them outlive a change of it
        return tuple(chain.from_iterable(map(called_in, tree.children(node))))
    return mentioned(_without_target(node)).functions


def binaries_in(node: tree.Node) -> Iterator[tree.Binary]:
    """Yield the operators with two operands in a statement or an expression."""
    return (it for it in mentioned(_without_target(node)).operations if isinstance(it, tree.Binary))


def assigns_variable(node: tree.Node) -> TypeGuard[tree.Assign]:
    """Whether a node assigns a variable, rather than a part of one."""
    return isinstance(node, tree.Assign) and isinstance(node.target, tree.Name)


def is_call(node: object, *functions: str) -> TypeGuard[tree.Call]:
    """Whether it is a call of one of these functions."""
    return isinstance(node, tree.Call) and node.function in functions


def is_reshape(node: object) -> TypeGuard[tree.Call]:
    """Whether it is ``matrix(value, rows=.., cols=..)``, which `rewrite.reshaped` makes; the value may be a number."""
    return is_call(node, "matrix") and [argument.name for argument in node.arguments] == [None, "rows", "cols"]


def operand_of(node: object, *functions: str) -> tree.Expression | None:
    """The first operand of calls of these functions in each other; None for anything else."""
    found: tree.Expression | None = None
    for function in functions:
        if not is_call(node, function) or not node.arguments:
            return None
        node = found = node.arguments[0].value
    return found


def is_operation(node: object, *operators: str) -> TypeGuard[tree.Binary]:
    """Whether it is an operation of two operands by one of these operators."""
    return isinstance(node, tree.Binary) and node.operator in operators


def ends_run(node: tree.Node) -> TypeGuard[tree.CallStatement]:
    """Whether a statement ends the run."""
    return isinstance(node, tree.CallStatement) and node.call.function == "stop"


def _without_target(node: tree.Node) -> tree.Node:
    """What an assignment to a variable calculates, which others ask for, too; anything else as it is."""
    return node.value if assigns_variable(node) and not node.accumulate else node


class Mentioned(NamedTuple):
    """What stands in a part of a script, in the order of the text.

    variables: those that it reads, each as often as it is there; names: the same as a set. functions: those called.
    operations: operators, calls and slices. has_text: whether there are literals of text.
    """

    variables: tuple[str, ...]
    functions: tuple[str, ...]
    operations: tuple[tree.Binary | tree.Call | tree.Indexed, ...]
    names: Names
    has_text: bool


@once
def mentioned(part: tree.Node) -> Mentioned:
    """Return the facts about a part of a script, found in a single walk."""
    variables: list[str] = []
    functions: list[str] = []
    operations: list[tree.Binary | tree.Call | tree.Indexed] = []
    has_text = False
    for node in tree.walk(part):
        if isinstance(node, tree.Name):
            variables.append(node.name)
        elif isinstance(node, (tree.Binary, tree.Call, tree.Indexed)):
            operations.append(node)
            if isinstance(node, tree.Call):
                functions.append(node.function)
            elif isinstance(node, tree.Indexed):
                variables.append(node.name)
        elif isinstance(node, tree.StringLiteral):
            has_text = True
    return Mentioned(tuple(variables), tuple(functions), tuple(operations), frozenset(variables), has_text)


def live_after_each(block: tree.Block, live_after: Names) -> dict[int, Names]:
    """Return the variables that may be read after each if and loop of `block`, by its index there.

    live_after: those read after the block; for the body of a loop that is `live_in_loop`.
    """
    live = set(live_after)
    found: dict[int, Names] = {}
    for index in reversed(range(len(block))):
        if isinstance(block[index], (tree.If, tree.For, tree.While)):
            found[index] = frozenset(live)
        live -= _surely(block[index])
        live |= _read_first(block[index])
    return found


def live_in_loop(loop: tree.For | tree.While, live_after: Names) -> Names:
    """Return the variables that may be read after one run of the body of `loop`: in the next one, or after it."""
    again = read_first(loop.body)
    if isinstance(loop, tree.While):
        return live_after | again | read_in(loop.condition)
    return live_after | (again - {loop.variable})


def carried(loop: tree.For | tree.While, live_after: Names) -> tuple[str, ...]:
    """Return the variables that the body of `loop` assigns for its next run or for what stands after the loop.

    In the order of the text. The loop variable itself is not among them unless the body assigns it.
    """
    live = live_in_loop(loop, live_after)
    return tuple(name for name in assigned(loop.body) if name in live)


def results(function: tree.Function) -> Names:
    """Return the variables that are read at the end of a function."""
    return frozenset(result.name for result in function.results)


def matrix_parameters(function: tree.Function) -> list[str]:
    """Return the parameters of a function that are matrices."""
    return [parameter.name for parameter in function.parameters if parameter.type.kind == "matrix"]


def _targets(node: tree.Node) -> tuple[tree.Target, ...]:
    if isinstance(node, tree.Assign):
        return (node.target,)
    return node.targets if isinstance(node, tree.MultiAssign) else ()


@once
def _surely(statement: tree.Statement) -> Names:
    if isinstance(statement, tree.If):
        going_on = [block for block in _branches(statement)[1] if not any(map(ends_run, block))]
        return frozenset.intersection(*map(surely_assigned, going_on)) if going_on else frozenset()
    return frozenset(target.name for target in _targets(statement))


@once
def _read_first(statement: tree.Statement) -> Names:
    if isinstance(statement, tree.If):
        conditions, blocks = _branches(statement)
        return frozenset().union(*map(read_in, conditions), *map(read_first, blocks))
    if isinstance(statement, tree.While):
        return read_in(statement.condition) | read_first(statement.body)
    if isinstance(statement, tree.For):
        sizes = [option for option in statement.options if option.name not in _WORDS]
        head = [statement.range, *sizes]
        return frozenset().union(*map(read_in, head)) | (read_first(statement.body) - {statement.variable})
    if isinstance(statement, tree.Assign):
        return read_in(statement.value) | _read_in_target(statement.target, accumulate=statement.accumulate)
    if isinstance(statement, tree.MultiAssign):
        inside = (_read_in_target(target, accumulate=False) for target in statement.targets)
        return read_in(statement.call).union(*inside)
    return read_in(statement)


def _branches(statement: tree.If) -> tuple[list[tree.Expression], list[tree.Block]]:
    """Return the conditions and the bodies of an if with all its else-ifs, and the body of its else, maybe empty."""
    conditions, blocks = [statement.condition], [statement.body]
    while len(statement.otherwise) == 1 and isinstance(only := statement.otherwise[0], tree.If):
        statement = only
        conditions.append(statement.condition)
        blocks.append(statement.body)
    return conditions, [*blocks, statement.otherwise]


def _read_in_target(target: tree.Target, *, accumulate: bool) -> Names:
    """Return what the assignment of a target reads: its indices, and itself unless all of it is replaced."""
    return read_in(target) if isinstance(target, tree.Indexed) or accumulate else frozenset()
