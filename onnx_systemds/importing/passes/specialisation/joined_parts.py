"""Rows that are put together only to be taken apart again are read where they come from.

Heads of an attention are columns of one product. Their products of pairs (`operators.support.products`) stand one below
the other, and so do their factors. Of a single sample each head is a part of known places, so that the products are
written out: the engine copies heads neither to join them nor to part them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, rewritten, same_objects
from onnx_systemds.dml.scopes import (
    assigns_variable,
    definition_counts,
    is_call,
    is_reshape,
    mentioned,
    read_counts,
    reads_of,
    results,
)
from onnx_systemds.importing.origins import joined_origin
from onnx_systemds.importing.passes.matrix_sizes import Known, statements_with_sizes
from onnx_systemds.importing.passes.merged_slices import places
from onnx_systemds.operators.support.products import Pairs, pairs_of

_ALL = tree.Span()
_MOST_PARTS = 64
Rows: TypeAlias = tuple[tuple[int, int], ...]
"""The first and the last row of each part, where each begins after the one before."""


class _Join(NamedTuple):
    """The place of a statement that puts parts together, and their rows."""

    place: int
    rows: Rows


def with_parts_apart(
    function: tree.Function, functions: Mapping[str, tree.Function], given: Mapping[str, Known]
) -> tree.Function:
    """The function without joins that nothing reads but for their parts.

    Products of pairs are written out where a factor is joined for them alone; rows that become one row stand side by
    side. functions: those of the script, by name.
    given: sizes of parameters. What changes stays, and so do results, and what a branch or a loop reads.
    """
    pairs = {name: found for name, each in functions.items()
             if len(each.body) == 1 and (found := pairs_of(each)) is not None}
    body, kept = function.body, results(function)
    changes = definition_counts(function)
    reads = read_counts(body)
    joins: dict[str, _Join] = {}
    made: list[tree.Statement] = []
    for place, (statement, size_of) in enumerate(statements_with_sizes(body, functions, given)):
        if assigns_variable(statement) and not statement.accumulate:
            alone = {name: join.rows for name, join in joins.items() if reads[name] == 1}
            statement = rewritten(statement, lambda node: _written_out(node, pairs, alone))  # noqa: B023 - now
            statement = rewritten(statement, lambda node: _beside_each_other(node, size_of))  # noqa: B023
            rows, name = _rows_of([size_of(part) for part in _parts(statement.value)]), statement.target.name
            if rows and name not in kept and changes[name] == 1 and _may_move(statement.value, changes):
                joins[name] = _Join(place, rows)
        made.append(statement)
    return function if same_objects(made, body) and not joins else replace(function, body=_without_joins(made, joins))


def _parts(value: tree.Expression) -> list[tree.Expression]:
    """What is put one below the other; nothing for other expressions."""
    return [argument.value for argument in value.arguments] if is_call(value, "rbind") else _parts_of_row(value)


def _parts_of_row(value: tree.Expression) -> list[tree.Expression]:
    """The parts of one row of a matrix that a reshape puts one below the other; nothing for other expressions."""
    row = value.arguments[0].value if is_reshape(value) else None
    if not is_reshape(value) or not isinstance(row, tree.Indexed) or (row.rows.lower is None or row.rows.upper):
        return []
    rows, cols = (argument.value for argument in value.arguments[1:])
    if not isinstance(rows, tree.IntLiteral) or not isinstance(cols, tree.IntLiteral):
        return []
    if rows.value > _MOST_PARTS or cols.value < 1:
        return []
    first, last = (1, rows.value * cols.value) if row.columns == _ALL else places(row.columns) or (1, 0)
    if last - first + 1 != rows.value * cols.value:
        return []
    return [replace(row, columns=_span(start, start + cols.value - 1)) for start in range(first, last + 1, cols.value)]


def _rows_of(sizes: Sequence[Known | None]) -> Rows:
    """The rows of parts that are put one below the other; nothing if one of them is not known."""
    heights = [size[0] for size in sizes if isinstance(size, tuple)]
    if len(heights) < len(sizes) or 0 in heights:
        return ()
    return tuple((before + 1, last) for before, last in pairwise(accumulate(heights, initial=0)))


def _rows_in(part: tree.Node, name: str) -> tuple[int, int] | None:
    """The first and the last row of a part of a matrix that has all its columns; None for anything else."""
    if not isinstance(part, tree.Indexed) or part.name != name or part.columns != _ALL:
        return None
    return places(part.rows)


def _written_out(node: tree.Node, pairs: Mapping[str, Pairs], joins: Mapping[str, Rows]) -> tree.Node:
    """Products of pairs without a call, if one of the factors is joined from just these parts."""
    found = pairs.get(node.function) if isinstance(node, tree.Call) else None
    operands = [argument.value for argument in node.arguments] if isinstance(node, tree.Call) else []
    names = [operand.name for operand in operands if isinstance(operand, tree.Name)]
    if found is None or len(names) < 2:
        return node
    spans = [_rows_of([(height, 1)] * found.number) for height in found.rows]
    if all(joins.get(name) != rows for name, rows in zip(names, spans)):
        return node
    left, right = ([_part(name, rows) for rows in parts] for name, parts in zip(names, spans))
    factors = [call("t", part) if found.transposed else part for part in right]
    return call("rbind", *(tree.Binary("%*%", first, second) for first, second in zip(left, factors)))


def _beside_each_other(node: tree.Node, size_of: Callable[[tree.Expression], Known | None]) -> tree.Node:
    """Rows that are put one below the other, and then made one row, side by side."""
    rows = node.arguments[0].value if is_reshape(node) else None
    if not is_reshape(node) or not is_call(rows, "rbind") or node.arguments[1].value != tree.IntLiteral(1):
        return node
    sizes = [size_of(argument.value) for argument in rows.arguments]
    return replace(rows, function="cbind") if all(isinstance(size, tuple) and size[0] == 1 for size in sizes) else node


def _part(name: str, rows: tuple[int, int]) -> tree.Indexed:
    return tree.Indexed(name, _span(*rows), _ALL)


def _span(first: int, last: int) -> tree.Span:
    return tree.Span(tree.IntLiteral(first), None if first == last else tree.IntLiteral(last))


def _may_move(value: tree.Expression, changes: Counter[str]) -> bool:
    """Whether an expression gives the same later on, and its parts are of operations alone."""
    found = mentioned(value)
    return set(found.functions) <= {"rbind", "t", "matrix"} and all(changes[name] <= 1 for name in found.names)


def _without_joins(statements: list[tree.Statement], joins: Mapping[str, _Join]) -> tree.Block:
    """The statements without the joins of which only single parts are read."""
    readers: dict[str, list[int]] = defaultdict(list)
    for place, statement in enumerate(statements):
        for name in set(reads_of(statement)) & joins.keys():
            readers[name].append(place)
    made: list[tree.Statement | None] = list(statements)
    for name, join in joins.items():
        reading = [it for place in readers[name] if (it := made[place]) is not None]
        joined = made[join.place]
        if joined is None or not _takes_parts(name, join.rows, reading):
            continue
        assert isinstance(joined, tree.Assign)
        parts: dict[tuple[int, int] | None, tree.Expression] = dict(zip(join.rows, _parts(joined.value)))
        for place, statement in zip(readers[name], reading):
            changed = rewritten(statement, lambda node: parts.get(_rows_in(node, name), node))  # noqa: B023 - now
            made[place] = replace(changed, origin=joined_origin(joined, statement))
        made[join.place] = None
    return tuple(statement for statement in made if statement is not None)


def _takes_parts(name: str, rows: Rows, reading: Sequence[tree.Statement]) -> bool:
    """Whether statements read a join by its parts, each of them once."""
    values = [it.value for it in reading if assigns_variable(it) and not it.accumulate]
    if len(values) < len(reading):
        return False
    nodes = [node for node in tree.walk(*values) if _mentions(node, name)]
    read = Counter(_rows_in(node, name) for node in nodes if isinstance(node, tree.Indexed))
    return len(nodes) == read.total() and set(read) <= set(rows) and set(read.values()) == {1}


def _mentions(node: tree.Node, name: str) -> bool:
    return isinstance(node, (tree.Name, tree.Indexed)) and node.name == name
