"""The statements of calls that the engine inlines: those of functions without control flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import assigns_variable, statements_in


def inlined(statement: tree.Statement, functions: Mapping[str, tree.Function]) -> Iterator[tree.Assign]:
    """The assignments of a statement; for a call that the engine inlines, those of the function.

    A call of one of the functions becomes the assignments in its body; variables of the body get the name of the
    first target in front, which no script can write.
    """
    if isinstance(statement, tree.MultiAssign):
        call: tree.Expression = statement.call
        targets = statement.targets
    elif isinstance(statement, tree.Assign):
        call, targets = statement.value, (statement.target,)
    else:
        return
    names = [target.name for target in targets if isinstance(target, tree.Name)]
    function = functions.get(call.function) if isinstance(call, tree.Call) else None
    if len(names) < len(targets):
        return
    if not isinstance(call, tree.Call) or function is None or not is_straight(function.body):
        if isinstance(statement, tree.Assign):
            yield statement
        return
    given = {parameter.name: argument.value for parameter, argument in zip(function.parameters, call.arguments)}

    def own(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Name):
            return given.get(node.name, tree.Name(f"{names[0]}.{node.name}"))
        return node

    for inner in function.body:
        if assigns_variable(inner):
            value = rewritten(inner.value, own)
            target = tree.Name(f"{names[0]}.{inner.target.name}")
            given[inner.target.name] = target
            yield from inlined(replace(inner, target=target, value=value), functions)
    for name, result in zip(names, function.results):
        yield tree.Assign(tree.Name(name), given.get(result.name, tree.Name(f"{names[0]}.{result.name}")))


def has_loop(function: tree.Function) -> bool:
    """Whether a function has a loop, also inside a branch."""
    return any(isinstance(statement, (tree.For, tree.While)) for statement in statements_in(function.body))


def is_straight(statements: Iterable[tree.Statement]) -> bool:
    """Whether statements have no control flow: the engine inlines calls of such a function."""
    return not any(isinstance(statement, (tree.If, tree.For, tree.While)) for statement in statements)


def not_inlined(functions: Mapping[str, tree.Function]) -> frozenset[str]:
    """The names of the functions whose calls the engine does not inline, but compiles."""
    return frozenset(name for name, function in functions.items() if not is_straight(function.body))
