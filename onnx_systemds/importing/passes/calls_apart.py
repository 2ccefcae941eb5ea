"""Cuts in front of the calls of functions that are called several times: the engine's compiler finds all of them alike.

It compiles a function once if all calls get the same sizes and the same numbers. A size that is a number in the block
that reads it from a matrix is a variable in all others, in the compiler's first rounds: the first call would be unlike.
Where a size is 1, later calls would be: of its product with another one the compiler makes that other one, a variable,
which it does not follow in the statements in front of the call.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import called_in
from onnx_systemds.importing.passes.block_cuts import CALLED_CUT, cut, is_never, with_never
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.importing.passes.named_sizes import reads_size
from onnx_systemds.importing.script import Script, with_main


def with_calls_apart(script: Script) -> Script:
    """The script whose main function has cuts, if its sizes are open; specialised is the script as it was."""
    apart = {it.name for it in (*script.library, *script.functions) if not is_straight(it.body)}
    body = _with_cuts(script.main.body, apart)
    if len(body) == len(script.main.body):
        return script
    return with_main(script, replace(script.main, body=with_never(body)))


def _with_cuts(body: tree.Block, apart: set[str]) -> list[tree.Statement]:
    calls = list(map(called_in, body))
    counts = Counter(name for names in calls for name in names if name in apart)
    repeated = {name for name, count in counts.items() if count > 1}
    found: list[tree.Statement] = []
    is_open = False
    for statement, names in zip(body, calls):
        is_open = is_open or reads_size(statement)
        if not repeated.isdisjoint(names) and is_open and not is_never(found[-1]):
            found.append(cut(CALLED_CUT))
        found.append(statement)
    return found
