"""Weights and constants taken out of their list before all else, in a block of their own.

What comes out of a list has no size that the engine's compiler knows, and it compiles a block with such a matrix anew
at each call, all of it. A load tells the sizes: after a cut they are known.
"""

from __future__ import annotations

from collections import Counter

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned
from onnx_systemds.importing.passes.block_cuts import LOADED_CUT, NEVER, cut
from onnx_systemds.operators.rendering.weight_loads import is_load


def with_loads_first(body: tree.Block) -> tree.Block:
    """The statements, with those in front that take matrices of known sizes out of the list."""
    counts = Counter(name for statement in body for name in assigned((statement,)))
    loads: list[tree.Statement] = []
    others: list[tree.Statement] = []
    for statement in body:
        is_first = is_load(statement) and counts[assigned((statement,))[0]] == 1
        (loads if is_first else others).append(statement)
    if not loads:
        return body
    never = cut(NEVER)
    if never in others:
        others.remove(never)
    return (never, *loads, cut(LOADED_CUT), *others)
