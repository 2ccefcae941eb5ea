"""Sizes of a function of one matrix, kept from those that the engine's compiler tries it with.

It tries a function of one matrix that is called with several sizes at 7777 x 3333, and sequences keep the lengths that
they get there (length-of-a-sequence-of-unknown-end of ``engine/faults/sizes.py``). A size that other blocks do not know
as a number is none for them.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.scopes import is_call, statements_in
from onnx_systemds.importing.passes.block_cuts import TRIED_CUT, cut, with_never
from onnx_systemds.importing.passes.inlined_calls import is_straight
from onnx_systemds.importing.passes.named_sizes import reads_size
from onnx_systemds.importing.passes.specialisation.trees import called_functions
from onnx_systemds.importing.script import Script, with_main

_ONE = tree.IntLiteral(1)


def with_untried_sizes(script: Script) -> Script:
    """The script whose main function counts to no size that the compiler only tries."""
    main = script.main
    if any(len(given) != 1 or given[0].type.kind != "matrix" for given in (main.parameters, main.results)):
        return script
    places = [place for place, statement in enumerate(main.body) if reads_size(statement)]
    straight = tuple(it for it in (*script.library, *script.functions) if is_straight(it.body))
    inlined = called_functions(tree.Script(straight), main.body)
    if not places or not any(map(_counts_to_size, (main, *inlined))):
        return script
    first, others = main.body[: places[-1] + 1], main.body[places[-1] + 1 :]
    body = (*map(_computed, first), cut(TRIED_CUT), *others)
    return with_main(script, replace(main, body=with_never(body)))


def _computed(statement: tree.Statement) -> tree.Statement:
    """A size as the quotient by 1, which the compiler does not hand on to other blocks."""
    if isinstance(statement, tree.Assign) and reads_size(statement):
        return replace(statement, value=tree.Binary("%/%", statement.value, _ONE))
    return statement


def _counts_to_size(function: tree.Function) -> bool:
    """Whether there is a sequence of computed length in a statement of a function; loops are none."""
    values = [it.value for it in statements_in(function.body) if isinstance(it, tree.Assign)]
    return any(map(_is_open_sequence, tree.walk(*values)))


def _is_open_sequence(node: object) -> bool:
    """Whether a node is a sequence up to a computed number; that of a matrix's rows is one of its operations."""
    if not is_call(node, "seq"):
        return False
    end = node.arguments[1].value
    return number_of(end) is None and not is_call(end, "nrow")
