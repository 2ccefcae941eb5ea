"""Hides the sizes of a matrix from the engine's compiler where it would probe the function with an example size.

The compiler probes a function of one matrix that is called with several sizes: it compiles it for 7777 x 3333, and
sequences keep the lengths of that size (length-of-a-sequence-of-unknown-end of ``engine/faults/sizes.py``). A size that
other blocks cannot know as a number has no such effect.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.scopes import is_call, statements_in
from onnx_systemds.importing.passes.block_cuts import PROBED_CUT, cut, with_never
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.importing.passes.named_sizes import reads_size
from onnx_systemds.importing.passes.specialisation.trees import called_functions
from onnx_systemds.importing.script import Script, with_main

_ONE = tree.IntLiteral(1)


def without_probed_sizes(script: Script) -> Script:
    """The script with a main function whose sequences do not end at a probed size."""
    main = script.main
    if any(len(given) != 1 or given[0].type.kind != "matrix" for given in (main.parameters, main.results)):
        return script
    places = [place for place, statement in enumerate(main.body) if reads_size(statement)]
    straight = tuple(it for it in script.callable_functions.values() if is_straight(it.body))
    inlined = called_functions(tree.Script(straight), main.body)
    if not places or not any(map(_counts_to_size, (main, *inlined))):
        return script
    first, others = main.body[: places[-1] + 1], main.body[places[-1] + 1 :]
    body = (*map(_computed, first), cut(PROBED_CUT), *others)
    return with_main(script, replace(main, body=with_never(body)))


def _computed(statement: tree.Statement) -> tree.Statement:
    """A size divided by 1: the compiler does not propagate the quotient to other blocks."""
    if isinstance(statement, tree.Assign) and reads_size(statement):
        return replace(statement, value=tree.Binary("%/%", statement.value, _ONE))
    return statement


def _counts_to_size(function: tree.Function) -> bool:
    """Whether a statement of a function makes a sequence of computed length; ranges of loops do not count."""
    values = [it.value for it in statements_in(function.body) if isinstance(it, tree.Assign)]
    return any(map(_is_open_sequence, tree.walk(*values)))


def _is_open_sequence(node: object) -> bool:
    """Whether a node is a sequence up to a computed number; ``seq(1, nrow(X))`` is an operation on the matrix X."""
    if not is_call(node, "seq"):
        return False
    end = node.arguments[1].value
    return number_of(end) is None and not is_call(end, "nrow")
