"""Facts about the text of an operand, from its syntax tree.

Generators write text. Where one has to know what it was given, a name (which alone can be indexed), a number or a call,
it asks here, so that spelling and parentheses decide nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.printer import number_text
from onnx_systemds.dml.scopes import operand_of
from onnx_systemds.dml.snippets import parse_snippet


@lru_cache(maxsize=4096)
def expression_of(text: str) -> tree.Expression:
    """The expression that a text is. Raises ScriptSyntaxError."""
    (statement,) = parse_snippet(f"value = {text}")
    assert isinstance(statement, tree.Assign)
    return statement.value


def is_name(text: str) -> bool:
    """Whether a text is the name of a variable, as it can stand before an index."""
    found = expression_of(text)
    return isinstance(found, tree.Name) and found.name == text


def number_in(text: str) -> float | None:
    """The number that a text is a literal of, of any sign; None for anything else."""
    return number_of(expression_of(text))


def plus(text: str, added: str) -> str:
    """The sum of two operands; a negative number, as `literal` writes it, is subtracted, which gives the same."""
    found = expression_of(added) if added.startswith("(-") else None
    if isinstance(found, tree.Unary) and isinstance(found.operand, (tree.IntLiteral, tree.DoubleLiteral)):
        return f"{text} - {number_text(found.operand.value)}"
    return f"{text} + {added}"


def called(text: str, function: str) -> tree.Expression | None:
    """The first argument of a call, if a text is a call of that function."""
    return operand_of(expression_of(text), function)


def fits(form: Any, node: Any, found: dict[str, Any]) -> bool:
    """Whether a part of the tree has a form, whose variables are holes; ``found`` takes what is in them."""
    if isinstance(form, tree.Name):
        return isinstance(node, tree.Node) and found.setdefault(form.name, node) == node
    if isinstance(form, tuple):
        return len(form) == len(node) and all(fits(inner, it, found) for inner, it in zip(form, node))
    if not isinstance(form, tree.Node):
        return bool(form == node)
    if type(form) is not type(node):
        return False
    names: tuple[str, ...] = form.__match_args__
    return all(fits(getattr(form, name), getattr(node, name), found) for name in names)
