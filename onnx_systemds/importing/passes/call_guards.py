"""Calls that never run, so that the engine keeps the calls of a function apart.

Where a function is called several times with matrices of the same sizes (or none) and with numbers that are not yet
known, the engine's inter-procedural analysis takes the calls for equal, and once it knows the numbers, as with the
sizes of the matrices it was given, it compiles those of the last call into the function. A further call with literals
keeps it from doing so: see docs/decisions/0011-call-guards.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import is_literal
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.passes.block_cuts import GUARDED, is_loaded_cut, is_never, with_never

_SCALARS = {"int": "1", "double": "1", "boolean": "TRUE", "string": '""'}
_OTHERS = {"matrix": "matrix(0, rows=1, cols=1)", "frame": "as.frame(0)", "list": "list()"}
_SIZES = {"matrix": "nrow({})", "frame": "nrow({})", "list": "length({})"}
_EVERYWHERE = -1

_Given = tuple[str, int]
"""What a call gives for a scalar: its text, and the function in which that means something."""


def guarding_calls(functions: Sequence[tree.Function], statements: Sequence[tree.Statement]) -> list[str]:
    """Statements with a call of each of the functions that is called more than once with numbers known at run time.

    functions: all of a script; statements: those of one more.
    """
    known = {function.name: function for function in functions}
    met: dict[str, list[list[_Given]]] = {}
    for place, body in enumerate((*(function.body for function in functions), statements) if known else ()):
        for call in tree.walk(*body):
            if isinstance(call, tree.Call) and call.function in known:
                met.setdefault(call.function, []).append(_given(known[call.function], call, place))
    guards: list[str] = []
    for name, calls in sorted(met.items()):
        columns = [*zip(*calls)]
        if any(len(set(column)) > 1 and any(place != _EVERYWHERE for _, place in column) for column in columns):
            guards.append(_guard(known[name], columns))
    return guards


def guard_statements(guards: Sequence[str]) -> tree.Block:
    """The statement that holds them, none where there are none."""
    lines = [GUARDED, *(f"  {call}" for call in guards), "}"]
    return cast(tree.Block, parse_snippet("\n".join(lines))) if guards else ()


def is_guard(statement: tree.Statement) -> bool:
    """Whether a statement is a guard from `guard_statements`."""
    return is_never(statement) and any(comment in GUARDED for comment in _comments(statement))


def with_guards(main: tree.Function, functions: Mapping[str, tree.Function]) -> tree.Function:
    """``main`` with the guards that it needs with other functions, in place of those that it has."""
    body = [statement for statement in main.body if not is_guard(statement)]
    after_loads = (place + 1 for place, statement in enumerate(main.body) if is_loaded_cut(statement))
    start = next((place for place, statement in enumerate(main.body) if is_guard(statement)), next(after_loads, 0))
    guard = guard_statements(guarding_calls(list(functions.values()), body))
    return replace(main, body=with_never([*body[:start], *guard, *body[start:]]))


def _comments(statement: tree.Statement) -> list[str]:
    given = [statement.comments, *(inner.comments for inner in getattr(statement, "body", ()))]
    return [line for comments in given for line in (*comments.before, *comments.beside, *comments.inside)]


def _given(function: tree.Function, call: tree.Call, place: int) -> list[_Given]:
    """What a call in the function of number ``place`` gives for each parameter; all matrices are the same here."""
    given: list[_Given] = []
    for parameter, argument in zip(function.parameters, call.arguments):
        if parameter.type.kind != "scalar":
            given.append((_OTHERS[parameter.type.kind], _EVERYWHERE))
        else:
            given.append((print_expression(argument.value), _EVERYWHERE if is_literal(argument.value) else place))
    return given


def _guard(function: tree.Function, columns: Sequence[Sequence[_Given]]) -> str:
    """The call: literals that all calls share stay as they are."""
    arguments: list[str] = []
    for parameter, column in zip(function.parameters, columns):
        text, place = column[0]
        is_shared = len(set(column)) == 1 and place == _EVERYWHERE
        arguments.append(text if is_shared else _SCALARS[parameter.type.value])
    call = f"{function.name}({', '.join(arguments)})"
    kind = function.results[0].type.kind
    if len(function.results) == 1:
        return f"print({_SIZES.get(kind, '{}').format(call)})"
    unused = [f"unused{number}" for number in range(1, len(function.results) + 1)]
    return f"[{', '.join(unused)}] = {call}; print({_SIZES.get(kind, '{}').format(unused[0])})"
