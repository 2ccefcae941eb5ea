"""Drops statements that compute what nothing reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned, read_first, surely_assigned


def without_unread(
    block: Sequence[tree.Statement], live: Iterable[str], may_go: Callable[[tree.Statement], bool] = lambda _: True
) -> list[tree.Statement]:
    """The statements of a block without those that assign only what nothing reads, and that may go.

    live: the variables that are read after the block.
    """
    read, found = {*live}, list[tree.Statement]()
    for statement in reversed(block):
        if may_go(statement) and read.isdisjoint(assigned((statement,))):
            continue
        found.append(statement)
        read.difference_update(surely_assigned((statement,)))
        read.update(read_first((statement,)))
    return found[::-1]
