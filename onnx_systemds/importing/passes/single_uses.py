"""Values that are read once are written where they are read, if that takes fewer lines.

The engine calculates the statements between two cuts as one graph, so that it runs the same instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.line_breaks import INDENT
from onnx_systemds.dml.printer import WIDTH, print_block, print_expression
from onnx_systemds.dml.rewrite import rewritten, same_objects, with_sides
from onnx_systemds.dml.scopes import (
    Mentioned,
    assigns_variable,
    blocks_in,
    definition_counts,
    mentioned,
    once,
    read_counts,
    results,
)
from onnx_systemds.dml.words import SIZE_FUNCTIONS
from onnx_systemds.importing.origins import joined_origin
from onnx_systemds.importing.parameters import MATRIX
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.passes.inlined_calls import not_inlined
from onnx_systemds.importing.passes.scope_comments import module_of
from onnx_systemds.importing.passes.specialisation.hoisting import impure_functions
from onnx_systemds.importing.script import Script, with_functions
from onnx_systemds.operators.rendering.weight_loads import is_entry, is_load

_MOST_LINES, _MOST_OPERATIONS = 2, 12
"""Of a statement that others are part of: it is to be read at one glance."""
_ROOM = WIDTH - len(INDENT)
Columns = tuple[int, float]


def with_single_uses(script: Script) -> Script:
    """The script whose functions have no name for what is read once; specialised is the script as it was."""
    others = script.callees
    impure = impure_functions(others)
    apart = not_inlined(others)
    return with_functions(script, (_Joining(it, others, impure, apart).joined() for it in script.functions))


class _Part(NamedTuple):
    """A statement, and what is known of it together with the values that were put into it.

    variables: those that it reads, each as often as it is there. whole: those of them that no expression can stand for.
    operations: how many count. is_pure: whether what it calls gives the same elsewhere. module: of the model. columns:
    how many it takes on one line, at least and at most.
    """

    statement: tree.Assign
    variables: tuple[str, ...]
    whole: frozenset[str]
    operations: int
    is_pure: bool
    module: str
    columns: Columns


class _Joining:
    """The statements of a function while values that are read once are put in place.

    impure: functions that may not give the same twice. apart: those that the engine does not inline.
    """

    def __init__(
        self, function: tree.Function, others: Mapping[str, tree.Function], impure: frozenset[str],
        apart: frozenset[str],
    ) -> None:
        self.function, self.others, self.kept = function, others, results(function)
        self.in_place, self.asking = impure | apart, apart | SIZE_FUNCTIONS  # which the engine asks of variables alone
        self.reads = read_counts(_parts(function.body))
        self.changes = definition_counts(function)

    def joined(self) -> tree.Function:
        """The function, the same object where there is nothing to join."""
        self.kinds = kinds_of(self.function, self.others)
        body = self._joined(self.function.body)
        return self.function if body is self.function.body else replace(self.function, body=body)

    def _joined(self, block: tree.Block) -> tree.Block:
        """The statements of a block, the same object where there is nothing to join."""
        made: list[tree.Statement | None] = []
        waiting: dict[str, tuple[int, _Part]] = {}
        for statement in block:
            if not isinstance(statement, (tree.Assign, tree.MultiAssign)):
                waiting.clear()
                statement = with_sides(statement, self._joined)
            elif (
                assigns_variable(statement) and not statement.shares_line
                and (found := mentioned(statement.value)).variables  # a constant is called what it is
            ):
                part = self._part(statement, found)
                for name in part.variables:
                    if name not in waiting:
                        continue
                    place, first = waiting[name]
                    together = _joined(first, part)
                    if together is not None:
                        del waiting[name]
                        made[place] = None
                        part = together
                statement = part.statement
                if self._may_move(part):
                    waiting[statement.target.name] = len(made), part
            made.append(statement)
        joined = tuple(statement for statement in made if statement is not None)
        return block if same_objects(joined, block) else joined

    def _part(self, statement: tree.Assign, found: Mentioned) -> _Part:
        whole: set[str] = set()
        for node in found.operations:
            if isinstance(node, tree.Indexed):
                whole.add(node.name)
            elif isinstance(node, tree.Call) and node.function in self.asking:
                whole |= mentioned(node).names
        operations = sum(map(_counts, found.operations))
        is_pure = not found.has_text and self.in_place.isdisjoint(found.functions)
        module = module_of(statement.origin)
        return _Part(statement, found.variables, frozenset(whole), operations, is_pure, module, _columns(statement))

    def _may_move(self, part: _Part) -> bool:
        """Whether what a statement assigns is a matrix that is read once, and the same wherever it is calculated."""
        statement = part.statement
        name, value = statement.target.name, statement.value
        if self.reads[name] != 1 or name in self.kept or statement.comments is not tree.NO_COMMENTS:
            return False
        if statement.accumulate or self.kinds.get(name) != MATRIX or is_load(value) or is_entry(value):
            return False
        return part.is_pure and self.changes[name] == 1 and all(self.changes[read] <= 1 for read in part.variables)


def _parts(block: tree.Block) -> Iterator[tree.Statement]:
    """The statements of a block; in place of branches what is in them, and their conditions."""
    for statement in block:
        if isinstance(statement, tree.If):
            yield replace(statement, body=(), otherwise=())
            for inner in blocks_in(statement):
                yield from _parts(inner)
        else:
            yield statement


def _joined(first: _Part, second: _Part) -> _Part | None:
    """The statement that does what two do; None where that takes as many lines, or cannot be."""
    name, value = first.statement.target.name, first.statement.value
    if first.module and second.module and first.module != second.module:
        return None  # each part of the model stands for itself, below its comment
    operations = first.operations + second.operations
    if operations > _MOST_OPERATIONS or name in second.whole:
        return None
    one, other = _lines(first), _lines(second)
    allowed = min(one + other - 1, max(one, other, _MOST_LINES))
    columns = _columns_together(first, second)
    must_fit = allowed == 1 and max(first.columns[1], second.columns[1]) <= _ROOM
    if must_fit and columns[0] > _ROOM:
        return None
    merged = rewritten(second.statement.value, lambda it: value if type(it) is tree.Name and it.name == name else it)
    together = replace(second.statement, value=merged, origin=joined_origin(first.statement, second.statement))
    if columns[0] <= _ROOM < columns[1]:
        columns = _columns(together)
    if columns[1] > _ROOM and (must_fit or _printed_lines(together) > allowed):
        return None
    place = second.variables.index(name)
    variables = (*second.variables[:place], *first.variables, *second.variables[place + 1 :])
    module = first.module if second.statement.origin is None else second.module
    return _Part(together, variables, first.whole | second.whole, operations, second.is_pure, module, columns)


def _counts(operation: tree.Node) -> bool:
    """Whether an operation is of matrices, as most are; those of sizes need no second look."""
    return not isinstance(operation, tree.Binary) or any(
        not isinstance(operand, tree.IntLiteral) for operand in (operation.left, operation.right)
    )


def _columns(statement: tree.Assign) -> Columns:
    """How many columns a statement takes on one line, at least and at most; a comment takes lines of its own."""
    columns = len(f"{statement.target.name} = {print_expression(statement.value)}") + statement.accumulate
    return columns, columns if statement.comments is tree.NO_COMMENTS else math.inf


def _columns_together(first: _Part, second: _Part) -> Columns:
    """As `_columns` for two statements in one, without printing it: it may have one pair of parentheses more."""
    value = first.statement.value
    least, most = (one + other - len(f"{first.statement.target.name} = {first.statement.target.name}")
                   for one, other in zip(first.columns, second.columns))
    return int(least), most + (len("()") if isinstance(value, (tree.Binary, tree.Unary)) else 0)


def _lines(part: _Part) -> int:
    spelling = part.statement.spelling
    is_short = len(spelling) <= _ROOM and "\n" not in spelling if spelling else part.columns[1] <= _ROOM
    return 1 if is_short else _printed_lines(part.statement)


@once
def _printed_lines(statement: tree.Statement) -> int:
    return print_block((statement,), INDENT).count("\n")
