"""Comments that say of which module of a model statements are, as PyTorch wrote it into the nodes."""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.importing.origins import JoinedOrigin, Origin

_DEPTH = 2


def with_scope_comments(body: tree.Block) -> tree.Block:
    """The statements, with the module of their nodes before the first of each group: a layer, or a larger part."""
    found: list[tree.Statement] = []
    current = ""
    for statement in body:
        module = module_of(statement.origin)
        if module and module != current and not statement.shares_line:
            current = module
            statement = _with_comment(statement, f"# {module}")
        found.append(statement)
    return tuple(found)


def module_of(origin: object) -> str:
    """The scope of a node up to its first number, ``encoder.layer.0``, or its first words; "" if it has none."""
    if isinstance(origin, JoinedOrigin):
        origin = origin.own
    if not isinstance(origin, Origin):
        return ""
    numbers = [place for place, word in enumerate(origin.scope) if word.isdigit()]
    return ".".join(origin.scope[: numbers[0] + 1] if numbers else origin.scope[:_DEPTH])


def _with_comment(statement: tree.Statement, comment: str) -> tree.Statement:
    """The statement with a comment in front; its spelling stays."""
    found = replace(statement, comments=replace(statement.comments, before=(comment, *statement.comments.before)))
    tree.keep_spelling(found, statement.spelling)
    return found
