"""Copy propagation: one name is enough for ``a = b``, and for weights that are taken again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import renamed
from onnx_systemds.dml.scopes import assigned, assignment_counts, assigns_variable, results
from onnx_systemds.importing.script import Script, with_functions
from onnx_systemds.operators.rendering.weight_loads import is_load


def without_aliases(script: Script) -> Script:
    """The script whose functions have one name for each value; specialised is the script as it was."""
    return with_functions(script, map(without_aliases_in, script.functions))


def without_aliases_in(function: tree.Function) -> tree.Function:
    """The function with one name for each value, where it needs no two of them; the same object without aliases.

    The result of a function keeps its name, and what it was called before gets it. What is a parameter or another
    result, and what changes later, as in a loop, is copied as it was.
    """
    function = _loaded_once(function)
    names = _substitutes(function)
    if not names:
        return function
    body = tuple(renamed(statement, names) for statement in function.body)
    return replace(function, body=tuple(it for it in body if not isinstance(it, tree.Assign) or it.target != it.value))


def _loaded_once(function: tree.Function) -> tree.Function:
    """The function in which a weight that is in the list for several constants is taken from it once.

    What changes later is taken for itself.
    """
    loads = [statement for statement in function.body if assigns_variable(statement) and is_load(statement)
             and statement.comments == tree.NO_COMMENTS]
    if len({statement.value for statement in loads}) == len(loads):
        return function
    changes = assignment_counts(function.body)
    names: dict[tree.Expression, tree.Expression] = {}
    again: dict[int, tree.Statement] = {}
    for statement in loads:
        if statement.value in names:
            again[id(statement)] = replace(statement, value=names[statement.value])
        elif changes[statement.target.name] == 1:
            names[statement.value] = statement.target
    if not again:
        return function
    return replace(function, body=tuple(again.get(id(statement), statement) for statement in function.body))


def _substitutes(function: tree.Function) -> dict[str, str]:
    """By redundant name the name that stands for it."""
    found = [(place, alias) for place, statement in enumerate(function.body) if (alias := _alias(statement))]
    if not found:
        return {}
    counts: Counter[str] = Counter()
    last: dict[str, int] = {}
    for place, statement in enumerate(function.body):
        names = assigned((statement,))
        counts.update(names)
        last.update(dict.fromkeys(names, place))
    parameters = {parameter.name for parameter in function.parameters}
    kept = results(function)
    counted = {node.variable for node in tree.walk(*function.body) if isinstance(node, tree.For)}
    substitutes: dict[str, str] = {}
    for place, (name, value) in found:
        value = substitutes.get(value, value)
        if counts[name] > 1 or name in parameters or last.get(value, -1) >= place:
            continue
        if name not in kept:
            substitutes[name] = value
        elif value not in parameters | kept | counted:
            substitutes = {old: name if new == value else new for old, new in substitutes.items()} | {value: name}
    return substitutes


def _alias(statement: tree.Statement) -> tuple[str, str] | None:
    """The name that a statement gives a variable, and the one that it had."""
    if not isinstance(statement, tree.Assign) or statement.accumulate or statement.comments != tree.NO_COMMENTS:
        return None
    target, value = statement.target, statement.value
    return (target.name, value.name) if isinstance(target, tree.Name) and isinstance(value, tree.Name) else None
