"""Cuts the block before each call of a function that is called several times, so that the engine compiles it once.

The engine's compiler compiles a function once if all its calls have the same sizes and the same numbers. In its first
rounds it knows a size as a number only in the block that reads it from a matrix; in all other blocks the size is a
variable. Without a cut the first call would therefore look different from the others. If a size is 1, later calls
would: the compiler simplifies the product of 1 and another size to that other size, a variable, and does not propagate
it through the statements before the call.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import called_in
from onnx_systemds.importing.parameters import INTEGER
from onnx_systemds.importing.passes.block_cuts import CALLED_CUT, cut, is_never, with_never
from onnx_systemds.importing.passes.inlined_calls import not_inlined
from onnx_systemds.importing.passes.named_sizes import reads_size
from onnx_systemds.importing.script import Script, with_functions


def with_call_cuts(script: Script) -> Script:
    """The script with cuts in its functions. A script whose sizes are all known stays the same object."""
    compiled = not_inlined(script.callees)
    if not compiled:
        return script
    apart = {script.main.name, *compiled}  # a cut would keep the others from being inlined
    functions = (_with_cuts(it, compiled) if it.name in apart else it for it in script.functions)
    return with_functions(script, functions)


def _with_cuts(function: tree.Function, compiled: frozenset[str]) -> tree.Function:
    """The function with cuts, the same object without any. compiled: the functions that are not inlined."""
    body = _cut(function.body, compiled, is_open=INTEGER in (parameter.type for parameter in function.parameters))
    return function if len(body) == len(function.body) else replace(function, body=with_never(body))


def _cut(body: tree.Block, compiled: frozenset[str], *, is_open: bool) -> list[tree.Statement]:
    """The statements with cuts. is_open: whether sizes are variables before them."""
    calls = list(map(called_in, body))
    counts = Counter(name for names in calls for name in names if name in compiled)
    repeated = {name for name, count in counts.items() if count > 1}
    found: list[tree.Statement] = []
    for statement, names in zip(body, calls):
        is_open = is_open or reads_size(statement)
        if not repeated.isdisjoint(names) and is_open and found and not is_never(found[-1]):
            found.append(cut(CALLED_CUT))
        found.append(statement)
    return found
