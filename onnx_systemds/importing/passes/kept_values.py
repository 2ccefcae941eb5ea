"""The function of derivatives in two: its forward pass, which keeps what the backward pass needs, and this.

What depends on the derivatives by the results is the backward pass. It takes a list of the values that it reads of the
forward pass, but computes sizes, and what is made of sizes alone, again, and takes weights out of their list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.dml.scopes import (
    assigned,
    assigns_variable,
    called_in,
    definition_counts,
    ends_run,
    is_call,
    name_counts,
    read_in,
    reads_of,
)
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.parameters import UNKNOWN_LIST
from onnx_systemds.importing.passes.block_cuts import LOADED_CUT, NEVER, cut, is_loaded_cut, is_never, with_never
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.passes.result_sizes import Shape, shapes_in
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_OF_SIZES = ("nrow", "ncol")
_RANDOM = ("rand", "sample")


@dataclass(frozen=True)
class _Parts:
    """The statements of both passes.

    static: those that compute of sizes alone, and that take weights. kept: the values that are in the list, in its
    order. scalars: those of them that are numbers. shapes: rows and columns.
    """

    ahead: Sequence[tree.Statement]
    behind: Sequence[tree.Statement]
    static: Sequence[tree.Statement]
    kept: Sequence[str]
    scalars: Collection[str]
    shapes: Mapping[str, Shape]


def in_two(
    function: tree.Function, functions: Mapping[str, tree.Function], seeds: Collection[str], main: tree.Function,
    given: int,
) -> tuple[tree.Function, tree.Function]:
    """The forward pass, which has a name of its own, and the backward pass.

    functions: those that it calls, by name. seeds: parameters that are derivatives by results. main: the function that
    the model is, whose checks are those of the forward pass. given: how many results are those of the forward pass.
    """
    others = tuple(parameter for parameter in function.parameters if parameter.name not in seeds)
    names = [parameter.name for parameter in function.parameters]
    cache = Names([*name_counts(function.body), *names, WEIGHTS]).fresh("cache")
    listed = tree.Parameter(cache, UNKNOWN_LIST)
    results_ahead, results_behind = function.results[:given], function.results[given:]
    parts = _parts(function, functions, seeds, {result.name for result in results_behind})
    live = {*parts.kept, *(result.name for result in results_ahead)}
    ahead = _needed(_with_checks_of(main, parts.ahead, {it.name for it in others}), live, keeps=True)
    values = (f"as.matrix({name})" if name in parts.scalars else name for name in parts.kept)
    keeping = cut(f"{cache} = list({', '.join(values)})")
    taken = [_taken(cache, place, name, name in parts.scalars, parts.shapes.get(name))
             for place, name in enumerate(parts.kept, 1)]
    behind = [*parts.static, *taken, cut(LOADED_CUT), *parts.behind]
    return (
        replace(function, name=f"{main.name}_forward", parameters=others, results=(*results_ahead, listed),
                body=with_never(_without_idle_cuts([*ahead, keeping])), comments=tree.Comments()),
        replace(function, parameters=_with_cache(function.parameters, seeds, listed), results=results_behind,
                body=with_never(_without_idle_cuts(behind))),
    )


def _parts(
    function: tree.Function, functions: Mapping[str, tree.Function], seeds: Collection[str], live: Collection[str]
) -> _Parts:
    """The statements of both passes. live: the results of the backward pass."""
    body = [statement for statement in function.body if statement != cut(NEVER)]
    back = _depending(body, seeds)
    places = _of_sizes(body, function, back)
    static = [statement for place, statement in enumerate(body) if place in places]
    read = _read_before_set([statement for place, statement in enumerate(body) if place in back], live)
    read = read.difference(parameter.name for parameter in function.parameters)
    again = {name for statement in _needed(static, read) for name in assigned((statement,))}
    made = dict.fromkeys(name for statement in body for name in assigned((statement,)))
    kept = [name for name in made if name in read and name not in again]
    shapes, kinds = shapes_in(function, functions), kinds_of(function, functions)
    sizes = {node.name for name in kept for size in shapes.get(name, ()) for node in tree.walk(size)
             if isinstance(node, tree.Name)}
    return _Parts(
        [statement for place, statement in enumerate(body) if place not in back],
        [statement for place, statement in enumerate(body)
         if place in back or (_is_cut(statement) and not is_loaded_cut(statement))],
        _needed(static, read | sizes),
        kept,
        {name for name in kept if name in kinds and kinds[name].kind == "scalar"},
        shapes,
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


def _with_cache(
    parameters: Sequence[tree.Parameter], seeds: Collection[str], cache: tree.Parameter
) -> tuple[tree.Parameter, ...]:
    """The derivatives by results, the list of values, and the others."""
    given = [parameter for parameter in parameters if parameter.name in seeds]
    return (*given, cache, *(parameter for parameter in parameters if parameter.name not in seeds))


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


def _takes_weight(expression: tree.Node) -> bool:
    """Whether an expression is of one weight as it is in the list."""
    names = [node.name for node in tree.walk(expression) if isinstance(node, (tree.Name, tree.Indexed))]
    return names == [WEIGHTS]


def _read_before_set(statements: Sequence[tree.Statement], live: Collection[str]) -> set[str]:
    """What statements read that none before them sets, and those results that none sets."""
    found: set[str] = set()
    made: set[str] = set()
    for statement in statements:
        found.update(name for name in _reads(statement) if name not in made)
        made.update(assigned((statement,)))
    return found | {*live} - made


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


def _taken(cache: str, number: int, name: str, is_scalar: bool, shape: Shape | None) -> tree.Statement:
    """The statement that takes a value out of the list."""
    text = f"as.matrix({cache}[{number}])"
    if is_scalar:
        text = f"as.scalar({text})"
    elif shape is not None:
        rows, cols = map(print_expression, shape)
        text = f"matrix({text}, rows={rows}, cols={cols})"
    (statement,) = parse_snippet(f"{name} = {text}")
    assert isinstance(statement, tree.Assign)
    return statement


def _without_idle_cuts(statements: Sequence[tree.Statement]) -> list[tree.Statement]:
    """The statements without cuts that follow others, or that nothing follows."""
    found: list[tree.Statement] = []
    for statement in statements:
        if not (_is_cut(statement) and found and _is_cut(found[-1])):
            found.append(statement)
    while found and _is_cut(found[-1]):
        found.pop()
    return found
