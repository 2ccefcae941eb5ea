"""Moves each parfor loop of the main function into a function of its own.

If a function has a loop and takes weights out of a list, the engine compiles all of it again at each call, because
matrices from a list have no known sizes. A function with the loop alone gets matrices of known sizes and is compiled
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import call
from onnx_systemds.dml.scopes import reads
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.passes.inlined_calls import has_loop
from onnx_systemds.importing.script import Script, with_functions
from onnx_systemds.operators.api.reserved_names import WEIGHTS

_WHY = "# A loop in a function of its own: one that takes weights out of a list, too, is compiled anew at each call."


def with_loop_functions(script: Script) -> Script:
    """The script without loops in its main function. It stays the same if it has no weights or other kinds of loops."""
    main = script.main
    if not has_loop(main) or not any(parameter.name == WEIGHTS for parameter in main.parameters):
        return script
    others = script.callable_functions
    kinds, names = kinds_of(main, others), Names(others)
    body, functions = list(main.body), []
    for place, statement in enumerate(body):
        if not isinstance(statement, tree.For) or not statement.parallel:
            continue
        later = scopes.results(main).union(*map(reads, body[place + 1 :]))
        function = _function(statement, later, kinds, names)
        if function is not None:
            functions.append(function)
            body[place] = _call(statement, function)
    changed = replace(main, body=tuple(body))
    if not functions or has_loop(changed):
        return script
    own = [it for function in script.functions for it in ((*functions, changed) if function is main else (function,))]
    return with_functions(script, own)


def _function(
    loop: tree.For, later: scopes.Names, kinds: Mapping[str, tree.DataType], names: Names
) -> tree.Function | None:
    """The function of a loop, with what the loop reads as parameters; None if these are not all matrices or scalars."""
    results = [name for name in dict.fromkeys(scopes.assigned((loop,))) if name in later and name != loop.variable]
    read = sorted((reads(loop) & kinds.keys()) - set(results))
    types = [kinds.get(name) for name in (*results, *read)]
    if not results or any(type_ is None or type_.kind not in ("matrix", "scalar") for type_ in types):
        return None
    given = [tree.Parameter(f"{name}_before", kinds[name]) for name in results]
    if not {parameter.name for parameter in given}.isdisjoint(kinds):
        return None
    starts = [tree.Assign(tree.Name(name), tree.Name(parameter.name), origin=loop.origin)
              for name, parameter in zip(results, given)]
    parameters = (*given, *(tree.Parameter(name, kinds[name]) for name in read))
    returned = tuple(tree.Parameter(name, kinds[name]) for name in results)
    comments = tree.Comments(before=(_WHY,))
    return tree.Function(names.fresh(f"gen_{results[0]}"), parameters, returned, (*starts, loop), comments=comments)


def _call(loop: tree.For, function: tree.Function) -> tree.Statement:
    results = tuple(tree.Name(result.name) for result in function.results)
    arguments = [*results, *(tree.Name(parameter.name) for parameter in function.parameters[len(results) :])]
    value = call(function.name, *arguments)
    if len(results) == 1:
        return tree.Assign(results[0], value, origin=loop.origin)
    return tree.MultiAssign(results, value, origin=loop.origin)
