"""Loads weights and constants from their list in a block of their own, before the statements that read them.

The engine's compiler does not know the size of a matrix from a list, and recompiles the whole block of the load at each
call. The load contains the sizes, so they are known after a cut.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import dropwhile

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned, assignment_counts, read_first
from onnx_systemds.importing.passes.block_cuts import LOADED_CUT, LOADS_CUT, NEVER, cut, is_cut
from onnx_systemds.operators.rendering.weight_loads import bytes_of, is_load

LARGEST_EARLY = 64 << 20
"""Bytes of weights that a script for open sizes takes at once."""


def with_loads_first(body: tree.Block, most: float = math.inf) -> tree.Block:
    """The statements, with those in front that take matrices of known sizes out of the list.

    most: bytes that are taken at once; of more the statements are in parts, each with its loads in front. What a
    statement reads first, as a call for a layer does, is loaded in one part if it fits there.
    """
    counts = assignment_counts(body)
    never = cut(NEVER)
    parts = [_Part()]
    waiting: dict[str, tree.Statement] = {}
    for statement in body:
        if statement == never:
            continue
        if is_load(statement) and counts[name := assigned((statement,))[0]] == 1:
            waiting[name] = statement
            continue
        if waiting and most < math.inf and not waiting.keys().isdisjoint(read_first((statement,))):
            _load(parts, waiting.values(), most)
            waiting = {}
        parts[-1].others.append(statement)
    _load(parts, waiting.values(), most)
    if not parts[0].loads:
        return body
    statements: list[tree.Statement] = [never]
    for part in parts:
        apart = [cut(LOADS_CUT)] if len(statements) > 1 else []
        others = dropwhile(is_cut, part.others)  # the statements before a cut may all have been hoisted
        statements += [*apart, *part.loads, cut(LOADED_CUT), *others]
    return tuple(statements)


def _load(parts: list[_Part], loads: Collection[tree.Statement], most: float) -> None:
    """Add loads to the last part, or to new ones; all to one part unless they are too large."""
    if parts[-1].loads and parts[-1].taken + sum(map(bytes_of, loads)) > most:
        parts.append(_Part())
    for load in loads:
        if parts[-1].loads and parts[-1].taken + bytes_of(load) > most:
            parts.append(_Part())
        parts[-1].loads.append(load)
        parts[-1].taken += bytes_of(load)


class _Part:
    """Statements, the loads that they need, and the bytes of these."""

    def __init__(self) -> None:
        self.loads: list[tree.Statement] = []
        self.others: list[tree.Statement] = []
        self.taken = 0
