"""Hides the sizes of a matrix from the engine's compiler where it would probe the function with example sizes.

The compiler probes a function of one matrix that is called with several sizes, and what that calls: it compiles them
for 7777 x 3333, and sequences and tables keep the lengths of that size (length-of-a-sequence-of-unknown-end of
``engine/faults/sizes.py``), as does all that is computed of them. A branch that is never taken gives the matrix sizes
that are not known as numbers while the compiler probes: variables that are computed before it, since in the branch they
would be those tried. A round of its analysis later they are known, and then they are those of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.call_graph import callees
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.scopes import assigned, is_call, matrix_parameters, statements_in
from onnx_systemds.importing.body import parsed
from onnx_systemds.importing.passes.block_cuts import untaken, with_never
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.importing.script import Script, with_functions

_WHY = "hides sizes that the compiler only tries"


def without_probed_sizes(script: Script) -> Script:
    """The script in whose functions no sequence or table has a length that the compiler only tries.

    A function without control flow is none for the compiler, but for the main one: a program may call it in turn.
    """
    functions = script.callable_functions
    called = () if has_known_sizes(script) else (script.main,)
    return with_functions(script, (
        _hidden(it, functions) if it in called or (it is not script.main and not is_straight(it.body)) else it
        for it in script.functions
    ))


def has_known_sizes(script: Script) -> bool:
    """Whether all sizes of the inputs are numbers in the script."""
    return all(isinstance(size, int) for port in script.inputs for size in port.dims or (None,))


def _hidden(function: tree.Function, functions: Mapping[str, tree.Function]) -> tree.Function:
    """The function with the sizes of its matrix hidden, if it takes one, and counts to sizes.

    A function that the compiler tries may call it with a list of weights, too. functions: of the script, by name.
    """
    matrices = matrix_parameters(function)
    if len(matrices) != 1:
        return function
    if not any(map(_counts_to_size, (function, *callees(functions, function.body).values()))):
        return function
    (name,) = matrices
    names = Names({*(it.name for it in function.parameters), *assigned(function.body), *functions})
    rows, columns = (names.fresh(word) for word in ("rows", "columns"))
    sizes = f"{rows} = nrow({name}) %/% 1; {columns} = ncol({name}) %/% 1"
    other = f"{name} = matrix(1, rows={rows}, cols={columns})"
    return replace(function, body=with_never((*parsed((sizes,)), untaken((other,), _WHY), *function.body)))


def _counts_to_size(function: tree.Function) -> bool:
    """Whether a function makes a table, or a sequence to a computed end; ranges of loops do not count."""
    found = [it.value if isinstance(it, tree.Assign) else it.call for it in statements_in(function.body)
             if isinstance(it, (tree.Assign, tree.MultiAssign))]
    return any(map(_is_open_count, tree.walk(*found)))


def _is_open_count(node: object) -> bool:
    """Whether a node is a sequence up to a computed number, or a table."""
    return is_call(node, "table") or (is_call(node, "seq") and number_of(node.arguments[1].value) is None)
