"""Products of three sizes and more, so that the engine's compiler knows them wherever it knows the sizes.

The compiler makes one operation of ``a * b * c``, and that is calculated neither while it compiles nor where it follows
the sizes of matrices: what is made of it is recompiled at each call. Of ``(a * b - 0) * c`` it knows the value. What
only gives a matrix another shape stays as it is: the compiler counts its cells, but for those of a function's result.
What an ifelse is given stays, too: the compiler must not know the size of one operand alone
(``ifelse-of-a-vector-of-unknown-length`` in `engine.faults`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten, same_objects
from onnx_systemds.dml.scopes import binaries_in, is_call, is_operation
from onnx_systemds.importing.parameters import INTEGER
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.passes.named_sizes import is_size
from onnx_systemds.importing.script import Script

_NOTHING = tree.IntLiteral(0)
_NOTE = "# (a * b - 0) * c is a * b * c: of a product of three numbers the engine's compiler does not know the value."


def with_binary_products(script: Script) -> Script:
    """The script whose functions calculate sizes so that the engine knows them; specialised is the script as it was."""
    callees = script.callable_functions
    functions = [with_binary_products_in(function, callees) for function in script.functions]
    library = tuple(with_binary_products_in(function, callees) for function in script.library)
    changed = [place for place, function in enumerate(functions) if function is not script.functions[place]]
    if changed:
        first = functions[changed[0]]
        functions[changed[0]] = replace(first, comments=replace(first.comments, before=(*first.comments.before, _NOTE)))
    elif same_objects(library, script.library):
        return script
    return replace(script, functions=tuple(functions), library=library, general=script.unspecialised)


def with_binary_products_in(function: tree.Function, functions: Mapping[str, tree.Function]) -> tree.Function:
    """The function with products of two integers at a time; the same object where it has no others.

    functions: those that it calls, by name.
    """
    if not any(_is_nested(node) for statement in function.body for node in binaries_in(statement)):
        return function
    integers = {name for name, kind in kinds_of(function, functions).items() if kind == INTEGER}
    excluded = {id(node) for node in tree.walk(*_excluded(function.body, functions))}

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Binary) or not _is_nested(node):
            return node
        if id(node) in excluded or not is_size(node, integers):
            return node
        left, right = (tree.Binary("-", it, _NOTHING) if _is_product(it) else it for it in (node.left, node.right))
        return replace(node, left=left, right=right)

    body = rewritten(function.body, change)
    return function if body is function.body else replace(function, body=body)


def _is_nested(node: tree.Binary) -> bool:
    """Whether it is a product of a product."""
    return _is_product(node) and (_is_product(node.left) or _is_product(node.right))


def _is_product(node: tree.Expression) -> bool:
    return is_operation(node, "*")


def _excluded(body: tree.Block, functions: Mapping[str, tree.Function]) -> Iterator[tree.Node]:
    """What an ifelse is given, and the rows and columns that matrices get whose cells the compiler can count."""
    for node in tree.walk(*body):
        if is_call(node, "ifelse"):
            yield node
        elif is_call(node, "matrix") and _is_counted(node, functions):
            yield from (argument.value for argument in node.arguments if argument.name in ("rows", "cols"))


def _is_counted(call: tree.Call, functions: Mapping[str, tree.Function]) -> bool:
    """Whether a call of ``matrix`` is given another one, which is no result of a function."""
    for argument in call.arguments:
        if argument.name in (None, "data"):
            value = argument.value.operand if isinstance(argument.value, tree.Unary) else argument.value
            if isinstance(value, (tree.IntLiteral, tree.DoubleLiteral, tree.Constant)):
                return False
            if isinstance(value, tree.Call) and value.function in functions:
                return False
    return True
