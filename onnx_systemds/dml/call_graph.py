"""Which functions call which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import called_in


def calls(node: tree.Node) -> set[str]:
    """The names of all functions called in a part of a script."""
    return {*called_in(node)}


def callees(functions: Mapping[str, tree.Function], roots: Iterable[tree.Node]) -> dict[str, tree.Function]:
    """The functions that ``roots`` call, directly or not, in the order in which they are given."""
    wanted: set[str] = set()
    stack = list(roots)
    while stack:
        for name in calls(stack.pop()) & functions.keys() - wanted:
            wanted.add(name)
            stack.append(functions[name])
    return {name: function for name, function in functions.items() if name in wanted}


def callers(
    functions: Iterable[tree.Function],
    names: Iterable[str],
    calls_of: Callable[[tree.Function], Set[str]] = calls,
) -> frozenset[str]:
    """The names of functions and of their callers, direct or not; ``calls_of`` says what a function calls."""
    called = {function.name: calls_of(function) for function in functions}
    found = set(names)
    while more := {name for name, others in called.items() if name not in found and not others.isdisjoint(found)}:
        found |= more
    return frozenset(found)
