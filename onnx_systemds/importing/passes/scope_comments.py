"""Comments that say of which module of a model statements are, as PyTorch wrote it into the nodes."""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.line_breaks import INDENT
from onnx_systemds.dml.printer import WIDTH, print_block
from onnx_systemds.dml.scopes import has_two_sides
from onnx_systemds.importing.origins import JoinedOrigin, Origin
from onnx_systemds.importing.script import Script

_DEPTH = 2


def with_scope_comments(script: Script) -> Script:
    """The script with comments in its main function."""
    main = script.main
    commented = replace(main, body=_with_comments(main.body)[0])
    return replace(script, functions=tuple(commented if it is main else it for it in script.functions))


def _with_comments(body: tree.Block, current: str = "") -> tuple[tree.Block, str]:
    """The statements, with the module of their nodes before the first of each group: a layer, or a larger part.

    A group of one statement has it at the end of its line if there is room. current: the module before them; that of
    the last one is returned, too.
    """
    named = [(place, module) for place, statement in enumerate(body) if (module := module_of(statement.origin))]
    found = [*body]
    for (place, module), following in zip(named, [*(module for _, module in named[1:]), ""]):
        statement = body[place]
        if module != current and not statement.shares_line:
            current = module
            found[place] = _with_comment(statement, f"# {module}", is_alone=following != module)
        if has_two_sides(statement):
            inner, current = _with_comments(statement.body, current)
            found[place] = replace(statement, body=inner, comments=found[place].comments)
    return tuple(found), current


def module_of(origin: object) -> str:
    """The scope of a node up to its first number, ``encoder.layer.0``, or its first words; "" if it has none."""
    if isinstance(origin, JoinedOrigin):
        origin = origin.own
    if not isinstance(origin, Origin):
        return ""
    numbers = [place for place, word in enumerate(origin.scope) if word.isdigit()]
    return ".".join(origin.scope[: numbers[0] + 1] if numbers else origin.scope[:_DEPTH])


def _with_comment(statement: tree.Statement, comment: str, *, is_alone: bool) -> tree.Statement:
    """The statement with a comment in front, or beside it if it is alone and there is room; its spelling stays."""
    comments = statement.comments
    if is_alone and comments is tree.NO_COMMENTS and _fits(statement, comment):
        comments = replace(comments, beside=(comment,))
    else:
        comments = replace(comments, before=(comment, *comments.before))
    found = replace(statement, comments=comments)
    tree.keep_spelling(found, statement.spelling)
    return found


def _fits(statement: tree.Statement, comment: str) -> bool:
    """Whether a statement of a function and a comment are one line."""
    line, *others = print_block((statement,), INDENT).splitlines()
    return not others and len(f"{line}  {comment}") <= WIDTH
