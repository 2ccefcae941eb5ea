"""A matrix that gets one shape and then another one gets that at once.

So it is where a node gives its result in a form of its own, and what reads it wants another one.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import rewritten
from onnx_systemds.dml.scopes import called_in, is_reshape
from onnx_systemds.importing.script import Script, with_functions


def with_single_shapes(script: Script) -> Script:
    """The script whose functions give no matrix two shapes in one expression; specialised is the script as it was."""
    return with_functions(script, (
        rewritten(function, _reshaped_once) if _has_two_shapes(function) else function for function in script.functions
    ))


def _has_two_shapes(function: tree.Function) -> bool:
    """Whether a statement has several calls of matrix, so that one may be in another."""
    return any(called_in(statement).count("matrix") > 1 for statement in function.body)


def _reshaped_once(node: tree.Node) -> tree.Node:
    if not is_reshape(node) or not is_reshape(inner := node.arguments[0].value):
        return node
    return replace(node, arguments=(inner.arguments[0], *node.arguments[1:]))
