"""Lets the engine's compiler forget how many numbers of an input are not 0, where that would tell calls apart.

It compiles a function once if all of its calls have matrices of the same sizes, with as many numbers that are not 0. It
knows how many these are of an input that is read from a file, in any shape, but of no result that the next call takes.
Where two branches meet it forgets what differs, and only that: so in one that is never taken there are none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigns_variable, is_call, is_reshape, matrix_parameters, reads_more_than
from onnx_systemds.importing.passes.block_cuts import untaken, with_never
from onnx_systemds.importing.passes.inlined_calls import not_inlined
from onnx_systemds.importing.script import Script, with_main

_WHY = "forgets its zeros: all calls are alike"


def with_equal_counts(script: Script) -> Script:
    """The script whose main function forgets the zeros of inputs that one of several calls of a function takes."""
    main = script.main
    compiled = not_inlined(script.callees)
    if not compiled:
        return script
    inputs = _inputs(main)
    names = {inputs[name] for name in _telling(main, compiled) if name in inputs}
    places = {name: place for name in names if (place := _first_reader(main.body, name)) is not None}
    if not places:
        return script
    body: list[tree.Statement] = []
    for place, statement in enumerate(main.body):
        body += [_forgetting(name) for name in sorted(places) if places[name] == place]
        body.append(statement)
    return with_main(script, replace(main, body=with_never(body)))


def _inputs(function: tree.Function) -> Mapping[str, str]:
    """The parameter of which each variable has the cells, maybe in another shape."""
    found = {name: name for name in matrix_parameters(function)}
    for statement in filter(assigns_variable, function.body):
        source = _unshaped(statement.value)
        if isinstance(source, tree.Name) and source.name in found:
            found[statement.target.name] = found[source.name]
        else:
            found.pop(statement.target.name, None)
    return found


def _unshaped(value: tree.Expression) -> tree.Expression:
    while is_reshape(value) or (is_call(value, "t") and len(value.arguments) == 1):
        value = value.arguments[0].value
    return value


def _telling(main: tree.Function, compiled: frozenset[str]) -> Iterator[str]:
    """The variables that a call of one of these functions takes where another call takes something else."""
    calls: dict[str, list[tree.Call]] = defaultdict(list)
    for node in tree.walk(*main.body):
        if isinstance(node, tree.Call) and node.function in compiled:
            calls[node.function].append(node)
    for several in calls.values():
        for given in zip(*([argument.value for argument in node.arguments] for node in several)):
            sources = {source.name for it in given if isinstance(source := _unshaped(it), tree.Name)}
            if len(sources) > 1:
                yield from sources


def _first_reader(body: tree.Block, name: str) -> int | None:
    """The place of the first statement that takes more of a matrix than its size, and is no check."""
    for place, statement in enumerate(body):
        if not isinstance(statement, tree.If) and reads_more_than(
            statement, name, lambda call: is_call(call, "nrow", "ncol")
        ):
            return place
    return None


def _forgetting(name: str) -> tree.Statement:
    """The branch that is never taken."""
    return untaken((f"{name} = matrix(0, rows=nrow({name}), cols=ncol({name}))",), _WHY)
