"""Functions that take numbers have a copy for each function that programs call.

A guard keeps calls with different numbers apart where one script calls them (`call_guards`). Which of its functions a
program calls, nobody knows, and for which sizes: the main one for all samples, those of derivatives for a batch. What
the engine learns of the numbers of one would be compiled into what the other one calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callees, callers
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import calling


def with_own_copies(
    entries: Sequence[tree.Function], functions: Mapping[str, tree.Function]
) -> tuple[list[tree.Function], dict[str, list[tree.Function]]]:
    """The entries, of which no two call the same function with numbers, and the copies by the name of the original.

    functions: those that they call, by name. The first entry that calls a function has the original.
    """
    apart = _with_numbers(functions)
    names, taken = Names([*functions, *(entry.name for entry in entries)]), set[str]()
    changed: list[tree.Function] = []
    copies: dict[str, list[tree.Function]] = {}
    for entry in entries:
        reached = callees(functions, [entry])
        own = [name for name in functions if name in apart and name in reached]
        renamed = {name: names.fresh(name) for name in own if name in taken}
        taken.update(own)
        changed.append(calling(renamed, entry))
        for name, copy in renamed.items():
            copies.setdefault(name, []).append(replace(calling(renamed, functions[name]), name=copy))
    return changed, copies


def _with_numbers(functions: Mapping[str, tree.Function]) -> frozenset[str]:
    """The functions that take numbers, or call one that does."""
    taking = {name for name, function in functions.items()
              if any(parameter.type.kind == "scalar" for parameter in function.parameters)}
    return callers(functions.values(), taking)
