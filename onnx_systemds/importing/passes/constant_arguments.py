"""Functions of the library without the options that no call of a script takes.

A parameter that is the same literal in all calls becomes that literal, if a branch is decided by it: what is never
taken goes, and the parameter, too. Functions stay as they are that other passes or exports know by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from onnx_systemds.correspondence import RECOGNISED, name_without_number
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callees
from onnx_systemds.dml.literals import is_literal
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.dml.rewrite import rewritten, same_objects
from onnx_systemds.dml.scopes import assigned, called_in, is_call, statements_in
from onnx_systemds.importing.passes.call_guards import with_guards
from onnx_systemds.importing.passes.specialisation.constant_sizes import with_constant_sizes
from onnx_systemds.importing.script import Script, with_main
from onnx_systemds.operators.support.products import LIBRARY as BATCHED


def with_constant_arguments(script: Script) -> Script:
    """The script whose library functions have the options that it takes."""
    library, functions = {it.name: it for it in script.library}, list(script.functions)
    waiting = [name for name, function in library.items() if _may_change(function)]
    while waiting:
        name = waiting.pop(0)
        constants = _constants(library[name], (*functions, *library.values()))
        changed = _without_options(library[name], library, constants) if constants else None
        if changed is None:
            continue
        places = [place for place, it in enumerate(library[name].parameters) if it.name in constants]
        inner = callees(library, [library[name]])
        library[name] = changed
        functions = [_with_fewer_arguments(it, name, places) for it in functions]
        library = {key: _with_fewer_arguments(it, name, places) for key, it in library.items()}
        waiting += [it for it in inner if it not in waiting and _may_change(library[it])]  # they may get literals now
    if same_objects(functions, script.functions):
        return script
    left = callees(library, functions)
    script = replace(script, library=tuple(left.values()), functions=tuple(functions))
    return with_main(script, with_guards(script.main, script.callees))


def _may_change(function: tree.Function) -> bool:
    """Whether literals may decide something in a function that need not stand as it does."""
    is_known = name_without_number(function.name) in RECOGNISED or function.name in BATCHED.values()
    return not is_known and any(isinstance(statement, tree.If) for statement in statements_in(function.body))


def _constants(function: tree.Function, callers: Iterable[tree.Function]) -> dict[str, tree.Expression]:
    """The literals that all calls give for parameters which the function does not assign."""
    statements = (statement for caller in callers for statement in caller.body if function.name in called_in(statement))
    calls = [node for node in tree.walk(*statements) if is_call(node, function.name)]
    if not calls or any(argument.name is not None for call in calls for argument in call.arguments):
        return {}
    changed, found = assigned(function.body), {}
    for parameter, *values in zip(function.parameters, *([it.value for it in call.arguments] for call in calls)):
        if is_literal(values[0]) and parameter.name not in changed and all(value == values[0] for value in values):
            found[parameter.name] = values[0]
    return found


def _without_options(
    function: tree.Function, functions: Mapping[str, tree.Function], constants: Mapping[str, tree.Expression]
) -> tree.Function | None:
    """The function with constants in place of these parameters; None if that decides no branch."""

    def change(node: tree.Node) -> tree.Node:
        return constants.get(node.name, node) if isinstance(node, tree.Name) else node

    made = with_constant_sizes(replace(function, body=rewritten(function.body, change)), functions, {})
    if sum(1 for _ in statements_in(made.body)) >= sum(1 for _ in statements_in(function.body)):
        return None
    words = ", ".join(f"{name} is {print_expression(value)}" for name, value in constants.items())
    comments = replace(function.comments, before=(*function.comments.before, f"# Here {words}."))
    left = tuple(parameter for parameter in function.parameters if parameter.name not in constants)
    return replace(made, parameters=left, comments=comments)


def _with_fewer_arguments(part: tree.Function, function: str, places: Sequence[int]) -> tree.Function:
    """Calls of a function without the arguments at these places."""

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Call) or node.function != function:
            return node
        return replace(node, arguments=tuple(it for place, it in enumerate(node.arguments) if place not in places))

    return rewritten(part, change) if function in called_in(part) else part
