"""The function of derivatives in two: its forward pass, which keeps what the backward pass needs, and this.

What depends on the derivatives by the results is the backward pass. It takes what it reads of the forward pass, which
returns it after the results: one by one, as SystemDS's layers do, since matrices in a list that a function returns stay
in the engine's buffer to the end of the program. Sizes, what is made of sizes alone, and other forms of a value are
computed again, and weights are taken again from where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import (
    assigned,
    assigns_variable,
    called_in,
    definition_counts,
    ends_run,
    is_call,
    read_first,
    read_in,
    reads_of,
    surely_assigned,
)
from onnx_systemds.importing.parameters import MATRIX
from onnx_systemds.importing.passes.block_cuts import LOADED_CUT, NEVER, cut, is_loaded_cut, is_never, with_never
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_OF_SIZES = ("nrow", "ncol")
_RANDOM = ("rand", "sample")


@dataclass(frozen=True)
class _Parts:
    """The statements of both passes.

    static: those that compute of sizes alone, and that take weights. again: those that give values another form once
    more. kept: the values that the backward pass takes.
    """

    ahead: Sequence[tree.Statement]
    behind: Sequence[tree.Statement]
    static: Sequence[tree.Statement]
    again: Sequence[tree.Statement]
    kept: tuple[tree.Parameter, ...]


def in_two(
    function: tree.Function, functions: Mapping[str, tree.Function], seeds: Collection[str], main: tree.Function,
    given: int, returned: int,
) -> tuple[tree.Function, tree.Function, tuple[tree.Parameter, ...]]:
    """The forward pass, which has a name of its own, the backward pass, and what the one gives the other.

    functions: those that it calls, by name. seeds: parameters that are derivatives by results. main: the function that
    the model is, whose checks are those of the forward pass. given: how many results are those of the forward pass, as
    the last ones are, ``returned`` sizes.
    """
    end = len(function.results) - returned
    ahead, behind, sizes = function.results[:given], function.results[given:end], function.results[end:]
    first = tuple(parameter for parameter in function.parameters if parameter.name in seeds)
    others = tuple(parameter for parameter in function.parameters if parameter.name not in seeds)
    parts = _parts(function, functions, seeds, {result.name for result in behind})
    kept = tuple(parameter for parameter in parts.kept if parameter not in ahead)
    live = {parameter.name for parameter in (*kept, *ahead, *sizes)}
    statements = _needed(_with_checks_of(main, parts.ahead, {it.name for it in others}), live, keeps=True)
    forward = replace(
        function, name=f"{main.name}_forward", parameters=others, results=(*ahead, *kept, *sizes),
        comments=tree.Comments(), body=with_never(_without_idle_cuts(statements)),
    )
    after = [*parts.static, *([cut(LOADED_CUT)] if parts.static else []), *parts.again, *parts.behind]
    backward = replace(
        function, parameters=(*first, *parts.kept, *others), results=behind,
        body=with_never(_without_idle_cuts(after)),
    )
    return forward, backward, parts.kept


def _parts(
    function: tree.Function, functions: Mapping[str, tree.Function], seeds: Collection[str], live: Collection[str]
) -> _Parts:
    """The statements of both passes. live: the results of the backward pass."""
    body = [it for statement in function.body if statement != cut(NEVER) for it in _marks_apart(statement, seeds)]
    back = _depending(body, seeds)
    back |= _begun_for(body, back)
    places = _of_sizes(body, function, back)
    static = [statement for place, statement in enumerate(body) if place in places]
    ahead = [statement for place, statement in enumerate(body) if place not in back]
    given = {parameter.name for parameter in function.parameters}
    computed = {*assigned(static)}
    moved = [statement for statement in ahead if _is_moved(statement) and statement not in static]
    after = [statement for place, statement in enumerate(body) if place in back]
    read = (read_first(after) | (frozenset(live) - surely_assigned(after))) - given
    again = _needed(moved, read - computed)
    read = read.union(*map(_reads, again))
    kinds, others = kinds_of(function, functions), computed.union(assigned(again), given)
    kept = [name for name in assigned(ahead) if name in read and name not in others]
    return _Parts(
        ahead,
        [statement for place, statement in enumerate(body)
         if place in back or (_is_cut(statement) and not is_loaded_cut(statement))],
        _needed(static, read),
        again,
        tuple(tree.Parameter(name, kinds.get(name, MATRIX)) for name in kept),
    )


def _with_checks_of(
    main: tree.Function, statements: Sequence[tree.Statement], parameters: Collection[str]
) -> list[tree.Statement]:
    """The statements with the checks of parameters that another function has, in the place of their own."""

    def is_of_parameters(statement: tree.Statement) -> bool:
        return _is_check(statement) and {*_reads(statement)} <= {*parameters}

    others = [statement for statement in statements if not is_of_parameters(statement)]
    start = next((place for place, statement in enumerate(others, 1) if is_loaded_cut(statement)), 0)
    return [*others[:start], *filter(is_of_parameters, main.body), *others[start:]]


def _depending(body: Sequence[tree.Statement], names: Iterable[str]) -> set[int]:
    """The places of statements that depend on variables, and of those that change what such a statement has read."""
    depending, read, found = {*names}, set[str](), set[int]()
    for place, statement in enumerate(body):
        made = assigned((statement,))
        changed = read.intersection(made) if not is_never(statement) else ()
        if not _is_cut(statement) and (changed or not depending.isdisjoint((*_reads(statement), *made))):
            depending.update(made)
            read.update(_reads(statement))
            found.add(place)
    return found


def _begun_for(body: Sequence[tree.Statement], back: Collection[int]) -> set[int]:
    """The places of statements that only set a variable to what the backward pass may change, as zeros before an if."""
    changed = set(assigned([body[place] for place in back]))
    ahead = [statement for place, statement in enumerate(body) if place not in back and not _is_mark(statement)]
    own = changed.difference(*map(_reads, ahead))
    return {place for place, statement in enumerate(body)
            if place not in back and not _is_cut(statement) and own.issuperset(made := assigned((statement,))) and made}


def _is_mark(statement: tree.Statement) -> bool:
    """Whether a statement hides from the engine's compiler what a variable is, and reads no other one."""
    made = assigned((statement,))
    return is_never(statement) and bool(made) and {*_reads(statement)} <= {*made, "never"}


def _marks_apart(statement: tree.Statement, seeds: Collection[str]) -> list[tree.Statement]:
    """A mark of derivatives and of other variables in two."""
    if not isinstance(statement, tree.If) or not _is_mark(statement):
        return [statement]
    given = {*seeds}
    parts = [tuple(it for it in statement.body if given.isdisjoint(assigned((it,))) is is_other)
             for is_other in (False, True)]
    return [replace(statement, body=part) for part in parts if part]


def _is_cut(statement: tree.Statement) -> bool:
    """Whether a statement is for the engine's compiler, and hides no size of a variable."""
    return is_never(statement) and not assigned((statement,))


def _reads(statement: tree.Statement) -> Collection[str]:
    """The variables that a statement reads."""
    return read_in(statement.call) if isinstance(statement, tree.MultiAssign) else reads_of(statement)


def _of_sizes(body: Sequence[tree.Statement], function: tree.Function, back: Collection[int]) -> set[int]:
    """The places of statements that compute of sizes and weights alone, and of the latter only what takes them."""
    known = {parameter.name for parameter in function.parameters if parameter.type.kind == "scalar"}
    once = {name for name, count in definition_counts(function).items() if count == 1}
    given = {parameter.name for parameter in function.parameters if parameter.type.kind == "matrix"}
    found: set[int] = set()
    for place, statement in enumerate(body):
        if place in back or not assigns_variable(statement) or statement.target.name not in once:
            continue
        if any(name in _RANDOM for name in called_in(statement)):
            continue
        if _read_values(statement.value, given) <= known or _takes_weight(statement.value):
            found.add(place)
            if not _takes_weight(statement.value):
                known.add(statement.target.name)
    return found


def _read_values(expression: tree.Node, given: Collection[str]) -> set[str]:
    """The variables that an expression reads, but for parameters of which it asks the size."""
    asked = [node for node in tree.walk(expression) if is_call(node, *_OF_SIZES)]
    sizes = {id(node.arguments[0].value) for node in asked
             if isinstance(node.arguments[0].value, tree.Name) and node.arguments[0].value.name in given}
    return {node.name for node in tree.walk(expression)
            if isinstance(node, (tree.Name, tree.Indexed)) and id(node) not in sizes}


def _is_check(statement: tree.Statement) -> bool:
    """Whether a statement may stop the run, and does nothing else."""
    return isinstance(statement, tree.If) and not is_never(statement) and not assigned((statement,)) and any(
        ends_run(node) for node in tree.walk(statement))


def _is_moved(statement: tree.Statement) -> bool:
    """Whether a value is another one with rows and columns changed."""
    if not assigns_variable(statement) or not is_call(statement.value, "t", "matrix"):
        return False
    return isinstance(statement.value.arguments[0].value, tree.Name)


def _takes_weight(expression: tree.Node) -> bool:
    """Whether an expression is of one weight as it is in the list."""
    names = [node.name for node in tree.walk(expression) if isinstance(node, (tree.Name, tree.Indexed))]
    return names == [WEIGHTS]


def _needed(
    statements: Sequence[tree.Statement], live: Collection[str], *, keeps: bool = False
) -> list[tree.Statement]:
    """The statements that compute some variables. keeps: also those that set none, as checks."""
    needed, found = {*live}, []
    for statement in reversed(statements):
        names = assigned((statement,))
        if (keeps and not names) or not needed.isdisjoint(names):
            needed.update(_reads(statement))
            found.append(statement)
    return found[::-1]


def _without_idle_cuts(statements: Sequence[tree.Statement]) -> list[tree.Statement]:
    """The statements without cuts that follow others, or that nothing follows."""
    found: list[tree.Statement] = []
    for statement in statements:
        if not (_is_cut(statement) and found and _is_cut(found[-1])):
            found.append(statement)
    while found and _is_cut(found[-1]):
        found.pop()
    return found
