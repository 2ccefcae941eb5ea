"""Keeps what the engine finds out about the sizes in a function with a loop.

Where sizes are not known before, the engine compiles such a function for its arguments at each call, in two steps:
the first one follows all sizes, the second one simplifies, and forgets those that are computed. In hybrid mode each
instruction of unknown size then runs on Spark. It leaves out the second step, which takes as long as the first one, if
there is a size that it cannot follow; a branch that is never taken has one. If all sizes are known before, so is that.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import called_in, matrix_parameters
from onnx_systemds.dml.words import SIZE_FUNCTIONS
from onnx_systemds.importing.passes.block_cuts import untaken, with_never
from onnx_systemds.importing.passes.inlined_calls import has_loop
from onnx_systemds.importing.script import Script, with_functions

_WHY = "keeps the sizes in the loops known"
_SHORT = 16  # names with which the statement is one line
_KINDS = {"matrix", "scalar", "list"}


def with_kept_sizes(script: Script) -> Script:
    """The script with such a size in each function that has a loop, and computes sizes."""
    script = with_functions(script, map(_keeping, script.functions))
    return replace(script, library=tuple(map(_keeping, script.library)))


def _keeping(function: tree.Function) -> tree.Function:
    """The function with such a size; of frames the compiler would take old sizes after a branch."""
    kinds = {parameter.type.kind for parameter in function.parameters}
    matrices = matrix_parameters(function)
    if not has_loop(function) or not kinds <= _KINDS or not matrices or not _computes_sizes(function):
        return function
    name = matrices[0]  # data, of which weights that stand after it may be known before
    size = f"print(sum(matrix(0, rows=abs(nrow({name})), cols=1)))"
    kept = untaken((size,), _WHY, in_one_line=len(name) <= _SHORT)
    return replace(function, body=with_never((kept, *function.body)))


def _computes_sizes(function: tree.Function) -> bool:
    """Whether sizes in a function may be others at each call."""
    numbers = any(parameter.type.kind == "scalar" for parameter in function.parameters)
    return numbers or any(not SIZE_FUNCTIONS.isdisjoint(called_in(statement)) for statement in function.body)
