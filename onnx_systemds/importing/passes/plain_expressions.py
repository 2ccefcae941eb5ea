"""Expressions as one would write them: nothing transposed there and back or shaped twice, no number for a condition.

Generators give a condition as the number of a boolean, and an ``if`` asks whether that is 0: where nothing else reads
the number, the condition stands in the ``if``.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import called_in, definition_counts, mentioned, name_counts, operand_of, results
from onnx_systemds.dml.tokens import COMPARED
from onnx_systemds.dml.words import SIZE_FUNCTIONS
from onnx_systemds.importing.origins import joined_origin
from onnx_systemds.importing.passes.single_shapes import has_two_shapes, reshaped_once
from onnx_systemds.importing.script import Script, with_functions


def with_plain_expressions(script: Script) -> Script:
    """The script whose functions have plain expressions; specialised is the script as it was."""
    return with_functions(script, map(with_plain_expressions_in, script.functions))


def with_plain_expressions_in(function: tree.Function) -> tree.Function:
    """The function with plain expressions, the same object where it has others nowhere."""
    if any(called_in(statement).count("t") > 1 for statement in function.body):
        function = rewritten(function, _transposed_once)
    if has_two_shapes(function):  # of what was read once, and so stands where it was read
        function = rewritten(function, reshaped_once)
    return _with_conditions(function)


def _transposed_once(node: tree.Node) -> tree.Node:
    return operand_of(node, "t", "t") or node


def _with_conditions(function: tree.Function) -> tree.Function:
    numbers = {id(it): found for it in function.body if isinstance(it, tree.Assign) and (found := _condition(it))}
    branches = [it for it in function.body if isinstance(it, tree.If) and _asked(it) is not None]
    if not numbers or not branches:
        return function
    changes, counts, kept = definition_counts(function), name_counts(function.body), results(function)
    body: list[tree.Statement] = []
    places: dict[str, int] = {}  # of the conditions that have not been asked for
    for statement in function.body:
        if isinstance(statement, tree.Assign) and id(statement) in numbers:
            names = mentioned(statement.value).names
            if all(changes[name] <= 1 for name in (statement.target.name, *names)):
                places[statement.target.name] = len(body)
        name = _asked(statement) if isinstance(statement, tree.If) else None
        if name in places and isinstance(statement, tree.If) and counts[name] == 2 and name not in kept:
            taken = places.pop(name)
            places = {other: place - (place > taken) for other, place in places.items()}
            made = body.pop(taken)
            statement = replace(statement, condition=numbers[id(made)], origin=joined_origin(made, statement))
        body.append(statement)
    return function if len(body) == len(function.body) else replace(function, body=tuple(body))


def _condition(statement: tree.Assign) -> tree.Binary | None:
    """The comparison of numbers that a statement gives as a number; None of another statement."""
    found = operand_of(statement.value, "as.double")
    if statement.accumulate or statement.comments is not tree.NO_COMMENTS or type(statement.target) is not tree.Name:
        return None
    if not isinstance(found, tree.Binary) or found.operator not in COMPARED:
        return None
    return found if SIZE_FUNCTIONS.issuperset(mentioned(found).functions) else None


def _asked(statement: tree.If) -> str | None:
    """The variable of a branch that is taken where it is not 0."""
    condition = statement.condition
    if not isinstance(condition, tree.Binary) or condition.operator != "!=" or condition.right != tree.IntLiteral(0):
        return None
    return condition.left.name if type(condition.left) is tree.Name else None
