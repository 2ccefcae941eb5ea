"""A matrix that gets one shape and then another one gets that at once; a shape that is read several times has a name.

The first is where a node gives its result in a form of its own, and what reads it wants another one; the second where
parts of a tensor are repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import rewritten, same_objects, with_first, with_origin
from onnx_systemds.dml.scopes import (
    assigns_variable,
    called_in,
    definition_counts,
    is_call,
    is_reshape,
    mentioned,
    read_counts,
    results,
)
from onnx_systemds.importing.script import Script, with_functions
from onnx_systemds.operators.rendering.value_forms import shape_hint


def with_single_shapes(script: Script) -> Script:
    """The script whose functions give matrices the shapes they need, once each; specialised is the script as it was."""
    return with_functions(script, map(with_single_shapes_in, script.functions))


def with_single_shapes_in(function: tree.Function) -> tree.Function:
    """The function that gives matrices the shapes they need, once each; the same object if it does so already."""
    function = _without_steps(function)
    return _with_names(rewritten(function, reshaped_once)) if has_two_shapes(function) else function


def has_two_shapes(function: tree.Function) -> bool:
    """Whether a statement has several calls of matrix, so that one may be in another."""
    return any(called_in(statement).count("matrix") > 1 for statement in function.body)


def reshaped_once(node: tree.Node) -> tree.Node:
    """The expression, without a first shape if it gives a second one."""
    if not is_reshape(node) or not is_reshape(inner := node.arguments[0].value):
        return node
    return replace(node, arguments=(inner.arguments[0], *node.arguments[1:]))


def _without_steps(function: tree.Function) -> tree.Function:
    """The function without variables that are shapes of others, and are read only to get another shape."""
    steps = _steps(function)
    if not steps:
        return function

    def from_start(node: tree.Node) -> tree.Node:
        name = _reshaped_variable(node)
        if not is_reshape(node) or name not in steps:
            return node
        while name in steps:
            name = steps[name]
        return with_first(node, tree.Name(name))

    body = (it for it in function.body if not assigns_variable(it) or it.target.name not in steps)
    return replace(function, body=tuple(rewritten(statement, from_start) for statement in body))


def _steps(function: tree.Function) -> Mapping[str, str]:
    """By such a variable the one that it is a shape of."""
    shapes = {it.target.name: of for it in function.body
              if assigns_variable(it) and it.comments == tree.NO_COMMENTS and (of := _reshaped_variable(it.value))}
    if not shapes:
        return {}
    changes, kept = definition_counts(function), results(function)
    reads = read_counts(function.body)
    reshaped = Counter(_reshaped_variable(it) for statement in function.body for it in mentioned(statement).operations)
    return {name: of for name, of in shapes.items()
            if changes[name] == changes[of] == 1 and name not in kept and 0 < reads[name] == reshaped[name]}


def _with_names(function: tree.Function) -> tree.Function:
    """The function with names for shapes that a join takes several times, in joins also where there is a name already.

    Elsewhere a name for a shape could make two operands one variable, behind the cuts that keep the engine from
    joining such operations.
    """
    changes = definition_counts(function)
    names = Names({*changes, *(name for statement in function.body for name in mentioned(statement).variables)})
    known: dict[tree.Expression, tree.Expression] = {}  # by shape of a variable

    def named(node: tree.Node) -> tree.Node:
        if not is_call(node, "cbind", "rbind") or not any(it.value in known for it in node.arguments):
            return node
        return replace(node, arguments=tuple(replace(it, value=known.get(it.value, it.value)) for it in node.arguments))

    body: list[tree.Statement] = []
    for statement in function.body:
        if assigns_variable(statement) and changes[_reshaped_variable(statement.value)] == 1:
            if changes[statement.target.name] == 1:
                known.setdefault(statement.value, statement.target)
            body.append(statement)
            continue
        for shape in _repeated_shapes(statement):
            if shape not in known and changes[_reshaped_variable(shape)] == 1:
                known[shape] = name = tree.Name(names.fresh(_hint(shape)))
                body.append(with_origin(tree.Assign(name, shape), statement.origin))
        body.append(rewritten(statement, named) if known else statement)
    return function if same_objects(body, function.body) else replace(function, body=tuple(body))


def _repeated_shapes(statement: tree.Statement) -> list[tree.Call]:
    """The shapes of variables that stand several times in one join."""
    if not assigns_variable(statement):
        return []
    joins = (it for it in mentioned(statement.value).operations if is_call(it, "cbind", "rbind"))
    return [shape for join in joins for shape, count in Counter(part.value for part in join.arguments).items()
            if count > 1 and is_reshape(shape)]


def _hint(shape: tree.Call) -> str:
    cols = shape.arguments[2].value
    return shape_hint(_reshaped_variable(shape), cols.value if isinstance(cols, tree.IntLiteral) else None)


def _reshaped_variable(node: tree.Node) -> str:
    """The variable whose shape alone an expression changes, or ""."""
    value = node.arguments[0].value if is_reshape(node) else None
    return value.name if isinstance(value, tree.Name) else ""
