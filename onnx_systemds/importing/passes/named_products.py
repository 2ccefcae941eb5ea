"""Products that move or repeat rows and columns, as calls of functions whose names say so.

They are written out while statements are generated and specialised: passes look into them, and share what they select
by. The engine inlines the functions, so that it runs the same instructions. How many rows an index has is an argument:
the engine may take it for another number, see ``engine/faults/sizes.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import library_functions
from onnx_systemds.dml.operands import expression_of, fits
from onnx_systemds.dml.rewrite import call, rewritten, same_objects
from onnx_systemds.dml.scopes import assigns_variable, binaries_in, is_operation, mentioned, results
from onnx_systemds.importing.script import Script
from onnx_systemds.operators.support.selection_products import SPARSE_ROWS

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
    constants = script.constants
    if constants is not None:  # what was called for them alone may be called by the others, too
        constants = replace(constants, library=tuple(it for it in constants.library if it.name not in library))
    return replace(
        script,
        functions=functions,
        library=tuple(library[name] for name in sorted(library)),
        constants=constants,
        general=script.unspecialised,
    )


def with_named_products_in(function: tree.Function, named: set[str]) -> tree.Function:
    """The function with calls for products, ``named`` takes what they call; the same object where there are none."""

    def name_of(node: tree.Node) -> tree.Node:
        if not is_operation(node, "%*%"):
            return node
        for product in _PRODUCTS:
            arguments = _arguments(node, product)
            if arguments is not None:
                named.add(product.function)
                return call(product.function, *arguments)
        return node

    def in_assignment(node: Any) -> Any:
        """Calls of functions stand in what is assigned to a variable; a condition holds none."""
        if not assigns_variable(node):
            return node
        value = rewritten(node.value, name_of)
        return node if value is node.value else replace(node, value=value)

    body = tuple(rewritten(statement, in_assignment) if _has_product(statement) else statement
                 for statement in _with_gathered_columns(function, named))
    return function if same_objects(body, function.body) else replace(function, body=body)


def _has_product(statement: tree.Statement) -> bool:
    """Whether there is a product in a statement, as in most of them there is none."""
    return any(node.operator == "%*%" for node in binaries_in(statement))


def _with_gathered_columns(function: tree.Function, named: set[str]) -> tree.Block:
    """The statements of a function; two are one where columns are gathered, and those beside them then cut off."""
    made: list[tree.Statement] = []
    for statement in function.body:
        gathered = _gathered_columns(function, made[-1], statement) if made else None
        if gathered is None:
            made.append(statement)
        else:
            named.add("gathered_columns")
            made[-1] = gathered
    return function.body if len(made) == len(function.body) else tuple(made)


def _gathered_columns(function: tree.Function, first: tree.Statement, second: tree.Statement) -> tree.Assign | None:
    """The statement that does what two do, a product and then its first columns; None for others."""
    if not isinstance(second, tree.Assign) or not isinstance(second.value, tree.Indexed):
        return None
    if not isinstance(first, tree.Assign) or second.comments != tree.NO_COMMENTS:
        return None
    found: Found = {}
    product, target = first.target, second.target
    if not isinstance(target, tree.Name) or not fits(_COLUMNS, first.value, found):
        return None
    first_columns = tree.Span(tree.IntLiteral(1), found["n"])
    if second.value != tree.Indexed(product.name, tree.Span(), first_columns) or product.name in results(function):
        return None
    uses = sum(mentioned(statement).variables.count(product.name) for statement in function.body)
    if uses > 2:  # where it is assigned, and here
        return None
    value = call("gathered_columns", found["X"], found["I"], found["n"], found["m"])
    return replace(second, value=value, comments=first.comments)


def _arguments(node: tree.Binary, product: _Product) -> tuple[tree.Expression, ...] | None:
    found: Found = {}
    return product.arguments(found) if fits(expression_of(product.form), node, found) else None


def _of_all(*names: str) -> Callable[[Found], tuple[tree.Expression, ...]]:
    return lambda found: tuple(found[name] for name in names)


def _of_few(found: Found) -> tuple[tree.Expression, ...] | None:
    """How many rows there are without those of zeros; of known numbers the sum would be one more instruction."""
    width, padding = found["m"], found["p"]
    if not is_operation(width, "+") or width.right != padding:
        return None
    return (found["X"], found["I"], found["n"], width.left) if padding == tree.IntLiteral(SPARSE_ROWS) else None


_COLUMNS = expression_of("X %*% table(I, seq(1, n), m, w)")
_PRODUCTS = (
    _Product("gathered_few_rows", "table(seq(1, n), I, n, m) %*% rbind(X, matrix(0, rows=p, cols=c))", _of_few),
    _Product("gathered_rows", "table(seq(1, n), I, n, m) %*% X", _of_all("X", "I", "n", "m")),
    _Product("repeated_row", "abs(matrix(1, rows=n, cols=1)) %*% v", _of_all("v", "n")),
    _Product("repeated_column", "v %*% abs(matrix(1, rows=1, cols=n))", _of_all("v", "n")),
)
