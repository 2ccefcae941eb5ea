"""Statements that run under one condition stand in one branch.

A node whose result may be empty is guarded by itself (`importing.empty_results`), and so is each node after it, by the
same condition. Together they are one branch: the engine asks once and compiles one block, and its other side has zeros
only for what is read later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TypeGuard

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import with_origin
from onnx_systemds.dml.scopes import assigned, assigns_variable, has_two_sides, is_call, live_after_each, reads
from onnx_systemds.importing.empty_results import is_right_on_nothing
from onnx_systemds.importing.passes.unread import without_unread
from onnx_systemds.operators.api.reserved_names import NEW_TEXTS, OLD_TEXTS


def with_joined_guards(statements: Iterable[tree.Statement], live: Collection[str]) -> list[tree.Statement]:
    """The statements of a function, with one branch in place of several under equal conditions.

    A branch goes down to the next one of its condition, past what does not depend on it. What does and is right on
    nothing, too, is calculated on both sides if the next one needs it. live: the variables that are read at the end.
    """
    found: list[tree.Statement] = []
    groups: dict[tree.Expression, _Group] = {}  # by condition; none depends on another one
    for statement in statements:
        guard = statement if _may_join(statement) else None
        own = None if guard is None else groups.get(guard.condition)
        met = [group for group in groups.values() if group is not own and group.conflicts(statement)]
        if guard is None and len(met) == 1 and met[0].draws(statement):
            continue
        for group in met:
            found += groups.pop(group.condition).statements()
        if guard is None:
            found.append(statement)
        elif own is None:
            groups[guard.condition] = _Group(guard)
        else:
            own.join(guard)
    found += [it for group in groups.values() for it in group.statements()]
    if not any(map(has_two_sides, found)):
        return found
    after = live_after_each(tuple(found), frozenset(live))
    return [_with_needed_zeros(it, after[place]) if _may_join(it) else it for place, it in enumerate(found)]


def _may_join(statement: tree.Statement) -> TypeGuard[tree.If]:
    """Whether it is a branch of two sides, none of which has a dictionary of texts: these are in an order."""
    texts = {OLD_TEXTS, NEW_TEXTS}
    return has_two_sides(statement) and texts.isdisjoint((*reads(statement), *assigned((statement,))))


class _Group:
    """Branches under one condition. drawn: what depends on them, in its order, and is not part of them so far."""

    def __init__(self, guard: tree.If) -> None:
        self.condition = guard.condition
        self.guards: list[tree.If] = []
        self.body: list[tree.Statement] = []
        self.otherwise: list[tree.Statement] = []
        self.drawn: list[tree.Statement] = []
        self.empty: set[str] = set()  # matrices without elements on the other side
        self.reads: set[str] = set()
        self.assigns: set[str] = set()
        self.join(guard)

    def conflicts(self, statement: tree.Statement) -> bool:
        """Whether a statement has to stay after the group."""
        own = assigned((statement,))
        is_free = self.assigns.isdisjoint(reads(statement)) and self.assigns.isdisjoint(own)
        return not (is_free and self.reads.isdisjoint(own))

    def draws(self, statement: tree.Statement) -> bool:
        """Whether a statement after the group may be a part of it: it waits for a branch that needs it."""
        if not is_right_on_nothing(statement) or self.empty.isdisjoint(reads(statement)):
            return False
        self.drawn.append(statement)
        self.empty.update(assigned((statement,)))
        self._note(statement)
        return True

    def join(self, guard: tree.If) -> None:
        """Add a branch, and before it what was drawn and is needed in it."""
        needed: list[tree.Statement] = []
        read, changed = {*reads(guard)}, {*assigned((guard,))}
        for statement in reversed(self.drawn):
            own = assigned((statement,))
            if not (read.isdisjoint(own) and changed.isdisjoint(own) and changed.isdisjoint(reads(statement))):
                needed.insert(0, statement)
                read |= reads(statement)
                changed.update(own)
        self.drawn = [statement for statement in self.drawn if statement not in needed]
        self.guards.append(guard)
        self.body += [*needed, *_inner(guard, guard.body)]
        self.otherwise += [*needed, *_inner(guard, guard.otherwise)]
        self.empty.update(name for statement in guard.otherwise if _is_nothing(statement)
                          for name in assigned((statement,)))
        self._note(guard)

    def statements(self) -> list[tree.Statement]:
        """The branch, and what was drawn and is not needed in it."""
        first, *others = self.guards
        if others:
            comments = replace(first.comments, before=())
            first = replace(first, body=tuple(self.body), otherwise=tuple(self.otherwise), comments=comments)
        return [first, *self.drawn]

    def _note(self, statement: tree.Statement) -> None:
        self.reads |= reads(statement)
        self.assigns.update(assigned((statement,)))


def _inner(guard: tree.If, block: tree.Block) -> list[tree.Statement]:
    """The statements of one side of a branch, with its origin; its comments are before the first if it is taken."""
    found = [with_origin(statement, guard.origin) for statement in block]
    if block is guard.body and guard.comments.before:
        comments = replace(found[0].comments, before=(*guard.comments.before, *found[0].comments.before))
        found[0] = replace(found[0], comments=comments)
    return found


def _is_nothing(statement: tree.Statement) -> bool:
    """Whether a statement makes a matrix, which has no elements on the other side of a guard."""
    return assigns_variable(statement) and is_call(statement.value, "matrix")


def _with_needed_zeros(guard: tree.If, live: Collection[str]) -> tree.If:
    """The branch whose other side makes only what is read after it."""
    needed = without_unread(guard.otherwise, live, lambda it: _is_nothing(it) or is_right_on_nothing(it))
    return guard if len(needed) == len(guard.otherwise) else replace(guard, otherwise=tuple(needed))
