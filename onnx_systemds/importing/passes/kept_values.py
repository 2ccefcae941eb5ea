"""The function of derivatives in two: its forward pass, which keeps what the backward pass needs, and this.

What depends on the derivatives by the results is the backward pass. It takes a list of the values that it reads of the
forward pass, but computes sizes, and what is made of sizes alone, again, and takes weights out of their list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

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
    results,
)
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.parameters import UNKNOWN_LIST
from onnx_systemds.importing.passes.block_cuts import LOADED_CUT, NEVER, cut, is_loaded_cut, is_never, with_never
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.passes.result_sizes import Shape, shapes_in
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_OF_SIZES = ("nrow", "ncol")
_RANDOM = ("rand", "sample")


def in_two(
    function: tree.Function, functions: Mapping[str, tree.Function], seeds: Collection[str], main: tree.Function,
    given: int,
) -> tuple[tree.Function, tree.Function]:
    """The forward pass, which has a name of its own, and the backward pass.

    functions: those that it calls, by name. seeds: parameters that are derivatives by results. main: the function that
    the model is, whose checks are those of the forward pass. given: how many results are those of the forward pass.
    """
    body = [statement for statement in function.body if statement != cut(NEVER)]
    back = _depending(body, seeds)
    static = _of_sizes(body, function, back)
    parameters = [parameter for parameter in function.parameters if parameter.name not in seeds]
    own = function.results[given:]
    missing = _read_before_set([body[place] for place in sorted(back)], results(replace(function, results=own)))
    missing = missing.difference(parameter.name for parameter in function.parameters)
    again = _needed([body[place] for place in sorted(static)], missing)
    made = {name for statement in again for name in assigned((statement,))}
    kept = [name for name in dict.fromkeys(name for statement in body for name in assigned((statement,)))
            if name in missing and name not in made]
    shapes, kinds = shapes_in(function, functions), kinds_of(function, functions)
    scalars = {name for name in kept if name in kinds and kinds[name].kind == "scalar"}
    sizes = {name for name in kept if name in shapes for name in _names_in(shapes[name])}
    again = _needed([body[place] for place in sorted(static)], missing | sizes)
    cache = Names([*name_counts(function.body), *(it.name for it in function.parameters), WEIGHTS]).fresh("cache")
    listed = ", ".join(f"as.matrix({name})" if name in scalars else name for name in kept)
    keeping = cut(f"{cache} = list({listed})")
    first = [statement for place, statement in enumerate(body) if place not in back and not _is_check(statement)]
    start = next((place for place, statement in enumerate(first) if place and is_loaded_cut(first[place - 1])), 0)
    checks = [statement for statement in main.body if _is_check(statement)]
    checks = [it for it in checks if {*_reads(it)} <= {parameter.name for parameter in parameters}]
    first = [*first[:start], *checks, *first[start:]]
    live = {*kept, *(result.name for result in function.results[:given])}
    ahead = replace(
        function, name=f"{main.name}_forward", parameters=tuple(parameters), comments=tree.Comments(),
        results=(*function.results[:given], tree.Parameter(cache, UNKNOWN_LIST)),
        body=with_never(_without_idle_cuts([*_needed(first, live, keeps=True), keeping])),
    )
    taken = [_taken(cache, number, name, name in scalars, shapes.get(name)) for number, name in enumerate(kept, 1)]
    after = [statement for place, statement in enumerate(body) if place in back or _is_cut(statement)]
    after = [statement for statement in after if not is_loaded_cut(statement)]
    behind = replace(
        function, results=own, body=with_never(_without_idle_cuts([*again, *taken, cut(LOADED_CUT), *after])),
        parameters=_with_cache(function.parameters, seeds, tree.Parameter(cache, UNKNOWN_LIST)),
    )
    return ahead, behind


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


def _names_in(shape: Shape) -> set[str]:
    """The variables in the rows and columns of a value."""
    return {node.name for size in shape for node in tree.walk(size) if isinstance(node, tree.Name)}


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
