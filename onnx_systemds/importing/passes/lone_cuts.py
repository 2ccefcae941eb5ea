"""Where a function has one branch that is never taken, the condition stands in it.

Functions with several of them ask the time once (see `block_cuts`).
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import name_counts
from onnx_systemds.importing.passes.block_cuts import NEVER, cut, is_never
from onnx_systemds.importing.script import Script, with_functions


def with_lone_cuts(script: Script) -> Script:
    """The script whose functions have no name for a condition that is asked once."""
    return with_functions(script, map(_with_lone_cut, script.functions))


def _with_lone_cut(function: tree.Function) -> tree.Function:
    defined = cut(NEVER)
    assert isinstance(defined, tree.Assign)
    condition = defined.value
    if defined not in function.body or name_counts(function.body)["never"] != 2:
        return function
    body = tuple(statement for statement in function.body if statement != defined)

    def change(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.If) or not is_never(node):
            return node
        made = replace(node, condition=condition)
        tree.keep_spelling(made, node.spelling.replace("if (never)", f"if ({print_expression(condition)})", 1))
        return made

    return rewritten(replace(function, body=body), change)
