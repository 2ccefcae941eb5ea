"""Products that move or repeat rows and columns, as calls of functions whose names say so.

They are written out while statements are generated and specialised: passes look into them, and share what they select
by. The engine inlines the functions, so that it runs the same instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.operands import expression_of
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.importing.script import Script
from onnx_systemds.operators.support.broadcasting import SPARSE_ROWS

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Product:
    """A product that a library function stands for.

    form: its variables are holes. arguments: those of the call for what is in the holes, None where the
    function does something else.
    """

    function: str
    form: str
    arguments: Callable[[Found], tuple[tree.Expression, ...] | None]


def with_named_products(script: Script) -> Script:
    """The script whose functions call functions for products; specialised is the script as it was."""
    named: set[str] = set()
    functions = tuple(with_named_products_in(function, named) for function in script.functions)
    if not named:
        return script
    library = {function.name: function for function in (*library_functions(named), *script.library)}
    return replace(
        script,
        functions=functions,
        library=tuple(library[name] for name in sorted(library)),
        general=script.unspecialised,
    )


def with_named_products_in(function: tree.Function, named: set[str]) -> tree.Function:
    """The function with calls for products, ``named`` takes what they call; the same object where there are none."""

    def name_of(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Binary) or node.operator != "%*%":
            return node
        for product in _PRODUCTS:
            arguments = _arguments(node, product)
            if arguments is not None:
                named.add(product.function)
                return tree.Call(product.function, tuple(tree.CallArgument(None, it) for it in arguments))
        return node

    def in_assignment(node: Any) -> Any:
        """Calls of functions stand in what is assigned to a variable; a condition holds none."""
        if not isinstance(node, tree.Assign) or not isinstance(node.target, tree.Name):
            return node
        value = rewritten(node.value, name_of)
        return node if value is node.value else replace(node, value=value)

    body: tree.Block = rewritten(function.body, in_assignment)
    return function if body is function.body else replace(function, body=body)


def _arguments(node: tree.Binary, product: _Product) -> tuple[tree.Expression, ...] | None:
    found: Found = {}
    return product.arguments(found) if _fits(expression_of(product.form), node, found) else None


def _fits(form: Any, node: Any, found: Found) -> bool:
    """Whether a part of the tree has a form; ``found`` takes what is in its holes."""
    if isinstance(form, tree.Name):
        return isinstance(node, tree.Node) and found.setdefault(form.name, node) == node
    if isinstance(form, tuple):
        return len(form) == len(node) and all(_fits(inner, it, found) for inner, it in zip(form, node))
    if not isinstance(form, tree.Node):
        return bool(form == node)
    if type(form) is not type(node):
        return False
    names = (field.name for field in fields(form) if field.compare)
    return all(_fits(getattr(form, name), getattr(node, name), found) for name in names)


def _of_all(*names: str) -> Callable[[Found], tuple[tree.Expression, ...]]:
    return lambda found: tuple(found[name] for name in names)


def _of_few(found: Found) -> tuple[tree.Expression, ...] | None:
    """How many rows there are without those of zeros; of known numbers the sum would be one more instruction."""
    width, padding = found["m"], found["p"]
    if not isinstance(width, tree.Binary) or width.operator != "+" or width.right != padding:
        return None
    return (found["X"], found["I"], width.left) if padding == tree.IntLiteral(SPARSE_ROWS) else None


_PRODUCTS = (
    _Product("gathered_few_rows", "table(seq(1, n), I, n, m) %*% rbind(X, matrix(0, rows=p, cols=c))", _of_few),
    _Product("gathered_rows", "table(seq(1, n), I, n, m) %*% X", _of_all("X", "I", "m")),
    _Product("repeated_row", "abs(matrix(1, rows=n, cols=1)) %*% v", _of_all("v", "n")),
    _Product("repeated_column", "v %*% abs(matrix(1, rows=1, cols=n))", _of_all("v", "n")),
)
