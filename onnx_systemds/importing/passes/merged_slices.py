"""A part of a part of a matrix is taken from the matrix itself, where nothing reads the larger part as a whole.

So it is where a node splits what the heads of an attention are made of: the engine copies each part that it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import assigns_variable, definition_counts, name_counts, results
from onnx_systemds.importing.origins import joined_origin
from onnx_systemds.importing.script import Script, with_functions

_ALL = tree.Span()


def with_merged_slices(script: Script) -> Script:
    """The script whose functions take no part of a part; specialised is the script as it was."""
    return with_functions(script, map(with_merged_slices_in, script.functions))


def with_merged_slices_in(function: tree.Function) -> tree.Function:
    """The function that takes parts of parts at once, the same object where it has none.

    What changes later, as in a loop, keeps its name, and so do results.
    """
    slices = _slices(function)
    if not slices:
        return function
    reads: dict[str, list[tree.Indexed | None]] = {name: [] for name in slices}
    for statement in function.body:
        is_plain = isinstance(statement, (tree.Assign, tree.MultiAssign))
        for node in tree.walk(statement):
            if isinstance(node, tree.Indexed) and node.name in reads:
                reads[node.name].append(_merged(slices[node.name].part, node) if is_plain else None)
    counts = name_counts(function.body)  # without an index it stands only where it is assigned
    taken = {name: it for name, it in slices.items()
             if reads[name] and None not in reads[name] and counts[name] == 1}
    if not taken:
        return function
    made = {id(it.statement) for it in taken.values()}
    body = tuple(_with_parts(statement, taken) for statement in function.body if id(statement) not in made)
    return replace(function, body=body)


@dataclass(frozen=True)
class _Slice:
    """A statement that gives a part of a matrix a name."""

    statement: tree.Assign
    part: tree.Indexed


def _slices(function: tree.Function) -> dict[str, _Slice]:
    """By name the parts of known places in matrices, where neither changes."""
    found = {
        statement.target.name: _Slice(statement, statement.value)
        for statement in function.body
        if assigns_variable(statement) and statement.comments == tree.NO_COMMENTS
        and isinstance(statement.value, tree.Indexed) and _is_known(statement.value)
    }
    if not found:
        return found
    counts, kept = definition_counts(function), results(function)
    return {name: it for name, it in found.items()
            if counts[name] == 1 and counts[it.part.name] == 1 and name not in kept and it.part.name not in found}


def _is_known(part: tree.Indexed) -> bool:
    """Whether a part is of known rows, known columns, or both."""
    spans = (part.rows, part.columns)
    return spans != (_ALL, _ALL) and all(span == _ALL or places(span) is not None for span in spans)


def places(span: tree.Span | None) -> tuple[int, int] | None:
    """The first and the last place, as numbers."""
    if span is None or not isinstance(span.lower, tree.IntLiteral):
        return None
    if span.upper is None:
        return span.lower.value, span.lower.value
    return (span.lower.value, span.upper.value) if isinstance(span.upper, tree.IntLiteral) else None


def _merged(outer: tree.Indexed, inner: tree.Indexed) -> tree.Indexed | None:
    """A part of a part as one of the whole; None where places are not known, or are not all within the part."""
    if inner.columns is None or outer.columns is None:
        return None
    rows, columns = _merged_span(outer.rows, inner.rows), _merged_span(outer.columns, inner.columns)
    return None if rows is None or columns is None else replace(inner, name=outer.name, rows=rows, columns=columns)


def _merged_span(outer: tree.Span, inner: tree.Span) -> tree.Span | None:
    if outer == _ALL or inner == _ALL:
        return inner if outer == _ALL else outer
    before, within = places(outer), places(inner)
    if before is None or within is None or not 1 <= within[0] <= within[1] <= before[1] - before[0] + 1:
        return None
    lower, upper = (tree.IntLiteral(before[0] - 1 + place) for place in within)
    return tree.Span(lower, upper if inner.upper is not None else None)


def _with_parts(statement: tree.Statement, taken: dict[str, _Slice]) -> tree.Statement:
    """The statement with parts of the whole, as of the nodes that both come from."""
    joined: list[tree.Statement] = []

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Indexed) or node.name not in taken:
            return node
        found = taken[node.name]
        joined.append(found.statement)
        merged = _merged(found.part, node)
        assert merged is not None
        return merged

    changed = rewritten(statement, change)
    if not joined:
        return statement
    return replace(changed, origin=joined_origin(*dict.fromkeys(joined), statement))
