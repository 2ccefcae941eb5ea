"""Trees made of other trees. What does not change stays the same object, and keeps its spelling."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import blocks_in, has_two_sides
from onnx_systemds.dml.tokens import NAME, tokenize

Change = Callable[[Any], Any]
Part = TypeVar("Part")


def left_operands(node: Any) -> tuple[Any, list[tree.Binary]]:
    """What a chain of operations begins with, and these from the innermost one on: long sums are deep on the left."""
    chain: list[tree.Binary] = []
    while isinstance(node, tree.Binary):
        chain.append(node)
        node = node.left
    return node, chain[::-1]


def same_objects(nodes: Sequence[tree.Node], others: Sequence[tree.Node]) -> bool:
    """Whether two sequences hold the same objects; comparing trees would be slow."""
    return len(nodes) == len(others) and all(map(operator.is_, nodes, others))


def with_blocks(statement: tree.Statement, blocks: Sequence[Sequence[tree.Statement]]) -> tree.Statement:
    """A branch or a loop with other blocks in it, in the order of `blocks_in`; the same object for the same ones."""
    if all(map(same_objects, blocks, blocks_in(statement))):
        return statement
    return replace(statement, **dict(zip(("body", "otherwise"), map(tuple, blocks))))  # type: ignore[arg-type]


def with_sides(statement: tree.Statement, change: Callable[[tree.Block], Sequence[tree.Statement]]) -> tree.Statement:
    """A branch that has two sides with what ``change`` gives for them; any other statement as it is."""
    if not has_two_sides(statement):
        return statement
    return with_blocks(statement, [*map(change, blocks_in(statement))])


def rewritten(node: Part, change: Change, whole: Change | None = None) -> Part:
    """The tree with each node replaced by what ``change`` gives for it, from the leaves up.

    whole: asked before, from the root down; what it gives for an expression, unless that is None, stands in its place.
    """
    found: Part = _rewritten(node, change, whole)
    return found


def unchanged(node: tree.Node) -> tree.Node:
    """The ``change`` of `rewritten` where ``whole`` does all."""
    return node


def _rewritten(node: Any, change: Change, whole: Change | None) -> Any:
    if isinstance(node, tuple):
        items = tuple(_rewritten(item, change, whole) for item in node)
        return node if same_objects(items, node) else items
    chain: list[tree.Binary] = []
    result = whole and whole(node)
    while result is None and isinstance(node, tree.Binary):
        chain.append(node)
        node = node.left
        result = whole and whole(node)
    if result is None:
        changed = {}
        for name in tree.child_fields(type(node)):
            value = getattr(node, name)
            if value is not None and (new := _rewritten(value, change, whole)) is not value:
                changed[name] = new
        result = change(replace(node, **changed) if changed else node)
    for binary in reversed(chain):
        right = _rewritten(binary.right, change, whole)
        is_same = result is binary.left and right is binary.right
        result = change(binary if is_same else replace(binary, left=result, right=right))
    return result


def call(function: str, *operands: tree.Expression) -> tree.Call:
    """A call with these arguments by their positions."""
    return tree.Call(function, tuple(tree.CallArgument(None, operand) for operand in operands))


def with_first(node: tree.Call, operand: tree.Expression) -> tree.Call:
    """The call with another first argument."""
    first, *others = node.arguments
    return replace(node, arguments=(replace(first, value=operand), *others))


def reshaped(value: tree.Expression, rows: int | tree.Expression, cols: int | tree.Expression) -> tree.Call:
    """``matrix(value, rows=rows, cols=cols)``."""
    sizes = (tree.CallArgument(name, tree.IntLiteral(size) if isinstance(size, int) else size)
             for name, size in (("rows", rows), ("cols", cols)))
    return tree.Call("matrix", (tree.CallArgument(None, value), *sizes))


def without_threads(part: Part) -> Part:
    """The tree with `for` instead of `parfor`."""

    def change(node: tree.Node) -> tree.Node:
        return replace(node, parallel=False, options=()) if isinstance(node, tree.For) and node.parallel else node

    return rewritten(part, change)


def with_origin(statement: tree.Statement, origin: object) -> tree.Statement:
    """The statement with an origin, if it has none of its own; its spelling stays."""
    if origin is None or statement.origin is not None:
        return statement
    found = copy(statement)
    tree.keep_origin(found, origin)
    return found


def renamed(statement: tree.Statement, names: Mapping[str, str]) -> tree.Statement:
    """The statement with other names of variables, read or assigned; its spelling stays but for them."""

    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, (tree.Name, tree.Indexed)) and node.name in names:
            return replace(node, name=names[node.name])
        return node

    found = rewritten(statement, change)
    if found is not statement and statement.spelling:
        tree.keep_spelling(found, _respelled(statement.spelling, names), shares_line=statement.shares_line)
    return found


def _respelled(text: str, names: Mapping[str, str]) -> str:
    """A statement's text with other names of variables, which are no names of functions or arguments."""
    pieces: list[str] = []
    end = depth = 0
    for token, following in pairwise(tokenize(text)):
        depth += (token.kind == "(") - (token.kind == ")")
        is_other = following.kind == "(" or (following.kind == "=" and depth > 0)
        if token.kind == NAME and token.text in names and not is_other:
            pieces += (text[end : token.offset], names[token.text])
            end = token.end
    return "".join((*pieces, text[end:]))


def calling(names: Mapping[str, str], part: Part) -> Part:
    """A part of a script with calls of other functions, by the names of those that it calls."""

    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Call) and node.function in names:
            return replace(node, function=names[node.function])
        return node

    return rewritten(part, change)
